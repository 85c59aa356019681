"""``twmd serve`` and ``twmd demo``: what is refused before anything is served, and the address that is printed."""

from __future__ import annotations

import re
import socket
import sys
from importlib import util
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Run


def skip_without_extra(command: str) -> None:
    for library in {"serve": ("mcp", "prometheus_client"), "demo": ("gradio",)}[command]:
        pytest.importorskip(library)


@pytest.mark.parametrize(
    ("line", "status", "words"),
    [
        ("serve --host 0.0.0.0", 2, "0.0.0.0 can be reached from other machines: set an API key by --api-key-file FI"),
        ("serve --host ::", 2, ":: can be reached from other machines"),
        ("serve --host example.org", 2, "example.org can be reached from other machines"),
        ("serve --api-key-file short.txt", 1, "short.txt has no API key: expected 16 or more ASCII characters"),
        ("serve --api-key-file none.txt", 1, "cannot read the API key none.txt: No such file or directory."),
        ("serve --mcp --port 1", 2, "--port is for HTTP, and --mcp uses standard input and output."),
        ("serve -m bleu", 2, "there is no metric 'bleu'"),
        ("serve --max-pairs 0", 2, "0 is not in the range x>=1"),
        ("demo --port 0", 2, "0 is not in the range 1<=x<=65535"),
        ("demo --share", 2, "No such option '--share'"),
        ("demo --metric bleu", 2, "there is no metric 'bleu'"),
    ],
)
def test_bad_usage_is_refused(line: str, status: int, words: str, run: Run, folder: Path) -> None:
    skip_without_extra(line.split(maxsplit=1)[0])
    (folder / "short.txt").write_text("short\n", encoding="utf-8")
    found, out, err = run(line)
    assert (found, out, words in err) == (status, "", True), err


def test_key_of_the_environment_is_checked(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    skip_without_extra("serve")
    monkeypatch.setenv("TWMD_API_KEY", "two words are no key")
    status, _, err = run("serve")
    assert (status, err.startswith("twmd: TWMD_API_KEY has no API key")) == (1, True)


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("serve", "[Errno 98] Address already in use (while attempting to bind on address ('127.0.0.1', {}))"),
        ("demo", "port {} is not free: choose another by --port."),
    ],
)
def test_port_that_is_taken_is_named(command: str, message: str, run: Run) -> None:
    skip_without_extra(command)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        status, _, err = run(f"{command} --port {port}")
    assert (status, err.splitlines()[-1]) == (1, f"twmd: {message.format(port)}")


def test_without_an_extra_the_install_line_is_named(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    skip_without_extra("serve")
    find_spec = util.find_spec

    def find(name: str, *others: Any) -> Any:
        return None if name == "fastapi" else find_spec(name, *others)

    monkeypatch.setattr(util, "find_spec", find)
    assert run("serve") == (1, "", "twmd: the service needs fastapi: pip install 'twmd-registry[serve]'\n")
    monkeypatch.delitem(sys.modules, "twmd_registry.demo.page", raising=False)
    monkeypatch.setitem(sys.modules, "gradio", None)
    assert run("demo") == (1, "", "twmd: the page needs Gradio: pip install 'twmd-registry[demo]'\n")


def test_address_of_the_demo_is_printed_without_advice_to_publish_it(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    skip_without_extra("demo")
    from twmd_registry.demo.page import Page

    monkeypatch.setattr(Page, "block_thread", lambda page: page.close(verbose=False))
    status, out, err = run("demo")
    assert status == 0
    assert re.fullmatch(r"serving on http://127\.0\.0\.1:\d+/ \(this machine only\); Ctrl-C ends it\n", out)
    assert "share" not in err
