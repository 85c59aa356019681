"""Parse the metrics, keys and run options of a command line.

Nothing heavy is imported, so a wrong command line is refused immediately.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

from twmd_registry.cli.arguments import Arguments
from twmd_registry.comparison.lexical import canonical_lexical, is_lexical
from twmd_registry.errors import SpecError
from twmd_registry.messages import menu, warn
from twmd_registry.registry.keys import KEYS
from twmd_registry.registry.metric_spec import MetricSpec, WeightedSpec, split_name
from twmd_registry.registry.metrics import entry
from twmd_registry.registry.names import LEXICAL_NAMES, MetricName
from twmd_registry.registry.options import OPTION_NAMES, PART_NAMES, LocalFiles, RunOptions, resolve_local_files
from twmd_registry.registry.signature import parse_signature
from twmd_registry.registry.spec import make_spec, spec_with_keys

if TYPE_CHECKING:
    from twmd_registry.engine.scorer import Scorer


class RequestedMetric(NamedTuple):
    """A metric named on the command line; `spec` is None for SacreBLEU's, `parts` and `nrefs` go with a signature."""

    name: str
    spec: MetricSpec | None = None
    parts: LocalFiles | None = None
    nrefs: int | Literal["var"] | None = None


def options_of(arguments: Arguments) -> RunOptions:
    """Return the run options of a command line."""
    values = vars(arguments)
    return RunOptions(**{name: values[name] for name in OPTION_NAMES if name in values})


def parts_of(arguments: Arguments) -> LocalFiles:
    """Return the paths of ``--part``; raise SpecError for anything but NAME=PATH, or an unknown name."""
    paths = {}
    for text in vars(arguments).get("part", ()):
        name, equals, path = text.partition("=")
        if not equals or not path:
            raise SpecError(f"--part {text!r}: expected NAME=PATH.")
        if name not in PART_NAMES:
            raise SpecError(f"--part {name}: signatures name no such file; {menu(name, PART_NAMES)}.")
        paths[name] = path
    return LocalFiles(**paths)


def parse_metrics(names: Sequence[str], arguments: Arguments, lexical: Sequence[str] = ()) -> list[RequestedMetric]:
    """Parse metrics. ``--preset`` and ``--set`` do not apply to signatures and metrics with their own keys."""
    parts = parts_of(arguments)
    ours = [name for name in names if not is_lexical(name, lexical)]
    signed = [name for name in ours if "|" in name]
    unchanged = [name for name in ours if "|" in name or _has_keys(name)]
    named = [split_name(name)[0] for name in ours if name not in unchanged]
    for name in named:
        if name not in {*MetricName, *lexical}:
            hint = " -m takes all arguments after it, so put files before -m." if _is_path(name) else ""
            joined = [word for word in re.split(r"[\s,+]+", name) if word]
            if len(joined) > 1 and {split_name(word)[0] for word in joined} <= {*MetricName, *LEXICAL_NAMES}:
                hint = f" Separate metrics by spaces: -m {' '.join(joined)}."
            raise SpecError(f"unknown metric {name!r}; {menu(name, [*MetricName, *lexical])}.{hint}")
    keys = _parse_set_keys(arguments, named, unchanged)
    if not signed and any(getattr(parts, name) for name in PART_NAMES):
        raise SpecError("--part locates a signature's file, but -m names no signature: use --set KEY=VALUE.")
    parts = resolve_local_files(parts, [parse_signature(name).spec for name in signed])
    requested = dict[MetricSpec | str, RequestedMetric]()
    for name in names:
        if name in ours:
            metric = _request(name, keys, arguments.preset, parts)
        else:
            metric = RequestedMetric(canonical_lexical(name))
        other = requested.setdefault(metric.spec or metric.name, metric)
        if other is not metric:
            raise SpecError(f"{name} and {other.name} are the same metric with the same settings: name it once.")
    return list(requested.values())


