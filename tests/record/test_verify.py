"""Verification: correct records pass, and every change of record, texts or model is named."""

from __future__ import annotations

import dataclasses
import io
import json
import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

import twmd_registry
from tests import tiny
from tests.conftest import Patch, Run, Texts
from tests.models.test_fitted import CORPUS, KINDS
from twmd_registry.cli import main
from twmd_registry.comparison.cells import Resampling, SystemScore
from twmd_registry.comparison.systems import compare_systems
from twmd_registry.comparison.text_table import WIDTH
from twmd_registry.engine.pairs import Segments
from twmd_registry.errors import InputError, ModelError, SpecError
from twmd_registry.models.files import packaged_adapters
from twmd_registry.models.fitted import save
from twmd_registry.record.content import Record, make_record
from twmd_registry.record.verify import TOLERANCES, contradictions, verify_number
from twmd_registry.registry.names import MetricName
from twmd_registry.registry.options import PART_NAMES, LocalFiles

PREDICTIONS = ["the cat sat on the mat", "it rains again", "we saw a dog"]
REFERENCES = [["a cat sat on a mat"], ["it is raining", "rain"], ["we saw the dog today"]]
TEXTS = Segments(PREDICTIONS, REFERENCES)
VERIFY = "verify out.json ref.txt -i a.txt b.txt"


def record_of(*scorers: twmd_registry.Scorer) -> Record:
    return make_record([("sys", twmd_registry.score_all(scorers, *TEXTS))], seconds=1.0)


def edit(record: Record, change: Callable[[SystemScore], dict[str, Any]], system: int = 0) -> Record:
    """Change the results of one system; `change` returns the new values of fields."""
    systems = [*record.systems]
    results = tuple(dataclasses.replace(result, **change(result)) for result in systems[system].results)
    systems[system] = dataclasses.replace(systems[system], results=results)
    return dataclasses.replace(record, systems=tuple(systems))


def edit_signature(before: str, after: str) -> Callable[[SystemScore], dict[str, Any]]:
    return lambda result: {"signature": result.signature.replace(before, after)}


def problems(record: Record, texts: Segments = TEXTS, local_files: LocalFiles | None = None) -> list[str]:
    """Return the distinct problems of a record that fails verification."""
    found = twmd_registry.verify_record(record, [texts], local_files=local_files)
    assert not found.agrees
    return list(dict.fromkeys(problem for check in found.checks for problem in check.problems))


@pytest.fixture(scope="module")
def record() -> Record:
    return record_of(twmd_registry.load("twmd"), twmd_registry.load("stsscore"))


@pytest.mark.filterwarnings("ignore")
def test_record_of_unsupported_language_verifies_without_an_option() -> None:
    texts = Segments(["\u043f\u0440\u0438\u0432\u0435\u0442"], [["\u043c\u0438\u0440"]])
    scores = twmd_registry.load("twmd", any_language=True).score(*texts)
    assert twmd_registry.verify_record(make_record([("sys", [scores])], seconds=1.0), [texts]).agrees
    assert verify_number(str(scores.signature), str(scores.score), texts).agrees


def test_record_of_every_metric_verifies(tmp_path: Path) -> None:
    path = tmp_path / "all.json"
    twmd_registry.write_record(record_of(*(twmd_registry.load(metric) for metric in MetricName)), path)
    found = twmd_registry.verify_record(path, [TEXTS])
    assert found.agrees
    assert len(found.checks) == len(MetricName)
    assert twmd_registry.verify_record(str(path), [TEXTS]).agrees
    assert all(check.tolerance == 1e-5 and not check.problems for check in found.checks)
    assert found.differences == ()


def test_tolerance_depends_on_number_format_and_score_size() -> None:
    found = twmd_registry.verify_record(record_of(twmd_registry.load("twmd", dtype="bfloat16")), [TEXTS])
    assert (found.agrees, found.checks[0].tolerance) == (True, TOLERANCES["bfloat16"])
    # Products of raw vectors are about 80 here, and float32 rounds them by more than 1e-5.
    record = record_of(twmd_registry.load("sbert", vectors="raw", normalize=False))
    largest = max(record.systems[0].results[0].scores)
    assert largest > 2
    assert twmd_registry.verify_record(record, [TEXTS]).checks[0].tolerance == pytest.approx(1e-5 * largest)


