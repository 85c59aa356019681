"""bert_score's functions on this engine: its numbers, its hash, and what its users asked for."""

from __future__ import annotations

import shutil
import warnings
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import evaluate
import numpy as np
import pytest
import torch

import twmd_registry
from experiments.papers.bert_score import read_figures, write_table
from tests.tiny import DEPTH, change_json
from twmd_registry.errors import SpecError, TwmdWarning
from twmd_registry.plugins import bert_score as ours
from twmd_registry.registry.bert_score import TABLE

theirs = pytest.importorskip("bert_score")
utils = pytest.importorskip("bert_score.utils")

TOLERANCE = 1e-6
CANDIDATES = [
    "the cat sat on the mat .",
    "a dog",
    "we saw it [SEP] again and the cat ran in rain",
    " rain ",
    "dog " * 60,
]
REFERENCES = ["a cat sat on a mat", "the dog ran", "today we saw the cat again .", "the hill", "dog and cat"]
SEVERAL = [list(pair) for pair in zip(REFERENCES, REFERENCES[::-1], strict=True)]
BASELINES = "LAYER,P,R,F\n" + "".join(f"{k},0.{k}1,0.{k}2,0.{k}3\n" for k in range(DEPTH + 1))

Limited = Callable[[str], str]


@pytest.fixture(scope="module")
def limited(tiny_encoder: Callable[[str], Path], tmp_path_factory: pytest.TempPathFactory) -> Limited:
    """Return a copy of a tiny encoder whose tokenizer has a limit, without which bert_score fails."""

    def copy(family: str) -> str:
        folder = tmp_path_factory.mktemp("limited") / family
        shutil.copytree(tiny_encoder(family), folder)
        change_json(folder / "tokenizer_config.json", model_max_length=36)
        return str(folder)

    return copy


@pytest.fixture(scope="module")
def model(limited: Limited) -> str:
    return limited("bert")


def both(references: Any, **options: Any) -> list[Any]:
    """Return the results of bert_score's function and ours."""
    options = {"device": "cpu", "num_layers": 2} | options
    return [module.score(CANDIDATES, references, **options) for module in (theirs, ours)]


def assert_same(found: Any, expected: Any, tolerance: float = TOLERANCE) -> None:
    assert (len(found), found[0].dtype) == (3, torch.float32)
    for side, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(side.numpy(), other.numpy(), atol=tolerance, rtol=0)


@pytest.mark.parametrize("family", ["bert", "roberta", "distilbert", "deberta-v2", "albert", "mpnet", "t5", "bart"])
def test_every_model_family_has_bert_scores_numbers(family: str, limited: Limited) -> None:
    folder = limited(family)
    for layer, size in ((1, 2), (DEPTH, 64)):
        expected, found = both(REFERENCES, model_type=folder, num_layers=layer, batch_size=size)
        assert_same(found, expected)
    assert np.ptp(expected[2].numpy()) > 0.1


@pytest.mark.parametrize(
    ("options", "references"),
    [
        ({}, SEVERAL),
        ({"idf": True, "nthreads": 0}, REFERENCES),
        ({"idf": True, "nthreads": 0}, SEVERAL),
        ({"all_layers": True}, REFERENCES),  # of several, bert_score takes the best over layers
        ({"rescale_with_baseline": True, "lang": "en"}, SEVERAL),
        ({"rescale_with_baseline": True, "lang": "en", "all_layers": True}, REFERENCES),
    ],
)
def test_every_option_yields_bert_scores_numbers_and_hash(
    options: dict[str, Any], references: Any, model: str, tmp_path: Path
) -> None:
    (tmp_path / "table.tsv").write_text(BASELINES, encoding="utf-8")
    path = {"baseline_path": str(tmp_path / "table.tsv")} if "lang" in options else {}
    (expected, hashed), (found, our_hash) = both(references, model_type=model, return_hash=True, **options, **path)
    assert_same(found, expected)
    assert (our_hash, our_hash.signature) == (hashed, found.signature)
    if not options.get("all_layers"):
        local: dict[str, Any] = {"model": model} | ({"baseline": path["baseline_path"]} if path else {})
        again = twmd_registry.load(our_hash.signature, **local).score([text.strip() for text in CANDIDATES], references)
        assert again.f1 == pytest.approx(found[2].tolist(), abs=1e-6)


