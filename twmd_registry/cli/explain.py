"""``twmd explain``: metrics, their keys and presets."""

from __future__ import annotations

import importlib.util
import textwrap
from pathlib import Path

from twmd_registry.cli import declare
from twmd_registry.cli.arguments import refuse
from twmd_registry.cli.declare import Arguments, command
from twmd_registry.cli.output import as_json, format_table
from twmd_registry.cli.terminal import say
from twmd_registry.plugins import evaluate_hook as hook
from twmd_registry.registry.keys import KEYS
from twmd_registry.registry.metric_spec import MetricSpec
from twmd_registry.registry.metrics import CATALOGUE, entry
from twmd_registry.registry.names import EMBEDDED_MODEL, EMBEDDED_READS, MetricName
from twmd_registry.registry.presets import Preset, presets, presets_of
from twmd_registry.registry.signature import describe_preset
from twmd_registry.registry.spec import apply_preset

SIGNATURES = ("metric", "preset", "signature")
PRESETS = ("preset", "model", "offline")
EXPLAINED = ("key", "short", "value", "what", "accepts")


@command(
    "explain",
    sacrebleu=(),
    example="twmd explain\ntwmd explain -m twmd --preset embedded-tuned\ntwmd explain --signatures",
)
@declare.metric("The metric to explain, or a signature (default: list all).")
@declare.settings
@declare.flag("--signatures", "Print the describe_preset signature of every preset, and nothing else.")
@declare.output_format(*declare.RESULT_FORMATS)
def explain_command(arguments: Arguments) -> int:
    """List metrics, presets and what works offline; or explain a metric: its formula, range, keys with their values
    under a preset, presets and citation.
    """
    if not arguments.requested:
        (_print_signatures if arguments.signatures else _print_metrics)(arguments.format)
        return 0
    refuse(["signatures"], "lists the presets of all metrics: leave -m out")
    _explain(arguments.requested[0].spec, arguments.format)
    return 0


def _explain(spec: MetricSpec, form: str) -> None:
    facts, own_presets = entry(spec.metric), presets_of(spec.metric).values()
    rows = []
    for key in (KEYS[name] for name in facts.keys):
        value = spec.values().get(key.name, key.neutral)  # signatures leave out what a setting does not use
        rows.append([key.name, key.short, "not set" if value is None else key.format(value), key.about, key.accepts])
    reads = f"The default model, {EMBEDDED_MODEL}, reads {EMBEDDED_READS}."
    if form == "json":
        about = {"metric": spec.metric, "title": facts.title, "about": facts.about, "formula": facts.formula}
        bounds = {"range": facts.span, "identical": facts.identical}
        keys = [dict(zip(EXPLAINED, row, strict=True)) for row in rows]
        provenance = {preset.name: preset.provenance for preset in own_presets}
        made_for = {preset.name: preset.reads for preset in own_presets}
        end = {"keys": keys, "presets": provenance, "made_for": made_for, "reads": reads, "citation": facts.citation}
        print(as_json(about | bounds | end))
        return
    if form != "text":
        print(format_table(EXPLAINED, rows, form))
        return
    identical = "the model decides" if facts.identical is None else f"{facts.identical:g}"
    print(f"{spec.metric}: {facts.title}\n\n{textwrap.fill(facts.about, 100)}\n")
    print(textwrap.fill(f"C(X, Y):            {facts.formula}", 100, subsequent_indent=" " * 20))
    print(f"range:              {facts.span}, higher is closer")
    print(f"identical texts:    {identical}\n")
    say(format_table(EXPLAINED, rows, "text"))
    print("\npresets:")
    for preset in own_presets:
        entry_text = (f"Made for {preset.reads}. " if preset.reads else "") + preset.provenance
        print(f"  {preset.name}\n{textwrap.indent(textwrap.fill(entry_text, 96), '    ')}")
    print(f"\n{textwrap.fill(reads, 100)}\n\n{facts.citation}")


def _print_signatures(form: str) -> None:
    signatures = [[str(metric), name, describe_preset(preset)] for (metric, name), preset in presets().items()]
    # Tab-separated lines are what scripts read from it.
    lines = "\n".join("\t".join(row) for row in signatures)
    print(lines if form == "text" else format_table(SIGNATURES, signatures, form))


def _print_metrics(form: str) -> None:
    rows = {
        metric: [[preset.name, preset.model or "any", _availability(preset)] for preset in presets_of(metric).values()]
        for metric in CATALOGUE
    }
    if form != "text":
        flat = [[str(metric), CATALOGUE[metric].title, *row] for metric, lines in rows.items() for row in lines]
        print(format_table(("metric", "what", *PRESETS), flat, form))
        return
    say(format_table(("metric", "what"), [[str(metric), CATALOGUE[metric].title] for metric in rows], form))
    metrics_of = dict[tuple[str, ...], list[str]]()
    for metric, presets_of_metric in rows.items():
        for name, model, offline in presets_of_metric:  # a model's owner is in the other formats
            metrics_of.setdefault((name, model.rpartition("/")[2], offline), []).append(str(metric))
    count = {True: "all", False: "{} metrics"}
    lines = [
        [*row, names[0] if len(names) == 1 else count[len(names) >= len(rows) - 1].format(len(names))]
        for row, names in metrics_of.items()
    ]
    say("\n" + format_table((*PRESETS, "for"), lines, form) + "\n")
    print("'twmd explain -m METRIC' has its keys, presets and citation.")
    is_installed = hook.is_installed()
    state = f"on ({hook.metrics_cache()})" if is_installed else "off ('twmd setup evaluate' switches it on)"
    print(f"evaluate.load('twmd') without importing twmd_registry: {state}")


def _availability(preset: Preset) -> str:
    """Return whether a preset's model is on this machine, without the network."""
    model = preset.model
    if preset.metric is MetricName.ENSEMBLE:
        models = {spec.model for spec in apply_preset(preset, {}).members_or_self}
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
