"""``twmd cache``."""

from __future__ import annotations

import argparse
from datetime import UTC, datetime

from tabulate import tabulate

from twmd_registry.cli.terminal import say
from twmd_registry.encode.disk import cache_folder
from twmd_registry.encode.index import UNUSABLE, Index, ModelUse
from twmd_registry.errors import FileError, SpecError, menu
from twmd_registry.registry.aliases import VALUES


def run_cache(arguments: argparse.Namespace) -> int:
    """Show or remove the encoded texts that are kept on disk.

    Raises:
        SpecError: Nothing is kept of that model.
        FileError: The folder cannot be read or written.
    """
    index = Index(cache_folder())
    try:
        uses = _chosen(index.models(), arguments.model)
        if arguments.action == "clear":
            index.clear({use.model for use in uses})
    except UNUSABLE as error:
        raise FileError(f"the disk cache in {index.folder} cannot be used: {error}.") from error
    texts, size = sum(use.texts for use in uses), sum(use.bytes for use in uses) / 1e6
    if arguments.action == "clear":
        print(f"removed {texts} texts, {size:.1f} MB, from {index.folder}")
        return 0
    print(f"{index.folder}: {texts} texts, {size:.1f} MB (each run brings its own bound: --disk-cache SIZE)")
    if uses:
        rows = [[use.model, use.texts, use.shards, f"{use.bytes / 1e6:.1f}", _time(use.used)] for use in uses]
        say(tabulate(rows, headers=["model", "texts", "files", "MB", "last used"], disable_numparse=True))
    return 0


def _chosen(uses: list[ModelUse], name: str | None) -> list[ModelUse]:
    """What is kept of the model that was named: by its name alone, or with its content, or as the list shows it."""
    if name is None:
        return uses
    name = VALUES.get(("model", name), name)
    chosen = [use for use in uses if use.model == name or use.model.startswith((f"{name}@", f"{name} "))]
    if not chosen:
        kept = menu(name, [use.model for use in uses]) if uses else "the cache is empty"
        raise SpecError(f"nothing is kept of a model {name!r}; {kept}.")
    return chosen


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).astimezone().isoformat(" ", "seconds")