def test_changed_segment_field_or_text_changes_the_scores(record: Record) -> None:
    changed = edit(record, lambda one: {"scores": (one.scores[0], one.scores[1] + 0.01, one.scores[2])})
    (check, *_) = twmd_registry.verify_record(changed, [TEXTS]).checks
    assert (check.off, check.worst[0]["number"], check.worst[0]["prediction"]) == (1, 2, "it rains again")
    assert check.worst[0]["recorded"] - check.worst[0]["found"] == pytest.approx(0.01, abs=1e-5)
    assert "is not the mean of the recorded segments' scores" in check.problems[0]
    assert not check.agrees

    def change(result: SystemScore) -> dict[str, Any]:
        keys = result.keys | ({"layer": "3-5"} if "layer" in result.keys else {})
        return {"signature": result.signature.replace("|layer:4-5|", "|layer:3-5|"), "keys": keys}

    assert twmd_registry.verify_record(edit(record, change), [TEXTS]).checks[0].off == 3
    other = Segments([*PREDICTIONS[:2], "we saw a hog"], REFERENCES)
    (check, *_) = twmd_registry.verify_record(record, [other]).checks
    assert "texts: they are not the texts that were scored" in check.problems
    assert [one["number"] for one in check.worst] == [3]
    reference = Segments(PREDICTIONS, [REFERENCES[0], ["it is raining", "sun"], REFERENCES[2]])
    assert "texts: they are not the texts that were scored" in problems(record, reference)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda one: {"score": one.score + 0.001}, "scores: the corpus score is"),
        (lambda one: {"sides": one.sides | {"recall": 0.99}}, "recorded as 0.990000"),
        (lambda one: {"counts": one.counts | {"truncated": 7}}, "counts: {"),
        (lambda one: {"signature": f"{one.signature}9"}, "signature: column "),
        (edit_signature("re:0.1|", "re:0.2|"), "says temperature=0.2, the record's"),
        (edit_signature("nrefs:var", "nrefs:1"), "applied: nrefs is var, signed as 1"),
        (edit_signature("nrefs:var", "nrefs:1"), "says nrefs=1, the record's keys"),
        (edit_signature("|nrefs:var", ""), "says nrefs=nothing, the record's"),
        (edit_signature(":1.0.0", ":0.0.9"), "says version=0.0.9, the record's"),
        (edit_signature(":var", ":var|bs:1000|seed:7"), "says bs=1000, the record's keys"),
        (edit_signature("@21de63af9d45", ""), "says fingerprint=nothing, the"),
    ],
)
@pytest.mark.usefixtures("older_version")
def test_changed_field_is_named(record: Record, change: Any, words: str) -> None:
    assert words in "\n".join(problems(edit(record, change)))


def test_older_version_reports_changes_since_then(record: Record, older_version: str) -> None:
    def change(result: SystemScore) -> dict[str, Any]:
        signature = result.signature.replace("1.0.0", older_version)
        return {"signature": signature, "keys": result.keys | {"version": older_version}}

    found = twmd_registry.verify_record(edit(record, change), [TEXTS])
    assert found.agrees
    assert any(
        difference.startswith(f"versions: {older_version}; 1.0.0: Empty texts") for difference in found.differences
    )


