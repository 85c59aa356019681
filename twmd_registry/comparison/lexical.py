"""SacreBLEU's metrics with options, such as ``bleu;tok=zh``. Only options in SacreBLEU's signatures are accepted."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from twmd_registry.errors import SpecError
from twmd_registry.messages import menu, warn
from twmd_registry.registry.names import LEXICAL_NAMES


class Option(NamedTuple):
    """An option of SacreBLEU.

    Attributes:
        argument: Its name in Python.
        type: ``yes_no``, ``number``, or the name of BLEU's table of values.
        default: Its value if it is not set.
        signed: Its field in a signature; of ``yes_no`` with the text that stands for yes.
    """

    argument: str
    type: str
    default: str
    signed: str


OPTIONS: dict[str, dict[str, Option]] = {
    "bleu": {
        "lowercase": Option("lowercase", "yes_no", "no", "case:lc"),
        "tok": Option("tokenize", "TOKENIZERS", "13a", "tok"),
        "smooth": Option("smooth_method", "SMOOTH_DEFAULTS", "exp", "smooth"),
        "smooth_value": Option("smooth_value", "number", "", ""),  # in brackets after smooth
        "eff": Option("effective_order", "yes_no", "no", "eff:yes"),
    },
    "chrf": {
        "lowercase": Option("lowercase", "yes_no", "no", "case:lc"),
        "char_order": Option("char_order", "number", "6", "nc"),
        "word_order": Option("word_order", "number", "0", "nw"),
        "whitespace": Option("whitespace", "yes_no", "no", "space:yes"),
        "eps_smoothing": Option("eps_smoothing", "yes_no", "no", "eff:no"),
    },
    "ter": {
        "normalized": Option("normalized", "yes_no", "no", "norm:yes"),
        "no_punct": Option("no_punct", "yes_no", "no", "punct:no"),
        "asian_support": Option("asian_support", "yes_no", "no", "asian:yes"),
        "case_sensitive": Option("case_sensitive", "yes_no", "no", "case:mixed"),
    },
}
"""Options by metric, in canonical order."""
OTHER_NAMES = {"lc": "lowercase", "nc": "char_order", "nw": "word_order", "space": "whitespace", "norm": "normalized"}
OTHER_NAMES |= {"asian": "asian_support"}
OTHER_NAMES |= {option.argument: name for options in OPTIONS.values() for name, option in options.items()}
"""Aliases of the options: SacreBLEU's Python arguments and signature keys."""
MAX_NUMBER = 100
"""Largest numeric option, such as an n-gram order."""
CJK = ("CJK UNIFIED", "HIRAGANA", "KATAKANA", "HANGUL")
CJK_SHARE = 0.3
"""Share of letters above which texts count as Chinese, Japanese or Korean."""
SAMPLE = 200_000
"""Characters to inspect."""


def is_lexical(name: str, metrics: Iterable[str] = LEXICAL_NAMES) -> bool:
    """Return whether a metric is one of SacreBLEU's, with or without options."""
    return name.partition(";")[0] in metrics


def canonical_lexical(name: str) -> str:
    """Return the canonical name of a metric with its options; raise SpecError for an unknown option or value.

    >>> canonical_lexical("bleu;tokenize=zh;lc=yes"), canonical_lexical("bleu;tok=13a")
    ('bleu;lowercase=yes;tok=zh', 'bleu')
    """
    metric, *fields = name.split(";")
    known = OPTIONS.get(metric, {})
    chosen = dict[str, str]()
    for field in fields:
        key, equals, value = (part.strip() for part in field.partition("="))
        key = OTHER_NAMES.get(key, key)
        if not equals or key not in known:
            choices = menu(key, known) if known else "it has no options"
            raise SpecError(f"{name}: {metric} has no option {key!r}; {choices}.")
        if key in chosen:
            raise SpecError(f"{name}: {key} occurs twice.")
        chosen[key] = _check_value(f"{name}: {key}={value}", known[key], value)
    if "smooth_value" in chosen and chosen.get("smooth") not in {"floor", "add-k"}:
        raise SpecError(f"{name}: smooth_value requires smooth=floor or smooth=add-k.")
    changed = [f"{key}={chosen[key]}" for key in known if chosen.get(key, known[key].default) != known[key].default]
    return ";".join([metric, *changed])


