"""The disk cache when something is wrong with the disk, or when several processes use it: scores stay, and one warning
says why."""

from __future__ import annotations

import errno
import os
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from filelock import FileLock

import twmd_registry
from tests import tiny
from tests.processes import CONTEXT
from twmd_registry.encode import disk
from twmd_registry.encode.disk import list_models
from twmd_registry.errors import TwmdWarning

PREDICTIONS = ["the cat sat", "a dog ran over the hill", "it"]
REFERENCES = ["the cat sat on the mat", "a dog ran", "it ran again"]
DIFFERENT = 6
KEYS: dict[str, Any] = {"layer": 2, "centering": "none"}


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(tiny.save_encoder("bert", tmp_path_factory.mktemp("bert")))


@pytest.fixture(scope="module")
def expected(model: str) -> tuple[float, ...]:
    return twmd_registry.scorer("twmd", model=model, **KEYS).score(PREDICTIONS, REFERENCES).scores


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TWMD_HOME", str(tmp_path / "home"))
    return tmp_path / "home" / "cache"


def run(model: str, size: int | str = "10MB") -> tuple[tuple[float, ...], int]:
    """Scores of a model loaded for this alone, and how many texts it has encoded."""
    with twmd_registry.scorer("twmd", model=model, disk_cache=size, **KEYS) as one:
        before = one.backend.model.sentences_encoded
        return one.score(PREDICTIONS, REFERENCES).scores, one.backend.model.sentences_encoded - before


def shards(cache: Path) -> list[Path]:
    return list(cache.rglob("*.safetensors"))


def only_shard(cache: Path) -> Path:
    (path,) = shards(cache)
    return path


def size_of(cache: Path) -> int:
    return sum(path.stat().st_size for path in cache.rglob("*.*"))


def flip(path: Path, place: int) -> None:
    content = bytearray(path.read_bytes())
    content[place] ^= 1
    path.write_bytes(content)