def test_f1_table_equals_bert_scores(folder: Path, model: str) -> None:
    assert TABLE.read_text(encoding="utf-8") == write_table(read_figures())
    shutil.copytree(model, folder / "roberta-large")  # which bert_score takes for the model of that name
    options: dict[str, Any] = {"lang": "en", "model_type": "roberta-large", "rescale_with_baseline": True}
    expected, found = both(REFERENCES, **options)
    assert_same(found, expected, tolerance=3e-6)  # it divides by 0.3
    assert "|baseline:bert_score%3Aen|" in found.signature
    assert ours.BERTScorer(lang="en").num_layers == 17
    keys = twmd_registry.load("bertscore_centered", "bertscore", model="xlm-roberta-base").requested
    assert (keys.values()["layer"], keys.padding, keys.special) == (9, 64, "partners")


def test_scorer_computes_idf_on_its_own_texts(model: str) -> None:
    settings: dict[str, Any] = {"idf": True, "idf_sents": REFERENCES, "nthreads": 0, "device": "cpu"}
    their_scorer, our_scorer = theirs.BERTScorer(model, 2, **settings), ours.BERTScorer(model, 2, **settings)
    expected = their_scorer.score(CANDIDATES, SEVERAL)
    assert_same(our_scorer.score(CANDIDATES, SEVERAL), expected)
    assert (str(our_scorer), our_scorer.hash.signature) == (str(their_scorer), our_scorer.signature)
    weights = utils.get_idf_dict(REFERENCES, utils.get_tokenizer(model), nthreads=0)
    expected, found = both(SEVERAL, model_type=model, idf=weights)
    assert_same(found, expected)
    unused: dict[str, Any] = settings | {"idf": False}
    with pytest.warns(TwmdWarning, match="idf_sents"):
        assert_same(
            ours.BERTScorer(model, 2, **unused).score(CANDIDATES, SEVERAL),
            theirs.BERTScorer(model, 2, **unused).score(CANDIDATES, SEVERAL),
        )
    wrongs: tuple[Any, ...] = ({1: 0.3}, {1: 2.0}, defaultdict(str))
    for wrong in wrongs:
        with pytest.raises(SpecError, match="get_idf_dict"):
            ours.score(CANDIDATES, REFERENCES, model, 2, idf=wrong)


def test_tokenizers_without_a_limit_work(tiny_encoder: Callable[[str], Path], limited: Limited) -> None:
    folder = str(tiny_encoder("deberta-v2"))
    with pytest.raises(OverflowError):
        theirs.score(CANDIDATES, REFERENCES, folder, 2, device="cpu")
    found = ours.score(CANDIDATES[:-1], REFERENCES[:-1], folder, 2)
    assert_same(found, theirs.score(CANDIDATES[:-1], REFERENCES[:-1], limited("deberta-v2"), 2, device="cpu"))


def test_empty_texts_score_0_and_rare_counts_are_not_nan(model: str) -> None:
    with pytest.warns(TwmdWarning, match="empty"):
        found = ours.score(["", "a dog"], ["a cat", " "], model, 2)
    assert torch.stack(tuple(found)).tolist() == [[0.0, 0.0]] * 3
    with pytest.warns(TwmdWarning, match="idf"):
        found = ours.score(["the dog"], ["the dog"], model, 2, idf=True)
    assert torch.stack(tuple(found)).flatten().tolist() == pytest.approx([1.0] * 3)


