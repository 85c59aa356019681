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
from tests.conftest import Texts
from tests.processes import PATIENCE

mcp = pytest.importorskip("mcp")
pytest.importorskip("prometheus_client")


def test_tools_give_the_scores_of_python() -> None:
    arguments = ["-m", "twmd_registry.cli", "serve", "--mcp", "-m", "twmd", "sbert", "--max-pairs", "3"]
    server = mcp.StdioServerParameters(command=sys.executable, args=arguments, env=dict(os.environ))

    async def use() -> list[Any]:
        async with mcp.Client(server) as client:
            tools = await client.list_tools()
            assert {tool.name for tool in tools.tools} == {"score", "align", "list_metrics"}
            assert all(tool.description for tool in tools.tools)
            texts: dict[str, Any] = {"predictions": ["it rains"], "references": [["it is raining", "rain"]]}
            calls = [
                ("score", texts),
                ("score", texts | {"metric": "sbert"}),
                ("align", {"prediction": "it rains", "reference": "it is raining"}),
                ("list_metrics", {}),
                ("score", {"predictions": ["a"] * 4, "references": ["b"] * 4}),
                ("score", {"predictions": ["a"], "references": ["b", "c"]}),
                ("score", {"predictions": ["a"]}),
                ("score", texts | {"layer": 5}),
                ("list_metrics", {"metric": "twmd"}),
                ("explain", {}),
            ]
            return [await client.call_tool(*call) for call in calls]

    scored, other, aligned, listed, *refused = asyncio.run(use())
    for result, metric in ((scored, "twmd"), (other, "sbert")):
        expected = twmd_registry.score(["it rains"], [["it is raining", "rain"]], metric)
        assert result.structured_content["scores"] == pytest.approx(expected.scores, abs=1e-6)
        assert result.structured_content["signature"] == str(expected.signature)
    assert aligned.structured_content["sides"]["precision"][0]["hypothesis"]
    assert [metric["metric"] for metric in listed.structured_content["result"]] == ["twmd", "sbert"]
    for result, words in zip(
        refused,
        (
            "4 pairs",
            "1 predictions but 2 references",
            "references is missing",
            "layer is unknown; the fields are predictions, references, metric.",
            "metric is unknown; the fields are none.",
            "there is no tool 'explain'; there are score, align, list_metrics.",
        ),
        strict=True,
    ):
        assert result.is_error
        assert words in result.content[0].text


def test_calls_are_answered_when_their_input_closes(texts: Texts) -> None:
    def call(number: int, method: str, parameters: dict[str, Any]) -> str:
        return json.dumps({"jsonrpc": "2.0", "id": number, "method": method, "params": parameters})

    scored = {"name": "score", "arguments": {"predictions": texts.predictions, "references": texts.references}}
    client = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
    lines = [
        call(0, "initialize", client),
        '{"jsonrpc": "2.0", "method": "notifications/initialized"}',
        *(call(number, "tools/call", scored) for number in range(1, 9)),
        '{"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 8}}',
    ]
    command = [sys.executable, "-m", "twmd_registry.cli", "serve", "--mcp", "-m", "twmd;centering=corpus"]
    done = subprocess.run(
        command, input="\n".join(lines) + "\n", capture_output=True, text=True, timeout=PATIENCE, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    answers = {answer["id"]: answer["result"] for answer in map(json.loads, done.stdout.splitlines())}
    assert set(range(8)) <= set(answers)
    expected = twmd_registry.score(*texts, "twmd", centering="corpus")
    for number in range(1, 8):
        assert answers[number]["structuredContent"]["scores"] == pytest.approx(expected.scores, abs=1e-6)
