"""Read what the arguments of a command name: run options, columns, metrics.

Imports nothing heavy, so that a wrong command line is refused at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from twmd_registry.cli.declare import Arguments
from twmd_registry.errors import ModelError, SpecError, menu
from twmd_registry.judgments.reader import Columns
from twmd_registry.registry.artifacts import PART_NAMES, Parts, check_parts
from twmd_registry.registry.keys import KEYS
from twmd_registry.registry.members import merge_members, split_name
from twmd_registry.registry.metrics import entry
from twmd_registry.registry.names import MetricName
from twmd_registry.registry.options import OPTION_NAMES, RunOptions
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
        spec: Its specification; None for a metric of SacreBLEU.
        parts: Where the parts of a signature are on this machine; None for a metric that is no signature.
        nrefs: The number of references in a signature.
    """

    name: str
    spec: MetricSpec | None = None
    parts: Parts | None = None
    nrefs: str | None = None


def options_of(arguments: Arguments) -> RunOptions:
    """Return the run options of a command line; raises SpecError if ``--disk-cache`` is no number of bytes."""
    given = vars(arguments)
    return RunOptions(**{name: given[name] for name in OPTION_NAMES if name in given})


def parts_of(arguments: Arguments) -> Parts:
    """Return the paths of ``--part``; raises SpecError if one is not NAME=PATH, or signatures have no such part."""
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

    Raises:
        SpecError: Unknown metric, preset or key, an impossible value, a key that none of the metrics uses, a part that
            no signature has, or the same metric with the same settings twice.
    """
    parts = parts_of(arguments)
    own = [name for name in names if name not in lexical]
    signed = [name for name in own if "|" in name]
    named = [split_name(name)[0] for name in own if "|" not in name and not _has_keys(name)]
    for name in named:
        _check_metric(name, [*MetricName, *lexical], takes_several="metrics" in vars(arguments))
    given = _parse_set_keys(arguments, named)
    if not signed:
        _refuse_parts(parts)
    parts = check_parts(parts, [parse_signature(name).spec for name in signed])
    asked = [_request(name, given, arguments.preset, parts) if name in own else RequestedMetric(name) for name in names]
    for i, metric in enumerate(asked):
        earlier = next(
            (other for other in asked[:i] if (other.spec or other.name) == (metric.spec or metric.name)), None
        )
        if earlier is not None:
            raise SpecError(_describe_twins(metric, earlier))
    return asked


def _describe_twins(metric: RequestedMetric, earlier: RequestedMetric) -> str:
    same = f"and {earlier.name} are the same metric with the same settings"
    if earlier.name == metric.name:
        same = "is named twice"
    has_layer = metric.spec is not None and "layer" in entry(metric.spec.metric).keys
    other = f", or with other settings, as in '{metric.spec.metric};layer=2'" if metric.spec and has_layer else ""
    return f"{metric.name} {same}: name it once{other}."


def _has_keys(name: str) -> bool:
    """Return whether a metric is written with keys of its own; those of an ensemble are its members'."""
    return ";" in name and "(" not in name


def _check_metric(name: str, known: Sequence[str], *, takes_several: bool) -> None:
    if name in known:
        return
    if takes_several and _is_path(name):
        hint = "which looks like a file: -m takes every word after it, so name files before -m."
        raise SpecError(f"there is no metric {name!r}, {hint}")
    raise SpecError(f"there is no metric {name!r}; {menu(name, known)}.")


def _is_path(word: str) -> bool:
    """Return whether a word of the command line names a file, or looks as if it should."""
    try:
        is_there = Path(word).exists()
    except OSError:  # too long for a name, say
        is_there = False
    return is_there or "/" in word or Path(word).suffix[1:].isalpha()


def _parse_set_keys(arguments: Arguments, named: Sequence[str]) -> dict[str, str]:
    """Read ``--set``, and check its keys against the metrics that are named without keys of their own."""
    given = dict(parse_assignments(arguments.set))
    if not named and (given or arguments.preset):
        alone = "a signature says everything, and SacreBLEU's metrics have no keys here"
        raise SpecError(f"--set and --preset are for metrics that are named without keys of their own: {alone}.")
    used = {key for metric in named for key in entry(metric).keys}
    for name in given:
        if name not in used:
            choices = menu(name, [key for key in KEYS if key in used])
            raise SpecError(f"--set {name}: no key {name!r} of {', '.join(named)}; {choices}.")
    return given


def parse_assignments(texts: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Yield the keys and values of ``--set``; raises SpecError for a word that is not KEY=VALUE."""
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
            where = f"--part {name} says where the {name} of a signature is, and no signature is given"
            raise SpecError(f"{where}: use --set {instead}.")


def _request(name: str, given: dict[str, str], preset: str | None, parts: Parts) -> RequestedMetric:
    if "|" in name:
        signature = parse_signature(name)
        return RequestedMetric(name, signature.spec, parts, signature.nrefs)
    if _has_keys(name):
        return RequestedMetric(name, _with_folders(spec_with_keys(name)))
    allowed = entry(split_name(name)[0]).keys
    metric, own = merge_members(name, {key: value for key, value in given.items() if key in allowed})
    return RequestedMetric(name, _with_folders(make_spec(metric, preset, **own)))


def _with_folders(spec: MetricSpec) -> MetricSpec:
    """Return a specification if the folders that it names by a path are there; a Hub id may be anywhere."""
    for key in ("model", "adapter"):
        value = getattr(spec, key)
        if value is not None and value.startswith((".", "/", "~")) and not Path(value).expanduser().exists():
            raise ModelError(f"{key} {value!r} is neither a folder on this machine nor a Hub id.")
    return spec


def metrics_of(arguments: Arguments) -> tuple[MetricSpec | str, ...]:
    """Return the metrics of ``-m`` in their order: specifications, and names of SacreBLEU's."""
    return tuple(metric.name if metric.spec is None else metric.spec for metric in arguments.asked)


def make_scorers(asked: Iterable[RequestedMetric], options: RunOptions) -> list[Scorer]:
    """Make a scorer of each metric that is not SacreBLEU's; imports torch only if there is such a metric."""
    wanted = [(metric.spec, metric.parts, metric.nrefs) for metric in asked if metric.spec is not None]
    if not wanted:
        return []
    from twmd_registry.engine.scorer import make_scorer

    return [make_scorer(spec, options, parts, nrefs) for spec, parts, nrefs in wanted]
