"""The tools of the MCP server, over standard input and output, by the official client."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from typing import Any

import pytest

import twmd_registry
from tests.processes import PATIENCE

mcp = pytest.importorskip("mcp")
pytest.importorskip("prometheus_client")


TEXTS: dict[str, Any] = {"predictions": ["it rains"], "references": [["it is raining", "rain"]]}
REFUSED: list[tuple[str, dict[str, Any], str]] = [
    ("score", {"predictions": ["a"] * 4, "references": ["b"] * 4}, "4 pairs"),
    ("score", {"predictions": ["a"], "references": ["b", "c"]}, "1 predictions but 2 references"),
    ("score", {"predictions": ["a"]}, "references is missing"),
    ("score", TEXTS | {"layer": 5}, "layer is unknown; the fields are predictions, references, sources, metric."),
    ("list_metrics", {"metric": "twmd"}, "metric is unknown; the fields are none."),
    ("explain", {}, "there is no tool 'explain'; there are score, align, list_metrics."),
]


def test_tools_give_the_scores_of_python() -> None:
    arguments = ["-m", "twmd_registry.cli", "serve", "--mcp", "-m", "twmd", "sbert", "--max-pairs", "3"]
    server = mcp.StdioServerParameters(command=sys.executable, args=arguments, env=dict(os.environ))

    async def use() -> list[Any]:
        async with mcp.Client(server) as client:
            tools = await client.list_tools()
            assert {tool.name for tool in tools.tools} == {"score", "align", "list_metrics"}
            assert all(tool.description for tool in tools.tools)
            calls: list[tuple[str, dict[str, Any]]] = [
                ("score", TEXTS),
                ("score", TEXTS | {"metric": "sbert"}),
                ("align", {"prediction": "it rains", "reference": "it is raining"}),
                ("list_metrics", {}),
                *((tool, given) for tool, given, _ in REFUSED),
            ]
            return [await client.call_tool(*call) for call in calls]

    scored, other, aligned, listed, *refused = asyncio.run(use())
    for result, metric in ((scored, "twmd"), (other, "sbert")):
        expected = twmd_registry.score(TEXTS["predictions"], TEXTS["references"], metric)
        assert result.structured_content["scores"] == pytest.approx(expected.scores, abs=1e-6)
        assert result.structured_content["signature"] == str(expected.signature)
    assert aligned.structured_content["sides"]["precision"][0]["hypothesis"]
    assert [metric["metric"] for metric in listed.structured_content["result"]] == ["twmd", "sbert"]
    for result, (_, _, words) in zip(refused, REFUSED, strict=True):
        assert (result.is_error, words in result.content[0].text) == (True, True)


def test_calls_that_are_no_calls_do_not_hurt_others_and_the_server_ends_with_its_input() -> None:
    def call(number: int, method: str, parameters: dict[str, Any]) -> str:
        return json.dumps({"jsonrpc": "2.0", "id": number, "method": method, "params": parameters})

    client = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
    opening = [call(0, "initialize", client), '{"jsonrpc": "2.0", "method": "notifications/initialized"}']
    lines = "".join(f"{line}\n" for line in [*opening, "[]", "123", "[" * 5000, '{"id": 7}', call(1, "ping", {})])
    command = [sys.executable, "-m", "twmd_registry.cli", "serve", "--mcp"]
    done = subprocess.run(command, input=lines, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert [answer["id"] for answer in map(json.loads, done.stdout.splitlines())] == [0, 1]
