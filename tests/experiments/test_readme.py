"""The commands of experiments/README.md exist and take the options that it shows."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from experiments.__main__ import experiments
from tests.cli.parsing import create_inputs, parse

README = Path(__file__).resolve().parents[2] / "experiments" / "README.md"
COMMANDS = re.findall(r"^python -m experiments (.+)$", README.read_text(encoding="utf-8"), flags=re.MULTILINE)


@pytest.mark.parametrize("line", COMMANDS)
def test_command_is_parsed(line: str, folder: Path) -> None:
    create_inputs(shlex.split(line))
    assert parse(shlex.split(line), experiments)
