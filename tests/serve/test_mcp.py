"""The tools of the MCP server, over standard input and output, by the official client."""

from __future__ import annotations

import asyncio
import os
import sys
from typing import Any

import pytest

import twmd_registry

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
                ("score", {"predictions": "a"}),
            ]
            return [await client.call_tool(*call) for call in calls]

    scored, other, aligned, listed, large, wrong, missing = asyncio.run(use())
    for result, metric in ((scored, "twmd"), (other, "sbert")):
        expected = twmd_registry.score(["it rains"], [["it is raining", "rain"]], metric)
        assert result.structured_content["scores"] == pytest.approx(expected.scores, abs=1e-6)
        assert result.structured_content["signature"] == str(expected.signature)
    assert aligned.structured_content["sides"]["precision"][0]["hypothesis"]
    assert [metric["metric"] for metric in listed.structured_content["result"]] == ["twmd", "sbert"]
    for result, words in ((large, "4 pairs"), (wrong, "1 predictions but 2 references"), (missing, "references")):
        assert result.is_error
        assert words in result.content[0].text