def _has_keys(name: str) -> bool:
    """Return whether a metric is written with its own keys; an ensemble's are its members'."""
    return ";" in name and "(" not in name


def _is_path(word: str) -> bool:
    return "/" in word or Path(word).suffix[1:].isalpha()


def _parse_set_keys(arguments: Arguments, named: Sequence[str], unchanged: Sequence[str]) -> dict[str, str]:
    """Parse ``--set`` and check its keys; warn about metrics that do not use a key, and about `unchanged` metrics."""
    keys = parse_assignments(arguments.set)
    if not named and (keys or arguments.preset):
        reason = "a signature is complete, and SacreBLEU's metrics have no keys here"
        raise SpecError(f"--set and --preset apply to a metric that -m names without its own keys: {reason}.")
    used = {key for metric in named for key in entry(metric).keys}
    for name in keys:
        if name not in used:
            choices = menu(name, [key for key in KEYS if key in used])
            raise SpecError(f"--set {name}: no key {name!r} of {', '.join(named)}; {choices}.")
        if without := ", ".join(metric for metric in dict.fromkeys(named) if name not in entry(metric).keys):
            warn(f"--set {name}: no key of {without}; scored without it.")
    if (keys or arguments.preset) and unchanged:
        warn(f"--set and --preset change no signatures and no metrics with their own keys: {', '.join(unchanged)}.")
    return keys


def parse_assignments(texts: Iterable[str]) -> dict[str, str]:
    """Return the keys and values of ``--set``; raise SpecError for anything but KEY=VALUE."""
    keys = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals:
            hint = " --set takes all arguments after it, so put files before it." if _is_path(text) else ""
            raise SpecError(f"--set {text!r}: expected KEY=VALUE.{hint}")
        if (joined := re.search(r"[,\s]\s*(\w+)=", value)) and joined[1] in KEYS:
            words = " ".join(re.split(r"[,\s]+(?=\w+=)", text))
            raise SpecError(f"--set {text!r}: separate keys by spaces: --set {words}.")
        if name in keys:
            raise SpecError(f"--set {text!r}: {name} is set twice; pass it once.")
        keys[name] = value
    return keys


def parse_keys(arguments: Arguments, names: Sequence[str]) -> dict[str, str]:
    """Return the keys of ``--set`` for a command that reads only some keys; raise SpecError for others."""
    keys = parse_assignments(arguments.set)
    for name in keys:
        if name not in names:
            raise SpecError(f"--set {name}: not used by this command; {menu(name, names)}.")
    return keys


def _request(name: str, set_keys: dict[str, str], preset: str | None, parts: LocalFiles) -> RequestedMetric:
    if "|" in name:
        signature = parse_signature(name)
        return RequestedMetric(name, signature.spec, parts, signature.nrefs)
    if _has_keys(name):
        return RequestedMetric(name, spec_with_keys(name))
    allowed = entry(split_name(name)[0]).keys
    keys = {key: value for key, value in set_keys.items() if key in allowed}
    return RequestedMetric(name, make_spec(name, preset, **keys))


def average_metrics(requested: Sequence[RequestedMetric]) -> RequestedMetric:
    """Return the ensemble of several metrics with equal weights; a single metric is unchanged."""
    if len(requested) == 1:
        return requested[0]
    members = [WeightedSpec(1.0, metric.spec) for metric in requested if metric.spec]
    return RequestedMetric("ensemble", MetricSpec(metric=MetricName.ENSEMBLE, members=members), requested[0].parts)


def make_scorers(requested: Iterable[RequestedMetric], options: RunOptions) -> list[Scorer]:
    """Create a scorer for each metric that is not SacreBLEU's; import torch only if there is one."""
    settings = [(metric.spec, metric.parts, metric.nrefs) for metric in requested if metric.spec is not None]
    if not settings:
        return []
    from twmd_registry.engine.scorer import Scorer

    return [Scorer(spec, options, parts, nrefs) for spec, parts, nrefs in settings]
