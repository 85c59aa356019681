"""Scores as columns of a `datasets.Dataset`, and options that the command line refuses; Ray is not needed."""

from __future__ import annotations

import sys
from pathlib import Path

import datasets
import numpy as np
import pytest

from tests.scale.segments import draw_segments, scorers
from twmd_registry.engine.scorer import load, score_all
from twmd_registry.errors import InputError, MissingExtraError, SpecError
from twmd_registry.registry.spec import make_spec
from twmd_registry.scale import score_dataset, score_files

SEGMENTS = draw_segments(11)


@pytest.fixture
def rows() -> datasets.Dataset:
    return datasets.Dataset.from_dict(
        {
            "id": range(11),
            "prediction": [text for text, _ in SEGMENTS],
            "reference": [references for _, references in SEGMENTS],
        }
    )


def test_columns_of_a_single_process_equal_scores_of_the_engine(bert: str, rows: datasets.Dataset) -> None:
    metric_scorers = scorers(bert)
    scored = score_dataset(rows, metric_scorers)
    assert scored.column_names[:4] == ["id", "prediction", "reference", "twmd"]
    for found, name in zip(
        score_all(metric_scorers, *zip(*SEGMENTS, strict=True)),
        ("twmd", "twmd_2", "bertscore_centered", "moverscore"),
        strict=True,
    ):
        np.testing.assert_allclose(scored[name], found.scores, rtol=0, atol=1e-5)
    assert rows.column_names == ["id", "prediction", "reference"]


def test_columns_of_several_processes_equal_scores_of_the_engine(
    bert: str, rows: datasets.Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("twmd_registry.scale.dataset._BATCH", 3)
    spec = make_spec("twmd", model=bert, layer=2, centering="none")
    scored = score_dataset(rows, spec, num_proc=2)
    (found,) = score_all(scorers(bert, "none"), *zip(*SEGMENTS, strict=True))
    assert scored["id"][:] == list(range(11))
    np.testing.assert_allclose(scored["twmd"], found.scores, rtol=0, atol=1e-5)
    np.testing.assert_allclose(scored["twmd_precision"], np.array(found.precision), rtol=0, atol=1e-5)


def test_metric_given_by_name_or_signature_reads_columns_that_with_format_hides(rows: datasets.Dataset) -> None:
    hidden = rows.rename_column("reference", "references").with_format(None, columns=["prediction"])
    with load("twmd") as own:
        expected = own.score(*zip(*SEGMENTS, strict=True)).scores
        for named in ("twmd", own.signature):
            assert [*score_dataset(hidden, named).with_format(None)["twmd"]] == expected


def test_rows_that_several_processes_cannot_score_are_refused(bert: str, rows: datasets.Dataset) -> None:
    with pytest.raises(InputError, match="there is nothing to score"):
        score_dataset(rows.take(0), scorers(bert, "none"), num_proc=2)
    with pytest.raises(SpecError, match=r"depends on other rows, and several processes share the rows \(num_proc\)"):
        score_dataset(rows, scorers(bert, "batch"), num_proc=2)


def test_data_set_of_a_wrong_type_or_with_wrong_columns_is_refused(bert: str, rows: datasets.Dataset) -> None:
    own = scorers(bert, "none")
    for dataset, message in [
        (rows.to_iterable_dataset(), r"a datasets\.Dataset; got IterableDataset\.$"),
        ([{"prediction": "a", "reference": "b"}], r"expected a ray\.data\.Dataset or a datasets\.Dataset; got list"),
        (rows.rename_column("prediction", "ours"), "no column 'prediction'; Choices: id, ours, reference"),
        (
            rows.add_column("references", [["b"]] * 11),
            "has columns 'references' and 'reference': choose by reference=NAME",
        ),
        (rows.rename_column("id", "twmd_f1"), "has a column 'twmd_f1' already: rename it"),
        (
            rows.add_column("extra", [None] * 11).rename_column("prediction", "x").rename_column("extra", "prediction"),
            r"predictions\[0\] must be a text",
        ),
    ]:
        with pytest.raises(InputError, match=message):
            score_dataset(dataset, own)


def test_metrics_that_score_no_data_set_are_refused(rows: datasets.Dataset) -> None:
    for metrics, message in [
        ([], "the list of metrics is empty"),
        ([3], "expected a list of metrics"),
        (load("ensemble(twmd;against=both,sbert)"), "needs sources, and this framework gives predictions and"),
    ]:
        with pytest.raises(SpecError, match=message):
            score_dataset(rows, metrics)  # type: ignore[arg-type]


def test_missing_ray_names_the_extra(bert: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(MissingExtraError, match=r"^scoring on Ray needs more packages: pip install .*\[ray\]'?$"):
        score_files(scorers(bert, "none"), [str(tmp_path)], str(tmp_path / "out"))
