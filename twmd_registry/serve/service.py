"""`Service`: one thread scores all waiting requests of a metric in a single pass; routes of HTTP, tools of MCP."""

from __future__ import annotations

import asyncio
import hmac
import inspect
import ipaddress
import json
import logging
import os
import re
import signal
import socket
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, fields
from email.message import Message
from functools import partial
from http import HTTPStatus
from pathlib import Path
from typing import Annotated, Any, TypeAlias

import anyio
import uvicorn
from fastapi import APIRouter, Depends, FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, JSONResponse, PlainTextResponse, Response
from fastapi.routing import APIRoute
from fastapi.security import HTTPBearer
from pydantic import BaseModel, ConfigDict, Field, ValidationError, WithJsonSchema, create_model
from pydantic_core import from_json
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from twmd_registry.engine.pairs import Segments, check_segments
from twmd_registry.engine.result import ScoreSet
from twmd_registry.engine.scorer import Scorer
from twmd_registry.engine.shared_passes import Batcher, Outcome, score_together, scoring_thread
from twmd_registry.errors import FileError, InputError, SpecError, TwmdError, refuse_repeated_keys
from twmd_registry.messages import collect_warnings, menu
from twmd_registry.registry.metrics import entry
from twmd_registry.registry.paths import read_secret
from twmd_registry.serve.connection import Connection
from twmd_registry.template import render
from twmd_registry.version import __version__

Answer: TypeAlias = dict[str, Any]
MAX_LINKS = 1_000
"""Links of a side of an alignment that are sent, those that carry most."""
logger = logging.getLogger(__name__)


class ServiceError(TwmdError):
    """A request that is refused, or has no answer; `status` is HTTP's."""

    def __init__(self, status: int, message: str) -> None:
        """Store the status and the message."""
        super().__init__(message)
        self.status = status


def _count_pairs(segments: Segments) -> int:
    return sum(map(len, segments.references)) + len(segments.sources or ())


def _align_answer(scores: ScoreSet) -> Answer:
    with collect_warnings():  # the warnings of the scores are known already
        return scores.explain(0).as_dict(MAX_LINKS)


