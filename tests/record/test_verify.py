"""Verifying: what holds is said to hold, and whatever was tampered with is named."""

from __future__ import annotations

import dataclasses
import io
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import sacrebleu
import torch

import twmd_registry
from tests import tiny
from tests.conftest import Texts as Pairs
from twmd_registry.cli import main
from twmd_registry.errors import InputError, ModelError, SpecError
from twmd_registry.plugins.sacrebleu.compare import ComparisonRequest, ScoredMetricColumn, compare_systems
from twmd_registry.plugins.sacrebleu.verify import verify_record as verify_whole
from twmd_registry.record.comparison import SignificanceTest
from twmd_registry.record.content import Record, RecordedScores, Resampling, make_record
from twmd_registry.record.verify import TOLERANCES, SystemTexts, verify_number, verify_record
from twmd_registry.registry.artifacts import Parts
from twmd_registry.registry.names import Dtype, MetricName

Edit = Callable[[RecordedScores], RecordedScores]
PREDICTIONS = ["the cat sat on the mat", "it rains again", "we saw a dog"]
REFERENCES = [["a cat sat on a mat"], ["it is raining", "rain"], ["we saw the dog today"]]
TEXTS = SystemTexts(PREDICTIONS, REFERENCES)


def record_of(*scorers: twmd_registry.Scorer, texts: SystemTexts = TEXTS) -> Record:
    return make_record([("sys", twmd_registry.score_all(scorers, *texts))], seconds=1.0)


def edited(record: Record, edit: Edit) -> Record:
    (system,) = record.systems
    return dataclasses.replace(record, systems=(dataclasses.replace(system, results=tuple(map(edit, system.results))),))


@pytest.fixture(scope="module")
def record() -> Record:
    return record_of(*(twmd_registry.scorer(metric) for metric in MetricName))


def test_what_was_recorded_holds(record: Record) -> None:
    found = verify_record(record, [TEXTS])
    assert found.agrees
    assert len(found.checks) == len(MetricName)
    assert all(check.tolerance == 1e-5 and not check.problems for check in found.checks)
    assert found.differences == ()


def test_half_precision_has_a_tolerance_of_its_own() -> None:
    found = verify_record(record_of(twmd_registry.scorer("twmd", dtype="bfloat16")), [TEXTS])
    assert found.agrees
    assert found.checks[0].tolerance == TOLERANCES[Dtype.BFLOAT16]


def problems(record: Record, texts: SystemTexts = TEXTS, parts: Parts | None = None) -> list[str]:
    """What is said against the first entry that does not hold, each once."""
    found = verify_record(record, [texts], parts=parts)
    assert not found.agrees
    return list(dict.fromkeys(problem for check in found.checks for problem in check.problems))


