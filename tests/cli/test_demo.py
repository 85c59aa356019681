"""``twmd demo``: what it is given, and what it says when it cannot serve."""

from __future__ import annotations

import re
import socket
import sys

import pytest

from twmd_registry.cli import main


@pytest.mark.parametrize(
    ("arguments", "words"),
    [(["--port", "0"], "0 is not in the range 1<=x<=65535"), (["--share"], "No such option '--share'")],
)
def test_bad_usage_is_refused(arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["demo", *arguments]) == 2
    assert words in capsys.readouterr().err


def test_unknown_metric_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("gradio")
    assert main(["demo", "--metric", "bleu"]) == 2
    assert "there is no metric 'bleu'" in capsys.readouterr().err


def test_port_that_is_taken_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("gradio")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert main(["demo", "--port", str(port)]) == 1
    assert (
        capsys.readouterr().err.splitlines()[-1]
        == f"twmd: no port is free from {port} to {port}: choose another by --port."
    )


def test_it_prints_its_address_and_nothing_that_advises_to_publish_it(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("gradio")
    from twmd_registry.demo.page import Page

    monkeypatch.setattr(Page, "block_thread", lambda page: page.close(verbose=False))
    assert main(["demo"]) == 0
    printed = capsys.readouterr()
    assert re.fullmatch(r"serving on http://127\.0\.0\.1:\d+/ \(this machine only\); Ctrl-C ends it\n", printed.out)
    assert "share" not in printed.err


def test_without_gradio_the_install_line_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("page", "tabs", "api"):
        monkeypatch.delitem(sys.modules, f"twmd_registry.demo.{name}", raising=False)
    monkeypatch.setitem(sys.modules, "gradio", None)
    assert main(["demo"]) == 1
    assert capsys.readouterr().err == "twmd: the page needs Gradio: pip install 'twmd-registry[demo]'\n"
