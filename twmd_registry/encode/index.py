"""`Index`: which text is in which shard of a folder; an SQLite file that several processes share."""

from __future__ import annotations

import functools
import json
import sqlite3
import time
import uuid
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Concatenate, NamedTuple, ParamSpec, TypeVar

from twmd_registry.encode.cache import CachedText
from twmd_registry.encode.shards import ShardEntry, ShardHeader, pack, packed_bytes, read_entries, read_texts
from twmd_registry.errors import warn
from twmd_registry.registry.paths import write_whole

SCHEMA = (
    "CREATE TABLE shards (id INTEGER PRIMARY KEY, name TEXT UNIQUE, model TEXT, layers INTEGER, bytes INTEGER, used REAL)",
    "CREATE TABLE entries (key TEXT PRIMARY KEY, start INT, tokens INT, flags INT, missing TEXT, checksum TEXT, shard INT) WITHOUT ROWID",
    "CREATE INDEX entries_of_shard ON entries (shard)",
)
AMONG = "key IN (SELECT value FROM json_each(?))"
"""Any number of keys in one parameter, a JSON list."""
READY = 1
"""The index's `user_version` once its tables are there."""
SHARD_FILES = "shard-*"
"""Shards, and what is written before it is one."""
SUFFIX = ".safetensors"
SMALL_BYTES, MANY = 1_000_000, 64
"""So many shards below so many bytes become one: calls of single texts write one each."""
WAIT_SECONDS = 60.0
"""How long a process waits for another one's write; that of one shard takes a fraction of a second."""
UNUSABLE = (OSError, sqlite3.Error, UnicodeDecodeError)
"""What goes wrong in a folder that cannot be used: no rights, no room, locked for too long, or damaged again and again."""
BROKEN = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_ERROR}
"""What SQLite says of a file that is damaged, that is none of its own, or that lacks our tables."""

P = ParamSpec("P")
T = TypeVar("T")


class LookupResult(NamedTuple):
    """What was looked for in the index.

    Attributes:
        texts: By their keys those that are kept.
        damaged: How many shards were damaged or gone, and are given up now.
    """

    texts: dict[str, CachedText]
    damaged: int = 0


class ModelUse(NamedTuple):
    """What is kept of one model.

    Attributes:
        model: Its name and content, its adapter if it has one, and its number format.
        texts: How many texts.
        shards: In how many files.
        bytes: The files' sizes.
        used: When one of them was last read or written, in seconds since 1970.
    """

    model: str
    texts: int
    shards: int
    bytes: int
    used: float


