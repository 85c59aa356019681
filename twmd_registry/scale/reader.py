"""A Ray reader of text files with columns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import ray.data
from ray.data.datasource import FileBasedDatasource

from twmd_registry.files.tables import Columns
from twmd_registry.scale.inputs import InputFile, is_parquet, read_blocks


class TableFiles(FileBasedDatasource):  # type: ignore[misc]
    """JSON lines and arrays, CSV and TSV, read block by block with this package's reader."""

    def __init__(self, paths: Sequence[str], columns: Columns, **settings: Any) -> None:
        """Store the columns that hold texts."""
        super().__init__(paths, **settings)
        self._columns = columns

    def _open_input_source(self, filesystem: Any, path: str, **_: Any) -> Any:
        return filesystem.open_input_file(path)  # the reader seeks, which a stream cannot

    def _read_stream(self, file: Any, path: str) -> Iterator[Any]:
        return read_blocks(file, path, self._columns)


def read_files(files: Sequence[InputFile], columns: Columns) -> list[Any]:
    """Return data sets with the column `ROW`: for every file system, one of its Parquet and one of its text files."""
    groups = list[tuple[bool, Any, list[str]]]()
    for file in files:
        kind = is_parquet(file)
        for parquet, filesystem, paths in groups:
            if parquet == kind and filesystem == file.filesystem:
                paths.append(file.path)
                break
        else:
            groups.append((kind, file.filesystem, [file.path]))
    return [
        ray.data.read_parquet(paths, filesystem=filesystem, include_row_hash=True)
        if parquet
        else ray.data.read_datasource(TableFiles(paths, columns, filesystem=filesystem))
        for parquet, filesystem, paths in groups
    ]
