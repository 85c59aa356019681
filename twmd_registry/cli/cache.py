"""``twmd cache``."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

import rich_click as click

from twmd_registry.cli.declare import RESULT_FORMATS, Arguments, argument, command, option, output_format
from twmd_registry.cli.output import as_json, format_table
from twmd_registry.cli.terminal import say
from twmd_registry.errors import FileError, SpecError, menu
from twmd_registry.registry.names import EMBEDDED_MODEL

if TYPE_CHECKING:
    from twmd_registry.encode.disk import ModelUse


@command("cache", example="twmd cache clear --model embedded")
@argument("action", type=click.Choice(["ls", "clear"]))
@option("--model", metavar="NAME", help="Of this model only.")
@output_format(*RESULT_FORMATS)
def cache_command(arguments: Arguments) -> int:
    """List or remove the encoded texts that '--disk-cache SIZE' keeps.

    Raises:
        SpecError: Nothing is kept of that model.
        FileError: The folder cannot be read or written.
    """
    from twmd_registry.encode.disk import cache_folder, clear, list_models

    folder = cache_folder()
    try:
        uses = _chosen(list_models(folder), arguments.model)
        if arguments.action == "clear":
            clear(folder, [use.model for use in uses])
    except OSError as error:
        raise FileError(f"the disk cache in {folder} cannot be used: {error}.") from error
    if arguments.format == "json":  # of the models that were listed, or removed
        say(as_json([use._asdict() | {"used": _time(use.used)} for use in uses]))
        return 0
    texts, size = sum(use.texts for use in uses), sum(use.bytes for use in uses) / 1e6
    if arguments.action == "clear":
        print(f"removed {texts} texts, {size:.1f} MB, from {folder}")
        return 0
    if arguments.format == "text":
        print(f"{folder}: {texts} texts, {size:.1f} MB (each run brings its own bound: --disk-cache SIZE)")
    if uses or arguments.format != "text":
        rows = [[use.model, use.texts, use.shards, f"{use.bytes / 1e6:.1f}", _time(use.used)] for use in uses]
        say(format_table(("model", "texts", "files", "MB", "last used"), rows, arguments.format))
    return 0


def _chosen(uses: list[ModelUse], name: str | None) -> list[ModelUse]:
    """Return what is kept of a model, named by its name alone, with its content, or as the list shows it."""
    if name is None:
        return uses
    name = EMBEDDED_MODEL if name == "embedded" else name
    chosen = [use for use in uses if use.model == name or use.model.startswith((f"{name}@", f"{name} "))]
    if not chosen:
        kept = menu(name, [use.model for use in uses]) if uses else "the cache is empty"
        raise SpecError(f"nothing is kept of a model {name!r}; {kept}.")
    return chosen


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).astimezone().isoformat(" ", "seconds")
