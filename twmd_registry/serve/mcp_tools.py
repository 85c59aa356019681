"""The service as tools of an MCP server on standard input and output."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import json
import signal
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import CancelledError
from typing import Any

import anyio
from pydantic import BaseModel, ConfigDict, ValidationError, create_model

from twmd_registry.errors import InputError, TwmdError
from twmd_registry.serve import app
from twmd_registry.serve.app import AlignRequest, ScoreRequest, parse
from twmd_registry.serve.service import Answer, Service
from twmd_registry.version import __version__

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
        "score": (ScoreRequest, service.score, app.score),
        "align": (AlignRequest, service.align, app.align),
        "list_metrics": (_NoFields, list_metrics, app.metrics),
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
    """Serve on standard input and output, until a signal or the end of input; what was read before is answered first,
    for `limit` seconds. Ends at once if the client has closed the output.
    """
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
