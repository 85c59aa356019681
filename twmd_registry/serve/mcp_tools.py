"""The service as tools of an MCP server."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any

from twmd_registry.errors import TwmdError
from twmd_registry.serve.service import Answer, Service
from twmd_registry.version import __version__

ABOUT = (
    "Scores generated texts against references by embedding metrics; higher is closer. Publish the signature with a "
    "score: it names exactly what was computed. Tools use the first metric of list_metrics if none is named."
)


def make_mcp_server(service: Service) -> Any:
    """Make the `MCPServer` of a service that is running; its tools are those of HTTP."""
    from mcp.server.mcpserver import MCPServer
    from mcp.server.mcpserver.exceptions import ToolError

    async def answer(call: Coroutine[Any, Any, Answer]) -> Answer:
        try:
            return await call
        except TwmdError as error:  # a tool's error, which MCP shows to the client
            raise ToolError(str(error)) from error

    async def score(
        predictions: list[str], references: list[str] | list[list[str]], metric: str | None = None
    ) -> Answer:
        """Score predictions against references: one text, or one list of texts, per prediction."""
        return await answer(service.score(predictions, references, metric))

    async def align(prediction: str, reference: str, metric: str | None = None) -> Answer:
        """Show how the score of two texts comes about: which token carries how much to which."""
        return await answer(service.align(prediction, reference, metric))

    def list_metrics() -> list[Answer]:
        """List the metrics that are served, with their signatures."""
        return service.list_metrics()

    server = MCPServer("twmd", version=__version__, instructions=ABOUT, log_level="ERROR")
    for tool in (score, align, list_metrics):
        server.add_tool(tool)
    return server
