"""Fine-tuning: what is learned is what is scored, and what it leaves behind can be used at once."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

import twmd_registry
from tests.tiny import save_encoder
from tests.train.rated_words import named_words, rated_words, write_words
from twmd_registry.cli import main
from twmd_registry.encode.encoder import Encoder
from twmd_registry.engine.backends import TokenAlignmentBackend
from twmd_registry.engine.pairs import Segments
from twmd_registry.errors import TwmdWarning
from twmd_registry.metaeval.correlation import correlate
from twmd_registry.models.files import find_model
from twmd_registry.registry.options import RunOptions
from twmd_registry.registry.own_presets import add_preset, remove_preset
from twmd_registry.registry.presets import read_presets
from twmd_registry.registry.spec import make_spec
from twmd_registry.train.finetune import FinetunePlan, FinetuneResult, finetune
from twmd_registry.train.model import TrainedMetric
from twmd_registry.train.recipe import TRAINABLE, Loss, Recipe, Target
from twmd_registry.train.weights import add_lora, lora_modules, save_adapter, set_dropout

CPU = RunOptions(device="cpu")
LAYER = 2
RECIPE = Recipe()


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A random encoder of three layers."""
    return str(save_encoder("bert", tmp_path_factory.mktemp("models") / "tiny"))


def trained_metric(tiny: str, metric: str, recipe: Recipe = RECIPE, **keys: Any) -> tuple[TrainedMetric, Any]:
    """A metric with an adapter whose weights are far from nothing."""
    spec = make_spec(metric, model=tiny, layer=LAYER, **keys)
    backend = TokenAlignmentBackend(spec, CPU)
    encoder = Encoder(find_model(tiny), None, "float32", torch.device("cpu"))
    torch.manual_seed(1)
    wrapped = add_lora(encoder.network, 4, lora_modules(encoder, LAYER))
    for name, weight in encoder.network.named_parameters():
        if "lora_B" in name:
            torch.nn.init.normal_(weight, std=0.3)
    return TrainedMetric(encoder, backend.job, backend.reading, recipe), wrapped


@pytest.mark.parametrize(
    "keys",
    [
        {"centering": "batch"},
        {"centering": "dimension", "output": "precision"},
        {"centering": "batch", "centering_side": "joint", "multiref": "mean", "special": "all"},
    ],
)
@pytest.mark.parametrize("metric", TRAINABLE)
def test_what_is_trained_is_what_a_scorer_gives_afterwards(
    metric: str, keys: dict[str, Any], tiny: str, tmp_path: Path
) -> None:
    given: dict[str, Any] = {
        name: value for name, value in keys.items() if name != "output" or metric not in ("sbert", "wordset_cka")
    }
    model, wrapped = trained_metric(tiny, metric, **given)
    data = rated_words(6, seed=1)
    segments = Segments(data.predictions, [[reference, data.references[0]] for reference in data.references])
    learned = model.eval().similarities(segments)
    save_adapter(wrapped, "./tiny", tmp_path / "adapter")
    size: dict[str, Any] = {"centering_size": 6} if keys["centering"] == "batch" else {}
    with twmd_registry.scorer(
        metric, model=tiny, layer=LAYER, adapter=str(tmp_path / "adapter"), **given, **size
    ) as scorer:
        found = scorer.score(*segments).scores
    plain = twmd_registry.scorer(metric, model=tiny, layer=LAYER, **given, **size).score(*segments).scores
    np.testing.assert_allclose(learned.detach().numpy(), found, atol=1e-5)
    assert np.abs(np.subtract(found, plain)).max() > 1e-3  # the adapter does something


def test_mean_of_both_sides_can_be_fitted(tiny: str) -> None:
    data = rated_words(4, seed=1)
    segments = Segments(data.predictions, [[one] for one in data.references])
    found = {}
    sides: tuple[tuple[str, Target, dict[str, Any]], ...]
    sides = (
        ("mean", Target.MEAN, {}),
        ("p", Target.OUTPUT, {"output": "precision"}),
        ("r", Target.OUTPUT, {"output": "recall"}),
    )
    for name, target, keys in sides:
        found[name] = (
            trained_metric(tiny, "trwmd", Recipe(target=target), centering="none", **keys)[0]
            .eval()
            .similarities(segments)
            .detach()
        )
    torch.testing.assert_close(found["mean"], (found["p"] + found["r"]) / 2)
    assert float((found["p"] - found["r"]).abs().max()) > 1e-4