@dataclass(eq=False)
class Service:
    """Answers requests while `running`, each by the scorer that it names, or by the first.

    Attributes:
        scorers: The scorers, by the names that requests use.
        max_bytes: Maximum bytes of a request's body.
        max_pairs: Maximum pairs of a request.
        max_letters: Maximum letters of a text.
        max_waiting: Maximum requests in the queues.
        timeout: Seconds after which a request without an answer fails.
        transfer: Seconds within which a body must arrive.
    """

    scorers: Mapping[str, Scorer]
    max_bytes: int = 1_000_000
    max_pairs: int = 1_000
    max_letters: int = 20_000
    max_waiting: int = 256
    timeout: int = 60
    transfer: int = 10

    def __post_init__(self) -> None:
        """Make the queues and counters; no model is loaded yet."""
        from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

        self._pool = scoring_thread()
        self._queues = {
            name: Batcher(scorer, self._pool, partial(self._score, name)) for name, scorer in self.scorers.items()
        }
        self.registry = registry = CollectorRegistry()
        self._pairs = Counter("twmd_pairs", "Pairs scored", ["metric"], registry=registry)
        self._seconds = Histogram("twmd_pass_seconds", "Passes of an encoder", ["metric"], registry=registry)
        waiting = Gauge("twmd_waiting_requests", "Requests in the queue", registry=registry)
        waiting.set_function(lambda: self.waiting)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the settings; queues and counters, which hold locks, are made anew."""
        return type(self), tuple(getattr(self, field.name) for field in fields(self))

    @property
    def waiting(self) -> int:
        """The number of requests that wait for a pass."""
        return sum(len(queue.waiting) for queue in self._queues.values())

    def load(self) -> None:
        """Load all models in the thread that scores, with the errors of `Scorer.spec`."""
        for scorer in self.scorers.values():
            self._pool.get().submit(getattr, scorer, "spec").result()

    def list_metrics(self) -> list[Answer]:
        """Return facts about the metrics that are served; ``batched`` is whether requests share passes."""
        facts = {name: entry(scorer.requested.metric) for name, scorer in self.scorers.items()}
        return [
            {"title": fact.title, "range": fact.span, "identical": fact.identical, "batched": self._queues[name].shared}
            | self.signature(name)
            for name, fact in facts.items()
        ]

    def signature(self, metric: str | None) -> Answer:
        """Return the signature of a metric without the number of references; raises SpecError if it is not served."""
        name = self._name(metric)
        return {"metric": name, "signature": self.scorers[name].signature}

    async def score(
        self, predictions: Any, references: Any = None, metric: str | None = None, sources: Any = None
    ) -> Answer:
        """Score texts: ``metric``, ``score``, everything of `ScoreSet.as_dict`, and ``notices``, the warnings."""
        if references is None and sources is None:
            raise InputError("references is missing: give them, or sources to a metric that compares with those.")
        name, segments = self._name(metric), check_segments(predictions, references, sources)
        return await self._answer(name, segments, lambda scores: {"score": scores.score} | scores.as_dict())

    async def align(self, prediction: Any, reference: Any, metric: str | None = None) -> Answer:
        """Show how the score of two texts comes about: as `Alignment.as_dict`, the rest as for `score`; of a metric
        that compares with the source, `reference` is the source.
        """
        name = self._name(metric)
        sources = [reference] if self.scorers[name].requested.against == "source" else None
        segments = check_segments([prediction], None if sources else [reference], sources)
        return await self._answer(name, segments, _align_answer)

    def _name(self, metric: str | None) -> str:
        name = next(iter(self.scorers)) if metric is None else metric
        if name not in self.scorers:
            raise SpecError(f"metric {name[:80]!r} is not served here; {menu(name[:80], self.scorers)}.")
        return name

    def _check_size(self, segments: Segments) -> None:
        pairs = _count_pairs(segments)
        if pairs > self.max_pairs:
            raise ServiceError(413, f"the request has {pairs:,} pairs: send at most {self.max_pairs:,} at once.")
        sources = segments.sources or [""] * len(segments.predictions)
        for row, texts in enumerate(zip(*segments[:2], sources, strict=True)):
            longest = max(map(len, (texts[0], *texts[1], texts[2])))
            if longest > self.max_letters:
                limit = f"send texts of at most {self.max_letters:,}"
                raise ServiceError(413, f"row {row} has a text of {longest:,} letters: {limit}.")

    async def _answer(self, metric: str, segments: Segments, make: Callable[[ScoreSet], Answer]) -> Answer:
        """Wait in the queue for the answer; a request that is given up leaves the queue."""
        self._check_size(segments)
        if (waiting := self.waiting) >= self.max_waiting:
            raise ServiceError(429, f"{waiting} requests wait already: send this one again, later.")
        try:
            async with asyncio.timeout(self.timeout):
                answer, notices = await asyncio.wrap_future(self._queues[metric].submit(segments, make))
        except TimeoutError as error:
            raise ServiceError(
                504, f"there was no answer within {self.timeout} seconds: send fewer pairs, or try again later."
            ) from error
        except TwmdError:
            raise
        except Exception as error:  # an error of this program must not end the service
            logger.exception("a request failed")
            raise ServiceError(500, "internal error: the log of the service has more.") from error
        return {"metric": metric, **answer, "notices": notices}

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Answer requests within the block; at its end, wait for the pass that runs."""
        with self._pool.get():
            yield

    def _score(self, metric: str, scorer: Scorer, tasks: Sequence[Segments]) -> Sequence[Outcome]:
        """Score requests that share a pass, in the thread of the pool."""
        started = time.perf_counter()
        outcomes = score_together(scorer, tasks)
        self._pairs.labels(metric).inc(sum(map(_count_pairs, tasks)))
        self._seconds.labels(metric).observe(time.perf_counter() - started)
        return outcomes


REFUSALS: dict[int | str, dict[str, Any]] = {
    status: {"description": f"{HTTPStatus(status).phrase}: a JSON object whose `error` is one line."}
    for status in (400, 401, 408, 413, 415, 422, 429, 500, 504)
}
_TEXTS = {"type": "array", "items": {"type": "string"}, "minItems": 1}
_REFERENCES = {"anyOf": [_TEXTS, {"type": "array", "items": _TEXTS, "minItems": 1}]}
MetricField = Annotated[str | None, Field(description="One of the listed metrics; the first, if it is left out.")]


