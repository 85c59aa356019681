"""A service to ask: a process of its own, or a thread of this one."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path
from typing import Any, NamedTuple

import uvicorn

from tests.conftest import Texts
from tests.processes import PATIENCE
from twmd_registry.serve.connection import Connection
from twmd_registry.serve.http import make_app
from twmd_registry.serve.service import Service

JSON = {"Content-Type": "application/json"}


class Answered(NamedTuple):
    status: int
    headers: dict[str, str]
    body: Any


def ask(port: int, path: str, body: Any = None, headers: dict[str, str] | None = None) -> Answered:
    """Send a request, a POST of JSON (or of bytes as they are) if there is a body; return status and answer."""
    connection = HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
    try:
        sent = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
        connection.request("GET" if body is None else "POST", path, sent, JSON if headers is None else headers)
        answer = connection.getresponse()
        text, names = answer.read(), {name.lower(): value for name, value in answer.getheaders()}
        is_json = names["content-type"].startswith("application/json")
        return Answered(answer.status, names, json.loads(text) if is_json else text.decode())
    finally:
        connection.close()


def body_of(texts: Texts, first: int = 0, number: int = 10) -> dict[str, list[str]]:
    """Return the body of a request for some pairs in a row; they begin again after the last."""
    rows = [i % len(texts.predictions) for i in range(first, first + number)]
    return {"predictions": [texts.predictions[i] for i in rows], "references": [texts.references[i] for i in rows]}


def count_passes(port: int) -> float:
    lines = ask(port, "/prometheus").body.splitlines()
    return sum(float(line.split()[-1]) for line in lines if line.startswith("twmd_pass_seconds_count"))


def wait_until(condition: Callable[[], Any], what: str = "") -> None:
    """Wait until a condition holds."""
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end, what
        time.sleep(0.02)


class ServingProcess(NamedTuple):
    port: int
    process: subprocess.Popen[str]
    log: Path


@contextmanager
def serving_process(folder: Path, *arguments: str) -> Iterator[ServingProcess]:
    """Run ``twmd serve`` on a free port; its stderr is the log."""
    command = [sys.executable, "-m", "twmd_registry.cli", "serve", "--port", "0", *arguments]
    log = folder / "log"
    with (
        log.open("w") as stream,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=stream, text=True, env=os.environ) as process,
    ):
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            assert line.startswith("serving on http://127.0.0.1:"), log.read_text()
            yield ServingProcess(int(line.split()[2].rpartition(":")[2]), process, log)
        finally:
            process.kill()


@contextmanager
def serving_thread(service: Service, key: str | None = None) -> Iterator[int]:
    """Serve in a thread, and stop gracefully at the end; yield the port."""
    service.load()
    config = uvicorn.Config(make_app(service, key), http=Connection, log_level="warning")
    server = uvicorn.Server(config)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=server.run, args=([listener],))
        thread.start()
        try:
            wait_until(lambda: server.started)
            yield listener.getsockname()[1]
        finally:
            server.should_exit = True
            thread.join(PATIENCE)
            assert not thread.is_alive()
