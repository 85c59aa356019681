"""``twmd demo``: its options, and its messages when it serves or cannot serve."""

from __future__ import annotations

import re
import socket
import sys

import pytest

from tests.cli.parsing import Run


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("demo --port 0", "0 is not in the range 1<=x<=65535"),
        ("demo --share", "No such option '--share'"),
        ("demo --metric bleu", "there is no metric 'bleu'"),
    ],
)
def test_bad_usage_is_refused(line: str, words: str, run: Run) -> None:
    pytest.importorskip("gradio")
    status, _, err = run(line)
    assert (status, words in err) == (2, True)


def test_port_that_is_taken_is_named(run: Run) -> None:
    pytest.importorskip("gradio")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        status, _, err = run(f"demo --port {port}")
    message = f"twmd: port {port} is not free: choose another by --port."
    assert (status, err.splitlines()[-1]) == (1, message)


def test_address_is_printed_without_advice_to_publish_it(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("gradio")
    from twmd_registry.demo.page import Page

    monkeypatch.setattr(Page, "block_thread", lambda page: page.close(verbose=False))
    status, out, err = run("demo")
    assert status == 0
    assert re.fullmatch(r"serving on http://127\.0\.0\.1:\d+/ \(this machine only\); Ctrl-C ends it\n", out)
    assert "share" not in err


def test_without_gradio_the_install_line_is_named(monkeypatch: pytest.MonkeyPatch, run: Run) -> None:
    for name in ("page", "tabs"):
        monkeypatch.delitem(sys.modules, f"twmd_registry.demo.{name}", raising=False)
    monkeypatch.setitem(sys.modules, "gradio", None)
    assert run("demo") == (1, "", "twmd: the page needs Gradio: pip install 'twmd-registry[demo]'\n")
