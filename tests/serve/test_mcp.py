"""The tools of the MCP server, over standard input and output, by the official client."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

import twmd_registry
from tests.conftest import Texts
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


SERVE = [sys.executable, "-m", "twmd_registry.cli", "serve", "--mcp", "-m"]
CLIENT = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}


def call(number: int, method: str, parameters: dict[str, Any]) -> str:
    return json.dumps({"jsonrpc": "2.0", "id": number, "method": method, "params": parameters})


OPENING = [call(0, "initialize", CLIENT), '{"jsonrpc": "2.0", "method": "notifications/initialized"}']


@contextmanager
def serving(metric: str = "twmd") -> Iterator[subprocess.Popen[str]]:
    """Yield a server that has answered the first message, and wait for its end."""
    pipe = subprocess.PIPE
    with subprocess.Popen([*SERVE, metric], text=True, stdin=pipe, stdout=pipe, stderr=pipe) as process:
        try:
            send(process, *OPENING)
            assert receive(process)["id"] == 0
            yield process
        finally:
            process.kill()


def send(process: subprocess.Popen[str], *lines: str) -> None:
    assert process.stdin is not None
    process.stdin.write("\n".join(lines) + "\n")
    process.stdin.flush()


def receive(process: subprocess.Popen[str]) -> Any:
    assert process.stdout is not None
    return json.loads(process.stdout.readline())


def test_calls_are_answered_when_their_input_closes(texts: Texts) -> None:
    scored = {"name": "score", "arguments": {"predictions": texts.predictions, "references": texts.references}}
    lines = [
        *OPENING,
        *(call(number, "tools/call", scored) for number in range(1, 9)),
        '{"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 8}}',
    ]
    done = subprocess.run(
        [*SERVE, "twmd;centering=corpus"],
        input="\n".join(lines) + "\n",
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    answers = {answer["id"]: answer["result"] for answer in map(json.loads, done.stdout.splitlines())}
    assert set(range(8)) <= set(answers)
    expected = twmd_registry.score(*texts, "twmd", centering="corpus")
    for number in range(1, 8):
        assert answers[number]["structuredContent"]["scores"] == pytest.approx(expected.scores, abs=1e-6)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_calls_are_answered_when_a_signal_ends_the_server(number: signal.Signals, texts: Texts) -> None:
    scored = {"name": "score", "arguments": {"predictions": texts.predictions, "references": texts.references}}
    with serving("twmd;centering=corpus") as process:
        send(process, *(call(i, "tools/call", scored) for i in range(1, 9)), call(9, "ping", {}))
        answered = {receive(process)["id"]}
        while 9 not in answered:  # then all calls have been read
            answered.add(receive(process)["id"])
        assert len(answered) < 9
        process.send_signal(number)
        while len(answered) < 9:
            answered.add(receive(process)["id"])
        assert process.wait(PATIENCE) == 0  # with its input open
        assert process.stderr is not None
        assert process.stderr.read() == ""


@pytest.mark.parametrize(
    ("line", "number", "code"),
    [
        (call(7, "tools/call", {"name": "score", "arguments": {"predictions": ["\ud800"]}}), 7, -32700),
        ('{"jsonrpc": "2.0", "id": "\\ud800", "method": "ping"}', None, -32700),
        ('{"jsonrpc": "2.0", "id": 7, "method": "tools/call"', None, -32700),
        ("[" * 5000, None, -32700),
        ("[]", None, -32600),
        ("123", None, -32600),
        ('{"id": 7, "method": "tools/list"}', 7, -32600),
        ('{"jsonrpc": "1.0", "id": "seven", "method": "tools/list"}', "seven", -32600),
        ('{"jsonrpc": "2.0", "id": 7}', 7, -32600),
    ],
)
def test_line_that_is_no_message_gets_an_error(
    shared: subprocess.Popen[str], line: str, number: int | str | None, code: int
) -> None:
    send(shared, line, "")
    answer = receive(shared)
    assert (answer["id"], answer["error"]["code"]) == (number, code)
    send(shared, call(8, "ping", {}))
    assert receive(shared)["id"] == 8


@pytest.fixture(scope="module")
def shared() -> Iterator[subprocess.Popen[str]]:
    with serving() as process:
        yield process
        assert process.stdin is not None
        process.stdin.close()
        assert process.wait(PATIENCE) == 0


def test_server_ends_quietly_when_its_output_closes() -> None:
    with serving() as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        send(process, call(1, "tools/list", {}))
        assert process.wait(PATIENCE) == 0  # with its input open
        assert process.stderr.read() == ""
