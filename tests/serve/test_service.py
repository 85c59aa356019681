"""The service's queue, the tools of its MCP server, and its routes over HTTP with clients that send nonsense or die."""

from __future__ import annotations

import asyncio
import json
import os
import random
import re
import shlex
import signal
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("fastapi")
pytest.importorskip("prometheus_client")
pytest.importorskip("mcp")

import mcp

import twmd_registry
from tests.conftest import Texts
from tests.processes import PATIENCE
from tests.serve.serving import (
    JSON,
    ServingProcess,
    ask,
    body_of,
    count_passes,
    serving_process,
    serving_thread,
    wait_until,
)
from twmd_registry.engine.shared_passes import score_together
from twmd_registry.errors import SpecError
from twmd_registry.registry.spec import spec_with_keys
from twmd_registry.serve.service import Service, ServiceError
from twmd_registry.serve.tools import ToolServer

CORPUS = "twmd;centering=corpus"
PAIR = ("it rains", "it is raining")


def run(service: Service, *calls: Coroutine[Any, Any, Any]) -> list[Any]:
    """Answer requests that all wait when the first pass begins; return errors."""

    async def answer() -> list[Any]:
        all_wait = threading.Event()
        async with service.running():
            service._pool.get().submit(all_wait.wait)
            answers = asyncio.gather(*calls, return_exceptions=True)
            await asyncio.sleep(0)
            all_wait.set()
            return await answers

    return asyncio.run(answer())


def service_of(*metrics: str, **limits: Any) -> Service:
    scorers = {metric: twmd_registry.load(spec_with_keys(metric)) for metric in metrics or ("twmd",)}
    return Service(scorers, **limits)


def passes(service: Service, metric: str = "twmd") -> float:
    return service.registry.get_sample_value("twmd_pass_seconds_count", {"metric": metric}) or 0.0


@pytest.fixture
def blocked(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Service, threading.Event]]:
    """Yield a service whose passes wait for an event."""
    service, go = service_of(max_waiting=2, timeout=1), threading.Event()

    def wait_and_score(*texts: Any) -> Any:
        go.wait(60)
        return score_together(*texts)

    monkeypatch.setattr("twmd_registry.serve.service.score_together", wait_and_score)
    yield service, go
    go.set()


