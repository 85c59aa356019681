"""`MetricSpec`, a request of everything that changes a score and nothing else, and `AppliedSpec`, what was applied.

Members of an ensemble are written as ``stsscore,2*bertscore_centered;layer=5,sbert``, with values percent-encoded.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, fields
from typing import Any, NamedTuple, Self, Unpack, get_args
from urllib.parse import quote, unquote

from twmd_registry.errors import SpecError, check_types
from twmd_registry.messages import menu
from twmd_registry.registry.bert_score import language_of
from twmd_registry.registry.hashes import LENGTH
from twmd_registry.registry.keys import KEYS, LARGEST, NUMBER, SMALLEST, SpecKeys, Value, key
from twmd_registry.registry.metrics import SENTENCE_KEYS, TAIL_KEYS, entry
from twmd_registry.registry.names import (
    Activation,
    Against,
    AggregationKind,
    Distance,
    Dtype,
    First,
    MetricName,
    Multiref,
    Objective,
    Output,
    Punctuation,
    Special,
    StopwordUnit,
    Subwords,
    Transform,
    Units,
    Unknown,
    Vectors,
)
from twmd_registry.registry.values import CENTERING_PARTS, Aggregation, Centering, Idf, Layers, Truncation

HASH = re.compile(rf"[0-9a-f]{{{LENGTH}}}")
MAX_MEMBERS = 32
"""Limit of an ensemble's members, so its signature can be read whatever their names."""
_UNUSED: dict[str, object] = {"members": (), "centering": Centering(), "truncation": Truncation()}
"""Values of the fields that are never None, if the metric does not use the key."""
_PARSED = {"layer": Layers.parse, "aggregation": Aggregation.parse, "idf": Idf.parse, "truncation": Truncation.parse}


class SpecChanges(SpecKeys, total=False):
    """Keyword arguments of `MetricSpec.replace`; None removes a key."""

    metric: str
    fingerprint: str | None


