"""The service over HTTP: a process of its own, whose clients send nonsense, die, or read nothing."""

from __future__ import annotations

import json
import os
import random
import re
import shlex
import signal
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPConnection
from pathlib import Path
from typing import Any, NamedTuple

import pytest

pytest.importorskip("mcp")
pytest.importorskip("prometheus_client")

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
from twmd_registry.serve.service import Limits, Service

ONE = {"predictions": ["it rains"], "references": ["it is raining"]}
BODIES = int(os.environ.get("TWMD_RANDOM_BODIES", "200"))
KEY = "0123456789abcdef"


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServingProcess]:
    """Yield a service; after all tests it must be alive, and its log must be free of tracebacks."""
    with serving_process(tmp_path_factory.mktemp("serve"), "-m", "twmd", "twmd;centering=corpus") as served:
        yield served
        assert ask(served.port, "/score", ONE).status == 200
        assert "Traceback" not in served.log.read_text()
        served.process.send_signal(signal.SIGTERM)
        assert served.process.wait(PATIENCE) == 0


class Blocked(NamedTuple):
    """A service whose passes wait for an event, which is set at first, and set another when they begin."""

    port: int
    service: Service
    go: threading.Event
    begun: threading.Event


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> Iterator[Blocked]:
    """Yield a service with small limits, in this process."""
    service = Service({"twmd": twmd_registry.scorer("twmd")}, Limits(waiting=2, transfer=1))
    go, begun = threading.Event(), threading.Event()

    def wait_and_score(*texts: Any) -> Any:
        begun.set()
        go.wait(PATIENCE)
        return score_together(*texts)

    monkeypatch.setattr("twmd_registry.serve.service.score_together", wait_and_score)
    go.set()
    with serving_thread(service) as port:
        yield Blocked(port, service, go, begun)
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
    def test_sixty_four_clients_at_once_get_the_scores_of_the_command_line(
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

    def test_what_is_served_is_told(self, served: ServingProcess) -> None:
        listed = ask(served.port, "/metrics").body
        assert [metric["metric"] for metric in listed] == ["twmd", "twmd;centering=corpus"]
        assert ask(served.port, "/signature").body["signature"] == listed[0]["signature"]
        named = ask(served.port, "/signature?metric=twmd%3Bcentering%3Dcorpus").body
        assert named["signature"] == listed[1]["signature"]
        assert ask(served.port, "/health").body == {"status": "ok", "version": twmd_registry.__version__}
        assert 'twmd_answers_total{status="200"}' in ask(served.port, "/prometheus").body
        routes = set(ask(served.port, "/openapi.json").body["paths"])
        assert routes == {"/score", "/align", "/metrics", "/signature", "/prometheus", "/health"}
        assert "/openapi.json" in ask(served.port, "/docs").body

    def test_commands_of_the_page_give_the_answers_that_it_shows(self, served: ServingProcess) -> None:
        page = (Path(__file__).resolve().parents[2] / "docs" / "serve.md").read_text(encoding="utf-8")
        blocks = re.findall(r"^```bash\ncurl (.*?)^```\n+```json\n(.*?)^```", page, flags=re.MULTILINE | re.DOTALL)
        assert len(blocks) == page.count("curl http") == 2
        for command, expected in blocks:
            url, _, header, _, body = shlex.split(command.replace("\\\n", ""))
            assert header == "Content-Type: application/json"
            answer = ask(served.port, url.removeprefix("http://127.0.0.1:8080"), body.encode())
            assert_shows(json.loads(expected), answer.body)
        assert set(json.loads(expected)) == set(answer.body)  # the alignment is shown with all its fields
        schemas = json.dumps(ask(served.port, "/openapi.json").body["paths"])
        assert not re.search(r"check_segments|/metrics lists", schemas)  # they are read by clients of MCP, too


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


DEEP = b"[" * 200_000
MANY = json.dumps({"predictions": ["a"] * 1001, "references": ["a"] * 1001}).encode()
LONG = json.dumps({"predictions": ["a"], "references": ["a" * 20_001]}).encode()


class TestRefusals:
    @pytest.mark.parametrize(
        ("body", "status", "words"),
        [
            (b"{", 400, "the body is not JSON in UTF-8: EOF"),
            (b'{"predictions":[' + DEEP, 400, "recursion limit exceeded"),
            (b'{"predictions": ["\xff"], "references": ["a"]}', 400, "invalid unicode"),
            (b'{"predictions": [NaN], "references": ["a"]}', 422, "predictions[0] must be a text; got float nan"),
            (b"[]", 422, "the body: Input should be an object"),
            (b"{}", 422, "predictions is missing; the fields are predictions, references, sources, metric."),
            (b'{"predictions": ["a"]}', 422, "references is missing"),
            (b'{"predictions": ["a"], "references": ["a"], "x": 1}', 422, "x is unknown; the fields are"),
            (b'{"predictions": ["a"], "references": {"0": "a"}}', 422, "references: Input should be a valid array"),
            (b'{"predictions": ["a"], "references": ["a"], "metric": "bleu"}', 422, "metric 'bleu' is not served here"),
            (b'{"predictions": ["a", "b"], "references": ["a"]}', 422, "there are 2 predictions but 1 references"),
            (b'{"predictions": ["a", "b"], "references": ["a", 7]}', 422, "references[1] must be a text or a list"),
            (MANY, 413, "the request has 1,001 pairs: send at most 1,000"),
            (LONG, 413, "row 0 has a text of 20,001 letters"),
            (b" " * 30_000_000, 413, "the body is too large: send at most 1,000,000 bytes"),
        ],
    )
    def test_wrong_body_gets_a_clear_answer(self, served: ServingProcess, body: bytes, status: int, words: str) -> None:
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
            ("/align", ({"prediction": "a"},), 422, "reference is missing; the fields are prediction, reference"),
            ("/nothing", (), 404, "Not Found"),
            ("/signature?metric=bleu", (), 422, "metric 'bleu' is not served here"),
            ("/signature?name=twmd", (), 422, "'name' is no query parameter of /signature: the parameters are metric."),
            ("/score?metric=twmd", (ONE,), 422, "'metric' is no query parameter of /score: send it in the body"),
            ("/align?x=", ({"prediction": "a", "reference": "a"},), 422, "'x' is no query parameter of /align"),
        ],
    )
    def test_wrong_request_gets_a_clear_answer(
        self, served: ServingProcess, path: str, asked: tuple[Any, ...], status: int, words: str
    ) -> None:
        answer = ask(served.port, path, *asked)
        assert (answer.status, words in answer.body["error"]) == (status, True)

    def test_type_of_json_may_name_its_charset(self, served: ServingProcess) -> None:
        assert ask(served.port, "/score", ONE, {"Content-Type": "Application/JSON;charset=UTF-8"}).status == 200

    def test_random_bodies_get_an_answer_of_one_line(self, served: ServingProcess) -> None:
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
    def test_killed_clients_do_not_hurt_others(self, served: ServingProcess, texts: Texts) -> None:
        body = json.dumps(body_of(texts)).encode()
        for data in (request_of(body), request_of(body)[:-20], b"POST /score HTT", b"\0\xff\r\n\r\n"):
            for _ in range(10):
                connection = connect(served.port, data)
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # close by a reset
                connection.close()
        assert ask(served.port, "/score", body_of(texts)).status == 200
        wait_until(lambda: "twmd_waiting_requests 0.0" in ask(served.port, "/prometheus").body)

    def test_request_of_a_client_that_has_gone_is_not_scored(self, quick: Blocked) -> None:
        port, service, go, begun = quick
        go.clear()
        with ThreadPoolExecutor(1) as pool:
            first = pool.submit(ask, port, "/score", ONE)
            assert begun.wait(PATIENCE)
            second = connect(port, request_of(json.dumps(ONE).encode()))
            wait_until(lambda: service.waiting)
            second.close()
            wait_until(lambda: not service.waiting)
            go.set()
            assert first.result().status == 200
        counted = ask(port, "/prometheus").body
        assert 'twmd_answers_total{status="499"} 1.0' in counted
        assert 'twmd_pairs_total{metric="twmd"} 1.0' in counted

    def test_body_that_is_too_slow_is_refused(self, quick: Blocked) -> None:
        slow = connect(quick.port, request_of(b"x" * 100)[:-50])
        assert ask(quick.port, "/score", ONE).status == 200
        answer = slow.makefile("rb").read()
        assert answer.startswith(b"HTTP/1.1 408 ")
        assert b"the body did not arrive within 1 seconds" in answer

    def test_client_that_does_not_read_does_not_hurt_others(self, quick: Blocked, texts: Texts) -> None:
        words = " ".join(texts.predictions[:4])
        body = json.dumps({"prediction": words, "reference": words[::-1]}).encode()
        with socket.socket() as deaf:
            deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            deaf.connect(("127.0.0.1", quick.port))
            deaf.sendall(request_of(body, "/align"))
            wait_until(lambda: 'twmd_answers_total{status="200"} 1.0' in ask(quick.port, "/prometheus").body)
            assert ask(quick.port, "/score", ONE).status == 200