class TestTampering:
    def test_a_changed_segment_score_is_named_with_its_segment(self, record: Record) -> None:
        def edit(result: RecordedScores) -> RecordedScores:
            return dataclasses.replace(result, scores=(*result.scores[:1], result.scores[1] + 0.01, *result.scores[2:]))

        (check, *_) = verify_record(edited(record, edit), [TEXTS]).checks
        assert (check.off, check.worst[0].number, check.worst[0].prediction) == (1, 2, "it rains again")
        assert check.worst[0].recorded - check.worst[0].found == pytest.approx(0.01, abs=1e-5)
        assert "is not the mean of the recorded segments' scores" in check.problems[0]
        assert not check.agrees

    def test_a_changed_corpus_score_is_named(self, record: Record) -> None:
        found = problems(edited(record, lambda result: dataclasses.replace(result, score=result.score + 0.001)))
        assert any("is not the mean" in problem for problem in found)
        assert any("scores: the corpus score is" in problem for problem in found)

    def test_a_changed_side_is_named(self, record: Record) -> None:
        found = problems(
            edited(record, lambda result: dataclasses.replace(result, sides=result.sides | {"recall": 0.99}))
        )
        assert any("the corpus recall is" in problem and "recorded as 0.990000" in problem for problem in found)

    def test_a_changed_count_is_named(self, record: Record) -> None:
        found = problems(
            edited(record, lambda result: dataclasses.replace(result, counts=result.counts | {"truncated": 7}))
        )
        assert any(problem.startswith("counts:") for problem in found)

    def test_a_changed_signature_field_is_named(self, record: Record) -> None:
        def edit(result: RecordedScores) -> RecordedScores:
            return dataclasses.replace(
                result, signature=result.signature.replace("temperature:0.15", "temperature:0.1")
            )

        assert "edited: the signature says temperature=0.1, the record's keys say temperature=0.15" in problems(
            edited(record, edit)
        )

    def test_a_field_changed_in_signature_and_keys_moves_the_scores(self, record: Record) -> None:
        def edit(result: RecordedScores) -> RecordedScores:
            signature = result.signature.replace("|layer:4|", "|layer:3|").replace("|layer:6|", "|layer:3|")
            return dataclasses.replace(
                result, signature=signature, keys=result.keys | ({"layer": "3"} if "layer" in result.keys else {})
            )

        (check, *_) = verify_record(edited(record, edit), [TEXTS]).checks
        assert check.off == 3

    def test_a_broken_signature_is_named_by_its_column(self, record: Record) -> None:
        found = problems(edited(record, lambda result: dataclasses.replace(result, signature=result.signature + "9")))
        assert all(problem.startswith("signature: column ") for problem in found)

    def test_a_changed_number_of_references_is_named(self, record: Record) -> None:
        found = problems(
            edited(
                record,
                lambda result: dataclasses.replace(result, signature=result.signature.replace("nrefs:var", "nrefs:1")),
            )
        )
        assert "applied: nrefs is var, signed as 1" in found
        assert "edited: the signature says nrefs=1, the record's keys say nrefs=var" in found

    @pytest.mark.parametrize(
        ("before", "after", "words"),
        [
            ("|nrefs:var", "", "edited: the signature says nrefs=nothing, the record's keys say nrefs=var"),
            (
                "|version:0.3.0",
                "|version:0.0.9",
                "edited: the signature says version=0.0.9, the record's keys say version=0.3.0",
            ),
            (
                "|nrefs:var",
                "|nrefs:var|bs:1000|seed:7",
                "edited: the signature says bs=1000, the record's keys say bs=nothing",
            ),
            (
                "@0336012e2308",
                "",
                "edited: the signature says fingerprint=nothing, the record's keys say fingerprint=0336012e2308",
            ),
        ],
    )
    @pytest.mark.usefixtures("older_version")
    def test_any_other_changed_field_is_named(self, record: Record, before: str, after: str, words: str) -> None:
        found = problems(
            edited(
                record, lambda result: dataclasses.replace(result, signature=result.signature.replace(before, after))
            )
        )
        assert words in found

    def test_older_version_reports_what_has_changed_since(self, older_version: str) -> None:
        record = edited(
            record_of(twmd_registry.scorer("stsscore")),
            lambda result: dataclasses.replace(
                result,
                signature=result.signature.replace("0.3.0", older_version),
                keys=result.keys | {"version": older_version},
            ),
        )
        found = verify_record(record, [TEXTS])
        assert found.agrees
        assert found.differences[0].startswith(f"versions: {older_version}; 0.3.0: Empty texts score 0.")

    def test_a_forged_entry_beside_a_true_one_is_named(self, record: Record) -> None:
        (system,) = record.systems
        forged = dataclasses.replace(
            system.results[0], score=0.99, scores=(0.99,) * 3, sides=dict.fromkeys(system.results[0].sides, 0.99)
        )
        for results in ((forged, *system.results), (*system.results, forged)):
            found = verify_record(
                dataclasses.replace(record, systems=(dataclasses.replace(system, results=results),)), [TEXTS]
            )
            assert [check.agrees for check in found.checks].count(False) == 1
            assert found.checks[results.index(forged)].off == 3

    @pytest.mark.parametrize("side", ["prediction", "reference"])
    def test_a_changed_text_is_named(self, record: Record, side: str) -> None:
        texts = SystemTexts([*PREDICTIONS], [[*row] for row in REFERENCES])
        if side == "prediction":
            texts.predictions[2] = "we saw a hog"
        else:
            texts.references[1][1] = "sun"
        found = verify_record(record, [texts])
        assert "texts: they are not the ones that were scored" in found.checks[0].problems
        if side == "prediction":
            assert [one.number for one in found.checks[0].worst] == [3]

    def test_a_flipped_byte_in_the_weights_is_named(self, tmp_path: Path) -> None:
        folder = tiny.save_encoder("bert", tmp_path / "bert")
        record = record_of(twmd_registry.scorer("twmd", model=str(folder), layer=2))
        assert verify_record(record, [TEXTS], parts=Parts(model=str(folder))).agrees
        weights = folder / "model.safetensors"
        before, content = weights.stat(), bytearray(weights.read_bytes())
        content[-1] ^= 1
        weights.write_bytes(content)
        os.utime(weights, ns=(before.st_atime_ns, before.st_mtime_ns))  # behind the back of any remembered hash
        (problem,) = problems(record, parts=Parts(model=str(folder)))
        assert problem.startswith("model content: model ")
        assert f"not @{record.systems[0].results[0].keys['fingerprint']} as asked for" in problem

    def test_a_flipped_byte_in_the_mean_vector_is_named(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("TWMD_HOME", str(tmp_path / "home"))
        monkeypatch.chdir(tmp_path)
        Path("corpus.txt").write_text("\n".join(PREDICTIONS), encoding="utf-8")
        assert main(["fit-mean", "corpus.txt"]) == 0
        (path,) = (tmp_path / "home" / "backgrounds").iterdir()
        digest = path.stem.removeprefix("mean-")
        record = record_of(twmd_registry.scorer("twmd", centering=f"background:{digest}"))
        assert verify_record(record, [TEXTS]).agrees
        content = bytearray(path.read_bytes())
        content[-1] ^= 1
        path.write_bytes(content)
        (problem,) = problems(record)
        assert (
            problem
            == f"model content: mean-{digest}.safetensors does not hold what its name says: it was changed or damaged."
        )

    def test_a_flipped_byte_in_the_adapter_is_named(self, tmp_path: Path) -> None:
        from twmd_registry.models.adapter import packaged_adapters

        folder = tmp_path / "mine"
        shutil.copytree(packaged_adapters() / "stsb-siamese", folder)
        record = record_of(twmd_registry.scorer("stsscore"))
        assert verify_record(record, [TEXTS], parts=Parts(adapter=str(folder))).agrees
        content = bytearray((folder / "adapter_model.safetensors").read_bytes())
        content[-1] ^= 1
        (folder / "adapter_model.safetensors").write_bytes(content)
        (problem,) = problems(record, parts=Parts(adapter=str(folder)))
        assert problem.startswith(f"model content: adapter {folder} has the content ")


class TestParts:
    def test_a_models_folder_is_never_taken_from_a_record(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.chdir(tmp_path)
        folder = tiny.save_encoder("bert", tmp_path / "bert")
        record = record_of(twmd_registry.scorer("twmd", model="bert", layer=1))
        assert record.systems[0].results[0].keys["model"] == "./bert"
        (problem,) = problems(record)
        assert (
            problem
            == "model content: the signature names a folder of its author's, './bert': say where your copy of the model is by model=FOLDER (--part model=FOLDER)."
        )
        assert verify_record(record, [TEXTS], parts=Parts(model=str(folder))).agrees

    def test_a_folder_serves_the_metric_it_belongs_to(self, tmp_path: Path) -> None:
        folder = tiny.save_encoder("bert", tmp_path / "bert")
        record = record_of(twmd_registry.scorer("twmd"), twmd_registry.scorer("trwmd", model=str(folder), layer=1))
        assert verify_record(record, [TEXTS], parts=Parts(model=str(folder))).agrees

    @pytest.mark.parametrize("name", ["/etc", "../x", "~root", "C:\\x", "a/b/c", ".", ".."])
    def test_paths_in_a_signature_are_not_looked_at(self, name: str, record: Record) -> None:
        from urllib.parse import quote

        signature = (
            record.systems[0]
            .results[0]
            .signature.replace("sentence-transformers/all-MiniLM-L6-v2", quote(name, safe="/"))
        )
        with pytest.raises(ModelError, match="the signature names a folder of its author's"):
            twmd_registry.scorer(signature).score(["a"], ["b"])
        adapted = record.systems[0].results[5].signature.replace("stsb-siamese", quote(name, safe="/"))
        with pytest.raises(ModelError, match="the signature names a folder of its author's"):
            twmd_registry.scorer(adapted).score(["a"], ["b"])

    def test_a_folder_that_has_a_hub_models_name_is_not_the_hub_model(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, record: Record
    ) -> None:
        monkeypatch.chdir(tmp_path)
        tiny.save_encoder("bert", tmp_path / "org" / "name")
        signature = (
            record.systems[0]
            .results[0]
            .signature.replace("sentence-transformers/all-MiniLM-L6-v2@0336012e2308", "org/name")
        )
        with pytest.raises(ModelError, match=r"get it with 'hf download org/name' where there is a network"):
            twmd_registry.scorer(signature).score(["a"], ["b"])

    def test_beside_a_signature_only_parts_and_options_are_taken(self, record: Record) -> None:
        signature = record.systems[0].results[0].signature
        with pytest.raises(SpecError, match="the signature fixes temperature: beside it, say only where its parts are"):
            twmd_registry.scorer(signature, temperature=1)
        with pytest.raises(SpecError, match="a signature says everything: preset='embedded' cannot be given beside it"):
            twmd_registry.scorer(signature, "embedded")

    def test_another_mean_vector_than_was_signed_is_refused(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.chdir(tmp_path)
        Path("corpus.txt").write_text("\n".join(PREDICTIONS), encoding="utf-8")
        assert main(["fit-mean", "corpus.txt", "-o", "means"]) == 0
        (path,) = (tmp_path / "means").iterdir()
        scorer = twmd_registry.scorer(twmd_registry.scorer("bertscore_centered").signature, background=str(path))
        with pytest.raises(ModelError, match=r"holds the mean vector [0-9a-f]{12}, not 370008ba2c06 as asked for"):
            scorer.score(["a"], ["b"])


class TestInput:
    def test_another_number_of_systems_is_refused(self, record: Record) -> None:
        with pytest.raises(InputError, match=r"the record holds 1 systems \(sys\), but texts of 2 were given"):
            verify_record(record, [TEXTS, TEXTS])

    def test_another_number_of_segments_is_refused(self, record: Record) -> None:
        with pytest.raises(InputError, match="sys: the record holds 3 segments, but there are 2 to score"):
            verify_record(record, [SystemTexts(PREDICTIONS[:2], REFERENCES[:2])])


@pytest.fixture(scope="module")
def score() -> twmd_registry.ScoreSet:
    return twmd_registry.scorer("twmd").score(*TEXTS)


class TestNumbers:
    @pytest.mark.parametrize("form", ["{:.4f}", "{:.2f}", "{:.0f}", "{:.8f}"])
    def test_a_rounded_number_agrees(self, score: twmd_registry.ScoreSet, form: str) -> None:
        found = verify_number(str(score.signature), form.format(score.score), TEXTS)
        assert (found.agrees, found.per_cent) == (True, False)

    @pytest.mark.parametrize("form", ["{:.2f}", "{:.1f}%", "{:.3f} %"])
    def test_a_percentage_agrees_and_is_said_to_be_one(self, score: twmd_registry.ScoreSet, form: str) -> None:
        found = verify_number(str(score.signature), form.format(100 * score.score), TEXTS)
        assert (found.agrees, found.per_cent) == (True, True)

    @pytest.mark.parametrize(("change", "digits"), [(0.001, 4), (-0.001, 4), (0.02, 2), (0.00005, 6)])
    def test_another_number_does_not(self, score: twmd_registry.ScoreSet, change: float, digits: int) -> None:
        assert not verify_number(str(score.signature), f"{score.score + change:.{digits}f}", TEXTS).agrees

    @pytest.mark.parametrize("value", ["", "about 0.8", "nan", "1e-1", "0,8", "--1", "%"])
    def test_what_is_no_number_is_refused(self, score: twmd_registry.ScoreSet, value: str) -> None:
        with pytest.raises(SpecError, match="is not a number as a paper prints it"):
            verify_number(str(score.signature), value, TEXTS)

    def test_another_number_of_references_is_refused(self, score: twmd_registry.ScoreSet) -> None:
        with pytest.raises(InputError, match="written for nrefs:var; these texts have nrefs:1"):
            verify_number(str(score.signature), "0.8", SystemTexts(PREDICTIONS, [row[:1] for row in REFERENCES]))


@pytest.fixture(scope="module")
def systems(texts: Pairs) -> list[SystemTexts]:
    references = [[text] for text in texts.references[:16]]
    return [
        SystemTexts(texts.predictions[:16], references),
        SystemTexts([*texts.predictions[:4], *texts.references[-12:]], references),
    ]


@pytest.fixture(scope="module")
def published(systems: list[SystemTexts]) -> dict[str, Record]:
    """Records of two systems by two of our metrics and two of SacreBLEU's, with a test or intervals, by the name of the
    test."""
    scorers = [twmd_registry.scorer("twmd"), twmd_registry.scorer("sbert")]
    sets = [twmd_registry.score_all(scorers, *own) for own in systems]
    scored = [ScoredMetricColumn(one, tuple(own[k] for own in sets)) for k, one in enumerate(scorers)]
    named = [("base", systems[0].predictions), ("other", systems[1].predictions)]
    requests = {
        "bs": ComparisonRequest(SignificanceTest("bs", 100, 7), seed=7, segments=True),
        "ar": ComparisonRequest(SignificanceTest("ar", 100, 7), resamples=50, seed=7),
        "interval": ComparisonRequest(resamples=50, seed=0, short=True),
        "none": ComparisonRequest(),
    }
    found = {}
    for name, request in requests.items():
        comparison = compare_systems(named, systems[0].references, [*scored, "bleu", "chrf"], request=request)
        found[name] = make_record(list(zip(("base", "other"), sets, strict=True)), seconds=1.0, comparison=comparison)
    return found


def with_results(record: Record, system: int, place: int, **changes: Any) -> Record:
    own = record.systems[system]
    results = [dataclasses.replace(one, **changes) if k == place else one for k, one in enumerate(own.results)]
    changed = dataclasses.replace(own, results=tuple(results))
    return dataclasses.replace(
        record, systems=tuple(changed if i == system else one for i, one in enumerate(record.systems))
    )


class TestPublished:
    """What was printed beside our scores: SacreBLEU's metrics, tests, intervals."""

    @pytest.mark.parametrize("kind", ["bs", "ar", "interval", "none"])
    def test_all_that_was_published_is_in_the_record_and_holds(
        self, published: dict[str, Record], systems: list[SystemTexts], kind: str
    ) -> None:
        record = published[kind]
        found = verify_whole(record, systems)
        assert found.agrees, found.checks
        assert [check.signature.partition("|")[0] for check in found.checks] == ["twmd", "sbert", "BLEU", "chrF2"] * 2
        assert [sorted(check.resampled) for check in found.checks] == [
            sorted(one.resampled) for own in record.systems for one in own.results
        ]
        names = {
            "bs": {"mean", "ci", "p_value"},
            "ar": {"mean", "ci", "p_value"},
            "interval": {"mean", "ci"},
            "none": set[str](),
        }[kind]
        assert all(set(check.resampled) == names for check in found.checks[4:])

    def test_the_numbers_are_those_of_the_comparison(
        self, published: dict[str, Record], systems: list[SystemTexts]
    ) -> None:
        record = published["ar"]
        twmd, _, bleu, _ = record.systems[1].results
        assert bleu.score == pytest.approx(
            sacrebleu.corpus_bleu(systems[1].predictions, [[one for (one,) in systems[1].references]]).score
        )
        assert "|nrefs:1|bs:50|ar:100|seed:7|" in twmd.signature
        assert "|nrefs:1|bs:50|ar:100|seed:7|" in bleu.signature
        assert (twmd.keys["ar"], twmd.keys["seed"], bleu.counts) == ("100", "7", {"segments": 16})
        assert record.resampling == Resampling("ar", 100, 50, 7)
        assert published["bs"].resampling == Resampling("bs", 100, 0, 7)
        assert published["interval"].resampling == Resampling(None, 0, 50, 0)
        assert published["none"].resampling is None
        assert len(published["bs"].systems[0].results[2].scores) == 16
        assert twmd.p_value is not None
        assert 0 < twmd.p_value <= 1

    @pytest.mark.parametrize(
        ("place", "change", "words"),
        [
            (0, {"p_value": 0.5}, "p_value: the recorded scores, samples and seed give 0.0"),
            (0, {"p_value": None}, "recorded as nothing"),
            (0, {"mean": 0.99}, "mean: the recorded scores, samples and seed give 0."),
            (1, {"ci": 0.001}, "ci: the recorded scores, samples and seed give 0."),
            (2, {"p_value": 0.5}, "p_value: the recorded scores, samples and seed give 0.0"),
            (2, {"ci": None}, "ci: the recorded scores, samples and seed give "),
            (2, {"score": 99.0}, "scores: the corpus score is "),
            (3, {"mean": 99.0}, "mean: the recorded scores, samples and seed give "),
        ],
    )
    def test_a_changed_number_is_named(
        self, published: dict[str, Record], systems: list[SystemTexts], place: int, change: dict[str, Any], words: str
    ) -> None:
        found = verify_whole(with_results(published["bs"], 1, place, **change), systems)
        assert [i for i, check in enumerate(found.checks) if not check.agrees] == [4 + place]
        assert words in " ".join(found.checks[4 + place].problems)

    def test_a_changed_segment_of_a_sacrebleu_metric_is_named(
        self, published: dict[str, Record], systems: list[SystemTexts]
    ) -> None:
        scores = published["bs"].systems[0].results[2].scores
        found = verify_whole(
            with_results(published["bs"], 0, 2, scores=(*scores[:4], scores[4] + 1, *scores[5:])), systems
        )
        assert (found.checks[2].agrees, found.checks[2].worst[0].number) == (False, 5)
        with pytest.raises(InputError, match="base: the record holds 15 segments, but there are 16 to score"):
            verify_whole(with_results(published["bs"], 0, 2, scores=scores[:-1]), systems)

    @pytest.mark.parametrize(
        ("before", "after"),
        [("tok:13a", "tok:intl"), ("seed:7", "seed:8"), ("nrefs:1", "nrefs:2"), ("bs:100", "bs:1000")],
    )
    def test_a_changed_signature_of_a_sacrebleu_metric_is_named(
        self, published: dict[str, Record], systems: list[SystemTexts], before: str, after: str
    ) -> None:
        signature = published["bs"].systems[1].results[2].signature
        found = verify_whole(with_results(published["bs"], 1, 2, signature=signature.replace(before, after)), systems)
        assert not found.agrees
        assert found.checks[6].problems[0].startswith("signature: signed as ")

    def test_another_version_of_sacrebleu_with_the_same_scores_holds(
        self, published: dict[str, Record], systems: list[SystemTexts]
    ) -> None:
        record = published["none"]
        for system in (0, 1):
            signature = record.systems[system].results[2].signature.partition("|version:")[0]
            record = with_results(record, system, 2, signature=f"{signature}|version:1.0.0")
        assert verify_whole(record, systems).agrees

    @pytest.mark.parametrize(
        "resampling",
        [
            Resampling("bs", 200, 0, 7),
            Resampling("bs", 100, 0, 8),
            Resampling("ar", 100, 0, 7),
            Resampling(None, 0, 100, 7),
            None,
        ],
    )
    def test_another_test_than_was_signed_is_named(
        self, published: dict[str, Record], systems: list[SystemTexts], resampling: Resampling | None
    ) -> None:
        found = verify_whole(dataclasses.replace(published["bs"], resampling=resampling), systems)
        assert not any(check.agrees for check in found.checks[4:])  # those of the first system have no p-value

    def test_a_test_that_the_texts_do_not_allow_is_named(
        self, published: dict[str, Record], systems: list[SystemTexts]
    ) -> None:
        alone = dataclasses.replace(published["bs"], systems=published["bs"].systems[1:])
        found = verify_whole(alone, systems[1:])
        assert not any(check.agrees for check in found.checks)
        assert (
            "BLEU, its tests and intervals: a paired test compares systems: give two or more after -i."
            in found.checks[2].problems
        )
        other = [systems[0], systems[1]._replace(references=[[*own, "x"] for own in systems[1].references])]
        found = verify_whole(published["bs"], other)
        assert "BLEU, its tests and intervals: the systems hold different references" in found.checks[2].problems

    def test_without_the_means_to_compute_them_they_do_not_hold(
        self, published: dict[str, Record], systems: list[SystemTexts]
    ) -> None:
        found = verify_record(published["none"], systems)
        assert [check.agrees for check in found.checks] == [True, True, False, False] * 2
        assert not any(check.agrees for check in verify_record(published["bs"], systems).checks)

    def test_python_takes_pairs_of_lists(self, published: dict[str, Record], systems: list[SystemTexts]) -> None:
        plain = [(own.predictions, [one for (one,) in own.references]) for own in systems]
        assert twmd_registry.verify_record(published["ar"], plain).agrees

    def test_the_command_line_records_and_verifies_all_of_it(
        self, files: Files, capsys: pytest.CaptureFixture[str]
    ) -> None:
        arguments = [
            "score",
            "ref.txt",
            "-i",
            "a.txt",
            "b.txt",
            "-m",
            "twmd",
            "bleu",
            "--paired-ar",
            "--paired-ar-n",
            "50",
            "--seed",
            "3",
        ]
        assert main([*arguments, "--confidence", "-sh", "--record", "tested.json"]) == 0
        record = twmd_registry.read_record("tested.json")
        assert record.resampling == Resampling("ar", 50, 1000, 3)
        capsys.readouterr()
        assert main(["verify", "tested.json", "--refs", "ref.txt", "--hyps", "a.txt", "b.txt"]) == 0
        printed = capsys.readouterr().out
        assert printed.endswith("4 of 4 results hold.\n")
        assert printed.count("; p_value ") == 2


class Files(NamedTuple):
    folder: Path
    record: Path


@pytest.fixture(scope="module")
def scored_files(tmp_path_factory: pytest.TempPathFactory, texts: Pairs) -> Path:
    """A folder with two systems, references and a record, made by the command."""
    folder = tmp_path_factory.mktemp("scored")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        for name, lines in (("ref", texts.references), ("a", texts.predictions), ("b", texts.references[::-1])):
            Path(f"{name}.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
        arguments = [
            "score",
            "ref.txt",
            "-i",
            "a.txt",
            "b.txt",
            "-m",
            "twmd",
            "bertscore_centered",
            "bleu",
            "--record",
            "out.json",
        ]
        assert main(arguments) == 0
    return folder


@pytest.fixture
def files(tmp_path: Path, scored_files: Path, monkeypatch: pytest.MonkeyPatch) -> Files:
    """A copy of them that a test may change, as the working folder."""
    shutil.copytree(scored_files, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    return Files(tmp_path, tmp_path / "out.json")


class TestCommand:
    def test_a_record_holds_and_says_so(self, files: Files, capsys: pytest.CaptureFixture[str]) -> None:
        capsys.readouterr()
        assert main(["verify", "out.json", "--refs", "ref.txt", "--hyps", "a.txt", "b.txt"]) == 0
        out = capsys.readouterr().out
        assert out.count("agrees  ") == 6
        assert out.endswith("6 of 6 results hold.\n")

    @pytest.mark.parametrize("there", ["beside the record", "in the working folder"])
    def test_without_files_those_that_the_record_names_are_taken(
        self, there: str, files: Files, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        (files.folder / "sub").mkdir()
        if there == "beside the record":
            monkeypatch.chdir(files.folder / "sub")
            record = "../out.json"
        else:
            record = str(files.record.rename(files.folder / "sub" / "out.json"))
        capsys.readouterr()
        assert main(["verify", record]) == 0
        assert capsys.readouterr().out.endswith("6 of 6 results hold.\n")

    def test_systems_of_one_name_are_taken_from_their_folders(
        self, files: Files, capsys: pytest.CaptureFixture[str]
    ) -> None:
        for name in ("a", "b"):
            (files.folder / name).mkdir()
            Path(f"{name}.txt").rename(files.folder / name / "out.txt")
        assert main(["score", "ref.txt", "-i", "a/out.txt", "b/out.txt", "--record", "own.json"]) == 0
        assert main(["verify", "own.json"]) == 0
        assert capsys.readouterr().out.endswith("2 of 2 results hold.\n")

    def test_a_file_that_differs_or_is_missing_is_named_in_one_error(
        self, files: Files, capsys: pytest.CaptureFixture[str]
    ) -> None:
        Path("ref.txt").write_text("another\n", encoding="utf-8")
        Path("b.txt").unlink()
        capsys.readouterr()
        assert main(["verify", "out.json"]) == 1
        printed = capsys.readouterr()
        assert printed.out == ""
        assert printed.err == (
            "twmd: out.json: files that it names, looked for in .: ref.txt (--refs) is another file than was scored; "
            "b.txt (-i) is not here. Give all files by --refs and -i.\n"
        )

    def test_what_came_from_standard_input_is_asked_for(
        self, files: Files, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(Path("a.txt").read_bytes())))
        assert main(["score", "ref.txt", "--record", "own.json"]) == 0
        assert main(["verify", "own.json"]) == 1
        assert "standard input (-i) is not here" in capsys.readouterr().err

    def test_a_record_holds_paths_of_nobodys_disk(self, files: Files) -> None:
        assert (
            main(["score", str(files.folder / "ref.txt"), "-i", str(files.folder / "a.txt"), "--record", "own.json"])
            == 0
        )
        assert str(files.folder) not in Path("own.json").read_text(encoding="utf-8")

    def test_a_record_never_replaces_what_is_scored(self, files: Files, capsys: pytest.CaptureFixture[str]) -> None:
        before = Path("a.txt").read_bytes()
        assert main(["score", "ref.txt", "-i", "a.txt", "--record", "a.txt"]) == 1
        assert Path("a.txt").read_bytes() == before

    def test_an_edit_by_hand_is_named_even_where_scores_hold(
        self, files: Files, capsys: pytest.CaptureFixture[str]
    ) -> None:
        files.record.write_text(
            files.record.read_text(encoding="utf-8").replace('"name": "a.txt"', '"name": "c.txt"'), encoding="utf-8"
        )
        capsys.readouterr()
        assert main(["verify", "out.json", "--refs", "ref.txt", "--hyps", "a.txt", "b.txt"]) == 1
        out = capsys.readouterr().out
        assert out.startswith("EDITED  the record's content does not have the sha256 that it was written with")
        assert "6 of 6 results hold." in out

    def test_a_record_cannot_write_lines_of_the_report(self, files: Files, capsys: pytest.CaptureFixture[str]) -> None:
        record = twmd_registry.read_record(files.record)
        name = "a.txt\n9 of 9 results hold.\n\x1b[8m"
        systems = tuple(dataclasses.replace(system, name=name) for system in record.systems)
        changed = dataclasses.replace(record, systems=systems, environment={"tor\nch": "1\x1b[8m"})
        twmd_registry.write_record(changed, files.record)
        capsys.readouterr()
        assert main(["verify", "out.json", "--refs", "ref.txt", "--hyps", "a.txt", "b.txt"]) == 0
        out = capsys.readouterr().out
        assert "\x1b" not in out
        assert [line for line in out.splitlines() if line.endswith("results hold.")] == ["6 of 6 results hold."]

    @pytest.mark.parametrize("tolerance", ["nan", "inf", "-1", "x"])
    def test_a_tolerance_is_a_number(self, files: Files, tolerance: str) -> None:
        assert (
            main(["verify", "out.json", "--refs", "ref.txt", "--hyps", "a.txt", "b.txt", "--tolerance", tolerance]) == 2
        )

    def test_a_changed_file_is_named_with_segments(self, files: Files, capsys: pytest.CaptureFixture[str]) -> None:
        lines = (files.folder / "b.txt").read_text(encoding="utf-8").splitlines()
        lines[7] = "something else"
        (files.folder / "b.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
        capsys.readouterr()
        assert main(["verify", "out.json", "--refs", "ref.txt", "--hyps", "a.txt", "b.txt"]) == 1
        out = capsys.readouterr().out
        assert "DIFFERS  b.txt  twmd" in out
        assert "agrees  a.txt  twmd" in out
        assert "    segment 8: recorded" in out
        assert "inputs: b.txt has the sha256" in out
        assert out.endswith("3 of 6 results hold.\n")

    def test_versions_and_devices_that_differ_are_told(self, files: Files, capsys: pytest.CaptureFixture[str]) -> None:
        record = twmd_registry.read_record(files.record)
        changed = dataclasses.replace(
            record, environment=record.environment | {"torch": "1.0", "device": "cuda (something)"}
        )
        twmd_registry.write_record(changed, files.record)
        capsys.readouterr()
        assert main(["verify", "out.json", "--refs", "ref.txt", "--hyps", "a.txt", "b.txt"]) == 0
        out = capsys.readouterr().out
        assert "versions: torch is 2." in out
        assert "was 1.0" in out
        assert "device: device is cpu, was cuda (something)" in out

    def test_a_number_out_of_a_paper(self, files: Files, capsys: pytest.CaptureFixture[str]) -> None:
        result = json.loads(files.record.read_text(encoding="utf-8"))["systems"][0]["results"][0]
        capsys.readouterr()
        assert main(["verify", result["signature"], f"{result['score']:.4f}", "ref.txt", "-i", "a.txt"]) == 0
        assert capsys.readouterr().out.startswith("agrees: ")
        assert main(["verify", result["signature"], "0.1234", "ref.txt", "-i", "a.txt"]) == 1
        assert capsys.readouterr().out.startswith("DIFFERS: 0.1234 was printed")
        assert (
            main(
                [
                    "verify",
                    result["signature"].replace("@0336012e2308", ""),
                    f"{result['score']:.4f}",
                    "ref.txt",
                    "-i",
                    "a.txt",
                ]
            )
            == 0
        )
        assert "does not say which content of the model was used" in capsys.readouterr().out
        assert main(["verify", result["signature"], "0.9", "ref.txt", "-i", "a.txt", "--tolerance", "0.5"]) == 0
        assert main(["verify", result["signature"]]) == 2
        assert main(["verify", result["signature"], "0.5", "ref.txt", "-i", "a.txt", "b.txt"]) == 2

    @pytest.mark.parametrize("name", ["missing.json", "ref.txt"])
    def test_what_is_no_record_is_status_one(self, files: Files, name: str, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["verify", name, "--refs", "ref.txt", "--hyps", "a.txt"]) == 1
        assert len(capsys.readouterr().err.splitlines()) == 1

    def test_compute_batch_threads_and_process_change_nothing_beyond_the_tolerance(self, files: Files) -> None:
        arguments = ["score", "ref.txt", "-i", "a.txt", "-m", *MetricName]
        assert main([*arguments, "--batch-tokens", "1", "--record", "one.json"]) == 0
        threads = [str(torch.get_num_threads()), "2" if torch.get_num_threads() == 1 else "1"]
        subprocess.run(
            [sys.executable, "-m", "twmd_registry.cli", *arguments, "--batch-tokens", "512", "--record", "two.json"], check=True, capture_output=True,
            env=os.environ | {"OMP_NUM_THREADS": threads[1]},
        )  # fmt: skip
        one, two = (twmd_registry.read_record(Path(f"{name}.json")) for name in ("one", "two"))
        assert [one.environment["threads"], two.environment["threads"]] == threads
        for mine, other in zip(one.systems[0].results, two.systems[0].results, strict=True):
            assert np.abs(np.array(mine.scores) - np.array(other.scores)).max() <= 1e-5
        for name in ("one", "two"):
            assert main(["verify", f"{name}.json", "--refs", "ref.txt", "--hyps", "a.txt"]) == 0


def test_python_has_what_the_command_has(tmp_path: Path) -> None:
    scores = twmd_registry.scorer("twmd").score(*TEXTS)
    twmd_registry.write_record(twmd_registry.make_record([("mine", [scores])], seconds=0.1), tmp_path / "mine.json")
    record: Any = twmd_registry.read_record(tmp_path / "mine.json")
    assert twmd_registry.verify_record(record, [TEXTS]).agrees
