"""The evaluator and the loss, in a run of sentence-transformers' own trainer on a tiny model."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import twmd_registry
from tests import tiny
from twmd_registry.errors import InputError, SpecError, TwmdWarning
from twmd_registry.metaeval.correlation import correlate
from twmd_registry.models.sentence import replace_network

FIRST = [
    "the cat sat on mat",
    "a dog ran over hill",
    "it ran today",
    "we saw rain again",
    "the dog sat",
    "a cat in rain",
]
SECOND = ["the cat sat", "a dog ran in rain", "we saw it", "rain , rain", "a hill and the mat", "a cat in rain"]
RATINGS = [0.9, 0.7, 0.3, 0.5, 0.1, 1.0]
KEYS: dict[str, Any] = {"layer": tiny.DEPTH, "special": "all", "unknown": "keep", "centering": "none"}


def new_model(folder: Path) -> Any:
    from sentence_transformers import SentenceTransformer

    return SentenceTransformer(str(tiny.save_encoder("bert", folder)), device="cpu")


def run_trainer(model: Any, loss: Any, evaluator: Any, folder: Path) -> Any:
    from datasets import Dataset
    from sentence_transformers import SentenceTransformerTrainer, SentenceTransformerTrainingArguments

    arguments = SentenceTransformerTrainingArguments(
        output_dir=str(folder), num_train_epochs=3, per_device_train_batch_size=6, learning_rate=1e-2, use_cpu=True,
        eval_strategy="epoch", save_strategy="no", report_to=[], disable_tqdm=True, seed=1,
    )  # fmt: skip
    data = Dataset.from_dict({"sentence1": FIRST, "sentence2": SECOND, "score": RATINGS})
    trainer = SentenceTransformerTrainer(
        model=model, args=arguments, train_dataset=data, loss=loss, evaluator=evaluator
    )
    trainer.train()
    return trainer


def test_evaluator_and_scorer_agree_on_a_model_trained_with_the_loss(tmp_path: Path) -> None:
    from twmd_registry.plugins.sentence_transformers import MetricEvaluator, WordMoverLoss

    model = new_model(tmp_path / "base")
    evaluator = MetricEvaluator(FIRST, SECOND, RATINGS, temperature=0.1, name="dev", **KEYS)
    before = evaluator(model)["dev_twmd_pearson"]
    trainer = run_trainer(model, WordMoverLoss(model), evaluator, tmp_path / "run")
    logged = [row["eval_dev_twmd_pearson"] for row in trainer.state.log_history if "eval_dev_twmd_pearson" in row]
    assert len(logged) == 3
    assert logged[-1] > before
    assert evaluator.primary_metric == "dev_twmd_pearson"
    model.save_pretrained(str(tmp_path / "trained"))
    assert str(evaluator.signature) in (tmp_path / "trained" / "README.md").read_text(encoding="utf-8")
    scorer = twmd_registry.load("twmd", "paper", model=str(tmp_path / "trained"), temperature=0.1, **KEYS)
    scores = scorer.score(FIRST, SECOND).scores
    assert correlate("pearson", scores, np.array(RATINGS)) == pytest.approx(logged[-1], abs=1e-6)
    assert str(evaluator.signature).partition("@")[2] == str(scorer.score(FIRST, SECOND).signature).partition("@")[2]


@pytest.mark.parametrize(("metric", "iterations"), [("twmd", 1), ("twmd", 5), ("trwmd", None)])
def test_loss_is_the_squared_error_of_the_score(metric: Any, iterations: int | None, tmp_path: Path) -> None:
    from twmd_registry.plugins.sentence_transformers import WordMoverLoss

    model = new_model(tmp_path / "base").eval()
    loss = WordMoverLoss(model, metric, temperature=0.2, iterations=iterations)
    found = loss([model.tokenize(FIRST), model.tokenize(SECOND)], torch.tensor(RATINGS))
    found.backward()
    assert any(weight.grad is not None and bool(weight.grad.abs().sum() > 0) for weight in model.parameters())
    keys = KEYS | ({"iterations": iterations} if iterations else {})
    scorer = twmd_registry.load(metric, "paper", model=str(tmp_path / "base"), temperature=0.2, **keys)
    scores = np.array(scorer.score(FIRST, SECOND).scores)
    assert float(found.detach()) == pytest.approx(float(np.mean((scores - RATINGS) ** 2)), abs=1e-6)


@pytest.mark.parametrize("metric", ["sbert", "bertscore_centered"])
def test_evaluator_takes_any_metric_of_an_encoder_and_merges_adapters(metric: str, tmp_path: Path) -> None:
    from peft import LoraConfig, TaskType, get_peft_model

    from twmd_registry.plugins.sentence_transformers import MetricEvaluator

    model = new_model(tmp_path / "base")
    keys: dict[str, Any] = {} if metric == "sbert" else {"layer": tiny.DEPTH, "centering": "none"}
    evaluator = MetricEvaluator(FIRST, SECOND, RATINGS, metric, **keys)
    plain = evaluator(model)[f"{metric}_pearson"]
    torch.manual_seed(3)
    config = LoraConfig(
        task_type=TaskType.FEATURE_EXTRACTION, r=4, init_lora_weights=False, target_modules="all-linear"
    )
    wrapped = get_peft_model(model[0].auto_model, config)
    if metric == "sbert":  # otherwise only the layers are PEFT's
        replace_network(model[0], wrapped)
    adapted = evaluator(model)[f"{metric}_pearson"]
    assert adapted != pytest.approx(plain, abs=1e-4)
    if metric == "sbert":
        cosines = model.similarity_pairwise(model.encode(FIRST), model.encode(SECOND)).tolist()
        assert adapted == pytest.approx(correlate("pearson", cosines, np.array(RATINGS)), abs=1e-5)


def test_wrong_settings_are_refused_immediately() -> None:
    from twmd_registry.plugins.sentence_transformers import MetricEvaluator, WordMoverLoss

    for metric, keys, words in (
        ("stsscore", {}, "single encoder"),
        ("twmd", {"model": "a"}, "leave out model"),
        ("twmd", {"preset": "embedded-tuned"}, "has an adapter"),
        ("twmd", {"device": "cuda:99"}, "device"),
        ("twmd", {"clip": "yes"}, "clip"),
    ):
        with pytest.raises(SpecError, match=words):
            MetricEvaluator(FIRST, SECOND, RATINGS, metric, **keys)  # type: ignore[arg-type]
    for ratings in (
        RATINGS[1:],
        [*RATINGS[1:], math.nan],
        ["high", *RATINGS[1:]],
        None,
        0.5,
        dict(enumerate(RATINGS)),
        [1] * 6,
        [10**400, *RATINGS[1:]],
    ):
        with pytest.raises(InputError, match="ratings"):
            MetricEvaluator(FIRST, SECOND, ratings)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="at least 3 segments"):
        MetricEvaluator(FIRST[:1], SECOND[:1], RATINGS[:1])
    with pytest.raises(SpecError, match="sources"):
        MetricEvaluator(FIRST, SECOND, RATINGS, against="source")
    for wrong, words in (({"metric": "trwdm"}, "did you mean 'trwmd'"), ({"temperature": 0}, "temperature")):
        with pytest.raises(SpecError, match=words):
            WordMoverLoss(None, **wrong)


def test_loss_refuses_what_is_not_one_label_per_pair_and_equal_scores_are_named(tmp_path: Path) -> None:
    from twmd_registry.plugins.sentence_transformers import MetricEvaluator, WordMoverLoss

    model = new_model(tmp_path / "base")
    columns = [model.tokenize(texts) for texts in (FIRST, SECOND)]
    loss, ratings = WordMoverLoss(model), torch.tensor(RATINGS)
    for labels in (5 * ratings, torch.full((6,), math.nan), None, RATINGS, ratings[:1], ratings[0], ratings.view(2, 3)):
        with pytest.raises(InputError, match="from 0 to 1"):
            loss(columns, labels)
    assert loss(columns, ratings[:, None]) == loss(columns, ratings)
    empty = [{name: rows[:0] for name, rows in column.items()} for column in columns]
    for wrong in (columns[:1], [*columns, columns[0]], [columns[0], model.tokenize(SECOND[:1])], empty):
        with pytest.raises(InputError, match="compares"):
            loss(wrong, ratings)
    evaluator = MetricEvaluator(["a cat"] * 3, ["a cat"] * 3, [0.0, 0.5, 1.0], **KEYS)
    with pytest.warns(TwmdWarning, match="equal"):
        assert math.isnan(evaluator(model)["twmd_pearson"])
