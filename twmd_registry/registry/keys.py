"""`KEYS`: the keys of specifications in the order of a signature; `SpecKeys`: their types in Python."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypedDict, get_args

from twmd_registry.errors import SpecError, shown
from twmd_registry.messages import menu
from twmd_registry.registry import names
from twmd_registry.registry.values import (
    MAX_BATCH,
    MAX_OVERLAP,
    MAX_TOKENS,
    Aggregation,
    Centering,
    Idf,
    Layers,
    Truncation,
)

Value = str | int | float | bool
"""A value as in signatures."""


@dataclass(frozen=True)
class Key:
    """One key of a specification.

    Attributes:
        name: The name.
        short: The name in short signatures.
        about: The meaning.
        accepts: The accepted values, in words.
        read: Converts a user's value to the canonical one; raises ValueError, TypeError or LookupError.
        neutral: The value without effect, if any, which specifications and signatures leave out.
    """

    name: str
    short: str
    about: str
    accepts: str
    read: Callable[[object], Value]
    neutral: Value | None = None

    def parse(self, value: object) -> Value:
        """Convert a user's value to the canonical one; raise SpecError if it is not accepted."""
        try:
            return self.read(value)
        except (ValueError, TypeError, LookupError) as error:
            raise SpecError(f"{self.name}={shown(value, 200)} is not possible: expected {self.accepts}.") from error

    def format(self, value: Value) -> str:
        """Write a canonical value so that `parse` restores it."""
        if isinstance(value, bool):
            return "yes" if value else "no"
        return repr(value) if isinstance(value, float) else str(value)


def _one_of(choices: Iterable[str]) -> Callable[[object], Value]:
    table = {str(choice): choice for choice in choices}
    return lambda value: table[str(value)]


MAX_SWEEPS, MAX_NGRAM = 10_000, 1000
"""Largest iterations and ngram, to limit the cost of untrusted signatures."""


def _whole(largest: int) -> Callable[[object], Value]:
    def read(value: object) -> Value:
        if not re.fullmatch(r"[1-9][0-9]{0,8}", str(value)) or int(str(value)) > largest:
            raise ValueError(value)
        return int(str(value))

    return read


def _whole_or(word: str, largest: int) -> Callable[[object], Value]:
    return lambda value: word if value == word else _whole(largest)(value)


SMALLEST, LARGEST = 1e-6, 1e6
"""Bounds of temperatures and scales, beyond which float32 would overflow; plans stop changing long before."""
NUMBER = re.compile(r"([0-9]+\.?[0-9]*|\.[0-9]+)(e[+-]?[0-9]{1,3})?", re.IGNORECASE)
"""A positive decimal number."""


def _scale(value: object, largest: float = LARGEST) -> Value:
    if not NUMBER.fullmatch(str(value)) or not SMALLEST <= float(str(value)) <= largest:
        raise ValueError(value)
    return float(str(value))


def _centering(value: object) -> Value:
    """Read a centering; ``background:`` may name one mean vector, or two joined by ``+``."""
    kind, colon, rest = str(value).partition(":")
    if kind not in names.CENTERINGS or (colon and not (kind == "background" and rest)):
        raise ValueError(value)
    return f"{kind}{colon}{rest}"


def _yes_no(value: object) -> Value:
    return {"yes": True, "no": False, "true": True, "false": False}[str(value).lower()]


def _name(value: object) -> Value:
    """Read a name or path, which may be a `Path`."""
    text = str(value) if isinstance(value, str | os.PathLike) else ""
    text.encode()  # a lone surrogate cannot be written in a signature
    if not text.strip() or any(c in text for c in "\n\r\0"):
        raise ValueError(value)
    return text


def _key(
    name: str,
    short: str,
    about: str,
    accepts: Any,
    read: Callable[[object], Value] = _name,
    *,
    neutral: Value | None = None,
) -> Key:
    """Declare a key. A `Literal` defines the accepted values and their parser."""
    if not isinstance(accepts, str):
        choices = get_args(accepts)
        read, accepts = _one_of(choices), "one of " + ", ".join(choices)
    return Key(name, short, about, accepts, read, neutral)


