"""The service's calls as tools of an MCP server."""

from __future__ import annotations

import asyncio
import json
import signal
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any

import anyio
from mcp import types
from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.server.stdio import stdio_server
from mcp.shared.message import SessionMessage

from twmd_registry.files.tables import parse_json
from twmd_registry.messages import menu
from twmd_registry.serve.service import ABOUT, Service, explain
from twmd_registry.version import __version__


class ToolServer(MCPServer[Any]):  # type: ignore[misc]
    """Refuses unknown fields and repeated keys, which `MCPServer` drops, and explains an error in one line."""

    def __init__(self, service: Service) -> None:
        """Offer the calls of a running service."""
        self._timeout = service.timeout
        about = f"{ABOUT} Tools default to the first metric of list_metrics."
        super().__init__("twmd", version=__version__, instructions=about, log_level="ERROR")
        for tool in (service.score, service.align, service.list_metrics):
            self.add_tool(tool)

    async def call_tool(self, name: str, arguments: dict[str, Any], context: Any = None) -> Any:
        """Call a tool; raise a ToolError of one line."""
        tools = {tool.name: list(tool.input_schema["properties"]) for tool in await self.list_tools()}
        if name not in tools:
            raise ToolError(f"no tool {name[:80]!r}; {menu(name[:80], tools)}.")
        if unknown := sorted(arguments.keys() - tools[name]):
            raise ToolError(f"{unknown[0][:80]} is unknown; the fields are {', '.join(tools[name]) or 'none'}.")
        try:
            return await super().call_tool(name, arguments, context)
        except ToolError as error:
            raise ToolError(explain(error.__cause__ or error, tools[name])) from None

    async def run_stdio_async(self) -> None:
        """Serve on standard input and output until the input ends and every request is answered.

        The server drops its requests when its input ends, so the input ends only when none is open.
        """
        unanswered = set[Any]()
        to_send, to_relay = anyio.create_memory_object_stream[Any](0)

        async def read_lines() -> AsyncIterator[str]:
            with open(0, encoding="utf-8", errors="replace", closefd=False) as lines:
                async for line in anyio.wrap_file(lines):
                    if refusal := _refuse_repeated_keys(line):
                        await answers.send(SessionMessage(refusal))
                    else:
                        _note_request(line, unanswered)
                        yield line
            with anyio.move_on_after(self._timeout + 1):
                while unanswered:
                    await anyio.sleep(0.01)

        async def relay_answers() -> None:
            async with answers:
                async for message in to_relay:
                    await answers.send(message)
                    unanswered.discard(getattr(message.message, "id", None))

        async with stdio_server(stdin=read_lines()) as (requests, answers), anyio.create_task_group() as tasks:
            tasks.start_soon(relay_answers)
            server = self._lowlevel_server
            await server.run(requests, to_send, server.create_initialization_options())


def _note_request(line: str, unanswered: set[Any]) -> None:
    """Add the id of a request to those without an answer; a cancelled request will have none."""
    with suppress(ValueError, RecursionError, TypeError, AttributeError, KeyError):  # no message: the server's business
        message = json.loads(line)
        if message.get("method") == "notifications/cancelled":
            unanswered.discard(message["params"]["requestId"])
        elif "method" in message and "id" in message:
            unanswered.add(message["id"])


def _refuse_repeated_keys(line: str) -> types.JSONRPCError | None:
    """Return the answer to a request that repeats a key."""
    try:
        parse_json(line)
    except ValueError as error:
        with suppress(ValueError, RecursionError, AttributeError):  # as above
            reason = types.ErrorData(code=types.INVALID_REQUEST, message=f"{error}: send it once.")
            return types.JSONRPCError(jsonrpc="2.0", id=json.loads(line).get("id"), error=reason)
    return None


def serve_mcp(service: Service) -> None:
    """Serve MCP on standard input and output until the input ends and every request is answered."""
    service.load()
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # asyncio's handler would wait for the thread that reads the input

    async def serve() -> None:
        async with service.running():
            await ToolServer(service).run_stdio_async()

    asyncio.run(serve())