def _mending(method: Callable[Concatenate[Index, P], T]) -> Callable[Concatenate[Index, P], T]:
    """Let a method of the index run once more on a new index where the old one is broken."""

    @functools.wraps(method)
    def run(index: Index, /, *args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return method(index, *args, **kwargs)
        except (sqlite3.DatabaseError, UnicodeDecodeError) as error:  # the latter where SQLite would quote what is damaged
            if getattr(error, "sqlite_errorcode", sqlite3.SQLITE_CORRUPT) & 0xFF not in BROKEN:
                raise
            index.discard()
        return method(index, *args, **kwargs)

    return run


class Index:
    """Which text is in which shard of a folder.

    Who writes holds SQLite's write lock from beginning to end, and is then alone in the folder: a file that no row names is left over
    from a process that died or from a shard that was given up, and is removed. Rows go before files, and files come before rows, so
    that a process may die at any point. Nothing waits for the disk (no fsync): a power cut can damage what was just written, which
    the checksums tell.

    A connection lives for one operation: that costs 0.1 ms, and no thread, fork or other process can meet it.

    Attributes:
        folder: Where the shards and the index are.
    """

    def __init__(self, folder: Path) -> None:
        """Remember the folder; nothing is read or written yet."""
        self.folder, self._file = folder, folder / "index.sqlite"

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        """Open the index; a new one takes in the shards that are there."""
        self.folder.mkdir(parents=True, exist_ok=True)
        with closing(sqlite3.connect(self._file, timeout=WAIT_SECONDS, isolation_level=None)) as connection:
            connection.execute("PRAGMA synchronous = OFF")
            if not _is_ready(connection):
                with _transaction(connection):
                    if not _is_ready(connection):  # another process may have been faster
                        self._set_up(connection)
            yield connection

    @contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        """Open the index, and hold its write lock."""
        with self._open() as connection, _transaction(connection):
            yield connection

    def _set_up(self, connection: sqlite3.Connection) -> None:
        for statement in SCHEMA:
            connection.execute(statement)
        for path in sorted(self.folder.glob(f"{SHARD_FILES}{SUFFIX}")):
            shard = read_entries(path)
            if shard is not None:
                about = path.stat()
                _insert(connection, path.name, shard, about.st_size, about.st_mtime)
        connection.execute(f"PRAGMA user_version = {READY}")

    def discard(self) -> None:
        """Remove a broken index, with a warning; unless another process has done it already."""
        try:
            with closing(sqlite3.connect(self._file, timeout=WAIT_SECONDS)) as connection:
                tables = {sql for (sql,) in connection.execute("SELECT sql FROM sqlite_master WHERE sql IS NOT NULL")}
                if tables == set(SCHEMA) and connection.execute("PRAGMA quick_check(1)").fetchone() == ("ok",):
                    return
        except (sqlite3.DatabaseError, UnicodeDecodeError):
            pass
        warn(f"the index of the disk cache was damaged and is built again from what is in {self.folder}.")
        for path in self.folder.glob(f"{self._file.name}*"):  # with its journal
            path.unlink(missing_ok=True)

    @_mending
    def find(self, keys: Collection[str]) -> LookupResult:
        """Read the texts that are kept.

        Args:
            keys: Which texts are wanted.

        Returns:
            Those that are kept. A shard that another process has removed meanwhile is no damage.
        """
        with self._open() as connection:
            query = f"SELECT name, {', '.join(ShardEntry._fields)} FROM entries JOIN shards ON shard = id WHERE {AMONG}"  # noqa: S608 (our own names)
            shards: dict[str, list[ShardEntry]] = {}
            for name, *row in connection.execute(query, [json.dumps(list(keys))]):
                shards.setdefault(name, []).append(ShardEntry(*row))
        found: dict[str, CachedText] = {}
        used, damaged = [], 0
        for name, entries in shards.items():
            texts = read_texts(self.folder / name, entries)
            if texts is None:
                damaged += self._drop(name)
            else:
                found |= texts
                used.append((time.time(), name))
        if used:
            with self._writing() as connection:
                connection.executemany("UPDATE shards SET used = ? WHERE name = ?", used)
        return LookupResult(found, damaged)

    def _drop(self, name: str) -> bool:
        """Give a shard up; whether there was one."""
        with self._writing() as connection:
            rows = connection.execute("SELECT id FROM shards WHERE name = ?", [name]).fetchall()
            _forget(connection, [number for (number,) in rows])
        return bool(rows)

    @_mending
    def add(self, texts: Mapping[str, CachedText], model: str, most_bytes: int, since: float) -> bool:
        """Keep those of some texts that are not kept yet, as a shard of their own.

        Shards that were not used for longest make room. Those used since `since` do not: going round more texts than fit would
        otherwise remove each just before it is needed again.

        Args:
            texts: By their keys.
            model: Whose vectors these are.
            most_bytes: The most that all shards may take, files that are being written included.
            since: Seconds since 1970.

        Returns:
            Whether there was room.

        Raises:
            OSError: The folder cannot be written, or the disk is full.
        """
        with self._writing() as connection:
            new = _unknown(connection, texts)
            if not new:
                return True
            wanted = packed_bytes(new, model)
            doomed = _least_used(connection, wanted, most_bytes, since)
            if doomed is None:
                return False
            _forget(connection, doomed)
        with self._writing() as connection:
            self._sweep(connection)
            new = _unknown(connection, texts)
            if not new:
                return True
            if _total(connection) + wanted > most_bytes:  # another process took the room
                return False
            layers = len(next(iter(new.values())).vectors)
            content, entries = pack(new | self._take_small(connection, ShardHeader(model, layers, []), most_bytes - wanted), model)
            name = f"shard-{uuid.uuid4().hex}{SUFFIX}"
            write_whole(self.folder / name, content)
            _insert(connection, name, ShardHeader(model, layers, entries), len(content), time.time())
        return True

    def _take_small(self, connection: sqlite3.Connection, like: ShardHeader, most_bytes: int) -> dict[str, CachedText]:
        """The texts of the small shards of one kind, which are given up; none where these are few.

        The small files stay until the next sweep, which comes before anything else is written: there must be room for both.
        """
        query = "SELECT id, name, bytes FROM shards WHERE model = ? AND layers = ? AND bytes < ?"
        small = connection.execute(query, [like.model, like.layers, SMALL_BYTES]).fetchall()
        if len(small) < MANY or _total(connection) + sum(size for _, _, size in small) > most_bytes:
            return {}
        texts: dict[str, CachedText] = {}
        for number, name, _ in small:
            rows = connection.execute(f"SELECT {', '.join(ShardEntry._fields)} FROM entries WHERE shard = ?", [number])  # noqa: S608 (our own names)
            texts |= read_texts(self.folder / name, [ShardEntry(*row) for row in rows]) or {}
        _forget(connection, [number for number, _, _ in small])
        return texts

    def _sweep(self, connection: sqlite3.Connection) -> None:
        """Remove the files that no row names; with the write lock held."""
        named = {name for (name,) in connection.execute("SELECT name FROM shards")}
        for path in self.folder.glob(SHARD_FILES):
            if path.name not in named:
                path.unlink(missing_ok=True)

    @_mending
    def models(self) -> list[ModelUse]:
        """What is kept, by model; the largest first."""
        if not self.folder.is_dir():
            return []
        with self._open() as connection:
            texts = dict(connection.execute("SELECT shard, COUNT(*) FROM entries GROUP BY shard"))
            uses: dict[str, ModelUse] = {}
            for number, model, size, used in connection.execute("SELECT id, model, bytes, used FROM shards"):
                old = uses.get(model, ModelUse(model, 0, 0, 0, 0.0))
                uses[model] = ModelUse(model, old.texts + texts.get(number, 0), old.shards + 1, old.bytes + size, max(old.used, used))
        return sorted(uses.values(), key=lambda use: -use.bytes)

    @_mending
    def clear(self, models: Collection[str]) -> None:
        """Remove everything that is kept of some models, named as `models` does; and whatever lies about."""
        if not self.folder.is_dir():
            return
        with self._writing() as connection:
            rows = connection.execute("SELECT id, model FROM shards").fetchall()
            _forget(connection, [number for number, model in rows if model in models])
        with self._writing() as connection:
            self._sweep(connection)


@contextmanager
def _transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """Hold the write lock; all is done or, after an error, nothing."""
    connection.execute("BEGIN IMMEDIATE")
    with connection:
        yield


def _is_ready(connection: sqlite3.Connection) -> bool:
    return bool(connection.execute("PRAGMA user_version").fetchone()[0] == READY)


def _insert(connection: sqlite3.Connection, name: str, shard: ShardHeader, size: int, used: float) -> None:
    values = [name, shard.model, shard.layers, size, used]
    row = connection.execute("INSERT INTO shards (name, model, layers, bytes, used) VALUES (?, ?, ?, ?, ?)", values)
    connection.executemany("INSERT OR IGNORE INTO entries VALUES (?, ?, ?, ?, ?, ?, ?)", [(*entry, row.lastrowid) for entry in shard.entries])


def _forget(connection: sqlite3.Connection, shards: Collection[int]) -> None:
    """Remove shards from the index; `Index._sweep` then removes the files."""
    for table, column in (("entries", "shard"), ("shards", "id")):
        connection.executemany(f"DELETE FROM {table} WHERE {column} = ?", [(number,) for number in shards])  # noqa: S608 (our own names)


def _unknown(connection: sqlite3.Connection, texts: Mapping[str, CachedText]) -> dict[str, CachedText]:
    """Those of some texts that are not kept."""
    known = {key for (key,) in connection.execute(f"SELECT key FROM entries WHERE {AMONG}", [json.dumps(list(texts))])}  # noqa: S608 (our own name)
    return {key: text for key, text in texts.items() if key not in known}


def _total(connection: sqlite3.Connection) -> int:
    return int(connection.execute("SELECT COALESCE(SUM(bytes), 0) FROM shards").fetchone()[0])


def _least_used(connection: sqlite3.Connection, wanted: int, most_bytes: int, since: float) -> list[int] | None:
    """The shards that must go to make room, the least recently used first; None where there is no room to be made."""
    excess, doomed = _total(connection) + wanted - most_bytes, []
    for number, size in connection.execute("SELECT id, bytes FROM shards WHERE used < ? ORDER BY used, id", [since]):
        if excess <= 0:
            break
        doomed.append(number)
        excess -= size
    return doomed if excess <= 0 else None
