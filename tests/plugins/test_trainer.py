"""Training runs of Seq2SeqTrainer with a tiny model, in a single process and in two."""

from __future__ import annotations

import json
import math
import os
import socket
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from huggingface_hub import ModelCard
from transformers import (
    BartConfig,
    BartForConditionalGeneration,
    DataCollatorForSeq2Seq,
    EvalPrediction,
    Seq2SeqTrainer,
    Seq2SeqTrainingArguments,
)

import twmd_registry
from tests import tiny
from tests.conftest import fill_disk
from tests.processes import run_beside
from twmd_registry.cli import main
from twmd_registry.engine.result import NOTED
from twmd_registry.errors import InputError, TwmdError, TwmdWarning
from twmd_registry.plugins.transformers import RegistryCallback, make_compute_metrics
from twmd_registry.registry.names import OUTPUTS

SOURCES = ["the cat sat", "a dog ran over the hill", "we saw it again", "rain today", "the dog and the cat"]
TARGETS = [
    "the cat sat on the mat .",
    "a dog ran over a hill .",
    "we saw it again today .",
    "it saw rain .",
    "the dog and the cat ran .",
]


class Rows(torch.utils.data.Dataset[dict[str, list[int]]]):
    """Tokenized rows as a torch data set; `split` is the split name that some data sets carry."""

    def __init__(
        self, sources: Sequence[str] = SOURCES, targets: Sequence[str] = TARGETS, split: str | None = None
    ) -> None:
        tokenizer = tiny.tokenizer()
        labels = tokenizer(text_target=list(targets))["input_ids"]
        self._rows = [
            {"input_ids": ids, "labels": label_ids}
            for ids, label_ids in zip(tokenizer(list(sources))["input_ids"], labels, strict=True)
        ]
        self.split = split

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, i: int) -> dict[str, list[int]]:
        return self._rows[i]


def network(seed: int = 0) -> Any:
    """Create a BART model with random weights that generates a few words."""
    torch.manual_seed(seed)
    config = BartConfig(
        vocab_size=len(tiny.WORDS) + 4, d_model=16, encoder_layers=1, decoder_layers=1,
        encoder_attention_heads=2, decoder_attention_heads=2, encoder_ffn_dim=24, decoder_ffn_dim=24,
        max_position_embeddings=40, pad_token_id=1, bos_token_id=0, eos_token_id=2,
        decoder_start_token_id=2, forced_eos_token_id=None, init_std=1.0,
    )  # fmt: skip
    return BartForConditionalGeneration(config)


def trainer(folder: Path, metrics: Any, *, callback: bool = True, data: Any = None, **settings: Any) -> Seq2SeqTrainer:
    """Create a trainer that runs a few steps on the CPU."""
    arguments: dict[str, Any] = {
        "max_steps": 2,
        "learning_rate": 1e-2,
        "per_device_train_batch_size": 4,
        "per_device_eval_batch_size": 4,
        "predict_with_generate": True,
        "generation_max_length": 8,
        "report_to": [],
        "use_cpu": True,
        "disable_tqdm": True,
        "save_strategy": "no",
        "dataloader_pin_memory": False,
    }
    tokenizer, model = tiny.tokenizer(), network()
    return Seq2SeqTrainer(
        model=model,
        args=Seq2SeqTrainingArguments(output_dir=str(folder), **(arguments | settings)),
        train_dataset=Rows(),
        eval_dataset=Rows() if data is None else data,
        data_collator=DataCollatorForSeq2Seq(tokenizer, model=model),
        processing_class=tokenizer,
        compute_metrics=metrics,
        callbacks=[metrics] if callback else None,
    )


ROOT = Path(__file__).resolve().parents[3]
EVERY_STEP: dict[str, Any] = {"eval_strategy": "steps", "eval_steps": 1, "save_strategy": "steps", "save_steps": 1}
FIRST_IS_BEST: dict[str, Any] = {**EVERY_STEP, "load_best_model_at_end": True, "metric_for_best_model": "falling"}
pytestmark = pytest.mark.filterwarnings("ignore:texts without a token")


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny.save_encoder("bert", tmp_path_factory.mktemp("encoder"))


class Falling:
    """A metric that returns less at every call, so the first checkpoint is the best."""

    name = "falling"

    def __init__(self) -> None:
        self.calls = 0

    def compute(self, predictions: list[str], references: list[str]) -> dict[str, int]:
        self.calls += 1
        return {"falling": -self.calls}


def make(encoder: Path, references: Any = None, *, second: Any = "bleu", **settings: Any) -> RegistryCallback:
    one = twmd_registry.load("twmd", model=str(encoder), layer=2, device="cpu")
    return make_compute_metrics(tiny.tokenizer(), [one, second], references, **settings)


