from __future__ import annotations

import dataclasses
import random
import re
from pathlib import Path
from typing import Any, cast, get_args

import pytest

import twmd_registry
from twmd_registry import Scorer
from twmd_registry.cli import main
from twmd_registry.errors import SignatureError, SpecError, TwmdWarning
from twmd_registry.registry.keys import KEYS
from twmd_registry.registry.metric_spec import AppliedSpec, MetricSpec, WeightedSpec, write_members
from twmd_registry.registry.metrics import CATALOGUE, SENTENCE_KEYS, TAIL_KEYS
from twmd_registry.registry.names import CENTERINGS, OUTPUTS, Dtype, MetricName, Multiref, Objective, Special, Vectors
from twmd_registry.registry.options import PartKeys
from twmd_registry.registry.presets import Preset, default_preset, presets
from twmd_registry.registry.signature import CHANGES, VERSIONS, Signature, changes_between, parse_signature
from twmd_registry.registry.spec import apply_preset, make_spec
from twmd_registry.version import __version__

R = random.Random(1)
HASH = "0123456789ab"
LENGTHS = [*range(1, 13)] * 3
VALUES: dict[str, list[Any]] = {
    "output": [*OUTPUTS],
    "members": [
        write_members(make_spec("ensemble", members=members).members)
        for members in ("moverscore,twmd", "moverscore,trwmd")
    ],
    "model": [
        "a/b",
        "c",
        *("".join(R.choices("ab/|:@%?#\u00e9 .-_~\u4e2d", k=length)).strip("~ ?") or "m" for length in LENGTHS),
    ],
    "revision": ["main", "v2", None, "v1|2:3%", "refs/pr/1"],
    "adapter": ["name@ba9876543210", f"a@{HASH}", None, f"./dir|x@{HASH}"],
    "layer": ["2-6", "1,3,7", 3, "0,1,5", *range(49)],
    "aggregation": ["mean", "concat", "pmeans:-inf,1,inf", "pmeans:3", "routing:gaussian", "routing:epanechnikov"],
    "special": [special for special in get_args(Special) if special != "partners"],
    "unknown": ["apart", None],
    "subwords": ["drop", None],
    "punctuation": ["drop", None, "drop-ascii"],
    "stopwords": [HASH, None],
    "stopword_unit": ["piece", None],
    "ngram": [2, None, 999, "sentence"],
    "idf": ["corpus", None, "references", f"background:{HASH}"],
    "centering": ["batch", *(kind for kind in CENTERINGS if kind not in {"batch", "sentence"}), f"background:{HASH}"],
    "centering_size": [32, 7, 10**6],
    "centering_side": ["joint", "separate"],
    "against": ["both", "source", None],
    "source_weight": [0.25, *(R.uniform(1e-6, 1) for _ in range(30))],
    "align": ["sentences", None],
    "padding": [64, None],
    "temperature": [0.15, *(10 ** R.uniform(-5.9, 5.9) for _ in range(30))],
    "iterations": [1, 2, 20, 10**4, "converged"],
    "objective": [*get_args(Objective)],
    "distance": ["sqeuclidean", None, "euclidean"],
    "transform": ["inverse", None],
    "vectors": [*get_args(Vectors)],
    "normalize": [True, False],
    "prompt": ["query", "none", "s2p query|:", None],
    "activation": ["sigmoid", None],
    "scale": [5.0, *(R.uniform(1e-6, 100) for _ in range(30))],
    "first": ["reference", None],
    "symmetric": [True, None],
    "clip": [True, None],
    "baseline": [HASH, None],
    "multiref": [*get_args(Multiref)],
    "truncation": ["cut", "cut:99", "cut:1000000", "window:50/50", "window:64/1"],
    "dtype": [*get_args(Dtype)],
}
"""Values of every key; None is the neutral one."""