def test_pass_has_a_bounded_number_of_letters(texts: Texts, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("twmd_registry.engine.shared_passes.PASS_LETTERS", 3 * sum(map(len, PAIR)))
    service = service_of()
    answers = run(service, *(service.score([PAIR[0]], [PAIR[1]]) for _ in range(7)))
    assert len({answer["score"] for answer in answers}) == 1
    assert passes(service) == 3


def test_answer_equals_pythons_with_notices(texts: Texts) -> None:
    service = service_of()
    (answer,) = run(service, service.score(["it rains", ""], [["it is raining", "rain"], ["it snows"]]))
    expected = twmd_registry.score(["it rains", ""], [["it is raining", "rain"], ["it snows"]])
    assert answer == {"metric": "twmd", "score": expected.score, "notices": answer["notices"]} | expected.as_dict()
    assert [notice[:22] for notice in answer["notices"]] == ["texts without a token:"]


def test_alignment_equals_pythons_cut_to_its_largest_links(monkeypatch: pytest.MonkeyPatch) -> None:
    service, expected = service_of(), twmd_registry.score([PAIR[0]], [PAIR[1]]).explain(0)
    (answer,) = run(service, service.align(*PAIR))
    assert answer == {"metric": "twmd", "notices": []} | expected.as_dict()
    monkeypatch.setattr("twmd_registry.serve.service.MAX_LINKS", 2)
    service = service_of()
    (answer,) = run(service, service.align(*PAIR))
    assert answer["sides"] == expected.as_dict(2)["sides"]
    assert all(len(links) == 2 for links in answer["sides"].values())
    service = service_of("stsscore")
    (error,) = run(service, service.align(*PAIR))
    assert (type(error), "has no alignment to show" in str(error)) == (SpecError, True)


def test_full_queue_refuses_and_late_requests_are_dropped(blocked: tuple[Service, threading.Event]) -> None:
    service, go = blocked

    async def ask() -> list[BaseException | dict[str, Any]]:
        async with service.running():
            first = asyncio.create_task(service.score([PAIR[0]], [PAIR[1]]))
            await asyncio.sleep(0.2)  # its pass has begun
            more = (service.score([PAIR[0]], [PAIR[1]]) for _ in range(3))
            others = await asyncio.gather(*more, return_exceptions=True)
            assert service.waiting == 0
            go.set()
            last = await asyncio.gather(first, return_exceptions=True)
            return [*others, *last, await service.score([PAIR[0]], [PAIR[1]])]

    *refused, late, after = asyncio.run(ask())
    assert [getattr(error, "status", None) for error in refused] == [504, 504, 429]
    assert "no answer within 1 seconds" in str(refused[0])
    assert "2 requests are waiting" in str(refused[2])
    assert getattr(late, "status", None) == 504
    assert isinstance(after, dict)


def test_mistake_of_the_program_is_an_answer_and_the_service_lives_on(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    service = service_of()
    mistakes = iter([ValueError("a mistake")])

    def fail_once(*texts: Any) -> Any:
        for error in mistakes:
            raise error
        return score_together(*texts)

    monkeypatch.setattr("twmd_registry.serve.service.score_together", fail_once)

    async def ask() -> None:
        async with service.running():
            with pytest.raises(ServiceError, match="internal error") as caught:
                await service.score([PAIR[0]], [PAIR[1]])
            assert caught.value.status == 500
            assert (await service.score([PAIR[0]], [PAIR[1]]))["scores"]

    asyncio.run(ask())
    assert "a mistake" in caplog.text


TEXTS: dict[str, Any] = {"predictions": ["it rains"], "references": [["it is raining", "rain"]]}
REFUSED: list[tuple[str, dict[str, Any], str]] = [
    ("score", {"predictions": ["a"] * 4, "references": ["b"] * 4}, "4 pairs"),
    ("score", TEXTS | {"layer": 5}, "layer is unknown; the fields are"),
    ("list_metrics", {"metric": "twmd"}, "metric is unknown; the fields are"),
    ("explain", {}, "no tool 'explain'; choices"),
]


def test_tools_return_the_scores_of_python() -> None:
    service = service_of("twmd", "sbert", max_pairs=3)

    async def use() -> list[Any]:
        async with service.running(), mcp.Client(ToolServer(service)) as client:
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


def test_invalid_calls_do_not_stop_the_server_which_ends_when_all_are_answered() -> None:
    def call(number: int, method: str, parameters: dict[str, Any]) -> str:
        return json.dumps({"jsonrpc": "2.0", "id": number, "method": method, "params": parameters})

    client = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
    opening = [call(0, "initialize", client), '{"jsonrpc": "2.0", "method": "notifications/initialized"}']
    lines = "".join(f"{line}\n" for line in [*opening, "[]", "123", "[" * 5000, '{"id": 7}', call(1, "ping", {})])
    command, pipe = [sys.executable, "-m", "twmd_registry.cli", "serve", "--mcp"], subprocess.PIPE
    with subprocess.Popen(command, text=True, stdin=pipe, stdout=pipe, stderr=pipe) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(lines)
        process.stdin.flush()
        assert [json.loads(process.stdout.readline())["id"] for _ in range(2)] == [0, 1]
        repeated = call(4, "tools/call", {"name": "score", "arguments": ONE})
        repeated = repeated.replace('"references"', '"references": [], "references"')
        process.stdin.write(f"{repeated}\n")
        process.stdin.flush()
        refusal = json.loads(process.stdout.readline())
        assert (refusal["id"], "'references' occurs twice" in refusal["error"]["message"]) == (4, True)
        cancelled = '{"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 2}}'
        last = call(3, "tools/call", {"name": "score", "arguments": ONE})
        written, errors = process.communicate(f"{cancelled}\n{last}\n", timeout=PATIENCE)  # and closes its input
        answer = json.loads(written)
        assert (answer["id"], len(answer["result"]["structuredContent"]["scores"])) == (3, 1)
        assert (errors, process.returncode) == ("", 0)


ONE = {"predictions": ["it rains"], "references": ["it is raining"]}
BODIES = int(os.environ.get("TWMD_RANDOM_BODIES", "100"))
KEY = "0123456789abcdef"


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServingProcess]:
    """Yield a service; after all tests it must be alive, and its log must be free of tracebacks."""
    with serving_process(tmp_path_factory.mktemp("serve"), "-m", "twmd", "twmd;centering=corpus") as served:
        yield served
        if served.process.poll() is None:
            assert ask(served.port, "/score", ONE).status == 200
            served.process.send_signal(signal.SIGTERM)
        assert served.process.wait(PATIENCE) == 0
        assert "Traceback" not in served.log.read_text()


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[int, threading.Event]]:
    """Yield the port of a service in this process, and an event that its passes wait for, which is set at first."""
    go = threading.Event()

    def wait_and_score(*texts: Any) -> Any:
        go.wait(PATIENCE)
        return score_together(*texts)

    monkeypatch.setattr("twmd_registry.serve.service.score_together", wait_and_score)
    monkeypatch.setattr("twmd_registry.serve.connection.PROBE", 0.05)
    go.set()
    with serving_thread(service_of()) as port:
        yield port, go
        go.set()