def scores(metrics: dict[str, Any], prefix: str = "eval_") -> dict[str, float]:
    """Return the numbers of a registry metric or SacreBLEU, without Trainer's."""
    return {key: value for key, value in metrics.items() if key.removeprefix(prefix).startswith(("twmd", "bleu"))}


@pytest.fixture(scope="module")
def run(encoder: Path, tmp_path_factory: pytest.TempPathFactory) -> Seq2SeqTrainer:
    """Return a training run that evaluates and saves at every step."""
    metrics = make(encoder, references=[[target, source] for target, source in zip(TARGETS, SOURCES, strict=True)])
    found = trainer(
        tmp_path_factory.mktemp("run"),
        metrics,
        **EVERY_STEP,
        load_best_model_at_end=True,
        metric_for_best_model="twmd",
        max_steps=3,
    )
    found.train()
    found.create_model_card()
    return found


class TestOneRun:
    @staticmethod
    def logged(run: Any) -> dict[int, dict[str, float]]:
        return {entry["step"]: scores(entry) for entry in run.state.log_history if "eval_loss" in entry}

    def test_scores_of_generated_texts_are_finite(self, run: Any) -> None:
        logged = self.logged(run)
        assert set(logged) == {1, 2, 3}
        keys = {"eval_twmd", *(f"eval_twmd_{key}" for key in OUTPUTS), "eval_bleu"}
        for found in logged.values():
            assert keys <= set(found) <= keys | {f"eval_twmd_{key}" for key in NOTED}
            assert all(type(value) is float and math.isfinite(value) for value in found.values())

    def test_every_checkpoint_has_a_record_that_verifies(
        self, run: Any, encoder: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        for step, found in self.logged(run).items():
            folder = Path(run.args.output_dir) / f"checkpoint-{step}"
            record = twmd_registry.read_record(folder / "eval_record.json")
            assert [result.score for result in record.systems[0].results] == [found["eval_twmd"], found["eval_bleu"]]
            texts = folder / "eval_texts.jsonl"
            arguments = ["verify", str(folder / "eval_record.json"), "-i", str(texts), "--part", f"model={encoder}"]
            assert main(arguments) == 0
            assert "2 of 2 results reproduced" in capsys.readouterr().out
            assert [json.loads(line)["references"] for line in texts.read_text(encoding="utf-8").splitlines()] == [
                [target, source] for target, source in zip(TARGETS, SOURCES, strict=True)
            ]

    def test_signatures_are_written_once(self, run: Any) -> None:
        written = json.loads((Path(run.args.output_dir) / "metric_signatures.json").read_text(encoding="utf-8"))
        assert twmd_registry.parse_signature(written["eval"]["twmd"]).spec.layers == (2,)
        assert written["eval"]["bleu"].startswith("BLEU|nrefs:2|")
        logged = [entry["metric_signatures"] for entry in run.state.log_history if "metric_signatures" in entry]
        assert logged == [written]

    def test_card_contains_the_best_checkpoints_scores(self, run: Any) -> None:
        card = ModelCard.load(Path(run.args.output_dir) / "README.md")
        best = self.logged(run)[int(Path(run.state.best_model_checkpoint).name.rpartition("-")[2])]
        assert {eval_result.metric_type: eval_result.metric_value for eval_result in card.data.eval_results} == {
            name: best[f"eval_{name}"] for name in ("twmd", "bleu")
        }
        signature = next(one.metric_args["signature"] for one in card.data.eval_results if one.metric_type == "twmd")
        assert card.text.count(f"`{signature}`") == 1
        assert twmd_registry.parse_signature(signature).spec.layers == (2,)


def test_scores_after_training_belong_to_the_best_weights(encoder: Path, tmp_path: Path) -> None:
    metrics = make(encoder, second=Falling())
    ended = trainer(tmp_path, metrics, **FIRST_IS_BEST)
    metrics.follow(ended)
    ended.train()
    last = [entry for entry in ended.state.log_history if "eval_loss" in entry][-1]
    del last["eval_twmd_empty"]  # as if the model had learned to write: a count of 0 is not logged
    ended.create_model_card()
    lines = (tmp_path / "README.md").read_text(encoding="utf-8").splitlines()
    table = [[cell.strip() for cell in line.split("|")] for line in lines if line.startswith("| ")]
    assert [row[table[0].index("Falling")] for row in table] == ["Falling", "-1.0", "-2.0"]
    assert Path(ended.state.best_model_checkpoint).name == "checkpoint-1"
    assert ended.state.global_step == 2
    in_training = ModelCard.load(tmp_path / "README.md").data.eval_results
    assert {one.metric_type: one.metric_value for one in in_training}["falling"] == -1
    predicted = ended.predict(Rows(split="test"))
    ended.create_model_card(model_name="tiny", tags="made-for-tests")
    written = ModelCard.load(tmp_path / "README.md")
    card = written.data
    assert written.text.count("`twmd|") == 1  # one signature of all scores that it signs
    assert (card.model_name, "made-for-tests" in card.tags) == ("tiny", True)
    assert [one for one in card.eval_results if one.dataset_name == "eval"] == in_training
    of_test = [one for one in card.eval_results if one.dataset_name == "test"]
    assert {(one.dataset_split, one.metric_type): one.metric_value for one in of_test} == {
        ("test", name): predicted.metrics[f"test_{name}"] for name in ("twmd", "falling")
    }


def test_resumed_run_warns_about_an_unevaluated_best_checkpoint(encoder: Path, tmp_path: Path) -> None:
    trainer(tmp_path, make(encoder, second=Falling()), **FIRST_IS_BEST).train()
    resumed = trainer(tmp_path, make(encoder, second=Falling()), **FIRST_IS_BEST, max_steps=3)
    with pytest.warns(TwmdWarning, match=r"the best checkpoint \(1\) was not evaluated in this run"):
        resumed.train(resume_from_checkpoint=str(tmp_path / "checkpoint-2"))
    assert (tmp_path / "checkpoint-3" / "eval_record.json").is_file()


def test_several_sets_are_distinguished_by_their_split(encoder: Path, tmp_path: Path) -> None:
    sets = {"news": Rows(split="news"), "talk": Rows(SOURCES[::-1], TARGETS[::-1], split="talk")}
    references = {"news": TARGETS, "talk": TARGETS[::-1]}
    metrics = make(encoder, references)
    run = trainer(tmp_path, metrics, data=sets, **EVERY_STEP, max_steps=1, metric_for_best_model="eval_talk_twmd")
    metrics.follow(run)
    run.train()
    run.create_model_card()
    news, talk = (entry for entry in run.state.log_history if {"eval_news_twmd", "eval_talk_twmd"} & set(entry))
    logged = news | talk
    # In another order the corpus scores are the same if every row finds its references.
    assert logged["eval_news_bleu"] == pytest.approx(logged["eval_talk_bleu"])
    assert logged["eval_news_twmd"] == pytest.approx(logged["eval_talk_twmd"], abs=1e-5)
    checkpoint = tmp_path / "checkpoint-1"
    assert {path.name for path in checkpoint.glob("*_record.json")} == {
        "eval_news_record.json",
        "eval_talk_record.json",
    }
    card = ModelCard.load(tmp_path / "README.md")
    assert {(eval_result.dataset_name, eval_result.dataset_split) for eval_result in card.data.eval_results} == {
        ("eval_news", "news"),
        ("eval_talk", "talk"),
    }
    plain = trainer(tmp_path / "plain", make(encoder, TARGETS), data=sets)
    with pytest.raises(InputError, match="two evaluation sets"):
        plain.evaluate()


@pytest.fixture(scope="module")
def wanted(encoder: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, float]:
    return scores(trainer(tmp_path_factory.mktemp("wanted"), make(encoder)).evaluate())


@pytest.mark.parametrize(
    ("settings", "callback"),
    [
        ({"batch_eval_metrics": True}, True),
        ({"batch_eval_metrics": True}, False),
        ({"eval_do_concat_batches": False}, True),
    ],
    ids=["batch metrics", "batch metrics without callback", "list of batches"],
)
def test_every_form_of_rows_scores_alike(
    encoder: Path, tmp_path: Path, wanted: dict[str, float], settings: dict[str, Any], callback: bool
) -> None:
    run = trainer(tmp_path, make(encoder), callback=callback, **settings)
    for _ in range(2):
        assert scores(run.evaluate()) == pytest.approx(wanted, abs=1e-6)


@pytest.mark.parametrize("offload", ["cpu", "close"])
def test_offload_moves_or_frees_the_metrics_model(
    encoder: Path, tmp_path: Path, wanted: dict[str, float], offload: str
) -> None:
    metrics = make(encoder, offload=offload, prefix="own_")
    run = trainer(tmp_path, metrics)
    for _ in range(2):
        found = run.evaluate()
        results = {key.replace("own_", ""): value for key, value in scores(found, "eval_own_").items()}
        assert results == pytest.approx(wanted, abs=1e-6)
        backend = metrics.panel["twmd"].backend
        assert (backend.loaded is None) == (offload == "close")
        assert offload == "close" or backend.model.parked


def test_rows_of_an_interrupted_evaluation_are_dropped(encoder: Path, tmp_path: Path, wanted: dict[str, float]) -> None:
    metrics = make(encoder)
    run = trainer(tmp_path, metrics, batch_eval_metrics=True)
    step, calls = run.prediction_step, list[int]()

    def breaks_once(*args: Any, **settings: Any) -> Any:
        calls.append(1)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return step(*args, **settings)

    run.prediction_step = breaks_once
    with pytest.raises(KeyboardInterrupt):
        run.evaluate()
    assert scores(run.evaluate()) == wanted
    alone, ids = make_compute_metrics(tiny.tokenizer(), ["chrf"]), np.full((2, 3), 5)
    with pytest.warns(TwmdWarning, match=r"callbacks=\["):
        alone(EvalPrediction(predictions=ids, label_ids=ids))
    floats = np.zeros((2, 3, 4))
    with pytest.raises(InputError, match="must be token ids"):
        metrics(EvalPrediction(predictions=np.zeros((2, 3), dtype=int), label_ids=floats))
    with pytest.raises(InputError, match="2 predictions but 3 labels"):
        metrics(EvalPrediction(predictions=np.zeros((2, 3), dtype=int), label_ids=np.zeros((3, 3), dtype=int)))


def test_only_evaluated_checkpoints_have_records_and_cards_are_opt_in(encoder: Path, tmp_path: Path) -> None:
    metrics, damaged = make(encoder, prefix=None), "---\nfoo: [\n---\n"
    running = trainer(tmp_path, metrics, **(EVERY_STEP | {"eval_steps": 2}), max_steps=2)
    running.train()
    assert not (tmp_path / "README.md").exists()
    running.create_model_card = lambda: (tmp_path / "README.md").write_text(damaged, encoding="utf-8")
    metrics.follow(running)
    with pytest.warns(TwmdWarning, match="no results"):
        running.create_model_card()
    assert (tmp_path / "README.md").read_text(encoding="utf-8") == damaged
    assert (tmp_path / "checkpoint-1").is_dir()
    assert [path.parent.name for path in tmp_path.glob("*/eval_record.json")] == ["checkpoint-2"]


@pytest.mark.parametrize("full", ["eval_texts.jsonl", "metric_signatures.json README.md"])
def test_full_disk_does_not_stop_training(
    encoder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, full: str
) -> None:
    fill_disk(monkeypatch, "registry.paths", *full.split())
    metrics = make(encoder)
    running = trainer(tmp_path, metrics, **EVERY_STEP, max_steps=1)
    metrics.follow(running)
    with pytest.warns(TwmdWarning) as warned:
        running.train()
        running.create_model_card()
    for name in full.split():
        assert any(f"{name}: No space left on device" in str(one.message) for one in warned)
    written = {path.name for path in tmp_path.glob("checkpoint-1/eval_*")}
    assert written == (set() if full.startswith("eval_") else {"eval_record.json", "eval_texts.jsonl"})


class Broken:
    name = "broken"

    def compute(self, predictions: list[str], references: list[str]) -> dict[str, float]:
        raise ValueError("no cats")


def evaluate_in_pieces(rank: int, port: int, encoder: Path, out: Path) -> dict[str, Any]:
    """Return what one of two processes does."""
    os.environ |= {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": "2"}
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    warnings.simplefilter("ignore")
    found: dict[str, Any] = {"labels": scores(trainer(out / "labels", make(encoder), ddp_backend="gloo").evaluate())}
    found["listed"] = scores(
        trainer(out / "listed", make(encoder, TARGETS), ddp_backend="gloo", batch_eval_metrics=True).evaluate()
    )
    with pytest.raises(TwmdError, match="^rank 0 of 2 failed: ValueError: no cats$"):
        trainer(out / "broken", make_compute_metrics(tiny.tokenizer(), [Broken()]), ddp_backend="gloo").evaluate()
    with pytest.raises(ValueError, match="pass the compute_metrics object in callbacks"):
        trainer(out / "alone", make(encoder), ddp_backend="gloo", callback=False).evaluate()
    assert torch.distributed.get_rank() == rank
    torch.distributed.destroy_process_group()
    return found


def test_two_processes_score_like_one(encoder: Path, tmp_path: Path, wanted: dict[str, float]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    for found in run_beside(evaluate_in_pieces, *((rank, port, encoder, tmp_path) for rank in range(2))):
        assert found["labels"] == found["listed"] == wanted
