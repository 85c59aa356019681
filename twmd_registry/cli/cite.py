"""``twmd cite``."""

from __future__ import annotations

import argparse

from twmd_registry.record.file import read_record
from twmd_registry.report.cite import CitedDataset, cite


def run(arguments: argparse.Namespace) -> int:
    """Print what it takes to publish a record.

    Raises:
        FileError: It is no record, or was edited.
    """
    print(cite(read_record(arguments.record), arguments.form, digits=arguments.width, dataset=CitedDataset(arguments.task, arguments.dataset)))
    return 0
