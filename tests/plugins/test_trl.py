"""Rewards for TRL: equal to the scorer's scores, guarded, and learned from by a real trainer."""

from __future__ import annotations

import math
import warnings
from pathlib import Path
from typing import Any

import pytest

import twmd_registry
from tests import tiny
from twmd_registry.errors import InputError, ModelError, SpecError, TwmdWarning
from twmd_registry.plugins.trl import repeats_itself, reward_function
from twmd_registry.registry.signature import parse_signature

COMPLETIONS = ["the cat sat here", "it rained all day long", "nobody"]
TARGETS = [["a cat sat there", "the cat sat"], ["it rained"], ["nobody came"]]


def test_rewards_equal_scores_and_have_the_signature() -> None:
    reward = reward_function("twmd", reference_column="target")
    expected = twmd_registry.score(COMPLETIONS, TARGETS, "twmd")
    assert reward(COMPLETIONS, target=TARGETS, prompts=["x", "y", "z"], trainer_state=None) == pytest.approx(
        expected.scores, abs=1e-6
    )
    messages = [[{"role": "assistant", "content": text}] for text in COMPLETIONS]
    assert reward(messages, target=TARGETS) == pytest.approx(expected.scores, abs=1e-6)
    halves = [[{"type": "text", "text": half} for half in (text[:3], text[3:])] for text in COMPLETIONS]
    conversations = [[{"role": "user"}, {"role": "assistant", "content": parts}] for parts in halves]
    assert reward(conversations, target=TARGETS) == pytest.approx(expected.scores, abs=1e-6)
    assert (reward.__name__, parse_signature(reward.signature).spec) == ("twmd_column_target", expected.signature.spec)


def test_degenerate_completions_are_scored_as_an_empty_text() -> None:
    texts = ["rain rain rain rain rain rain rain rain", "it is a cat", "it is a cat"]
    references, prompts = ["it will rain", "a cat it is", "it is a cat"], ["w", "it is a cat", "it is a cat"]
    columns = {"reference": references, "prompts": prompts}
    with pytest.warns(TwmdWarning):
        guarded: list[Any] = reward_function("sbert")(texts, **columns)
    plain: list[Any] = reward_function("sbert", guard=False)(texts, **columns)
    with pytest.warns(TwmdWarning):
        empty = reward_function("sbert")([""], reference=["it will rain"])
    assert guarded[0] == pytest.approx(empty[0])
    assert plain[0] > guarded[0]
    assert plain[1] > guarded[1]  # its prompt, and not the reference
    assert guarded[2] == pytest.approx(1.0, abs=1e-6)  # its prompt, which is the reference


@pytest.mark.parametrize(
    ("text", "repeats"),
    [
        ("the bell rang and rang and rang and rang and rang and rang", True),
        ("\u96e8\u304c\u964d\u308b\u3002" * 4, True),
        ("no no no no", False),  # too short to matter
        ("wir gehen wir gehen wir gehen wir gehen", True),  # no space follows the last
        ("We rowed north, then we rowed east, then we rowed home for tea and toast", False),
        ("Chapter 1 ................................ 5", False),
        ("She said no, no, no, no, and walked along the pier until the lamps went out", False),
    ],
)
def test_text_of_one_repeated_string_is_recognised(text: str, repeats: bool) -> None:
    assert repeats_itself(text) is repeats


def test_missing_column_error_lists_the_columns() -> None:
    with pytest.raises(InputError, match="no column 'reference'.* prompts, target"):
        reward_function("sbert")(["a"], prompts=["b"], target=["c"])


def test_completions_in_another_script_warn_once_or_are_refused() -> None:
    reward, references = reward_function("twmd"), ["it rains", "the cat sat"]
    with pytest.warns(TwmdWarning, match="of the letters are in scripts .* does not read, mostly Cyrillic"):
        rewards = reward(["it rains", "кошка сидела"], reference=references)
    assert rewards[0] == pytest.approx(1, abs=1e-6)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        reward(["it rains", "кошка сидела здесь"], reference=references)
    with pytest.raises(InputError, match="mostly Cyrillic"):
        reward_function("twmd", any_language=False)(["it rains", "кошка сидела"], reference=references)


@pytest.mark.parametrize(
    "references",
    [["it rained", None], ["it rained", math.nan], [["it rained", "rain"], None], [["it rained"], [None]]],
)
def test_reward_without_a_reference_abstains(references: list[Any]) -> None:
    reward = reward_function("sbert")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = reward(["it rains", "a cat"], reference=references)
        assert reward(["it rains", "a cat"], reference=[None, references[1]]) == [None, None]
    assert found == [pytest.approx(twmd_registry.score(["it rains"], references[:1], "sbert").score, abs=1e-6), None]
    with pytest.raises(InputError, match=r"predictions\[1\]"):
        reward(["it rains", 5], reference=references)


@pytest.mark.parametrize("reference", [5, {"text": "a"}, [["a"]], []])
def test_non_text_reference_is_refused_with_its_row(reference: Any) -> None:
    with pytest.raises(InputError, match=r"references\[1\]"):
        reward_function("sbert")(["a", "b"], reference=[["a"] if isinstance(reference, list) else "a", reference])