def connect(port: int, data: bytes) -> socket.socket:
    """Connect, and send some bytes."""
    connection = socket.create_connection(("127.0.0.1", port), PATIENCE)
    connection.sendall(data)
    return connection


def request_of(body: bytes, path: str = "/score") -> bytes:
    head = f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    return head.encode() + body


class TestScores:
    def test_sixty_four_concurrent_clients_receive_the_scores_of_the_command_line(
        self, served: ServingProcess, texts: Texts, command_line: Callable[..., dict[str, Any]]
    ) -> None:
        metric = command_line(*texts)
        expected = metric["scores"]
        before = count_passes(served.port)
        with ThreadPoolExecutor(64) as pool:
            answers = list(pool.map(lambda i: ask(served.port, "/score", body_of(texts, i)), range(64)))
        assert {answer.status for answer in answers} == {200}
        for i, answer in enumerate(answers):
            own = [expected[k % len(expected)] for k in range(i, i + 10)]
            assert answer.body["scores"] == pytest.approx(own, abs=1e-6)
            assert answer.body["signature"] == metric["signature"]
        assert count_passes(served.port) - before <= 16

    def test_served_metrics_are_listed_with_their_signatures(self, served: ServingProcess) -> None:
        listed = ask(served.port, "/metrics").body
        assert [metric["metric"] for metric in listed] == ["twmd", "twmd;centering=corpus"]
        assert "centering:corpus" in listed[1]["signature"]
        assert ask(served.port, "/health").body == {"status": "ok", "version": twmd_registry.__version__}
        assert 'twmd_answers_total{status="200"}' in ask(served.port, "/prometheus").body
        routes = set(ask(served.port, "/openapi.json").body["paths"])
        assert routes == {"/score", "/align", "/metrics", "/prometheus", "/health"}
        pages = ask(served.port, "/docs").body, ask(served.port, "/").body
        assert "/openapi.json" in pages[0]
        assert pages[0] == pages[1]
        assert all(f"POST {route}" in pages[0] for route in ("/score", "/align"))
        assert "Content-Type: application/json" in pages[0]
        assert not re.search(r"<script|<link|src=|https?://(?!127\.0\.0\.1)", pages[0])  # it loads nothing

    def test_commands_of_the_page_return_the_answers_shown(self, served: ServingProcess) -> None:
        page = (Path(__file__).resolve().parents[2] / "docs" / "serve.md").read_text(encoding="utf-8")
        blocks = re.findall(r"^```bash\ncurl (.*?)^```\n+```json\n(.*?)^```", page, flags=re.MULTILINE | re.DOTALL)
        assert len(blocks) == page.count("curl http") == 2
        for command, expected in blocks:
            url, _, header, _, body = shlex.split(command.replace("\\\n", ""))
            assert header == "Content-Type: application/json"
            answer = ask(served.port, url.removeprefix("http://127.0.0.1:8080"), body.encode())
            assert_shows(json.loads(expected), answer.body)
        assert set(json.loads(expected)) == set(answer.body)  # the alignment is shown with all its fields
        api = ask(served.port, "/openapi.json").body
        for path in ("/score", "/align"):
            schema = api["paths"][path]["post"]["requestBody"]["content"]["application/json"]["schema"]
            example = api["components"]["schemas"][schema["$ref"].rpartition("/")[2]]["example"]
            assert ask(served.port, path, json.dumps(example).encode()).status == 200


