"""``twmd list``, ``explain``, ``preset``, ``serve`` and the commands for an installation."""

from __future__ import annotations

import importlib.util
import textwrap
from pathlib import Path

import rich_click as click
from click.shell_completion import get_completion_class

from twmd_registry.cli import COMPLETION, declare, twmd
from twmd_registry.cli.declare import Arguments, command
from twmd_registry.cli.inputs import make_scorers, options_of
from twmd_registry.cli.output import as_json, format_table
from twmd_registry.cli.terminal import progress_bar, say
from twmd_registry.errors import MissingExtraError, SpecError
from twmd_registry.hub import metrics_with_card
from twmd_registry.plugins.evaluate import hook
from twmd_registry.registry.keys import KEYS
from twmd_registry.registry.metrics import CATALOGUE, entry
from twmd_registry.registry.names import EMBEDDED_MODEL, EMBEDDED_READS, MetricName
from twmd_registry.registry.own_presets import add_preset, remove_preset
from twmd_registry.registry.presets import Preset, presets, presets_of
from twmd_registry.registry.signature import canonical
from twmd_registry.registry.spec import apply_preset, member_specs

SIGNATURES = ("metric", "preset", "signature")
PRESETS = ("preset", "model", "offline")
EXPLAINED = ("key", "short", "value", "what", "accepts")


@command("list", example="twmd list --signatures")
@declare.flag("--signatures", "Print the canonical signature of every preset of every metric, and nothing else.")
@declare.output_format(*declare.RESULT_FORMATS)
def list_command(arguments: Arguments) -> int:
    """List metrics, presets and what works offline."""
    form = arguments.format
    if arguments.signatures:
        signatures = [[str(metric), name, str(canonical(preset))] for (metric, name), preset in presets().items()]
        # Tab-separated lines are what scripts read from it.
        lines = "\n".join("\t".join(row) for row in signatures)
        print(lines if form == "text" else format_table(SIGNATURES, signatures, form))
        return 0
    rows = {
        metric: [[preset.name, preset.model or "any", _availability(preset)] for preset in presets_of(metric).values()]
        for metric in CATALOGUE
    }
    if form != "text":
        flat = [[str(metric), CATALOGUE[metric].title, *row] for metric, lines in rows.items() for row in lines]
        print(format_table(("metric", "what", *PRESETS), flat, form))
        return 0
    for metric, presets_of_metric in rows.items():
        print(f"{metric}: {CATALOGUE[metric].title}")
        say(format_table(PRESETS, presets_of_metric, form) + "\n")
    is_installed = hook.is_installed()
    state = f"on ({hook.metrics_cache()})" if is_installed else "off ('twmd install' switches it on)"
    print(f"evaluate.load('twmd') without importing twmd_registry: {state}")
    return 0


def _availability(preset: Preset) -> str:
    """Return whether a preset's model is on this machine, without the network."""
    model = preset.model
    if preset.metric is MetricName.ENSEMBLE:
        models = {spec.model for _, spec in member_specs(apply_preset(preset, {}))}
        if models != {EMBEDDED_MODEL}:
            return "depends on its members"
        model = EMBEDDED_MODEL
    if model is None:
        return "depends on model="
    from twmd_registry.models.files import HUB_ID, PACKAGED

    if model in PACKAGED and importlib.util.find_spec(PACKAGED[model][0]) is not None:
        return "yes (installed)"
    if Path(model).is_dir():
        return "yes (folder)"
    if not HUB_ID.fullmatch(model):
        return "no (no such folder)"
    from huggingface_hub import try_to_load_from_cache

    return "yes (Hub cache)" if isinstance(try_to_load_from_cache(model, "config.json"), str) else "no"


