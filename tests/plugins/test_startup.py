"""What happens in processes of their own: scripts that never import us, two ranks, other directories."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from twmd_registry.cli import main
from twmd_registry.errors import FileError
from twmd_registry.plugins.evaluate import startup

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
    return subprocess.run([sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, check=False, cwd=cwd, env=variables)


def test_install_says_where_list_sees_it_and_uninstall_removes_it(site: Path, capsys: pytest.CaptureFixture[str]) -> None:
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


def test_an_environment_that_cannot_be_written_is_a_clear_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(startup, "startup_file", lambda: tmp_path / "missing" / startup.NAME)
    with pytest.raises(FileError, match="cannot write"):
        startup.install()


def test_a_script_that_never_heard_of_us_can_load_and_the_switch_works(site: Path, tmp_path: Path) -> None:
    startup.install()
    code = f"""
        import site; site.addsitedir({str(site)!r})
        import sys
        assert 'torch' not in sys.modules and 'evaluate' not in sys.modules
        import evaluate
        metric = evaluate.load("twmd")
        print(metric.compute(predictions=["a cat"], references=["a cat"])["twmd"])
    """
    on = python(code, tmp_path)
    assert on.returncode == 0, on.stderr
    assert float(on.stdout) == pytest.approx(1, abs=1e-5)
    off = python(code, tmp_path, TWMD_DISABLE="1")
    assert "Couldn't find a module script" in off.stderr


def test_a_broken_package_never_breaks_evaluate(site: Path, tmp_path: Path) -> None:
    startup.install()
    broken = tmp_path / "broken" / "twmd_registry"
    broken.mkdir(parents=True)
    (broken / "__init__.py").write_text("raise RuntimeError('broken')\n", encoding="utf-8")
    done = python(f"import site; site.addsitedir({str(site)!r}); import evaluate; print('fine')", tmp_path, PYTHONPATH=str(tmp_path / "broken"))
    assert (done.stdout.strip(), "broken" in done.stderr) == ("fine", False)


def test_a_hook_that_fails_never_breaks_evaluate(tmp_path: Path) -> None:
    code = """
        import twmd_registry.plugins.evaluate.hook as hook
        def fail(module): raise RuntimeError('hook')
        hook.wrap_factory = fail
        import evaluate
        print(evaluate.load.__name__)
    """
    done = python(code, tmp_path)
    assert done.stdout.strip() == "load", done.stderr


def test_importing_the_package_costs_next_to_nothing(tmp_path: Path) -> None:
    code = "import time; t = time.perf_counter(); import twmd_registry; print(time.perf_counter() - t)"
    assert min(float(python(code, tmp_path).stdout) for _ in range(3)) < 0.3


def test_two_processes_give_the_scores_of_one(tmp_path: Path) -> None:
    code = """
        import sys
        import evaluate, twmd_registry
        rank = int(sys.argv[1]) if len(sys.argv) > 1 else RANK
        metric = evaluate.load("twmd", num_process=2, process_id=rank, experiment_id="two", cache_dir="cache", timeout=60)
        texts = [["a cat sat", "it rains"], ["the dog ran"]][rank]
        metric.add_batch(predictions=texts, references=[[text + " today"] for text in texts])
        result = metric.compute()
        print(result if result is None else result["scores"])
    """
    variables = os.environ | {"HF_HUB_OFFLINE": "1", "PYTHONPATH": str(ROOT)}
    ranks = [
        subprocess.Popen(
            [sys.executable, "-c", textwrap.dedent(code).replace("RANK", str(rank))], stdout=subprocess.PIPE, text=True, cwd=tmp_path, env=variables
        )
        for rank in (1, 0)
    ]
    other, first = (process.communicate(timeout=200)[0].strip() for process in ranks)
    assert other == "None"
    import twmd_registry

    texts = ["a cat sat", "it rains", "the dog ran"]
    alone = twmd_registry.scorer("twmd").score(texts, [text + " today" for text in texts])
    assert [float(x) for x in first.strip("[]").split(",")] == pytest.approx(list(alone.scores), abs=1e-5)


def test_nothing_waits_for_the_network(tmp_path: Path) -> None:
    """No address resolves here, and evaluate is not told to stay offline: a look-up would cost seconds of retries."""
    code = """
        import socket, time
        def refuse(*a, **k): raise AssertionError('network')
        socket.getaddrinfo = refuse
        import twmd_registry
        import evaluate
        start = time.perf_counter()
        evaluate.load("twmd")
        print(time.perf_counter() - start)
    """
    environment = dict.fromkeys(("HF_HUB_OFFLINE", "HF_EVALUATE_OFFLINE"), "")
    done = python(code, tmp_path, **environment)
    assert done.returncode == 0, done.stderr
    assert float(done.stdout) < 30
