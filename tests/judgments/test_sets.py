"""Names of rated data."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import numpy as np
import pytest

from tests.conftest import shared
from tests.judgments.test_mt_metrics_eval import wmt
from tests.judgments.test_readers import written
from twmd_registry.errors import SpecError
from twmd_registry.judgments.rated import RatedSegments
from twmd_registry.judgments.sets import content_of, read_rated

RATED = RatedSegments(["a", "b"], ["One.", "Two."], ["1.", "2."], np.array([1.0, 0.0]), 3, ["x", "y"], ["s", "t"])


def test_format_keys_and_path_reach_the_reader(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = wmt(tmp_path / "a,b", "A\t1\nA\t2\n", {"A": "one\ntwo\n"}, "cs-en", "wmt-z")
    assert read_rated(f"mte:{folder},rating=wmt-z,pair=cs-en,reference=refA").ratings.tolist() == [1.0, 2.0]
    row = {"prediction": "One.", "references": ["1."], "informativeness": 2, "naturalness": 3, "quality": 4}
    path = written(tmp_path, json.dumps(row), "own.jsonl")
    keys = {"d2t:": 4, "d2t:,rating=naturalness": 3, "table:,reference=references,rating=quality": 4}
    for key, rating in keys.items():
        assert read_rated(key.replace(":", f":{path}")).ratings.tolist() == [rating]
    written(tmp_path, "prediction,reference,rating\nOne.,1.,2\n", "a:b.csv")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert read_rated("table:~/a:b.csv").ratings.tolist() == [2.0]


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("wtm:x.jsonl", "did you mean 'wmt'. Choices: wmt, mlqe, sts, stsb, mrpc, qqp, mte, d2t, "),
        ("nowhere", "expected FORMAT:PATH, as in table:ratings.csv,rating=score, or a data set on the Hub; "),
        ("glue/mrcp", "or a data set on the Hub; did you mean 'glue/mrpc'. Choices: "),
        ("mte:wmt22,ratings=mqm", "no key 'ratings'; did you mean 'rating'. Choices: pair, rating, reference, humans,"),
        ("stsb:dev.csv,rating=3", "no key 'rating'; this format takes none."),
        ("d2t:x.jsonl,rating=a,rating=b", "expected rating=VALUE once."),
    ],
)
def test_malformed_or_unknown_name_is_refused(name: str, words: str) -> None:
    with pytest.raises(SpecError, match=words):
        read_rated(name)


def test_digest_is_of_compact_json_and_changes_with_every_field() -> None:
    compact_json = b'[["a","b"],["One.","Two."],[["1."],["2."]],[1.0,0.0],["x","y"],["s","t"]]'
    assert content_of(RATED) == hashlib.sha256(compact_json).hexdigest()[:12]
    same = RATED._replace(
        references=[["1."], "2."], ratings=np.array([1.0, -0.0]), dropped=0, predictions=list(RATED.predictions)
    )
    assert content_of(same) == content_of(RATED)
    changes: list[dict[str, object]] = [
        {"group": ["a", "c"]},
        {"predictions": ["One.", "Two. "]},
        {"references": ["1.", ["2.", "2."]]},
        {"ratings": np.array([1.0, np.nextafter(0, 1)])},
        {"item": None},
        {"item": ["x", "x"]},
        {"system": None},
        {"item": ["s", "t"], "system": ["x", "y"]},
        {name: list(reversed(getattr(RATED, name))) for name in RATED._fields[:4]},
        {"system_ratings": {("a", "s"): 1.0}},
        {"system_ratings": {("a", "s"): 1.5}},
    ]
    digests = [content_of(RATED._replace(**change)) for change in changes]  # type: ignore[arg-type]
    assert len({content_of(RATED), *digests}) == 1 + len(changes)


@pytest.mark.filterwarnings("ignore:.*left out")
@pytest.mark.parametrize(
    ("form", "path", "sizes", "mean"),
    [
        ("stsb", "stsb/dev.csv", (1500, 0, 1), 2.364),
        ("mrpc", "mrpc/msr_paraphrase_train.txt", (4076, 0, 1), 0.675),
        ("sts", "sts/STS12", (3108, 0, 5), 3.506),
        ("sts", "sts/STS13", (1500, 750, 3), 2.336),  # the sentences of SMT are not distributed
        ("d2t", "d2t/bagel.jsonl", (404, 0, 1), 4.655),
        ("mlqe", "mlqe/dev.jsonl.xz", (7000, 0, 7), 0.007),
        ("summaries", "summaries/realsumm.jsonl.xz", (2400, 0, 24), 0.458),
        ("summaries", "summaries/summeval.jsonl.xz,rating=coherence", (1600, 0, 16), 3.413),
    ],
)
def test_public_data_have_their_published_sizes(form: str, path: str, sizes: tuple[int, int, int], mean: float) -> None:
    name, comma, key = path.partition(",")
    rated = read_rated(f"{form}:{shared(f'data/{name}')}{comma}{key}")
    assert (len(rated.ratings), rated.dropped, len(set(rated.system or rated.group))) == sizes
    assert rated.ratings.mean() == pytest.approx(mean, abs=5e-4)
    assert not [text for text in rated.references if form == "mlqe" and " ," in text]  # they are detokenised
