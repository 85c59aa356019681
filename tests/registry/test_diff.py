from __future__ import annotations

from typing import Any

import pytest

from tests.conftest import Run
from tests.registry.test_signature import DEPENDENT, VALUES, canonical, whole
from twmd_registry.errors import SignatureError
from twmd_registry.registry.diff import compare_signatures, labels_of
from twmd_registry.registry.metric_spec import MetricSpec
from twmd_registry.registry.metrics import CATALOGUE
from twmd_registry.registry.names import MetricName
from twmd_registry.registry.presets import presets
from twmd_registry.registry.signature import Signature, parse_signature
from twmd_registry.registry.spec import make_spec

TWMD = canonical(presets()[MetricName.TWMD, "embedded"])
STSSCORE = canonical(presets()[MetricName.STSSCORE, "embedded"])


def changed(signature: Signature, **keys: Any) -> Signature:
    return Signature(signature.spec.replace(**keys), signature.nrefs, version=signature.version)


def test_same_signature_has_no_differences_as_text_or_parsed() -> None:
    for other in (TWMD.format(short=True), parse_signature(TWMD.format(short=True))):
        for one in (TWMD, str(TWMD)):
            found = compare_signatures(one, other)
            assert (found.differences, found.comparable) == ((), True)
    with pytest.raises(SignatureError, match="column 1"):
        compare_signatures(str(TWMD), "no signature")


@pytest.mark.parametrize("metric", MetricName)
def test_every_different_key_is_named_and_rules_out_comparison(metric: MetricName) -> None:
    for key in CATALOGUE[metric].keys:
        if key == "revision":
            continue
        signature = Signature(whole(metric, key))
        unused = DEPENDENT.get(key, set()) & signature.spec.values().keys()
        changes = {key: VALUES[key][1], **dict.fromkeys(unused)}
        changes |= {"fingerprint": "ffffffffffff"} if key == "model" else {}
        found = compare_signatures(signature, changed(signature, **changes))
        assert {what.partition(":")[0] for what, _ in found.differences} == {key, *unused}
        assert not found.comparable


@pytest.mark.parametrize(
    ("one", "other", "words", "comparable"),
    [
        (TWMD, STSSCORE, "metric: twmd and stsscore are different metrics", False),
        (TWMD, changed(TWMD, fingerprint="ffffffffffff"), "with contents @21de63af9d45 and @ffffffffffff", False),
        (TWMD, changed(TWMD, model="./my-copy"), "v2 and ./my-copy, with the same content (@21de63af9d45)", True),
        (TWMD, changed(TWMD, fingerprint=None), "does not name the content", True),
        (changed(TWMD, fingerprint=None), changed(TWMD, fingerprint=None), "does not name the content", True),
        (TWMD, changed(TWMD, revision="v1"), "revision: none and v1, with the same content", True),
        (
            *(changed(TWMD, fingerprint=None, revision=revision) for revision in ("v2", "v1")),
            "revision: v2 and v1 of",
            False,
        ),
        (TWMD, changed(TWMD, dtype="bfloat16"), "dtype: float32 and bfloat16: ", False),
        (TWMD, Signature(TWMD.spec, 2), "nrefs: only one was written after scoring (nrefs:2)", True),
        (Signature(TWMD.spec, 1), Signature(TWMD.spec, 2), "nrefs: 1 and 2: more references make", False),
        (TWMD, Signature(TWMD.spec, version="0.0.9"), "nothing that moves these scores of twmd changed", True),
        (STSSCORE, Signature(STSSCORE.spec, version="0.0.9"), "1.0.0: Empty texts score 0.", False),
        (Signature(TWMD.spec, bs=1000), TWMD, "bs: 1000 and none (resampling: it moves intervals and", True),
    ],
)
@pytest.mark.usefixtures("older_version")
def test_difference_decides_comparability(one: Signature, other: Signature, words: str, comparable: bool) -> None:
    for pair in ((one, other), (other, one)):
        found = compare_signatures(*pair)
        assert found.comparable is comparable
        assert len(found.differences) == 1
        assert found.certain is ("does not name" not in words)
    assert words in compare_signatures(one, other).differences[0][0]


def test_diff_command_prints_differences(run: Run, older_version: str) -> None:
    def diff(one: object, other: object) -> tuple[int, str]:
        return run("diff", str(one), str(other))[:2]

    same = "The signatures are the same.\n\nTheir numbers may be compared (on the same texts).\n"
    assert diff(TWMD, TWMD.format(short=True)) == (0, same)
    status, out = diff(TWMD, changed(TWMD, temperature=0.2, output="recall"))
    assert "- output: f1 and recall (the side that is the score)" in out
    assert "- temperature: 0.15 and 0.2 (T of the tempered plan; low values are greedy)" in out
    assert (status, out.endswith("Their numbers may NOT be compared.\n")) == (1, True)
    status, out = diff(TWMD, changed(TWMD, fingerprint=None))
    assert (status, "may be compared (on the same texts, and if the model was the same).\n" in out) == (0, True)
    assert diff(TWMD, "twmd|nothing")[0] == 2
    status, out = diff(STSSCORE, str(STSSCORE).replace("1.0.0", older_version))
    assert (status, "Empty texts score 0." in out) == (1, True)


OPEN = make_spec("twmd", model="a/b", layer=1)


@pytest.mark.parametrize(
    ("specs", "labels"),
    [
        ([make_spec("twmd", layer=6)], ["twmd"]),
        ([make_spec("twmd"), make_spec("sbert", layer=6)], ["twmd", "sbert"]),
        (
            [make_spec("twmd", layer=4), make_spec("twmd", layer=6), make_spec("twmd", layer=6, temperature=0.5)],
            ["twmd layer=4 temperature=0.1", "twmd layer=6 temperature=0.1", "twmd layer=6 temperature=0.5"],
        ),
        ([make_spec("twmd"), make_spec("twmd", ngram=2)], ["twmd", "twmd ngram=2"]),
        ([OPEN.replace(fingerprint="0" * 12), OPEN], [f"twmd model=b@{'0' * 12}", "twmd model=b"]),
        (
            [
                *(make_spec("ensemble", members=members) for members in ("twmd;layer=4,2*sbert", "twmd;layer=6,sbert")),
                make_spec("twmd"),
            ],
            ["ensemble(twmd layer=4,2*sbert)", "ensemble(twmd layer=6,sbert)", "twmd"],
        ),
        ([make_spec("ensemble", members="twmd,sbert")], ["ensemble"]),
        (
            [make_spec("twmd", adapter=f"/a/long/path/to/seed{seed}") for seed in (1, 2)],
            ["twmd adapter=seed1", "twmd adapter=seed2"],
        ),
        (
            [make_spec("twmd"), make_spec("twmd", model="sentence-transformers/all-mpnet-base-v2", layer=8)],
            ["twmd model=all-MiniLM-L6-v2", "twmd model=all-mpnet-base-v2"],
        ),
        ([make_spec("twmd")] * 3, ["twmd", "twmd#2", "twmd#3"]),
        ([], []),
    ],
)
def test_settings_of_one_metric_are_labelled_by_their_differences(specs: list[MetricSpec], labels: list[str]) -> None:
    assert labels_of(specs) == labels
