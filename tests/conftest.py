"""Shared fixtures: public data next to the checkout, texts written for the tests, tiny models."""

from __future__ import annotations

import contextlib
import errno
import functools
import json
import os
import re
import shlex
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeAlias

import pytest
from hypothesis import settings

import twmd_registry
from twmd_registry.cli import main
from twmd_registry.registry import paths, signature
from twmd_registry.registry.names import MetricName

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")  # on a GPU, equal calls differ in the last digit, and forks fail

_HOME = tempfile.TemporaryDirectory()
os.environ["TWMD_HOME"] = _HOME.name
"""Keep the package's files for tests apart from the user's."""

settings.register_profile("tests", deadline=None)  # a busy machine may slow an example down a thousand times
settings.register_profile("fuzz", deadline=None, max_examples=1000, derandomize=False)  # rounds differ in CI, too
settings.load_profile("tests")

SHARED = Path(__file__).resolve().parents[2] / "shared"


Capture: TypeAlias = pytest.CaptureFixture[str]
Patch: TypeAlias = pytest.MonkeyPatch


class Texts(NamedTuple):
    """Predictions and references, one reference each."""

    predictions: list[str]
    references: list[str]


class Run(Protocol):
    """Runs a shell line, with additional arguments unchanged; returns status, output and errors."""

    def __call__(self, line: str, *words: str) -> tuple[int, str, str]: ...


def fill_disk(patch: pytest.MonkeyPatch, writer: str, *names: str) -> None:
    """Simulate a full disk for files with the given names that a function of `paths` writes for a module."""

    def write_atomically(path: Path, written: bytes) -> None:
        if path.name in names:
            raise OSError(errno.ENOSPC, "No space left on device")
        real(path, written)

    real = paths.write_atomically
    patch.setattr(f"twmd_registry.{writer}.write_atomically", write_atomically)


def shared(name: str) -> Path:
    """Return a file of the public data next to the checkout; skip the test if it is missing."""
    path = SHARED / name
    if not path.exists():
        pytest.skip(f"public data missing: {name}")
    return path


@pytest.fixture(scope="session", autouse=True)
def _embedded_models_stay_loaded() -> Iterator[None]:
    """Keep the embedded model loaded for all tests: tuned, as a regressor, and plain."""
    with contextlib.ExitStack() as kept:
        tuned, regressor, plain = (
            kept.enter_context(twmd_registry.load(metric)) for metric in ("twmd", "stsscore", "sbert")
        )
        assert tuned.spec.fingerprint == regressor.spec.fingerprint == plain.spec.fingerprint
        yield


@pytest.fixture(scope="session")
def texts() -> Texts:
    """Return sixteen pairs of 5 to 40 words: the first of the demo's two systems, first references."""
    demo = Path(__file__).resolve().parents[1] / "twmd_registry" / "data" / "demo" / "system_a.jsonl"
    rows = [json.loads(line) for line in demo.read_text(encoding="utf-8").splitlines()][:16]
    return Texts([row["prediction"] for row in rows], [row["references"][0] for row in rows])


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    """Run a shell line, with additional arguments unchanged; return status, output and errors."""

    def call(line: str, *words: str) -> tuple[int, str, str]:
        capsys.readouterr()
        return main([*shlex.split(line), *words]), *capsys.readouterr()

    return call


Refused = Callable[..., None]


@pytest.fixture
def refused(run: Run) -> Refused:
    """Check that a line prints nothing, and fails with a status and a one-line error that contains the words."""

    def check(line: str, words: str, status: int = 2) -> None:
        found, out, err = run(line)
        errors = [one for one in err.splitlines() if not re.match(r"\w+: warning: ", one)]
        assert (found, out, [words in one for one in errors]) == (status, "", [True]), err

    return check


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a separate working folder."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def command_line(folder: Path, run: Run) -> Callable[[list[str], list[str]], dict[str, Any]]:
    """Return the scores of ``twmd score`` for one-line texts."""

    def score(predictions: list[str], references: list[str]) -> dict[str, Any]:
        for name, lines in (("ref", references), ("out", predictions)):
            (folder / f"{name}.txt").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        status, printed, _ = run("score ref.txt -i out.txt -sl --format json")
        assert status == 0
        (row,) = json.loads(printed)
        return dict(row)

    return score


@pytest.fixture(scope="session")
def tiny_encoder(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Return the folder of a tiny random encoder of a family, shared by all tests."""
    from tests import tiny

    home = tmp_path_factory.mktemp("encoders")
    return functools.cache(lambda family: tiny.save_encoder(family, home / family))


@pytest.fixture(scope="session")
def bert(tiny_encoder: Callable[[str], Path]) -> str:
    """Return the folder of a tiny BERT; do not change it."""
    return str(tiny_encoder("bert"))


@pytest.fixture
def older_version(monkeypatch: pytest.MonkeyPatch) -> str:
    """Return an older version, after which the scores of STSScore changed."""
    now = signature.VERSIONS[-1]
    monkeypatch.setattr(signature, "VERSIONS", ("0.0.9", now))
    monkeypatch.setattr(signature, "CHANGES", ((now, (MetricName.STSSCORE,), "Empty texts score 0."),))
    return "0.0.9"
