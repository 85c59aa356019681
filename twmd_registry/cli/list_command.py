"""``twmd list``."""

from __future__ import annotations

import importlib.util
from pathlib import Path

from twmd_registry.cli.declare import RESULT_FORMATS, Arguments, command, option, output_format
from twmd_registry.cli.output import format_table
from twmd_registry.cli.terminal import Style, matches, say
from twmd_registry.models.files import EMBEDDED_PACKAGE, HUB_ID
from twmd_registry.registry.catalogue import CATALOGUE
from twmd_registry.registry.names import EMBEDDED_MODEL, MetricName
from twmd_registry.registry.presets import Preset, presets, presets_of
from twmd_registry.registry.signature import canonical
from twmd_registry.registry.spec import apply_preset, member_specs

SIGNATURES = ("metric", "preset", "signature")
PRESETS = ("metric", "what", "preset", "model", "offline")


@command("list", example="twmd list --signatures")
@option(
    "--signatures",
    is_flag=True,
    help="Print the canonical signature of every preset of every metric, and nothing else.",
)
@output_format(*RESULT_FORMATS)
def list_command(arguments: Arguments) -> int:
    """List metrics, presets and what works offline."""
    if arguments.signatures:
        signatures = [[str(metric), name, str(canonical(preset))] for (metric, name), preset in presets().items()]
        # Tab-separated lines are what scripts read from it.
        print(
            "\n".join("\t".join(row) for row in signatures)
            if arguments.format == "text"
            else format_table(SIGNATURES, signatures, arguments.format)
        )
        return 0
    rows: list[list[str]] = []
    for metric, facts in CATALOGUE.items():
        for i, preset in enumerate(presets_of(metric).values()):
            is_named = i == 0 or arguments.format != "text"
            row = [
                str(metric) if is_named else "",
                facts.title if is_named else "",
                preset.name,
                preset.model or "any",
                _availability(preset),
            ]
            rows.append(row)
    say(format_table(PRESETS, rows, arguments.format), matches(r"(?<=  )yes \([^()]+\)$", Style.GOOD))
    if arguments.format == "text":
        from twmd_registry.plugins.evaluate import module_cache

        is_installed = module_cache.is_installed()
        state = f"on ({module_cache.metrics_cache()})" if is_installed else "off ('twmd install' switches it on)"
        print(f"\nevaluate.load('twmd') without importing twmd_registry: {state}")
    return 0


def _availability(preset: Preset) -> str:
    """Say whether a preset's model is on this machine; never asks the network."""
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
