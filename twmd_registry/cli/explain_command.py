"""``twmd explain``."""

from __future__ import annotations

import textwrap

from tabulate import tabulate

from twmd_registry.cli.declare import Arguments, MetricParameter, argument, command, output_format, settings
from twmd_registry.cli.output import as_json
from twmd_registry.cli.terminal import say
from twmd_registry.registry.catalogue import entry
from twmd_registry.registry.keys import KEYS, Value
from twmd_registry.registry.names import EMBEDDED_MODEL, EMBEDDED_READS
from twmd_registry.registry.presets import presets_of

INDENT = "    "
COLUMNS = ("key", "short", "value", "what", "accepts")
WIDTHS = (None, None, 18, 26, 26)
"""Of the columns, so that a table fits 100 characters."""


@command("explain", lexical=(), example="twmd explain twmd --preset embedded-tuned")
@argument("metric", type=MetricParameter(), metavar="METRIC")
@settings
@output_format("text", "json")
def explain_command(arguments: Arguments) -> int:
    """Explain a metric: its formula, range, keys with their values under a preset, presets and citation."""
    spec = arguments.asked[0].spec
    facts, presets = entry(spec.metric), presets_of(spec.metric)
    values = spec.values()
    identical = "the model decides" if facts.identical is None else f"{facts.identical:g}"
    rows = [
        [name, KEYS[name].short, _format(name, values), KEYS[name].about, KEYS[name].accepts] for name in facts.keys
    ]
    reads = f"The default model, {EMBEDDED_MODEL}, reads {EMBEDDED_READS}."
    if arguments.format == "json":
        about = {
            "metric": spec.metric,
            "title": facts.title,
            "about": facts.about,
            "formula": facts.formula,
            "range": facts.span,
        }
        keys = [dict(zip(COLUMNS, row, strict=True)) for row in rows]
        provenance = {preset.name: preset.provenance for preset in presets.values()}
        print(
            as_json(
                {
                    **about,
                    "identical": facts.identical,
                    "keys": keys,
                    "presets": provenance,
                    "reads": reads,
                    "citation": facts.citation,
                }
            )
        )
        return 0
    print(f"{spec.metric}: {facts.title}\n\n{textwrap.fill(facts.about, 100)}\n")
    print(
        f"C(X, Y):            {facts.formula}\nrange:              {facts.span}, higher is closer\na text and "
        f"itself:  {identical}\n"
    )
    say(tabulate(rows, headers=COLUMNS, disable_numparse=True, maxcolwidths=WIDTHS))
    print("\npresets:")
    for preset in presets.values():
        print(f"  {preset.name}\n{textwrap.indent(textwrap.fill(preset.provenance, 96), INDENT)}")
    print(f"\n{textwrap.fill(reads, 100)}\n\n{facts.citation}")
    return 0


def _format(name: str, values: dict[str, Value]) -> str:
    """Write the value of a key; one that a setting does not use is at its neutral value, which signatures leave out."""
    value = values.get(name, KEYS[name].neutral)
    return "not set" if value is None else KEYS[name].format(value)
