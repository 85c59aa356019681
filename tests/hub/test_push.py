"""``twmd hub push`` against a fake Hub that answers the requests of a push."""

from __future__ import annotations

import base64
import json
import re
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, TypeAlias

import pytest
from huggingface_hub import constants

from tests.conftest import Run
from twmd_registry.errors import FileError, SpecError
from twmd_registry.hub.space import build_space, push_space, read_token

TOKEN = "hf_a-token-of-the-tests"


class Hub(ThreadingHTTPServer):
    """A Hub that records requests.

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
        """Print no line per request."""

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
        private = self.server.spaces[name] == "private"
        self.reply({"id": name, "private": private, "sha": "0" * 40, "siblings": [], "tags": []})

    def do_POST(self) -> None:
        self.note()
        body = self.rfile.read(int(self.headers["Content-Length"] or 0)).decode()
        path = self.path.partition("?")[0]
        if path == "/api/repos/create":
            self.create(json.loads(body))
        elif path.endswith("/preupload/main"):
            how = {"uploadMode": "regular", "shouldIgnore": False}
            self.reply({"files": [{"path": file["path"]} | how for file in json.loads(body)["files"]]})
        elif path.endswith("/commit/main"):
            name = path.removeprefix("/api/spaces/").removesuffix("/commit/main")
            self.commit([json.loads(line) for line in body.splitlines()], name)
        elif path == "/api/validate-yaml":  # the card's front matter, which the Hub checks first
            self.reply({"errors": [], "warnings": []})
        else:
            self.reply({"error": "unknown"}, 404)

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
        url = f"{self.server.address}/spaces/{name}/commit/{'1' * 40}"
        self.reply({"commitUrl": url, "commitOid": "1" * 40, "success": True})


@pytest.fixture
def hub() -> Iterator[Hub]:
    server = Hub()
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


Push: TypeAlias = Callable[..., tuple[int, str, str]]


@pytest.fixture
def push(hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: Run) -> Push:
    """Push to the fake Hub; returns status, output and errors, in which no token may be."""
    monkeypatch.delenv("HUGGING_FACE_HUB_TOKEN", raising=False)
    monkeypatch.setattr(constants, "HF_TOKEN_PATH", str(tmp_path / "no token"))

    def call(*arguments: str, token: str | None = TOKEN, endpoint: str = hub.address, offline: bool = False) -> Any:
        monkeypatch.setattr(constants, "ENDPOINT", endpoint)
        monkeypatch.setattr(constants, "HF_HUB_OFFLINE", offline)
        monkeypatch.setenv("HF_TOKEN", token or "")
        status, out, err = run("hub push", *arguments)
        assert TOKEN not in out + err
        return status, out, err

    return call


def error_of(pushed: tuple[int, str, str]) -> str:
    status, out, error = pushed
    assert (status, out) == (1, "")
    assert re.fullmatch(r"twmd: .+\n", error)
    return error


def test_push_creates_the_space_and_uploads_the_files_of_build(hub: Hub, push: Push, tmp_path: Path) -> None:
    status, out, error = push("twmd", "my-org/twmd", "--private")
    assert status == 0, error
    assert out == f"pushed {hub.address}/spaces/my-org/twmd; load it with evaluate.load('my-org/twmd')\n"
    assert hub.spaces == {"my-org/twmd": "private"}
    build_space("twmd", tmp_path / "built")
    assert hub.files == {file.name: file.read_text(encoding="utf-8") for file in (tmp_path / "built").iterdir()}
    assert set(hub.tokens) == {f"Bearer {TOKEN}"}


def test_push_commits_to_an_existing_space_of_another_name(hub: Hub, push: Push, tmp_path: Path) -> None:
    hub.spaces["org/mover_2"] = "public"
    (tmp_path / "token").write_text(f"{TOKEN}\n", encoding="utf-8")
    status, _, error = push("moverscore", "org/mover_2", "--token-file", str(tmp_path / "token"), token=None)
    assert status == 0, error
    assert {"mover_2.py", "README.md", "app.py", "requirements.txt"} == set(hub.files)
    assert set(hub.tokens) == {f"Bearer {TOKEN}"}


def test_private_push_does_not_write_to_a_public_space(hub: Hub, push: Push) -> None:
    hub.spaces["org/twmd"] = "public"
    assert "org/twmd exists and is public" in error_of(push("twmd", "org/twmd", "--private"))
    assert hub.files == {}


def test_refusal_is_one_line_without_the_token(hub: Hub, push: Push) -> None:
    advice = {401: "the token must be valid", 400: "see whether the owner", 501: "try again later"}
    for status, words in advice.items():
        hub.refuse = status  # the fake's answer repeats the token
        assert f"HTTP {status}): {words}" in error_of(push("twmd", "org/twmd"))
    assert hub.files == {}


def test_missing_network_and_offline_mode_are_one_line(hub: Hub, push: Push) -> None:
    assert "the upload to org/twmd failed (" in error_of(push("twmd", "org/twmd", endpoint="http://127.0.0.1:9"))
    assert "HF_HUB_OFFLINE unset?" in error_of(push("twmd", "org/twmd", offline=True))
    assert hub.seen == []


def test_push_without_a_token_sends_nothing(hub: Hub, push: Push) -> None:
    assert "no token to write to the Hub" in error_of(push("twmd", "org/twmd", token=None))
    assert hub.seen == []


@pytest.mark.parametrize("content", [b" \n", b"two words", "tökén".encode(), b"\xff"])
def test_file_without_a_token_is_refused_and_not_shown(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "token"
    file.write_bytes(content)
    with pytest.raises(FileError, match="token") as refused:
        read_token(file)
    shown = content.decode(errors="ignore").strip()
    assert not shown or shown not in str(refused.value)
    with pytest.raises(FileError, match="cannot read the token file"):
        read_token(tmp_path / "not there")


@pytest.mark.parametrize("space", ["twmd", "org/tw-md", "org/2twmd", "https://huggingface.co/org/twmd"])
def test_name_that_evaluate_cannot_load_is_refused(space: str) -> None:
    with pytest.raises(SpecError, match="expected ORG/NAME"):
        push_space("twmd", space, token=TOKEN)