def test_loss_is_the_mean_squared_error_of_a_line_that_starts_at_least_squares(tiny: str) -> None:
    from scipy.stats import linregress

    model = trained_metric(tiny, "sbert", centering="none")[0].eval()
    data = rated_words(30, seed=2)
    segments = Segments(data.predictions, [[one] for one in data.references])
    with torch.no_grad():
        sims = model.similarities(segments).double().numpy()
    ratings = sims + 0.01 * np.random.default_rng(0).normal(size=30)
    model.start_line(sims, ratings)
    fit = linregress(sims, ratings)
    assert float(model.log_scale.exp().detach()) == pytest.approx(fit.slope, rel=1e-5)
    assert float(model.offset.detach()) == pytest.approx(fit.intercept, abs=1e-5)
    loss = float(model(*segments, torch.tensor(ratings))["loss"].detach())
    assert loss == pytest.approx(
        sum((fit.slope * s + fit.intercept - z) ** 2 for s, z in zip(sims, ratings, strict=True)) / 30, rel=1e-3
    )
    model.start_line(sims, -ratings)  # a metric that disagrees is turned round by its encoder, never by the line
    assert float(model.log_scale.exp().detach()) == pytest.approx(0.1 * ratings.std() / sims.std(), rel=1e-5)


def test_loss_can_be_a_correlation_beside_it(tiny: str) -> None:
    data = rated_words(8, seed=2)
    segments = Segments(data.predictions, [[one] for one in data.references])
    ratings = torch.tensor(data.ratings)
    found = {loss: trained_metric(tiny, "sbert", Recipe(loss=loss), centering="none")[0].eval() for loss in Loss}
    mse, both = (float(model(*segments, ratings)["loss"].detach()) for model in found.values())
    r = correlate("pearson", found[Loss.MSE].similarities(segments).detach().numpy(), data.ratings)
    assert both == pytest.approx(0.3 * mse - r, abs=1e-5)
    same = Segments([segments.predictions[0]] * 8, [segments.references[0]] * 8)
    model = found[Loss.PEARSON]
    loss = model(*same, ratings)[
        "loss"
    ]  # similarities that do not vary: no correlation, and no gradient that is not finite
    loss.backward()
    assert float(loss.detach()) == pytest.approx(
        0.3 * float(found[Loss.MSE](*same, ratings)["loss"].detach()), abs=1e-5
    )
    assert all(bool(weight.grad.isfinite().all()) for _, weight in model.trained() if weight.grad is not None)


def test_products_are_rounded_in_training_only(tiny: str) -> None:
    data = rated_words(6, seed=1)
    segments = Segments(data.predictions, [[one] for one in data.references])
    plain, rounded = (trained_metric(tiny, "twmd", Recipe(bf16=bf16), centering="none")[0] for bf16 in (False, True))
    for model in (plain, rounded):
        set_dropout(model, 0.0)
    np.testing.assert_array_equal(plain.score(segments), rounded.score(segments))
    found = [model.train().similarities(segments) for model in (plain, rounded)]
    assert found[1].dtype is torch.float32
    assert 0 < float((found[0] - found[1]).detach().abs().max()) < 0.02
    torch.autograd.backward(found[1].sum())
    assert all(weight.dtype is torch.float32 for _, weight in rounded.trained())
    assert any(weight.grad is not None and bool(weight.grad.any()) for _, weight in rounded.trained())


@pytest.fixture(scope="module")
def done(tiny: str, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, FinetuneResult, FinetunePlan]:
    """A run of some epochs on words whose worth the encoder has to learn."""
    spec = make_spec("twmd", model=tiny, layer=LAYER, centering="none", temperature=0.1)
    recipe = Recipe(rank=4, epochs=4, learning_rate=2e-2)
    plan = FinetunePlan(spec, (named_words(96, 1),), (named_words(48, 2),), (named_words(20, 3),), recipe)
    output = tmp_path_factory.mktemp("runs") / "adapter"
    return output, finetune(plan, output, options=CPU, name="words"), plan


def test_training_learns_what_the_ratings_say(done: tuple[Path, FinetuneResult, FinetunePlan]) -> None:
    output, found, plan = done
    assert found.before is not None
    assert found.best is not None
    assert found.steps == 24
    assert found.best.pearson > max(found.before.pearson, 0) + 0.3
    dev = plan.dev[0].rated
    scores, groups = (
        np.array(twmd_registry.scorer("twmd", **found.keys).score(dev.predictions, dev.references).scores),
        np.array(dev.group),
    )
    for name, value in (("pearson", found.best.pearson), ("kendall", found.best.kendall)):
        parts = [correlate(name, scores[groups == group], dev.ratings[groups == group]) for group in set(dev.group)]
        assert np.mean(parts) == pytest.approx(value, abs=1e-4)
    log = [json.loads(line) for line in (output / "log.jsonl").read_text(encoding="utf-8").splitlines()]
    judged = [line["eval_pearson"] for line in log if "eval_pearson" in line]
    assert len(judged) == 4
    assert max(judged) == found.best.pearson
    assert judged.index(max(judged)) + 1 == found.best.epoch