@pytest.mark.parametrize("part", ["model", "adapter"])
def test_flipped_byte_in_weights_is_named(tmp_path: Path, part: str) -> None:
    folder = tmp_path / "mine"
    if part == "model":
        scorer = twmd_registry.load("twmd", model=str(tiny.save_encoder("bert", folder)), layer=2)
    else:
        shutil.copytree(packaged_adapters() / "stsb-siamese", folder)
        scorer = twmd_registry.load("stsscore")
    local_files = LocalFiles(model=str(folder)) if part == "model" else LocalFiles(adapter=str(folder))
    record = record_of(scorer)
    assert twmd_registry.verify_record(record, [TEXTS], local_files=local_files).agrees
    (weights,) = folder.glob("*model.safetensors")
    before = weights.stat()
    tiny.flip_last_byte(weights)
    os.utime(weights, ns=(before.st_atime_ns, before.st_mtime_ns))  # without changing the cached hash
    (problem,) = problems(record, local_files=local_files)
    assert problem.startswith(f"model content: {part} ")
    keys = record.systems[0].results[0].keys
    content = keys["fingerprint"] if part == "model" else keys["adapter"].rpartition("@")[2]
    assert f"{content} as requested" in problem


def test_record_has_the_full_hash_of_every_part_and_names_a_different_one(tmp_path: Path, monkeypatch: Patch) -> None:
    monkeypatch.setenv("TWMD_HOME", str(tmp_path))
    keys = dict[str, Any]()
    for key, (kind, form, fit) in KINDS.items():  # the baseline, which depends on all others, is the last
        path = save(kind, fit(twmd_registry.load("moverscore", **keys), CORPUS), kind.home)
        keys[key] = form.format(path)
    record = record_of(twmd_registry.load("moverscore", **keys), twmd_registry.load("ensemble(stsscore,sbert)"))
    fitted, ensemble = record.systems[0].results
    assert set(fitted.hashes) | set(ensemble.hashes) == set(PART_NAMES)
    for result in (fitted, ensemble):
        for digest in (digest for digests in result.hashes.values() for digest in digests):
            assert len(digest) == 64
            assert digest[:12] in result.signature

    def change(flip: Callable[[str], str]) -> Record:
        return edit(record, lambda one: {"hashes": {kind: tuple(map(flip, held)) for kind, held in one.hashes.items()}})

    twmd_registry.write_record(change(lambda digest: digest[:12] + digest[::-1][12:]), tmp_path / "tails.json")
    found = twmd_registry.verify_record(tmp_path / "tails.json", [TEXTS])
    named = [{problem.partition(" content: sha256 ")[0] for problem in check.problems} for check in found.checks]
    assert named == [set(fitted.hashes), set(ensemble.hashes)]
    assert contradictions(twmd_registry.read_record(tmp_path / "tails.json")) == []
    heads = contradictions(change(lambda digest: digest[::-1]))
    assert all(any(f"says {kind} " in problem for problem in heads) for kind in PART_NAMES)


def test_signature_does_not_present_a_local_folder_as_a_hub_model(
    tmp_path: Path, monkeypatch: Patch, record: Record
) -> None:
    monkeypatch.chdir(tmp_path)
    folder = tiny.save_encoder("bert", tmp_path / "bert")
    record = record_of(twmd_registry.load("sbert"), twmd_registry.load("twmd", model="bert", layer=1))
    assert record.systems[0].results[1].keys["model"] == "./bert"
    (problem,) = problems(record)
    assert problem.startswith("model content: the signature names a folder of its author's, './bert': name")
    assert twmd_registry.verify_record(record, [TEXTS], local_files=LocalFiles(model=str(folder))).agrees
    monkeypatch.chdir(tmp_path)
    tiny.save_encoder("bert", tmp_path / "org" / "name")
    signature = record.systems[0].results[0].signature
    signature = signature.replace("sentence-transformers/all-MiniLM-L6-v2@21de63af9d45", "org/name")
    with pytest.raises(ModelError, match=r"get it with 'hf download org/name'"):
        twmd_registry.load(signature).score(["a"], ["b"])


@pytest.mark.parametrize("name", ["/etc", "../x", "~root", "C:\\x", "a/b/c", ".", ".."])
def test_path_in_a_signature_is_refused(name: str, record: Record) -> None:
    encoder, regressor = (result.signature for result in record.systems[0].results)
    for signature in (
        encoder.replace("sentence-transformers/all-MiniLM-L6-v2", quote(name, safe="/")),
        regressor.replace("stsb-siamese", quote(name, safe="/")),
    ):
        with pytest.raises(ModelError, match="the signature names a folder of its author's"):
            twmd_registry.load(signature).score(["a"], ["b"])


