"""Warn about texts that are scored, and refuse scripts that a model does not read."""

from __future__ import annotations

import functools
import math
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import regex

from twmd_registry.engine.pairs import Pairs, Segments, make_pairs
from twmd_registry.errors import InputError
from twmd_registry.messages import listed, warn
from twmd_registry.registry.metric_spec import MetricSpec
from twmd_registry.registry.names import UNKNOWN_SHARE, MetricName
from twmd_registry.registry.presets import describe_model, presets, presets_of
from twmd_registry.registry.references import is_blank
from twmd_registry.registry.signature import Signature

if TYPE_CHECKING:  # imports torch, which SacreBLEU's metrics do not need
    from twmd_registry.engine.backend import Backend
    from twmd_registry.tensors import TextFacts

SHOWN_WORDS = SHOWN_TEXTS = 5
"""Maximum number of words or texts to name in a warning."""
RELIABLE_SAMPLE = 30
"""Tests and intervals over fewer segments cause a warning."""
SHOWN_SAMPLES = 10
"""Maximum number of small samples to name in a warning."""


def name_texts(pairs: Pairs, which: np.ndarray, rows: Sequence[int]) -> str:
    """Name texts by index: ``predictions[0], references[2][1], ...``.

    Args:
        pairs: The pairs of a call.
        which: The texts to name; shape (texts,), bool.
        rows: The number of each segment.
    """
    starts = pairs.starts
    hypotheses = np.flatnonzero(which[pairs.hyp[starts]]).tolist()  # segments
    references = np.flatnonzero(which[pairs.ref]).tolist()  # pairs
    named = [(i, f"predictions[{rows[i]}]") for i in hypotheses[:SHOWN_TEXTS]]
    for k in references[:SHOWN_TEXTS]:
        i = int(np.searchsorted(starts, k, side="right")) - 1
        named.append((i, f"{pairs.against}s[{rows[i]}]" + (f"[{k - starts[i]}]" if pairs.counts[i] > 1 else "")))
    more = ["..."] if len(hypotheses) + len(references) > SHOWN_TEXTS else []
    return ", ".join([*list(dict.fromkeys(name for _, name in sorted(named)))[:SHOWN_TEXTS], *more])


def warn_about_texts(pairs: Pairs, models: Sequence[tuple[TextFacts, bool]], rows: Sequence[int]) -> None:
    """Warn about texts that may not be compared as the user expects.

    Args:
        pairs: The pairs of a call.
        models: By model, facts about the texts, and whether it is a table of word vectors.
        rows: The number of each segment.
    """
    for (flags, words_of), static in models:
        for which, text, rule in (
            (
                flags["vanished"],
                "distinct texts with nothing left to compare (after centering or leaving out words, or zero vectors)",
                "each scores 1 against itself and 0 against any other",
            ),
            (
                flags["wordless"],
                "distinct texts with every word left out",
                "only their special tokens are compared (with special=none each scores 1 against itself, else 0)",
            ),
            (
                flags["weightless"],
                "distinct texts in which every token has idf 0 (it occurs in every text)",
                "their tokens count the same",
            ),
        ):
            if which.any():
                warn(f"{text}: {which.sum()}; {rule}.")
        missing = [word for _, words in sorted(words_of.items()) for word in words] if static else []
        if missing:
            often = Counter(missing)
            words = [repr(word) for word, _ in often.most_common(SHOWN_WORDS)] + ["..."] * (len(often) > SHOWN_WORDS)
            left_out = f"{len(missing)} in distinct texts, {len(often)} distinct ({', '.join(words)})"
            warn(f"words without a vector, left out: {left_out}.")
    empty, unknown = (np.logical_or.reduce([facts.flags[name] for facts, _ in models]) for name in ("empty", "unknown"))
    if empty.any():
        number, named = empty[pairs.hyp[pairs.starts]].sum() + empty[pairs.ref].sum(), name_texts(pairs, empty, rows)
        if len(set(rows)) < len(rows):  # candidates, each also a reference for the others in its row
            segments = {rows[i] for i in np.flatnonzero(empty[pairs.hyp[pairs.starts]]).tolist()}
            number, named = len(segments), listed(f"candidates[{i}]" for i in sorted(segments))
        scored = "each scores 0 against text and 1 against another empty text, before any baseline"
        warn(f"texts without a token: {number}; {scored} ({named}).")
    if truncated := max(int(facts.flags["truncated"].sum()) for facts, _ in models):
        warn(f"distinct texts longer than the limit (truncation, in the signature): {truncated}; each lost its end.")
    if unknown.any():
        found = f"{unknown.sum()} ({name_texts(pairs, unknown, rows)})"
        meaning = "With unknown=apart such a token matches only the same text; with unknown=keep, all are the same word"
        warn(f"distinct texts with more than {UNKNOWN_SHARE:.0%} unknown tokens: {found}. {meaning}.")


