"""Fine-tuning: learning, output, and interrupted and resumed runs."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save
from transformers import TrainerState

import twmd_registry
from tests import conftest as cli
from tests.processes import limit_files
from tests.train.rated_words import named_words, rated_words, write_words
from twmd_registry.engine.token_backend import TokenAlignmentBackend
from twmd_registry.errors import InputError, SpecError, TwmdWarning
from twmd_registry.judgments.rated import RatedSegments
from twmd_registry.metaeval.correlation import correlate
from twmd_registry.registry.options import MetricKeys, RunOptions
from twmd_registry.registry.own_presets import add_preset, remove_preset
from twmd_registry.registry.presets import read_presets
from twmd_registry.registry.spec import keys_to_set, make_spec
from twmd_registry.train.data import TrainingData
from twmd_registry.train.finetune import Finetuned, FinetunePlan, finetune
from twmd_registry.train.recipe import Recipe
from twmd_registry.train.trainer import LOG_STEPS, STATE, last_checkpoint

CPU = RunOptions(device="cpu")
LAYER = 2
Run = tuple[Path, Finetuned, FinetunePlan]


@pytest.fixture(scope="module")
def done(bert: str, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Return a run of some epochs on words whose value the encoder must learn."""
    spec = make_spec("twmd", model=bert, layer=LAYER, centering="none", temperature=0.1)
    recipe = Recipe(rank=4, epochs=4, learning_rate=1e-2)
    plan = FinetunePlan(spec, (named_words(96, 1),), (named_words(48, 2),), (named_words(20, 3),), recipe)
    output = tmp_path_factory.mktemp("runs") / "adapter"
    return output, finetune(plan, output, options=CPU, name="words"), plan


def mean_correlation(name: str, scores: Sequence[float], rated: RatedSegments) -> float:
    """Return the mean over groups of a correlation."""
    group, values = np.array(rated.group), np.array(scores)
    return float(
        np.mean([correlate(name, values[group == one], rated.ratings[group == one]) for one in set(rated.group)])
    )


def test_source_based_metric_is_trained_as_it_scores(bert: str, tmp_path: Path) -> None:
    spec = make_spec("twmd", model=bert, layer=LAYER, centering="none", temperature=0.1, against="source")
    train, dev, test = (
        rated._replace(
            rated=rated.rated._replace(references=["none"] * len(rated.rated.group), source=rated.rated.references)
        )
        for rated in (named_words(48, 1), named_words(48, 2), named_words(20, 3))
    )
    plan = FinetunePlan(spec, (train,), (dev,), (test,), Recipe(rank=4, epochs=1, learning_rate=1e-2))
    # Equal references are not compared, so none is named.
    trained, _, _, (_, best) = finetune(plan, tmp_path / "adapter", options=CPU)
    assert "|against:source|" in trained.signature
    card = (tmp_path / "adapter" / "README.md").read_text(encoding="utf-8")
    assert "    twmd score -i out.txt --src source.txt -m twmd --set " in card
    assert "None of these segments has a source in common with the held-out data: words3@" in card
    keys: dict[str, Any] = {**keys_to_set(trained.requested)}
    scores = twmd_registry.load("twmd", **keys).score(dev.rated.predictions, sources=dev.rated.source).scores
    assert mean_correlation("pearson", scores, dev.rated) == pytest.approx(best["pearson"], abs=1e-4)


def read_log(output: Path, key: str) -> list[float]:
    lines = [json.loads(line) for line in (output / "log.jsonl").read_text(encoding="utf-8").splitlines()]
    return [line[key] for line in lines if key in line]


