"""The queue: which requests share a pass, which are refused or given up; and the tools of the MCP server."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import threading
from collections.abc import Coroutine, Iterator
from typing import Any

import pytest

pytest.importorskip("fastapi")
pytest.importorskip("prometheus_client")

import twmd_registry
from tests.conftest import Texts
from tests.processes import PATIENCE
from twmd_registry.engine.shared_passes import score_together
from twmd_registry.errors import InputError, SpecError
from twmd_registry.registry.spec import spec_with_keys
from twmd_registry.serve.service import Limits, Service, ServiceError, make_mcp_server

CORPUS = "twmd;centering=corpus"
ONE = ("it rains", "it is raining")


def run(service: Service, *calls: Coroutine[Any, Any, Any]) -> list[Any]:
    """Answer some requests, all of which wait when the first pass begins; an error is returned."""

    async def answer() -> list[Any]:
        all_wait = threading.Event()
        async with service.running():
            service._pool.submit(all_wait.wait)
            answers = asyncio.gather(*calls, return_exceptions=True)
            await asyncio.sleep(0)
            all_wait.set()
            return await answers

    return asyncio.run(answer())


def service_of(*metrics: str, **limits: Any) -> Service:
    scorers = {metric: twmd_registry.scorer(spec_with_keys(metric)) for metric in metrics or ("twmd",)}
    return Service(scorers, Limits(**limits))


def passes(service: Service, metric: str = "twmd") -> float:
    return service.registry.get_sample_value("twmd_pass_seconds_count", {"metric": metric}) or 0.0


@pytest.fixture
def blocked(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Service, threading.Event]]:
    """Yield a service whose passes wait for an event."""
    service, go = service_of(waiting=2, seconds=1), threading.Event()

    def wait_and_score(*texts: Any) -> Any:
        go.wait(60)
        return score_together(*texts)

    monkeypatch.setattr("twmd_registry.serve.service.score_together", wait_and_score)
    yield service, go
    go.set()


def test_waiting_requests_of_a_metric_share_a_pass_and_get_their_own_scores(texts: Texts) -> None:
    service, rows = service_of("twmd", "sbert"), range(len(texts.predictions))
    metrics = ["twmd", "sbert"]
    calls = [
        service.score([texts.predictions[i]], [texts.references[i]], metric=metric) for i in rows for metric in metrics
    ]
    answers = run(service, *calls)
    for k, metric in enumerate(metrics):
        expected = twmd_registry.score(texts.predictions, texts.references, metric)
        assert [answer["scores"][0] for answer in answers[k::2]] == pytest.approx(expected.scores, abs=1e-6)
        assert {answer["signature"] for answer in answers[k::2]} == {str(expected.signature)}
        assert passes(service, metric) == 1


def test_pass_has_a_bounded_number_of_letters(texts: Texts, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("twmd_registry.engine.shared_passes.PASS_LETTERS", 3 * sum(map(len, ONE)))
    service = service_of()
    answers = run(service, *(service.score([ONE[0]], [ONE[1]]) for _ in range(7)))
    assert len({answer["score"] for answer in answers}) == 1
    assert passes(service) == 3


def test_requests_whose_scores_depend_on_neighbours_are_scored_alone(texts: Texts) -> None:
    service, half = service_of(CORPUS), len(texts.predictions) // 2
    parts = [(texts.predictions[:half], texts.references[:half]), (texts.predictions[half:], texts.references[half:])]
    answers = run(service, *(service.score(*part) for part in parts))
    for answer, part in zip(answers, parts, strict=True):
        assert answer["scores"] == list(twmd_registry.score(*part, "twmd", centering="corpus").scores)
    assert passes(service, CORPUS) == 2


def test_answer_is_that_of_python_with_notices(texts: Texts) -> None:
    service = service_of()
    (answer,) = run(service, service.score(["it rains", ""], [["it is raining", "rain"], ["it snows"]]))
    expected = twmd_registry.score(["it rains", ""], [["it is raining", "rain"], ["it snows"]])
    assert answer == {"metric": "twmd", "score": expected.score, "notices": answer["notices"]} | expected.as_dict()
    assert [notice[:22] for notice in answer["notices"]] == ["texts without a token:"]


def test_alignment_is_that_of_python_cut_to_its_largest_links(monkeypatch: pytest.MonkeyPatch) -> None:
    service, expected = service_of(), twmd_registry.score([ONE[0]], [ONE[1]]).explain(0)
    (answer,) = run(service, service.align(*ONE))
    assert answer == {"metric": "twmd", "notices": []} | expected.as_dict()
    monkeypatch.setattr("twmd_registry.serve.service.MOST_LINKS", 2)
    service = service_of()
    (answer,) = run(service, service.align(*ONE))
    assert answer["sides"] == expected.as_dict(2)["sides"]
    assert all(len(links) == 2 for links in answer["sides"].values())
    service = service_of("stsscore")
    (error,) = run(service, service.align(*ONE))
    assert (type(error), "has no alignment to show" in str(error)) == (SpecError, True)


def test_metrics_are_listed_with_their_signatures() -> None:
    service = service_of("twmd", CORPUS)
    listed = service.list_metrics()
    assert [(metric["metric"], metric["batched"]) for metric in listed] == [("twmd", True), (CORPUS, False)]
    assert [metric["signature"] for metric in listed] == [
        service.signature(name)["signature"] for name in service.scorers
    ]
    assert service.signature(None) == service.signature("twmd")
    with pytest.raises(SpecError, match="metric 'tvmd' is not served here; did you mean 'twmd'"):
        service.signature("tvmd")


@pytest.mark.parametrize(
    ("predictions", "references", "words"),
    [
        ([], [], "there is nothing to score"),
        (["a"] * 9, ["b"] * 9, "the request has 9 pairs: send at most 8"),
        (["a"], [["b"] * 9], "the request has 9 pairs"),
        (["a", "b"], ["a", "b" * 101], "row 1 has a text of 101 letters: send texts of at most 100"),
    ],
)
def test_wrong_or_large_texts_are_refused(predictions: Any, references: Any, words: str) -> None:
    service = service_of(pairs=8, letters=100)
    with pytest.raises((InputError, ServiceError), match=words) as caught:
        asyncio.run(service.score(predictions, references))
    assert getattr(caught.value, "status", 413) == 413


def test_full_queue_refuses_and_late_requests_are_given_up(blocked: tuple[Service, threading.Event]) -> None:
    service, go = blocked

    async def ask() -> list[BaseException | dict[str, Any]]:
        async with service.running():
            first = asyncio.create_task(service.score([ONE[0]], [ONE[1]]))
            await asyncio.sleep(0.2)  # its pass has begun
            more = (service.score([ONE[0]], [ONE[1]]) for _ in range(3))
            others = await asyncio.gather(*more, return_exceptions=True)
            assert service.waiting == 0
            go.set()
            last = await asyncio.gather(first, return_exceptions=True)
            return [*others, *last, await service.score([ONE[0]], [ONE[1]])]

    *refused, late, after = asyncio.run(ask())
    assert [getattr(error, "status", None) for error in refused] == [504, 504, 429]
    assert "there was no answer within 1 seconds" in str(refused[0])
    assert "2 requests wait already" in str(refused[2])
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
                await service.score([ONE[0]], [ONE[1]])
            assert caught.value.status == 500
            assert (await service.score([ONE[0]], [ONE[1]]))["scores"]

    asyncio.run(ask())
    assert "a mistake" in caplog.text


mcp = pytest.importorskip("mcp")
TEXTS: dict[str, Any] = {"predictions": ["it rains"], "references": [["it is raining", "rain"]]}
REFUSED: list[tuple[str, dict[str, Any], str]] = [
    ("score", {"predictions": ["a"] * 4, "references": ["b"] * 4}, "4 pairs"),
    ("score", TEXTS | {"layer": 5}, "layer is unknown; the fields are predictions, references, sources, metric."),
    ("list_metrics", {"metric": "twmd"}, "metric is unknown; the fields are none."),
    ("explain", {}, "there is no tool 'explain'; there are score, align, list_metrics."),
]


def test_tools_give_the_scores_of_python() -> None:
    service = service_of("twmd", "sbert", pairs=3)

    async def use() -> list[Any]:
        async with service.running(), mcp.Client(make_mcp_server(service)) as client:
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
    command, pipe = [sys.executable, "-m", "twmd_registry.cli", "serve", "--mcp"], subprocess.PIPE
    with subprocess.Popen(command, text=True, stdin=pipe, stdout=pipe, stderr=pipe) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(lines)
        process.stdin.flush()
        assert [json.loads(process.stdout.readline())["id"] for _ in range(2)] == [0, 1]
        assert process.communicate(timeout=PATIENCE) == ("", "")  # closes the input
        assert process.returncode == 0
