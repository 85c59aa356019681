"""Read what the arguments of a command name: run options, columns, metrics.

Imports nothing heavy, so that a wrong command line is refused at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from twmd_registry.cli.declare import Arguments
from twmd_registry.errors import SpecError, menu
from twmd_registry.judgments.reader import Columns
from twmd_registry.registry.artifacts import PART_NAMES, Parts, check_parts
from twmd_registry.registry.catalogue import entry
from twmd_registry.registry.keys import KEYS
from twmd_registry.registry.members import split_name, with_members
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


def options_of(arguments: Arguments) -> RunOptions:
    """Return the run options of a command line.

    Raises:
        SpecError: ``--disk-cache`` is no number of bytes.
    """
    given = vars(arguments)
    return RunOptions(**{name: given[name] for name in ("device", "batch_tokens", "disk_cache") if name in given})


def parts_of(arguments: Arguments) -> Parts:
    """Return where the parts of signatures are.

    Raises:
        SpecError: ``--part`` is not NAME=PATH, or signatures have no part of that name.
    """
    given = {}
    for text in vars(arguments).get("part", ()):
        name, equals, path = text.partition("=")
        if not equals or not path:
            raise SpecError(f"--part {text!r}: expected NAME=PATH.")
        if name not in PART_NAMES:
            raise SpecError(f"--part {name}: signatures have no such part; {menu(name, PART_NAMES)}.")
        given[name] = path
    return Parts(**given)


def columns_of(arguments: Arguments) -> Columns:
    """Return the columns of texts in tables."""
    return Columns(arguments.prediction_column or Columns().prediction, tuple(arguments.reference_column or ()))


def parse_metrics(names: Sequence[str], arguments: Arguments, lexical: Sequence[str] = ()) -> list[RequestedMetric]:
    """Read the metrics of a command line, in their order.

    A metric that is only named gets ``--preset`` and every ``--set`` key that it uses. One with keys of its own
    (``twmd;layer=6;adapter=DIR``) and a signature get neither.

    Args:
        names: What was written.
        arguments: With ``set`` and ``preset``, and maybe the parts of signatures.
        lexical: SacreBLEU's metrics that may stand among them.

    Raises:
        SpecError: Unknown metric, preset or key, an impossible value, a key that none of the metrics uses, a part that
            no signature has, or the same metric with the same settings twice.
    """
    parts = parts_of(arguments)
    own = [name for name in names if name not in lexical]
    signed = [name for name in own if "|" in name]
    named = [name for name in own if "|" not in name and not _has_keys(name)]
    for name in named:
        _check_metric(split_name(name)[0], [*MetricName, *lexical], takes_several="metrics" in vars(arguments))
    given = _parse_set_keys(arguments, [split_name(name)[0] for name in named])
    if not signed:
        _refuse_parts(parts)
    parts = check_parts(parts, [parse_signature(name).spec for name in signed])
    found = [_ask(name, given, arguments.preset, parts) if name in own else RequestedMetric(name) for name in names]
    for i, one in enumerate(found):
        earlier = next((other for other in found[:i] if (other.spec or other.name) == (one.spec or one.name)), None)
        if earlier is not None:
            same = (
                "is named twice"
                if earlier.name == one.name
                else f"and {earlier.name} are the same metric with the same settings"
            )
            other = (
                f", or with other settings, as in '{one.spec.metric};layer=2'"
                if one.spec and "layer" in entry(one.spec.metric).keys
                else ""
            )
            raise SpecError(f"{one.name} {same}: name it once{other}.")
    return found


def _has_keys(name: str) -> bool:
    """Return whether a metric is written with keys of its own; those of an ensemble are its members'."""
    return ";" in name and "(" not in name


def _check_metric(name: str, known: Sequence[str], *, takes_several: bool) -> None:
    if name in known:
        return
    if takes_several and _is_path(name):
        raise SpecError(
            f"there is no metric {name!r}, which looks like a file: -m takes every word after it, so name files "
            "before -m."
        )
    raise SpecError(f"there is no metric {name!r}; {menu(name, known)}.")


def _is_path(word: str) -> bool:
    """Return whether a word of the command line names a file, or looks as if it should."""
    try:
        is_there = Path(word).exists()
    except OSError:  # too long for a name, say
        is_there = False
    return is_there or "/" in word or Path(word).suffix[1:].isalpha()


def _parse_set_keys(arguments: Arguments, named: Sequence[str]) -> dict[str, str]:
    """Return what ``--set`` gives, checked against the metrics that are named without keys of their own."""
    given = dict(parse_assignments(arguments.set))
    if not named and (given or arguments.preset):
        alone = "a signature says everything, and SacreBLEU's metrics have no keys here"
        raise SpecError(f"--set and --preset are for metrics that are named without keys of their own: {alone}.")
    used = {key for metric in named for key in entry(metric).keys}
    for name in given:
        if name not in used:
            raise SpecError(
                f"--set {name}: no key {name!r} of {', '.join(named)}; "
                f"{menu(name, [key for key in KEYS if key in used])}."
            )
    return given


def parse_assignments(texts: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Yield the keys and values of ``--set``.

    Raises:
        SpecError: A word is not KEY=VALUE.
    """
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals:
            hint = " --set takes every word after it, so name files before it." if _is_path(text) else ""
            raise SpecError(f"--set {text!r}: expected KEY=VALUE.{hint}")
        yield name, value


def _refuse_parts(parts: Parts) -> None:
    """Refuse parts of signatures where there is no signature."""
    for name in PART_NAMES:
        value = getattr(parts, name)
        if value is not None:
            instead = FITTED_FILES.get(name, f"{name}={{}}").format(value)
            raise SpecError(
                f"--part {name} says where the {name} of a signature is, and no signature is given: use --set "
                f"{instead}."
            )


def _ask(name: str, given: dict[str, str], preset: str | None, parts: Parts) -> RequestedMetric:
    if "|" in name:
        signature = parse_signature(name)
        return RequestedMetric(name, signature.spec, parts, signature.nrefs)
    if _has_keys(name):
        return RequestedMetric(name, spec_with_keys(name))
    allowed = entry(split_name(name)[0]).keys
    metric, own = with_members(name, {key: value for key, value in given.items() if key in allowed})
    return RequestedMetric(name, make_spec(metric, preset, **own))


def metrics_of(arguments: Arguments) -> tuple[MetricSpec | str, ...]:
    """Return the metrics of ``-m`` in their order: specifications, and names of SacreBLEU's."""
    return tuple(one.name if one.spec is None else one.spec for one in arguments.asked)


def make_scorers(asked: Iterable[RequestedMetric], options: RunOptions) -> list[Scorer]:
    """Make the scorers of metrics; of those of SacreBLEU none. Imports torch, if there is one to make."""
    wanted = [(one.spec, one.parts, one.nrefs) for one in asked if one.spec is not None]
    if not wanted:
        return []
    from twmd_registry.engine.scorer import make_scorer

    return [make_scorer(spec, options, parts, nrefs) for spec, parts, nrefs in wanted]