def assert_shows(shown: Any, found: Any) -> None:
    """Check a value against what a page shows of it: ... stands for the rest of a text or list."""
    if isinstance(shown, dict):
        for key, value in shown.items():
            assert_shows(value, found[key])
    elif isinstance(shown, list):
        whole = shown[-1:] != ["..."]
        assert len(shown) == len(found) if whole else len(shown) <= len(found)
        for value, own in zip(shown if whole else shown[:-1], found, strict=False):
            assert_shows(value, own)
    elif isinstance(shown, str):
        assert found.startswith(shown[:-3]) if shown.endswith("...") else found == shown
    else:
        assert found == pytest.approx(shown, abs=5e-5)


RUSSIAN = '{"predictions": ["Кот спит"], "references": ["Кот спит"]}'.encode()
DEEP = b"[" * 200_000
MANY = json.dumps({"predictions": ["a"] * 1001, "references": ["a"] * 1001}).encode()
LONG = json.dumps({"predictions": ["a"], "references": ["a" * 20_001]}).encode()


class TestRefusals:
    @pytest.mark.parametrize(
        ("body", "status", "words"),
        [
            (b"{", 400, "the body is not JSON in UTF-8: "),
            (b'{"predictions":[' + DEEP, 400, "nested too deeply"),
            (b'{"predictions": ["\xff"], "references": ["a"]}', 400, "codec can't decode"),
            (b'{"predictions": [NaN], "references": ["a"]}', 422, "predictions.0: Input should be a valid string"),
            (RUSSIAN, 422, "or start the service with --any-language."),
            (b"[]", 422, "the body: Input should be a"),
            (b"{}", 422, "predictions is missing; the fields"),
            (b'{"predictions": ["a"]}', 422, "references is missing"),
            (b'{"predictions": ["a"], "references": ["a"], "x": 1}', 422, "x is unknown; the fields are"),
            (b'{"predictions": ["a"], "references": {"0": "a"}}', 422, "references: Input should be a"),
            (b'{"predictions": ["a"], "references": ["a"], "metric": "bleu"}', 422, "metric 'bleu' is not served here"),
            (b'{"predictions": ["a", "b"], "references": ["a"]}', 422, "there are 2 predictions but 1"),
            (
                b'{"predictions": ["a", "b"], "references": ["a", 7]}',
                422,
                "references.1: Input should be a valid string",
            ),
            (b'{"predictions": ["a"], "predictions": ["b"], "references": ["a"]}', 400, "'predictions' occurs twice"),
            (b'{"predictions": ["a"], "references": [{"x": 1, "x": 2}]}', 400, "'x' occurs twice"),
            (MANY, 413, "the request has 1,001 pairs: send"),
            (LONG, 413, "row 0 has a text of 20,001 characters"),
            (b" " * 30_000_000, 413, "the body is too large: send at"),
        ],
    )
    def test_wrong_body_is_answered_clearly(self, served: ServingProcess, body: bytes, status: int, words: str) -> None:
        answer = ask(served.port, "/score", body)
        assert (answer.status, set(answer.body)) == (status, {"error"})
        assert words in answer.body["error"]
        assert "\n" not in answer.body["error"]
        assert len(answer.body["error"]) < 300

    @pytest.mark.parametrize(
        ("path", "asked", "status", "words"),
        [
            ("/score", (b"{}", {}), 415, "Content-Type: application/json"),
            ("/score", (b"{}", {"Content-Type": "text/plain"}), 415, "Content-Type: application/json"),
            ("/score", (ONE, JSON | {"Content-Type": "application/json; charset=latin-1"}), 415, "JSON in UTF-8"),
            ("/score", (ONE, JSON | {"Content-Encoding": "gzip"}), 415, "unencoded"),
            ("/align", ({"prediction": "a"},), 422, "reference is missing; the fields"),
            ("/nothing", (), 404, "Not Found"),
            ("/metrics?metric=twmd", (), 422, "reads no query, but got 'metric'"),
            ("/score?metric=twmd", (ONE,), 422, "reads no query, but got 'metric'"),
            ("/align?x=", ({"prediction": "a", "reference": "a"},), 422, "reads no query, but got 'x'"),
        ],
    )
    def test_wrong_request_is_answered_clearly(
        self, served: ServingProcess, path: str, asked: tuple[Any, ...], status: int, words: str
    ) -> None:
        answer = ask(served.port, path, *asked)
        assert (answer.status, words in answer.body["error"]) == (status, True)

    def test_headers_may_say_what_holds_anyway(self, served: ServingProcess) -> None:
        given = {"Content-Type": 'Application/JSON;charset="UTF-8"', "Content-Encoding": "identity"}
        assert ask(served.port, "/score", ONE, given).status == 200

    def test_random_bodies_are_answered_in_one_line(self, served: ServingProcess) -> None:
        draw = random.Random(5)
        connection = HTTPConnection("127.0.0.1", served.port, timeout=PATIENCE)
        statuses = set()
        for number in range(BODIES):
            body = random_body(draw)
            connection.request("POST", draw.choice(["/score", "/align"]), body, JSON)
            answer = connection.getresponse()
            found = json.loads(answer.read())
            statuses.add(answer.status)
            assert answer.status in {200, 400, 413, 422}, (number, body[:200], found)
            assert answer.status == 200 or (set(found) == {"error"} and "\n" not in found["error"])
        connection.close()
        assert statuses >= {400, 422}


