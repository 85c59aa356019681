"""From the arguments of a command to what they name: run options, columns, metrics.

Imports nothing heavy, so that a command line that is wrong is refused at once.
"""

from __future__ import annotations

import argparse
import errno
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from twmd_registry.errors import FileError, SpecError, menu
from twmd_registry.judgments.fields import Columns
from twmd_registry.registry.artifacts import Parts, check_parts
from twmd_registry.registry.catalogue import entry
from twmd_registry.registry.ensemble import split_name, with_members
from twmd_registry.registry.keys import KEYS
from twmd_registry.registry.names import MetricName
from twmd_registry.registry.options import RunOptions
from twmd_registry.registry.signature import parse_signature
from twmd_registry.registry.spec import MetricSpec, make_spec, spec_with_keys

if TYPE_CHECKING:
    from twmd_registry.engine.scorer import Scorer

FITTED_FILES = {"background": "centering=background:{}", "idf": "idf=background:{}"}
"""How `--set` names a file for which a signature has an option of another form."""


class RequestedMetric(NamedTuple):
    """A metric as the command line names it.

    Attributes:
        name: The word of the command line.
        spec: What it asks for; None for a metric of SacreBLEU.
        parts: Where the parts of a signature are on this machine; None for a metric that is no signature.
        nrefs: The number of references in a signature.
    """

    name: str
    spec: MetricSpec | None = None
    parts: Parts | None = None
    nrefs: str | None = None


def prepare(arguments: argparse.Namespace) -> None:
    """Check what needs nothing heavy, before a command's code is imported, and leave the metrics that are asked for in ``arguments.asked``.

    Raises:
        FileError: A file is missing.
        SpecError: Rated data, or a metric, is named that does not exist; as for `parse_metrics`.
    """
    for path in _values(arguments, arguments.files_to_read):
        if isinstance(path, Path) and path != Path("-") and not path.exists():
            raise FileError(f"{path}: {os.strerror(errno.ENOENT)}.")
    if named := _values(arguments, arguments.data_to_read):
        from twmd_registry.judgments.sets import check_named

        for text in named:
            check_named(text)
    for name in _values(arguments, arguments.metric_names):
        entry(name)
    if arguments.lexical is not None:
        arguments.asked = parse_metrics(_values(arguments, ["metrics" if "metrics" in arguments else "metric"]), arguments, arguments.lexical)


def _values(arguments: argparse.Namespace, names: Sequence[str]) -> list[Any]:
    """What some arguments hold, one or several each."""
    given = [getattr(arguments, name) for name in names]
    return [value for one in given for value in (one if isinstance(one, list) else [one])]


def options_of(arguments: argparse.Namespace) -> RunOptions:
    """Where and how fast, as the command line says.

    Raises:
        SpecError: ``--disk-cache`` is no number of bytes.
    """
    return RunOptions(device=arguments.device, batch_tokens=arguments.batch_tokens, disk_cache=arguments.disk_cache)


def parts_of(arguments: argparse.Namespace) -> Parts:
    """Where the parts of signatures are, as the command line says; other commands have options of their own by these names."""
    return Parts(**{name: getattr(arguments, name) for name in Parts._fields}) if arguments.takes_parts else Parts()


def columns_of(arguments: argparse.Namespace) -> Columns:
    """Where texts stand in tables, as the command line says."""
    return Columns(arguments.prediction_column or Columns().prediction, tuple(arguments.reference_column or ()))