def test_contradictory_arguments_are_refused(record: Record) -> None:
    signature = record.systems[0].results[0].signature
    with pytest.raises(SpecError, match="the signature fixes temperature: leave it out"):
        twmd_registry.load(signature, temperature=1)
    with pytest.raises(SpecError, match="a signature fixes all keys: leave out preset='embedded'"):
        twmd_registry.load(signature, "embedded")
    with pytest.raises(InputError, match=r"the record has 1 systems \(sys\)"):
        twmd_registry.verify_record(record, [TEXTS, TEXTS])
    with pytest.raises(InputError, match="sys: the record has 3 segments, but there are 2 to score"):
        twmd_registry.verify_record(record, [(PREDICTIONS[:2], REFERENCES[:2])])


@pytest.fixture(scope="module")
def score() -> twmd_registry.ScoreSet:
    return twmd_registry.load("twmd").score(*TEXTS)


@pytest.mark.parametrize(
    ("form", "scale", "change", "expected"),
    [
        ("{:.4f}", 1, 0, (True, False)),
        ("{:.0f}", 1, 0, (True, False)),
        ("{:.2f}", 100, 0, (True, True)),
        ("{:.3f} %", 100, 0, (True, True)),
        ("{:.4f}", 1, -0.001, (False, False)),
        ("{:.6f}", 1, 0.00005, (False, False)),
    ],
)
def test_only_a_rounded_number_or_percentage_agrees(
    score: twmd_registry.ScoreSet, form: str, scale: int, change: float, expected: tuple[bool, bool]
) -> None:
    checked = verify_number(str(score.signature), form.format(scale * score.score + change), TEXTS)
    assert (checked.agrees, checked.per_cent) == expected


def test_non_numbers_and_wrong_reference_counts_are_refused(score: twmd_registry.ScoreSet) -> None:
    for value in ("", "about 0.8", "nan", "1e-1", "0,8", "--1", "%"):
        with pytest.raises(SpecError, match="as printed"):
            verify_number(str(score.signature), value, TEXTS)
    with pytest.raises(InputError, match="nrefs:var"):
        verify_number(str(score.signature), "0.8", Segments(PREDICTIONS, [row[:1] for row in REFERENCES]))


@pytest.fixture(scope="module")
def systems(texts: Texts) -> list[Segments]:
    references = [[text] for text in texts.references[:16]]
    other = [*texts.predictions[:4], *texts.references[-12:]]
    return [Segments(texts.predictions[:16], references), Segments(other, references)]


@pytest.fixture(scope="module")
def published(systems: list[Segments]) -> dict[str, Record]:
    """Records of two systems and four metrics (two of SacreBLEU's), with a test or intervals."""
    scorers = [twmd_registry.load("twmd"), twmd_registry.load("sbert")]
    sets = [twmd_registry.score_all(scorers, *texts) for texts in systems]
    scored: list[Any] = [*((scorer, [own[k] for own in sets]) for k, scorer in enumerate(scorers)), "bleu", "chrf"]
    named = [("base", systems[0].predictions), ("other", systems[1].predictions)]
    requests: dict[str, dict[str, Any]] = {
        "bs": {"resampling": Resampling("bs", 100, seed=7), "segments": True},
        "ar": {"resampling": Resampling("ar", 100, 50, 7)},
        "interval": {"resampling": Resampling(None, 0, 50, 0), "short": True},
        "none": {},
    }
    results, references = [("base", sets[0]), ("other", sets[1])], systems[0].references
    tables = {name: compare_systems(named, references, scored, **request) for name, request in requests.items()}
    return {name: make_record(results, seconds=1.0, comparison=table) for name, table in tables.items()}


