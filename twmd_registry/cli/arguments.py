"""The parameters of a command, by name."""

from __future__ import annotations

from collections.abc import Collection
from types import SimpleNamespace
from typing import TypeAlias

import rich_click as click
from click import get_current_context
from click.core import ParameterSource

from twmd_registry.errors import SpecError
from twmd_registry.registry.options import OPTION_NAMES

Arguments: TypeAlias = SimpleNamespace


def refuse(names: Collection[str], why: str) -> None:
    """Raise SpecError if the command line sets one of the named parameters."""
    context = get_current_context()
    for param in context.command.params:
        source, value = context.get_parameter_source(str(param.name)), context.params.get(str(param.name), ())
        is_given = source is ParameterSource.COMMANDLINE and value != ()
        if is_given and param.name in names:
            shown = param.opts[-1] if isinstance(param, click.Option) else "a reference file"
            raise SpecError(f"{shown} {why}.")


def refuse_run_options_of_sacrebleu(arguments: Arguments) -> None:
    """Raise SpecError for a run option if all metrics in ``arguments.requested`` are SacreBLEU's."""
    if not any(metric.spec for metric in arguments.requested):
        refuse(OPTION_NAMES, "only applies to this package's metrics, but -m names SacreBLEU's: leave it out")