@dataclass(frozen=True, init=False, repr=False)
class MetricSpec:
    """A metric and every setting that moves its scores, as requested by a user.

    A specification is valid by construction: values are parsed into their canonical form, and neither a constructor nor
    `replace` can make one that a scorer cannot compute. A key is None (or empty) if the metric does not use it, or if
    its value has no effect (`Key.neutral`). What only the model decides may be open (`layer`, `fingerprint`), and files
    may be named by path. A scorer turns the request into the `AppliedSpec`.
    """

    metric: MetricName
    fingerprint: str | None
    output: Output | None
    members: tuple[WeightedSpec, ...]
    model: str | None
    revision: str | None
    adapter: str | None
    layer: Layers | None
    aggregation: Aggregation | None
    special: Special | None
    unknown: Unknown | None
    subwords: Subwords | None
    punctuation: Punctuation | None
    stopwords: str | None
    stopword_unit: StopwordUnit | None
    ngram: int | str | None
    idf: Idf | None
    centering: Centering
    against: Against | None
    source_weight: float | None
    align: Units | None
    padding: int | str | None
    temperature: float | None
    iterations: int | str | None
    objective: Objective | None
    distance: Distance | None
    transform: Transform | None
    vectors: Vectors | None
    normalize: bool | None
    prompt: str | None
    activation: Activation | None
    scale: float | None
    first: First | None
    symmetric: bool | None
    clip: bool | None
    baseline: str | None
    multiref: Multiref | None
    truncation: Truncation
    dtype: Dtype | None

    def __init__(self, *, metric: str, fingerprint: str | None = None, **keys: Unpack[SpecKeys]) -> None:
        """Parse and check every value.

        Args:
            metric: The metric.
            fingerprint: The model's content.
            keys: Keys that the metric uses; None means "not given".

        Raises:
            SpecError: The metric or key is unknown, the metric does not use the key or needs another, the key does not
                accept its value, or values exclude each other.
        """
        declared = entry(metric)
        arguments: dict[str, Any] = {**keys}
        if isinstance(centering := arguments.get("centering"), Centering):
            parts = {"centering_size": centering.size, "centering_side": centering.side}
            arguments |= {name: value for name, value in parts.items() if arguments.get(name) is None}
        members: tuple[WeightedSpec, ...] = ()
        values = dict[str, Value]()
        for name, value in arguments.items():
            unused = _UNUSED.get(name)
            if value is None or (name not in declared.keys and type(value) is type(unused) and value == unused):
                continue
            found = key(name, declared.keys, str(metric))
            if name == "members":
                members = _make_members(value, self._member_type)
            elif (parsed := found.parse(value)) != found.neutral:
                values[name] = parsed
        fixed = {"metric": MetricName(metric), "fingerprint": fingerprint, "members": members}
        typed = fixed | {name: _PARSED[name](value) if name in _PARSED else value for name, value in values.items()}
        typed["centering"] = _make_centering(values)
        for field in fields(self):
            object.__setattr__(self, field.name, typed.get(field.name, _UNUSED.get(field.name)))
        self.__post_init__()

    @property
    def _member_type(self) -> type[MetricSpec]:
        return MetricSpec

    def __post_init__(self) -> None:
        """Check what involves several keys."""
        if self.fingerprint is not None and not HASH.fullmatch(str(self.fingerprint)):
            raise SpecError(f"@{self.fingerprint} is not the content of a model: expected {LENGTH} hexadecimal digits.")
        values = self.values()
        if missing := [name for name in required_keys(self.metric, values) if name not in values and name != "layer"]:
            raise SpecError(f"this specification of {self.metric} leaves out {', '.join(missing)}: set it.")
        for problem in _conflicts(self):
            raise SpecError(f"{problem}.")

    def __repr__(self) -> str:
        """Return the metric and the keys that are set."""
        keys = ", ".join(f"{name}={value!r}" for name, value in {"metric": str(self.metric), **self.texts()}.items())
        content = f", fingerprint={self.fingerprint!r}" if self.fingerprint else ""
        return f"{type(self).__name__}({keys}{content})"

    @property
    def needs_corpus(self) -> bool:
        """Whether a score depends on sums over all texts of a call: their mean vector or document frequencies."""
        return self.centering.kind == "corpus" or (self.idf is not None and self.idf.is_counted)

    @property
    def needs_whole_call(self) -> bool:
        """Whether a score depends on all pairs of a call: by such sums, or by batches of all pairs in order."""
        return self.needs_corpus or self.padding is not None

    @property
    def has_plan(self) -> bool:
        """Whether a score has a plan between the tokens of two texts that can be shown."""
        aligned = entry(self.metric).aligner is not None and not self.reads_sentences
        return aligned and self.align is None and self.against != "both"

    @property
    def reads_sentences(self) -> bool:
        """Whether texts become the model's own sentence vectors, which leaves keys of token vectors without effect."""
        return self.metric is MetricName.SBERT and self.vectors is None

    @property
    def members_or_self(self) -> tuple[MetricSpec, ...]:
        """The members of an ensemble without their weights, otherwise the specification itself."""
        return tuple(member.spec for member in self.members) or (self,)

    @property
    def is_pinned(self) -> bool:
        """Whether it names the content of every model."""
        return all(member.fingerprint is not None for member in self.members_or_self)

    def values(self) -> dict[str, Value]:
        """Return the keys that are set, in signature order, without metric and fingerprint."""
        found = {name: self._value(name) for name in KEYS if name in entry(self.metric).keys}
        return {name: value for name, value in found.items() if value is not None}

    def _value(self, name: str) -> Value | None:
        if name == "centering" and self.reads_sentences and self.centering == Centering():
            return None
        if name == "centering_size":
            return self.centering.size
        if name == "centering_side":
            return self.centering.side
        if name == "members":
            return write_members(self.members) or None
        value: Layers | Value | None = getattr(self, name)
        if isinstance(value, Layers):
            return value.value
        return value if value is None or isinstance(value, str | int | float) else str(value)

    def texts(self) -> dict[str, str]:
        """Return the keys that are set, as `values` does, with every value as text."""
        return {name: KEYS[name].format(value) for name, value in self.values().items()}

    def replace(self, **changes: Unpack[SpecChanges]) -> Self:
        """Return a copy with some fields changed.

        Raises:
            SpecError: As for the constructor.
        """
        before: dict[str, Any] = {"metric": self.metric, "fingerprint": self.fingerprint, **self.values()}
        if self.members:
            before["members"] = self.members
        if isinstance(changes.get("centering"), Centering):
            before = {name: value for name, value in before.items() if not name.startswith("centering_")}
        arguments: dict[str, Any] = before | {**changes}
        return type(self)(**arguments)


