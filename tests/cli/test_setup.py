"""``twmd explain``, ``serve`` and ``demo``; and the progress bars of all commands."""

from __future__ import annotations

import json
import re
import socket
import sys
from importlib import metadata, util
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from packaging.requirements import Requirement

import twmd_registry
from tests.cli.parsing import Terminal
from tests.conftest import Refused, Run
from twmd_registry.cli import terminal
from twmd_registry.demo.space import requirements
from twmd_registry.errors import install_command, pip_install
from twmd_registry.registry.metrics import CATALOGUE
from twmd_registry.registry.names import MetricName
from twmd_registry.registry.presets import presets, presets_of
from twmd_registry.version import __version__


def test_explain_without_a_metric_lists_every_metric_and_preset(run: Run) -> None:
    status, out, _ = run("explain")
    assert status == 0
    assert all(f"\n{metric} " in out for metric in MetricName)
    embedded = [line for line in out.splitlines() if line.startswith("embedded ")]
    assert embedded
    assert all("yes (installed)" in line for line in embedded)
    rows = json.loads(run("explain --format json")[1])
    assert [(row["metric"], row["preset"]) for row in rows] == [(str(metric), name) for metric, name in presets()]
    words = "".join(out.split())
    assert all(row["preset"] in words for row in rows)


@pytest.mark.parametrize("what", ["", *(f"-m {metric}" for metric in MetricName), "-m twmd --preset embedded-tuned"])
def test_explain_fits_a_screen_of_80_columns(what: str, run: Run) -> None:
    lines = run(f"explain {what}")[1].splitlines()
    assert len(lines) <= 41
    assert [line for line in lines if len(line) > 80] == []
    if what:
        facts, words = CATALOGUE[MetricName(what.split()[1])], set(re.split(r"[,;:\s]+", " ".join(lines)))
        assert {*facts.keys, *presets_of(MetricName(what.split()[1]))} <= words


