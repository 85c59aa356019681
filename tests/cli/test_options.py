"""Every option is used by its command, or refused if it has no effect."""

from __future__ import annotations

import ast
import inspect
from dataclasses import fields
from pathlib import Path

import click
import pytest

from tests.cli.parsing import all_commands, parse
from tests.conftest import Refused
from twmd_registry.cli import declare
from twmd_registry.registry.options import RunOptions

PACKAGE = Path(inspect.getfile(declare)).parents[1]


def functions() -> dict[str, ast.FunctionDef]:
    """Return the functions of the command line, by name."""
    trees = [ast.parse(path.read_text(encoding="utf-8")) for path in (PACKAGE / "cli").rglob("*.py")]
    return {node.name: node for tree in trees for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}


def read_by(name: str, known: dict[str, ast.FunctionDef], seen: set[str]) -> set[str]:
    """Return the attributes and quoted names in a function and in the functions that it names."""
    seen.add(name)
    nodes = [node for statement in known[name].body for node in ast.walk(statement)]
    names = {node.attr for node in nodes if isinstance(node, ast.Attribute)}
    names |= {str(node.value) for node in nodes if isinstance(node, ast.Constant)}
    for called in {node.id for node in nodes if isinstance(node, ast.Name)} & known.keys() - seen:
        names |= read_by(called, known, seen)
    return names


def test_every_option_is_read_by_its_command() -> None:
    known, run_options, of_metrics = (
        functions(),
        {field.name for field in fields(RunOptions)},
        {"preset", "set", "part"},
    )
    unread = {}
    for path, command in all_commands():
        if isinstance(command, click.Group):
            continue
        function, seen = inspect.unwrap(command.callback or (lambda: 0)).__name__, set[str]()
        names = read_by(function, known, seen)
        names |= run_options if "options_of" in seen else set()
        # `declare.command` reads what decides the metrics before such a command runs.
        names |= of_metrics | {"metrics"} if "requested" in names else set()
        params = {str(param.name) for param in command.params if param.expose_value}
        unread[path] = params - names
    assert len(unread) > 20
    assert {name: params for name, params in unread.items() if params} == {}


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("score r.txt -i h.txt --paired-bs-n 100", "--paired-bs-n requires --paired-bs"),
        ("score r.txt -i h.txt --paired-ar-n 100", "--paired-ar-n requires --paired-ar"),
        ("score r.txt -i h.txt --confidence-n 100", "--confidence-n requires --confidence"),
        ("score r.txt -i h.txt --seed 1", "--seed only affects"),
        ("score r.txt -i h.txt --confidence -sl", "-b and -sl"),
        ("score -i h.jsonl -o out --engine ray --seed 1", "--seed cannot be used with"),
        ("report --agreement wmt:h.jsonl -o x.html --src h.txt", "--src"),
        ("train stsscore . -o out --batch-tokens 9", "No such option"),
        ("fit idf h.txt --batch-tokens 9", "No such option"),
        ("verify h.txt --any-language", "No such option"),
        ("serve --mcp --max-bytes 9", "--max-bytes"),
    ],
)
def test_option_without_effect_is_refused(line: str, words: str, folder: Path, refused: Refused) -> None:
    for name in ("r.txt", "h.txt", "h.jsonl"):
        (folder / name).write_text("a\n", encoding="utf-8")
    refused(line, words)


def test_negative_number_is_a_value(folder: Path) -> None:
    (folder / "ref.txt").write_text("a\n", encoding="utf-8")
    values = parse("verify moverscore|layer:4 -.5 ref.txt -i ref.txt".split())
    assert (values["value"], len(values["references"])) == ("-.5", 1)