@command("explain", lexical=(), example="twmd explain twmd --preset embedded-tuned")
@declare.metric()
@declare.settings
@declare.output_format("text", "json")
def explain_command(arguments: Arguments) -> int:
    """Explain a metric: its formula, range, keys with their values under a preset, presets and citation."""
    spec = arguments.asked[0].spec
    facts, own_presets = entry(spec.metric), presets_of(spec.metric).values()
    rows = []
    for key in (KEYS[name] for name in facts.keys):
        value = spec.values().get(key.name, key.neutral)  # signatures leave out what a setting does not use
        rows.append([key.name, key.short, "not set" if value is None else key.format(value), key.about, key.accepts])
    reads = f"The default model, {EMBEDDED_MODEL}, reads {EMBEDDED_READS}."
    if arguments.format == "json":
        about = {"metric": spec.metric, "title": facts.title, "about": facts.about, "formula": facts.formula}
        bounds = {"range": facts.span, "identical": facts.identical}
        keys = [dict(zip(EXPLAINED, row, strict=True)) for row in rows]
        provenance = {preset.name: preset.provenance for preset in own_presets}
        made_for = {preset.name: preset.reads for preset in own_presets}
        end = {"keys": keys, "presets": provenance, "made_for": made_for, "reads": reads, "citation": facts.citation}
        print(as_json(about | bounds | end))
        return 0
    identical = "the model decides" if facts.identical is None else f"{facts.identical:g}"
    print(f"{spec.metric}: {facts.title}\n\n{textwrap.fill(facts.about, 100)}\n")
    print(textwrap.fill(f"C(X, Y):            {facts.formula}", 100, subsequent_indent=" " * 20))
    print(f"range:              {facts.span}, higher is closer")
    print(f"a text and itself:  {identical}\n")
    say(format_table(EXPLAINED, rows, "text"))
    print("\npresets:")
    for preset in own_presets:
        entry_text = (f"Made for {preset.reads}. " if preset.reads else "") + preset.provenance
        print(f"  {preset.name}\n{textwrap.indent(textwrap.fill(entry_text, 96), '    ')}")
    print(f"\n{textwrap.fill(reads, 100)}\n\n{facts.citation}")
    return 0


@command("preset", example="twmd preset add house.toml")
@declare.argument("action", type=click.Choice(["add", "remove"]))
@declare.argument("what", type=click.Path(), metavar="FILE.toml|NAME")
@declare.option("--name", "NAME", "add: what the preset is called here (default: as in the file).")
def preset_command(arguments: Arguments) -> int:
    """Add a preset of your own from a TOML file, or remove one by its name."""
    if arguments.action == "remove":
        if arguments.name is not None:
            raise SpecError("--name is for preset add: name the preset to remove in place of the file.")
        remove_preset(arguments.what)
        print(f"removed {arguments.what}")
        return 0
    for preset in add_preset(Path(arguments.what), arguments.name):
        print(f"added {preset.name} for {preset.metric}: {canonical(preset)}")
    return 0


@command("selfcheck", example="twmd selfcheck")
@declare.output_format(*declare.RESULT_FORMATS)
@declare.placement
def selfcheck_command(arguments: Arguments) -> int:
    """Compare this installation's scores with the published ones; exit status 1 when a score is off."""
    options = options_of(arguments)
    from twmd_registry.record.selfcheck import TOLERANCE, check

    with progress_bar("metrics") as progress:
        results = check(options, progress)
    rows = [[name, x if arguments.format == "json" else f"{x:.1e}", problem or "ok"] for name, x, problem in results]
    good = sum(problem is None for *_, problem in results)
    say(format_table(("metric", "largest_difference", "result"), rows, arguments.format))
    if arguments.format == "text":
        print(f"\n{good} of {len(results)} metrics agree with the published scores within {TOLERANCE:g}.")
    return 0 if good == len(results) else 1


OPENED = "The metric that is chosen when the page opens (default: twmd)."


@command("demo", example="twmd demo --metric moverscore --port 8000")
@declare.option("--metric", "METRIC", OPENED, shell_complete=declare.offer(MetricName))
@declare.option("--port", "N", "Port (default: the first free port from 7860).", type=click.IntRange(1, 65_535))
def demo_command(arguments: Arguments) -> int:
    """Serve a page on this machine (127.0.0.1) to try scores: two texts, a file, a signature."""
    from twmd_registry.demo.page import serve

    serve(arguments.metric, arguments.port, lambda url: say(f"serving on {url} (this machine only); Ctrl-C ends it"))
    return 0


HOST, PORT = "127.0.0.1", 8080
NEEDED = ("fastapi", "mcp", "prometheus_client", "uvicorn")
HTTP_ONLY = ("host", "port", "api_key_file")


