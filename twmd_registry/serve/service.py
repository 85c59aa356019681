"""`Service`: one thread scores all waiting requests of a metric in a single pass. HTTP routes and MCP tools."""

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
from twmd_registry.messages import collect_warnings, menu, replace_advice
from twmd_registry.registry.metrics import entry
from twmd_registry.registry.paths import read_secret
from twmd_registry.serve.connection import Connection
from twmd_registry.template import render
from twmd_registry.version import __version__

Answer: TypeAlias = dict[str, Any]
MAX_LINKS = 1_000
"""Maximum number of links per side of an alignment; the largest are sent."""
logger = logging.getLogger(__name__)


class ServiceError(TwmdError):
    """A request that is refused or cannot be answered; `status` is the HTTP status."""

    def __init__(self, status: int, message: str) -> None:
        """Store the status and the message."""
        super().__init__(message)
        self.status = status


def _count_pairs(segments: Segments) -> int:
    return sum(map(len, segments.references)) + len(segments.sources or ())


def _align_answer(scores: ScoreSet) -> Answer:
    with collect_warnings():  # scoring has already raised them
        return scores.explain(0).as_dict(MAX_LINKS)


@dataclass(eq=False)
class Service:
    """Answers requests while `running`, with the scorer that a request names or else the first.

    Attributes:
        scorers: Scorers by the name that requests use.
        max_bytes: Maximum bytes of a request's body.
        max_pairs: Maximum pairs per request.
        max_letters: Maximum characters of a text.
        max_waiting: Maximum requests in the queues.
        timeout: Seconds after which an unanswered request fails.
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
        """Make queues and counters; no model is loaded yet."""
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
        """Pickle only the settings, because queues and counters hold locks."""
        return type(self), tuple(getattr(self, field.name) for field in fields(self))

    @property
    def waiting(self) -> int:
        """The number of waiting requests."""
        return sum(len(queue.waiting) for queue in self._queues.values())

    def load(self) -> None:
        """Load all models in the scoring thread; raise errors as `Scorer.spec`."""
        for scorer in self.scorers.values():
            self._pool.get().submit(getattr, scorer, "spec").result()

    def list_metrics(self) -> list[Answer]:
        """Describe the served metrics; ``batched`` is whether requests share passes."""
        facts = {name: entry(scorer.requested.metric) for name, scorer in self.scorers.items()}
        return [
            {"title": fact.title, "range": fact.span, "identical": fact.identical, "batched": self._queues[name].shared}
            | {"metric": name, "signature": self.scorers[name].signature}
            for name, fact in facts.items()
        ]

    async def score(
        self, predictions: Any, references: Any = None, metric: str | None = None, sources: Any = None
    ) -> Answer:
        """Score texts; return ``metric``, ``score``, all of `ScoreSet.as_dict`, and warnings as ``notices``."""
        if references is None and sources is None:
            raise InputError("references is missing: send references, or sources for a metric with against=source.")
        name, segments = self._name(metric), check_segments(predictions, references, sources)
        return await self._answer(name, segments, lambda scores: {"score": scores.score} | scores.as_dict())

    async def align(self, prediction: Any, reference: Any, metric: str | None = None) -> Answer:
        """Show how the score of two texts arises: `Alignment.as_dict`, ``metric`` and ``notices``.

        With ``against=source``, `reference` is the source.
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
            raise ServiceError(413, f"the request has {pairs:,} pairs: send at most {self.max_pairs:,}.")
        sources = segments.sources or [""] * len(segments.predictions)
        for row, texts in enumerate(zip(*segments[:2], sources, strict=True)):
            longest = max(map(len, (texts[0], *texts[1], texts[2])))
            if longest > self.max_letters:
                limit = f"send texts of at most {self.max_letters:,}"
                raise ServiceError(413, f"row {row} has a text of {longest:,} characters: {limit}.")

    async def _answer(self, metric: str, segments: Segments, make: Callable[[ScoreSet], Answer]) -> Answer:
        """Wait in the queue for the answer; an abandoned request leaves the queue."""
        self._check_size(segments)
        if (waiting := self.waiting) >= self.max_waiting:
            raise ServiceError(429, f"{waiting} requests are waiting: try again later.")
        try:
            async with asyncio.timeout(self.timeout):
                answer, notices = await asyncio.wrap_future(self._queues[metric].submit(segments, make))
        except TimeoutError as error:
            raise ServiceError(
                504, f"no answer within {self.timeout} seconds: send fewer pairs, or try again later."
            ) from error
        except TwmdError:
            raise
        except Exception as error:  # a bug must not end the service
            logger.exception("a request failed")
            raise ServiceError(500, "internal error: see the log of the service.") from error
        return {"metric": metric, **answer, "notices": notices}

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Answer requests inside the block; at its end, wait for the current pass."""
        with self._pool.get():
            yield

    def _score(self, metric: str, scorer: Scorer, tasks: Sequence[Segments]) -> Sequence[Outcome]:
        """Score requests that share a pass, in the scoring thread."""
        started = time.perf_counter()
        outcomes = score_together(scorer, tasks)
        self._pairs.labels(metric).inc(sum(map(_count_pairs, tasks)))
        self._seconds.labels(metric).observe(time.perf_counter() - started)
        return outcomes


REFUSALS: dict[int | str, dict[str, Any]] = {
    status: {"description": f"{HTTPStatus(status).phrase}: a JSON object with a one-line `error`."}
    for status in (400, 401, 408, 413, 415, 422, 429, 500, 504)
}
_TEXTS = {"type": "array", "items": {"type": "string"}, "minItems": 1}
_REFERENCES = {"anyOf": [_TEXTS, {"type": "array", "items": _TEXTS, "minItems": 1}]}
MetricField = Annotated[str | None, Field(description="One of the served metrics (default: the first).")]


def _texts(description: str, schema: dict[str, Any] = _TEXTS) -> Any:
    """Describe a field whose rows `check_segments` checks later, with messages that name the row."""
    return WithJsonSchema(schema | {"description": description})


class ScoreRequest(BaseModel):
    """Texts to score: each prediction against its reference, its list of references, or its source."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={
            "example": {"predictions": ["It rains."], "references": [["It is raining.", "Rain falls."]]}
        },
    )
    predictions: Annotated[list[Any], _texts("A list of texts.")]
    references: Annotated[list[Any] | None, _texts("A text, or a list of texts, per prediction.", _REFERENCES)] = None
    sources: Annotated[list[Any] | None, _texts("The source text of every prediction.")] = None
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