def warn_about_blanks(segments: Segments) -> None:
    """Warn about empty texts in a call with only SacreBLEU's metrics, which score them without a warning."""
    pairs = make_pairs(segments)
    blank = np.array(list(map(is_blank, pairs.texts)))
    if blank.any():
        names = name_texts(pairs, blank, range(len(segments.predictions)))
        warn(f"empty texts, which match nothing ({names}).")


def warn_about_unread_sources(specs: Iterable[MetricSpec], sources: object) -> None:
    """Warn about sources in a call whose metrics compare predictions with references only."""
    read = any(member.against is not None for spec in specs for member in spec.members_or_self)
    if sources is not None and not read:
        warn("no metric here reads the sources: set against=source or against=both, or leave them out.")


def warn_about_other_nrefs(written: int | str, signature: Signature) -> None:
    """Warn that a signature was written for a different number of references than the texts have."""
    numbers = f"was written for nrefs:{written}; these texts have nrefs:{signature.nrefs}"
    warn(
        f"the signature of {signature.spec.metric} {numbers}. More references make scores higher: do not compare them."
    )


def check_sample(segments: int) -> None:
    """Warn about a test or interval over fewer than `RELIABLE_SAMPLE` segments (items, systems).

    Raises:
        InputError: There are fewer than two.
    """
    if segments < 2:
        raise InputError(f"a significance test or an interval needs 2 segments or more, got {segments}.")
    warn_about_small_samples({"": segments})


def warn_about_small_samples(samples: Mapping[str, int]) -> None:
    """Warn about samples, sizes by name, that are too small for tests and intervals."""
    if text := describe_small_samples(samples):
        warn(text)


def describe_small_samples(samples: Mapping[str, int]) -> str:
    """Return a message that names the samples of fewer than `RELIABLE_SAMPLE` segments; empty if there are none."""
    small = [f"{name} n = {n}".strip() for name, n in samples.items() if n < RELIABLE_SAMPLE]
    if not small:
        return ""
    what = f"tests, intervals and standard errors of fewer than {RELIABLE_SAMPLE} segments, items or systems"
    return f"{what} are not reliable: {listed(small, SHOWN_SAMPLES)}."


FOREIGN_SHARE = 0.1
"""Maximum share of a call's letters in scripts that a model does not read. With more, scores are meaningless."""
LANGUAGE_WORDS = 5
"""Minimum number of words of a text whose language is identified."""
LANGUAGE_MARGIN, UNNAMED_MARGIN, SHORTENED_MARGIN = 8.0, 4.0, -4.0
"""Log odds against English above which a text counts as foreign: of all its words, of its words without a capital
letter (which are not names in English), and of all but the longest word (which may be a foreign word in an English
text). 0.15% of 45,000 English texts of 27 kinds are misidentified, and at most 0.44% of a kind (lower-case headlines).
At least 98.9% of texts in ten other languages are identified.
"""
UNNAMED_WORDS = 4
"""Minimum number of words without a capital letter for them to be evaluated separately."""
LANGUAGE_SAMPLE = 100
"""Maximum number of texts per call whose language is identified, at 0.7 ms each."""
FOREIGN_TEXTS = 0.02
"""Maximum share of these texts that may look foreign: names, quotations, mistakes."""
FEW_TEXTS = 10
"""Number of texts from which a single foreign one is ignored."""
SHOWN_LANGUAGES, SHOWN_CHARACTERS = 10, 60
SHARED_SCRIPT = regex.compile(r"[\p{Script=Common}\p{Script=Inherited}]")