def random_value(draw: random.Random, depth: int = 0) -> Any:
    """Return a random value of JSON, often one that has a part in a request."""
    simple = [None, True, 0, -1, 1e308, 10**30, "", "it rains", "\0", "\u202e", "☃", "a" * draw.randrange(300)]
    if depth > 3 or draw.random() < 0.5:
        return draw.choice(simple)
    if draw.random() < 0.5:
        return [random_value(draw, depth + 1) for _ in range(draw.randrange(4))]
    keys = ["predictions", "references", "metric", "prediction", "reference", "x"]
    return {draw.choice(keys): random_value(draw, depth + 1) for _ in range(draw.randrange(4))}


def random_body(draw: random.Random) -> bytes:
    """Return random bytes, random JSON, a request of random parts, or a request with damaged bytes."""
    kind = draw.randrange(4)
    if kind == 0:
        return draw.randbytes(draw.randrange(200))
    if kind == 1:
        return json.dumps(random_value(draw)).encode()
    parts = {"predictions": random_value(draw, 1), "references": random_value(draw, 1), "metric": random_value(draw, 4)}
    body = bytearray(json.dumps(parts if kind == 2 else ONE).encode())
    for _ in range(draw.randrange(1, 4) if kind == 3 else 0):
        body[draw.randrange(len(body))] = draw.randrange(256)
    return bytes(body)


