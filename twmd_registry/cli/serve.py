"""``twmd serve``: score over HTTP or MCP."""

from __future__ import annotations

import importlib.util

import rich_click as click

from twmd_registry.cli import declare
from twmd_registry.cli.arguments import refuse
from twmd_registry.cli.declare import Arguments, command
from twmd_registry.cli.metrics import make_scorers, options_of
from twmd_registry.cli.terminal import say
from twmd_registry.errors import missing_extra

HOST, PORT = "127.0.0.1", 8080
NEEDED = ("fastapi", "mcp", "prometheus_client", "uvicorn")
HTTP_ONLY = ("host", "port", "api_key_file", "max_bytes")


@command("serve", sacrebleu=(), example="twmd serve -m twmd 'moverscore;layer=5' --port 8080")
@declare.metrics((), "The metrics to serve, the default first (default: twmd).", default=["twmd"])
@declare.option("--host", "ADDRESS", f"Address (default: {HOST}, this machine only; any other needs an API key).")
@declare.option("--port", "N", f"Port (default: {PORT}; 0 for any free port).", type=click.IntRange(0, 65_535))
@declare.option("--api-key-file", "FILE", "File with the API key, instead of the variable TWMD_API_KEY.")
@declare.flag("--mcp", "Serve MCP tools on standard input and output instead of HTTP.")
@declare.option("--max-bytes", "N", "Maximum bytes of a request (default: 1000000).", default=1_000_000)
@declare.option("--max-pairs", "N", "Maximum pairs of a request (default: 1000).", default=1_000)
@declare.option("--max-characters", "N", "Maximum characters of a text (default: 20000).", default=20_000)
@declare.option("--max-waiting", "N", "Maximum requests in the queue; others get 429 (default: 256).", default=256)
@declare.option("--timeout", "N", "Seconds before a request is abandoned (default: 60).", default=60)
@declare.settings
@declare.parts
@declare.run_options
def serve_command(arguments: Arguments) -> int:
    """Serve scores over HTTP, batching requests, or over MCP. Stops gracefully on Ctrl-C and SIGTERM."""
    if arguments.mcp:
        refuse(HTTP_ONLY, "applies to HTTP: leave it out with --mcp")
    for name in NEEDED:
        if importlib.util.find_spec(name) is None:
            raise missing_extra(f"the service needs {name}", "serve")
    from twmd_registry.serve.http import read_key, serve_http
    from twmd_registry.serve.service import Service
    from twmd_registry.serve.tools import serve_mcp

    names = [metric.name for metric in arguments.requested]
    scorers = dict(zip(names, make_scorers(arguments.requested, options_of(arguments)), strict=True))
    limits = ("max_bytes", "max_pairs", "max_characters", "max_waiting", "timeout")
    service = Service(scorers, **{name: getattr(arguments, name) for name in limits})
    if arguments.mcp:
        serve_mcp(service)
        return 0
    host, port = arguments.host or HOST, PORT if arguments.port is None else arguments.port
    key = read_key(arguments.api_key_file)
    serve_http(service, host, port, key, lambda url: say(f"serving on {url} (see {url}/docs); Ctrl-C ends it"))
    return 0