_bearer = HTTPBearer(auto_error=False, description="The API key, if the service has one.")


class JsonRequest(Request):
    """A request whose body is read within the service's limits and must not repeat a key."""

    async def body(self) -> bytes:
        """Return the body; raise ServiceError if its headers do not declare plain UTF-8 JSON, or it is too large or
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
            raise ServiceError(415, f"charset {charset[:40]!r} is not supported: send JSON in UTF-8.")
        coding = ", ".join(headers.getlist("content-encoding"))
        if coding.lower() not in {"", "identity"}:
            raise ServiceError(415, f"Content-Encoding {coding[:40]!r} is not supported: send the body unencoded.")
        body, length = bytearray(), 0
        try:
            async with asyncio.timeout(service.transfer):
                async for part in self.stream():
                    length += len(part)
                    # Read and drop the excess, because many clients only read an answer after sending everything.
                    body += part if length <= service.max_bytes else b""
        except TimeoutError as error:
            raise ServiceError(408, f"the body did not arrive within {service.transfer} seconds.") from error
        if length > service.max_bytes:
            raise ServiceError(413, f"the body is too large: send at most {service.max_bytes:,} bytes.")
        self._body = bytes(body)
        return self._body

    async def json(self) -> Any:
        """Return the body's value; raise ServiceError if it is not JSON, InputError for a repeated key."""
        if not hasattr(self, "_json"):
            body = await self.body()
            try:
                self._json = from_json(body)
            except ValueError as error:
                raise ServiceError(400, f"the body is not JSON in UTF-8: {error}.") from None
            _check_keys(body)
        return self._json


def _check_keys(body: bytes | str) -> None:
    """Raise InputError for JSON that repeats a key."""
    try:
        json.loads(body, object_pairs_hook=refuse_repeated_keys, parse_int=str)  # Python's int has a limit
    except ValueError as error:
        raise InputError(f"{error}: send every field once.") from None


class CheckedRoute(APIRoute):
    """A route that checks the API key and the query before it reads the body."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return FastAPI's handler, preceded by these checks."""
        handle = super().get_route_handler()

        async def check_and_handle(request: Request) -> Response:
            key, bearer = request.app.state.key, await _bearer(request)
            if key is not None and not (bearer and hmac.compare_digest(bearer.credentials.encode(), key.encode())):
                raise ServiceError(401, "the API key is missing or wrong: send the header 'Authorization: Bearer KEY'.")
            for name in request.query_params:
                raise InputError(
                    f"{request.url.path} reads no query, but got {name[:80]!r}: send it in the body, or leave it out."
                )
            request = JsonRequest(request.scope, request.receive)
            if self.body_field:
                await request.json()  # FastAPI would hide why a body cannot be read
            return await handle(request)

        return check_and_handle


