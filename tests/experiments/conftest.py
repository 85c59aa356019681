"""Command lines of ``python -m experiments``."""

from __future__ import annotations

import shlex

import pytest

from experiments.__main__ import experiments
from tests.conftest import Capture, Run
from twmd_registry.cli import main


@pytest.fixture
def run(capsys: Capture) -> Run:
    """Run a line after ``python -m experiments``, with additional arguments unchanged; return status, output and
    errors.
    """

    def call(line: str, *words: str) -> tuple[int, str, str]:
        capsys.readouterr()
        return main([*shlex.split(line), *words], experiments), *capsys.readouterr()

    return call
