"""What happens in processes of their own: scripts that never import us, two ranks, other directories."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

import twmd_registry
from twmd_registry.cli import main
from twmd_registry.errors import FileError
from twmd_registry.plugins.evaluate import startup
from twmd_registry.plugins.evaluate.hook import MARK

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that stands for site-packages, so that no test touches the real one."""
    folder = tmp_path / "site"
    folder.mkdir()
    monkeypatch.setattr(startup, "startup_file", lambda: folder / startup.NAME)
    return folder


def python(code: str, cwd: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    variables = os.environ | {"HF_HUB_OFFLINE": "1", "HF_EVALUATE_OFFLINE": "1", "PYTHONPATH": str(ROOT)} | environment
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        capture_output=True,
        text=True,
        check=False,
        cwd=cwd,
        env=variables,
    )


def test_install_says_where_list_sees_it_and_uninstall_removes_it(
    site: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["list"]) == 0
    assert "off ('twmd install'" in capsys.readouterr().out
    assert main(["install"]) == 0
    assert str(site / startup.NAME) in capsys.readouterr().out
    assert [path.name for path in site.iterdir()] == [startup.NAME]
    main(["list"])
    assert f"on ({site / startup.NAME})" in capsys.readouterr().out
    assert main(["uninstall"]) == 0
    assert list(site.iterdir()) == []
    main(["uninstall"])
    assert "nothing to remove" in capsys.readouterr().out


def test_a_file_that_somebody_changed_is_left_alone(site: Path) -> None:
    startup.install()
    (site / startup.NAME).write_text("import sys\n", encoding="utf-8")
    with pytest.raises(FileError, match="changed by somebody"):
        startup.uninstall()
    assert (site / startup.NAME).read_text(encoding="utf-8") == "import sys\n"


def test_an_environment_that_cannot_be_written_is_a_clear_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(startup, "startup_file", lambda: tmp_path / "missing" / startup.NAME)
    with pytest.raises(FileError, match="cannot write"):
        startup.install()


@pytest.fixture
def stand_in(tmp_path: Path) -> Path:
    """A folder with a small `evaluate` that loads nothing, which what only happens at its import is tried on."""
    package = tmp_path / "stand-in" / "evaluate"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("from evaluate.loading import load\n", encoding="utf-8")
    loading = """
        def evaluation_module_factory(path): raise FileNotFoundError(path)
        def load(path): return evaluation_module_factory(path)
    """
    (package / "loading.py").write_text(textwrap.dedent(loading), encoding="utf-8")
    return package.parent


def test_a_script_that_never_heard_of_us_can_load_and_nothing_waits_for_the_network(site: Path, tmp_path: Path) -> None:
    """No address resolves here, and evaluate is not told to stay offline: a look-up would cost seconds of retries."""
    startup.install()
    code = f"""
        import site; site.addsitedir({str(site)!r})
        import socket, sys, time
        def refuse(*a, **k): raise AssertionError('network')
        socket.getaddrinfo = refuse
        assert 'torch' not in sys.modules and 'evaluate' not in sys.modules
        import evaluate
        start = time.perf_counter()
        metric = evaluate.load("twmd")
        print(time.perf_counter() - start, metric.compute(predictions=["a cat"], references=["a cat"])["twmd"])
    """
    done = python(code, tmp_path, HF_HUB_OFFLINE="", HF_EVALUATE_OFFLINE="")
    assert done.returncode == 0, done.stderr
    seconds, score = map(float, done.stdout.split())
    assert seconds < 30
    assert score == pytest.approx(1, abs=1e-5)


@pytest.mark.parametrize(("disable", "wrapped"), [("", "True"), ("1", "False")])
def test_the_switch_works(disable: str, wrapped: str, site: Path, stand_in: Path, tmp_path: Path) -> None:
    startup.install()
    code = (
        f"import site; site.addsitedir({str(site)!r}); from evaluate import loading; "
        f"print(hasattr(loading.evaluation_module_factory, {MARK!r}))"
    )
    done = python(code, tmp_path, PYTHONPATH=f"{stand_in}{os.pathsep}{ROOT}", TWMD_DISABLE=disable)
    assert (done.stdout.strip(), done.stderr) == (wrapped, "")


def test_a_broken_package_never_breaks_evaluate(site: Path, stand_in: Path, tmp_path: Path) -> None:
    startup.install()
    broken = tmp_path / "broken" / "twmd_registry"
    broken.mkdir(parents=True)
    (broken / "__init__.py").write_text("print('tried')\nraise RuntimeError('broken')\n", encoding="utf-8")
    code = f"import site; site.addsitedir({str(site)!r}); import evaluate; print(evaluate.load.__name__)"
    done = python(code, tmp_path, PYTHONPATH=f"{stand_in}{os.pathsep}{broken.parent}")
    assert (done.stdout, done.stderr) == ("tried\nload\n", "")


def test_a_hook_that_fails_never_breaks_evaluate(stand_in: Path, tmp_path: Path) -> None:
    code = """
        import twmd_registry.plugins.evaluate.hook as hook
        def fail(module):
            print('tried')
            raise RuntimeError('hook')
        hook.wrap_factory = fail
        import evaluate
        print(evaluate.load.__name__)
    """
    done = python(code, tmp_path, PYTHONPATH=f"{stand_in}{os.pathsep}{ROOT}")
    assert (done.stdout, done.stderr) == ("tried\nload\n", "")


def test_importing_the_package_costs_next_to_nothing(tmp_path: Path) -> None:
    code = "import time; t = time.perf_counter(); import twmd_registry; print(time.perf_counter() - t)"
    assert min(float(python(code, tmp_path).stdout) for _ in range(3)) < 0.3


def test_two_processes_give_the_scores_of_one(tmp_path: Path) -> None:
    code = """
        import evaluate
        import twmd_registry
        TEXTS = [["a cat sat", "it rains"], ["the dog ran"]]
        def score(rank):
            metric = evaluate.load(
                "twmd", num_process=2, process_id=rank, experiment_id="two", cache_dir=CACHE, timeout=300
            )
            metric.add_batch(predictions=TEXTS[rank], references=[[text + " today"] for text in TEXTS[rank]])
            return metric.compute()
    """
    code = textwrap.dedent(code).replace("CACHE", repr(str(tmp_path / "cache")))
    variables = os.environ | {"HF_HUB_OFFLINE": "1", "PYTHONPATH": str(ROOT)}
    other = subprocess.Popen(
        [sys.executable, "-c", f"{code}print(score(1))"], stdout=subprocess.PIPE, text=True, cwd=tmp_path, env=variables
    )
    defined: dict[str, Any] = {}
    exec(code, defined)
    first = defined["score"](0)
    assert other.communicate(timeout=300)[0].strip() == "None"
    texts = ["a cat sat", "it rains", "the dog ran"]
    alone = twmd_registry.scorer("twmd").score(texts, [text + " today" for text in texts])
    assert first["scores"] == pytest.approx(list(alone.scores), abs=1e-5)