def _explain(error: ValidationError | RequestValidationError, kind: type[BaseModel]) -> str:
    """Describe in one line which field of a request is wrong, and list the fields."""
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
    """Show how the score of two texts arises: how much weight each token carries to every other token.

    The similarity of two tokens is their cosine or, if the signature has vectors:raw, their inner product.
    """
    return await _answer(request, _service(request).align(**vars(body)))


@with_key.get("/metrics")
async def metrics(request: Request) -> JSONResponse:
    """List the served metrics with their signatures."""
    return JSONResponse(_service(request).list_metrics())


@with_key.get("/prometheus", response_class=PlainTextResponse)
async def prometheus(request: Request) -> PlainTextResponse:
    """Return counters and times for Prometheus."""
    from prometheus_client import generate_latest

    return PlainTextResponse(generate_latest(_service(request).registry))


@without_key.get("/health")
async def health() -> JSONResponse:
    """Report that the service accepts requests; needs no API key."""
    return JSONResponse({"status": "ok", "version": __version__})


ABOUT = (
    "Scores generated texts against references with embedding metrics; higher is closer. Publish the signature with a "
    "score: it names exactly what was computed."
)


def _example(request: Request, path: str) -> str:
    """Write a curl command that calls this service."""
    key = " -H 'Authorization: Bearer KEY'" if request.app.state.key else ""
    url = f"{request.base_url}{path.removeprefix('/')}"
    if path not in EXAMPLES:
        return f"curl{key} {url}"
    return f"curl{key} -H 'Content-Type: application/json' \\\n  -d '{json.dumps(EXAMPLES[path])}' \\\n  {url}"


@without_key.get("/", include_in_schema=False)
async def home(request: Request) -> Response:
    """Describe the service and show one call: as a page for browsers, otherwise as text."""
    call, names = _example(request, "/score"), list(_service(request).scorers)
    if "text/html" in request.headers.get("accept", ""):
        about = {"version": __version__, "call": call, "metrics": names, "with_key": request.app.state.key is not None}
        return HTMLResponse(render("home.html", "serve", **about))
    return PlainTextResponse(
        f"twmd-registry {__version__}: {ABOUT}\nMetrics: {', '.join(names)}. See /docs.\n\n{call}\n"
    )


@without_key.get("/docs", include_in_schema=False)
async def docs(request: Request) -> HTMLResponse:
    """Show every call of the OpenAPI document on a page that loads nothing from elsewhere."""
    api = request.app.openapi()
    examples = {path: _example(request, path) for path in api["paths"]}
    return HTMLResponse(render("docs.html", "serve", api=api, examples=examples))


async def _answer(request: Request, call: Coroutine[Any, Any, Answer]) -> JSONResponse:
    """Answer a request while its client is connected."""
    answering, leaving = asyncio.create_task(call), asyncio.create_task(_wait_until_gone(request))
    try:
        await asyncio.wait({answering, leaving}, return_when=asyncio.FIRST_COMPLETED)
        if not answering.done():
            raise ClientDisconnect
        answer = answering.result()
    finally:
        answering.cancel()  # removes the request from the queue
        leaving.cancel()
    request.app.state.answers.labels(200).inc()
    return JSONResponse(answer)