def edit_result(record: Record, system: int, place: int, **changes: Any) -> Record:
    target = record.systems[system].results[place]
    return edit(record, lambda one: changes if one is target else {}, system)


@pytest.mark.parametrize("kind", ["bs", "ar", "interval", "none"])
def test_published_numbers_are_recorded_and_verify(
    published: dict[str, Record], systems: list[Segments], kind: str
) -> None:
    found = twmd_registry.verify_record(published[kind], systems)
    assert found.agrees, found.checks
    assert [check.signature.partition("|")[0] for check in found.checks] == ["twmd", "sbert", "BLEU", "chrF2"] * 2
    interval = {"mean", "ci"}
    names = {"bs": interval | {"p_value"}, "ar": interval | {"p_value"}, "interval": interval, "none": set()}
    assert all(set(check.resampled) == names[kind] for check in found.checks[4:])


def test_changed_number_is_named(published: dict[str, Record], systems: list[Segments]) -> None:
    changes: list[tuple[int, int, dict[str, Any], str]] = [
        (0, 1, {"ci": 0.001}, "ci: the recorded scores and seed"),
        (0, 2, {"score": 99.0}, "scores: the corpus score is "),
        (0, 3, {"counts": {"segments": 15}}, "counts: {'segments': 16}, recorded"),
        (1, 0, {"p_value": 0.5}, "p_value: the recorded scores and"),
        (1, 1, {"p_value": None}, "recorded as nothing"),
        (1, 2, {"p_value": 0.5}, "p_value: the recorded scores and"),
        (1, 3, {"mean": 99.0}, "mean: the recorded scores and seed"),
    ]
    record = published["bs"]
    for system, place, change, _ in changes:
        record = edit_result(record, system, place, **change)
    checks = twmd_registry.verify_record(record, systems).checks
    assert [i for i, check in enumerate(checks) if not check.agrees] == [4 * one[0] + one[1] for one in changes]
    for system, place, _, words in changes:
        assert words in " ".join(checks[4 * system + place].problems)


def test_common_shift_within_tolerance_is_named(systems: list[Segments]) -> None:
    scorer = twmd_registry.load("twmd", dtype="bfloat16")
    record = make_record([("sys", [scorer.score(*systems[0])])], seconds=1.0)
    shifted = edit(
        record, lambda result: {"score": result.score + 0.009, "scores": tuple(x + 0.009 for x in result.scores)}
    )
    (check,) = twmd_registry.verify_record(shifted, systems[:1]).checks
    assert check.off == 0
    assert [problem[:23] for problem in check.problems] == ["scores: the corpus scor"]


def test_significance_inconsistent_with_scores_is_named(systems: list[Segments]) -> None:
    scorer = twmd_registry.load("twmd")
    score_set = scorer.score(*systems[0])
    sets = [score_set, dataclasses.replace(score_set, by_side=score_set.by_side + 9e-6)]
    named, test = [(name, systems[0].predictions) for name in ("base", "equal")], Resampling("bs", 100)
    table = compare_systems(named, systems[0].references, [(scorer, sets)], resampling=test)
    equal = make_record([("base", sets[:1]), ("equal", sets[1:])], seconds=1.0, comparison=table)
    assert table.columns[0].cells[1].p_value == pytest.approx(1 / 101)
    assert twmd_registry.verify_record(equal, systems[:1] * 2).checks[1].problems == (
        "p_value: scores found here give 1.000000, recorded as 0.009901",
    )


def test_changed_order_of_systems_is_named(systems: list[Segments]) -> None:
    sets = [twmd_registry.load("twmd").score(*texts) for texts in systems]
    swapped = [
        dataclasses.replace(score_set, by_side=other.by_side)
        for score_set, other in zip(sets, reversed(sets), strict=True)
    ]
    record = make_record([("low", swapped[:1]), ("high", swapped[1:])], seconds=1.0)
    checks = twmd_registry.verify_record(record, systems, tolerance=1.0).checks
    assert [check.problems for check in checks] == [
        (f"order: the scores found here reverse its order with {name}",) for name in ("high", "low")
    ]


