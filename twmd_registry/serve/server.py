"""The processes: an HTTP server that stops gracefully, and an MCP server on standard input and output."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import ipaddress
import json
import os
import re
import signal
import socket
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import CancelledError
from pathlib import Path
from types import FrameType
from typing import Any

import anyio
import h11
import uvicorn
from pydantic import BaseModel, ConfigDict, ValidationError, create_model
from uvicorn.protocols.http.h11_impl import H11Protocol

from twmd_registry.errors import FileError, InputError, SpecError, TwmdError
from twmd_registry.registry.paths import read_secret
from twmd_registry.serve import service as routes
from twmd_registry.serve.service import AlignRequest, Answer, ScoreRequest, Service, make_app, parse
from twmd_registry.version import __version__

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


ABOUT = (
    "Scores generated texts against references by embedding metrics; higher is closer. Publish the signature with a "
    "score: it names exactly what was computed. Tools use the first metric of list_metrics if none is named."
)

_NoFields = create_model("NoFields", __config__=ConfigDict(extra="forbid"))
CANCELLED = "notifications/cancelled"


def make_mcp_server(service: Service) -> Any:
    """Make the MCP `Server` of a service that is running; its tools are those of HTTP."""
    from mcp import types
    from mcp.server.lowlevel import Server

    async def list_metrics() -> Answer:
        return {"result": service.list_metrics()}

    tools: dict[str, tuple[type[BaseModel], Callable[..., Coroutine[Any, Any, Answer]], Callable[..., Any]]] = {
        "score": (ScoreRequest, service.score, routes.score),
        "align": (AlignRequest, service.align, routes.align),
        "list_metrics": (_NoFields, list_metrics, routes.metrics),
    }

    async def list_tools(*_: object) -> Any:
        return types.ListToolsResult(
            tools=[
                types.Tool(name=name, description=inspect.getdoc(route), input_schema=kind.model_json_schema())
                for name, (kind, _, route) in tools.items()
            ]
        )

    async def call_tool(_: object, call: Any) -> Any:
        try:
            if call.name not in tools:
                raise InputError(f"there is no tool {call.name[:80]!r}; there are {', '.join(tools)}.")
            kind, compute, _route = tools[call.name]
            answer = await compute(**vars(parse(kind, json.dumps(call.arguments or {}).encode())))
        except TwmdError as error:  # an error of the tool, which the client shows
            return types.CallToolResult(content=[types.TextContent(type="text", text=str(error))], is_error=True)
        text = types.TextContent(type="text", text=json.dumps(answer))
        return types.CallToolResult(content=[text], structured_content=answer)

    return Server("twmd", version=__version__, instructions=ABOUT, on_list_tools=list_tools, on_call_tool=call_tool)


def _send_lines(lines: Any, loop: asyncio.AbstractEventLoop) -> None:
    """Send the lines of standard input, from a thread of its own, which a stop need not wait for."""

    def call(coroutine: Coroutine[Any, Any, None]) -> None:
        asyncio.run_coroutine_threadsafe(coroutine, loop).result()

    with contextlib.suppress(anyio.ClosedResourceError, anyio.BrokenResourceError, CancelledError, RuntimeError):
        with open(0, "rb", closefd=False) as source:
            for line in source:
                if line.strip():
                    call(lines.send(line.decode(errors="replace")))
        call(lines.aclose())


def _refusal(error: Exception) -> Any:
    """Return the answer to a line that is no message of JSON-RPC, with the id of its request if one can be found."""
    from mcp import types

    found = error.errors(include_url=False) if isinstance(error, ValidationError) else []
    code, message, request = types.INVALID_REQUEST, "the message is no request of JSON-RPC 2.0.", None
    if found and found[0]["type"] == "json_invalid":
        code, message = types.PARSE_ERROR, f"the message is not JSON in UTF-8, on one line: {found[0]['msg']}."
        with contextlib.suppress(ValueError, RecursionError):  # Python reads half a surrogate pair, too
            request = json.loads(found[0]["input"])
    else:
        request = next((one["input"] for one in found if one["type"] == "missing"), None)
    name = request.get("id") if isinstance(request, dict) else None
    known = type(name) is int or (isinstance(name, str) and name.isascii())
    details = types.ErrorData(code=code, message=message)
    return types.JSONRPCError(jsonrpc="2.0", id=name if known else None, error=details)


def _close_on_signals(lines: Any, loop: asyncio.AbstractEventLoop) -> None:
    """End the input on the first SIGTERM or SIGINT; the second ends the process."""

    def stop(*_: object) -> None:
        for number in signal.SIGINT, signal.SIGTERM:
            signal.signal(number, signal.SIG_DFL)
        loop.call_soon_threadsafe(lines.close)

    for number in signal.SIGINT, signal.SIGTERM:
        signal.signal(number, stop)


async def run_on_stdio(server: Any, limit: float) -> None:
    """Serve on standard input and output until its end or a signal; what was read is answered, for `limit` seconds."""
    from mcp import types
    from mcp.server.stdio import stdio_server
    from mcp.shared.message import SessionMessage

    waiting, loop = set[Any](), asyncio.get_running_loop()
    to_stdio, lines = anyio.create_memory_object_stream[str](0)
    to_server, requests = anyio.create_memory_object_stream[Any](0)
    answers, from_server = anyio.create_memory_object_stream[Any](0)

    async def read(source: Any, sink: Any) -> None:
        async with to_server:
            async for item in source:
                message = getattr(item, "message", None)
                if message is None:
                    await sink.send(SessionMessage(_refusal(item)))
                    continue
                if isinstance(message, types.JSONRPCRequest):
                    waiting.add(message.id)
                elif isinstance(message, types.JSONRPCNotification) and message.method == CANCELLED:
                    waiting.discard((message.params or {}).get("requestId"))  # which gets no answer
                await to_server.send(item)
            with anyio.move_on_after(limit):
                while waiting:
                    await anyio.sleep(0.01)

    async def write(sink: Any) -> None:
        async with sink:
            async for item in from_server:
                await sink.send(item)
                waiting.discard(getattr(item.message, "id", None))

    _close_on_signals(to_stdio, loop)
    threading.Thread(target=_send_lines, args=(to_stdio, loop), name="stdin", daemon=True).start()
    try:
        async with stdio_server(stdin=lines) as (source, sink), anyio.create_task_group() as group:
            group.start_soon(read, source, sink)
            group.start_soon(write, sink)
            await server.run(requests, answers, server.create_initialization_options())
    except* (BrokenPipeError, anyio.BrokenResourceError):
        pass  # the client has closed our output


def serve_mcp(service: Service) -> None:
    """Serve MCP on standard input and output until the client closes them; what it has sent is answered."""
    service.load()

    async def serve() -> None:
        async with service.running():
            await run_on_stdio(make_mcp_server(service), service.limits.seconds)

    asyncio.run(serve())