async def _wait_until_gone(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


_ADVICE = {
    ", or leave these rows out by drop_missing=True": ", or leave these rows out",
    "score anyway by any_language=True (--any-language)": "start the service with --any-language",
}
"""Advice for Python and the command line, and its replacement for a client."""


async def _refuse(request: Request, error: Exception) -> JSONResponse:
    """Answer with an error in one line."""
    status, headers, message = 500, dict[str, str](), replace_advice(str(error), _ADVICE)
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
    elif status in {408, 413, 415}:  # part of the body may be unread
        headers["Connection"] = "close"
    request.app.state.answers.labels(status).inc()
    return JSONResponse({"error": message}, status, headers)


def make_app(service: Service, key: str | None = None) -> FastAPI:
    """Make the application that runs a service; requests must carry the API key, if there is one."""
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
"""Connections in addition to waiting requests; others immediately get 503."""


def read_key(file: Path | None) -> str | None:
    """Read the API key from a file or the environment; None without one. No error shows it."""
    key = os.environ.get(KEY_VARIABLE) if file is None else read_secret(file, "the API key")
    if key is not None and not re.fullmatch(r"[!-~]{16,}", key):
        raise FileError(f"{file or KEY_VARIABLE} has no API key: expected at least 16 ASCII characters without blanks.")
    return key


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def serve_http(service: Service, host: str, port: int, key: str | None, announce: Callable[[str], None]) -> None:
    """Serve over HTTP until a signal. Port 0 picks a free port; `announce` is called with the URL."""
    if key is None and not _is_loopback(host):
        how = f"--api-key-file FILE or {KEY_VARIABLE}"
        raise SpecError(f"other machines can reach {host}: set an API key with {how}, or use 127.0.0.1.")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.create_server((host, port), family=family, backlog=service.max_waiting)
    with listener:
        service.load()
        config = uvicorn.Config(
            make_app(service, key),
            http=Connection,
            ws="none",
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
            """Answer waiting requests, then exit with status 0; exit immediately on the second signal."""
            server.force_exit, server.should_exit = server.should_exit, True

        server.handle_exit = stop  # type: ignore[assignment]  # uvicorn would raise the signal again at the end
        server.run([listener])


_NoFields = create_model("NoFields", __config__=ConfigDict(extra="forbid"))


def make_mcp_server(service: Service) -> Any:
    """Make the MCP `Server` of a running service, with its HTTP routes as tools."""
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
                raise InputError(f"no tool {call.name[:80]!r}; {menu(call.name[:80], tools)}.")
            kind, compute, _route = tools[call.name]
            try:
                fields = kind.model_validate(call.arguments or {})
            except ValidationError as error:
                raise InputError(_explain(error, kind)) from None
            answer = await compute(**vars(fields))
        except TwmdError as error:  # the client shows a tool's error
            return types.CallToolResult(
                content=[types.TextContent(type="text", text=replace_advice(str(error), _ADVICE))], is_error=True
            )
        text = types.TextContent(type="text", text=json.dumps(answer))
        return types.CallToolResult(content=[text], structured_content=answer)

    return Server(
        "twmd",
        version=__version__,
        instructions=f"{ABOUT} Tools default to the first metric of list_metrics.",
        on_list_tools=list_tools,
        on_call_tool=call_tool,
    )


def serve_mcp(service: Service) -> None:
    """Serve MCP on standard input and output until the input ends and every request is answered."""
    service.load()
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # asyncio's handler would wait for the thread that reads the input
    server = make_mcp_server(service)

    async def serve() -> None:
        async with service.running(), _standard_streams(service.timeout) as streams:
            await server.run(*streams, server.create_initialization_options())

    asyncio.run(serve())


async def _read_lines(refusals: Any) -> AsyncIterator[str]:
    """Yield the lines of standard input; refuse a repeated key, which the server would overwrite."""
    from mcp import types
    from mcp.shared.message import SessionMessage

    with open(0, encoding="utf-8", errors="replace", closefd=False) as lines:
        async for line in anyio.wrap_file(lines):
            try:
                request = types.jsonrpc_message_adapter.validate_json(line, by_name=False)
                _check_keys(line)
            except InputError as error:
                if (number := getattr(request, "id", None)) is not None:
                    reason = types.ErrorData(code=types.INVALID_REQUEST, message=str(error))
                    await refusals.send(SessionMessage(types.JSONRPCError(jsonrpc="2.0", id=number, error=reason)))
            except ValueError:  # not a message
                continue
            else:
                yield line


@asynccontextmanager
async def _standard_streams(timeout: float) -> AsyncIterator[tuple[Any, Any]]:
    """Relay messages between standard input and output and a server, which drops its requests when its input ends.

    The server's input therefore ends only when all requests are answered, or after the timeout of one request.
    """
    from mcp.server.stdio import stdio_server

    requests, to_read = anyio.create_memory_object_stream[Any](0)
    to_write, answers = anyio.create_memory_object_stream[Any](0)
    waiting, answered = set[Any](), asyncio.Event()

    def finish(number: Any) -> None:
        waiting.discard(number)
        answered.set()

    async def relay_requests(received: Any) -> None:
        async with requests:
            async for event in received:
                message: Any = event.message
                if getattr(message, "method", None) == "notifications/cancelled":  # it will not be answered
                    finish((message.params or {}).get("requestId"))
                elif hasattr(message, "method") and hasattr(message, "id"):
                    waiting.add(message.id)
                await requests.send(event)
            with anyio.move_on_after(timeout + 1):
                while waiting:
                    answered.clear()
                    await answered.wait()

    async def relay_answers(sent: Any) -> None:
        async with sent:
            async for message in answers:
                await sent.send(message)
                finish(getattr(message.message, "id", None))

    async with (
        to_write.clone() as refusals,
        stdio_server(stdin=_read_lines(refusals)) as (received, sent),
        anyio.create_task_group() as tasks,
    ):
        tasks.start_soon(relay_requests, received)
        tasks.start_soon(relay_answers, sent)
        yield to_read, to_write
        await refusals.aclose()
