"""The service as tools of an MCP server on standard input and output."""

from __future__ import annotations

import json
from collections.abc import Callable, Coroutine
from typing import Any

import anyio
from pydantic import BaseModel, ConfigDict, create_model

from twmd_registry.errors import InputError, TwmdError
from twmd_registry.serve.app import AlignRequest, ScoreRequest, parse
from twmd_registry.serve.service import Answer, Service
from twmd_registry.version import __version__

ABOUT = (
    "Scores generated texts against references by embedding metrics; higher is closer. Publish the signature with a "
    "score: it names exactly what was computed. Tools use the first metric of list_metrics if none is named."
)
ABOUT_ALIGN = (
    "Show which token carries how much of the score to which token, and their similarity: the cosine; where the "
    "signature has vectors:raw, the inner product."
)

_NoFields = create_model("NoFields", __config__=ConfigDict(extra="forbid"))
CANCELLED = "notifications/cancelled"


def make_mcp_server(service: Service) -> Any:
    """Make the MCP `Server` of a service that is running; its tools are those of HTTP."""
    from mcp import types
    from mcp.server.lowlevel import Server

    async def list_metrics() -> Answer:
        return {"result": service.list_metrics()}

    tools: dict[str, tuple[type[BaseModel], Callable[..., Coroutine[Any, Any, Answer]], str]] = {
        "score": (ScoreRequest, service.score, "Score predictions against references: one or several per prediction."),
        "align": (AlignRequest, service.align, ABOUT_ALIGN),
        "list_metrics": (_NoFields, list_metrics, "List the metrics that are served, with their signatures."),
    }

    async def list_tools(*_: object) -> Any:
        return types.ListToolsResult(
            tools=[
                types.Tool(name=name, description=about, input_schema=kind.model_json_schema())
                for name, (kind, _, about) in tools.items()
            ]
        )

    async def call_tool(_: object, call: Any) -> Any:
        try:
            if call.name not in tools:
                raise InputError(f"there is no tool {call.name[:80]!r}; there are {', '.join(tools)}.")
            kind, compute, _about = tools[call.name]
            answer = await compute(**vars(parse(kind, json.dumps(call.arguments or {}).encode())))
        except TwmdError as error:  # an error of the tool, which the client shows
            return types.CallToolResult(content=[types.TextContent(type="text", text=str(error))], is_error=True)
        text = types.TextContent(type="text", text=json.dumps(answer))
        return types.CallToolResult(content=[text], structured_content=answer)

    return Server("twmd", version=__version__, instructions=ABOUT, on_list_tools=list_tools, on_call_tool=call_tool)


async def run_on_stdio(server: Any, limit: float) -> None:
    """Serve on standard input and output; at the end of input, requests are answered first, for `limit` seconds."""
    from mcp import types
    from mcp.server.stdio import stdio_server

    waiting = set[Any]()
    async with stdio_server() as (source, sink), anyio.create_task_group() as group:
        to_server, requests = anyio.create_memory_object_stream[Any](0)
        answers, from_server = anyio.create_memory_object_stream[Any](0)

        async def read() -> None:
            async with to_server:
                async for item in source:
                    message = getattr(item, "message", None)
                    if isinstance(message, types.JSONRPCRequest):
                        waiting.add(message.id)
                    elif isinstance(message, types.JSONRPCNotification) and message.method == CANCELLED:
                        waiting.discard((message.params or {}).get("requestId"))  # which gets no answer
                    await to_server.send(item)
                with anyio.move_on_after(limit):
                    while waiting:
                        await anyio.sleep(0.01)

        async def write() -> None:
            async with sink:
                async for item in from_server:
                    await sink.send(item)
                    waiting.discard(getattr(item.message, "id", None))

        group.start_soon(read)
        group.start_soon(write)
        await server.run(requests, answers, server.create_initialization_options())
