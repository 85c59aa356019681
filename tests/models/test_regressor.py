from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sentence_transformers import CrossEncoder
from transformers import AutoConfig, AutoModelForSequenceClassification, AutoTokenizer, PreTrainedTokenizerFast

import twmd_registry
from tests import tiny
from tests.architectures import ARCHITECTURES
from twmd_registry.engine.result import ScoreSet
from twmd_registry.errors import ModelError, SpecError, TwmdWarning
from twmd_registry.models.regressor import CrossEncoderRegressor

FIRST = ["the cat sat", "a dog ran over the hill", "it", "the cat sat"]
SECOND = ["a cat sat on the mat", "it ran", "we saw it again today", "a cat sat on the mat"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny.save_regressor(tmp_path_factory.mktemp("regressor") / "model")


def score(folder: Path, predictions: list[str] = FIRST, references: list[str] = SECOND, **keys: Any) -> ScoreSet:
    return twmd_registry.score(predictions, references, "stsscore", model=str(folder), **{"scale": 5} | keys)


def test_different_pairs_go_through_the_model_once(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    predict, predicted, done = CrossEncoderRegressor.predict, list[str](), list[int]()

    def keep(regressor: CrossEncoderRegressor, texts: list[str], tokens: Any, pairs: np.ndarray, **more: Any) -> Any:
        predicted.extend(texts[first] for first, _ in pairs)
        return predict(regressor, texts, tokens, pairs, **more)

    monkeypatch.setattr(CrossEncoderRegressor, "predict", keep)
    twmd_registry.score_all(
        [twmd_registry.load("stsscore", model=str(folder), scale=5)], FIRST, SECOND, progress=done.append
    )
    assert sorted(predicted) == sorted(set(FIRST))
    assert sum(done) == len(FIRST)  # progress counts segments


def test_many_chunks_equal_one(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    predictions = [*FIRST, " ".join(["cat"] * 100), "", " "]
    references = [*SECOND, "a dog", "it", ""]
    for metric in ("stsscore", "sbert"):
        keys: dict[str, Any] = (
            {"model": str(folder), "scale": 5}
            if metric == "stsscore"
            else {"model": "embedded", "preset": "sentence-transformers"}
        )
        whole = twmd_registry.score(predictions, references, metric, **keys)
        with monkeypatch.context() as patch:
            patch.setattr("twmd_registry.engine.pair_backends.CHUNK_LETTERS", 30)
            parts = twmd_registry.score(predictions, references, metric, **keys)
        assert parts.scores == pytest.approx(whole.scores, abs=1e-6)
        assert parts.counts == whole.counts


def test_longer_text_of_a_too_long_pair_is_truncated_and_counted(folder: Path) -> None:
    long = " ".join(["cat"] * 100)
    with pytest.warns(TwmdWarning, match="distinct texts longer than the limit .truncation, in the signature.: 1;"):
        cut = score(folder, [long, "it"], ["a dog ran", "it"])
    kept = " ".join(["cat"] * (tiny.POSITIONS - 3 - 3))
    assert cut.scores[0] == pytest.approx(score(folder, [kept], ["a dog ran"]).score, abs=1e-6)
    assert cut.counts.truncated == 1  # not its partner, which was not truncated
    with pytest.warns(TwmdWarning, match="distinct texts longer than the limit"):
        assert score(folder, [long], [" ".join(["it"] * 120)]).counts.truncated == 2


def save_cross_encoder(folder: Path, name: str, **settings: Any) -> PreTrainedTokenizerFast:
    torch.manual_seed(0)
    sizes = ARCHITECTURES[name] | {"num_labels": 1, "initializer_range": 0.5} | settings
    AutoModelForSequenceClassification.from_config(AutoConfig.for_model(name, **sizes)).save_pretrained(folder)
    tokenizer = tiny.tokenizer()
    tokenizer.save_pretrained(folder)
    return tokenizer


@pytest.mark.parametrize("name", ["fnet", "big_bird"])
def test_score_equals_a_new_networks_on_the_pair_alone(name: str, tmp_path: Path) -> None:
    """FNet has no mask; BigBird attends otherwise after a short text."""
    save_cross_encoder(tmp_path, name)
    inputs = ["input_ids", "token_type_ids", *(["attention_mask"] if name != "fnet" else [])]
    tiny.change_json(tmp_path / "tokenizer_config.json", model_input_names=inputs)
    tokenizer = AutoTokenizer.from_pretrained(tmp_path)
    predictions = ["the cat sat", "a dog ran over the hill in rain", "it", "we saw the cat and the dog in rain again"]
    references = ["a cat", "the dog ran", "we saw it", "today we saw it in the rain again , and the cat ran"]
    alone = []
    for one, other in zip(predictions, references, strict=True):
        network = AutoModelForSequenceClassification.from_pretrained(tmp_path).eval()
        alone.append(float(network(**tokenizer(one, other, return_tensors="pt")).logits[0, 0].detach()) / 5)
    with twmd_registry.load("stsscore", model=str(tmp_path), scale=5) as scorer:
        assert scorer.score(predictions, references).scores == pytest.approx(alone, abs=1e-6)
        assert scorer.score(predictions[::-1], references[::-1]).scores == pytest.approx(alone[::-1], abs=1e-6)


def test_random_or_unpaddable_cross_encoder_is_refused(tmp_path: Path) -> None:
    save_cross_encoder(tmp_path / "reformer", "reformer", attn_layers=["local", "lsh", "local"])
    save_cross_encoder(tmp_path / "gpt2", "gpt2", pad_token_id=1)
    tiny.change_json(tmp_path / "gpt2" / "tokenizer_config.json", pad_token=None)
    for name, words in (("reformer", "at random"), ("gpt2", "no padding token")):
        with pytest.raises(ModelError, match=words):
            score(tmp_path / name)


def test_non_regressor_is_refused(tmp_path: Path) -> None:
    several = tiny.save_regressor(tmp_path / "several", outputs=2)
    headless = tiny.save_encoder("bert", tmp_path / "bare")
    tiny.change_json(headless / "config.json", num_labels=1)
    for folder, words in ((several, "has 2 outputs: stsscore needs a"), (headless, r"lacks 2 of .*\(classifier\.bias")):
        with pytest.raises(ModelError, match=words):
            score(folder)


def test_limit_without_room_for_two_texts_is_refused(folder: Path) -> None:
    for limit, words in (("cut:4", "expected at least 5"), ("cut:41", "reads at most 40 tokens")):
        with pytest.raises(SpecError, match=words):
            score(folder, truncation=limit)


def test_bfloat16_distinguishes_pairs(folder: Path) -> None:
    """A head in bfloat16 rounds many pairs to one number; here the head stays float32."""
    texts = [f"{a} {b}" for a in tiny.WORDS for b in tiny.WORDS], ["the cat sat"] * len(tiny.WORDS) ** 2
    exact = score(folder, *texts)
    if not hasattr(CrossEncoder, "set_keep_in_fp32_modules"):
        with pytest.raises(ModelError, match="sentence-transformers 6.2"):
            score(folder, *texts, dtype="bfloat16")
        return
    coarse = score(folder, *texts, dtype="bfloat16")
    assert len(set(coarse.scores)) > 0.9 * len(set(exact.scores))
    assert float(np.abs(np.array(exact.scores) - np.array(coarse.scores)).max()) < 0.05


def test_symmetric_is_the_mean_of_both_orders_and_swapping_changes_nothing(folder: Path) -> None:
    # a tiny model hardly depends on the order, so the dependence is made large
    keys: dict[str, Any] = {"model": str(folder), "scale": 1e-4}
    orders: list[dict[str, Any]] = [{}, {"first": "reference"}, {"symmetric": "yes"}]
    scorers = [twmd_registry.load("stsscore", **keys, **more) for more in orders]
    one, other, both = twmd_registry.score_all(scorers, FIRST, SECOND)
    assert both.scores == pytest.approx(np.mean([one.scores, other.scores], axis=0))
    assert max(abs(a - b) for a, b in zip(one.scores, other.scores, strict=True)) > 1e-2
    assert ("first" in str(one.signature), "|scale:0.0001|first:reference|" in str(other.signature)) == (False, True)
    for more, found in (({"first": "reference"}, one), ({"symmetric": True}, both)):
        swapped = score(folder, SECOND, FIRST, scale=1e-4, **more)
        assert swapped.scores == pytest.approx(found.scores, abs=1e-3)
    with pytest.raises(SpecError, match="first=reference has no effect with symmetric=yes"):
        twmd_registry.load("stsscore", **keys, symmetric=True, first="reference")


def test_activation_is_signed_and_a_different_training_activation_explained(tmp_path: Path) -> None:
    folder = tiny.save_regressor(tmp_path / "model")
    logits = [5 * logit for logit in score(folder).scores]
    found = score(folder, activation="sigmoid", scale=1)
    assert found.scores == pytest.approx((1 / (1 + np.exp(-np.array(logits)))).tolist(), abs=1e-6)
    assert ("activation:sigmoid" in str(found.signature), "activation" in str(score(folder).signature)) == (True, False)
    with pytest.raises(SpecError, match="identity, sigmoid"):
        score(folder, activation="tanh")
    for name, words in (
        ("config_sentence_transformers.json", {"activation_fn": "torch.nn.modules.activation.Sigmoid"}),
        ("config.json", {"sentence_transformers": {"activation_fn": "torch.nn.modules.activation.Sigmoid"}}),
    ):
        (folder / name).touch()
        content = (folder / name).read_text() or "{}"
        (folder / name).write_text(json.dumps(json.loads(content) | words))
        with pytest.warns(TwmdWarning, match="Sigmoid.*activation=sigmoid"):
            assert score(folder).scores == pytest.approx([logit / 5 for logit in logits], abs=1e-6)
        score(folder, activation="sigmoid")  # no warning
        (folder / name).write_text(content)
    for entry in ("x", {"activation_fn": 3}, {"activation_fn": "torch.nn.Nonsense"}, {"activation_fn": "os.system"}):
        tiny.change_json(folder / "config.json", sentence_transformers=entry)
        with pytest.raises(ModelError, match="expected a"):
            score(folder)
    settings = {"activation_fn": "torch.nn.modules.activation.Tanh"}
    (folder / "config_sentence_transformers.json").write_text(json.dumps(settings))
    with pytest.warns(TwmdWarning, match="does not offer Tanh"):
        score(folder)
    prompted = {"prompts": {"query": "a cat "}, "default_prompt_name": "query"}
    (folder / "config_sentence_transformers.json").write_text(json.dumps(prompted))
    (folder / "modules.json").write_text('[{"path": "", "type": "sentence_transformers.models.Transformer"}]')
    with pytest.raises(ModelError, match="prompt 'query'"):
        score(folder)


def test_score_equals_sentence_transformers(folder: Path) -> None:
    model = CrossEncoder(str(folder), activation_fn=torch.nn.Identity(), device="cpu")
    pairs = [*FIRST, " ".join(["cat"] * 100)], [*SECOND, "a dog " * 30]
    with pytest.warns(TwmdWarning, match="longer than the limit"):
        found = score(folder, *pairs, scale=4)
    assert found.scores == pytest.approx((model.predict(list(zip(*pairs, strict=True))) / 4).tolist(), abs=1e-6)
    assert set(found.as_dict()) == {"stsscore", "scores", "signature", *found.counts.as_dict()}


def test_clipping_limits_scores_to_0_and_1(folder: Path) -> None:
    free, clipped = (score(folder, scale=1e-3, clip=clip) for clip in ("no", "yes"))
    assert max(map(abs, free.scores)) > 1
    assert clipped.scores == pytest.approx(np.clip(free.scores, 0, 1))
    assert ("clip:yes" in str(clipped.signature), "clip" in str(free.signature)) == (True, False)


def test_blank_text_is_empty_even_if_it_has_tokens() -> None:
    blank = ["   ", "\u3000", "\ufeff", "\u200b\u200d"]
    with pytest.warns(TwmdWarning, match="texts without a token: 12;"):
        found = twmd_registry.score([*blank, *blank], ["", *["it rains"] * 4, "", "", ""], "stsscore", "multilingual")
    assert found.scores == [1.0, 0.0, 0.0, 0.0, 0.0, 1.0, 1.0, 1.0]