@functools.cache
def script_of(character: str) -> str | None:
    """Return the Unicode script (UAX 24) of a letter; None for other characters, and for letters shared by all
    scripts.
    """
    if not character.isalpha() or SHARED_SCRIPT.match(character):
        return None
    words: list[str] = [word.capitalize() for word in re.findall(r"[A-Z]+", unicodedata.name(character, "OTHER"))]
    for script in ("Han", *words, *sorted({script for preset in presets().values() for script in preset.scripts})):
        try:
            if regex.match(rf"\p{{Script={script}}}", character):
                return script
        except regex.error:  # a word of the character name that is not a script
            continue
    return words[0]


_NO_LETTERS = dict.fromkeys(code for code in range(128) if not chr(code).isalpha())
"""ASCII characters other than letters, for `str.translate`."""


def _count_scripts(text: str) -> Mapping[str, int]:
    """Count the letters of a text by script; omit scripts without any."""
    if text.isascii():  # several times as fast
        letters = len(text.translate(_NO_LETTERS))
        return {"Latin": letters} if letters else {}
    return Counter(filter(None, map(script_of, text)))


def check_scripts(
    models: Sequence[tuple[MetricSpec, Sequence[str]]],
    pairs: Pairs,
    rows: Sequence[int],
    *,
    strict: bool,
    data: str = "",
) -> dict[str, int]:
    """Count letters by script, each text as often as it occurs; warn about scripts that a model does not read.

    Args:
        models: Requested specifications, with the scripts that their models read (empty if unknown).
        pairs: The pairs of a call.
        rows: The number of each segment.
        strict: Refuse texts if the model's preset is strict.
        data: Prefix of messages: the name of the data and a colon, or empty.

    Raises:
        InputError: More than `FOREIGN_SHARE` of the letters are in other scripts, and model and call are strict.
    """
    sides = pairs.hyp[pairs.starts], pairs.ref
    times = np.zeros(len(pairs.texts), dtype=np.int32)
    for side in sides:
        np.add.at(times, side, 1)
    total = Counter[str]()
    for text, often in zip(pairs.texts, map(int, times), strict=True):
        for script, number in _count_scripts(text).items():
            total[script] += often * number
    letters = dict(total.most_common())
    for spec, scripts in models:
        foreign = [script for script in letters if script not in scripts]
        share = sum(letters[script] for script in foreign) / max(total.total(), 1)
        if not scripts or share <= FOREIGN_SHARE or not (preset := describe_model(spec.model)):
            continue  # a model whose scripts are not known is not checked
        is_foreign = np.array([foreign[0] in _count_scripts(text) for text in pairs.texts])
        first = name_texts(pairs, is_foreign, rows).partition(",")[0]
        many = len(preset.languages) > SHOWN_LANGUAGES
        made_for = f"{len(preset.languages)} other languages" if many else ", ".join(preset.languages)
        problem = (
            f"{data}{100 * share:.3g}% of the letters are in scripts that {spec.model} does not read, "
            f"mostly {foreign[0]} (first: {first}); it was made for {made_for}"
        )
        others = [preset for preset in presets_of(spec.metric).values() if preset.keys.get("against") == spec.against]
        fit = sorted(preset.name for preset in others if foreign[0] in preset.scripts)
        if preset.strict and strict:
            use = f"use a model that reads {foreign[0]}" + (f" (preset {', '.join(fit)})" if fit else "")
            raise InputError(f"{problem}: {use}, or score anyway with any_language=True (--any-language).")
        warn(f"{problem}: these scores are not reliable.")
    return letters


