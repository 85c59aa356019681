"""The processes: an HTTP server, and an MCP server on standard input and output."""

from __future__ import annotations

import asyncio
import inspect
import ipaddress
import json
import os
import re
import signal
import socket
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import uvicorn
from pydantic import BaseModel, ConfigDict, create_model

from twmd_registry.errors import FileError, InputError, SpecError, TwmdError
from twmd_registry.registry.paths import read_secret
from twmd_registry.serve import service as routes
from twmd_registry.serve.service import AlignRequest, Answer, ScoreRequest, Service, make_app, parse
from twmd_registry.version import __version__

KEY_VARIABLE = "TWMD_API_KEY"
SPARE_CONNECTIONS = 64
"""Connections beside those whose requests wait; more are answered 503 at once."""


class GracefulServer(uvicorn.Server):
    """On SIGTERM or SIGINT answers the requests that wait, and ends with status 0; on the second, ends at once."""

    def handle_exit(self, *_: object) -> None:
        """Stop; unlike uvicorn's own, do not raise the signal again at the end."""
        self.force_exit, self.should_exit = self.should_exit, True


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
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.create_server((host, port), family=family, backlog=service.limits.waiting)
    with listener:
        service.load()
        config = uvicorn.Config(
            make_app(service, key),
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
        GracefulServer(config).run([listener])


ABOUT = (
    "Scores generated texts against references by embedding metrics; higher is closer. Publish the signature with a "
    "score: it names exactly what was computed. Tools use the first metric of list_metrics if none is named."
)

_NoFields = create_model("NoFields", __config__=ConfigDict(extra="forbid"))


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


def serve_mcp(service: Service) -> None:
    """Serve MCP on standard input and output until the client closes the input."""
    from mcp.server.stdio import stdio_server

    service.load()
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # asyncio's would wait for the thread that reads the input
    server = make_mcp_server(service)

    async def serve() -> None:
        async with service.running(), stdio_server() as streams:
            await server.run(*streams, server.create_initialization_options())

    asyncio.run(serve())
