"""Files are written atomically, even concurrently."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from twmd_registry.registry.paths import write_atomically, write_file

CONTENTS = [bytes([number]) * (100_000 * (number + 1)) for number in range(4)]


def test_concurrently_written_file_is_always_complete(tmp_path: Path) -> None:
    path = tmp_path / ("x" * 255)
    path.write_bytes(CONTENTS[0])
    with ThreadPoolExecutor(4) as pool:
        writers = [pool.submit(write_atomically, path, content) for content in CONTENTS * 50]
        while not all(writer.done() for writer in writers):
            assert path.read_bytes() in CONTENTS
    assert [writer.exception() for writer in writers] == [None] * 200
    assert list(tmp_path.iterdir()) == [path]


def test_link_and_permissions_are_kept(tmp_path: Path) -> None:
    target, link = tmp_path / "own", tmp_path / "link"
    target.write_bytes(b"old")
    target.chmod(0o640)
    link.symlink_to(target)
    write_file(link, b"new")
    assert (link.is_symlink(), target.read_bytes(), target.stat().st_mode & 0o777) == (True, b"new", 0o640)
