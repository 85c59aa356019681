"""Fine-tuning: what is learned, what is written, runs that are interrupted and resumed."""

from __future__ import annotations

import json
import os
import re
import signal
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save
from transformers import TrainerState

import twmd_registry
from tests.processes import limit_files, run_beside
from tests.train.rated_words import named_words, rated_words, write_words
from twmd_registry.cli import main
from twmd_registry.engine.backends import TokenAlignmentBackend
from twmd_registry.errors import InputError, SpecError, TwmdWarning
from twmd_registry.metaeval.correlation import correlate
from twmd_registry.registry.options import RunOptions
from twmd_registry.registry.own_presets import add_preset, remove_preset
from twmd_registry.registry.presets import read_presets
from twmd_registry.registry.spec import make_spec
from twmd_registry.train.finetune import FinetunePlan, FinetuneResult, finetune
from twmd_registry.train.recipe import Recipe
from twmd_registry.train.trainer import LOG_STEPS, STATE, last_checkpoint

CPU = RunOptions(device="cpu")
LAYER = 2
Run = tuple[Path, FinetuneResult, FinetunePlan]


@pytest.fixture(scope="module")
def done(bert: str, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Return a run of some epochs on words whose value the encoder has to learn."""
    spec = make_spec("twmd", model=bert, layer=LAYER, centering="none", temperature=0.1)
    recipe = Recipe(rank=4, epochs=4, learning_rate=1e-2)
    plan = FinetunePlan(spec, (named_words(96, 1),), (named_words(48, 2),), (named_words(20, 3),), recipe)
    output = tmp_path_factory.mktemp("runs") / "adapter"
    return output, finetune(plan, output, options=CPU, name="words"), plan


def test_metric_against_the_source_is_trained_as_it_scores(bert: str, tmp_path: Path) -> None:
    spec = make_spec("twmd", model=bert, layer=LAYER, centering="none", temperature=0.1, against="source")
    data = [
        own._replace(rated=own.rated._replace(references=["none"] * len(own.rated.group), source=own.rated.references))
        for own in (named_words(48, 1), named_words(48, 2), named_words(20, 3))
    ]
    plan = FinetunePlan(spec, (data[0],), (data[1],), (data[2],), Recipe(rank=4, epochs=1, learning_rate=1e-2))
    found = finetune(plan, tmp_path / "adapter", options=CPU)  # the equal references are not compared, so none is named
    assert found.best is not None
    assert "|against:source|" in found.signature
    card = (tmp_path / "adapter" / "README.md").read_text(encoding="utf-8")
    assert "    twmd score -i out.txt --src source.txt -m twmd --set " in card
    assert "None of these segments has a source in common with the held-out data: words3@" in card
    dev = data[1].rated
    scores = np.array(twmd_registry.scorer("twmd", **found.keys).score(dev.predictions, sources=dev.source).scores)
    groups = np.array(dev.group)
    parts = [correlate("pearson", scores[groups == group], dev.ratings[groups == group]) for group in set(dev.group)]
    assert np.mean(parts) == pytest.approx(found.best["pearson"], abs=1e-4)


def read_log(output: Path, key: str) -> list[float]:
    lines = [json.loads(line) for line in (output / "log.jsonl").read_text(encoding="utf-8").splitlines()]
    return [line[key] for line in lines if key in line]


def test_trained_metric_agrees_better_with_dev(done: Run) -> None:
    output, found, plan = done
    assert found.before is not None
    assert found.best is not None
    assert found.steps == 24
    assert found.best["pearson"] > max(found.before["pearson"], 0) + 0.3
    dev = plan.dev[0].rated
    scores = np.array(twmd_registry.scorer("twmd", **found.keys).score(dev.predictions, dev.references).scores)
    groups = np.array(dev.group)
    for name in ("pearson", "kendall"):
        parts = [correlate(name, scores[groups == group], dev.ratings[groups == group]) for group in set(dev.group)]
        assert np.mean(parts) == pytest.approx(found.best[name], abs=1e-4)
    epochs = read_log(output, "eval_pearson")
    assert len(epochs) == 4
    assert max(epochs) == found.best["pearson"]
    assert epochs.index(max(epochs)) + 1 == found.best["epoch"]


def test_folder_holds_adapter_preset_card_and_signature(done: Run, bert: str) -> None:
    output, found, plan = done
    files = "README.md adapter_config.json adapter_model.safetensors log.jsonl preset.toml signature.txt"
    assert sorted(path.name for path in output.iterdir()) == [*files.split(), "training_data.safetensors"]
    assert twmd_registry.scorer("twmd", **found.keys).signature == found.signature
    assert (output / "signature.txt").read_text(encoding="utf-8") == f"{found.signature}\n"
    card = (output / "README.md").read_text(encoding="utf-8")
    assert found.signature in card
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
        assert twmd_registry.scorer("twmd", "words").signature == found.signature
    finally:
        remove_preset("words")


def test_adapter_under_other_settings_gives_a_warning(done: Run, recwarn: pytest.WarningsRecorder) -> None:
    _, found, _ = done
    assert twmd_registry.scorer("twmd", **found.keys).signature == found.signature
    assert not recwarn.list
    other = twmd_registry.scorer("twmd", **(found.keys | {"layer": "1", "temperature": "0.3"}))
    message = r"was trained under other settings: layer is 1, and was 2; temperature is 0.3, and was 0.1 \("
    with pytest.warns(TwmdWarning, match=rf"adapter ./adapter@\w+ {message}"):
        assert other.spec.layer == 1


def test_adapter_has_no_weights_above_the_layer(done: Run) -> None:
    weights = load_file(done[0] / "adapter_model.safetensors")
    assert {name.partition("layer.")[2].partition(".")[0] for name in weights} == {"0", "1"}
    assert all(float(weight.abs().max()) > 0 for weight in weights.values())


def test_adapter_depends_on_the_seed_only(bert: str, tmp_path: Path) -> None:
    def signature(name: str, seed: int) -> str:
        recipe = Recipe(rank=2, epochs=1, seed=seed)
        plan = FinetunePlan(make_spec("trwmd", model=bert, layer=LAYER), (named_words(20, 1),), recipe=recipe)
        return finetune(plan, tmp_path / name / "adapter", options=CPU).signature

    first, again, other = signature("a", 1), signature("b", 1), signature("c", 2)
    assert first == again
    assert first != other


def test_full_training_changes_the_network_and_transfers_mean_vectors(
    bert: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "corpus.txt").write_text("\n".join(rated_words(20, 5).references), encoding="utf-8")
    assert main(["fit-mean", str(tmp_path / "corpus.txt"), "--model", bert, "-o", str(tmp_path)]) == 0
    mean = capsys.readouterr().out.partition("background:")[2].strip()
    output, train = tmp_path / "model", write_words(tmp_path / "train.jsonl", 32, 1)
    command = ["finetune", "bertscore_centered", "--train", train, "-o", str(output), "--full", "--epochs", "1"]
    keys = [f"model={bert}", f"layer={LAYER}", f"centering=background:{mean}"]
    assert main([*command, "--device", "cpu", "--set", *keys]) == 0
    out = capsys.readouterr().out
    printed = dict(part.split("=", 1) for part in out.partition("--set ")[2].splitlines()[0].split(" "))
    assert printed["model"] == str(output)
    scorer = twmd_registry.scorer("bertscore_centered", **printed)
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


def test_plan_with_held_out_segments_or_without_data_is_refused() -> None:
    spec, data = make_spec("twmd"), (named_words(20, 1),)
    with pytest.raises(InputError, match=r"held out \(words1\): words1 20 of 20 \(the first: 1\);"):
        FinetunePlan(spec, data, holdout=data).check()
    with pytest.raises(SpecError, match="nothing to train on"):
        FinetunePlan(spec, ()).check()


def test_plan_against_the_source_with_a_held_out_source_is_refused() -> None:
    spec, train, test = make_spec("twmd", against="source"), named_words(20, 1), named_words(6, 2)
    train = train._replace(rated=train.rated._replace(source=[f"satz {row}" for row in range(20)]))
    with pytest.raises(InputError, match=r"^words2 has no sources, and twmd compares with them"):
        FinetunePlan(spec, (train,), holdout=(test,)).check()
    held_out = test._replace(rated=test.rated._replace(source=["Satz  4", *"abcde"]))
    with pytest.raises(
        InputError, match=r"^segments whose source is held out \(words2\): words1 1 of 20 \(the first: 5"
    ):
        FinetunePlan(spec, (train,), holdout=(held_out,)).check()


def test_diverging_run_ends_with_an_error(bert: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    train = write_words(tmp_path / "train.jsonl", 40, 1)
    command = ["finetune", "twmd", "--train", train, "-o", str(tmp_path / "out"), "--device", "cpu", "--batch", "8"]
    keys = ["--set", f"model={bert}", "layer=2", "centering=none"]
    assert main([*command, "--learning-rate", "1e30", *keys]) == 1
    message = r"twmd: training diverged at step \d+: train anew, in a new folder, with a lower one \(the learning rate"
    assert re.search(message, capsys.readouterr().err)


@pytest.mark.parametrize(
    ("more", "code", "message"),
    [
        (["--full", "--rank", "8"], 2, "--rank sets the rank of an adapter"),
        (["-o", "{folder}"], 1, "is not empty: give a new folder"),
        (["-o", "{folder}/train.jsonl"], 2, "is a file."),
        (["--train", "{train}", "{again}"], 2, "hold the same rated texts: name them once"),
        (["--resume"], 2, "holds no interrupted run: there is nothing to resume"),
    ],
)
def test_command_without_effect_or_with_harm_is_refused(
    more: list[str], code: int, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    train, again = (write_words(tmp_path / f"{name}.jsonl", 20, 1) for name in ("train", "again"))
    given = [one.format(folder=tmp_path, train=train, again=again) for one in more]
    output = [] if "-o" in given else ["-o", str(tmp_path / "out")]
    assert main(["finetune", "twmd", *([] if "--train" in given else ["--train", train]), *output, *given]) == code
    assert message in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("role", ["--train", "--dev"])
def test_data_that_the_model_does_not_read_are_refused(
    role: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    english, russian = (write_words(tmp_path / f"{k}.jsonl", 20, k, russian=k == 2) for k in (1, 2))
    train = ["--train", russian] if role == "--train" else ["--train", english, "--dev", russian]
    command = ["finetune", "twmd", *train, "-o", str(tmp_path)]  # a folder that is not empty ends the command
    assert main(command) == 1
    refused = capsys.readouterr().err
    assert "2.jsonl: 100% of the letters are in scripts that sentence-transformers/all-MiniLM-L6-v2 does not" in refused
    assert "above all Cyrillic (first: prediction of row 1); it was made for en: use a model that" in refused
    assert "(--any-language)." in refused
    assert main([*command, "--any-language"]) == 1
    warned = capsys.readouterr().err
    assert "2.jsonl: 100% of the letters" in warned
    assert "these scores say little" in warned
    assert "is not empty" in warned


def run_until_killed(command: list[str], step: int) -> None:
    """Run a command in this process; SIGKILL it in the middle of writing the checkpoint of a step."""
    write = TrainerState.save_to_json

    def kill(self: TrainerState, path: str) -> None:
        if self.global_step == step:
            os.kill(os.getpid(), signal.SIGKILL)
        write(self, path)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(TrainerState, "save_to_json", kill)
        main(command)


def test_run_killed_in_a_checkpoint_ends_like_an_uninterrupted_run(
    bert: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    train, dev = write_words(tmp_path / "train.jsonl", 80, 1), write_words(tmp_path / "dev.jsonl", 20, 2)
    whole, killed = tmp_path / "whole" / "adapter", tmp_path / "killed" / "adapter"
    recipe = "--epochs 3 --batch 8 --rank 2 --save-steps 6 --learning-rate 1e-2 --device cpu --loss".split()
    command = ["finetune", "twmd", "--train", train, "--dev", dev, *recipe, "pearson"]
    command += ["--set", f"model={bert}", "layer=2", "centering=batch", "-o"]
    assert main([*command, str(whole)]) == 0
    expected = capsys.readouterr().out
    with pytest.raises(BrokenProcessPool):
        run_beside(run_until_killed, ([*command, str(killed)], 18))
    assert (killed / "checkpoints" / "checkpoint-18").is_dir()
    reached = last_checkpoint(killed / "checkpoints")
    assert reached is not None
    assert reached.name == "checkpoint-12"
    assert not (killed / "signature.txt").exists()
    state = json.loads((reached / STATE).read_text(encoding="utf-8"))
    state["log_history"][0]["seconds"] = 3600.0  # as if the killed run had taken an hour
    (reached / STATE).write_text(json.dumps(state), encoding="utf-8")
    for more, code, message in (
        ([], 2, "holds an interrupted run: go on with it by --resume, or remove the folder"),
        (["--resume", "--seed", "1"], 2, "an interrupted run of another plan: seed was 12345 and is 1."),
    ):
        assert main([*command, str(killed), *more]) == code
        assert message in capsys.readouterr().err
    assert main([*command, str(killed), "--resume"]) == 0
    printed = capsys.readouterr().out
    assert printed.partition("signature ")[2] == expected.partition("signature ")[2]
    losses = [float(re.findall("training segments ([0-9.]+)", text)[0]) for text in (printed, expected)]
    assert losses[0] == pytest.approx(losses[1], abs=1e-3)
    # Trainer logs the mean of ten steps; a kill loses the steps since the last entry, so the second mean differs.
    logs = [read_log(output, "loss") for output in (killed, whole)]
    assert len(logs[0]) == len(logs[1]) == 30 // LOG_STEPS
    assert logs[0][::2] == pytest.approx(logs[1][::2], abs=1e-3)
    took = [
        float(re.findall(r"minutes ([0-9.]+)\)", (output / "README.md").read_text())[0]) for output in (killed, whole)
    ]
    assert 0 <= took[1] < 60 <= took[0]
    assert not (killed / "checkpoints").exists()


@pytest.mark.parametrize("largest", [4096, 12288], ids=["weights", "optimizer"])
def test_full_disk_in_training_is_one_error_and_the_run_can_be_resumed(
    largest: int, bert: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = tmp_path / "out"
    command = ["finetune", "twmd", "--train", write_words(tmp_path / "train.jsonl", 20, 1), "-o", str(output), "-q"]
    command += ["--epochs", "1", "--rank", "2", "--device", "cpu", "--set", f"model={bert}", "layer=2"]
    with limit_files(largest):
        assert main(command) == 1
    hint = r"Checkpoints are kept: make room, and continue with --resume\."
    assert re.fullmatch(rf"twmd: cannot write {output}: .+\. {hint}\n", capsys.readouterr().err)
    assert main([*command, "--resume"]) == 0
    assert (output / "signature.txt").is_file()


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
