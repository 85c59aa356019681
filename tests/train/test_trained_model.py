"""The trained module: similarities, loss, dropout, and errors for metrics and recipes."""

from __future__ import annotations

from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest
import torch
from scipy.stats import linregress
from torch import Tensor

import twmd_registry
from tests.conftest import Patch
from tests.tiny import FAMILIES, OTHER_FAMILIES
from tests.train.rated_words import named_words, rated_words, segments
from twmd_registry.encode.encoder import Encoder
from twmd_registry.engine.pairs import Segments
from twmd_registry.engine.token_backend import TokenAlignmentBackend
from twmd_registry.errors import SpecError
from twmd_registry.metaeval.correlation import correlate
from twmd_registry.models.files import find_model
from twmd_registry.registry.options import RunOptions
from twmd_registry.registry.spec import make_spec
from twmd_registry.train.finetune import FinetunePlan, finetune
from twmd_registry.train.model import TrainedMetric, add_lora, lora_modules, set_dropout
from twmd_registry.train.recipe import TRAINABLE, Loss, Recipe, Target, check_trainable
from twmd_registry.train.trained_files import save_adapter

LAYER = 2
RECIPE = Recipe()


def load(folder: str) -> Encoder:
    return Encoder(find_model(folder), None, "float32", torch.device("cpu"))


def trained_metric(bert: str, metric: str, recipe: Recipe = RECIPE, **keys: Any) -> tuple[TrainedMetric, Any]:
    """Return a metric with an adapter whose weights are far from 0, and the PEFT model."""
    backend = TokenAlignmentBackend(make_spec(metric, model=bert, layer=LAYER, **keys), RunOptions(device="cpu"))
    encoder = load(bert)
    torch.manual_seed(1)
    wrapped = add_lora(encoder.network, 4, lora_modules(encoder, LAYER))
    for name, weight in encoder.network.named_parameters():
        if "lora_B" in name:
            torch.nn.init.normal_(weight, std=0.3)
    return TrainedMetric(encoder, backend.spec, backend.view, recipe), wrapped


CASES: list[tuple[str, dict[str, Any]]] = [
    *((metric, {"centering": "batch"}) for metric in TRAINABLE),
    ("twmd", {"centering": "dimension", "output": "precision"}),
    ("trwmd", {"centering": "batch", "centering_side": "joint", "multiref": "mean", "special": "all"}),
]


@pytest.mark.parametrize(("metric", "keys"), CASES)
def test_trained_similarities_equal_the_saved_files_scores(
    metric: str, keys: dict[str, Any], bert: str, tmp_path: Path
) -> None:
    model, wrapped = trained_metric(bert, metric, **keys)
    data = rated_words(6, seed=1)
    several = Segments(data.predictions, [[reference, data.references[0]] for reference in data.references])
    learned = model.eval().similarities(several).detach().numpy()
    save_adapter(wrapped, "./tiny", tmp_path / "adapter")
    size = {"centering_size": 6} if keys["centering"] == "batch" else {}
    settings: dict[str, Any] = {"model": bert, "layer": LAYER, **keys, **size}
    scores = twmd_registry.load(metric, **settings, adapter=str(tmp_path / "adapter")).score(*several).scores
    untrained = twmd_registry.load(metric, **settings).score(*several).scores
    np.testing.assert_allclose(learned, scores, atol=1e-5)
    assert np.abs(np.subtract(scores, untrained)).max() > 1e-3


def test_target_mean_is_the_mean_of_precision_and_recall(bert: str) -> None:
    def fitted(target: Target, **keys: Any) -> Tensor:
        model, _ = trained_metric(bert, "trwmd", Recipe(target=target), centering="none", **keys)
        return model.eval().similarities(segments(rated_words(4, seed=1))).detach()

    precision, recall = (fitted("output", output=side) for side in ("precision", "recall"))
    torch.testing.assert_close(fitted("mean"), (precision + recall) / 2)
    assert float((precision - recall).abs().max()) > 1e-4


def test_line_starts_at_least_squares_and_has_its_mse(bert: str) -> None:
    model = trained_metric(bert, "sbert", centering="none")[0].eval()
    rows = segments(rated_words(30, seed=2))
    with torch.no_grad():
        sims = model.similarities(rows).double().numpy()
    ratings = sims + 0.01 * np.random.default_rng(0).normal(size=30)
    model.start_line(sims, ratings)
    fit = linregress(sims, ratings)
    assert float(model.log_scale.exp().detach()) == pytest.approx(fit.slope, rel=1e-5)
    assert float(model.offset.detach()) == pytest.approx(fit.intercept, abs=1e-5)
    loss = float(model(*rows[:2], torch.tensor(ratings))["loss"].detach())
    assert loss == pytest.approx(np.mean((fit.slope * sims + fit.intercept - ratings) ** 2), rel=1e-3)
    model.start_line(sims, -ratings)  # the slope of a metric that disagrees is still positive
    assert float(model.log_scale.exp().detach()) == pytest.approx(0.1 * ratings.std() / sims.std(), rel=1e-5)


