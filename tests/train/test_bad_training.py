"""What cannot be trained, and data that cannot be trained on: refused before anything is loaded, in one line."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.tiny import save_encoder
from tests.train.rated_words import named_words, rated_words, write_words
from twmd_registry.cli import main
from twmd_registry.errors import InputError, SpecError, TwmdWarning
from twmd_registry.registry.spec import make_spec
from twmd_registry.train.data import TrainingData, check_held_out, examples, scale_of, warn_about_overlap
from twmd_registry.train.finetune import FinetunePlan, finetune
from twmd_registry.train.recipe import Loss, Recipe, Target


def check(metric: str = "twmd", recipe: Recipe | None = None, data: TrainingData | None = None, **keys: Any) -> None:
    FinetunePlan(make_spec(metric, **keys), (data or named_words(20, 1),), recipe=recipe or Recipe()).check()


@pytest.mark.parametrize("metric", ["moverscore", "stsscore", "ensemble"])
def test_metrics_that_cannot_be_trained_are_refused_with_the_menu(metric: str) -> None:
    with pytest.raises(
        SpecError,
        match=rf"^{metric} cannot be trained: .*Choices: twmd, trwmd, bertscore_centered, wordset_cka, sbert\.$",
    ):
        check(metric)


@pytest.mark.parametrize("centering", ["batch", "corpus"])
def test_batch_of_one_is_no_population(centering: str) -> None:
    with pytest.raises(
        SpecError,
        match=rf"centering={centering} with a training batch of 1 subtracts a segment's own mean .* centering=sentence",
    ):
        check(recipe=Recipe(batch=1), centering=centering)
    check(recipe=Recipe(batch=2), centering=centering)
    check(recipe=Recipe(batch=1), centering="none")


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"idf": "corpus"}, "idf=corpus counts over the texts that are scored"),
        ({"dtype": "bfloat16"}, "dtype=bfloat16: weights are trained in float32"),
        ({"adapter": "stsb-lora"}, "adapter=stsb-lora: an adapter cannot stand on another one"),
        ({"metric": "bertscore_centered", "baseline": "d6bd8bc4d4c0"}, "a baseline belongs to the untrained metric"),
        ({"metric": "sbert", "recipe": Recipe(target=Target.MEAN)}, "target=mean .* and sbert has no sides"),
        ({"output": "recall", "recipe": Recipe(target=Target.MEAN)}, "target=mean .* and twmd is asked for its recall"),
    ],
)
def test_keys_that_mean_nothing_in_training_are_refused(keys: dict[str, Any], message: str) -> None:
    with pytest.raises(SpecError, match=message):
        check(**keys)


@pytest.mark.parametrize(
    "numbers",
    [
        {"epochs": 0},
        {"batch": -1},
        {"rank": 0},
        {"save_steps": 0},
        {"learning_rate": 0.0},
        {"learning_rate": float("nan")},
        {"batch": 2, "loss": Loss.PEARSON},
        {"dropout": 1.0},
        {"dropout": float("nan")},
    ],
)
def test_impossible_recipes_are_refused(numbers: dict[str, float]) -> None:
    with pytest.raises(SpecError, match=f"{next(iter(numbers))}="):
        Recipe(**numbers)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("ratings", "message"),
    [
        ([1.0, 2.0, float("nan")], r"^set: ratings\[2\] is nan; expected a finite number: leave the segment out\.$"),
        ([float("inf"), 2.0, 1.0], r"^set: ratings\[0\] is inf;"),
        ([0.5, 0.5, 0.5], r"^set: ratings do not vary \(all 3 are 0\.5\); there is nothing to learn"),
    ],
)
def test_ratings_that_teach_nothing_are_named(ratings: list[float], message: str) -> None:
    data = TrainingData("set", rated_words(4, 1)._replace(ratings=np.array(ratings)))
    with pytest.raises(InputError, match=message):
        check(data=data)


def test_texts_that_cannot_be_scored_are_named_with_their_set() -> None:
    rated = rated_words(4, 1)
    rated.references[2] = 7
    with pytest.raises(InputError, match=r"^set: references\[2\] must be a text"):
        check(data=TrainingData("set", rated))


def test_ratings_are_standardised_within_their_own_set() -> None:
    data = [named_words(20, 1), TrainingData("percent", rated_words(10, 2)._replace(ratings=np.arange(10) * 11.0))]
    scales = [scale_of(one) for one in data]
    found = examples(data, scales)
    assert scales[1].mean == pytest.approx(49.5)
    assert scales[1].sd == pytest.approx(11 * (99 / 12) ** 0.5)
    for one, targets in ((data[0], found[:20]), (data[1], found[20:])):
        z = [row.target for row in targets]
        assert sum(z) == pytest.approx(0, abs=1e-9)
        assert sum(value**2 for value in z) / len(z) == pytest.approx(1)
        assert np.corrcoef(z, one.rated.ratings)[0, 1] == pytest.approx(1)
    assert [row.prediction for row in found] == [*data[0].rated.predictions, *data[1].rated.predictions]


def test_held_out_references_are_counted_whatever_the_prediction() -> None:
    train, dev, tested = named_words(20, 1), named_words(10, 2), rated_words(6, 3)
    check_held_out([train, dev], [TrainingData("test", tested)])
    tested.references[0], tested.references[1] = (
        [train.rated.references[4], "it ran"],
        f" {dev.rated.references[3]} ".replace(" ", "  "),
    )
    tested.references[2:] = [[one] for one in tested.references[2:]]
    tested.references[1] = [tested.references[1]]
    copies = sum(one == train.rated.references[4] for one in train.rated.references)
    message = rf"held out \(test\): words1 {copies} of 20, words2 1 of 10; take them out"
    with pytest.raises(InputError, match=message):
        check_held_out([train, dev], [TrainingData("test", tested)])
    with pytest.raises(InputError, match="held out"):
        FinetunePlan(make_spec("twmd"), (train,), (dev,), (TrainingData("test", tested),)).check()


def test_dev_segments_that_were_trained_on_are_counted() -> None:
    train, dev = named_words(20, 1), rated_words(6, 2)
    dev.references[0] = train.rated.references[0]
    with pytest.warns(
        TwmdWarning,
        match=r"^dev: segments whose reference is in the training data, too: 1 of 6; dev flatters the model\.$",
    ):
        warn_about_overlap([train], [TrainingData("dev", dev)])


def test_nothing_to_train_on_is_refused() -> None:
    with pytest.raises(SpecError, match="nothing to train on"):
        FinetunePlan(make_spec("twmd"), ()).check()


def test_word_vectors_and_embedding_layers_hold_nothing_for_an_adapter(tmp_path: Path) -> None:
    (tmp_path / "table.txt").write_text("cat 1 0\ndog 0 1\n", encoding="utf-8")
    static = make_spec("sbert", model=str(tmp_path / "table.txt"), layer=0, centering="none")
    with pytest.raises(SpecError, match="is a table of word vectors: there is no encoder to train"):
        finetune(FinetunePlan(static, (named_words(20, 1),)), tmp_path / "out")
    with pytest.raises(SpecError, match="layer=0 of .* stands on no linear layer"):
        finetune(FinetunePlan(make_spec("sbert", layer=0, centering="none"), (named_words(20, 1),)), tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_command_refuses_held_out_segments_with_their_number(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    train = write_words(tmp_path / "train.jsonl", 20, 1)
    assert main(["finetune", "twmd", "--train", train, "--holdout", train, "-o", str(tmp_path / "out")]) == 1
    assert re.search(
        r"twmd: segments whose reference is held out \(train.jsonl\): train.jsonl 20 of 20;", capsys.readouterr().err
    )
    assert not (tmp_path / "out").exists()


def test_run_that_diverges_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model, train = save_encoder("bert", tmp_path / "tiny"), write_words(tmp_path / "train.jsonl", 40, 1)
    how = [
        "--learning-rate",
        "1e30",
        "--epochs",
        "3",
        "--batch",
        "8",
        "--device",
        "cpu",
        "--set",
        "layer=2",
        "centering=none",
    ]
    assert (
        main(["finetune", "twmd", "--set", f"model={model}", "--train", train, "-o", str(tmp_path / "out"), *how]) == 1
    )
    said = capsys.readouterr().err
    assert re.search(
        (
            r"twmd: training diverged at step \d+: train anew, in a new folder, with a lower one \(the learning "
            r"rate is 1e\+30\)\."
        ),
        said,
    )


@pytest.mark.parametrize(
    ("more", "code", "words"),
    [
        (["--full", "--rank", "8"], 2, "--rank is of an adapter, and --full trains none"),
        (["-o", "{folder}"], 1, "is not empty: give a new folder"),
        (["-o", "{folder}/train.jsonl"], 2, "is a file."),
        (["--train", "{train}", "{again}"], 2, "hold the same rated texts: name them once"),
    ],
)
def test_command_refuses_what_would_do_nothing_or_harm(
    more: list[str], code: int, words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    train, again = (write_words(tmp_path / f"{name}.jsonl", 20, 1) for name in ("train", "again"))
    given = [one.format(folder=tmp_path, train=train, again=again) for one in more]
    output = [] if "-o" in given else ["-o", str(tmp_path / "out")]
    assert main(["finetune", "twmd", *([] if "--train" in given else ["--train", train]), *output, *given]) == code
    assert words in capsys.readouterr().err


def test_population_of_another_size_is_said(tmp_path: Path) -> None:
    model, plan = str(save_encoder("bert", tmp_path / "tiny")), (named_words(20, 1),)
    for centering, words in (
        ("corpus", "the 16 segments of a batch stand for the corpus"),
        ("batch", "batches of 16, and scored in batches of 32"),
    ):
        spec = make_spec("sbert", model=model, layer=1, centering=centering)
        with pytest.warns(TwmdWarning, match=words):
            finetune(FinetunePlan(spec, plan, recipe=Recipe(epochs=1, rank=2)), tmp_path / centering)


def test_presets_model_is_trained(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model, train = save_encoder("bert", tmp_path / "tiny"), write_words(tmp_path / "train.jsonl", 20, 1)
    how = ["--train", train, "--epochs", "1", "--rank", "2", "--device", "cpu"]
    first = ["--set", f"model={model}", "layer=2", "centering=none", "-o", str(tmp_path / "first.one")]
    assert main(["finetune", "sbert", *how, *first]) == 0
    assert main(["preset", "add", str(tmp_path / "first.one" / "preset.toml")]) == 0  # called like its folder
    capsys.readouterr()
    # An adapter cannot stand on another one: all weights of the preset's model, under its adapter.
    assert (
        main(
            [
                "finetune",
                "sbert",
                "--preset",
                "first.one",
                "--full",
                *how[:4],
                "--device",
                "cpu",
                "-o",
                str(tmp_path / "second"),
            ]
        )
        == 0
    )
    assert "sbert|model:./second@" in capsys.readouterr().out
    assert main(["preset", "remove", "first.one"]) == 0