DAMAGE: dict[str, Callable[[Path], object]] = {
    "truncated": lambda path: os.truncate(path, path.stat().st_size - 1),
    "emptied": lambda path: os.truncate(path, 0),
    "one bit": lambda path: flip(path, path.stat().st_size // 2),
    "header": lambda path: flip(path, 9),
    "other file": lambda path: path.write_bytes(b"nonsense"),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_damaged_shard_is_encoded_again(
    model: str, expected: tuple[float, ...], cache: Path, damage: str, recwarn: pytest.WarningsRecorder
) -> None:
    assert run(model) == (expected, DIFFERENT)
    DAMAGE[damage](only_shard(cache))
    assert not recwarn.list
    with pytest.warns(
        TwmdWarning, match=r"^disk cache: 1 damaged file\(s\) in .*cache are removed; their texts are encoded again"
    ) as caught:
        assert run(model) == (expected, DIFFERENT)
    assert len(caught) == 1
    assert run(model) == (expected, 0)
    assert not recwarn.list
    assert only_shard(cache).stat().st_size > 1000


def test_one_warning_for_many_damaged_shards(
    model: str, expected: tuple[float, ...], cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(disk, "SHARD_BYTES", 1)
    run(model)
    paths = shards(cache)
    assert len(paths) == DIFFERENT
    for path in paths[:4]:
        flip(path, path.stat().st_size - 300)
    with pytest.warns(TwmdWarning, match="4 damaged") as caught:
        scores, number = run(model)
    assert (number, len(caught)) == (4, 1)
    np.testing.assert_allclose(scores, expected, rtol=0, atol=1e-5)


def test_shard_that_is_gone_is_encoded_again_in_silence(
    model: str, expected: tuple[float, ...], cache: Path, recwarn: pytest.WarningsRecorder
) -> None:
    run(model)
    only_shard(cache).unlink()
    assert run(model) == (expected, DIFFERENT)
    assert not recwarn.list


def test_every_changed_byte_of_a_shard_is_noticed(model: str, expected: tuple[float, ...], cache: Path) -> None:
    run(model)
    path = only_shard(cache)
    sound, header = path.read_bytes(), int.from_bytes(path.read_bytes()[:8], "little")
    places = [*range(0, 8 + header, 7), *range(8 + header, len(sound), 97)]
    for place in places:
        path.unlink(missing_ok=True)  # shards never change: another content is another file
        path.write_bytes(sound[:place] + bytes([sound[place] ^ (1 << place % 8)]) + sound[place + 1 :])
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            scores, encoded = run(model)
        np.testing.assert_allclose(scores, expected, rtol=0, atol=1e-6)
        assert (
            encoded == 0 or len(caught) == 1 or place < 8 + header
        )  # of a name in the header, none of its texts is found


def no_folder(cache: Path, patch: pytest.MonkeyPatch) -> None:
    cache.parent.mkdir()
    cache.write_text("a file")


def no_rights(cache: Path, patch: pytest.MonkeyPatch) -> None:
    def refuse(self: Path, *_: Any, **__: Any) -> None:
        raise PermissionError(errno.EACCES, "Permission denied", str(self))

    patch.setattr(Path, "mkdir", refuse)


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


@pytest.mark.parametrize("trouble", [no_folder, no_rights, full_disk, locked])
def test_scoring_goes_on_without_a_cache(
    model: str,
    expected: tuple[float, ...],
    cache: Path,
    trouble: Callable[[Path, pytest.MonkeyPatch], object],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    one = twmd_registry.scorer("twmd", model=model, disk_cache="10MB", **KEYS)
    assert one.spec
    with monkeypatch.context() as patch:
        held = trouble(cache, patch)
        patch.setattr("twmd_registry.engine.pipeline.CHUNK_TOKENS", 8)
        with pytest.warns(
            TwmdWarning, match=r"^disk cache: .*cache cannot be used \(.*\); scoring goes on without it"
        ) as caught:
            scores = one.score(PREDICTIONS, REFERENCES).scores
        assert len(caught) == 1
        if isinstance(held, FileLock):
            held.release()
    np.testing.assert_allclose(scores, expected, rtol=0, atol=1e-5)
    if trouble is full_disk:
        assert len(list(cache.rglob("*.part"))) == 1
        one.score(PREDICTIONS, REFERENCES)
        assert list(cache.rglob("*.part")) == []
        assert [use.texts for use in list_models(cache)] == [DIFFERENT]


@pytest.mark.parametrize("size", [1, 500, 3000, 6000, 10**6])
def test_bound_holds_whatever_it_is(
    model: str, expected: tuple[float, ...], cache: Path, size: int, recwarn: pytest.WarningsRecorder
) -> None:
    numbers = []
    for _ in range(3):
        scores, number = run(model, size)
        np.testing.assert_allclose(scores, expected, rtol=0, atol=1e-5)
        assert size_of(cache) <= size
        numbers.append(number)
    # What fits is found from the second run on (which may fill a gap by smaller shards), and what does not fit pushes
    # none of it out.
    held = sum(use.texts for use in list_models(cache))
    assert numbers[0] == DIFFERENT
    assert numbers[1] >= numbers[2] >= DIFFERENT - held
    assert (held == 0) if size <= 500 else (held == DIFFERENT) if size == 10**6 else held > 0
    assert run(model, size)[1] == DIFFERENT - held
    assert not recwarn.list


def test_smaller_bound_shrinks_the_cache_when_something_is_written(model: str, cache: Path) -> None:
    run(model)
    size = only_shard(cache).stat().st_size
    with twmd_registry.scorer("twmd", model=model, disk_cache=size, **KEYS) as one:
        one.score(["we saw it"], ["again today"])
    assert [use.texts for use in list_models(cache)] in ([1], [2])
    assert size_of(cache) <= size


ROUNDS, WINDOW, SMALL = 12, 5, 9_000


def sentences() -> list[str]:
    return [
        f"{subject} {verb} {place}"
        for subject in ("the cat", "a dog", "we")
        for verb in ("sat", "ran")
        for place in ("on mat", "in rain", "today")
    ]


def windows(start: int) -> Iterator[tuple[list[str], list[str]]]:
    """Texts that change from round to round, and of which every process has some that another has, too."""
    texts = sentences() * 3
    for number in range(ROUNDS):
        first = start + number
        yield texts[first : first + WINDOW], texts[first + 2 : first + 2 + WINDOW]


def score_in_rounds(model: str, home: str, start: int, barrier: Any, answers: Any) -> None:
    """What one of several processes does."""
    os.environ["TWMD_HOME"] = home
    warnings.simplefilter("error", TwmdWarning)
    disk.SHARD_BYTES = 1200
    scores = []
    with twmd_registry.scorer("twmd", model=model, disk_cache=SMALL, **KEYS) as one:
        assert one.spec
        barrier.wait(timeout=300)
        for predictions, references in windows(start):
            scores.append(one.score(predictions, references).scores)
        answers.put((start, scores, one.backend.model.sentences_encoded))


def test_processes_write_read_and_evict_at_once(model: str, cache: Path) -> None:
    starts = (0, 3)
    barrier, answers = CONTEXT.Barrier(len(starts)), CONTEXT.Queue()
    workers = [
        CONTEXT.Process(target=score_in_rounds, args=(model, str(cache.parent), start, barrier, answers))
        for start in starts
    ]
    for worker in workers:
        worker.start()
    found = [answers.get(timeout=300) for _ in workers]
    for worker in workers:
        worker.join(timeout=60)
        assert worker.exitcode == 0
    with twmd_registry.scorer("twmd", model=model, **KEYS) as plain:
        for start, scores, encoded in found:
            for (predictions, references), own in zip(windows(start), scores, strict=True):
                np.testing.assert_allclose(own, plain.score(predictions, references).scores, rtol=0, atol=1e-5)
            assert encoded < ROUNDS * (WINDOW + 2)  # without a cache, every round encodes seven different texts
    assert size_of(cache) <= SMALL
    (use,) = list_models(cache)
    assert use.shards == len(shards(cache))
    assert use.texts > 0


def test_least_recently_used_shard_goes_first(model: str, cache: Path) -> None:
    with twmd_registry.scorer("twmd", model=model, **KEYS) as plain:
        assert plain.spec  # keeps the model loaded
        size = 0
        for texts in (["the cat"], ["a dog"], ["the cat"], ["we ran"]):
            room = "10MB" if size == 0 else int(2.5 * size)
            twmd_registry.scorer("twmd", model=model, disk_cache=room, **KEYS).score(texts, texts)
            size = size or size_of(cache)
        before = plain.backend.model.sentences_encoded
        for texts, encoded in ((["the cat"], 0), (["we ran"], 0), (["a dog"], 1)):
            twmd_registry.scorer("twmd", model=model, disk_cache=int(2.5 * size), **KEYS).score(texts, texts)
            assert plain.backend.model.sentences_encoded - before == encoded
            before = plain.backend.model.sentences_encoded