def test_trained_metric_agrees_better_with_dev_under_its_own_settings(done: Run) -> None:
    output, (trained, steps, _, (before, best)), plan = done
    keys: dict[str, Any] = {**keys_to_set(trained.requested)}
    assert (steps, before["epoch"]) == (24, 0)
    assert best["pearson"] > max(before["pearson"], 0) + 0.3
    dev = plan.dev[0].rated
    scores = twmd_registry.load("twmd", **keys).score(dev.predictions, dev.references).scores
    for name in ("pearson", "kendall"):
        assert mean_correlation(name, scores, dev) == pytest.approx(best[name], abs=1e-4)
    epochs = read_log(output, "eval_pearson")
    assert (len(epochs), max(epochs)) == (4, best["pearson"])
    assert epochs.index(max(epochs)) + 1 == best["epoch"]
    other = twmd_registry.load("twmd", **(keys | {"layer": "1", "temperature": "0.3"}))
    message = r"was trained under other settings: layer is 1, was 2; temperature is 0.3, was 0.1 \("
    with pytest.warns(TwmdWarning, match=rf"adapter ./adapter@\w+ {message}"):
        assert other.spec.layers == (1,)


def test_folder_contains_adapter_preset_card_and_signature(done: Run, bert: str, recwarn: Any) -> None:
    output, (trained, *_), plan = done
    files = "README.md adapter_config.json adapter_model.safetensors log.jsonl preset.toml signature.txt"
    assert sorted(path.name for path in output.iterdir()) == [*files.split(), "training_data.safetensors"]
    assert (
        twmd_registry.load("twmd", **cast("MetricKeys", keys_to_set(trained.requested))).signature == trained.signature
    )
    assert not recwarn.list
    assert (output / "signature.txt").read_text(encoding="utf-8") == f"{trained.signature}\n"
    card = (output / "README.md").read_text(encoding="utf-8")
    assert trained.signature in card
    assert str(output) not in card
    assert bert not in card + (output / "adapter_config.json").read_text(encoding="utf-8")
    (preset,) = read_presets((output / "preset.toml").read_text(encoding="utf-8"), "here")
    rated = plan.train[0].rated.ratings
    labels = [data[0].label for data in (plan.train, plan.dev, plan.holdout)]
    for fact in (*labels, f"{np.mean(rated):.6g}", f"{np.std(rated):.6g}", "seed 12345"):
        assert fact in preset.provenance
        assert fact in card
    add_preset(output / "preset.toml")
    try:
        assert twmd_registry.load("twmd", "words").signature == trained.signature
    finally:
        remove_preset("words")
    weights = load_file(output / "adapter_model.safetensors")  # none is above the layer
    assert {name.partition("layer.")[2].partition(".")[0] for name in weights} == {"0", "1"}
    assert all(float(weight.abs().max()) > 0 for weight in weights.values())


def test_full_training_changes_network_and_transfers_means(bert: str, tmp_path: Path, run: cli.Run) -> None:
    (tmp_path / "corpus.txt").write_text("\n".join(rated_words(20, 5).references), encoding="utf-8")
    mean = (
        run(f"fit mean {tmp_path}/corpus.txt --set model={bert} -o {tmp_path}")[1].partition("background:")[2].strip()
    )
    output, train = tmp_path / "model", write_words(tmp_path / "train.jsonl", 32, 1)
    command = f"train metric {train} -m bertscore_centered -o {output} --full --epochs 1 --device cpu"
    out = run(f"{command} --set model={bert} layer={LAYER} centering=background:{mean}")[1]
    printed: dict[str, Any] = dict(part.split("=", 1) for part in out.partition("--set ")[2].splitlines()[0].split(" "))
    assert printed["model"] == str(output)
    scorer = twmd_registry.load("bertscore_centered", **printed)
    assert scorer.signature == out.partition("signature ")[2].strip()
    spec = make_spec("sbert", model=bert, layer=0, centering=f"background:{mean}")
    assert isinstance(scorer.backend, TokenAlignmentBackend)
    (trained,), (untrained,) = scorer.backend.backgrounds, TokenAlignmentBackend(spec, CPU).backgrounds
    assert trained.about["trained_with"] == untrained.hash != trained.hash
    torch.testing.assert_close(trained.content, untrained.content, atol=0, rtol=0)
    before, after = (load_file(Path(folder) / "model.safetensors") for folder in (bert, output))
    changed = {name for name in before if not torch.equal(before[name], after[name])}
    assert {name.partition("layer.")[2].partition(".")[0] for name in changed if "layer." in name} == {"0", "1"}
    assert "embeddings.word_embeddings.weight" in changed
    assert "(weights full, " in (output / "README.md").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("source", "holdout", "words"),
    [
        (None, named_words(20, 1), r"held out \(words1\): words1 20 of 20 \(the first: 1\);"),
        ("source", named_words(6, 2), r"^words2 has no sources"),
        (
            "source",
            named_words(6, 2)._replace(rated=rated_words(6, 2)._replace(source=["Satz  4", *"abcde"])),
            r"^segments whose source is held out \(words2\): words1 1 of 20 \(the first: 5",
        ),
    ],
)
def test_plan_with_held_out_segments_is_refused(source: str | None, holdout: TrainingData, words: str) -> None:
    train = named_words(20, 1)
    train = train._replace(rated=train.rated._replace(source=[f"satz {row}" for row in range(20)]))
    with pytest.raises(InputError, match=words):
        FinetunePlan(make_spec("twmd", "embedded", against=source), (train,), holdout=(holdout,)).check()
    with pytest.raises(SpecError, match="nothing to train on"):
        FinetunePlan(make_spec("twmd", "embedded"), ()).check()