def test_rewards_of_one_metric_have_distinct_names() -> None:
    settings: list[dict[str, Any]] = [
        {}, {"layer": 6}, {"name": "mine"}, {"reference_column": "summary"}, {"guard": False}
    ]  # fmt: skip
    names = [reward_function("twmd", **keys).__name__ for keys in settings]
    assert names == ["twmd", "twmd_layer_6", "mine", "twmd_column_summary", "twmd_unguarded"]


def test_column_of_the_wrong_type_or_length_is_named() -> None:
    reward = reward_function("sbert")
    for columns, name in (({"reference": None}, "reference"), ({"reference": "ab"}, "reference")):
        with pytest.raises(InputError, match=f"'{name}' must be a list of 2"):
            reward(["a", "b"], **columns)
    with pytest.raises(InputError, match="'prompts' must be a list of 2"):
        reward(["a", "b"], reference=["a", "b"], prompts=["a"])


def test_message_that_only_calls_tools_is_scored_as_an_empty_text() -> None:
    reward = reward_function("sbert", guard=False)
    with pytest.warns(TwmdWarning):
        found = reward([[{"role": "assistant", "content": None}], [{"role": "assistant"}], ""], reference=["rain"] * 3)
    assert found == pytest.approx([found[2]] * 3)


@pytest.mark.parametrize(
    "completion",
    [None, 1.5, [], ["it rains"], {"role": "assistant", "content": "it rains"}, [{"content": [{"type": "image"}]}]],
)
def test_non_text_completion_is_refused_with_its_row(completion: object) -> None:
    with pytest.raises(InputError, match=r"predictions\[1\] must be a text; got None"):
        reward_function("sbert")(["it rains", completion], reference=["rain", "it rains"])


@pytest.mark.parametrize("algorithm", ["GRPO", "RLOO"])
def test_policy_is_trained_on_the_rewards(algorithm: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trl = pytest.importorskip("trl")
    from datasets import Dataset
    from transformers import GPT2Config, GPT2LMHeadModel

    monkeypatch.setenv("TRACKIO_DISABLE", "1")
    tokenizer = tiny.tokenizer()
    tokenizer.pad_token = tokenizer.eos_token = tokenizer.sep_token
    config = GPT2Config(
        vocab_size=len(tokenizer), n_positions=64, n_embd=16, n_layer=1, n_head=2, eos_token_id=tokenizer.eos_token_id
    )
    rows = [{"prompt": "the cat", "target": "the cat sat on the mat"}] * 8
    arguments = getattr(trl, f"{algorithm}Config")(
        str(tmp_path),
        max_steps=5,
        per_device_train_batch_size=4,
        num_generations=4,
        max_completion_length=6,
        learning_rate=1e-3,
        logging_steps=1,
        save_strategy="no",
        report_to=[],
        bf16=False,
        use_cpu=True,
        beta=0.0,  # without a reference model, which RLOO would load from the Hub
    )
    trainer = getattr(trl, f"{algorithm}Trainer")(
        GPT2LMHeadModel(config),
        reward_function("sbert", reference_column="target", device="cpu"),
        arguments,
        train_dataset=Dataset.from_list(rows),
        processing_class=tokenizer,
    )
    trainer.train()
    name = "rewards/sbert_column_target/mean"
    logged = [row[name] for row in trainer.state.log_history if name in row]
    assert len(logged) == 5
    assert all(-1 <= value <= 1 for value in logged)
    assert len(set(logged)) > 1


def test_service_reward_equals_its_score_over_several_requests(monkeypatch: pytest.MonkeyPatch) -> None:
    serving = pytest.importorskip("tests.serve.serving")
    service = pytest.importorskip("twmd_registry.serve.service").Service(
        {"twmd": twmd_registry.load("twmd")}, max_pairs=3
    )
    with serving.serving_thread(service) as port:
        reward = reward_function(url=f"http://127.0.0.1:{port}/")
        references = [*TARGETS, None]  # five pairs: too many for one request
        expected = reward_function()([*COMPLETIONS, "a"], reference=references)
        assert reward([*COMPLETIONS, "a"], reference=references) == pytest.approx(expected, abs=1e-6)
        assert (reward.__name__, reward.signature.partition("|")[0]) == ("twmd", "twmd")
        with pytest.raises(InputError, match="is not served here"):
            reward_function("sbert", url=f"http://127.0.0.1:{port}")(COMPLETIONS, reference=TARGETS)
    with pytest.raises(ModelError, match="twmd serve"):
        reward(COMPLETIONS, reference=TARGETS)


@pytest.mark.parametrize("settings", [{"preset": "embedded"}, {"layer": 2}, {"url": "127.0.0.1:8080"}])
def test_service_rewards_need_an_address_and_take_no_settings(settings: Any) -> None:
    with pytest.raises(SpecError):
        reward_function(**{"url": "http://127.0.0.1:8080", **settings})