def _texts(description: str, schema: dict[str, Any] = _TEXTS) -> Any:
    """Describe a field whose rows `check_segments` checks later; its messages name them."""
    return WithJsonSchema(schema | {"description": description})


class ScoreRequest(BaseModel):
    """Texts to score: each prediction against its reference, its list of references, or the text that it translates."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={
            "example": {"predictions": ["It rains."], "references": [["It is raining.", "Rain falls."]]}
        },
    )
    predictions: Annotated[list[Any], _texts("A list of texts.")]
    references: Annotated[list[Any] | None, _texts("A text, or a list of texts, per prediction.", _REFERENCES)] = None
    sources: Annotated[list[Any] | None, _texts("The text that was translated, per prediction.")] = None
    metric: MetricField = None


class AlignRequest(BaseModel):
    """Two texts to align."""

    model_config = ConfigDict(
        extra="forbid", json_schema_extra={"example": {"prediction": "It rains.", "reference": "It is raining."}}
    )
    prediction: Annotated[str, Field(description="A text.")]
    reference: Annotated[str, Field(description="A text.")]
    metric: MetricField = None


EXAMPLES = {
    path: kind.model_json_schema()["example"] for path, kind in (("/score", ScoreRequest), ("/align", AlignRequest))
}


def _service(request: Request) -> Service:
    service: Service = request.app.state.service
    return service


_bearer = HTTPBearer(auto_error=False, description="The API key, where the service has one.")


class JsonRequest(Request):
    """A request whose body is read within the service's limits, and may not repeat a key."""

    async def body(self) -> bytes:
        """Return the body; raises ServiceError if it is not plain JSON in UTF-8 by its headers, too large, or too
        slow.
        """
        if hasattr(self, "_body"):
            return self._body
        service, headers = _service(self), self.headers
        kind = Message()
        kind["Content-Type"] = ", ".join(headers.getlist("content-type"))
        if "content-type" not in headers or kind.get_content_type() != "application/json":
            raise ServiceError(415, "send JSON, with the header 'Content-Type: application/json'.")
        charset = str(kind.get_param("charset", "utf-8"))
        if charset.lower() not in {"utf-8", "utf8", "us-ascii"}:
            raise ServiceError(415, f"charset {charset[:40]!r} is not read: send JSON in UTF-8.")
        coding = ", ".join(headers.getlist("content-encoding"))
        if coding.lower() not in {"", "identity"}:
            raise ServiceError(415, f"Content-Encoding {coding[:40]!r} is not read: send the body as it is.")
        body, length = bytearray(), 0
        try:
            async with asyncio.timeout(service.transfer):
                async for part in self.stream():
                    length += len(part)
                    # What is too much is read and dropped: many clients read no answer before all is sent.
                    body += part if length <= service.max_bytes else b""
        except TimeoutError as error:
            raise ServiceError(408, f"the body did not arrive within {service.transfer} seconds.") from error
        if length > service.max_bytes:
            raise ServiceError(413, f"the body is too large: send at most {service.max_bytes:,} bytes at once.")
        self._body = bytes(body)
        return self._body

    async def json(self) -> Any:
        """Return the body's value; raises ServiceError if it is not JSON, and InputError for a repeated key."""
        if not hasattr(self, "_json"):
            body = await self.body()
            try:
                self._json = from_json(body)
            except ValueError as error:
                raise ServiceError(400, f"the body is not JSON in UTF-8: {error}.") from None
            try:
                json.loads(body, object_pairs_hook=refuse_repeated_keys, parse_int=str)  # Python's int has a limit
            except ValueError as error:
                raise InputError(f"{error}: send every field once.") from None
        return self._json


