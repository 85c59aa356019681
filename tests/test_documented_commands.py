"""Every command line that a page, a card, a help text or a message names can be parsed, and numbers agree."""

from __future__ import annotations

import ast
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from twmd_registry.cli import twmd
from twmd_registry.cli.declare import repeat_options
from twmd_registry.demo.space import measured_correlations

ROOT = Path(__file__).resolve().parents[1]
PAGES = [ROOT / "README.md", *ROOT.glob("docs/*.md"), *ROOT.glob("hub_cards/**/*.md")]
DATA = [
    path
    for kind in ("toml", "md", "html", "css")
    for path in (ROOT / "twmd_registry").rglob(f"*.{kind}")
    if "{" not in path.name
]
SOURCES = sorted((ROOT / "twmd_registry").rglob("*.py"))
QUOTED = re.compile(r"(?<![\w/'`])(['`])twmd ((?:'[^'`\n]*'|(?!\1)[^\n])+)\1")
FENCED = re.compile(r"^(?:\$ )?(?:[^\n`'|]*\| *)?twmd ((?:[^\n\\]|\\\n|\\.)+)", re.MULTILINE)


def of_page(text: str) -> Iterator[str]:
    """Yield what follows ``twmd`` in blocks of a shell, and in quotes elsewhere."""
    for block in re.findall(r"^```(?:bash|console|sh)\n(.*?)^```", text, flags=re.MULTILINE | re.DOTALL):
        yield from FENCED.findall(block)
    yield from of_text(re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL))


def of_text(text: str) -> Iterator[str]:
    """Yield what follows ``twmd`` in quotes."""
    for _, line in QUOTED.findall(text.replace("``", "`")):
        if "=" not in line.split()[0]:  # a label: "twmd layer=6"
            yield line


def of_source(text: str) -> Iterator[str]:
    """Yield what follows ``twmd`` in the strings of a module: in quotes, and in lines that begin with it."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.JoinedStr):
            written = "".join(part.value if isinstance(part, ast.Constant) else "X" for part in node.values)  # type: ignore[misc]
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            written = node.value
        else:
            continue
        yield from of_text(written)
        yield from (line for line in FENCED.findall(written) if not line.startswith("did "))


def problem_of(line: str) -> str | None:
    """Return why a line cannot be parsed, None if it can."""
    try:
        words = shlex.split(line.replace("\\\n", " "), comments=True)
    except ValueError:
        words = line.split()
    ends = [place for place, word in enumerate(words) if re.match(r"[|<>;&]|2>", word)]
    words = [word.strip("[],") for word in words[: min(ends, default=len(words))] if word not in {"...", "/"}]
    command: click.Command = twmd
    context = click.Context(twmd)
    try:
        while isinstance(command, click.Group) and words and not words[0].startswith("-"):
            found = command.get_command(context, words.pop(0))
            if found is None:
                return "no such command"
            command, context = found, click.Context(found, parent=context)
        if isinstance(command, click.Group):
            return None if all(word in {"--help", "--version"} for word in words) else "no command"
        command.make_parser(context).parse_args([word for word in repeat_options(context, words) if word != "--help"])
    except click.BadOptionUsage as error:  # "`twmd score --record` writes it" has no value
        return None if (error.option_name or "") == words[-1] else error.format_message()
    except click.UsageError as error:
        return error.format_message()
    return None


@pytest.mark.parametrize(("files", "read"), [(PAGES, of_page), (DATA, of_text), (SOURCES, of_source)])
def test_every_named_command_can_be_parsed(files: list[Path], read: object) -> None:
    lines = [(str(path.relative_to(ROOT)), line) for path in files for line in read(path.read_text(encoding="utf-8"))]  # type: ignore[operator]
    assert len(lines) > 4
    found = [(name, line, problem) for name, line in lines if (problem := problem_of(line))]
    assert found == []


README, AGREEMENT, SPEED = (
    (ROOT / name).read_text(encoding="utf-8") for name in ("README.md", "docs/agreement.md", "docs/speed.md")
)


def rows_of(text: str, *heads: str) -> dict[str, list[str]]:
    """Return the cells of the first table whose header begins with these cells, by the first cell, without bold."""
    table = text[text.index(f"| {' | '.join(heads)} |") :].partition("\n\n")[0]
    rows = [[cell.strip(" *") for cell in line.strip("|").split("|")] for line in table.splitlines()]
    return {name: cells for name, *cells in (rows[0], *rows[2:])}


def test_readme_numbers_equal_the_pages() -> None:
    page, pace = rows_of(AGREEMENT, "Pearson r x 100"), rows_of(SPEED, "default of", "ms per pair")
    shown = rows_of(README, "metric", "Pearson", "Kendall")
    assert shown.pop("metric")[:2] == ["Pearson", "Kendall"]
    assert len(shown) == 5
    assert {name: cells[:2] for name, cells in shown.items()} == {name: page[name][:2] for name in shown}
    assert shown["`twmd`"][2] == pace["`twmd`"][1]
    assert shown["BERTscore-b, roberta-large (paper)"][2] == pace["bert_score (roberta-large to layer 17)"][1]


@pytest.mark.parametrize("page", PAGES, ids=lambda path: "/".join(path.parts[-2:]))
def test_every_number_with_an_interval_is_in_the_agreement_tables(page: Path) -> None:
    measured = {f"{value} ±{half_width}" for *_, value, half_width in measured_correlations()}
    shown = set(re.findall(r"\d\d\.\d ±\d\.\d", page.read_text(encoding="utf-8")))
    assert shown <= measured | set(re.findall(r"\d\d\.\d ±\d\.\d", AGREEMENT))