def test_diverging_run_ends_with_an_error(bert: str, tmp_path: Path, run: cli.Run) -> None:
    train = write_words(tmp_path / "train.jsonl", 40, 1)
    command = f"train metric {train} -m twmd -o {tmp_path}/out --device cpu --batch 8 --learning-rate 1e30"
    status, _, err = run(f"{command} --set model={bert} layer=2 centering=none")
    message = r"twmd: training diverged at step \d+: train again, in a new folder, with a lower one \(the learning rate"
    assert (status, bool(re.search(message, err))) == (1, True)


@pytest.mark.parametrize(
    ("more", "code", "message"),
    [
        ("--full --rank 8", 2, "--rank sets the rank of an adapter"),
        ("-o {folder}", 1, "is not empty"),
        ("-o {folder}/train.jsonl", 2, "is a file."),
        ("{again}", 2, "contain the same rated texts"),
        ("--resume", 2, "contains no interrupted run: nothing to resume"),
    ],
)
def test_command_without_effect_is_refused(more: str, code: int, message: str, tmp_path: Path, run: cli.Run) -> None:
    train, again = (write_words(tmp_path / f"{name}.jsonl", 20, 1) for name in ("train", "again"))
    more = more.format(folder=tmp_path, train=train, again=again)
    more += "" if more.startswith("-o") else f" -o {tmp_path}/out"
    status, _, err = run(f"train metric {train} {more} -m twmd")
    assert (status, message in err) == (code, True)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("role", ["train", "dev"])
def test_data_in_unsupported_languages_are_refused(role: str, tmp_path: Path, run: cli.Run) -> None:
    english, russian = (write_words(tmp_path / f"{k}.jsonl", 20, k, russian=k == 2) for k in (1, 2))
    data = russian if role == "train" else f"{english} --dev {russian}"
    command = f"train metric {data} -m twmd -o {tmp_path}"  # a folder that is not empty ends the command
    status, _, refused = run(command)
    assert (status, "(--any-language)." in refused) == (1, True)
    assert "2.jsonl: 100% of the letters are in scripts that sentence-transformers/all-MiniLM-L6-v2 does not" in refused
    assert "mostly Cyrillic (first: prediction of row 1); it was made for en: use a model that" in refused
    status, _, warned = run(f"{command} --any-language")
    assert (status, "2.jsonl: 100% of the letters" in warned, "is not empty" in warned) == (1, True, True)


