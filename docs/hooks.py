"""Insert commands, keys, presets and languages from the package into the pages that mkdocs builds."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator
from typing import Any

import rich_click as click

from twmd_registry.cli import twmd
from twmd_registry.registry.keys import KEYS
from twmd_registry.registry.metrics import CATALOGUE
from twmd_registry.registry.presets import PACKAGED, Preset, presets


def on_page_markdown(markdown: str, **_page: Any) -> str:
    """Replace each marker in a page with its lines."""
    for marker, lines in LINES.items():
        if marker in markdown:
            markdown = markdown.replace(marker, "\n".join(lines()))
    return re.sub(r"(?<=\d) ±(?=\d)", "\u00a0±", markdown)  # an interval stays on the line of its number


def sections(group: click.Group, path: str) -> Iterator[str]:
    """Yield the lines of a section for every command of a group, its subgroups included."""
    context = click.Context(group, info_name=path)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if isinstance(command, click.Group):
            yield from sections(command, f"{path} {name}")
        elif command is not None:
            yield from section(command, f"{path} {name}")


def section(command: click.Command, path: str) -> Iterator[str]:
    """Yield the heading, the help, the usage, the options and the examples of a command."""
    context = click.Context(command, info_name=path)
    yield from (f"## {path} {{ #{path.replace(' ', '-')} }}", "", inspect.cleandoc(command.help or ""), "")
    yield from ("```text", f"{path} {' '.join(command.collect_usage_pieces(context))}", "```", "")
    yield from ("| option | meaning |", "| --- | --- |")
    for option in command.params:
        if isinstance(option, click.Option):
            names = ", ".join(f"`{name}`" for name in option.opts)
            metavar = "" if option.is_flag else f" `{option.make_metavar(context).strip('[]')}`"
            yield row(f"{names}{metavar}", getattr(option, "help", None) or "")
    examples = [line for line in str(command.epilog or "").splitlines() if line.startswith(("twmd", "cat"))]
    if examples:
        yield from ("", "```bash", *examples, "```")
    yield ""


def key_rows() -> Iterator[str]:
    """Yield the table of all keys."""
    yield from ("| key | short | meaning | values | metrics |", "| --- | --- | --- | --- | --- |")
    for name, key in KEYS.items():
        users = [f"`{metric}`" for metric, facts in CATALOGUE.items() if name in facts.keys]
        # An ensemble has its members' keys.
        others = [f"`{metric}`" for metric, facts in CATALOGUE.items() if {name, "members"}.isdisjoint(facts.keys)]
        metrics = ", ".join(users) if len(others) > 1 else f"all but {others[0]}" if others else "all"
        yield row(f"`{name}`", f"`{key.short}`", key.about, key.accepts, metrics)


def preset_rows() -> Iterator[str]:
    """Yield the table of the packaged presets."""
    named: dict[str, list[Preset]] = {}
    for (_, name), preset in presets().items():
        if preset.source == PACKAGED:
            named.setdefault(name, []).append(preset)
    yield from ("| preset | metrics | model | languages |", "| --- | --- | --- | --- |")
    for name, members in named.items():
        metrics = ", ".join(f"`{preset.metric}`" for preset in members)
        languages = members[0].languages
        read = f"{len(languages)} languages" if len(languages) > 1 else "English" if languages else "the model's"
        yield row(f"`{name}`", metrics, members[0].model or "any", read)


def language_rows() -> Iterator[str]:
    """Yield the codes of the multilingual model's languages."""
    languages = next(preset.languages for (_, name), preset in presets().items() if name == "multilingual")
    yield ", ".join(f"`{code}`" for code in languages)


def row(*cells: str) -> str:
    """Return a row of a table; outside of code, bars in it end no cell and brackets are no links."""
    escaped = (re.sub(r"(`[^`]*`)|([|\[])", lambda m: m[1] or f"\\{m[2]}", " ".join(cell.split())) for cell in cells)
    return f"| {' | '.join(escaped)} |"


LINES: dict[str, Callable[[], Iterator[str]]] = {
    "<!-- commands -->": lambda: sections(twmd, "twmd"),
    "<!-- keys -->": key_rows,
    "<!-- presets -->": preset_rows,
    "<!-- languages -->": language_rows,
}