EXCLUDED: dict[str, set[str]] = {
    "align": {"baseline", "against", "source_weight", "idf"},
    "first": {"symmetric"},
    "padding": {"ngram", "special"},
    "prompt": set(CATALOGUE[MetricName.SBERT].keys) - {*SENTENCE_KEYS, *TAIL_KEYS},
}
"""Keys of which each is left out unless it is looked at, and then those that have no meaning beside it."""
DEPENDENT = {
    "centering": {"centering_size", "centering_side"},
    "against": {"source_weight"},
    "stopwords": {"stopword_unit"},
}
"""Keys that another value of one leaves without a meaning."""


def whole(metric: MetricName, key: str = "") -> AppliedSpec:
    """Return a specification in which every key of the metric has its first value, but those that exclude `key`."""
    without = EXCLUDED.get(key, set()) | (EXCLUDED.keys() - {key})
    keys: dict[str, Any] = {name: VALUES[name][0] for name in CATALOGUE[metric].keys if name not in without}
    keys |= {"special": "partners"} if key == "padding" else {}
    return AppliedSpec(metric=metric, fingerprint=HASH if "model" in keys else None, **keys)


SINGLE = [metric for metric in MetricName if metric is not MetricName.ENSEMBLE]


def random_spec(r: random.Random, *, single: bool = False) -> AppliedSpec:  # noqa: PLR0912 (a rule per branch)
    """Any valid specification, however unusual."""
    metric = r.choice(SINGLE if single else list(MetricName))
    if metric is MetricName.ENSEMBLE:
        weights = [r.choice([1.0, 2.0, r.uniform(1e-6, 1e6)]) for _ in range(r.randint(1, 3))]
        return AppliedSpec(
            metric=metric, members=[WeightedSpec(weight, random_spec(r, single=True)) for weight in weights]
        )
    keys = {name: r.choice(VALUES[name]) for name in CATALOGUE[metric].keys}
    if "," not in (layers := str(keys.get("layer"))) and "-" not in layers:
        keys.pop("aggregation", None)
    if metric is MetricName.SBERT and r.random() > 0.3:
        keys.pop("prompt")
    elif metric is MetricName.SBERT:
        keys = {name: value for name, value in keys.items() if name in {*SENTENCE_KEYS, *TAIL_KEYS}}
        keys["truncation"] = "cut"
    if keys.get("padding"):
        keys |= {"special": "partners", "ngram": None}
    if not keys.get("stopwords"):
        keys.pop("stopword_unit", None)
    if keys.get("symmetric"):
        keys["first"] = None
    if keys.get("baseline") or keys.get("against") or keys.get("idf") in {"corpus", "references"}:
        keys["align"] = None
    if metric is MetricName.STSSCORE and "window" in keys["truncation"]:
        keys["truncation"] = "cut"
    if keys.get("against") != "both":
        keys["source_weight"] = None
    if keys.get("against") and str(keys.get("centering")).startswith("background") and r.random() < 0.5:
        keys["centering"] = f"background:{HASH}+{HASH[::-1]}"
    if keys.get("centering") not in {"batch", "corpus"}:
        keys["centering_side"] = None
    if keys.get("centering") != "batch":
        keys["centering_size"] = None
    return AppliedSpec(
        metric=metric,
        fingerprint=r.choice([None, f"{r.getrandbits(48):012x}"]),
        **{name: value for name, value in keys.items() if value is not None},
    )


def random_signature(r: random.Random) -> Signature:
    extra: dict[str, Any] = {name: r.choice([None, 1, 1000]) for name in ("bs", "ar", "seed")}
    return Signature(random_spec(r), r.choice([None, 0, 1, 12, "var"]), **extra)


def test_random_signatures_are_unique_and_parse_back() -> None:
    r = random.Random(20260101)
    seen: dict[str, Signature] = {}
    for _ in range(1_000):
        signature = random_signature(r)
        for short in (False, True):
            text = signature.format(short=short)
            assert parse_signature(text) == signature
            assert seen.setdefault(text, signature) == signature
    assert len(set(seen.values())) > 990


