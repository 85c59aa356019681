"""A Ray reader of text files with columns.

Ray 2.60 reads JSON lines with pandas and CSV with pyarrow. They turn the texts ``007`` and ``2020-01-01`` into a number
and a date, reject a whole file for one bad line, and do not number rows. Text is therefore read by this package's
reader, through Ray's `FileBasedDatasource`. Ray reads Parquet, which has types.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any

import ray.data
from ray.data.datasource import FileBasedDatasource

from twmd_registry.files.arrow import read_blocks
from twmd_registry.files.storage import StoredFile
from twmd_registry.files.tables import PARQUET_SUFFIXES, Columns, form_of


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


def read_files(files: Sequence[StoredFile], columns: Columns) -> list[Any]:
    """Return data sets with the column `ROW`: for every file system, one of its text files and one of its Parquet."""

    def kind(file: StoredFile) -> tuple[bool, Any]:
        return form_of(file.path) in PARQUET_SUFFIXES, file.filesystem

    datasets = []
    for (parquet, filesystem), group in groupby(sorted(files, key=lambda file: kind(file)[0]), kind):
        paths = [file.path for file in group]
        datasets.append(
            ray.data.read_parquet(paths, filesystem=filesystem, include_row_hash=True)
            if parquet
            else ray.data.read_datasource(TableFiles(paths, columns, filesystem=filesystem))
        )
    return datasets
