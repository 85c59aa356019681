"""`MetricSpec`: everything that changes a score, and nothing else. `KEYS`: its keys in the order of a signature."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any, cast, get_args

from twmd_registry.errors import SpecError
from twmd_registry.messages import menu
from twmd_registry.registry.hashes import LENGTH
from twmd_registry.registry.metrics import entry
from twmd_registry.registry.names import (
    CENTERINGS,
    CONVERGED,
    SENTENCE,
    Activation,
    Against,
    Aggregation,
    Centering,
    Distance,
    Dtype,
    First,
    MetricName,
    Multiref,
    Objective,
    Output,
    Punctuation,
    RoutingKernel,
    Side,
    Special,
    StopwordUnit,
    Subwords,
    Transform,
    Units,
    Unknown,
    Vectors,
)

Value = str | int | float | bool


@dataclass(frozen=True)
class Key:
    """One key of a specification: its names, its meaning, the values it accepts in words, the function that turns what
    a user wrote into the canonical value or raises ValueError or LookupError, and the value that does nothing, if any,
    which a specification and a signature leave out.
    """

    name: str
    short: str
    about: str
    accepts: str
    read: Callable[[object], Value]
    neutral: Value | None = None

    def parse(self, value: object) -> Value:
        """Read a user's value; raises SpecError if it is none of those the key accepts."""
        try:
            return self.read(value)
        except (ValueError, TypeError, LookupError) as error:
            raise SpecError(f"{self.name}={value!r} is not possible: expected {self.accepts}.") from error

    def format(self, value: Value) -> str:
        """Write a canonical value so that `parse` reads the same value back."""
        if isinstance(value, bool):
            return "yes" if value else "no"
        return repr(value) if isinstance(value, float) else str(value)


def _one_of(choices: Iterable[str]) -> Callable[[object], Value]:
    table = {str(choice): choice for choice in choices}
    return lambda value: table[str(value)]


MAX_SWEEPS, MAX_NGRAM, MAX_BATCH, MAX_POWERS = 10_000, 1000, 1_000_000, 16
"""Largest iterations, ngram, centering_size, and number of power means: a stranger's signature must come to an end."""
MAX_TOKENS, MAX_OVERLAP = 1_000_000, 64
"""Most tokens of a text that a truncation may ask for, and most windows that may hold one token."""


def _whole(largest: int) -> Callable[[object], Value]:
    def read(value: object) -> Value:
        if not re.fullmatch(r"[1-9][0-9]{0,8}", str(value)) or int(str(value)) > largest:
            raise ValueError(value)
        return int(str(value))

    return read


def _whole_or(word: str, largest: int) -> Callable[[object], Value]:
    return lambda value: word if value == word else _whole(largest)(value)


SMALLEST, LARGEST = 1e-6, 1e6
"""Bounds of temperatures and scales, beyond which float32 would overflow; a plan changes no more long before."""
NUMBER = re.compile(r"([0-9]+\.?[0-9]*|\.[0-9]+)(e[+-]?[0-9]{1,3})?", re.IGNORECASE)
"""A positive decimal number."""


def _scale(value: object, largest: float = LARGEST) -> Value:
    if not NUMBER.fullmatch(str(value)) or not SMALLEST <= float(str(value)) <= largest:
        raise ValueError(value)
    return float(str(value))


def _layer(value: object) -> Value:
    """Read one layer, or several in their canonical form: ``2-6``, ``1,3,6``, ``last:5``."""
    text = re.sub(r"\s*([,-])\s*", r"\1", str(value).strip())
    if match := re.fullmatch(r"last:([1-9][0-9]{0,2})", text):
        return match[0]
    if not re.fullmatch(r"[0-9]{1,3}(-[0-9]{1,3})?(,[0-9]{1,3}(-[0-9]{1,3})?)*", text):
        raise ValueError(value)
    chosen = set[int]()
    for part in text.split(","):
        first, _, last = part.partition("-")
        if int(last or first) < int(first):
            raise ValueError(value)
        chosen |= set(range(int(first), int(last or first) + 1))
    return layers_text(sorted(chosen))