def _check_value(where: str, option: Option, value: str) -> str:
    if option.type == "yes_no":
        spelled = {"yes": "yes", "no": "no", "true": "yes", "false": "no"}.get(value.lower())
        if spelled is None:
            raise SpecError(f"{where}: expected yes or no.")
        return spelled
    if option.type == "number":
        is_order = option.argument != "smooth_value"
        is_number = re.fullmatch(r"[0-9]{1,3}" if is_order else r"[0-9]{1,9}(\.[0-9]{1,9})?", value)
        minimum = 1 if option.argument == "char_order" else 0
        if not is_number or not minimum <= float(value) <= MAX_NUMBER:
            raise SpecError(f"{where}: expected a {'whole ' * is_order}number from {minimum} to {MAX_NUMBER}.")
        return value
    from sacrebleu.metrics.bleu import BLEU

    if value not in (choices := getattr(BLEU, option.type)):
        raise SpecError(f"{where}: {menu(value, choices)}.")
    return value


def settings_of(name: str) -> tuple[str, dict[str, Any]]:
    """Return the metric and the arguments of SacreBLEU's class for a canonical name."""
    metric, *fields = name.split(";")
    settings = dict[str, Any]()
    for field in fields:
        key, _, value = field.partition("=")
        option = OPTIONS[metric][key]
        if option.type == "yes_no":
            settings[option.argument] = value == "yes"
        elif option.type == "number":
            settings[option.argument] = float(value) if option.argument == "smooth_value" else int(value)
        else:
            settings[option.argument] = value
    return metric, settings


def label_of(name: str) -> str:
    """Return the heading of the metric's column.

    >>> label_of("bleu"), label_of("bleu;tok=zh")
    ('BLEU', 'BLEU (tok=zh)')
    """
    metric, _, options = name.partition(";")
    return LEXICAL_NAMES[metric] + (f" ({options.replace(';', ', ')})" if options else "")


def lexical_of_signature(signature: str) -> str | None:
    """Return the canonical name for a SacreBLEU signature; None for any other signature.

    >>> lexical_of_signature("BLEU|nrefs:1|case:lc|eff:no|tok:zh|smooth:floor[0.10]|version:2.6.0")
    'bleu;lowercase=yes;tok=zh;smooth=floor;smooth_value=0.10'
    """
    head, *fields = signature.split("|")
    stated = dict(field.split(":", 1) for field in fields if ":" in field)
    metric = next((name for name, title in LEXICAL_NAMES.items() if title == head), None)
    if metric is None:
        return None
    method, _, value = stated.pop("smooth", "exp").partition("[")
    keys = {"smooth": method, "smooth_value": value.removesuffix("]")} if metric == "bleu" else {}
    for name, option in OPTIONS[metric].items():
        field, colon, yes = option.signed.partition(":")
        if field in stated:
            if colon and stated[field] not in {"yes", "no", "lc", "mixed"}:
                return None
            keys[name] = ("yes" if stated[field] == yes else "no") if colon else stated[field]
    try:
        return canonical_lexical(";".join([metric, *(f"{key}={text}" for key, text in keys.items() if text)]))
    except SpecError:
        return None


def warn_about_words(name: str, texts: Iterable[Sequence[str]]) -> None:
    """Warn if the default tokenizer of BLEU or TER meets text without spaces between words.

    TER splits Chinese and Japanese only with both options; BLEU's rule counts Korean too, whose words are long.
    """
    metric, settings = settings_of(name)
    splits_words = settings.get("tokenize", "13a") != "13a"
    if metric == "ter":
        splits_words = settings.get("normalized", False) and settings.get("asian_support", False)
    if metric == "chrf" or splits_words:
        return
    scripts = CJK if metric == "bleu" else CJK[:-1]
    left, letters, found = SAMPLE, 0, 0
    for text in (text for stream in texts for text in stream):
        kept = [c for c in text[:left] if c.isalpha()]
        letters += len(kept)
        found += sum(c > "\u02ff" and unicodedata.name(c, "").startswith(scripts) for c in kept)
        left -= len(text)
        if left <= 0:
            break
    if letters and found > CJK_SHARE * letters:
        warn(
            "BLEU's default tokenizer (tok:13a) splits at spaces, which Chinese, Japanese and Korean texts lack: use "
            "bleu;tok=zh, ja-mecab or ko-mecab, or flores200 for all of them."
            if metric == "bleu"
            else "TER splits at spaces, which Chinese and Japanese texts lack: use "
            "ter;normalized=yes;asian_support=yes."
        )