def parse_metrics(names: Sequence[str], arguments: argparse.Namespace, lexical: Sequence[str] = ()) -> list[RequestedMetric]:
    """Read the metrics of a command line, in their order.

    A metric that is only named gets ``--preset`` and every ``--set`` key that it uses. One with keys of its own
    (``twmd;layer=6;adapter=DIR``) and a signature get neither.

    Args:
        names: What was written.
        arguments: With ``set`` and ``preset``, and maybe the parts of signatures.
        lexical: SacreBLEU's metrics that may stand among them.

    Raises:
        SpecError: Unknown metric, preset or key, an impossible value, a key that none of the metrics uses, a part that no signature has, or
            the same metric with the same settings twice.
    """
    parts = parts_of(arguments)
    own = [name for name in names if name not in lexical]
    signed = [name for name in own if "|" in name]
    named = [name for name in own if "|" not in name and not _has_keys(name)]
    for name in named:
        _check_metric(split_name(name)[0], [*MetricName, *lexical], takes_several="metrics" in arguments)
    given = _parse_set_keys(arguments, [split_name(name)[0] for name in named])
    if not signed:
        _refuse_parts(parts)
    check_parts(parts, [parse_signature(name).spec for name in signed])
    found = [_ask(name, given, arguments.preset, parts) if name in own else RequestedMetric(name) for name in names]
    for i, one in enumerate(found):
        earlier = next((other for other in found[:i] if (other.spec or other.name) == (one.spec or one.name)), None)
        if earlier is not None:
            same = "is named twice" if earlier.name == one.name else f"and {earlier.name} are the same metric with the same settings"
            other = f", or with other settings, as in '{one.spec.metric};layer=2'" if one.spec and "layer" in entry(one.spec.metric).keys else ""
            raise SpecError(f"{one.name} {same}: name it once{other}.")
    return found


def _has_keys(name: str) -> bool:
    """Whether a metric is written with keys of its own; those of an ensemble are its members'."""
    return ";" in name and "(" not in name


def _check_metric(name: str, known: Sequence[str], *, takes_several: bool) -> None:
    if name in known:
        return
    if takes_several and _is_path(name):
        raise SpecError(f"there is no metric {name!r}, which looks like a file: -m takes every word after it, so name files before -m.")
    raise SpecError(f"there is no metric {name!r}; {menu(name, known)}.")


def _is_path(word: str) -> bool:
    """Whether a word of the command line names a file, or looks as if it should."""
    try:
        is_there = Path(word).exists()
    except OSError:  # too long for a name, say
        is_there = False
    return is_there or "/" in word or Path(word).suffix[1:].isalpha()


def _parse_set_keys(arguments: argparse.Namespace, named: Sequence[str]) -> dict[str, str]:
    """What ``--set`` gives, checked against the metrics that are named without keys of their own."""
    given: dict[str, str] = {}
    for assignment in arguments.set:
        name, equals, value = assignment.partition("=")
        if not equals:
            hint = " --set takes every word after it, so name files before it." if _is_path(assignment) else ""
            raise SpecError(f"--set {assignment!r}: expected KEY=VALUE.{hint}")
        given[name] = value
    if not named and (given or arguments.preset):
        alone = "a signature says everything, and SacreBLEU's metrics have no keys here"
        raise SpecError(f"--set and --preset are for metrics that are named without keys of their own: {alone}.")
    used = {key for metric in named for key in entry(metric).keys}
    for name in given:
        if name not in used:
            raise SpecError(f"--set {name}: no key {name!r} of {', '.join(named)}; {menu(name, [key for key in KEYS if key in used])}.")
    return given


def _refuse_parts(parts: Parts) -> None:
    """Refuse the options for parts of signatures where there is no signature."""
    for name, value in parts._asdict().items():
        if value is not None:
            instead = FITTED_FILES.get(name, f"{name}={{}}").format(value)
            raise SpecError(f"--{name} says where the {name} of a signature is, and no signature is given: use --set {instead}.")


def _ask(name: str, given: dict[str, str], preset: str | None, parts: Parts) -> RequestedMetric:
    if "|" in name:
        signature = parse_signature(name)
        return RequestedMetric(name, signature.spec, parts, signature.nrefs)
    if _has_keys(name):
        return RequestedMetric(name, spec_with_keys(name))
    allowed = entry(split_name(name)[0]).keys
    metric, own = with_members(name, {key: value for key, value in given.items() if key in allowed})
    return RequestedMetric(name, make_spec(metric, preset, **own))


def make_scorers(asked: Iterable[RequestedMetric], options: RunOptions) -> list[Scorer]:
    """Make the scorers of metrics; of those of SacreBLEU none. Imports torch, if there is one to make."""
    wanted = [(one.spec, one.parts, one.nrefs) for one in asked if one.spec is not None]
    if not wanted:
        return []
    from twmd_registry.engine.scorer import make_scorer

    return [make_scorer(spec, options, parts, nrefs) for spec, parts, nrefs in wanted]