def check_texts(backends: Sequence[Backend], pairs: Pairs, rows: Sequence[int]) -> dict[str, int]:
    """Warn about texts before scoring; return their letter counts by script.

    Raises:
        InputError: As for `check_scripts`, unless all backends have the option `any_language`.
    """
    models, number = [(backend.requested, backend.requested_scripts) for backend in backends], len(pairs.counts)
    strict = not all(backend.options.any_language for backend in backends)
    letters = check_scripts(models, pairs, rows, strict=strict)
    for spec, _ in models:
        size = spec.centering.size or number
        if spec.centering.kind in {"batch", "corpus"} and (number % size == 1 or 1 in {size, number}):
            which = "the last segment" if number > 1 and size != 1 else "a segment"
            problem = f"{which} is alone in its batch, so its own mean is subtracted"
            warn(f"centering={spec.centering}: {problem}: use background centering to score single segments.")
            break
    if number > 1 and all(is_blank(pairs.texts[hypothesis]) for hypothesis in np.unique(pairs.hyp)):
        warn(f"all {number} predictions are empty: check the system's output.")
    return letters


def warn_about_language(name: str | None, pairs: Pairs) -> None:
    """Warn if texts for an English model are in other languages of its script: one text among few, or more than
    `FOREIGN_TEXTS` of many. Texts with fewer than `LANGUAGE_WORDS` distinct words are not identified.
    """
    preset = describe_model(name)
    if preset is None or not preset.strict:
        return
    long = [text for text in pairs.texts if len(set(text.split())) >= LANGUAGE_WORDS]
    if not long and len(pairs.texts) >= RELIABLE_SAMPLE:
        long = [" ".join(pairs.texts[start :: len(pairs.texts) // FEW_TEXTS]) for start in range(FEW_TEXTS)]
    sample = long[:: math.ceil(len(long) / LANGUAGE_SAMPLE)] if long else []
    others = Counter(filter(None, map(other_language, sample)))
    found = others.total()
    if found > FOREIGN_TEXTS * len(sample) and (found > 1 or len(sample) < FEW_TEXTS):
        language = others.most_common(1)[0][0]
        first = next(text for text in sample if other_language(text))
        shown = first if len(first) <= SHOWN_CHARACTERS else f"{first[:SHOWN_CHARACTERS]}..."
        looked = f"{len(sample)} distinct texts"
        if len(sample) < len(pairs.texts):
            looked = f"{len(sample)} texts examined ({len(pairs.texts)} distinct in all)"
        use = "multilingual-source of twmd" if pairs.against == "source" else "multilingual (twmd: multilingual-tuned)"
        warn(
            f"{found} of {looked} look like other languages (mostly {language}; first: {shown!r}) than "
            f"{name} was made for ({', '.join(preset.languages)}). Scores of other languages are not reliable; see the "
            f"preset {use}."
        )


@functools.cache
def _identifier() -> Any:
    """Return a language identifier for English and the languages of the multilingual model."""
    from py3langid.langid import MODEL_FILE, LanguageIdentifier

    identifier = LanguageIdentifier.from_model_file(MODEL_FILE)
    languages = presets_of(MetricName.TWMD)["multilingual"].languages
    identifier.set_languages([code for code in identifier.nb_classes if code in languages])
    return identifier


@functools.lru_cache(maxsize=4096)
def other_language(text: str) -> str | None:
    """Return the code of a text's language if it is more likely than English by the margins, otherwise None."""
    language, margin = _most_likely(text)
    words = [word for word in text.split() if not word[0].isupper()]
    is_other = margin > LANGUAGE_MARGIN
    if is_other and len(words) >= UNNAMED_WORDS:
        is_other = _most_likely(" ".join(words))[1] > UNNAMED_MARGIN
        words.remove(max(words, key=len))
        is_other = is_other and _most_likely(" ".join(words))[1] > SHORTENED_MARGIN
    return language if is_other else None


def _most_likely(text: str) -> tuple[str, float]:
    """Return the most likely language other than English, and its log odds against English."""
    ranked = dict(_identifier().rank(text))
    english = ranked.pop("en")
    language, likely = next(iter(ranked.items()))
    return language, likely - english
