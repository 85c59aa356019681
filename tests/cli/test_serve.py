"""``twmd serve``: what is refused before anything is served."""

from __future__ import annotations

import socket
from importlib import util
from pathlib import Path
from typing import Any

import pytest

from tests.cli.parsing import Run

KEY = "0123456789abcdef"
for library in ("mcp", "prometheus_client"):
    pytest.importorskip(library)


@pytest.mark.parametrize(
    ("line", "status", "words"),
    [
        (
            "serve --host 0.0.0.0",
            2,
            "0.0.0.0 can be reached from other machines: set an API key by --api-key-file FILE",
        ),
        ("serve --host ::", 2, ":: can be reached from other machines"),
        ("serve --host example.org", 2, "example.org can be reached from other machines"),
        ("serve --api-key-file short.txt", 1, "short.txt has no API key: expected 16 or more ASCII characters"),
        ("serve --api-key-file none.txt", 1, "cannot read the API key none.txt: No such file or directory."),
        ("serve --mcp --port 1", 2, "--port is for HTTP, and --mcp uses standard input and output."),
        ("serve -m bleu", 2, "there is no metric 'bleu'"),
        ("serve --max-pairs 0", 2, "0 is not in the range x>=1"),
        ("serve --host 203.0.113.7 --api-key-file key.txt", 1, "cannot listen on 203.0.113.7, port 8080: "),
    ],
)
def test_bad_usage_is_refused(line: str, status: int, words: str, run: Run, folder: Path) -> None:
    (folder / "short.txt").write_text("short\n", encoding="utf-8")
    (folder / "key.txt").write_text(f"{KEY}\n", encoding="utf-8")
    found, out, err = run(line)
    assert (found, out, words in err) == (status, "", True), err
    assert KEY not in err


def test_key_of_the_environment_is_checked(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TWMD_API_KEY", "two words are no key")
    status, _, err = run("serve")
    assert (status, err.startswith("twmd: TWMD_API_KEY has no API key")) == (1, True)


def test_port_that_is_taken_is_named(run: Run) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        status, _, err = run(f"serve --port {port}")
    assert (status, err) == (1, f"twmd: cannot listen on 127.0.0.1, port {port}: Address already in use.\n")


def test_without_the_extra_the_install_line_is_named(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    find_spec = util.find_spec

    def find(name: str, *others: Any) -> Any:
        return None if name == "fastapi" else find_spec(name, *others)

    monkeypatch.setattr(util, "find_spec", find)
    assert run("serve") == (1, "", "twmd: the service needs fastapi: pip install 'twmd-registry[serve]'\n")