class CheckedRoute(APIRoute):
    """A route that checks the key and the query before the body is read."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return FastAPI's handler after these checks."""
        handle = super().get_route_handler()

        async def check_and_handle(request: Request) -> Response:
            key, given = request.app.state.key, await _bearer(request)
            if key is not None and not (given and hmac.compare_digest(given.credentials.encode(), key.encode())):
                raise ServiceError(401, "the API key is missing or wrong: send the header 'Authorization: Bearer KEY'.")
            known = [parameter.name for parameter in self.dependant.query_params]
            for name in request.query_params:
                if len(request.query_params.getlist(name)) > 1:
                    raise InputError(f"the query has {name[:80]!r} twice: give it once.")
                if name not in known:
                    where = (
                        f"the parameters are {', '.join(known)}" if known else "send it in the body, or leave it out"
                    )
                    raise InputError(f"{name[:80]!r} is no query parameter of {request.url.path}: {where}.")
            request = JsonRequest(request.scope, request.receive)
            if self.body_field:
                await request.json()  # here, since FastAPI hides the reason why a body cannot be read
            return await handle(request)

        return check_and_handle


def _explain(error: ValidationError | RequestValidationError, kind: type[BaseModel]) -> str:
    """Say in a line which field of a request is wrong, and what the fields are."""
    first = error.errors()[0]
    where, why = ".".join(str(part) for part in first["loc"] if part != "body")[:80] or "the body", first["msg"]
    what = {"missing": " is missing", "extra_forbidden": " is unknown"}.get(first["type"], f": {why}")
    return f"{where}{what}; the fields are {', '.join(kind.model_fields) or 'none'}."


with_key = APIRouter(route_class=CheckedRoute, dependencies=[Depends(_bearer)], responses={401: REFUSALS[401]})
without_key = APIRouter()


@with_key.post("/score", responses=REFUSALS)
async def score(body: ScoreRequest, request: Request) -> JSONResponse:
    """Score predictions against references: one or several per prediction."""
    return await _answer(request, _service(request).score(**vars(body)))


@with_key.post("/align", responses=REFUSALS)
async def align(body: AlignRequest, request: Request) -> JSONResponse:
    """Show how the score of two texts comes about: which token carries how much to which.

    The similarity of two tokens is their cosine; where the signature has vectors:raw, as sbert's, their inner product.
    """
    return await _answer(request, _service(request).align(**vars(body)))


@with_key.get("/metrics")
async def metrics(request: Request) -> JSONResponse:
    """List the metrics that are served, with their signatures."""
    return JSONResponse(_service(request).list_metrics())


@with_key.get("/signature", responses={422: REFUSALS[422]})
async def signature(request: Request, metric: MetricField = None) -> JSONResponse:
    """Return the signature of a metric; of the first, if none is named."""
    return JSONResponse(_service(request).signature(metric))


@with_key.get("/prometheus", response_class=PlainTextResponse)
async def prometheus(request: Request) -> PlainTextResponse:
    """Return counters and times for Prometheus."""
    from prometheus_client import generate_latest

    return PlainTextResponse(generate_latest(_service(request).registry))


@without_key.get("/health")
async def health() -> JSONResponse:
    """Report that requests are accepted; needs no API key."""
    return JSONResponse({"status": "ok", "version": __version__})


ABOUT = (
    "Scores generated texts against references by embedding metrics; higher is closer. Publish the signature with a "
    "score: it names exactly what was computed. Tools use the first metric of list_metrics if none is named."
)


def _example(request: Request, path: str) -> str:
    """Write a call of this service by curl."""
    key = " -H 'Authorization: Bearer KEY'" if request.app.state.key else ""
    url = f"{request.base_url}{path.removeprefix('/')}"
    if path not in EXAMPLES:
        return f"curl{key} {url}"
    return f"curl{key} -H 'Content-Type: application/json' \\\n  -d '{json.dumps(EXAMPLES[path])}' \\\n  {url}"


@without_key.get("/", include_in_schema=False)
async def home(request: Request) -> Response:
    """Say what this is, and show one call: as a page for browsers, else as text."""
    call, names = _example(request, "/score"), list(_service(request).scorers)
    if "text/html" in request.headers.get("accept", ""):
        about = {"version": __version__, "call": call, "metrics": names, "with_key": request.app.state.key is not None}
        return HTMLResponse(render("home.html", "serve", **about))
    return PlainTextResponse(
        f"twmd-registry {__version__}: {ABOUT}\nMetrics: {', '.join(names)}. See /docs.\n\n{call}\n"
    )


