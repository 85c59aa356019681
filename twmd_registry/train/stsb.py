"""Train regression models on the STS benchmark with sentence-transformers' trainers.

A cross-encoder is trained with the mean squared error on ratings from 0 to 5 (Herbold 2024). A siamese model gets a
line that maps cosines to ratings.
"""

from __future__ import annotations

import math
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

from twmd_registry.engine.scorer import load
from twmd_registry.judgments.corpora import HIGHEST
from twmd_registry.judgments.rated import RatedSegments
from twmd_registry.metaeval.overlap import TRAINING_DATA, write_hashes
from twmd_registry.models.files import ModelFiles, find_model, find_sentence_model
from twmd_registry.models.load import load_network
from twmd_registry.models.regressor import load_cross_encoder, save_line
from twmd_registry.models.sentence import Line, load_bare, load_pipeline, moved_module
from twmd_registry.registry.names import EMBEDDED_MODEL, Dtype, MetricName
from twmd_registry.registry.spec import make_spec
from twmd_registry.train.data import TrainingData, check_readable, hashes_of, rating_scale
from twmd_registry.train.finetune import check_output
from twmd_registry.train.model import add_lora, require_training, train_in_bfloat16
from twmd_registry.train.recipe import Recipe
from twmd_registry.train.trained_files import save_adapter, save_cross_encoder, write_card, writing

WARM_UP_STEPS = 100


def train_stsb(
    sets: Mapping[str, RatedSegments],
    output: Path,
    *,
    model: str = EMBEDDED_MODEL,
    siamese: bool = False,
    recipe: Recipe = Recipe(),  # noqa: B008 (frozen)
    dtype: Dtype = "float32",
    any_language: bool = False,
    device: str = "auto",
) -> tuple[str, float]:
    """Fine-tune a model on STS-B's ``train``, choose the epoch on ``dev``, and save it.

    An adapter is saved, in the number format `dtype`, or with ``recipe.full`` the whole cross-encoder.

    Returns:
        STSScore's signature with this model, and its Pearson correlation on dev.
    """
    require_training()
    check_output(output, resume=False)
    data = {name: TrainingData(f"STS-B {name}", rated) for name, rated in sets.items()}
    for source in data.values():
        check_readable(source, make_spec(MetricName.STSSCORE, model=model), any_language=any_language)
        rating_scale(source)
    from transformers import set_seed

    files, start = find_sentence_model(model) if siamese else find_model(model), time.monotonic()
    set_seed(recipe.seed)
    trained, wrapped = _make_model(files, recipe, siamese=siamese)
    with writing(output), tempfile.TemporaryDirectory() as run:
        arguments = _arguments(recipe, Path(run), len(data["train"].rated.ratings), device, siamese=siamese)
        if recipe.bf16:
            train_in_bfloat16(wrapped, arguments.device.type)
        pearson = _train(trained, arguments, {name: source.rated for name, source in data.items()}, siamese=siamese)
        if recipe.full:
            save_cross_encoder(trained, output)
        else:
            save_adapter(wrapped, files.name, output, dtype)
        if siamese:
            save_line(_fit_line(trained, data["train"].rated), output, files.fingerprint)
        keys: dict[str, Any] = {"model": str(output)} if recipe.full else {"model": model, "adapter": str(output)}
        with load("stsscore", scale=HIGHEST, **keys) as scores:
            signature = scores.signature
        write_hashes(hashes_of(data.values()), output / TRAINING_DATA)
        values: dict[str, Any] = {name: source.label for name, source in data.items()}
        values |= {"pearson": pearson, "siamese": siamese, "full": recipe.full, "epochs": recipe.epochs}
        values |= {"rank": recipe.rank, "rate": recipe.rate, "minutes": f"{(time.monotonic() - start) / 60:.1f}"}
        values |= {"loss": "mean squared error of cosines" if siamese else "mean squared error"}
        library = "sentence-transformers" if recipe.full else "peft"
        write_card(output, "stsscore", files.name, signature, values, library=library)
    return signature, pearson


