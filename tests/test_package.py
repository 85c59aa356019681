"""The published files: the wheel and the sdist, built from this checkout."""

from __future__ import annotations

import email
import re
import subprocess
import sys
import tarfile
import tomllib
import venv
import zipfile
from collections.abc import Mapping
from email.message import Message
from pathlib import Path

import pytest

import twmd_registry
from twmd_registry.plugins.evaluate_hook import METRICS

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
EXTRAS = {"large", "multilingual", "ray", "train", "demo", "plots", "dev", "torchmetrics", "bench", "rouge", "trl"}
EXTRAS |= {"inspect", "lm_eval", "mlflow", "serve"}
LARGEST = {".safetensors": 3 << 20}
"""Bytes of a file, by suffix; half a megabyte for every other. An adapter of all twelve layers has 2.7 million."""
LARGEST_WHEEL = 20_000_000

USER = """
from typing import assert_type
import twmd_registry
from twmd_registry import {names}

with load("twmd", layer=3, batch_tokens=100) as metric:
    assert_type(metric, Scorer)
    found = metric.score(["a cat"], [["the cat"]])
assert_type(metric.options, RunOptions)
assert_type(found, ScoreSet)
assert_type(found.score, float)
assert_type(found.signature, Signature)
assert_type(score(["a"], ["b"], metric="sbert"), ScoreSet)
assert_type(score_all([metric, load("sbert")], ["a"], ["b"]), list[ScoreSet])
assert_type(parse_signature(found.signature).spec, AppliedSpec)
assert_type(Scorer.from_signature(str(found.signature), device="cpu"), Scorer)
assert_type(parse_signature("twmd").spec.metric, MetricName)
assert_type(list_metrics(), list[str])
assert_type(path("twmd"), str)
assert_type(compare_signatures(found.signature, str(found.signature)).comparable, bool)
assert_type(read_record("record.json"), Record)
assert_type(make_record([("system", [found])], seconds=0.1), Record)
load("twmd", temprature=0.1)
load("twmd", multiref="min")
twmd_registry.no_such_name
"""
"""A program for the installed wheel; only its last three lines are wrong."""


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the wheel, built from the sdist, which is built from this checkout."""
    for needed in ("build", "hatchling"):
        pytest.importorskip(needed, reason="building the package needs the packages build and hatchling (extra dev)")
    folder = tmp_path_factory.mktemp("dist")
    build(folder)
    return folder


def build(folder: Path) -> None:
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(folder), str(ROOT)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture(scope="module")
def wheel(dist: Path) -> dict[str, bytes]:
    (path,) = dist.glob("*.whl")
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


@pytest.fixture(scope="module")
def sdist(dist: Path) -> dict[str, bytes]:
    """Without the folder that all names begin with."""
    (path,) = dist.glob("*.tar.gz")
    with tarfile.open(path) as archive:
        files = {member.name: archive.extractfile(member) for member in archive.getmembers() if member.isfile()}
        return {name.partition("/")[2]: content.read() for name, content in files.items() if content}


@pytest.fixture(scope="module")
def metadata(wheel: Mapping[str, bytes]) -> Message:
    return email.message_from_bytes(next(wheel[name] for name in wheel if name.endswith(".dist-info/METADATA")))


def test_dir_lists_only_public_names() -> None:
    assert dir(twmd_registry) == sorted(twmd_registry.__all__)
    assert all(hasattr(twmd_registry, name) for name in dir(twmd_registry))


def tracked(folder: str) -> set[str]:
    """Return the files of a folder of this checkout, without those that tests and tools leave behind."""
    return {
        path.relative_to(ROOT).as_posix()
        for path in (ROOT / folder).rglob("*")
        if path.is_file()
        and not any(part == "__pycache__" or part.startswith(".") for part in path.relative_to(ROOT).parts)
    }


def test_wheel_and_sdist_contain_only_the_package(wheel: Mapping[str, bytes], sdist: Mapping[str, bytes]) -> None:
    package = {name for name in wheel if ".dist-info/" not in name}
    assert package == tracked("twmd_registry") | {f"twmd_registry/{name}" for name in tracked("metrics")}
    assert "twmd_registry/py.typed" in package
    assert {f"twmd_registry/metrics/{name}/{name}.py" for name in METRICS} <= package
    beside = {"README.md", "CHANGELOG.md", "CITATION.cff", "LICENSE", "pyproject.toml", "PKG-INFO", ".gitignore"}
    assert set(sdist) == tracked("twmd_registry") | tracked("metrics") | tracked("LICENSES") | beside


def rows_of(table: str) -> list[list[str]]:
    """Return the cells of a table of LICENSES/README.md, without its head."""
    text = (ROOT / "LICENSES" / "README.md").read_text(encoding="utf-8").partition(f"## {table}\n")[2]
    lines = [line for line in text.partition("\n## ")[0].splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


def test_every_packaged_file_and_every_source_has_exactly_one_licence() -> None:
    patterns = {
        pattern: sources for _, files, sources in rows_of("Parts") for pattern in re.findall("`([^`]+)`", files)
    }
    whole = {pattern: f"twmd_registry/{pattern}" if "/" in pattern else pattern for pattern in patterns}
    matched = {
        name: [pattern for pattern in patterns if Path(name).match(whole[pattern])] for name in tracked("twmd_registry")
    }
    assert {name: found for name, found in matched.items() if len(found) != 1} == {}
    assert set(patterns) == {pattern for found in matched.values() for pattern in found}
    licences = {name: licence for names, _, licence in rows_of("Sources") for name in names.split(", ")}
    named = {name for sources in patterns.values() if sources != "-" for name in re.split("[;,] ", sources)}
    papers = {"Chen et al. 2020", "Zhao et al. 2019", "Herbold 2024"}  # whose printed numbers are facts
    assert named - papers == set(licences)
    assert all(licences.values())


def test_wheel_contains_the_licences_and_is_below_20_megabytes(wheel: Mapping[str, bytes], dist: Path) -> None:
    held = {name.partition("/licenses/")[2] for name in wheel if "/licenses/" in name}
    assert held == {"LICENSE", "LICENSES/README.md"}
    (path,) = dist.glob("*.whl")
    assert path.stat().st_size < LARGEST_WHEEL


def test_released_files_are_small_and_contain_no_local_paths(
    wheel: Mapping[str, bytes], sdist: Mapping[str, bytes]
) -> None:
    of_a_machine = re.compile(
        rb"(?<![\w.:/])/(?:home|root|tmp|var|opt|mnt|Users|private)/\w|[A-Z]:\\\\?Users|"
        + re.escape(str(ROOT).encode())
    )
    assert of_a_machine.search(b'"base": "/home/me/model"')
    for name, content in [*wheel.items(), *sdist.items()]:
        assert len(content) <= LARGEST.get(Path(name).suffix, 1 << 19), name
        assert not (found := of_a_machine.search(content)), (name, found)


def test_metadata_satisfies_pypi_and_declares_the_command(
    metadata: Message, wheel: Mapping[str, bytes], dist: Path
) -> None:
    assert (metadata["Name"], metadata["Version"]) == ("twmd-registry", twmd_registry.__version__)
    assert (metadata["License-Expression"], metadata["Requires-Python"]) == ("MIT", ">=3.11")
    assert {name.replace("-", "_") for name in metadata.get_all("Provides-Extra", [])} == EXTRAS
    commands = next(content for name, content in wheel.items() if name.endswith("entry_points.txt"))
    assert {b"twmd = twmd_registry.cli:main", b"twmd-registry = twmd_registry.cli:main"} <= {*commands.splitlines()}
    pytest.importorskip("twine", reason="checking the metadata needs the package twine (extra dev)")
    command = [sys.executable, "-m", "twine", "--no-color", "check", "--strict", *map(str, sorted(dist.iterdir()))]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.count("PASSED")) == (0, 2), done.stdout + done.stderr


def test_every_install_line_names_an_extra_that_exists() -> None:
    files = [path for suffix in ("py", "md") for path in (ROOT / "twmd_registry").rglob(f"*.{suffix}")]
    files += [ROOT / "README.md", *(ROOT / "docs").glob("*.md"), *filter(Path.is_file, (ROOT / "hub_cards").rglob("*"))]
    texts = "\n".join(path.read_text(encoding="utf-8") for path in files)
    named = ",".join(re.findall(r"(?:twmd-registry|'\.)\[([\w,]+)\]", texts)).split(",")
    assert len(set(named)) > 9
    assert {*named} <= set(PROJECT["optional-dependencies"]) == EXTRAS


def test_installed_wheel_includes_type_hints(dist: Path, tmp_path: Path) -> None:
    pytest.importorskip("mypy")
    venv.create(tmp_path / "venv", symlinks=True)
    (site,) = (tmp_path / "venv").glob("lib/*/site-packages")
    (archive,) = dist.glob("*.whl")
    with zipfile.ZipFile(archive) as opened:
        opened.extractall(site)
    program = USER.format(names=", ".join(twmd_registry.__all__))
    (tmp_path / "user.py").write_text(program, encoding="utf-8")
    python = ["--python-executable", str(tmp_path / "venv" / "bin" / "python")]
    command = [sys.executable, "-m", "mypy", "--strict", "--config-file=", *python, "user.py"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    last = len(program.splitlines())
    expected = [(last - 2, "call-arg"), (last - 1, "arg-type"), (last, "attr-defined")]
    found = re.findall(r"^user\.py:(\d+): error: .*\[([a-z-]+)\]$", done.stdout, re.MULTILINE)
    assert [(int(line), code) for line, code in found] == expected, done.stdout + done.stderr