def test_run_interrupted_in_a_checkpoint_resumes_to_the_same_result(
    bert: str, tmp_path: Path, run: cli.Run, monkeypatch: cli.Patch
) -> None:
    write = TrainerState.save_to_json

    def interrupt(self: TrainerState, path: str) -> None:
        if self.global_step == 18:
            raise KeyboardInterrupt
        write(self, path)

    train, dev = write_words(tmp_path / "train.jsonl", 80, 1), write_words(tmp_path / "dev.jsonl", 20, 2)
    whole, killed = tmp_path / "whole" / "adapter", tmp_path / "killed" / "adapter"
    command = f"train metric {train} -m twmd --dev {dev} --epochs 3 --batch 8 --rank 2 --save-steps 6"
    command += f" --learning-rate 1e-2 --device cpu --loss pearson --set model={bert} layer=2 centering=batch -o"
    expected = run(f"{command} {whole}")[1]
    with monkeypatch.context() as patched:
        patched.setattr(TrainerState, "save_to_json", interrupt)
        run(f"{command} {killed}")
    assert (killed / "checkpoints" / "checkpoint-18").is_dir()
    reached = last_checkpoint(killed / "checkpoints")
    assert reached is not None
    assert reached.name == "checkpoint-12"
    assert not (killed / "signature.txt").exists()
    state = json.loads((reached / STATE).read_text(encoding="utf-8"))
    state["log_history"][0]["seconds"] = 3600.0  # as if the killed run had taken an hour
    (reached / STATE).write_text(json.dumps(state), encoding="utf-8")
    for more, message in (
        ("", "contains an interrupted run: continue it with --resume"),
        ("--resume --seed 1", "an interrupted run of another plan: seed was 12345, is 1."),
    ):
        status, _, err = run(f"{command} {killed} {more}")
        assert (status, message in err) == (2, True)
    printed = run(f"{command} {killed} --resume")[1]
    assert printed.partition("signature ")[2] == expected.partition("signature ")[2]
    losses = [float(re.findall("training segments ([0-9.]+)", text)[0]) for text in (printed, expected)]
    assert losses[0] == pytest.approx(losses[1], abs=1e-3)
    # Trainer logs the mean of ten steps; a kill loses the steps since the last entry, so the second mean differs.
    logs = [read_log(output, "loss") for output in (killed, whole)]
    assert len(logs[0]) == len(logs[1]) == 30 // LOG_STEPS
    assert logs[0][::2] == pytest.approx(logs[1][::2], abs=1e-3)
    cards = ((output / "README.md").read_text(encoding="utf-8") for output in (killed, whole))
    took = [float(re.findall(r"minutes ([0-9.]+)\)", card)[0]) for card in cards]
    assert 0 <= took[1] < 60 <= took[0]
    assert not (killed / "checkpoints").exists()


@pytest.mark.parametrize("largest", [4096, 12288], ids=["weights", "optimizer"])
def test_full_disk_raises_one_error_and_the_run_can_be_resumed(
    largest: int, bert: str, tmp_path: Path, run: cli.Run
) -> None:
    train = write_words(tmp_path / "train.jsonl", 20, 1)
    command = f"train metric {train} -m twmd -o {tmp_path}/out -q --epochs 1 --rank 2 --device cpu"
    command += f" --set model={bert} layer=2"
    with limit_files(largest):
        status, _, err = run(command)
    hint = r"Checkpoints are kept: free some space, and continue with --resume\."
    assert status == 1
    assert re.fullmatch(rf"twmd: cannot write {tmp_path}/out: .+\. {hint}\n", err)
    assert run(f"{command} --resume")[0] == 0
    assert (tmp_path / "out" / "signature.txt").is_file()


def test_half_written_checkpoint_is_skipped(tmp_path: Path) -> None:
    assert last_checkpoint(tmp_path) is None
    whole = save({"weight": torch.zeros(2)})
    steps = {3: ("{}", whole), 9: ("{}", whole), 12: ('{"epoch": 1', whole), 15: (None, whole), 18: ("{}", whole[:9])}
    for step, (state, weights) in steps.items():
        (tmp_path / f"checkpoint-{step}").mkdir()
        (tmp_path / f"checkpoint-{step}" / "model.safetensors").write_bytes(weights)
        if state is not None:
            (tmp_path / f"checkpoint-{step}" / "trainer_state.json").write_text(state, encoding="utf-8")
    assert last_checkpoint(tmp_path) == tmp_path / "checkpoint-9"