def test_pearson_loss_is_a_share_of_mse_less_the_correlation(bert: str) -> None:
    data = rated_words(8, seed=2)
    ratings = torch.tensor(data.ratings)
    models = {
        loss: trained_metric(bert, "sbert", Recipe(loss=loss), centering="none")[0].eval() for loss in get_args(Loss)
    }
    mse, both = (float(model(*segments(data)[:2], ratings)["loss"].detach()) for model in models.values())
    sims = models["mse"].similarities(segments(data)).detach().numpy()
    assert both == pytest.approx(0.3 * mse - correlate("pearson", sims, data.ratings), abs=1e-5)
    constant = Segments([data.predictions[0]] * 8, [[data.references[0]]] * 8)  # no correlation
    mse, both = (model(*constant[:2], ratings)["loss"] for model in models.values())
    both.backward()
    assert float(both.detach()) == pytest.approx(0.3 * float(mse.detach()), abs=1e-5)
    trained = models["pearson"].trained()
    assert all(bool(weight.grad.isfinite().all()) for _, weight in trained if weight.grad is not None)


def test_bf16_rounds_products_in_training_only(bert: str, monkeypatch: Patch) -> None:
    rows = segments(rated_words(6, seed=1))
    monkeypatch.setattr("twmd_registry.train.model.multiplies", lambda _: False)
    with pytest.warns(UserWarning, match="no effect"):
        slow = trained_metric(bert, "twmd", Recipe(bf16=True), centering="none")[0]
    assert "forward" not in vars(slow.network)
    monkeypatch.setattr("twmd_registry.train.model.multiplies", lambda _: True)
    plain, rounded = (trained_metric(bert, "twmd", Recipe(bf16=bf16), centering="none")[0] for bf16 in (False, True))
    for model in (plain, rounded):
        set_dropout(model, 0.0)
    np.testing.assert_array_equal(plain.score(rows), rounded.score(rows))
    found = [model.train().similarities(rows) for model in (plain, rounded)]
    assert found[1].dtype is torch.float32
    assert 0 < float((found[0] - found[1]).detach().abs().max()) < 0.02
    torch.autograd.backward(found[1].sum())
    weights = [weight for _, weight in rounded.trained()]
    assert all(weight.dtype is torch.float32 for weight in weights)
    assert any(weight.grad is not None and bool(weight.grad.any()) for weight in weights)


@pytest.mark.parametrize("family", [*FAMILIES, *OTHER_FAMILIES])
def test_dropout_rate_applies_to_training_of_every_family(family: str, tiny_encoder: Any) -> None:
    network, tokens = load(str(tiny_encoder(family))).network, torch.arange(4, 12)[None]

    def hidden() -> Tensor:
        found: Tensor = network(input_ids=tokens, attention_mask=torch.ones_like(tokens)).last_hidden_state.detach()
        return found

    still = hidden()
    set_dropout(network, 0.5)
    assert torch.equal(hidden(), still)  # evaluation mode
    network.train()
    assert not torch.allclose(hidden(), hidden())
    set_dropout(network, 0.0)
    torch.testing.assert_close(hidden(), still)


@pytest.mark.parametrize(
    ("metric", "recipe", "keys", "message"),
    [
        ("moverscore", {}, {}, r"^moverscore cannot be trained: .*choices: twmd, trwmd, bertscore_centered, wordset_"),
        ("twmd", {"batch": 1}, {"centering": "corpus"}, "centering=corpus with a training batch of 1 subtracts"),
        ("twmd", {}, {"idf": "corpus"}, "idf=corpus"),
        ("twmd", {}, {"dtype": "bfloat16"}, "dtype=bfloat16: weights are trained in float32"),
        ("twmd", {}, {"adapter": "stsb-lora"}, "adapter=stsb-lora"),
        ("bertscore_centered", {}, {"baseline": "00009f652bda"}, "a baseline belongs to the untrained metric"),
        ("sbert", {"target": "mean"}, {}, "target=mean .* sbert has no sides"),
        ("twmd", {"target": "mean"}, {"output": "recall"}, "target=mean .*recall"),
    ],
)
def test_metric_or_key_unusable_in_training_is_refused(
    metric: str, recipe: dict[str, Any], keys: dict[str, Any], message: str
) -> None:
    with pytest.raises(SpecError, match=message):
        check_trainable(make_spec(metric, **keys), Recipe(**recipe))


@pytest.mark.parametrize(
    "numbers",
    [{"epochs": 0}, {"batch": -1}, {"learning_rate": float("nan")}, {"batch": 2, "loss": "pearson"}, {"dropout": 1.0}],
)
def test_impossible_recipe_is_refused(numbers: dict[str, Any]) -> None:
    with pytest.raises(SpecError, match=f"{next(iter(numbers))}="):
        Recipe(**numbers)


def test_rank_above_the_width_of_the_model_is_refused(bert: str) -> None:
    encoder = load(bert)
    modules = lora_modules(encoder, LAYER)
    with pytest.raises(SpecError, match="^rank 17"):
        add_lora(encoder.network, 17, modules)
    add_lora(encoder.network, 16, modules)


def test_model_without_weights_to_train_is_refused(tmp_path: Path) -> None:
    (tmp_path / "table.txt").write_text("cat 1 0\ndog 0 1\n", encoding="utf-8")
    for keys, message in (
        ({"model": str(tmp_path / "table.txt")}, "is a table of word vectors: it has no encoder to train"),
        ({}, "layer=0 of .* depends on no linear layer"),
    ):
        spec = make_spec("sbert", layer=0, centering="none", **keys)
        with pytest.raises(SpecError, match=message):
            finetune(FinetunePlan(spec, (named_words(20, 1),)), tmp_path / "out")
    assert not (tmp_path / "out").exists()