def layers_text(layers: Sequence[int]) -> Value:
    """Write ascending layers as a number, a range, or a list.

    >>> layers_text([4]), layers_text([2, 3, 4]), layers_text([1, 3])
    (4, '2-4', '1,3')
    """
    if len(layers) == 1:
        return layers[0]
    if len(layers) == layers[-1] - layers[0] + 1:
        return f"{layers[0]}-{layers[-1]}"
    return ",".join(map(str, layers))


def layers_of(value: Value) -> tuple[int, ...]:
    """Return the layers that a canonical value names; none for ``last:N``, which depends on the model.

    >>> layers_of("2-4"), layers_of("1,3"), layers_of(4)
    ((2, 3, 4), (1, 3), (4,))
    """
    text = str(value)
    if text.startswith("last"):
        return ()
    first, dash, last = text.partition("-")
    return tuple(range(int(first), int(last) + 1)) if dash else tuple(map(int, text.split(",")))


def _aggregation(value: object) -> Value:
    kind, colon, rest = str(value).partition(":")
    chosen = _one_of(get_args(Aggregation))(kind)
    if chosen == "routing":
        return f"{chosen}:{_one_of(get_args(RoutingKernel))(rest or 'gaussian')}"
    if chosen == "pmeans":
        powers = [_power(power) for power in (rest or "-inf,1,inf").split(",")]
        if len(powers) > MAX_POWERS:
            raise ValueError(value)
        return f"{chosen}:{','.join(powers)}"
    if colon:
        raise ValueError(value)
    return str(chosen)


def _power(text: str) -> str:
    """Read a power mean's p: the mean of p-th powers of numbers of both signs has a p-th root for these only."""
    text = text.strip().lower().removeprefix("+")
    if not re.fullmatch(r"-?inf|[1-9][0-9]?", text):
        raise ValueError(text)
    return text


def _or_background(choices: Sequence[str], *, named: bool) -> Callable[[object], Value]:
    """Read a choice; a hash or a file may follow ``background:``, and must where it has to be `named`."""

    def read(value: object) -> Value:
        kind, colon, rest = str(value).partition(":")
        has_name = kind == "background" and bool(rest)
        if kind not in choices or (not has_name and (colon or (named and kind == "background"))):
            raise ValueError(value)
        return f"{kind}{colon}{rest}"

    return read


def _yes_no(value: object) -> Value:
    return {"yes": True, "no": False, "true": True, "false": False}[str(value).lower()]


def _name(value: object) -> Value:
    """Read a name, or a path, which may be a `Path`."""
    text = str(value) if isinstance(value, str | os.PathLike) else ""
    if not text.strip() or any(c in text for c in "\n\r\0"):
        raise ValueError(value)
    return text


def _truncation(value: object) -> Value:
    match = re.fullmatch(r"cut(:[1-9][0-9]{0,8})?|window:([1-9][0-9]{0,8})/([1-9][0-9]{0,8})", str(value))
    if not match:
        raise ValueError(value)
    size = int((match[1] or f":{match[2] or 1}")[1:])
    stride = int(match[3] or size)
    if size > MAX_TOKENS or not stride <= size <= MAX_OVERLAP * stride:
        raise ValueError(value)
    return match[0]


def _key(
    short: str, about: str, accepts: Any, read: Callable[[object], Value] = _name, *, neutral: Value | None = None
) -> Any:
    """Declare a key: the attributes of `Key`; a `Literal` also says which values are accepted and how they are read."""
    if not isinstance(accepts, str):
        choices = get_args(accepts)
        read, accepts = _one_of(choices), "one of " + ", ".join(choices)
    return field(
        default=None, metadata={"short": short, "about": about, "accepts": accepts, "read": read, "neutral": neutral}
    )