class TestStopping:
    def test_full_queue_answers_429_and_what_waits_is_answered(self, quick: Blocked) -> None:
        port, service, go, begun = quick
        go.clear()
        with ThreadPoolExecutor(3) as pool:
            waiting = [pool.submit(ask, port, "/score", ONE)]
            assert begun.wait(PATIENCE)
            waiting += [pool.submit(ask, port, "/score", ONE) for _ in range(2)]
            wait_until(lambda: service.waiting == 2)
            refused = ask(port, "/score", ONE)
            assert (refused.status, refused.headers["retry-after"]) == (429, "1")
            go.set()
            assert [one.result().status for one in waiting] == [200] * 3

    def test_signal_lets_requests_finish(self, texts: Texts, tmp_path: Path) -> None:
        one_by_one = serving_process(tmp_path, "-m", "twmd;centering=corpus")
        # All of the first one's texts differ, so that it is still computed when the last of the others has arrived.
        large = {side: [f"{text} {i}" for i, text in enumerate(own)] for side, own in body_of(texts, 0, 600).items()}
        with one_by_one as served, ThreadPoolExecutor(7) as pool:
            first = HTTPConnection("127.0.0.1", served.port, timeout=PATIENCE)
            first.request("POST", "/score", json.dumps(large), JSON)
            assert ask(served.port, "/health").status == 200  # what was sent before has been read now
            waiting = [pool.submit(ask, served.port, "/score", body_of(texts, i)) for i in range(7)]
            wait_until(lambda: "twmd_waiting_requests 7.0" in ask(served.port, "/prometheus").body)
            served.process.send_signal(signal.SIGINT)
            assert [one.result().status for one in waiting] == [200] * 7
            assert first.getresponse().status == 200
            first.close()
            assert served.process.wait(PATIENCE) == 0
            assert served.log.read_text() == ""


class TestKey:
    def test_requests_need_the_key(self) -> None:
        with serving_thread(Service({"twmd": twmd_registry.scorer("twmd")}), KEY) as port:
            for path in ("/metrics", "/signature", "/prometheus"):
                assert ask(port, path, headers={}).status == 401
                assert ask(port, path, headers={"Authorization": f"Bearer {KEY}"}).status == 200
            for given in ("", "Bearer wrong", KEY, "Bearer \xff"):
                answer = ask(port, "/score", ONE, JSON | {"Authorization": given})
                assert (answer.status, answer.headers["www-authenticate"]) == (401, "Bearer")
            assert ask(port, "/score", ONE, JSON | {"Authorization": f"Bearer {KEY}"}).status == 200
            assert {ask(port, path).status for path in ("/health", "/docs", "/openapi.json")} == {200}