@pytest.mark.parametrize("metric", MetricName)
def test_every_key_is_in_the_signature_and_changes_it(metric: MetricName) -> None:
    for key in (*CATALOGUE[metric].keys, *(["fingerprint"] if metric is not MetricName.ENSEMBLE else [])):
        spec = whole(metric, key)
        assert key in {*spec.values(), "fingerprint"}
        changes: dict[str, Any] = {key: VALUES[key][1] if key in VALUES else "ffffffffffff"}
        other = spec.replace(**changes | dict.fromkeys(DEPENDENT.get(key, set()) & spec.values().keys()))
        assert other != spec
        assert str(Signature(other)) != str(Signature(spec)), key


def test_every_field_is_a_key_with_a_unique_short_name_in_signature_order() -> None:
    fields = {field.name for field in dataclasses.fields(MetricSpec)}
    assert fields | {"centering_size", "centering_side"} == set(KEYS) | {"metric", "fingerprint"}
    assert set(VALUES) == set(KEYS)
    may_be_none = {name for name, values in VALUES.items() if None in values} - {"revision", "adapter"}
    assert may_be_none == {name for name, key in KEYS.items() if key.neutral is not None} - {"aggregation"}
    assert {key for entry in CATALOGUE.values() for key in entry.keys} == set(KEYS)
    shorts, order = [key.short for key in KEYS.values()], list(KEYS)
    assert len(set(shorts)) == len(shorts)
    assert all(0 < len(short) <= 2 for short in shorts)
    assert all(list(entry.keys) == sorted(entry.keys, key=order.index) for entry in CATALOGUE.values())


def canonical(preset: Preset) -> Signature:
    """Return the signature of a preset before scoring."""
    return Signature(AppliedSpec.of(apply_preset(preset, {})))


WHOLE = str(canonical(presets()[MetricName.TWMD, "embedded"]))


@pytest.mark.parametrize(
    ("before", "after", "at", "words"),
    [
        ("twmd|", "BLEU|", "BLEU", "this signature is SacreBLEU's"),
        ("twmd|", "nothing|", "nothing", "unknown metric 'nothing'"),
        ("output:f1", "output:f9", "output", "output='f9' is not possible"),
        ("output:f1|", "output:f1|colour:red|", "colour", "'colour:red' is not one of this"),
        ("output:f1|", "output:f1|output:f1|", "output:f1|model", "'output' is repeated or out of"),
        ("layer:4|special:all", "special:all|layer:4", "layer:4", "'layer' is repeated or out of"),
        ("output:f1", "output", "output", "'output' is not one of this"),
        ("layer:4", "layer:\ud800", "\ud800", "lone surrogate"),
        ("layer:4", "layer:\u0664", "layer", "is not possible: expected a whole"),
        ("layer:4", "layer:?", "layer", "layer is blank"),
        ("temperature:0.15", "temperature:nan", "temperature", "expected a number from 1e-6 to 1e6"),
        ("temperature:0.15|", "", "END", "temperature is missing: the"),
        ("@21de63af9d45", "@0336012e230", "END", "@0336012e230 is not the content of"),
        ("centering:none", "centering:background%3A..%2Fx", "END", "names a file: a signature names it"),
        *(
            (before, f"|{field}{before}", "END", "names a file: a signature names ")
            for before, field in (
                ("|centering", "stopwords:%2Ftmp%2Fx%3A0123456789ab"),
                ("|centering", "stopwords:words.txt"),
                ("|centering", "idf:background%3A%2Ftmp%3A0123456789ab"),
                ("|multiref", "baseline:x.json"),
            )
        ),
        ("centering:none", "centering:batch", "END", "centering_size is missing"),
        ("g:none", "g:none|centering_size:3", "END", "centering_size has no effect with"),
        ("special:all", "special:partners", "END", "special=partners"),
        ("cut%3A512", "cut%ff", "truncation", "is not percent-encoded UTF-8"),
        ("version:1.0.0", "version:9.9.9", "version", "'9.9.9'"),
        ("|version", "|nrefs:00|version", "nrefs", "nrefs: expected"),
        ("|version", "|bs:many|version", "bs", "not 'many'"),
        ("|version:1.0.0", "", "END", "version is missing: "),
    ],
)
def test_broken_signature_is_refused_with_its_column(before: str, after: str, at: str, words: str) -> None:
    assert before in WHOLE
    text = WHOLE.replace(before, after, 1)
    column = len(text) + 1 if at == "END" else text.index(at) + 1
    with pytest.raises(SignatureError, match=rf"^column {column}: ") as caught:
        parse_signature(text)
    assert words in str(caught.value)


