"""``twmd hub push`` against a Hub of our own, which knows the few requests that it takes."""

from __future__ import annotations

import base64
import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from twmd_registry.errors import FileError, SpecError
from twmd_registry.hub.space import build_space, push_space, read_token

ROOT = Path(__file__).resolve().parents[2]
TOKEN = "hf_a-token-of-the-tests"


class Hub(ThreadingHTTPServer):
    """A Hub that keeps what it is sent.

    Attributes:
        refuse: Answer requests to create a Space with this status.
        spaces: Visibility of every Space, by name.
        files: What was committed, by name.
        seen: Method and path of every request.
        tokens: The authorisation of every request to write or to see a Space.
    """

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Answer)
        self.refuse: int | None = None
        self.spaces: dict[str, str] = {}
        self.files: dict[str, str] = {}
        self.seen: list[str] = []
        self.tokens: list[str | None] = []

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class Answer(BaseHTTPRequestHandler):
    server: Hub

    def log_message(self, *_: Any) -> None:
        """Say nothing."""

    def reply(self, answer: dict[str, Any], status: int = 200) -> None:
        body = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def note(self) -> None:
        self.server.seen.append(f"{self.command} {self.path.partition('?')[0]}")
        if self.path.startswith(("/api/repos/", "/api/spaces/")):
            self.server.tokens.append(self.headers["Authorization"])

    def do_GET(self) -> None:
        self.note()
        name = self.path.partition("?")[0].removeprefix("/api/spaces/").partition("/revision/")[0]
        if name not in self.server.spaces:
            self.reply({"error": "Repository not found"}, 404)
            return
        self.reply(
            {"id": name, "private": self.server.spaces[name] == "private", "sha": "0" * 40, "siblings": [], "tags": []}
        )

    def do_POST(self) -> None:
        self.note()
        body = self.rfile.read(int(self.headers["Content-Length"] or 0)).decode()
        path = self.path.partition("?")[0]
        if path == "/api/repos/create":
            self.create(json.loads(body))
        elif path.endswith("/preupload/main"):
            self.reply(
                {
                    "files": [
                        {"path": one["path"], "uploadMode": "regular", "shouldIgnore": False}
                        for one in json.loads(body)["files"]
                    ]
                }
            )
        elif path.endswith("/commit/main"):
            self.commit(
                [json.loads(line) for line in body.splitlines()],
                path.removeprefix("/api/spaces/").removesuffix("/commit/main"),
            )
        else:  # the card's front matter, which the Hub checks first
            self.reply(
                {"errors": [], "warnings": []} if path == "/api/validate-yaml" else {"error": "unknown"},
                200 if "yaml" in path else 404,
            )

    def create(self, asked: dict[str, Any]) -> None:
        if self.server.refuse:
            self.reply({"error": f"no {self.headers['Authorization']}"}, self.server.refuse)
            return
        assert (asked["type"], asked["sdk"]) == ("space", "gradio")
        name = f"{asked['organization']}/{asked['name']}"
        known = name in self.server.spaces
        private = asked.get("visibility") == "private" or asked.get("private") is True
        self.server.spaces.setdefault(name, "private" if private else "public")
        self.reply({"url": f"{self.server.address}/spaces/{name}"}, 409 if known else 200)

    def commit(self, lines: list[dict[str, Any]], name: str) -> None:
        self.server.files |= {
            line["value"]["path"]: base64.b64decode(line["value"]["content"]).decode()
            for line in lines
            if line["key"] == "file"
        }
        self.reply(
            {
                "commitUrl": f"{self.server.address}/spaces/{name}/commit/{'1' * 40}",
                "commitOid": "1" * 40,
                "success": True,
            }
        )


@pytest.fixture
def hub() -> Iterator[Hub]:
    server = Hub()
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


def push(
    endpoint: str, tmp_path: Path, *arguments: str, token: str | None = TOKEN, offline: str = "0"
) -> subprocess.CompletedProcess[str]:
    """Push in a process of its own: the Hub's client reads its environment once."""
    environment = {
        name: value
        for name, value in os.environ.items()
        if name not in {"HF_TOKEN", "HUGGING_FACE_HUB_TOKEN", "TRANSFORMERS_OFFLINE"}
    }
    environment |= {
        "HF_ENDPOINT": endpoint,
        "HF_HUB_OFFLINE": offline,
        "HF_HOME": str(tmp_path / "hf"),
        "PYTHONPATH": str(ROOT),
    }
    environment |= {"HF_TOKEN": token} if token else {}
    command = [sys.executable, "-m", "twmd_registry.cli", "hub", "push", *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=300)


