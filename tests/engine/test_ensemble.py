"""Ensembles: the mean of their members, in every face."""

from __future__ import annotations

import pickle
import shutil
from pathlib import Path

import numpy as np
import pytest

import twmd_registry
from tests import tiny
from twmd_registry.cli import main
from twmd_registry.engine.baseline import BASELINE
from twmd_registry.engine.scorer import score_all
from twmd_registry.errors import ModelError, SpecError
from twmd_registry.models.files import packaged_adapters
from twmd_registry.models.fitted import save

PREDICTIONS = ["the cat sat on the mat", "it rains", "nobody answered the door"]
REFERENCES = [
    ["a cat was sitting on the mat", "the dog"],
    ["it is raining"],
    ["the door stayed shut", "no one opened", "a bell"],
]


def test_it_is_the_weighted_mean_of_its_members_segment_by_segment() -> None:
    found = twmd_registry.scorer("ensemble(3*stsscore,bertscore_centered;output=recall,0.5*twmd;multiref=mean)").score(
        PREDICTIONS, REFERENCES
    )
    keys = [("stsscore", {}), ("bertscore_centered", {"output": "recall"}), ("twmd", {"multiref": "mean"})]
    each = [twmd_registry.scorer(metric, **own).score(PREDICTIONS, REFERENCES).scores for metric, own in keys]
    np.testing.assert_allclose(
        found.scores, (3 * np.array(each[0]) + np.array(each[1]) + 0.5 * np.array(each[2])) / 4.5, atol=1e-12
    )
    assert found.score == pytest.approx(np.mean(found.scores))


def test_among_others_it_scores_as_alone() -> None:
    names = ["twmd", "ensemble(sbert,twmd)", "stsscore", "ensemble"]
    together = score_all([twmd_registry.scorer(name) for name in names], PREDICTIONS, REFERENCES)
    for name, found in zip(names, together, strict=True):
        np.testing.assert_allclose(
            found.scores, twmd_registry.scorer(name).score(PREDICTIONS, REFERENCES).scores, atol=1e-6
        )


def test_default_is_the_papers() -> None:
    members = twmd_registry.scorer("ensemble").members
    assert [str(member.spec.metric) for member in members] == ["stsscore", "bertscore_centered", "sbert"]
    assert members[1].spec.baseline
    assert (members[2].spec.layer, members[2].spec.special, members[2].spec.vectors) == (6, "all", "raw")


def test_it_can_be_pickled_and_closed() -> None:
    with twmd_registry.scorer("ensemble(sbert,twmd)") as one:
        found = one.score(PREDICTIONS, REFERENCES)
        assert pickle.loads(pickle.dumps(one)).score(PREDICTIONS, REFERENCES) == found
    assert pickle.loads(pickle.dumps(found)) == found


def test_it_has_no_alignment_and_no_baseline() -> None:
    one = twmd_registry.scorer("ensemble(sbert,twmd)")
    with pytest.raises(SpecError, match="explain a member's scores"):
        one.score(PREDICTIONS, REFERENCES).explain(0)
    with pytest.raises(SpecError, match="an ensemble has no baseline of its own"):
        one.fit_baseline(["a", "b"])


def test_members_of_a_users_own_model_are_found_where_the_user_says(tmp_path: Path) -> None:
    folder = tiny.save_encoder("bert", tmp_path / "bert")
    found = twmd_registry.scorer(f"ensemble(sbert,twmd;model={folder};layer=1)").score(PREDICTIONS, REFERENCES)
    signature = str(found.signature)
    assert str(tmp_path) not in signature
    with pytest.raises(ModelError, match="name your copy of the model"):
        twmd_registry.scorer(signature).score(PREDICTIONS, REFERENCES)
    assert twmd_registry.scorer(signature, model=str(folder)).score(PREDICTIONS, REFERENCES).scores == found.scores


def test_part_of_one_member_does_not_stand_in_for_anothers(tmp_path: Path) -> None:
    adapter = shutil.copytree(packaged_adapters() / "stsb-siamese", tmp_path / "own")
    path = save(
        BASELINE, twmd_registry.scorer("sbert").fit_baseline(["a heron", "some bread", "rain"], pairs=6), tmp_path
    )
    rescaled = "bertscore_centered;centering=none;baseline=d6bd8bc4d4c0"
    for members, parts in (
        (f"stsscore,stsscore;adapter={adapter};scale=4", {"adapter": str(adapter)}),
        (f"sbert;baseline={path},{rescaled}", {"baseline": str(path)}),
    ):
        found = twmd_registry.scorer(f"ensemble({members})").score(PREDICTIONS, REFERENCES)
        assert twmd_registry.scorer(str(found.signature), **parts).score(PREDICTIONS, REFERENCES).scores == found.scores


@pytest.mark.parametrize("member", ["twmd;centering=batch;centering_size=2", "twmd;dtype=bfloat16"])
def test_member_scores_as_it_does_alone(member: str) -> None:
    found = twmd_registry.scorer(f"ensemble({member})").score(PREDICTIONS, REFERENCES)
    keys = dict(part.split("=") for part in member.split(";")[1:])
    assert found.scores == twmd_registry.scorer("twmd", **keys).score(PREDICTIONS, REFERENCES).scores


def test_command_line_scores_records_verifies_and_cites_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    hyp, ref, record = (tmp_path / name for name in ("hyp.txt", "ref.txt", "record.json"))
    hyp.write_text("\n".join(PREDICTIONS), encoding="utf-8")
    ref.write_text("\n".join(texts[0] for texts in REFERENCES), encoding="utf-8")
    expected = twmd_registry.scorer("ensemble(sbert,2*twmd)").score(PREDICTIONS, [texts[0] for texts in REFERENCES])
    assert (
        main(["score", str(ref), "-i", str(hyp), "-m", "ensemble(sbert,2*twmd)", "twmd", "--record", str(record)]) == 0
    )
    out = capsys.readouterr().out
    assert f"{expected.score:.4f}" in out
    assert main(["verify", str(record), "--refs", str(ref), "--hyps", str(hyp)]) == 0
    assert "2 of 2 results hold" in capsys.readouterr().out
    assert main(["verify", str(expected.signature), f"{expected.score:.4f}", str(ref), "-i", str(hyp)]) == 0
    assert main(["cite", str(record)]) == 0
    assert "Ensemble" in capsys.readouterr().out
