"""``twmd list``, ``twmd explain`` and ``twmd preset``: the metrics and presets that there are."""

from __future__ import annotations

import importlib.util
import textwrap
from pathlib import Path

import rich_click as click
from tabulate import tabulate

from twmd_registry.cli import declare
from twmd_registry.cli.declare import Arguments, command
from twmd_registry.cli.output import as_json, format_table
from twmd_registry.cli.terminal import Style, matches, say
from twmd_registry.errors import SpecError
from twmd_registry.models.files import HUB_ID, PACKAGED
from twmd_registry.registry.keys import KEYS, Value
from twmd_registry.registry.metrics import CATALOGUE, entry
from twmd_registry.registry.names import EMBEDDED_MODEL, EMBEDDED_READS, MetricName
from twmd_registry.registry.own_presets import add_preset, remove_preset
from twmd_registry.registry.presets import Preset, presets, presets_of
from twmd_registry.registry.signature import canonical
from twmd_registry.registry.spec import apply_preset, member_specs

SIGNATURES = ("metric", "preset", "signature")
PRESETS = ("preset", "model", "offline")
EXPLAINED = ("key", "short", "value", "what", "accepts")
WIDTHS = (None, None, 18, 26, 26)
"""Of the columns of keys, so that the table fits 100 characters."""


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
        flat = [[str(metric), CATALOGUE[metric].title, *row] for metric, own in rows.items() for row in own]
        print(format_table(("metric", "what", *PRESETS), flat, form))
        return 0
    for metric, own in rows.items():
        print(f"{metric}: {CATALOGUE[metric].title}")
        say(format_table(PRESETS, own, form) + "\n", matches(r"(?<=  )yes \([^()]+\)$", Style.GOOD))
    from twmd_registry.plugins.evaluate import module_cache

    is_installed = module_cache.is_installed()
    state = f"on ({module_cache.metrics_cache()})" if is_installed else "off ('twmd install' switches it on)"
    print(f"evaluate.load('twmd') without importing twmd_registry: {state}")
    return 0


def _availability(preset: Preset) -> str:
    """Tell whether a preset's model is on this machine, without the network."""
    if preset.metric is MetricName.ENSEMBLE:
        models = {spec.model for _, spec in member_specs(apply_preset(preset, {}))}
        return "depends on its members" if models != {EMBEDDED_MODEL} else _describe_source(EMBEDDED_MODEL)
    return "depends on model=" if preset.model is None else _describe_source(preset.model)


def _describe_source(model: str) -> str:
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
    values = spec.values()
    rows = [[key, KEYS[key].short, _format(key, values), KEYS[key].about, KEYS[key].accepts] for key in facts.keys]
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
    say(tabulate(rows, headers=EXPLAINED, disable_numparse=True, maxcolwidths=WIDTHS))
    print("\npresets:")
    for preset in own_presets:
        entry_text = (f"Made for {preset.reads}. " if preset.reads else "") + preset.provenance
        print(f"  {preset.name}\n{textwrap.indent(textwrap.fill(entry_text, 96), '    ')}")
    print(f"\n{textwrap.fill(reads, 100)}\n\n{facts.citation}")
    return 0


def _format(key: str, values: dict[str, Value]) -> str:
    """Write the value of a key; its neutral value, which signatures leave out, where a setting does not use it."""
    value = values.get(key, KEYS[key].neutral)
    return "not set" if value is None else KEYS[key].format(value)


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