class TestClients:
    def test_killed_clients_do_not_affect_others(self, served: ServingProcess, texts: Texts) -> None:
        body = json.dumps(body_of(texts)).encode()
        for data in (request_of(body), request_of(body)[:-20], b"POST /score HTT", b"\0\xff\r\n\r\n"):
            for _ in range(10):
                connection = connect(served.port, data)
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # close by a reset
                connection.close()
        assert ask(served.port, "/score", body_of(texts)).status == 200
        wait_until(lambda: "twmd_waiting_requests 0.0" in ask(served.port, "/prometheus").body)

    def test_client_that_has_closed_its_sending_side_is_answered(self, quick: tuple[int, threading.Event]) -> None:
        body = json.dumps(ONE).encode()
        for data, statuses in (
            (request_of(body), [b"200"]),
            (request_of(body) * 2, [b"200", b"200"]),
            (request_of(body) + request_of(body)[:-5], [b"200", b"400"]),
            (request_of(body)[:-5], [b"400"]),
            (b"POST /score HTT", [b"400"]),
        ):
            connection = connect(quick[0], data)
            connection.shutdown(socket.SHUT_WR)
            assert re.findall(rb"HTTP/1\.1 ([2-5]\d+)", connection.makefile("rb").read()) == statuses

    def test_client_that_has_closed_its_sending_side_is_answered_after_a_wait(
        self, quick: tuple[int, threading.Event]
    ) -> None:
        quick[1].clear()
        connection = connect(quick[0], request_of(json.dumps(ONE).encode()))
        connection.shutdown(socket.SHUT_WR)
        with connection, connection.makefile("rb") as answer:
            assert answer.readline() == b"HTTP/1.1 100 Continue\r\n"
            quick[1].set()
            assert b"HTTP/1.1 200 OK\r\n" in answer.read()


class TestKey:
    def test_requests_need_the_key(self) -> None:
        with serving_thread(Service({"twmd": twmd_registry.load("twmd")}), KEY) as port:
            for path in ("/metrics", "/prometheus"):
                assert ask(port, path, headers={}).status == 401
                assert ask(port, path, headers={"Authorization": f"Bearer {KEY}"}).status == 200
            for given in ("", "Bearer wrong", KEY, "Bearer \xff"):
                answer = ask(port, "/score", b"{", JSON | {"Authorization": given})
                assert (answer.status, answer.headers["www-authenticate"]) == (401, "Bearer")
            assert ask(port, "/score", ONE, JSON | {"Authorization": f"Bearer {KEY}"}).status == 200
            assert {ask(port, path).status for path in ("/health", "/docs", "/openapi.json")} == {200}


def test_signal_lets_requests_finish(served: ServingProcess, texts: Texts) -> None:
    """The last test of this service: it ends it."""
    scored_alone = {"metric": CORPUS}
    # All of the first one's texts differ, so it is still computed when the last of the others has arrived.
    large = {side: [f"{text} {i}" for i, text in enumerate(own)] for side, own in body_of(texts, 0, 200).items()}
    with ThreadPoolExecutor(7) as pool:
        first = HTTPConnection("127.0.0.1", served.port, timeout=PATIENCE)
        first.request("POST", "/score", json.dumps(large | scored_alone), JSON)
        assert ask(served.port, "/health").status == 200  # what was sent before has been read now
        waiting = [pool.submit(ask, served.port, "/score", body_of(texts, i) | scored_alone) for i in range(7)]
        wait_until(lambda: "twmd_waiting_requests 7.0" in ask(served.port, "/prometheus").body)
        served.process.send_signal(signal.SIGINT)
        assert [one.result().status for one in waiting] == [200] * 7
        assert first.getresponse().status == 200
        first.close()
    assert served.process.wait(PATIENCE) == 0