_DECLARED = (
    _key("output", "o", "the side that is the score", names.Output),
    _key(
        "members",
        "me",
        "metrics to average",
        "METRIC;key=value,WEIGHT*METRIC,.. (see docs/choose-a-model.md)",
        lambda value: _name(",".join(map(str, value)) if isinstance(value, list | tuple) else value),
    ),
    _key("model", "m", "the encoder", "a Hub id, a folder, 'embedded' or 'multilingual'"),
    _key("revision", "r", "Hub revision of the model", "a branch, tag or commit on the Hub"),
    _key("adapter", "a", "PEFT adapter of the model", "a packaged name, a folder or a Hub id"),
    _key(
        "layer",
        "l",
        "hidden state, or several (0: embeddings)",
        "a whole number, negative from the end (-1 for the last); several as 2-6 or 1,3,6 or last:5 (with aggregation)",
        lambda value: Layers.parse(value).value,
    ),
    _key(
        "aggregation",
        "ag",
        "how several layers become one vector",
        "single (one layer), mean, concat, pmeans:P,P,.. (each P a whole number from 1 to 99, inf or -inf: other "
        "powers of negative numbers are undefined or unbounded), routing:gaussian, or routing:epanechnikov",
        lambda value: "single" if value == "single" else str(Aggregation.parse(value)),
        neutral="single",
    ),
    _key(
        "special",
        "s",
        "special tokens to include",
        "one of cls (only the first), none, all, or partners (excluded, but other tokens may match them, as in "
        "bert_score; bertscore_centered only)",
        _one_of(get_args(names.Special)),
    ),
    _key(
        "unknown",
        "un",
        "tokens outside the vocabulary: alike (keep), or equal to the same text only (apart)",
        names.Unknown,
        neutral="keep",
    ),
    _key("subwords", "su", "pieces that continue a word", names.Subwords, neutral="keep"),
    _key("punctuation", "pu", "punctuation tokens; drop-ascii: only ASCII's", names.Punctuation, neutral="keep"),
    _key("stopwords", "sw", "words to leave out", "none, HASH, or a FILE with one word per line", neutral="none"),
    _key(
        "stopword_unit",
        "wu",
        "what to compare with stop words: whole words, or any piece that starts a word (only `to` of `to ##ver`)",
        names.StopwordUnit,
        neutral="word",
    ),
    _key(
        "ngram",
        "ng",
        "tokens to move together",
        f"a whole number from 1 to {MAX_NGRAM}, or 'sentence'",
        _whole_or(names.SENTENCE, MAX_NGRAM),
        neutral=1,
    ),
    _key(
        "idf",
        "id",
        "inverse document frequencies that weight the tokens",
        "none, corpus (each side's own), references (the references', for both sides), background:HASH, or "
        "background:FILE (see 'twmd fit idf')",
        lambda value: "none" if value == "none" else str(Idf.parse(value)),
        neutral="none",
    ),
    _key(
        "centering",
        "c",
        "the mean that is subtracted from token vectors",
        f"one of {', '.join(names.CENTERINGS)}, or background:HASH, background:FILE; against sources also "
        "background:HASH+HASH, for the predictions' and the sources' language",
        _centering,
    ),
    _key(
        "centering_size",
        "cs",
        "segments per centering batch",
        f"a whole number from 1 to {MAX_BATCH}",
        _whole(MAX_BATCH),
    ),
    _key("centering_side", "cd", "one mean for both sides, or one for each", names.Side),
    _key(
        "against",
        "av",
        "what to compare predictions with (against the source, words copied from it match nothing)",
        names.Against,
        neutral="reference",
    ),
    _key(
        "source_weight",
        "so",
        "weight of the source's score with against=both",
        "a number between 0 and 1",
        lambda value: _scale(value, 1 - SMALLEST),
    ),
    _key(
        "align",
        "al",
        "whether to compare whole texts, or sentences, one per line, matched in order",
        names.Units,
        neutral="texts",
    ),
    _key(
        "padding",
        "pd",
        "pairs per batch; a text shorter than the batch's longest gets a partner of similarity 0 (as in bert_score)",
        f"none, or a whole number from 1 to {MAX_BATCH} (with special=partners)",
        _whole_or("none", MAX_BATCH),
        neutral="none",
    ),
    _key("temperature", "t", "T of the tempered plan; low values are greedy", "a number from 1e-6 to 1e6", _scale),
    _key(
        "iterations",
        "i",
        "Sinkhorn sweeps",
        f"a whole number from 1 to {MAX_SWEEPS}, or 'converged' (slow below T = 0.01, where moverscore is almost the "
        "same)",
        _whole_or(names.CONVERGED, MAX_SWEEPS),
    ),
    _key("objective", "ob", "without (expected) or with (entropic) the entropy term", names.Objective),
    _key("distance", "di", "cost of moving a token", names.Distance, neutral="similarity"),
    _key("transform", "tf", "1 - EMD (linear), or 1 / (1 + EMD) (inverse)", names.Transform, neutral="linear"),
    _key(
        "vectors",
        "ve",
        "compare the mean of token vectors, scaled to norm 1 (unit) or unscaled (raw); unset, compare the model's own "
        "sentence vectors (sentence-transformers)",
        names.Vectors,
    ),
    _key("normalize", "n", "divide by sqrt(C(X,X) C(Y,Y)) (Eq. 1)", "yes or no", _yes_no),
    _key(
        "prompt",
        "pr",
        "text that the model's authors put before an input",
        "the name of one of the model's prompts, default (the one its authors always use), or none",
        neutral="default",
    ),
    _key(
        "activation",
        "ac",
        "function of a cross-encoder's output: none (identity), or the sigmoid that some are trained with",
        names.Activation,
        neutral="identity",
    ),
    _key("scale", "sc", "divisor of the regression head's output", "a number from 1e-6 to 1e6", _scale),
    _key("first", "fi", "text that the regression model reads first", names.First, neutral="prediction"),
    _key("symmetric", "sy", "average both orders", "yes or no", _yes_no, neutral=False),
    _key("clip", "cl", "clip scores to [0, 1]", "yes or no", _yes_no, neutral=False),
    _key(
        "baseline",
        "ba",
        "score of unrelated texts, b in (x - b) / (1 - b)",
        "none, HASH, a FILE (see 'twmd fit baseline', or bert_score's .tsv), or bert_score:LANGUAGE (its table)",
        neutral="none",
    ),
    _key("multiref", "mr", "best or mean over several references", names.Multiref),
    _key(
        "truncation",
        "tr",
        "how to handle a text that is longer than the model can read",
        "cut (at the model's limit), cut:N tokens, or window:N/S (windows of N tokens, S apart, with a token's vectors "
        f"averaged; N at most {MAX_TOKENS}, and {MAX_OVERLAP} times S)",
        lambda value: str(Truncation.parse(value)),
    ),
    _key("dtype", "d", "number format of the encoder", names.Dtype),
)
KEYS: dict[str, Key] = {declared.name: declared for declared in _DECLARED}