def one_line(done: subprocess.CompletedProcess[str], status: int) -> str:
    assert done.returncode == status, done.stderr
    assert done.stdout == ""
    assert TOKEN not in done.stderr
    assert re.fullmatch(r"twmd: .+\n", done.stderr)
    return done.stderr


def test_push_creates_the_space_and_uploads_what_build_writes(hub: Hub, tmp_path: Path) -> None:
    done = push(hub.address, tmp_path, "twmd", "my-org/twmd", "--private")
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"pushed {hub.address}/spaces/my-org/twmd; load it with evaluate.load('my-org/twmd')\n"
    assert TOKEN not in done.stdout + done.stderr
    assert hub.spaces == {"my-org/twmd": "private"}
    build_space("twmd", tmp_path / "built")
    assert hub.files == {file.name: file.read_text(encoding="utf-8") for file in (tmp_path / "built").iterdir()}
    assert set(hub.tokens) == {f"Bearer {TOKEN}"}


def test_second_push_commits_to_what_is_there_under_another_name_too(hub: Hub, tmp_path: Path) -> None:
    hub.spaces["org/mover_2"] = "public"
    (tmp_path / "token").write_text(f"{TOKEN}\n", encoding="utf-8")
    done = push(hub.address, tmp_path, "moverscore", "org/mover_2", "--token-file", str(tmp_path / "token"), token=None)
    assert done.returncode == 0, done.stderr
    assert {"mover_2.py", "README.md", "app.py", "requirements.txt"} == set(hub.files)
    assert set(hub.tokens) == {f"Bearer {TOKEN}"}


def test_private_push_does_not_write_to_a_public_space(hub: Hub, tmp_path: Path) -> None:
    hub.spaces["org/twmd"] = "public"
    assert "org/twmd exists and is public" in one_line(push(hub.address, tmp_path, "twmd", "org/twmd", "--private"), 1)
    assert hub.files == {}


@pytest.mark.parametrize(
    ("status", "message"),
    [
        (401, "HTTP 401): the token must be valid"),
        (400, "HTTP 400): see whether the owner"),
        (501, "HTTP 501): try again later"),
    ],
)
def test_refusal_is_one_line_without_the_token(hub: Hub, tmp_path: Path, status: int, message: str) -> None:
    hub.refuse = status  # the fake's answer repeats the token
    assert message in one_line(push(hub.address, tmp_path, "twmd", "org/twmd"), 1)
    assert hub.files == {}


def test_without_a_network_it_is_one_line(tmp_path: Path) -> None:
    assert "the upload to org/twmd failed (" in one_line(push("http://127.0.0.1:9", tmp_path, "twmd", "org/twmd"), 1)


def test_offline_is_said(hub: Hub, tmp_path: Path) -> None:
    assert "HF_HUB_OFFLINE unset?" in one_line(push(hub.address, tmp_path, "twmd", "org/twmd", offline="1"), 1)
    assert hub.seen == []


def test_without_a_token_nothing_is_sent(hub: Hub, tmp_path: Path) -> None:
    assert "no token to write to the Hub" in one_line(push(hub.address, tmp_path, "twmd", "org/twmd", token=None), 1)
    assert hub.seen == []


@pytest.mark.parametrize("content", [b"", b" \n", b"two words", b"two\nlines", "tökén".encode(), b"\xff"])
def test_file_that_holds_no_token_is_refused_and_not_shown(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "token"
    file.write_bytes(content)
    with pytest.raises(FileError, match="token") as refused:
        read_token(file)
    shown = content.decode(errors="ignore").strip()
    assert not shown or shown not in str(refused.value)
    with pytest.raises(FileError, match="cannot read the token file"):
        read_token(tmp_path / "not there")


@pytest.mark.parametrize(
    "space", ["twmd", "org/tw-md", "org/a/twmd", "org/2twmd", "/twmd", "org/", "https://huggingface.co/org/twmd"]
)
def test_name_that_evaluate_cannot_load_is_refused(space: str) -> None:
    with pytest.raises(SpecError, match="expected ORG/NAME"):
        push_space("twmd", space, token=TOKEN)