class AppliedSpec(MetricSpec):
    """A specification as applied, with the layers that were read and files named by content. Signatures show it."""

    @property
    def _member_type(self) -> type[MetricSpec]:
        return AppliedSpec

    def __post_init__(self) -> None:
        """Check that nothing is open and no file is named by path."""
        super().__post_init__()
        if "layer" in entry(self.metric).keys and self.layer is None and not self.reads_sentences:
            raise SpecError(f"this specification of {self.metric} leaves out layer: set it.")
        if self.layer is not None and self.layer.is_open:
            raise SpecError(f"layer={self.layer} is a request: a signature says which layers were read.")
        table = self.idf.table if self.idf else None
        for name, part in (
            *(("centering", mean) for mean in self.centering.means),
            ("idf", table),
            ("stopwords", self.stopwords),
            ("baseline", self.baseline),
        ):
            is_packaged = name == "baseline" and part is not None and language_of(part)
            if part is not None and not is_packaged and not HASH.fullmatch(part):
                named = f"{name}={part} names a file"
                raise SpecError(f"{named}: a signature names it by its hash, {LENGTH} hexadecimal digits.")

    @classmethod
    @check_types(spec=MetricSpec)
    def of(cls, spec: MetricSpec) -> AppliedSpec:
        """Return a specification as applied; raise SpecError if anything is open or names a file by path."""
        if isinstance(spec, cls):
            return spec
        values: dict[str, Any] = {**spec.values()}
        if spec.members:
            values["members"] = tuple(WeightedSpec(member.weight, cls.of(member.spec)) for member in spec.members)
        return cls(metric=spec.metric, fingerprint=spec.fingerprint, **values)

    @property
    def layers(self) -> tuple[int, ...]:
        """The hidden states that were read."""
        return self.layer.numbers if self.layer else ()


@dataclass(frozen=True)
class WeightedSpec:
    """A member of an ensemble.

    Attributes:
        weight: Its weight in the mean, from 1e-6 to 1e6.
        spec: Its specification.
    """

    weight: float
    spec: MetricSpec

    def __post_init__(self) -> None:
        """Raise SpecError for a weight out of bounds, anything but a specification, or a nested ensemble."""
        if not isinstance(self.spec, MetricSpec):
            raise SpecError(f"a member is a MetricSpec, not {self.spec!r}.")
        is_number = isinstance(self.weight, int | float) and not isinstance(self.weight, bool)
        if not is_number or not SMALLEST <= self.weight <= LARGEST:
            raise SpecError(f"a weight is a number from {SMALLEST:g} to {LARGEST:g}, not {self.weight!r}.")
        if self.spec.metric is MetricName.ENSEMBLE:
            raise SpecError("an ensemble cannot be a member of an ensemble.")
        object.__setattr__(self, "weight", float(self.weight))

    def format(self, *, short: bool = False) -> str:
        """Write the member in canonical form, with short key names if requested."""
        weight = "" if self.weight == 1 else f"{repr(self.weight).removesuffix('.0')}*"
        return f"{weight}{write_spec(self.spec, short=short)}"

    def __str__(self) -> str:
        """Return the canonical form."""
        return self.format()


_SAFE = "/._-+[]"
_COMMA = "(write ',' in a value as %2C)"
_EXPECTED = f"expected [WEIGHT*]METRIC[;key=value...], separated by commas {_COMMA}"


def write_members(members: Iterable[WeightedSpec], *, short: bool = False) -> str:
    """Write members in canonical form, separated by commas."""
    return ",".join(member.format(short=short) for member in members)


def write_spec(spec: MetricSpec, *, short: bool = False) -> str:
    """Write a specification like a member: ``METRIC;key=value;...``."""
    parts = [str(spec.metric)]
    for name, value in spec.values().items():
        content = f"@{spec.fingerprint}" if name == "model" and spec.fingerprint else ""
        parts.append(f"{KEYS[name].short if short else name}={write_value(name, value, _SAFE)}{content}")
    return ";".join(parts)


def write_value(name: str, value: Value, safe: str) -> str:
    """Write a value percent-encoded except for `safe`; in a model's, ``@`` separates the fingerprint."""
    return quote(KEYS[name].format(value), safe=safe if name == "model" else safe + "@")


