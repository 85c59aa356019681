"""The disk cache when something is wrong with the disk, or when several processes use it: scores stay, and one warning says why."""

from __future__ import annotations

import errno
import os
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import twmd_registry
from tests import tiny
from tests.processes import CONTEXT
from twmd_registry.encode import disk
from twmd_registry.encode import index as index_module
from twmd_registry.encode.index import Index
from twmd_registry.encode.shards import read_entries, read_texts
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


def only_shard(cache: Path) -> Path:
    (path,) = cache.glob("shard-*")
    return path


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
    "gone": Path.unlink,
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_shard_is_encoded_again(
    model: str, expected: tuple[float, ...], cache: Path, damage: str, recwarn: pytest.WarningsRecorder
) -> None:
    assert run(model) == (expected, DIFFERENT)
    DAMAGE[damage](only_shard(cache))
    assert not recwarn.list
    with pytest.warns(
        TwmdWarning, match=r"^disk cache: 1 damaged or missing file\(s\) in .*cache are given up; their texts are encoded again"
    ) as caught:
        assert run(model) == (expected, DIFFERENT)
    assert len(caught) == 1
    assert run(model) == (expected, 0)
    assert not recwarn.list
    assert only_shard(cache).stat().st_size > 1000


def test_one_warning_for_many_damaged_shards(model: str, expected: tuple[float, ...], cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(disk, "SHARD_BYTES", 1)
    run(model)
    paths = list(cache.glob("shard-*"))
    assert len(paths) == DIFFERENT
    for path in paths[:4]:
        flip(path, path.stat().st_size - 300)
    with pytest.warns(TwmdWarning, match="4 damaged or missing") as caught:
        scores, number = run(model)
    assert (number, len(caught)) == (4, 1)
    np.testing.assert_allclose(scores, expected, rtol=0, atol=1e-5)


def test_a_broken_index_costs_one_warning_and_no_text(model: str, expected: tuple[float, ...], cache: Path) -> None:
    run(model)
    (cache / "index.sqlite").write_bytes(b"nonsense " * 500)
    with pytest.warns(TwmdWarning, match="index of the disk cache was damaged") as caught:
        assert run(model) == (expected, 0)
    assert len(caught) == 1


def no_folder(cache: Path, patch: pytest.MonkeyPatch) -> None:
    cache.parent.mkdir()
    cache.write_text("a file")


def no_rights(cache: Path, patch: pytest.MonkeyPatch) -> None:
    def refuse(self: Path, *_: Any, **__: Any) -> None:
        raise PermissionError(errno.EACCES, "Permission denied", str(self))

    patch.setattr(Path, "mkdir", refuse)


def read_only_index(cache: Path, patch: pytest.MonkeyPatch) -> None:
    def read_only(file: Path, **how: Any) -> sqlite3.Connection:
        connection: sqlite3.Connection = connect(f"file:{file}?mode=ro", uri=True, **how)
        return connection

    connect = sqlite3.connect
    cache.mkdir(parents=True)
    connect(cache / "index.sqlite").close()
    patch.setattr(sqlite3, "connect", read_only)


def full_disk(cache: Path, patch: pytest.MonkeyPatch) -> None:
    def fail(path: Path, content: bytes) -> None:
        path.with_name(f"{path.name}.part").write_bytes(content[:100])
        raise OSError(errno.ENOSPC, "No space left on device")

    patch.setattr(index_module, "write_whole", fail)


def full_index(cache: Path, patch: pytest.MonkeyPatch) -> None:
    connect = sqlite3.connect

    def small(*given: Any, **how: Any) -> sqlite3.Connection:
        connection: sqlite3.Connection = connect(*given, **how)
        connection.execute("PRAGMA max_page_count = 3")
        return connection

    patch.setattr(sqlite3, "connect", small)


def locked(cache: Path, patch: pytest.MonkeyPatch) -> sqlite3.Connection:
    Index(cache).add({}, "m", 0, 0)
    holder = sqlite3.connect(cache / "index.sqlite", isolation_level=None)
    holder.execute("BEGIN EXCLUSIVE")
    patch.setattr(index_module, "WAIT_SECONDS", 0.05)
    return holder


@pytest.mark.parametrize("trouble", [no_folder, no_rights, read_only_index, full_disk, full_index, locked])
def test_scoring_goes_on_without_a_cache(
    model: str, expected: tuple[float, ...], cache: Path, trouble: Callable[[Path, pytest.MonkeyPatch], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    one = twmd_registry.scorer("twmd", model=model, disk_cache="10MB", **KEYS)
    assert one.spec
    with monkeypatch.context() as patch:
        held = trouble(cache, patch)
        patch.setattr("twmd_registry.engine.pipeline.CHUNK_TOKENS", 8)
        with pytest.warns(TwmdWarning, match=r"^disk cache: .*cache cannot be used \(.*\); scoring goes on without it") as caught:
            scores = one.score(PREDICTIONS, REFERENCES).scores
        assert len(caught) == 1
        if isinstance(held, sqlite3.Connection):
            held.close()
    np.testing.assert_allclose(scores, expected, rtol=0, atol=1e-5)
    if trouble is full_disk:
        assert list(cache.glob("shard-*")) != []
        one.score(PREDICTIONS, REFERENCES)
        assert read_entries(only_shard(cache)) is not None


@pytest.mark.parametrize("size", [1, 500, 3000, 6000, 10**6])
def test_the_bound_holds_whatever_it_is(model: str, expected: tuple[float, ...], cache: Path, size: int, recwarn: pytest.WarningsRecorder) -> None:
    numbers = []
    for _ in range(3):
        scores, number = run(model, size)
        np.testing.assert_allclose(scores, expected, rtol=0, atol=1e-5)
        assert sum(path.stat().st_size for path in cache.glob("shard-*")) <= size
        numbers.append(number)
    # What fits is found from the second run on, and what does not fit pushes none of it out.
    held = sum(use.texts for use in Index(cache).models())
    assert numbers == [DIFFERENT, DIFFERENT - held, DIFFERENT - held]
    assert (held == 0) if size <= 500 else (held == DIFFERENT) if size == 10**6 else 0 < held < DIFFERENT
    assert not recwarn.list


def test_a_smaller_bound_shrinks_the_cache_when_something_is_written(model: str, cache: Path) -> None:
    run(model)
    size = only_shard(cache).stat().st_size
    with twmd_registry.scorer("twmd", model=model, disk_cache=size, **KEYS) as one:
        one.score(["we saw it"], ["again today"])
    assert [use.texts for use in Index(cache).models()] in ([1], [2])
    assert sum(path.stat().st_size for path in cache.glob("shard-*")) <= size


ROUNDS, WINDOW, SMALL = 12, 5, 9_000


def sentences() -> list[str]:
    return [
        f"{subject} {verb} {place}" for subject in ("the cat", "a dog", "we") for verb in ("sat", "ran") for place in ("on mat", "in rain", "today")
    ]


def windows(start: int) -> Iterator[tuple[list[str], list[str]]]:
    """Texts that change from round to round, and of which every process has some that another has, too."""
    texts = sentences() * 3
    for number in range(ROUNDS):
        first = start + number
        yield texts[first : first + WINDOW], texts[first + 2 : first + 2 + WINDOW]


def score_in_rounds(model: str, home: str, start: int, barrier: Any, answers: Any) -> None:
    """What one of several processes does."""
    import warnings

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
    workers = [CONTEXT.Process(target=score_in_rounds, args=(model, str(cache.parent), start, barrier, answers)) for start in starts]
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
    assert sum(path.stat().st_size for path in cache.glob("shard-*")) <= SMALL
    shards = [(path, read_entries(path)) for path in cache.glob("shard-*")]
    assert all(shard is not None and read_texts(path, shard.entries) is not None for path, shard in shards)
    (use,) = Index(cache).models()
    assert use.shards == len(shards)
    assert use.texts == sum(len(shard.entries) for _, shard in shards if shard)
    assert use.texts < len(sentences())
