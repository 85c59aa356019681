"""``twmd setup``: set up a machine, once."""

from __future__ import annotations

from twmd_registry.cli.groups import group

SECTIONS = {
    "Scripts that call evaluate.load": ("evaluate", "evaluate uninstall"),
    "This machine": ("{}", "preset selfcheck completion"),
    "Hugging Face Hub": ("{}", "space"),
}
setup_command = group(
    "setup",
    "Set up this machine: evaluate, presets, completion; check its scores; build a metric's Space.",
    package=__name__,
    sections=SECTIONS,
    example="twmd setup evaluate",
)