@command("serve", lexical=(), example="twmd serve -m twmd 'moverscore;layer=5' --port 8080")
@declare.metrics((), "The metrics to serve, the default first (default: twmd).", default=["twmd"])
@declare.option("--host", "ADDRESS", f"Address (default: {HOST}, this machine only; any other needs an API key).")
@declare.option("--port", "N", f"Port (default: {PORT}; 0 for any free port).", type=click.IntRange(0, 65_535))
@declare.option("--api-key-file", "FILE", "File with the API key, instead of the variable TWMD_API_KEY.")
@declare.flag("--mcp", "Serve tools by MCP on standard input and output, in place of HTTP.")
@declare.option("--max-bytes", "N", "Maximum bytes of a request (default: 1000000).", default=1_000_000)
@declare.option("--max-pairs", "N", "Maximum pairs of a request (default: 1000).", default=1_000)
@declare.option("--max-letters", "N", "Maximum letters of a text (default: 20000).", default=20_000)
@declare.option("--max-waiting", "N", "Maximum requests in the queue; others get 429 (default: 256).", default=256)
@declare.option("--timeout", "N", "Seconds until a request is given up (default: 60).", default=60)
@declare.settings
@declare.parts
@declare.run_options
def serve_command(arguments: Arguments) -> int:
    """Serve scores over HTTP, requests in batches, or by MCP. Stops gracefully on Ctrl-C and SIGTERM."""
    given = [name for name in HTTP_ONLY if getattr(arguments, name) is not None]
    if arguments.mcp and given:
        raise SpecError(
            f"--{given[0].replace('_', '-')} is for HTTP, and --mcp uses standard input and output: leave it out."
        )
    if arguments.mcp:
        declare.refuse(["max_bytes"], "is for HTTP: leave it out with --mcp")
    for name in NEEDED:
        if importlib.util.find_spec(name) is None:
            raise MissingExtraError(f"the service needs {name}: pip install 'twmd-registry[serve]'")
    from twmd_registry.serve.service import Service, read_key, serve_http, serve_mcp

    names = [metric.name for metric in arguments.asked]
    scorers = dict(zip(names, make_scorers(arguments.asked, options_of(arguments)), strict=True))
    limits = ("max_bytes", "max_pairs", "max_letters", "max_waiting", "timeout")
    service = Service(scorers, **{name: getattr(arguments, name) for name in limits})
    if arguments.mcp:
        serve_mcp(service)
        return 0
    host, port = arguments.host or HOST, PORT if arguments.port is None else arguments.port
    key = read_key(arguments.api_key_file)
    serve_http(service, host, port, key, lambda url: say(f"serving on {url} (see {url}/docs); Ctrl-C ends it"))
    return 0


@click.group("hub", no_args_is_help=False, epilog="Example: twmd hub build moverscore -o spaces/moverscore")
@declare.quiet
def hub_command() -> None:
    """Build a metric's Hugging Face Space, or push it to the Hub."""


@command("build", example="twmd hub build twmd -o spaces/twmd")
@declare.metric(metrics_with_card())
@declare.output("A new or empty folder.", required=True)
def build_command(arguments: Arguments) -> int:
    """Put a metric's Space together in a folder: card, page, requirements and evaluate module. Needs no network and no
    token.
    """
    from twmd_registry.hub.space import build_space

    module = build_space(arguments.metric, arguments.output)
    print(f"built {arguments.output}; load it with evaluate.load({str(module)!r})")
    return 0


@command("push", example="twmd hub push twmd my-org/twmd --private")
@declare.metric(metrics_with_card())
@declare.argument("space", metavar="ORG/NAME")
@declare.flag("--private", "Create it so that only its owner sees it.")
@declare.option("--token-file", "FILE", "A file that holds the token, instead of the environment.")
def push_command(arguments: Arguments) -> int:
    """Build a metric's Space and upload it to the Hub, with the token of HF_TOKEN or 'hf auth login'.

    The Space ORG/NAME is created when it is not there.
    """
    from twmd_registry.hub.space import push_space, read_token

    token = read_token(arguments.token_file)
    address = push_space(arguments.metric, arguments.space, token=token, private=arguments.private)
    print(f"pushed {address}; load it with evaluate.load({arguments.space!r})")
    return 0


hub_command.add_command(build_command)
hub_command.add_command(push_command)


@command("install", example="twmd install")
def install_command(_arguments: Arguments) -> int:
    """Let every script of this user call evaluate.load('twmd') without importing twmd_registry."""
    print(f"installed in {hook.install()}")
    print("evaluate asks the Hub first: set HF_EVALUATE_OFFLINE=1 where there is no network.")
    print("'twmd uninstall' removes the modules.")
    return 0


@command("uninstall", example="twmd uninstall")
def uninstall_command(_arguments: Arguments) -> int:
    """Undo 'twmd install'."""
    removed = hook.uninstall()
    print(f"removed from {hook.metrics_cache()}" if removed else "nothing to remove")
    return 0


@command(
    "completion",
    example=(
        "twmd completion bash > ~/.local/share/bash-completion/completions/twmd\ntwmd completion zsh > ~/.zfunc/_twmd"
    ),
)
@declare.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion_command(arguments: Arguments) -> int:
    """Print a script that lets a shell complete commands, options, metrics, presets and files of twmd."""
    shell = get_completion_class(arguments.shell)
    if shell is not None:
        print(shell(twmd, {}, "twmd", COMPLETION).source())
    return 0
