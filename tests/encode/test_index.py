"""The index and its shards: what comes back is what was kept, the bound holds, and no damage gives a wrong vector."""

from __future__ import annotations

import random
import shutil
import sqlite3
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from twmd_registry.encode import index as index_module
from twmd_registry.encode.cache import CachedText
from twmd_registry.encode.index import Index
from twmd_registry.encode.shards import ShardEntry, packed_bytes, read_entries, read_texts
from twmd_registry.errors import TwmdWarning
from twmd_registry.registry.paths import write_whole

PLENTY = 10**9
LATER = float("inf")
"""Everything was used before: anything may make room."""


def some_text(seed: int, tokens: int = 4, layers: int = 2, missing: tuple[str, ...] = ()) -> CachedText:
    draw = np.random.default_rng(seed)
    vectors = draw.normal(size=(layers, tokens, 8)).astype(np.float32)
    flags = [bool(flag) for flag in draw.integers(0, 2, 3)]
    return CachedText(vectors, draw.integers(0, 3, tokens, dtype=np.uint8), draw.integers(0, 99, tokens), flags[0], flags[1], flags[2], missing)


def texts_of(*names: str) -> dict[str, CachedText]:
    return {name: some_text(ord(name[0]), 50) for name in names}


def same(one: CachedText, other: CachedText) -> bool:
    arrays = all(a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes() for a, b in zip(one[:3], other[:3], strict=True))
    return arrays and one[3:] == other[3:]


def size_of(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.glob("shard-*"))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "cache"


@pytest.fixture
def one_shard(folder: Path) -> int:
    """Bytes that a shard of one text takes, as they are reckoned beforehand."""
    return packed_bytes(texts_of("a"), "m")


def test_what_comes_back_is_what_was_kept(folder: Path) -> None:
    texts = {str(i): some_text(i, tokens, missing=("h\u00e9ron", 'a "b"\n')[: i % 3]) for i, tokens in enumerate([3, 0, 1, 7, 0, 0, 2, 5, 0])}
    assert len({text[3:6] for text in texts.values()}) > 4
    assert Index(folder).add(texts, "m", PLENTY, 0)
    for wanted in (list(texts), ["4"], ["8", "nobody", "0"], ["nobody"], []):
        found = Index(folder).find(wanted)
        assert found.damaged == 0
        assert set(found.texts) == set(wanted) & set(texts)
        assert all(same(text, texts[key]) for key, text in found.texts.items())


def test_texts_without_any_token_are_kept(folder: Path) -> None:
    texts = {"a": some_text(0, tokens=0, layers=3), "b": some_text(1, tokens=0, layers=3)}
    Index(folder).add(texts, "m", PLENTY, 0)
    found = Index(folder).find(["a", "b"]).texts
    assert all(same(found[key], texts[key]) for key in texts)


def test_what_is_kept_already_is_not_written_again(folder: Path) -> None:
    index = Index(folder)
    index.add(texts_of("a", "b"), "m", PLENTY, 0)
    before = size_of(folder)
    assert index.add(texts_of("b", "a"), "m", PLENTY, 0)
    assert size_of(folder) == before
    index.add(texts_of("b", "c"), "m", PLENTY, 0)
    held = [read_entries(path) for path in folder.glob("shard-*")]
    assert sorted([entry.key for entry in shard.entries] for shard in held if shard) == [["a", "b"], ["c"]]


def test_a_shard_takes_no_more_than_was_reckoned(folder: Path) -> None:
    for number, texts in enumerate([texts_of("a"), {str(i): some_text(i, i % 5, missing=("\u6f22" * i,) * (i % 2)) for i in range(300)}]):
        Index(folder / str(number)).add(texts, "m\u00e9", PLENTY, 0)
        assert 0 < size_of(folder / str(number)) <= packed_bytes(texts, "m\u00e9")