def test_change_of_a_sacrebleu_metric_is_named(published: dict[str, Record], systems: list[Segments]) -> None:
    result = published["bs"].systems[0].results[2]
    changed = edit_result(published["bs"], 0, 2, scores=(*result.scores[:4], result.scores[4] + 1, *result.scores[5:]))
    check = twmd_registry.verify_record(changed, systems).checks[2]
    assert (check.agrees, check.worst[0]["number"]) == (False, 5)
    with pytest.raises(InputError, match="base: the record has 15 segments, but there are 16 to score"):
        twmd_registry.verify_record(edit_result(published["bs"], 0, 2, scores=result.scores[:-1]), systems)
    signed = published["bs"].systems[1].results[2].signature
    for before, after in (("tok:13a", "tok:intl"), ("seed:7", "seed:8")):
        changed = edit_result(published["bs"], 1, 2, signature=signed.replace(before, after))
        found = twmd_registry.verify_record(changed, systems)
        assert found.checks[6].problems[0].startswith("signature: signed as ")
    record = published["none"]  # another version of SacreBLEU with the same scores holds
    for system in (0, 1):
        signature = record.systems[system].results[2].signature.partition("|version:")[0]
        record = edit_result(record, system, 2, signature=f"{signature}|version:1.0.0")
    assert twmd_registry.verify_record(record, systems).agrees


def test_unsigned_or_impossible_test_is_named(published: dict[str, Record], systems: list[Segments]) -> None:
    for resampling in (Resampling("bs", 200, 0, 7), None):
        found = twmd_registry.verify_record(dataclasses.replace(published["bs"], resampling=resampling), systems)
        assert not any(check.agrees for check in found.checks[4:])  # the first system has no p-values
    single = dataclasses.replace(published["bs"], systems=published["bs"].systems[1:])
    found = twmd_registry.verify_record(single, systems[1:])
    assert not any(check.agrees for check in found.checks)
    assert "BLEU, its tests and intervals: a paired test compares systems: " in found.checks[2].problems[-1]
    other = [systems[0], (systems[1].predictions, [[*row, "x"] for row in systems[1].references])]
    found = twmd_registry.verify_record(published["bs"], other)
    assert "BLEU, its tests and intervals: the systems have different references" in found.checks[2].problems


@pytest.fixture(scope="module")
def scored_files(tmp_path_factory: pytest.TempPathFactory, texts: Texts) -> Path:
    """Return a folder with two systems, references and a record, made by the command."""
    folder = tmp_path_factory.mktemp("scored")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        for name, lines in (("ref", texts.references), ("a", texts.predictions), ("b", texts.references[::-1])):
            Path(f"{name}.txt").write_text("\n".join(lines[:10]) + "\n", encoding="utf-8")
        metrics = ["-m", "twmd", "bertscore_centered", "bleu"]
        assert main(["score", "ref.txt", "-i", "a.txt", "b.txt", *metrics, "--record", "out.json"]) == 0
    return folder


@pytest.fixture
def scored(folder: Path, scored_files: Path) -> Path:
    """Return a copy of the files that a test may change, as the working folder."""
    shutil.copytree(scored_files, folder, dirs_exist_ok=True)
    return folder


def test_record_verifies_and_version_and_device_differences_are_printed(scored: Path, run: Run) -> None:
    record = twmd_registry.read_record("out.json")
    environment = record.environment | {"torch": "1.0", "device": "cuda (something)"}
    twmd_registry.write_record(dataclasses.replace(record, environment=environment), "out.json")
    status, out, _ = run("verify out.json ref.txt -i b.txt a.txt")  # known by their names
    assert (status, out.count("agrees  ")) == (0, 6)
    assert out.endswith("6 of 6 results reproduced.\n")
    assert max(map(len, out.splitlines())) <= WIDTH
    for words in ("versions: torch is 2.", "was 1.0", "device: device is cpu, was cuda (something)"):
        assert words in out


