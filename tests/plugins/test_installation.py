"""`twmd install`, and what needs a process of its own: scripts that do not import this package, two ranks."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import evaluate
import pytest

import twmd_registry
from tests.conftest import Run
from twmd_registry.plugins.evaluate import hook
from twmd_registry.plugins.evaluate.hook import METRICS

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Let `evaluate`'s modules be temporary; return the metrics' folder."""
    monkeypatch.setenv("HF_MODULES_CACHE", str(tmp_path / "modules"))
    return tmp_path / "modules" / "evaluate_modules" / "metrics"


def run_python(code: str, folder: Path, **variables: str) -> str:
    """Run code in a process that is not told to stay offline; return what it prints."""
    environment = os.environ | {"HF_HUB_OFFLINE": "", "PYTHONPATH": str(ROOT)} | variables
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        capture_output=True,
        text=True,
        check=False,
        cwd=folder,
        env=environment,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_install_lets_a_script_without_our_import_load_a_metric_when_the_network_fails(
    cache: Path, tmp_path: Path
) -> None:
    hook.install()
    code = """
        import sys, time
        import evaluate, socket
        assert "twmd_registry" not in sys.modules
        def refuse(*args, **settings):
            raise socket.gaierror("no network")
        socket.getaddrinfo = refuse
        start = time.perf_counter()
        metric = evaluate.load("twmd", temperature=0.3)
        seconds = time.perf_counter() - start
        print(seconds, type(metric).__module__, metric.compute(predictions=["a cat"], references=["a cat"])["twmd"])
    """
    seconds, module, score = run_python(code, tmp_path, HF_EVALUATE_CACHE=str(tmp_path / "downloads")).split()
    (installed,) = cache.glob("evaluate-metric--twmd/*/twmd.py")
    assert module == f"evaluate_modules.metrics.evaluate-metric--twmd.{installed.parent.name}.twmd"
    assert float(score) == pytest.approx(1, abs=1e-5)
    assert float(seconds) < 30


def test_installing_twice_writes_the_same_files_and_uninstalling_removes_all(cache: Path, run: Run) -> None:
    assert "off ('twmd install'" in run("list")[1]
    for _ in range(2):
        assert f"installed in {cache}\n" in run("install")[1]
        assert sorted(file.stem for file in cache.rglob("*") if file.is_file()) == sorted(METRICS)
    assert f"on ({cache})" in run("list")[1]
    assert run("uninstall")[0] == 0
    assert list(cache.iterdir()) == []
    assert "nothing to remove" in run("uninstall")[1]


def test_installing_replaces_older_modules_of_ours_and_keeps_others(cache: Path) -> None:
    older, other = (cache / "evaluate-metric--twmd" / (digit * 64) / "twmd.py" for digit in "ab")
    for file, text in ((older, "import twmd_registry"), (other, "import evaluate")):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    hook.install()
    assert (older.parent.exists(), other.exists()) == (False, True)
    assert hook.is_installed()
    assert hook.uninstall()
    assert [file for file in cache.rglob("*") if file.is_file()] == [other]


def test_hook_that_fails_does_not_break_evaluate(tmp_path: Path) -> None:
    """A small package stands for `evaluate`: this happens at its import only."""
    package = tmp_path / "stand-in" / "evaluate"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("from evaluate.loading import load\n", encoding="utf-8")
    (package / "loading.py").write_text("def load(path): return path\n", encoding="utf-8")
    code = """
        import twmd_registry.plugins.evaluate.hook as hook
        def fail(module):
            print('tried')
            raise RuntimeError('hook')
        hook.wrap_factory = fail
        import evaluate
        print(evaluate.load.__name__)
    """
    assert run_python(code, tmp_path, PYTHONPATH=f"{package.parent}{os.pathsep}{ROOT}") == "tried\nload\n"


def test_importing_the_package_costs_next_to_nothing(tmp_path: Path) -> None:
    code = "import time; t = time.perf_counter(); import twmd_registry; print(time.perf_counter() - t)"
    assert any(float(run_python(code, tmp_path)) < 0.3 for _ in range(3))


def test_two_ranks_give_the_scores_of_one(tmp_path: Path) -> None:
    shares = [["a cat sat", "it rains"], ["the dog ran"]]

    def score(rank: int) -> Any:
        metric = evaluate.load(
            "twmd", num_process=2, process_id=rank, experiment_id="two", cache_dir=str(tmp_path), timeout=300
        )
        metric.add_batch(predictions=shares[rank], references=[[f"{text} today"] for text in shares[rank]])
        return metric.compute()

    with ThreadPoolExecutor() as pool:  # the ranks of `evaluate` meet at locked files: threads do as well
        first, second = pool.map(score, (0, 1))
    assert second is None
    texts = [*shares[0], *shares[1]]
    single = twmd_registry.scorer("twmd").score(texts, [f"{text} today" for text in texts])
    assert first["scores"] == pytest.approx(list(single.scores), abs=1e-5)
