"""The disk cache: later processes encode nothing, scores stay the same, failures cost a warning and no score."""

from __future__ import annotations

import errno
import os
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from filelock import FileLock

import twmd_registry
from tests.conftest import Texts
from tests.encode import cached
from tests.encode.cached import DIFFERENT, PAIRS, PREDICTIONS, REFERENCES, ROOM, score_and_count
from tests.processes import CONTEXT, run_beside
from twmd_registry.encode import disk
from twmd_registry.encode.disk import list_models
from twmd_registry.encode.store import TextKey
from twmd_registry.engine.result import ScoreSet
from twmd_registry.engine.scorer import Scorer
from twmd_registry.errors import TwmdWarning
from twmd_registry.models.files import packaged_adapters

OTHERS = ["a cat sat on the mat today", "a dog ran", "it rains"]


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TWMD_HOME", str(tmp_path / "home"))
    return tmp_path / "home" / "cache"


@pytest.fixture(scope="module")
def expected(bert: str) -> ScoreSet:
    return metric(bert, disk_cache=0).score(PREDICTIONS, REFERENCES)


def metric(model: str, name: str = "twmd", **keys: Any) -> Scorer:
    return cached.metric(model, name, **{"disk_cache": ROOM, **keys})


def score(scorer: Scorer, predictions: Any = PREDICTIONS, references: Any = REFERENCES) -> tuple[ScoreSet, int]:
    """Score by a model that is loaded for this call only, as in another process."""
    with scorer:
        return score_and_count(scorer, predictions, references)


def shards(cache: Path) -> list[Path]:
    return list(cache.rglob("*.safetensors"))


def size_of(cache: Path) -> int:
    return sum(path.stat().st_size for path in cache.rglob("*.*"))


def score_again(model: str) -> tuple[ScoreSet, int]:
    """Run in another process."""
    return score(metric(model))


def test_another_process_encodes_nothing(bert: str, expected: ScoreSet) -> None:
    assert score(metric(bert)) == (expected, DIFFERENT)
    assert run_beside(score_again, (bert,)) == [(expected, 0)]


def test_adapter_does_not_use_cached_texts_of_its_base_model() -> None:
    keys: dict[str, Any] = {"layer": 4, "centering": "none", "disk_cache": ROOM}
    adapter = str(packaged_adapters() / "stsb-siamese")
    numbers, scores = [], []
    for own in (keys, {**keys, "adapter": adapter}) * 2:
        one = twmd_registry.scorer("sbert", **own)
        before = one.backend.model.texts_encoded
        scores.append(one.score(PREDICTIONS, REFERENCES).scores)
        numbers.append(one.backend.model.texts_encoded - before)
    assert numbers == [DIFFERENT, DIFFERENT, 0, 0]
    assert scores[0] == scores[2] != scores[1] == scores[3]


def test_other_software_or_another_kind_of_device_does_not_use_cached_texts(monkeypatch: pytest.MonkeyPatch) -> None:
    import tokenizers
    import torch
    import transformers

    versions = [module.__version__ for module in (twmd_registry, torch, transformers, tokenizers)]
    plain = ([version.partition("+")[0] for version in listed] for listed in (disk.VERSIONS[1:], versions))
    assert next(plain) == next(plain)  # PyPI's torch has the label of its build in one of the two only

    def found(device: str = "cpu") -> list[TextKey]:
        files = SimpleNamespace(name="model", fingerprint="0123456789ab")
        encoder: Any = SimpleNamespace(files=files, adapter=None, dtype="float32", device=torch.device(device))
        texts = disk.DiskCache(encoder, 10**6)
        if not list(disk._shards(disk.cache_folder())):
            texts.keep({cached.key("it rains"): cached.some_text(3)})
        return list(texts.find([cached.key("it rains")]))

    assert found() == [cached.key("it rains")]
    assert found("cuda") == []
    for place in range(5):
        with monkeypatch.context() as patch:
            patch.setattr(disk, "VERSIONS", [*disk.VERSIONS[:place], "another", *disk.VERSIONS[place + 1 :]])
            assert found() == []