class WrittenMember(NamedTuple):
    """A member as written, unchecked; `content` follows the ``@`` of its model, and is a fingerprint or a revision."""

    weight: float
    metric: MetricName
    content: str | None
    keys: Mapping[str, str]


def split_name(text: str) -> tuple[str, str | None]:
    """Split a metric's name from the members in parentheses after it, None without parentheses.

    >>> split_name("ensemble(stsscore,sbert)"), split_name("twmd")
    (('ensemble', 'stsscore,sbert'), ('twmd', None))
    """
    name, opened, rest = text.partition("(")
    if opened and not rest.endswith(")"):
        raise SpecError(f"{text!r} has no closing parenthesis at its end; expected METRIC(member,member,...).")
    return (name, rest.removesuffix(")")) if opened else (text, None)


def has_keys(text: str) -> bool:
    """Return whether a text is one metric with its keys, ``METRIC;KEY=VALUE``, and no ensemble or signature."""
    return ";" in text and not {"(", "|"} & set(text)


def read_members(text: str) -> tuple[WrittenMember, ...]:
    """Split a list of members without checking keys and values; raise SpecError for a malformed member."""
    parts = text.split(",")
    if len(parts) > MAX_MEMBERS:
        raise SpecError(f"an ensemble has at most {MAX_MEMBERS} members, not {len(parts)}.")
    named = ((part.strip(), f"member {number} of the ensemble") for number, part in enumerate(parts, 1))
    return tuple(_read_member(*member, _EXPECTED) for member in named)


def read_metric_with_keys(text: str) -> WrittenMember:
    """Parse one metric with its keys, written like a member without a weight; raise SpecError for anything else."""
    if (number := len(text.split(","))) > 1:
        raise SpecError(f"expected one metric with its keys, not {number}: {text} {_COMMA}.")
    written = _read_member(text.strip(), "a metric with keys", f"expected METRIC;key=value;... {_COMMA}")
    if written.weight != 1:
        raise SpecError(f"{text!r}: only members of an ensemble have a weight; leave it out.")
    return written


def _read_member(text: str, where: str, expected: str) -> WrittenMember:
    head, *parts = text.split(";")
    before, star, name = head.rpartition("*")
    metric, weight = name.strip(), before.strip() if star else "1"
    choices = [name for name in MetricName if name != MetricName.ENSEMBLE]
    if metric.partition("(")[0] == MetricName.ENSEMBLE:
        raise SpecError(f"{where}, {text!r}: an ensemble cannot be a member; {expected}.")
    if metric not in choices:
        raise SpecError(f"{where}, {text!r}: {menu(metric, choices)}; {expected}.")
    if not NUMBER.fullmatch(weight) or not SMALLEST <= float(weight) <= LARGEST:
        raise SpecError(f"{where}: a weight is a number from {SMALLEST:g} to {LARGEST:g}, not {weight!r}.")
    long_names = {declared.short: name for name, declared in KEYS.items()}
    keys: dict[str, str] = {}
    content = None
    for part in parts:
        label, equals, value = (piece.strip() for piece in part.partition("="))
        name = long_names.get(label, label)
        if not equals or not value or name in keys:
            hint = " Separate metrics by spaces." if label in choices else ""
            raise SpecError(f"{where}: {part!r} is not key=value, or repeats a key; {expected}.{hint}")
        if name == "model":
            value, at, after = value.rpartition("@")
            value, content = (value, after) if at else (after, None)
        try:
            keys[name] = unquote(value, errors="strict")
        except UnicodeDecodeError as error:
            raise SpecError(f"{where}: {part!r} is not percent-encoded UTF-8; write '%' as %25.") from error
    return WrittenMember(float(weight), MetricName(metric), content, keys)