@without_key.get("/docs", include_in_schema=False)
async def docs(request: Request) -> HTMLResponse:
    """Show every call, from the OpenAPI document; the page loads nothing from elsewhere."""
    api = request.app.openapi()
    examples = {path: _example(request, path) for path in api["paths"]}
    return HTMLResponse(render("docs.html", "serve", api=api, examples=examples))


async def _answer(request: Request, call: Coroutine[Any, Any, Answer]) -> JSONResponse:
    """Answer a request, as long as its client is there."""
    answering, leaving = asyncio.create_task(call), asyncio.create_task(_wait_until_gone(request))
    try:
        await asyncio.wait({answering, leaving}, return_when=asyncio.FIRST_COMPLETED)
        if not answering.done():
            raise ClientDisconnect
        answer = answering.result()
    finally:
        answering.cancel()  # takes the request out of the queue
        leaving.cancel()
    request.app.state.answers.labels(200).inc()
    return JSONResponse(answer)


async def _wait_until_gone(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


async def _refuse(request: Request, error: Exception) -> JSONResponse:
    """Answer an error in one line."""
    status, headers, message = 500, dict[str, str](), str(error)
    if isinstance(error, HTTPException):
        status, headers, message = error.status_code, dict(error.headers or {}), f"{error.detail}: see /docs."
    elif isinstance(error, RequestValidationError):
        status, message = 422, _explain(error, request.scope["route"].body_field.field_info.annotation)
    elif isinstance(error, ServiceError):
        status = error.status
    elif isinstance(error, ClientDisconnect):
        status = 499  # for the counter: the client is gone
    elif isinstance(error, (InputError, SpecError)):
        status = 422
    if status == 429:
        headers["Retry-After"] = "1"
    elif status == 401:
        headers["WWW-Authenticate"] = "Bearer"
    elif status in {408, 413, 415}:  # a rest of the body may not have been read
        headers["Connection"] = "close"
    request.app.state.answers.labels(status).inc()
    return JSONResponse({"error": message}, status, headers)


def make_app(service: Service, key: str | None = None) -> FastAPI:
    """Make the application of a service, which runs it; requests must have the API key, if there is one."""
    from prometheus_client import Counter

    app = FastAPI(
        title="twmd-registry",
        version=__version__,
        description="Embedding metrics for generated text, with signatures.",
        docs_url=None,  # FastAPI's pages load their scripts from elsewhere
        redoc_url=None,
        lifespan=lambda _app: service.running(),
        exception_handlers=dict.fromkeys((TwmdError, HTTPException, RequestValidationError, ClientDisconnect), _refuse),
    )
    app.state.service, app.state.key = service, key
    app.state.answers = Counter("twmd_answers", "Scores, alignments, refusals", ["status"], registry=service.registry)
    app.include_router(with_key)
    app.include_router(without_key)
    return app


KEY_VARIABLE = "TWMD_API_KEY"
SPARE_CONNECTIONS = 64
"""Connections beside those whose requests wait; more are answered 503 at once."""


def read_key(file: Path | None) -> str | None:
    """Read the API key from a file, or from the environment; None if there is none. No error shows it."""
    key = os.environ.get(KEY_VARIABLE) if file is None else read_secret(file, "the API key")
    if key is not None and not re.fullmatch(r"[!-~]{16,}", key):
        raise FileError(f"{file or KEY_VARIABLE} has no API key: expected 16 or more ASCII characters without blanks.")
    return key


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def serve_http(service: Service, host: str, port: int, key: str | None, announce: Callable[[str], None]) -> None:
    """Serve over HTTP until a signal ends it; port 0 chooses a free port, and `announce` gets the URL."""
    if key is None and not _is_loopback(host):
        how = f"--api-key-file FILE or {KEY_VARIABLE}"
        raise SpecError(f"{host} can be reached from other machines: set an API key by {how}, or use 127.0.0.1.")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.create_server((host, port), family=family, backlog=service.max_waiting)
    with listener:
        service.load()
        config = uvicorn.Config(
            make_app(service, key),
            http=Connection,
            ws="none",
            timeout_keep_alive=service.transfer,
            log_level="warning",
            access_log=False,
            server_header=False,
            limit_concurrency=service.max_waiting + SPARE_CONNECTIONS,
            timeout_graceful_shutdown=service.timeout + 1,
        )
        name = f"[{host}]" if ":" in host else host
        announce(f"http://{name}:{listener.getsockname()[1]}")
        server = uvicorn.Server(config)

        def stop(*_: object) -> None:
            """Answer the requests that wait, and end with status 0; on the second signal, end at once."""
            server.force_exit, server.should_exit = server.should_exit, True

        server.handle_exit = stop  # type: ignore[assignment]  # uvicorn's own raises the signal again at the end
        server.run([listener])


_NoFields = create_model("NoFields", __config__=ConfigDict(extra="forbid"))


def make_mcp_server(service: Service) -> Any:
    """Make the MCP `Server` of a service that is running; it has the routes of HTTP as tools."""
    from mcp import types
    from mcp.server.lowlevel import Server

    async def list_metrics() -> Answer:
        return {"result": service.list_metrics()}

    tools: dict[str, tuple[type[BaseModel], Callable[..., Coroutine[Any, Any, Answer]], Callable[..., Any]]] = {
        "score": (ScoreRequest, service.score, score),
        "align": (AlignRequest, service.align, align),
        "list_metrics": (_NoFields, list_metrics, metrics),
    }

    async def list_tools(*_: object) -> Any:
        return types.ListToolsResult(
            tools=[
                types.Tool(name=name, description=inspect.getdoc(route), input_schema=kind.model_json_schema())
                for name, (kind, _, route) in tools.items()
            ]
        )

    async def call_tool(_: object, call: Any) -> Any:
        try:
            if call.name not in tools:
                raise InputError(f"there is no tool {call.name[:80]!r}; there are {', '.join(tools)}.")
            kind, compute, _route = tools[call.name]
            try:
                fields = kind.model_validate(call.arguments or {})
            except ValidationError as error:
                raise InputError(_explain(error, kind)) from None
            answer = await compute(**vars(fields))
        except TwmdError as error:  # an error of the tool, which the client shows
            return types.CallToolResult(content=[types.TextContent(type="text", text=str(error))], is_error=True)
        text = types.TextContent(type="text", text=json.dumps(answer))
        return types.CallToolResult(content=[text], structured_content=answer)

    return Server("twmd", version=__version__, instructions=ABOUT, on_list_tools=list_tools, on_call_tool=call_tool)


def serve_mcp(service: Service) -> None:
    """Serve MCP on standard input and output until the client closes the input and every request has its answer."""
    from mcp.server.stdio import stdio_server

    service.load()
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # asyncio's would wait for the thread that reads the input
    server = make_mcp_server(service)

    async def serve() -> None:
        async with service.running(), stdio_server() as streams, _until_answered(streams, service.timeout) as relayed:
            await server.run(*relayed, server.create_initialization_options())

    asyncio.run(serve())


@asynccontextmanager
async def _until_answered(streams: tuple[Any, Any], timeout: float) -> AsyncIterator[tuple[Any, Any]]:
    """Relay the messages of a client and a server: for the server, whose requests end with its input, that ends when
    all that was asked is answered, within the seconds that a request may take.
    """
    received, sent = streams
    requests, to_read = anyio.create_memory_object_stream[Any](0)
    to_write, answers = anyio.create_memory_object_stream[Any](0)
    waiting, answered = set[Any](), asyncio.Event()

    def note(number: Any) -> None:
        waiting.discard(number)
        answered.set()

    async def relay_requests() -> None:
        async with requests:
            async for received_one in received:
                message: Any = getattr(received_one, "message", None)  # none of an exception
                if getattr(message, "method", None) == "notifications/cancelled":  # such a request has no answer
                    note((message.params or {}).get("requestId"))
                elif hasattr(message, "method") and hasattr(message, "id"):
                    waiting.add(message.id)
                await requests.send(received_one)
            with anyio.move_on_after(timeout + 1):
                while waiting:
                    answered.clear()
                    await answered.wait()

    async def relay_answers() -> None:
        async with sent:
            async for message in answers:
                await sent.send(message)
                note(getattr(message.message, "id", None))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(relay_requests)
        tasks.start_soon(relay_answers)
        yield to_read, to_write