Place = str | os.PathLike[str]
YesNo = bool | Literal["yes", "no"]


class SpecKeys(TypedDict, total=False):
    """Keys of a specification as keyword arguments, with their types; None means "not given"."""

    output: names.Output | None
    members: str | Sequence[object] | None  # texts, or `WeightedSpec`s
    model: Place | None
    revision: str | None
    adapter: Place | None
    layer: int | str | Sequence[int] | Layers | None
    aggregation: str | Aggregation | None
    special: names.Special | None
    unknown: names.Unknown | None
    subwords: names.Subwords | None
    punctuation: names.Punctuation | None
    stopwords: Place | None
    stopword_unit: names.StopwordUnit | None
    ngram: int | Literal["sentence"] | None
    idf: str | Idf | None
    centering: str | Centering | None
    centering_size: int | None
    centering_side: names.Side | None
    against: names.Against | None
    source_weight: float | None
    align: names.Units | None
    padding: int | Literal["none"] | None
    temperature: float | None
    iterations: int | Literal["converged"] | None
    objective: names.Objective | None
    distance: names.Distance | None
    transform: names.Transform | None
    vectors: names.Vectors | None
    normalize: YesNo | None
    prompt: str | None
    activation: names.Activation | None
    scale: float | None
    first: names.First | None
    symmetric: YesNo | None
    clip: YesNo | None
    baseline: Place | None
    multiref: names.Multiref | None
    truncation: str | Truncation | None
    dtype: names.Dtype | None


def key(name: str, allowed: tuple[str, ...] | None = None, owner: str = "a specification") -> Key:
    """Return a key by name; raise SpecError, with a menu, if it is not one of the `allowed` keys that `owner` uses."""
    choices = tuple(KEYS) if allowed is None else allowed
    if name in choices:
        return KEYS[name]
    what = f"{owner} does not use the key {name!r}" if name in KEYS else f"unknown key {name!r}"
    raise SpecError(f"{what}; {menu(name, choices)}.")