def _make_members(value: object, spec_type: type[MetricSpec]) -> tuple[WeightedSpec, ...]:
    """Return members from their canonical text, a list of texts, or weighted specifications."""
    if isinstance(value, list | tuple) and value and all(isinstance(member, WeightedSpec) for member in value):
        if len(value) > MAX_MEMBERS:
            raise SpecError(f"an ensemble has at most {MAX_MEMBERS} members, not {len(value)}.")
        return tuple(
            member if isinstance(member.spec, spec_type) else WeightedSpec(member.weight, AppliedSpec.of(member.spec))
            for member in value
        )
    members = []
    for number, written in enumerate(read_members(str(KEYS["members"].parse(value))), 1):
        keys: dict[str, Any] = {**written.keys}
        try:
            spec = spec_type(metric=written.metric, fingerprint=written.content, **keys)
        except SpecError as error:
            raise SpecError(f"member {number} of the ensemble, {written.metric}: {error}") from error
        members.append(WeightedSpec(written.weight, spec))
    return tuple(members)


def _make_centering(values: Mapping[str, Any]) -> Centering:
    kind, _, named = str(values.get("centering", "none")).partition(":")
    has_sources = values.get("against") in {"source", "both"}  # sources may have their own mean vector
    means = tuple(named.split("+", 1) if has_sources else [named]) if named else ()
    return Centering(kind, values.get("centering_size"), values.get("centering_side"), means)  # type: ignore[arg-type]


def required_keys(metric: MetricName, values: Mapping[str, Value]) -> tuple[str, ...]:
    """Return the keys that an applied specification with these values must set, in signature order."""
    used = {f"centering_{part}" for part in CENTERING_PARTS.get(values.get("centering"), ())}
    optional = {"revision", "adapter", "centering_size", "centering_side"} - used
    optional |= set() if values.get("against") == "both" else {"source_weight"}
    if metric is MetricName.SBERT and "vectors" not in values:  # sentence vectors
        optional |= set(entry(metric).keys) - {"model", *TAIL_KEYS}
    return tuple(name for name in entry(metric).keys if name not in optional and KEYS[name].neutral is None)


def _conflicts(spec: MetricSpec) -> Iterator[str]:
    """Yield the reasons why values exclude each other."""
    has_several_layers = spec.layer is not None and len(spec.layer.numbers) > 1
    if has_several_layers and not spec.aggregation:
        choices = ", ".join(get_args(AggregationKind))
        yield f"layer={spec.layer} selects several layers: set aggregation to one of: {choices}"
    if spec.aggregation and not has_several_layers:
        needed = f"aggregation={spec.aggregation} needs several layers, but layer={spec.layer} is one"
        yield f"{needed}: set 2-6, 1,3,6 or last:5, for example"
    if spec.special == "partners" and (spec.ngram or spec.metric is not MetricName.BERTSCORE_CENTERED):
        yield "special=partners matches tokens as bert_score does: only for bertscore_centered without ngram"
    if spec.padding and spec.special != "partners":
        yield f"padding={spec.padding} matches tokens as bert_score does: set special=partners too"
    if spec.vectors == "raw" and spec.centering.kind == "sentence":
        yield "centering=sentence makes the mean of raw vectors zero: use vectors=unit, or another centering"
    if spec.symmetric and spec.first:
        yield f"first={spec.first} has no effect with symmetric=yes, which reads both orders"
    if spec.truncation.stride and spec.metric is MetricName.STSSCORE:
        yield "truncation=window averages a token's vectors, but stsscore has none: use cut or cut:N"
    if spec.source_weight is not None and spec.against != "both":
        yield f"source_weight has no effect with against={spec.against or 'reference'}: set against=both"
    if spec.stopword_unit and not spec.stopwords:
        yield f"stopword_unit={spec.stopword_unit} has no effect without stop words: set stopwords"
    if spec.align and (spec.baseline or spec.against or (spec.idf and spec.idf.is_counted)):
        counted = "no idf counted over the scored texts"
        yield f"align=sentences allows no baseline, {counted}, and no against=source"
    yield from _sentence_conflicts(spec)


def _sentence_conflicts(spec: MetricSpec) -> Iterator[str]:
    """Yield conflicts with sentence vectors or token vectors."""
    if not spec.reads_sentences:
        if spec.prompt:
            yield f"prompt={spec.prompt} needs the model's own sentence vectors: leave out vectors"
        return
    if token_key := next((name for name in spec.values() if name not in {*SENTENCE_KEYS, *TAIL_KEYS}), None):
        problem = f"{token_key} concerns token vectors, but sbert uses the model's own sentence vectors"
        yield f"{problem}: set vectors too"
    if spec.truncation.stride:
        yield "truncation=window averages a token's vectors, but sentence vectors have none: use cut or cut:N"
