"""Documentation is executed: every Python and shell block of the README, on the embedded model, offline."""

from __future__ import annotations

import doctest
import re
import shlex
from pathlib import Path

import pytest

from tests.conftest import Texts
from twmd_registry.cli import main
from twmd_registry.plugins.evaluate.hook import METRICS
from twmd_registry.registry.catalogue import CATALOGUE
from twmd_registry.registry.names import MetricName

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", README, flags=re.DOTALL | re.MULTILINE)


def test_every_python_block_gives_what_it_shows() -> None:
    # Blocks build on one another, as a reader types them.
    source = "\n".join(blocks("python"))
    examples = doctest.DocTestParser().get_doctest(source, {}, "README", "README.md", 0)
    assert len(examples.examples) > 10
    results = doctest.DocTestRunner(verbose=False).run(examples)
    assert (results.failed, results.attempted) == (0, len(examples.examples))


COMMANDS = [line for block in blocks("bash") for line in block.splitlines() if line.startswith("twmd ")]


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_runs(command: str, texts: Texts, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    for name, lines in (("ref", texts.references), ("system_a", texts.predictions), ("system_b", texts.references[::-1])):
        (tmp_path / f"{name}.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    if "scores.json" in command and "--record" not in command:
        assert main(shlex.split(next(one for one in COMMANDS if "--record scores.json" in one))[1:]) == 0
        capsys.readouterr()
    assert main(shlex.split(command)[1:]) == 0
    assert capsys.readouterr().out.strip()


def test_the_make_targets_of_the_readme_exist() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = re.findall(r"(?:^|`)make (\w+)", README, flags=re.MULTILINE)
    assert {"demo", "test", "bench"} <= set(targets)
    assert all(re.search(rf"^{target}:", makefile, flags=re.MULTILINE) for target in targets)


@pytest.mark.parametrize("metric", MetricName)
def test_the_readmes_ranges_are_the_catalogues(metric: MetricName) -> None:
    row = next(line for line in README.splitlines() if line.startswith(f"| `{metric}` |"))
    _, _, _, span, identical, _ = (cell.strip() for cell in row.split("|"))
    entry = CATALOGUE[metric]
    bounded = entry.lowest is not None and entry.highest is not None
    assert span.startswith(f"{entry.lowest:g} to {entry.highest:g}" if bounded else "no fixed bounds")
    assert identical == ("the model decides" if entry.identical is None else f"{entry.identical:g}")


@pytest.mark.parametrize("name", METRICS)
def test_every_metric_module_has_examples(name: str) -> None:
    text = (ROOT / "metrics" / name / f"{name}.py").read_text(encoding="utf-8")
    assert ">>> " in text
    assert len(text.splitlines()) < 90
