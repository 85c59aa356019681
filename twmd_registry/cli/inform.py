"""``twmd list``, ``twmd explain`` and ``twmd selfcheck``."""

from __future__ import annotations

import argparse
import importlib.util
import re
import textwrap
from pathlib import Path

from tabulate import tabulate

from twmd_registry.cli.options import options_of
from twmd_registry.cli.terminal import Style, matches, progress_bar, say
from twmd_registry.errors import SpecError
from twmd_registry.models.files import EMBEDDED_PACKAGE, HUB_ID
from twmd_registry.plugins.evaluate import startup
from twmd_registry.registry.catalogue import CATALOGUE, entry
from twmd_registry.registry.keys import KEYS
from twmd_registry.registry.names import EMBEDDED_MODEL, EMBEDDED_READS, MetricName
from twmd_registry.registry.own_presets import add_preset, remove_preset
from twmd_registry.registry.presets import Preset, presets, presets_of
from twmd_registry.registry.signature import canonical
from twmd_registry.registry.spec import apply_preset, member_specs

INDENT = "    "


def run_list(arguments: argparse.Namespace) -> int:
    """Metrics, presets, what is here, and whether the start-up file is; or all canonical signatures."""
    if arguments.signatures:
        print("\n".join(f"{metric}\t{name}\t{canonical(preset)}" for (metric, name), preset in presets().items()))
        return 0
    rows = []
    for metric, facts in CATALOGUE.items():
        for i, preset in enumerate(presets_of(metric).values()):
            rows.append([metric if i == 0 else "", facts.title if i == 0 else "", preset.name, preset.model or "any", _availability(preset)])
    say(
        tabulate(rows, headers=["metric", "what", "preset", "model", "offline"], disable_numparse=True),
        matches(r"(?<=  )yes \([^()]+\)$", Style.GOOD),
    )
    state = f"on ({startup.startup_file()})" if startup.installed() else "off ('twmd install' switches it on)"
    print(f"\nevaluate.load('twmd') without importing twmd_registry: {state}")
    return 0


def _availability(preset: Preset) -> str:
    """Whether a preset's model is on this machine; never asks the network."""
    if preset.metric is MetricName.ENSEMBLE:
        models = {one.model for _, one in member_specs(apply_preset(preset, {}))}
        return "depends on its members" if models != {EMBEDDED_MODEL} else _describe_source(EMBEDDED_MODEL)
    return "depends on model=" if preset.model is None else _describe_source(preset.model)


def _describe_source(model: str) -> str:
    if model == EMBEDDED_MODEL and importlib.util.find_spec(EMBEDDED_PACKAGE) is not None:
        return "yes (installed)"
    if Path(model).is_dir():
        return "yes (folder)"
    if not HUB_ID.fullmatch(model):
        return "no (no such folder)"
    from huggingface_hub import try_to_load_from_cache

    return "yes (Hub cache)" if isinstance(try_to_load_from_cache(model, "config.json"), str) else "no"


def run_preset(arguments: argparse.Namespace) -> int:
    """Add or remove a preset.

    Raises:
        SpecError: ``--name`` where a preset is removed.
    """
    if arguments.action == "remove":
        if arguments.name is not None:
            raise SpecError("--name is for preset add: name the preset to remove in place of the file.")
        remove_preset(arguments.what)
        print(f"removed {arguments.what}")
        return 0
    for preset in add_preset(Path(arguments.what), arguments.name):
        print(f"added {preset.name} for {preset.metric}: {canonical(preset)}")
    return 0


def run_explain(arguments: argparse.Namespace) -> int:
    """One metric: what it is, its range, keys, presets and citation."""
    facts, metric = entry(arguments.metric), MetricName(arguments.metric)
    identical = "the model decides" if facts.identical is None else f"{facts.identical:g}"
    own = presets_of(metric)
    default = next(iter(own.values()))
    print(f"{metric}: {facts.title}\n\n{textwrap.fill(facts.about, 100)}\n")
    print(f"C(X, Y):            {facts.formula}\nrange:              {facts.span}, higher is closer\na text and itself:  {identical}\n")
    rows = [[name, KEYS[name].short, default.keys.get(name, "by model"), KEYS[name].about, KEYS[name].accepts] for name in facts.keys]
    say(
        tabulate(
            [[_shown(cell) for cell in row] for row in rows],
            headers=["key", "short", f"in {default.name!r}", "what", "accepts"],
            disable_numparse=True,
        )
    )
    print("\npresets:")
    for preset in own.values():
        print(f"  {preset.name}\n{textwrap.indent(textwrap.fill(preset.provenance, 96), INDENT)}")
    print("\n" + textwrap.fill(f"The default model, {EMBEDDED_MODEL}, reads {EMBEDDED_READS}.", 100))
    print(f"\n{facts.citation}")
    return 0


def _shown(value: object) -> str:
    return {True: "yes", False: "no"}.get(value, str(value)) if isinstance(value, bool) else str(value)


def run_selfcheck(arguments: argparse.Namespace) -> int:
    """Score the packaged pairs and compare; 1 when a score is off."""
    from twmd_registry.record.selfcheck import TOLERANCE, check

    with progress_bar("metrics") as progress:
        results = check(options_of(arguments), progress)
    rows = [[result.metric, f"{result.worst:.1e}", result.problem or "ok"] for result in results]
    shown = tabulate(rows, headers=["metric", "largest difference", "result"], disable_numparse=True)
    say(shown, matches(r"(?<=  )ok$", Style.GOOD), *(matches(re.escape(result.problem), Style.BAD) for result in results if result.problem))
    failed = sum(result.problem is not None for result in results)
    print(f"\n{len(results) - failed} of {len(results)} metrics agree with the published scores within {TOLERANCE:g}.")
    return 1 if failed else 0