def test_folder_holds_adapter_preset_card_and_signature(
    done: tuple[Path, FinetuneResult, FinetunePlan], tiny: str
) -> None:
    output, found, plan = done
    files = [
        "README.md",
        "adapter_config.json",
        "adapter_model.safetensors",
        "log.jsonl",
        "preset.toml",
        "signature.txt",
    ]
    assert sorted(path.name for path in output.iterdir()) == [*files, "training_data.safetensors"]
    assert twmd_registry.scorer("twmd", **found.keys).signature == found.signature
    assert (output / "signature.txt").read_text(encoding="utf-8") == f"{found.signature}\n"
    card = (output / "README.md").read_text(encoding="utf-8")
    assert found.signature in card
    assert str(output) not in card
    assert tiny not in card + (output / "adapter_config.json").read_text(encoding="utf-8")
    (preset,) = read_presets((output / "preset.toml").read_text(encoding="utf-8"), "here")
    rated = plan.train[0].rated.ratings
    for fact in (
        plan.train[0].label,
        plan.dev[0].label,
        plan.holdout[0].label,
        f"{np.mean(rated):.6g}",
        f"{np.std(rated):.6g}",
        "seed 12345",
    ):
        assert fact in preset.provenance
        assert fact in card.replace("| seed | 12345 |", "seed 12345")
    add_preset(output / "preset.toml")
    try:
        assert twmd_registry.scorer("twmd", "words").signature == found.signature
    finally:
        remove_preset("words")


def test_adapter_under_other_settings_is_announced(done: tuple[Path, FinetuneResult, FinetunePlan], tiny: str) -> None:
    output, found, _ = done
    other = twmd_registry.scorer("twmd", **(found.keys | {"layer": "1", "temperature": "0.3"}))
    message = (
        r"adapter ./adapter@\w+ was trained under other settings: layer is 1, and was 2; temperature is 0.3, and "
        r"was 0.1 \("
    )
    with pytest.warns(TwmdWarning, match=message):
        assert other.spec.layer == 1
    with pytest.warns(TwmdWarning, match="metric is sbert, and was twmd"):
        assert twmd_registry.scorer("sbert", model=tiny, layer=LAYER, adapter=str(output)).spec.layer == LAYER
    with warnings.catch_warnings():
        warnings.simplefilter("error", TwmdWarning)
        assert twmd_registry.scorer("twmd", **found.keys).signature == found.signature


def test_layers_above_the_one_that_is_read_get_no_adapter(done: tuple[Path, FinetuneResult, FinetunePlan]) -> None:
    from safetensors import safe_open

    with safe_open(done[0] / "adapter_model.safetensors", framework="pt") as file:
        names = list(file.keys())
        assert {name.partition("layer.")[2].partition(".")[0] for name in names} == {"0", "1"}
        assert all(float(file.get_tensor(name).abs().max()) > 0 for name in names)


def test_one_seed_gives_one_adapter(tiny: str, tmp_path: Path) -> None:
    def adapter(name: str, seed: int) -> str:
        plan = FinetunePlan(
            make_spec("trwmd", model=tiny, layer=LAYER),
            (named_words(40, 1),),
            recipe=Recipe(rank=2, epochs=1, seed=seed),
        )
        return finetune(plan, tmp_path / name / "adapter", options=CPU).signature

    first, again, other = adapter("a", 1), adapter("b", 1), adapter("c", 2)
    assert first == again
    assert first != other


def test_all_weights_can_be_trained_with_a_mean_vector_that_stays_what_it_was(
    tiny: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "corpus.txt").write_text("\n".join(rated_words(20, 5).references), encoding="utf-8")
    assert main(["fit-mean", str(tmp_path / "corpus.txt"), "--model", tiny, "-o", str(tmp_path)]) == 0
    mean = capsys.readouterr().out.partition("background:")[2].strip()
    output = tmp_path / "model"
    train = write_words(tmp_path / "train.jsonl", 32, 1)
    arguments = [
        "finetune",
        "bertscore_centered",
        "--set",
        f"model={tiny}",
        "--train",
        train,
        "-o",
        str(output),
        "--full",
        "--epochs",
        "1",
        "--device",
        "cpu",
    ]
    assert main([*arguments, "--set", f"layer={LAYER}", f"centering=background:{mean}"]) == 0
    out = capsys.readouterr().out
    said = dict(part.split("=", 1) for part in out.partition("--set ")[2].splitlines()[0].split(" "))
    signature = out.partition("signature ")[2].strip()
    assert said["model"] == str(output)
    with twmd_registry.scorer("bertscore_centered", **said) as scorer:
        assert scorer.signature == signature
        backend = scorer.backend
        assert isinstance(backend, TokenAlignmentBackend)
        trained, untrained = (
            backend.background,
            TokenAlignmentBackend(
                make_spec("sbert", model=tiny, layer=0, centering=f"background:{mean}"), CPU
            ).background,
        )
    assert trained is not None
    assert untrained is not None
    assert trained.about["trained_with"] == untrained.hash
    assert trained.hash != untrained.hash
    torch.testing.assert_close(trained.content, untrained.content, atol=0, rtol=0)
    before, after = (load_file(Path(folder) / "model.safetensors") for folder in (tiny, output))
    changed = {name for name in before if not torch.equal(before[name], after[name])}
    assert {name.partition("layer.")[2].partition(".")[0] for name in changed if "layer." in name} == {"0", "1"}
    assert "embeddings.word_embeddings.weight" in changed
    assert "| weights | full |" in (output / "README.md").read_text(encoding="utf-8")