@pytest.mark.parametrize("part", ["stopwords", "idf", "baseline", "background", "adapter"])
@pytest.mark.parametrize("signature", [WHOLE, WHOLE.replace("|centering", "|idf:corpus|centering")])
def test_part_missing_from_the_signature_is_refused(signature: str, part: str) -> None:
    with pytest.raises(SpecError, match=f"{part}='x' .*names no {part}"):
        Scorer.from_signature(signature, **cast("PartKeys", {part: "x"}))


def test_other_spellings_and_lengths_of_values_are_read_or_refused() -> None:
    for text in ("", "twmd", "|", "twmd|", "twmd|version:1.0.0"):
        with pytest.raises(SignatureError, match=r"^column \d+: "):
            parse_signature(text)
    with pytest.raises(SignatureError, match="10000000"):
        parse_signature("twmd|" * 2_000_000)
    expected = parse_signature(WHOLE)
    for before, after in (
        ("layer:4", "layer:04"),
        ("normalize:yes", "normalize:true"),
        ("cut%3A512", "cut:512"),
        ("cut%3A512", "%63ut%3a512"),
        ("temperature:0.15", "temperature:0.150"),
    ):
        assert before in WHOLE
        assert parse_signature(WHOLE.replace(before, after, 1)) == expected


@pytest.mark.parametrize("metric", SINGLE)
def test_older_version_is_read_with_a_warning_about_changes(metric: MetricName, older_version: str) -> None:
    now = str(canonical(presets()[metric, "embedded"]))
    with pytest.warns(TwmdWarning, match=f"written by version {older_version}") as caught:
        old = parse_signature(now.replace(f"version:{__version__}", f"version:{older_version}"))
    assert old.spec == parse_signature(now).spec
    message = str(caught[0].message)
    assert ("Empty texts score 0." in message) is (metric is MetricName.STSSCORE)
    assert ("nothing that moves these scores" in message) is (metric is not MetricName.STSSCORE)


GOLDEN = Path(__file__).with_name("canonical.tsv")
CHANGELOG = (Path(__file__).resolve().parents[2] / "CHANGELOG.md").read_text(encoding="utf-8")


def test_canonical_signatures_are_the_golden_ones(capsys: pytest.CaptureFixture[str]) -> None:
    # A line that differs is a change of a published score: a new version, a line in signature.py and in the changelog,
    # and then `twmd explain --signatures > tests/registry/canonical.tsv`.
    assert main(["explain", "--signatures"]) == 0
    assert capsys.readouterr().out == GOLDEN.read_text(encoding="utf-8")


@pytest.mark.parametrize("metric", MetricName)
def test_signature_recreates_the_scorer(metric: MetricName) -> None:
    texts = ["the cat sat", "it rains"], [["a cat sat"], ["it pours", "rain"]]
    by_name = twmd_registry.load(metric).score(*texts)
    expected = str(canonical(default_preset(metric, None)))
    assert str(by_name.signature) == expected.replace("|version:", "|nrefs:var|version:")
    for text in (str(by_name.signature), by_name.signature.format(short=True)):
        assert twmd_registry.load(text).score(*texts) == by_name


def test_ensemble_changes_are_its_members_changes(older_version: str) -> None:
    spec = make_spec("ensemble", members="stsscore,sbert")
    assert changes_between(spec, older_version, __version__) == ["1.0.0: Empty texts score 0."]
    assert changes_between(spec, __version__, __version__) == []


def test_versions_match_the_package_and_the_changelog() -> None:
    assert VERSIONS[-1] == __version__
    assert re.findall(r"^## (\d\S*)", CHANGELOG, flags=re.MULTILINE) == list(reversed(VERSIONS))
    assert all(f"- {what}" in CHANGELOG for _, _, what in CHANGES)
