"""The processes: an HTTP server that stops gracefully, and an MCP server on standard input and output."""

from __future__ import annotations

import asyncio
import ipaddress
import json
import os
import re
import socket
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from twmd_registry.errors import FileError, SpecError
from twmd_registry.registry.paths import read_secret
from twmd_registry.serve.app import make_app
from twmd_registry.serve.mcp_tools import make_mcp_server, run_on_stdio
from twmd_registry.serve.service import Service

KEY_VARIABLE = "TWMD_API_KEY"
SPARE_CONNECTIONS = 64
"""Connections beside those whose requests wait; more are answered 503 at once."""


class TimedProtocol(H11Protocol):
    """HTTP/1.1 on a connection that is closed where no whole head of a request arrives in time: at its begin, and after
    an answer, which must have been taken by then; and where answers that wait are not taken in time. What is no HTTP
    gets an answer as other errors have it.
    """

    _untaken: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        """Wait for the first request."""
        super().connection_made(transport)
        self._limit_wait()

    def on_response_complete(self) -> None:
        """Wait for the next request."""
        super().on_response_complete()
        self._limit_wait()

    def pause_writing(self) -> None:
        """Wait for the client to take what was sent, also where more requests of it wait."""
        super().pause_writing()
        self._untaken = self.loop.call_later(self.timeout_keep_alive, self.transport.abort)

    def resume_writing(self) -> None:
        """Go on with the answers."""
        super().resume_writing()
        if self._untaken is not None:
            self._untaken.cancel()

    def send_400_response(self, msg: str) -> None:
        """Answer what is no HTTP, and close the connection."""
        body = json.dumps({"error": msg}).encode()
        length = ("Content-Length", str(len(body)))
        headers = [("Content-Type", "application/json"), length, ("Connection", "close")]
        for event in h11.Response(status_code=400, headers=headers), h11.Data(data=body), h11.EndOfMessage():
            self.transport.write(self.conn.send(event) or b"")
        self.transport.close()

    def _limit_wait(self) -> None:
        self.loop.call_later(self.timeout_keep_alive, self._close_without_request, self.cycle)

    def _close_without_request(self, before: Any) -> None:
        if self.cycle is before and (before is None or before.response_complete):
            self.transport.abort()


class DrainingServer(uvicorn.Server):
    """On the first SIGTERM or SIGINT refuses new requests, answers those that wait, and ends; on the second, ends."""

    def __init__(self, config: uvicorn.Config, service: Service) -> None:
        """Make it; `run` serves."""
        super().__init__(config)
        self._service = service

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Stop gracefully, or at once where that was asked for before."""
        if self._service.stopping:
            super().handle_exit(sig, frame)
            self.force_exit = True
        self._service.stopping = True

    async def on_tick(self, counter: int) -> bool:
        """End when all requests are answered."""
        done = await super().on_tick(counter)
        return done or (self._service.stopping and not self._service.open)


def read_key(file: Path | None) -> str | None:
    """Read the API key from a file, or from the environment; None if there is none. No error shows it."""
    key = os.environ.get(KEY_VARIABLE) if file is None else read_secret(file, "the API key")
    if key is not None and not re.fullmatch(r"[!-~]{16,}", key):
        raise FileError(f"{file or KEY_VARIABLE} has no API key: expected 16 or more ASCII characters without blanks.")
    return key


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def serve_http(service: Service, host: str, port: int, key: str | None, announce: Callable[[str], None]) -> None:
    """Serve over HTTP until a signal ends it; port 0 is one that is free, and `announce` gets the URL."""
    if key is None and not _is_loopback(host):
        how = f"--api-key-file FILE or {KEY_VARIABLE}"
        raise SpecError(f"{host} can be reached from other machines: set an API key by {how}, or use 127.0.0.1.")
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        listener = socket.create_server((host, port), family=family, backlog=service.limits.waiting)
    except OSError as error:
        raise FileError(f"cannot listen on {host}, port {port}: {str(error.strerror).partition(' (')[0]}.") from error
    with listener:
        service.load()
        config = uvicorn.Config(
            make_app(service, key),
            http=TimedProtocol,
            ws="none",
            timeout_keep_alive=service.limits.transfer,
            log_level="warning",
            access_log=False,
            server_header=False,
            limit_concurrency=service.limits.waiting + SPARE_CONNECTIONS,
            timeout_graceful_shutdown=service.limits.seconds + 1,
        )
        name = f"[{host}]" if ":" in host else host
        announce(f"http://{name}:{listener.getsockname()[1]}")
        DrainingServer(config, service).run([listener])


def serve_mcp(service: Service) -> None:
    """Serve MCP on standard input and output until the client closes them; what it has sent is answered."""
    service.load()

    async def serve() -> None:
        async with service.running():
            await run_on_stdio(make_mcp_server(service), service.limits.seconds)

    asyncio.run(serve())
