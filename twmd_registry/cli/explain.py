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
from twmd_registry.registry.presets import Preset, describe_model, presets, presets_of
from twmd_registry.registry.signature import describe_preset
from twmd_registry.registry.spec import apply_preset

SIGNATURES = ("metric", "preset", "signature")
PRESETS = ("preset", "model", "offline")
EXPLAINED = ("key", "short", "value", "what", "accepts")
EXPLAINED_SHORT = ("key", "value", "what")
NARROW = 80
"""Width that fits a screen."""
MAX_VALUE = 22
"""Longest value in the table; longer ones get lines of their own."""
MANY = 10
"""Most languages to list; more are counted."""


@command(
    "explain",
    sacrebleu=(),
    example="twmd explain\ntwmd explain -m twmd --preset embedded-tuned\ntwmd explain -m twmd --full\n"
    "twmd explain --signatures",
)
@declare.metric("The metric to explain, or a signature (default: list all).")
@declare.settings
@declare.flag("--full", "Explain everything: accepted values, provenance of presets, the citation.")
@declare.flag("--signatures", "Print only the signature of every preset.")
@declare.output_format(*declare.RESULT_FORMATS)
def explain_command(arguments: Arguments) -> int:
    """List metrics, presets and what works offline; or explain a metric: formula, range, presets, and the values of its
    keys under a preset.
    """
    if not arguments.requested:
        refuse(["full"], "explains a metric: name one with -m")
        (_print_signatures if arguments.signatures else _print_metrics)(arguments.format)
        return 0
    refuse(["signatures"], "lists the presets of all metrics: leave out -m")
    spec = arguments.requested[0].spec
    if arguments.full or arguments.format != "text":
        _explain_all(spec, arguments.format)
    else:
        _explain(spec)
    return 0


def _explain(spec: MetricSpec) -> None:
    """Explain a metric on one screen: the keys that are set, and the names of the rest."""
    from tabulate import tabulate

    facts, values, metric = entry(spec.metric), spec.values(), spec.metric
    places = dict[str, list[str]]()
    for preset in presets_of(metric).values():
        offline = _availability(preset)
        place = "offline" if offline.startswith("yes") else "from the Hub" if offline == "no" else "with model="
        places.setdefault(place, []).append(preset.name)
    preset_of_model = describe_model(spec.model) if spec.model else None
    languages = preset_of_model.languages if preset_of_model else ()
    reads = ", ".join(languages) if len(languages) <= MANY else f"{len(languages)} languages"
    shown = {name: key.format(values[name]) for name, key in KEYS.items() if name in values}
    identical = "" if facts.identical is None else f"; a text against itself: {facts.identical:g}"
    above = {
        "C(X, Y)": facts.formula,
        "range": f"{facts.span}, higher is closer{identical}",
        "model": f"{spec.model or ''}{f' (made for {reads})' if reads else ''}",
        **{name: text for name, text in shown.items() if len(text) > MAX_VALUE and name != "model"},
    }
    below = {
        "not set": ", ".join(name for name in facts.keys if name not in values),
        "presets": "; ".join(f"{place}: {', '.join(names)}" for place, names in places.items()),
    }
    rows = [[name, text, KEYS[name].about] for name, text in shown.items() if name not in above]
    say(f"{metric}: {facts.title}\n{textwrap.fill(facts.about, NARROW)}\n")
    _say_lines(above)
    if rows:
        say(f"\n{tabulate(rows, EXPLAINED_SHORT, maxcolwidths=[None, None, 44], disable_numparse=True)}")
    print()
    _say_lines(below)
    say(f"\n'twmd explain -m {metric} --full' adds accepted values and sources.")


def _say_lines(lines: dict[str, str]) -> None:
    for name, text in lines.items():
        if text:
            say(textwrap.fill(f"{name:<11}{text}", NARROW, subsequent_indent=" " * 11, break_on_hyphens=False))


def _explain_all(spec: MetricSpec, form: str) -> None:
    facts, own_presets = entry(spec.metric), presets_of(spec.metric).values()
    rows = []
    for key in (KEYS[name] for name in facts.keys):
        value = spec.values().get(key.name, key.neutral)  # signatures leave out keys without effect
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
    # Scripts read the tab-separated lines.
    lines = "\n".join("\t".join(row) for row in signatures)
    print(lines if form == "text" else format_table(SIGNATURES, signatures, form))


def _print_metrics(form: str) -> None:
    from tabulate import tabulate

    rows: dict[MetricName, list[list[str]]] = {metric: [] for metric in CATALOGUE}
    for preset in presets().values():
        rows[preset.metric].append([preset.name, preset.model or "any", _availability(preset)])
    if form != "text":
        flat = [[str(metric), CATALOGUE[metric].title, *row] for metric, lines in rows.items() for row in lines]
        print(format_table(("metric", "what", *PRESETS), flat, form))
        return
    places = dict[tuple[str, ...], list[MetricName]]()
    for metric, presets_of_metric in rows.items():
        for name, model, offline in presets_of_metric:  # only other formats show a model's owner
            places.setdefault((name, model.rpartition("/")[2], offline), []).append(metric)
    own_presets = {metric: ", ".join(row[0] for row, names in places.items() if names == [metric]) for metric in rows}
    metrics = [[str(metric), CATALOGUE[metric].title, own_presets[metric]] for metric in rows]
    say(tabulate(metrics, ("metric", "what", "presets of its own"), maxcolwidths=[None, 21, 36]))
    numbers = {row: len(names) for row, names in places.items() if len(names) > 1}
    lines = [[*row, "all" if number >= len(rows) - 1 else f"{number} metrics"] for row, number in numbers.items()]
    say(f"\n{tabulate(lines, (*PRESETS, 'for'))}\n")
    print("'twmd explain -m METRIC' shows its keys and presets.")
    is_installed = hook.is_installed()
    state = f"on ({hook.metrics_cache()})" if is_installed else "off (turn it on with 'twmd setup evaluate')"
    print(f"evaluate.load('twmd') without importing twmd_registry:\n{state}")


def _availability(preset: Preset) -> str:
    """Describe whether a preset's model is on this machine, without using the network."""
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