@dataclass(frozen=True, kw_only=True)
class MetricSpec:
    """A metric and every setting that moves its numbers, the keys in the order of a signature.

    Values are read when it is made, and stand in their canonical form. A key the metric does not use is None, and so is
    one whose value does nothing (`Key.neutral`). Before a model has
    been read, `layer` and `fingerprint` may be None, and `centering`, `idf` and `stopwords` may name a file; a backend
    turns such a *requested* specification into the *applied* one, which is what a signature shows.
    """

    output: Output | None = _key("o", "the side of a two-sided metric that is the score", Output)
    members: str | None = _key(
        "me",
        "the metrics that are averaged",
        "METRIC;key=value,WEIGHT*METRIC,.. (see docs/choose-a-model.md)",
        lambda value: _name(",".join(value) if isinstance(value, list | tuple) else value),
    )
    model: str | None = _key("m", "the encoder", "a Hub id, a folder, 'embedded' or 'multilingual'")
    revision: str | None = _key("r", "the Hub revision of the model", "a branch, tag or commit of the Hub")
    adapter: str | None = _key("a", "a PEFT adapter on the model", "a packaged name, a folder or a Hub id")
    layer: int | str | None = _key(
        "l",
        "the hidden state that is read (0 is the embedding layer), or several",
        "a whole number from 0; several as 2-6 or 1,3,6 or last:5 (with aggregation)",
        _layer,
    )
    aggregation: str | None = _key(
        "ag",
        "how several layers become one vector",
        "single (one layer), mean, concat, pmeans:P,P,.. (each P a whole number from 1 to 99, inf or -inf: other "
        "powers of negative numbers are not defined, or have no bound), routing:gaussian, or routing:epanechnikov",
        _aggregation,
        neutral="single",
    )
    special: str | None = _key(
        "s",
        "which special tokens take part",
        "one of cls (the first only), none, all, or partners (none count, but tokens may choose them: bert_score's "
        "way, bertscore_centered only)",
        _one_of(get_args(Special)),
    )
    unknown: Unknown | None = _key(
        "un",
        "tokens that the vocabulary does not hold: alike (keep), or equal to the same text only (apart)",
        Unknown,
        neutral="keep",
    )
    subwords: Subwords | None = _key("su", "pieces that continue a word", Subwords, neutral="keep")
    punctuation: Punctuation | None = _key(
        "pu", "tokens of punctuation alone; drop-ascii: of ASCII's only", Punctuation, neutral="keep"
    )
    stopwords: str | None = _key(
        "sw", "words that are left out", "none, HASH, or a FILE with one word per line", neutral="none"
    )
    stopword_unit: StopwordUnit | None = _key(
        "wu",
        "what is compared with the stop words: whole words, or any piece that begins a word (only `to` of `to ##ver`)",
        StopwordUnit,
        neutral="word",
    )
    ngram: int | str | None = _key(
        "ng",
        "tokens that are moved together",
        f"a whole number from 1 to {MAX_NGRAM}, or 'sentence'",
        _whole_or(SENTENCE, MAX_NGRAM),
        neutral=1,
    )
    idf: str | None = _key(
        "id",
        "what weighs tokens by their inverse document frequency",
        "none, corpus (each side its own), references (theirs for both), background:HASH, or background:FILE (see "
        "'twmd fit idf')",
        _or_background(("none", "corpus", "references", "background"), named=True),
        neutral="none",
    )
    centering: str | None = _key(
        "c",
        "what is subtracted from token vectors",
        f"one of {', '.join(CENTERINGS)}, or background:HASH, background:FILE; against sources also "
        "background:HASH+HASH, of the predictions' language and the sources'",
        _or_background(CENTERINGS, named=False),
    )
    centering_size: int | None = _key(
        "cs", "segments per centering batch", f"a whole number from 1 to {MAX_BATCH}", _whole(MAX_BATCH)
    )
    centering_side: Side | None = _key("cd", "one mean for both sides or one each", Side)
    against: Against | None = _key(
        "av",
        "what predictions are compared with (against the source, words that were copied from it match nothing)",
        Against,
        neutral="reference",
    )
    source_weight: float | None = _key(
        "so",
        "of against=both, the weight of the source's score",
        "a number between 0 and 1",
        lambda value: _scale(value, 1 - SMALLEST),
    )
    align: Units | None = _key(
        "al",
        "what is compared: whole texts, or sentences, one per line, which are matched in order",
        Units,
        neutral="texts",
    )
    padding: int | str | None = _key(
        "pd",
        "the pairs of a batch, in which a text shorter than the batch's longest ends in a partner of similarity 0 (as "
        "in bert_score)",
        f"none, or a whole number from 1 to {MAX_BATCH} (with special=partners)",
        _whole_or("none", MAX_BATCH),
        neutral="none",
    )
    temperature: float | None = _key(
        "t", "T of the tempered plan; small is greedy", "a number from 1e-6 to 1e6", _scale
    )
    iterations: int | str | None = _key(
        "i",
        "Sinkhorn sweeps",
        f"a whole number from 1 to {MAX_SWEEPS}, or 'converged' (slow below T = 0.01, where moverscore is nearly the "
        "same)",
        _whole_or(CONVERGED, MAX_SWEEPS),
    )
    objective: Objective | None = _key("ob", "without (expected) or with (entropic) the entropy term", Objective)
    distance: Distance | None = _key("di", "what moving a token costs", Distance, neutral="similarity")
    transform: Transform | None = _key(
        "tf", "1 - EMD (linear), or 1 / (1 + EMD) (inverse)", Transform, neutral="linear"
    )
    vectors: Vectors | None = _key(
        "ve",
        "token vectors of norm 1, or as they are, whose mean stands for a text; without it the vector that the model's "
        "authors make of a text (sentence-transformers)",
        Vectors,
    )
    normalize: bool | None = _key("n", "divide by sqrt(C(X,X) C(Y,Y)) (Eq. 1)", "yes or no", _yes_no)
    prompt: str | None = _key(
        "pr",
        "what the model's authors set before a text",
        "the name of a prompt of the model, default (what its authors set before every text), or none",
        neutral="default",
    )
    activation: Activation | None = _key(
        "ac",
        "what a cross-encoder's output goes through: nothing (identity), or the sigmoid that some are trained with",
        Activation,
        neutral="identity",
    )
    scale: float | None = _key(
        "sc", "what the regression head's output is divided by", "a number from 1e-6 to 1e6", _scale
    )
    first: First | None = _key("fi", "the text that the regression model reads first", First, neutral="prediction")
    symmetric: bool | None = _key("sy", "mean of both orders", "yes or no", _yes_no, neutral=False)
    clip: bool | None = _key("cl", "cut scores off below 0 and above 1", "yes or no", _yes_no, neutral=False)
    baseline: str | None = _key(
        "ba",
        "what unrelated texts score: b of (x - b) / (1 - b)",
        "none, HASH, a FILE (see 'twmd fit baseline', or bert_score's .tsv), or bert_score:LANGUAGE (its table)",
        neutral="none",
    )
    multiref: Multiref | None = _key("mr", "best or mean over several references", Multiref)
    truncation: str | None = _key(
        "tr",
        "what happens to a text longer than the model can read",
        "cut (at the model's limit), cut:N tokens, or window:N/S (windows of N tokens, S apart, a token's vectors "
        f"averaged; N at most {MAX_TOKENS}, and {MAX_OVERLAP} times S)",
        _truncation,
    )
    dtype: Dtype | None = _key("d", "number format of the encoder", Dtype)
    metric: MetricName
    fingerprint: str | None = None

    def __post_init__(self) -> None:
        """Read every value, so that no constructor and no `replace` can hold an impossible one.

        Raises:
            SpecError: There is no such metric, or a key does not accept its value.
        """
        entry(self.metric)
        canonical: dict[str, object] = {"metric": MetricName(self.metric)}
        for name, declared in KEYS.items():
            if (value := getattr(self, name)) is not None:
                read = declared.parse(value)
                canonical[name] = None if read == declared.neutral else read
        if self.fingerprint is not None and not re.fullmatch(rf"[0-9a-f]{{{LENGTH}}}", str(self.fingerprint)):
            raise SpecError(f"@{self.fingerprint} is not the content of a model: expected {LENGTH} hexadecimal digits.")
        for name, read_value in canonical.items():
            object.__setattr__(self, name, read_value)

    @cached_property
    def centering_kind(self) -> Centering:
        """The kind of centering, without the name of a mean vector."""
        return kind_of_centering(self.centering)

    @cached_property
    def background(self) -> str | None:
        """Hash or file of the mean vector of ``background`` centering, None when there is none."""
        return self._backgrounds[0] or None

    @cached_property
    def source_background(self) -> str | None:
        """The same of the mean vector of the sources, where they have one of their own."""
        return self._backgrounds[1] or None

    @cached_property
    def _backgrounds(self) -> tuple[str, str]:
        named = (self.centering or "").partition(":")[2]
        of_predictions, _, of_sources = named.partition("+") if self.against else (named, "", "")
        return of_predictions, of_sources

    @cached_property
    def needs_corpus(self) -> bool:
        """Whether a score depends on all pairs that are scored: by the mean or the document frequencies of a corpus."""
        return self.centering_kind == "corpus" or self.idf in {"corpus", "references"}

    @cached_property
    def reads_sentences(self) -> bool:
        """Whether a text is the vector that the model's authors make of it: then keys of token vectors have no use."""
        return self.metric is MetricName.SBERT and self.vectors is None

    @cached_property
    def has_plan(self) -> bool:
        """Whether a score comes from a plan between the tokens of two texts, which can be shown."""
        aligned = entry(self.metric).aligner is not None and not self.reads_sentences
        return aligned and self.align is None and self.against != "both"

    @cached_property
    def layers(self) -> tuple[int, ...]:
        """The hidden states that are read; none as long as only the model can say."""
        return () if self.layer is None else layers_of(self.layer)

    @cached_property
    def idf_file(self) -> str | None:
        """Hash or file of the document frequencies of ``idf=background``, None when there are none."""
        return (self.idf or "").partition(":")[2] or None

    @cached_property
    def limit(self) -> int | None:
        """Most tokens of a text (of a window of it, of a pair for stsscore); None for the model's own limit."""
        number = (self.truncation or "").partition(":")[2].partition("/")[0]
        return int(number) if number else None

    @cached_property
    def stride(self) -> int | None:
        """Tokens between the beginnings of two windows; None where texts are cut."""
        number = (self.truncation or "").partition("/")[2]
        return int(number) if number else None

    def values(self) -> dict[str, Value]:
        """Return the keys that are set, in signature order, without metric and fingerprint."""
        return {name: value for name in KEYS if (value := getattr(self, name)) is not None}

    def texts(self) -> dict[str, str]:
        """Return the keys that are set, as `values`, each value as text."""
        return {name: KEYS[name].format(value) for name, value in self.values().items()}

    def replace(self, **changes: Value | None) -> MetricSpec:
        """Return a copy with some fields changed; raises SpecError for an impossible value."""
        return replace(self, **changes)  # type: ignore[arg-type]


KEYS: dict[str, Key] = {
    declared.name: Key(declared.name, **declared.metadata) for declared in fields(MetricSpec) if declared.metadata
}


def kind_of_centering(value: Value | None) -> Centering:
    """Return the kind of centering that a value of the key says, without the name of a mean vector."""
    return cast("Centering", str(value or "none").partition(":")[0])


def key(name: str, allowed: tuple[str, ...] | None = None, owner: str = "a specification") -> Key:
    """Look a key up by its name; raises SpecError, with a menu, if it is not one of `allowed`, which `owner` uses."""
    names = tuple(KEYS) if allowed is None else allowed
    if name in names:
        return KEYS[name]
    what = f"{owner} does not use the key {name!r}" if name in KEYS else f"there is no key {name!r}"
    raise SpecError(f"{what}; {menu(name, names)}.")