def test_chunks_and_shards_change_no_bit_of_a_score(texts: Texts, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("twmd_registry.engine.pipeline.CHUNK_TOKENS", 700)
    monkeypatch.setattr("twmd_registry.engine.pipeline.BLOCK_CELLS", 2000)
    monkeypatch.setattr(disk, "SHARD_BYTES", 100_000)
    runs = []
    for room in (0, ROOM, ROOM):
        one = twmd_registry.scorer("twmd", disk_cache=room)
        before = one.backend.model.texts_encoded
        runs.append(one.score(*texts))
        number = one.backend.model.texts_encoded - before
    assert runs[0] == runs[1] == runs[2]
    assert number == 0


def test_folder_is_made_on_request_only_and_holds_no_text(bert: str, cache: Path) -> None:
    score(metric(bert, disk_cache=0))
    assert not cache.exists()
    score(metric(bert))
    (path,) = shards(cache)
    content = path.read_bytes()
    assert len(content) > DIFFERENT * 16 * 4
    assert not any(word.encode() in content for word in ("the cat", "over", "hill"))


def flip(path: Path, place: int) -> None:
    content = bytearray(path.read_bytes())
    content[place] ^= 1 << place % 8
    path.write_bytes(content)


DAMAGE: dict[str, Callable[[Path], object]] = {
    "truncated": lambda path: os.truncate(path, path.stat().st_size - 1),
    "one bit": lambda path: flip(path, path.stat().st_size - 200),  # of the vectors
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_damaged_shards_are_removed_with_a_single_warning(
    bert: str, expected: ScoreSet, cache: Path, damage: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(disk, "SHARD_BYTES", 1)
    assert score(metric(bert)) == (expected, DIFFERENT)
    paths = shards(cache)
    assert len(paths) == DIFFERENT
    for path in paths[:4]:
        DAMAGE[damage](path)
    message = r"^disk cache: 4 damaged file\(s\) in .*cache are removed; their texts are encoded again"
    with pytest.warns(TwmdWarning, match=message) as caught:
        found, number = score(metric(bert))
    assert (number, len(caught)) == (4, 1)
    np.testing.assert_allclose(found.scores, expected.scores, rtol=0, atol=1e-5)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert score(metric(bert)) == (expected, 0)
        shards(cache)[0].unlink()
        assert score(metric(bert))[1] == 1


def test_shard_with_any_changed_byte_is_damaged(bert: str, cache: Path) -> None:
    score(metric(bert))
    (path,) = shards(cache)
    sound, names = path.read_bytes(), disk._describe(path)[1].keys()
    assert len(disk._unpack(path, names)) == DIFFERENT
    for place in range(0, len(sound), 97):
        path.write_bytes(sound)
        flip(path, place)
        with pytest.raises(disk.DAMAGED):
            disk._unpack(path, names)


def no_folder(cache: Path, patch: pytest.MonkeyPatch) -> None:
    cache.parent.mkdir()
    cache.write_text("a file")


def full_disk(cache: Path, patch: pytest.MonkeyPatch) -> None:
    def fail(path: Path, content: bytes) -> None:
        path.with_name(f"{path.name}.part").write_bytes(content[:100])
        raise OSError(errno.ENOSPC, "No space left on device")

    patch.setattr(disk, "write_atomically", fail)


def locked(cache: Path, patch: pytest.MonkeyPatch) -> FileLock:
    cache.mkdir(parents=True)
    holder = FileLock(cache / "lock")
    holder.acquire()
    patch.setattr(disk, "WAIT_SECONDS", 0.05)
    return holder


@pytest.mark.parametrize("trouble", [no_folder, full_disk, locked])
def test_unusable_folder_gives_a_single_warning_and_all_scores(
    bert: str,
    expected: ScoreSet,
    cache: Path,
    trouble: Callable[[Path, pytest.MonkeyPatch], FileLock | None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    one = metric(bert)
    assert one.spec
    message = r"^disk cache: .*cache cannot be used \(.*\); scoring continues without it"
    with monkeypatch.context() as patch:
        held = trouble(cache, patch)
        patch.setattr("twmd_registry.engine.pipeline.CHUNK_TOKENS", 8)
        with pytest.warns(TwmdWarning, match=message) as caught:
            scores = one.score(*PAIRS).scores
        assert len(caught) == 1
        if held:
            held.release()
    np.testing.assert_allclose(scores, expected.scores, rtol=0, atol=1e-5)
    if trouble is full_disk:  # the next writer removes the partial file
        assert len(list(cache.rglob("*.part"))) == 1
        one.score(*PAIRS)
        assert list(cache.rglob("*.part")) == []
        assert [use["texts"] for use in list_models(cache)] == [DIFFERENT]


@pytest.mark.parametrize("room", [500, 6000, 12_000, 10**6])
def test_cache_never_exceeds_its_bound_and_fits_stay(
    bert: str, expected: ScoreSet, cache: Path, room: int, recwarn: pytest.WarningsRecorder
) -> None:
    numbers = []
    for _ in range(3):
        found, number = score(metric(bert, disk_cache=room))
        np.testing.assert_allclose(found.scores, expected.scores, rtol=0, atol=1e-5)
        assert size_of(cache) <= room
        numbers.append(number)
    held = sum(use["texts"] for use in list_models(cache))
    assert numbers[0] == DIFFERENT
    assert numbers[1] >= numbers[2] >= DIFFERENT - held  # a second run may fill a gap with smaller shards
    assert (held == 0) if room == 500 else (held == DIFFERENT) if room == 10**6 else held > 0
    assert score(metric(bert, disk_cache=room))[1] == DIFFERENT - held
    assert not recwarn.list


def test_least_recently_used_shard_is_removed_first(bert: str, cache: Path) -> None:
    size = 0

    def encoded(text: str) -> int:
        nonlocal size
        number = score(metric(bert, disk_cache=int(2.5 * size) or ROOM), [text], [text])[1]
        size = size or size_of(cache)
        return number

    texts = ("the cat", "a dog", "the cat", "we ran", "the cat", "we ran", "a dog")
    assert [encoded(text) for text in texts] == [1, 1, 0, 1, 0, 0, 1]


ROUNDS, WINDOW, SMALL = 8, 5, 14_000


def windows(start: int) -> Iterator[tuple[list[str], list[str]]]:
    """Yield texts that change from round to round, some of which the other process has, too."""
    places = ("on mat", "in rain", "today")
    texts = [
        f"{who} {verb} {place}" for who in ("the cat", "a dog", "we") for verb in ("sat", "ran") for place in places
    ]
    for first in range(start, start + ROUNDS):
        rows = (texts * 3)[first : first + WINDOW + 2]
        yield rows[:WINDOW], rows[2:]


def score_in_rounds(model: str, home: str, start: int, barrier: Any, answers: Any) -> None:
    """Run in one of several processes."""
    os.environ["TWMD_HOME"] = home
    warnings.simplefilter("error", TwmdWarning)
    disk.SHARD_BYTES = 1200
    with metric(model, disk_cache=SMALL) as one:
        assert one.spec
        barrier.wait(timeout=300)
        scores = [one.score(*texts).scores for texts in windows(start)]
        answers.put((start, scores, one.backend.model.texts_encoded))


def test_processes_may_write_read_and_evict_at_once(bert: str, cache: Path) -> None:
    starts = (0, 3)
    barrier, answers = CONTEXT.Barrier(len(starts)), CONTEXT.Queue()
    given = [(bert, str(cache.parent), start, barrier, answers) for start in starts]
    workers = [CONTEXT.Process(target=score_in_rounds, args=arguments) for arguments in given]
    for worker in workers:
        worker.start()
    found = [answers.get(timeout=300) for _ in workers]
    for worker in workers:
        worker.join(timeout=60)
        assert worker.exitcode == 0
    plain = metric(bert, disk_cache=0)
    for start, scores, encoded in found:
        for texts, own in zip(windows(start), scores, strict=True):
            np.testing.assert_allclose(own, plain.score(*texts).scores, rtol=0, atol=1e-5)
        assert encoded < ROUNDS * (WINDOW + 2)  # the number of texts without a cache
    assert size_of(cache) <= SMALL
    (use,) = list_models(cache)
    assert use["shards"] == len(shards(cache))
    assert use["texts"] > 0