def test_drop_in_import_does_not_warn(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ours.score(CANDIDATES[:2], REFERENCES[:2], model, 2)
    assert capsys.readouterr() == ("", "")
    ours.score(CANDIDATES[:2], REFERENCES[:2], model, 2, verbose=True)
    assert "sentences/sec" in capsys.readouterr().out


def test_figure_shows_word_similarities(model: str, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    (tmp_path / "table.tsv").write_text(BASELINES, encoding="utf-8")
    rescaled: dict[str, Any] = {"rescale_with_baseline": True, "lang": "en", "baseline_path": tmp_path / "table.tsv"}
    figure = ours.plot_example("a dog ran", "the cat", model, 2, fname=tmp_path / "picture.png", **rescaled)
    axes = figure.axes[0]
    assert (tmp_path / "picture.png").stat().st_size > 1000
    assert [label.get_text() for label in axes.get_yticklabels()] == ["a", "dog", "ran"]
    plain = ours.plot_example("a dog ran", "the cat", model, 2).axes[0]
    shown, raw = (float(some.texts[0].get_text()) for some in (axes, plain))
    assert shown == pytest.approx((raw - 0.23) / (1 - 0.23), abs=2e-3)
    weighted = ours.BERTScorer(model, 2, idf=True, idf_sents=["a dog"]).plot_example("a dog ran", "the cat").axes[0]
    assert [float(text.get_text()) for text in weighted.texts] == [float(text.get_text()) for text in plain.texts]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"model_type": None}, "model_type"),
        ({"rescale_with_baseline": True}, "lang"),
        ({"rescale_with_baseline": True, "lang": "en"}, "baseline_path"),
        ({"rescale_with_baseline": True, "baseline_path": "missing.tsv"}, "missing.tsv"),
        ({"batch_size": 0}, "batch_size"),
    ],
)
def test_errors_name_the_missing_argument(options: dict[str, Any], words: str, model: str) -> None:
    arguments: dict[str, Any] = {"model_type": model, "num_layers": 2} | options
    with pytest.raises((ValueError, OSError), match=words):
        ours.score(["a cat"], ["a dog"], **arguments)


def test_evaluate_bertscore_arguments_work_with_the_preset(model: str) -> None:
    metric = evaluate.load(twmd_registry.path("bertscore_centered"), "bertscore")
    texts: dict[str, Any] = {"predictions": CANDIDATES, "references": REFERENCES}
    arguments: dict[str, Any] = {"lang": "en", "model_type": model, "num_layers": 2, "verbose": True, "idf": True}
    arguments |= {"device": "cpu", "batch_size": 8, "nthreads": 2, "all_layers": False, "use_fast_tokenizer": True}
    found = metric.compute(**texts, **arguments, rescale_with_baseline=False, baseline_path=None)
    expected = theirs.score(CANDIDATES, REFERENCES, model, 2, idf=True, nthreads=0, batch_size=8, device="cpu")
    assert found["scores"] == pytest.approx(expected[2].tolist(), abs=TOLERANCE)
    assert found["recall"] == pytest.approx(expected[1].mean().item(), abs=TOLERANCE)
    assert evaluate.load(twmd_registry.path("bertscore_centered"), "bertscore").scorer.requested.values()["layer"] == 17
    with pytest.raises(ValueError, match="all_layers"):
        metric.compute(**texts, **arguments | {"all_layers": True})


@pytest.mark.parametrize(
    ("arguments", "conflict"),
    [
        ({"num_layers": 4, "layer": 3}, "layer=3"),
        ({"lang": "en", "model": "embedded"}, "model=embedded"),
        ({"batch_size": 2, "padding": 64}, "padding=64"),
    ],
)
def test_an_argument_and_a_key_that_say_the_same_are_refused(arguments: dict[str, Any], conflict: str) -> None:
    with pytest.raises(SpecError, match=conflict):
        ours.read_arguments(arguments)