def test_the_least_recently_used_goes_first(folder: Path, one_shard: int) -> None:
    index = Index(folder)
    assert all(index.add(texts_of(name), "m", 3 * one_shard, LATER) for name in "abc")
    assert set(index.find(["a"]).texts) == {"a"}
    assert index.add(texts_of("d"), "m", 3 * one_shard, LATER)
    assert set(index.find("abcd").texts) == {"a", "c", "d"}


@pytest.mark.parametrize("seed", range(5))
def test_eviction_is_that_of_a_list_in_the_order_of_use(folder: Path, one_shard: int, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    draw, index, clock = random.Random(seed), Index(folder), iter(range(1, 10**6))
    monkeypatch.setattr(time, "time", lambda: float(next(clock)))
    order: list[str] = []  # least recently used first
    sizes: dict[str, int] = {}
    bound = 4 * one_shard
    for _ in range(60):
        name = draw.choice("abcdefgh")
        if draw.random() < 0.4:
            assert set(index.find([name]).texts) == {name} & set(order)
            if name in order:
                order.append(order.pop(order.index(name)))
            continue
        assert index.add(texts_of(name), "m", bound, LATER)
        if name not in order:
            while sum(sizes[other] for other in order) + one_shard > bound:
                order.pop(0)
            order.append(name)
            sizes[name] = size_of(folder) - sum(sizes[other] for other in order[:-1])
        assert size_of(folder) == sum(sizes[other] for other in order) <= bound
    assert len(order) >= 4
    assert set(index.find("abcdefgh").texts) == set(order)


def test_what_this_call_has_used_makes_no_room(folder: Path, one_shard: int) -> None:
    index, since = Index(folder), time.time()
    assert [index.add(texts_of(name), "m", 2 * one_shard, since) for name in "abc"] == [True, True, False]
    assert set(index.find("abc").texts) == {"a", "b"}
    since = time.time()
    index.find("b")
    assert index.add(texts_of("c"), "m", 2 * one_shard, since)
    assert set(index.find("abc").texts) == {"b", "c"}


def test_what_never_fits_removes_nothing(folder: Path, one_shard: int) -> None:
    index = Index(folder)
    assert index.add(texts_of("a"), "m", one_shard, LATER)
    assert not index.add({"b": some_text(1, tokens=500)}, "m", 2 * one_shard, LATER)
    assert not index.add(texts_of("c"), "m", one_shard - 1, LATER)
    assert set(index.find("abc").texts) == {"a"}


def test_the_bound_holds_while_a_shard_is_written(folder: Path, one_shard: int, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = []

    def watched(path: Path, content: bytes) -> None:
        sizes.append(size_of(folder) + len(content))
        write_whole(path, content)

    monkeypatch.setattr(index_module, "write_whole", watched)
    for name in "abcdefgh":
        assert Index(folder).add(texts_of(name), "m", 3 * one_shard, LATER)
    assert len(sizes) == 8
    assert 2 * one_shard < max(sizes) <= 3 * one_shard


def test_many_small_shards_become_one(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index_module, "MANY", 5)
    monkeypatch.setattr(index_module, "SMALL_BYTES", 12_000)
    index, kept, numbers = Index(folder), dict[str, CachedText](), []
    for i in range(60):
        text = {str(i): some_text(i, 10, layers=1 + i % 2)}
        assert index.add(text, "mn"[i % 3 == 0], PLENTY, 0)
        kept |= text
        numbers.append(sum(use.shards for use in index.models()))
        assert len(list(folder.glob("shard-*"))) <= numbers[-1] + 5  # the merged ones go with the next write
    assert max(numbers) < 4 * 5 + 60 / 10  # four kinds
    found = index.find(kept)
    assert found.damaged == 0
    assert set(found.texts) == set(kept)
    assert all(same(found.texts[key], kept[key]) for key in kept)
    assert sum(use.texts for use in index.models()) == 60
    (folder / "index.sqlite").unlink()
    assert set(Index(folder).find(kept).texts) == set(kept)


def test_small_shards_become_one_only_where_there_is_room_for_both(folder: Path, one_shard: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index_module, "MANY", 3)
    bound, sizes = 6 * one_shard, []
    for name in "abcdefghijkl":
        assert Index(folder).add(texts_of(name), "m", bound, LATER)
        sizes.append((size_of(folder), sum(use.shards for use in Index(folder).models())))
    assert max(size for size, _ in sizes) <= bound
    assert sizes[3][1] == 1
    assert len(Index(folder).find("abcdefghijkl").texts) >= 2


def test_a_damaged_small_shard_is_left_out_when_they_become_one(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index_module, "MANY", 3)
    for name in "abc":
        Index(folder).add(texts_of(name), "m", PLENTY, 0)
    path = next(path for path in folder.glob("shard-*") if [entry.key for entry in (read_entries(path) or pytest.fail("damaged")).entries] == ["b"])
    path.write_bytes(path.read_bytes()[:-1])
    Index(folder).add(texts_of("d"), "m", PLENTY, 0)
    found = Index(folder).find("abcd")
    assert set(found.texts) == {"a", "c", "d"}
    assert found.damaged == 0
    assert Index(folder).models()[0].shards == 1


@pytest.mark.parametrize("error", [KeyboardInterrupt, OSError])
def test_what_a_writer_that_died_has_left_is_swept(folder: Path, error: type[BaseException], monkeypatch: pytest.MonkeyPatch) -> None:
    index = Index(folder)
    index.add(texts_of("a"), "m", PLENTY, 0)

    def die(path: Path, content: bytes) -> None:
        path.write_bytes(content)
        path.with_name(f"{path.name}.77.part").write_bytes(content[:99])
        raise error

    with monkeypatch.context() as patch:
        patch.setattr(index_module, "write_whole", die)
        with pytest.raises(error):
            index.add(texts_of("b"), "m", PLENTY, 0)
    assert len(list(folder.glob("shard-*"))) == 3
    assert set(index.find("ab").texts) == {"a"}
    index.add(texts_of("c"), "m", PLENTY, 0)
    assert len(list(folder.glob("shard-*"))) == 2
    assert set(index.find("abc").texts) == {"a", "c"}


def test_eviction_between_look_up_and_reading_is_no_damage(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    index = Index(folder)
    index.add(texts_of("a"), "m", PLENTY, 0)

    def evicted_meanwhile(path: Path, entries: list[ShardEntry]) -> dict[str, CachedText] | None:
        Index(folder).clear({"m"})
        return read_texts(path, entries)

    monkeypatch.setattr(index_module, "read_texts", evicted_meanwhile)
    assert index.find("a") == ({}, 0)


def test_every_changed_byte_of_a_shard_is_noticed(folder: Path) -> None:
    index, texts = Index(folder), {"a": some_text(1), "b": some_text(2, 0), "c": some_text(3, 2, missing=("stork",))}
    index.add(texts, "m", PLENTY, 0)
    (path,) = folder.glob("shard-*")
    sound, shard = path.read_bytes(), read_entries(path)
    assert shard is not None
    noticed = 0
    for place in range(len(sound)):
        path.write_bytes(sound[:place] + bytes([sound[place] ^ (1 << place % 8)]) + sound[place + 1 :])
        found = read_texts(path, shard.entries)
        assert found is None or all(same(found[key], texts[key]) for key in texts)
        noticed += found is None
    arrays = sum(text.vectors.nbytes + text.special.nbytes + text.ids.nbytes for text in texts.values())
    assert noticed >= arrays
    for length in range(0, len(sound), 37):
        path.write_bytes(sound[:length])
        assert read_texts(path, shard.entries) is None
    path.write_bytes(sound)
    assert set(read_texts(path, shard.entries) or {}) == set(texts)


def test_a_wrong_row_of_the_index_gives_no_wrong_text(folder: Path) -> None:
    texts = {"a": some_text(1), "b": some_text(5), "c": some_text(2)}
    changes = ["start = start + 4", "start = -1", "start = 'x'", "tokens = 3", "tokens = NULL", "flags = flags + 1", "missing = '[\"a\"]'"]
    changes += ["missing = 'nonsense'", "checksum = ''", "start = 9e99", "key = 'z'"]
    for number, change in enumerate(changes):
        index = Index(folder / str(number))
        index.add(texts, "m", PLENTY, 0)
        with sqlite3.connect(index.folder / "index.sqlite") as connection:
            connection.execute(f"UPDATE entries SET {change} WHERE key = 'a'")
        connection.close()
        found = index.find(["a", "b", "c", "z"])
        assert found == ({}, 1), change
        assert index.find(["a", "b", "c", "z"]) == ({}, 0)


DAMAGE: dict[str, Callable[[Path], object]] = {
    "no database": lambda path: path.write_bytes(b"nonsense " * 999),
    "truncated": lambda path: path.write_bytes(path.read_bytes()[: path.stat().st_size // 2]),
    "middle overwritten": lambda path: path.write_bytes(path.read_bytes()[:4096] + b"\x55" * (path.stat().st_size - 4096)),
    "no tables": lambda path: _execute(path, "DROP TABLE entries"),
    "other tables": lambda path: _execute(path, "ALTER TABLE shards RENAME COLUMN used TO abused"),
}


def _execute(path: Path, statement: str) -> None:
    with sqlite3.connect(path) as connection:
        connection.execute(statement)
    connection.close()


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_broken_index_is_built_again_from_the_shards(folder: Path, damage: str) -> None:
    texts = {str(i): some_text(i) for i in range(40)}
    Index(folder).add(texts, "m", PLENTY, 0)
    Index(folder).add(texts_of("a"), "n", PLENTY, 0)
    before = [use[:4] for use in Index(folder).models()]
    DAMAGE[damage](folder / "index.sqlite")
    with pytest.warns(TwmdWarning, match="index of the disk cache was damaged and is built again") as caught:
        found = Index(folder).find(texts)
    assert len(caught) == 1
    assert set(found.texts) == set(texts)
    assert all(same(text, texts[key]) for key, text in found.texts.items())
    assert [use[:4] for use in Index(folder).models()] == before


@pytest.mark.parametrize("damage", [Path.unlink, lambda path: path.write_bytes(b"")])
def test_a_lost_index_is_built_again_without_a_word(folder: Path, damage: Callable[[Path], object], recwarn: pytest.WarningsRecorder) -> None:
    Index(folder).add(texts_of("a", "b"), "m", PLENTY, 0)
    (folder / "shard-nonsense.safetensors").write_bytes(b"nonsense")
    damage(folder / "index.sqlite")
    assert set(Index(folder).find("ab").texts) == {"a", "b"}
    Index(folder).add(texts_of("c"), "m", PLENTY, 0)
    assert not (folder / "shard-nonsense.safetensors").exists()
    assert not recwarn.list


def test_no_changed_byte_of_the_index_gives_a_wrong_text(folder: Path, tmp_path: Path) -> None:
    texts = {str(i): some_text(i) for i in range(6)}
    Index(folder).add(texts, "m", PLENTY, 0)
    sound = (folder / "index.sqlite").read_bytes()
    draw, complete = random.Random(1), 0
    places = [*range(100), *draw.sample(range(100, len(sound)), 150), *(place for place in range(100, len(sound)) if sound[place])]
    for place in places[::4]:
        copy = tmp_path / "copy"
        shutil.copytree(folder, copy)
        (copy / "index.sqlite").write_bytes(sound[:place] + bytes([sound[place] ^ (1 << draw.randrange(8))]) + sound[place + 1 :])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", TwmdWarning)
            try:
                found = Index(copy).find(texts).texts
            except index_module.UNUSABLE:  # a scorer goes on without the cache
                found = {}
        assert all(same(text, texts[key]) for key, text in found.items())
        complete += len(found) == len(texts)
        shutil.rmtree(copy)
    assert complete > len(places[::4]) / 4