def test_fit_mean_hash_can_be_set(folder: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TWMD_HOME", str(folder / "home"))
    (folder / "corpus.txt").write_text("the cat sat\nit rains\n", encoding="utf-8")
    (folder / "more.jsonl").write_text('{"prediction": "a", "references": ["b", "c"]}\n', encoding="utf-8")
    values, signatures = [], set()
    for option in ("", "-o means"):
        fitted, use = run(f"fit mean corpus.txt more.jsonl {option}")[1].splitlines()
        assert fitted.startswith("fitted on 5 texts, ")
        values.append(use.removeprefix("use --set "))
        signatures.add(run(f"score corpus.txt -i corpus.txt --set {values[-1]}")[1].splitlines()[-1])
    assert len(signatures) == 1
    assert f"centering:background%3A{values[0].rpartition(':')[2]}" in signatures.pop()
    (folder / "blank.txt").write_text("\n \n", encoding="utf-8")
    assert "every text is empty" in run("fit mean blank.txt")[2]


WATCHED = {
    "score few.txt -i few.txt few.txt -m twmd": "80/80 segments",
    "score few.txt -i few.txt -m stsscore bleu --record rec.json": "40/40 segments",
    "report few.txt -i few.txt other.txt -m sbert -o report.html": "80/80 segments",
    "verify rec.json": "40/40 segments",
    "fit mean few.txt -o means": "40/40 texts",
    "correlate table:rated.jsonl -m twmd bleu --resamples 0": "36/36 segments",
    "tune table:rated.jsonl -m sbert --layers 1 --try centering=none special=all": "12/12 segments",
    "score few.txt -i few.txt --set centering=corpus": "40/40 segments",
    "score few.txt -i few.txt --quiet": None,
}
"""Command lines, and the last state of their bars; None without a bar."""


def test_long_work_shows_a_bar_with_total_rate_and_time_left(
    folder: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, text in (("few", "Line {} of a text is not long.\n"), ("other", "Row {} of it.\n")):
        (folder / f"{name}.txt").write_text("".join(text.format(i) for i in range(40)), encoding="utf-8")
    rows = [
        {"prediction": "Line is not" + " long" * (i % 3), "reference": f"Line {i} was long.", "rating": i % 2}
        for i in range(12)
    ]
    (folder / "rated.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setattr(terminal, "PATIENCE_S", 0.0)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "120")
    with twmd_registry.load("twmd"):
        for line, bar in WATCHED.items():
            with monkeypatch.context() as patch:
                patch.setattr(sys, "stderr", shown := Terminal())
                status, out, _ = run(line)
            assert status == 0, (line, out, shown.getvalue()[-500:])
            bars = re.findall(r" (\d+/\d+ \w+) \d:\d\d:\d\d [-\d]:[-\d]{2}:[-\d]{2} [\d.e+]+/s", shown.getvalue())
            assert bool(bars) is (bar is not None), (line, shown.getvalue())
            if bar is not None:
                assert any(bar in state for state in bars), (line, bars)


def skip_without_extra(command: str) -> None:
    for library in {"serve": ("mcp", "prometheus_client"), "demo": ("gradio",)}[command]:
        pytest.importorskip(library)


@pytest.mark.parametrize(
    ("line", "status", "words"),
    [
        ("serve --host 0.0.0.0", 2, "other machines can reach 0.0.0.0: set an API key with --api-key-file FI"),
        ("serve --host ::", 2, "other machines can reach ::"),
        ("serve --host example.org", 2, "other machines can reach example.org"),
        ("serve --api-key-file short.txt", 1, "short.txt has no API key: expected at least 16 ASCII characters"),
        ("serve --api-key-file none.txt", 1, "cannot read the API key none.txt: No such file or directory."),
        ("serve --mcp --port 1", 2, "--port applies to HTTP"),
        ("demo -m bleu", 2, "unknown metric 'bleu'"),
    ],
)
def test_bad_usage_is_refused(line: str, status: int, words: str, refused: Refused, folder: Path) -> None:
    skip_without_extra(line.split(maxsplit=1)[0])
    (folder / "short.txt").write_text("short\n", encoding="utf-8")
    refused(line, words, status)


def test_key_of_the_environment_is_checked(refused: Refused, monkeypatch: pytest.MonkeyPatch) -> None:
    skip_without_extra("serve")
    monkeypatch.setenv("TWMD_API_KEY", "two words are no key")
    refused("serve", "twmd: TWMD_API_KEY has no API key", 1)


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("serve", "[Errno 98] Address already in use (while attempting to bind on address ('127.0.0.1', {}))"),
        ("demo", "port {} is not free: choose another with --port."),
    ],
)
def test_occupied_port_is_named(command: str, message: str, run: Run) -> None:
    skip_without_extra(command)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        status, _, err = run(f"{command} --port {port}")
    assert (status, err.splitlines()[-1]) == (1, f"twmd: {message.format(port)}")


def test_missing_extra_error_shows_the_install_line(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    skip_without_extra("serve")
    find_spec = util.find_spec

    def find(name: str, *others: Any) -> Any:
        return None if name == "fastapi" else find_spec(name, *others)

    monkeypatch.setattr(util, "find_spec", find)
    assert run("serve") == (1, "", f"twmd: the service needs fastapi: {install_command('serve')}\n")
    monkeypatch.delitem(sys.modules, "twmd_registry.demo.page", raising=False)
    monkeypatch.setitem(sys.modules, "gradio", None)
    assert run("demo") == (1, "", f"twmd: the page needs Gradio: {install_command('demo')}\n")


REQUIRED = ["numpy>=1.26", "matplotlib>=3.8; extra == 'plots'", "ray[data]>=2.40 ; extra == 'ray'"]


@pytest.mark.parametrize(
    ("origin", "command"),
    [
        (None, "pip install 'twmd-registry[plots]'"),
        ({"url": "FOLDER", "dir_info": {"editable": True}}, "pip install -e 'FOLDER[plots]'"),
        ({"url": "FOLDER", "dir_info": {}}, "pip install 'FOLDER[plots]'"),
        ({"url": "file:///gone/checkout", "dir_info": {}}, "pip install 'matplotlib>=3.8'"),
        (
            {"url": "https://example.org/twmd.git", "vcs_info": {"vcs": "git", "commit_id": "0" * 40}},
            f"pip install 'twmd-registry[plots] @ git+https://example.org/twmd.git@{'0' * 40}'",
        ),
        (
            {"url": "https://example.org/twmd.whl", "archive_info": {}},
            "pip install 'twmd-registry[plots] @ https://example.org/twmd.whl'",
        ),
    ],
)
def test_install_line_names_the_installations_origin(
    origin: Any, command: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = json.dumps(origin).replace("FOLDER", folder.as_uri()) if origin else None
    installed = SimpleNamespace(read_text=lambda _name: text, requires=REQUIRED)
    monkeypatch.setattr(metadata, "distribution", lambda _name: installed)
    assert install_command("plots") == command.replace("FOLDER", str(folder))
    needed = Requirement(requirements().splitlines()[-1])  # of a Space, which cannot read a folder of this machine
    assert (needed.url or str(needed.specifier)) == (command.partition(" @ ")[2].strip("'") or f"=={__version__}")


def test_install_line_names_the_environments_installer(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    assert pip_install("peft>=0.14") == "pip install 'peft>=0.14'"
    monkeypatch.setattr(util, "find_spec", lambda _name: None)
    assert pip_install("peft") == f"uv pip install --python {tmp_path} peft"
    (tmp_path / "pipx_metadata.json").touch()
    assert pip_install("peft") == "pipx runpip twmd-registry install peft"


def test_uninstall_removes_models_and_lists_what_remains(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TWMD_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("HF_MODULES_CACHE", str(tmp_path / "modules"))
    presets, made = (tmp_path / "home" / name / "file" for name in ("presets", "models"))
    for path in (presets, made):
        path.parent.mkdir(parents=True)
        path.write_text("")
    assert f"kept: your own presets and fits in {tmp_path / 'home'}" in run("setup uninstall")[1]
    assert (presets.is_file(), made.parent.exists()) == (True, False)
    presets.unlink()
    run("setup uninstall")
    assert not (tmp_path / "home").exists()


def test_demo_address_is_printed_without_advice_to_publish_it(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    skip_without_extra("demo")
    monkeypatch.setattr("gradio.Blocks.block_thread", lambda page: page.close(verbose=False))
    status, out, err = run("demo")
    assert status == 0
    assert re.fullmatch(r"serving on http://127\.0\.0\.1:\d+/ \(this machine only\); Ctrl-C ends it\n", out)
    assert "share" not in err
