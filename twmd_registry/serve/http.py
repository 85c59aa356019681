"""The service's routes over HTTP."""

from __future__ import annotations

import hmac
import ipaddress
import os
import re
import socket
from collections.abc import Callable, Coroutine
from http import HTTPStatus
from pathlib import Path
from typing import Any

import uvicorn
from fastapi import APIRouter, Depends, FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, JSONResponse, PlainTextResponse, Response
from fastapi.routing import APIRoute
from fastapi.security import HTTPBearer
from pydantic import BaseModel, ConfigDict
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from twmd_registry.errors import FileError, InputError, SpecError, TwmdError
from twmd_registry.files.tables import parse_json
from twmd_registry.registry.paths import read_secret
from twmd_registry.serve.connection import Connection
from twmd_registry.serve.service import ABOUT, Metric, References, Service, ServiceError, Sources, Text, Texts, explain
from twmd_registry.template import render
from twmd_registry.version import __version__

REFUSALS: dict[int | str, dict[str, Any]] = {
    status: {"description": f"{HTTPStatus(status).phrase}: a JSON object with a one-line `error`."}
    for status in (400, 401, 413, 415, 422, 429, 500, 504)
}


class ScoreRequest(BaseModel):
    """Texts to score: each prediction against its reference, its list of references, or its source."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={
            "example": {"predictions": ["It rains."], "references": [["It is raining.", "Rain falls."]]}
        },
    )
    predictions: Texts
    references: References = None
    sources: Sources = None
    metric: Metric = None


class AlignRequest(BaseModel):
    """Two texts to align."""

    model_config = ConfigDict(
        extra="forbid", json_schema_extra={"example": {"prediction": "It rains.", "reference": "It is raining."}}
    )
    prediction: Text
    reference: Text
    metric: Metric = None


EXAMPLES = {
    path: kind.model_json_schema()["example"] for path, kind in (("/score", ScoreRequest), ("/align", AlignRequest))
}


def _service(request: Request) -> Service:
    return request.app.state.service  # type: ignore[no-any-return]


_bearer = HTTPBearer(auto_error=False, description="The API key, if the service has one.")


class JsonRequest(Request):
    """A request whose body is JSON in UTF-8, within the service's limit, without repeated keys."""

    async def json(self) -> Any:
        """Return the body's value; raise ServiceError for any other body."""
        if not hasattr(self, "_json"):
            kind = self.headers.get("content-type", "").lower().replace(" ", "").replace('"', "")
            coding = self.headers.get("content-encoding", "identity").lower()
            if kind not in {"application/json", "application/json;charset=utf-8"} or coding != "identity":
                raise ServiceError(
                    415, "send JSON in UTF-8, unencoded, with the header 'Content-Type: application/json'."
                )
            body, limit = bytearray(), _service(self).max_bytes
            async for part in self.stream():  # to its end: many clients only read an answer after sending everything
                body += part[: limit + 1 - len(body)]
            if len(body) > limit:
                raise ServiceError(413, f"the body is too large: send at most {limit:,} bytes.")
            self._body = bytes(body)
            try:
                self._json = parse_json(self._body.decode())
            except ValueError as error:
                raise ServiceError(400, f"the body is not JSON in UTF-8: {error}.") from None
        return self._json


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
            response = await handle(request)
            request.app.state.answers.labels(response.status_code).inc()
            return response

        return check_and_handle


with_key = APIRouter(route_class=CheckedRoute, dependencies=[Depends(_bearer)], responses={401: REFUSALS[401]})
without_key = APIRouter()


@with_key.post("/score", responses=REFUSALS)
async def score(body: ScoreRequest, request: Request) -> JSONResponse:
    """Score predictions against references, one or several per prediction, or against sources."""
    return JSONResponse(await _service(request).score(**vars(body)))


@with_key.post("/align", responses=REFUSALS)
async def align(body: AlignRequest, request: Request) -> JSONResponse:
    """Show how the score of two texts arises: how much weight each token carries to every other token.

    The similarity of two tokens is their cosine or, if the signature has vectors:raw, their inner product.
    """
    return JSONResponse(await _service(request).align(**vars(body)))


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


@without_key.get("/", include_in_schema=False)
@without_key.get("/docs", include_in_schema=False)
async def home(request: Request) -> HTMLResponse:
    """Say what the service is, and show every call, on a page that loads nothing from elsewhere."""
    state, url = request.app.state, str(request.base_url).rstrip("/")
    about = {"api": request.app.openapi(), "metrics": list(state.service.scorers), "key": state.key, "url": url}
    return HTMLResponse(render("docs.html", "serve", examples=EXAMPLES, **about))


async def _refuse(request: Request, error: Exception) -> JSONResponse:
    """Answer with an error in one line."""
    status, headers, message = 422, dict[str, str](), explain(error)
    if isinstance(error, HTTPException):
        status, message = error.status_code, f"{error.detail}: see /docs."
    elif isinstance(error, RequestValidationError):
        message = explain(error, request.scope["route"].body_field.field_info.annotation.model_fields)
    elif isinstance(error, ServiceError):
        status = error.status
    elif isinstance(error, ClientDisconnect):
        status = 499  # for the counter: the client is gone
    elif not isinstance(error, (InputError, SpecError)):
        status = 500
    if status == 429:
        headers["Retry-After"] = "1"
    elif status == 401:
        headers["WWW-Authenticate"] = "Bearer"
    elif status == 415:  # the body may be unread
        headers["Connection"] = "close"
    request.app.state.answers.labels(status).inc()
    return JSONResponse({"error": message}, status, headers)


def make_app(service: Service, key: str | None = None) -> FastAPI:
    """Make the application that runs a service; requests must carry the API key, if there is one."""
    from prometheus_client import Counter

    app = FastAPI(
        title="twmd-registry",
        version=__version__,
        description=ABOUT,
        docs_url=None,  # FastAPI's pages load their scripts from elsewhere
        redoc_url=None,
        lifespan=lambda _app: service.running(),
        exception_handlers=dict.fromkeys((TwmdError, HTTPException, RequestValidationError, ClientDisconnect), _refuse),
    )
    app.state.service, app.state.key = service, key
    app.state.answers = Counter("twmd_answers", "Answers", ["status"], registry=service.registry)
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