def _make_model(files: ModelFiles, recipe: Recipe, *, siamese: bool) -> tuple[Any, Any]:
    """Return sentence-transformers' model for an encoder, and its network with the trained weights."""
    if siamese:
        network = add_lora(load_bare(files, "float32"), recipe.rank, "all-linear")
        model = load_pipeline(files, network, "float32")
        model.default_prompt_name = None  # the trainer sets none, nor does stsscore
        return model, network
    from transformers import AutoModelForSequenceClassification

    network = load_network(AutoModelForSequenceClassification, files, "float32", num_labels=1)
    wrapped = network if recipe.full else add_lora(network, recipe.rank, "all-linear", head=True)
    return load_cross_encoder(files, network), wrapped


def _arguments(recipe: Recipe, folder: Path, rows: int, device: str, *, siamese: bool) -> Any:
    from sentence_transformers import CrossEncoderTrainingArguments, SentenceTransformerTrainingArguments

    from twmd_registry.train.trainer import training_arguments

    arguments_type = SentenceTransformerTrainingArguments if siamese else CrossEncoderTrainingArguments
    batches = math.ceil(rows / recipe.batch)
    return training_arguments(
        recipe,
        folder,
        batches,
        evaluate=True,
        device_option=device,
        warm_up=WARM_UP_STEPS,
        arguments_type=arguments_type,
    )


def _train(model: Any, arguments: Any, data: Mapping[str, RatedSegments], *, siamese: bool) -> float:
    """Train and keep the best epoch's weights; return its Pearson correlation on dev."""
    from datasets import Dataset
    from sentence_transformers import CrossEncoderTrainer, SentenceTransformerTrainer
    from transformers import PrinterCallback

    from twmd_registry.train.trainer import KeepBest

    scale = HIGHEST if siamese else 1.0  # a cosine is at most 1
    columns = {
        name: ([*rated.predictions], [*rated.references], [rating / scale for rating in rated.ratings.tolist()])
        for name, rated in data.items()
    }
    if siamese:
        evaluation = moved_module("evaluation")
        trainer_type, criterion = SentenceTransformerTrainer, moved_module("losses").CosineSimilarityLoss(model)
        evaluator = evaluation.EmbeddingSimilarityEvaluator(*columns["dev"], name="dev", main_similarity="cosine")
        best = KeepBest(model, "eval_dev_pearson_cosine")
    else:
        from sentence_transformers.cross_encoder.evaluation import CrossEncoderCorrelationEvaluator
        from sentence_transformers.cross_encoder.losses import MSELoss

        trainer_type, criterion = CrossEncoderTrainer, MSELoss(model)
        pairs = [list(pair) for pair in zip(*columns["dev"][:2], strict=True)]
        evaluator = CrossEncoderCorrelationEvaluator(pairs, columns["dev"][2], name="dev")
        best = KeepBest(model, "eval_dev_pearson")
    model.model_card_data.widget = [{}]  # otherwise the library chooses examples for its card, with a progress bar
    trainer = trainer_type(
        model=model,
        args=arguments,
        train_dataset=Dataset.from_dict(dict(zip(("sentence1", "sentence2", "score"), columns["train"], strict=True))),
        loss=criterion,
        evaluator=evaluator,
        callbacks=[best],
    )
    trainer.remove_callback(PrinterCallback)  # it prints dictionaries among the results
    trainer.train()
    best.restore()
    model.eval()
    return best.value


@torch.no_grad()
def _fit_line(model: Any, rated: RatedSegments) -> Line:
    """Fit the line from cosines to ratings by least squares."""
    sides = (
        model.encode([*texts], prompt="", convert_to_tensor=True, normalize_embeddings=True, show_progress_bar=False)
        for texts in (rated.predictions, rated.references)
    )
    cosines = torch.mul(*sides).sum(1).double().cpu().numpy()
    weight, bias = np.polyfit(cosines, np.asarray(rated.ratings, dtype=np.float64), 1)
    return Line(float(weight), float(bias))
