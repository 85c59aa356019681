"""What a result looks like in Python."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest
import sacrebleu

import twmd_registry
from twmd_registry.comparison.cells import column_of
from twmd_registry.comparison.verdict import SystemComparison
from twmd_registry.errors import SpecError, TwmdWarning

TEXTS = ["it rains", "a cat", "a cow"], ["it is raining", "a dog", "a cow"]


@pytest.mark.parametrize(("metric", "sides"), [("twmd", ["P", "R", "F1"]), ("wordset_cka", [])])
def test_result_is_shown_in_two_lines_and_read_as_a_sequence(metric: str, sides: list[str]) -> None:
    scores = twmd_registry.score(*TEXTS, metric=metric)
    first, second = repr(scores).split("\n")
    assert f"{metric} {scores.score:.4f}" in first
    assert "n = 3" in first
    assert [name for name in ("P", "R", "F1") if f" {name} " in first] == sides
    assert second.strip() == str(scores.signature) == repr(scores.signature)
    assert (len(scores), scores[2], scores[:2], [*scores]) == (3, scores.scores[2], scores.scores[:2], scores.scores)
    assert repr(scores.explain(0)).endswith(str(scores.signature))
    frame = scores.to_pandas()
    assert frame["score"].tolist() == scores.scores
    assert list(frame)[1:] == ["precision", "recall", "f1"] * bool(sides)


def test_several_metrics_are_named_as_on_the_command_line() -> None:
    named = twmd_registry.score_all(["twmd", "trwmd;temperature=0.05"], *TEXTS)
    again = twmd_registry.score_all([named[1].signature.format(), twmd_registry.load("twmd")], *TEXTS)
    assert [scores.scores for scores in again] == [named[1].scores, named[0].scores]
    for wrong in ("twmd", ["bleu;tk=zh"], [3]):
        with pytest.raises(SpecError):
            twmd_registry.score_all(wrong, *TEXTS)  # type: ignore[arg-type]
    ter, twmd, bleu = twmd_registry.score_all(["ter", "twmd", "bleu;tok=char"], *TEXTS)
    assert (twmd, ter.score) == (named[0], sacrebleu.corpus_ter(TEXTS[0], [TEXTS[1]]).score)
    assert (bleu.score, bleu[1]) == (
        sacrebleu.corpus_bleu(TEXTS[0], [TEXTS[1]], tokenize="char").score,
        sacrebleu.sentence_bleu(TEXTS[0][1], TEXTS[1][1:2], tokenize="char").score,
    )
    (system,) = twmd_registry.make_record([("out", [twmd, ter])], seconds=1.0).systems
    assert (system.results[1].head, system.results[1].score) == ("TER", ter.score)


@pytest.mark.parametrize("kind", [list, pd.Series, lambda values: np.array(values, dtype=object)])
def test_rows_without_a_text_are_left_out_by_an_option_that_counts_them(kind: type) -> None:
    frame = {"predictions": kind(["a cat", None, "it rains", "a cow"]), "references": kind([*TEXTS[1], np.nan])}
    with pytest.warns(TwmdWarning, match="left out 2 of 4 rows.*: 1, 3"):
        scores = twmd_registry.score(**frame, drop_missing=True)
    assert scores.scores == twmd_registry.score(["a cat", "it rains"], TEXTS[1][::2]).scores
    with pytest.warns(TwmdWarning, match="left out 2 of 4 rows.*: 1, 3"):
        (counted,) = twmd_registry.score_all(["bleu"], **frame, drop_missing=True)
    assert len(counted) == 2


def test_sources_that_no_metric_reads_cause_a_warning() -> None:
    for metrics, warned in ((["bleu"], 1), (["twmd"], 1), (["bleu", "twmd;against=both"], 0)):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            twmd_registry.score_all(metrics, ["a cat sat"], ["a cat"], ["one cat sat"])
        assert sum("reads the sources" in str(one.message) for one in caught) == warned


def test_sacrebleus_metrics_alone_name_empty_texts() -> None:
    with pytest.warns(TwmdWarning, match=r"empty texts.* \(references\[1\], predictions\[2\]\)"):
        twmd_registry.score_all(["bleu"], ["a cat", "it rains", " "], ["a cat", None, "a cow"])


def test_notebook_shows_results_and_escapes_texts() -> None:
    scores = twmd_registry.score(["<i>rain</i>", "a cat"], TEXTS[1][:2])
    whole, shown = scores.by_document(["", ""])[""], scores._repr_html_()
    assert f"{whole.score:.4f}<small>± {whole.ci:.4f}<" in shown
    assert str(scores.signature) in shown
    assert "truncated: 0" not in shown
    drawn = scores.explain(0)._repr_html_()
    assert drawn.count('class="plan"') == len(scores.explain(0).sides)
    assert "<i>" not in drawn
    assert 'class="plan"' not in twmd_registry.score(["a " * 200], ["a cat"]).explain(0)._repr_html_()
    compared = SystemComparison(("<b>", "other"), (column_of(scores)._replace(cells=(column_of(scores).cells * 2)),))
    assert f"<td>{scores.score:.4f}</td>" in compared._repr_html_()
    assert "<b>" not in compared._repr_html_()
    assert {"Baseline: <b>", f"{scores.score:.4f}", str(scores.signature)} < {
        *repr(compared).replace("  ", "\n").split("\n")
    }