@pytest.mark.parametrize("there", ["beside the record", "in the working folder"])
def test_recorded_files_are_used_by_default(there: str, scored: Path, run: Run, monkeypatch: Patch) -> None:
    (scored / "sub").mkdir()
    record = "../out.json"
    if there == "beside the record":
        monkeypatch.chdir(scored / "sub")
    else:
        record = str((scored / "out.json").rename(scored / "sub" / "out.json"))
    status, out, _ = run(f"verify {record}")
    assert (status, out.endswith("6 of 6 results reproduced.\n")) == (0, True)


def test_different_or_missing_file_is_named(scored: Path, run: Run, monkeypatch: Patch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(Path("a.txt").read_bytes())))
    assert run("score ref.txt -m sbert --record own.json")[0] == 0
    hint = "Pass all files: RECORD REF... -i HYP..., and --src."
    missing = "standard input (-i) is neither here nor in the record's folder."
    assert run("verify own.json") == (1, "", f"twmd: own.json: {missing} {hint}\n")
    Path("ref.txt").write_text("another\n", encoding="utf-8")
    changed = "ref.txt (REF) has changed since it was scored."
    assert run("verify out.json") == (1, "", f"twmd: out.json: {changed} {hint}\n")


def test_record_has_no_local_path_and_replaces_no_input(scored: Path, run: Run) -> None:
    score = f"score {scored}/ref.txt -i {scored}/a.txt -m sbert --record"
    assert run(f"{score} own.json")[0] == 0
    assert str(scored) not in Path("own.json").read_text(encoding="utf-8")
    before = Path("a.txt").read_bytes()
    assert run(f"{score} a.txt")[0] == 1
    assert Path("a.txt").read_bytes() == before


def test_manual_edit_is_named_and_cannot_add_lines_to_the_report(scored: Path, run: Run) -> None:
    edited = Path("out.json").read_text(encoding="utf-8").replace('"name": "a.txt"', '"name": "c.txt"')
    Path("out.json").write_text(edited, encoding="utf-8")
    status, out, _ = run(VERIFY)
    assert (status, "6 of 6 results reproduced." in out) == (1, True)
    assert out.startswith("EDITED: the record's content does not match its sha256")
    record = twmd_registry.read_record("out.json")
    name = "a.txt\n9 of 9 results reproduced.\n\x1b[8m"
    systems = tuple(dataclasses.replace(system, name=name) for system in record.systems)
    changed = dataclasses.replace(record, systems=systems, environment={"tor\nch": "1\x1b[8m"})
    twmd_registry.write_record(changed, "out.json")
    status, out, _ = run(VERIFY)
    assert (status, "\x1b" in out) == (0, False)
    assert [line for line in out.splitlines() if line.endswith("results reproduced.")] == ["6 of 6 results reproduced."]


def test_paper_number_is_verified(scored: Path, run: Run) -> None:
    result = json.loads(Path("out.json").read_text(encoding="utf-8"))["systems"][0]["results"][0]
    signature, printed, files = result["signature"], f"{result['score']:.4f}", "ref.txt -i a.txt"
    for own, value, status, words in (
        (signature, printed, 0, "agrees: "),
        (signature, "0.1234", 1, "DIFFERS: 0.1234 was printed"),
        (signature.replace("@21de63af9d45", ""), printed, 0, "does not name the content of the model"),
    ):
        returned, out, costs = run(f"verify '{own}' {value} {files}")
        assert (returned, words in out, "metrics: 1; sentence-transformers/" in costs) == (
            status,
            True,
            True,
        )
    verdict = json.loads(run(f"verify '{signature}' 0.9 {files} --tolerance 0.5 --format json")[1])
    assert set(verdict) == {"agrees", "found", "signature", "margin", "per_cent", "pinned"}
    assert run("verify", signature)[0] == run(f"verify '{signature}' 0.5 {files} b.txt")[0] == 2
    for tolerance in ("nan", "inf", "-1", "x"):
        assert run(f"{VERIFY} --tolerance {tolerance}")[0] == 2
