"""Whole scores of random settings over all keys, against their recomputation in plain numpy from the raw model.

The recomputation is in float64. The package's float32 moves similarities by about 1e-7, which some settings amplify:
small temperatures, Eq. 1, centering. If a score is off by more than `TOLERANCE`, hidden states and inner products are
perturbed at random by `ROUNDING`, eight times. The score may then differ by four times the largest change of the exact
score.

TWMD_ORACLE_SETTINGS is the number of settings; every one is drawn from its own seed.
"""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import AutoModel, AutoTokenizer, BertConfig, BertModel

import twmd_registry
from tests.encode.vocabularies import wordpiece
from tests.oracles import whole
from twmd_registry.cli import main
from twmd_registry.engine import pipeline
from twmd_registry.errors import TwmdWarning
from twmd_registry.models.files import embedded_folder
from twmd_registry.registry.metrics import CATALOGUE
from twmd_registry.registry.names import MetricName

SETTINGS = int(os.environ.get("TWMD_ORACLE_SETTINGS", "120"))
TOLERANCE = 1e-5
LOOSEST = 1e-2
"""However little a score means, it may not differ by more."""
ROUNDING = 2.0**-22
SIDES = ("precision", "recall", "f1")
Texts = tuple[list[str], list[list[str]]]
TEXTS = [
    "the heron was waiting at the weir, and walked on",
    "A heron waited at the weir; the walkers walked away.",
    "see the old mill (see this), then see the weir!",
    "we saw naïve herons in the café",
    "a baker, baking and baked bread: the bread of the bakery",
    "The bread of the baker was baked - again & again - in the old bakery.",
    "walkers walked where herons wait, waded and walked on: waiting, waited, wading; walking, baking, seeing",
    "don't wait",
    "heron",
    "the heron",
    "herons waded",
    "the",
    "the of the",
    "!?",
    "Weir.",
    "\u201cA heron\u201d \u2013 waited \u2026",
    "🦆",
    "我们 喜欢 猫",
    "",
    "  ",
    "the heron was waiting at the weir, and walked on and walked on and walked on",
]
CORPUS = [
    "the heron was walking away",
    "a bakery at the weir",
    "see this, then bake bread",
    "the",
    "we waded, and waited; and walked",
    "the heron",
]
STOP_WORDS = ["the", "of", "and", "a", "walked", "don't"]


def raw_model(folder: Path) -> whole.Model:
    """Return transformers' results for one sequence at a time, in float64."""
    tokenizer = AutoTokenizer.from_pretrained(folder)
    network = AutoModel.from_pretrained(folder, attn_implementation="eager").double().eval()
    normalize = tokenizer.backend_tokenizer.normalizer.normalize_str

    @cache
    def tokenize(text: str) -> whole.Tokens:
        found = tokenizer(
            text, return_special_tokens_mask=True, return_offsets_mapping=True, truncation=False, verbose=False
        )
        pieces = tokenizer.convert_ids_to_tokens(found["input_ids"])
        written = [normalize(text[start:end]) for start, end in found["offset_mapping"]]
        return whole.Tokens(
            tuple(found["input_ids"]), tuple(pieces), tuple(map(bool, found["special_tokens_mask"])), tuple(written)
        )

    @cache
    def hidden(ids: tuple[int, ...]) -> np.ndarray:
        with torch.inference_mode():
            states = network(input_ids=torch.tensor([ids]), output_hidden_states=True).hidden_states
        return np.stack([state[0].numpy() for state in states])

    return whole.Model(tokenize, hidden, network.config.max_position_embeddings, tokenizer.unk_token)


class Bench:
    """A model, raw and as the package reads it, with the values fitted for it."""

    def __init__(self, name: str, folder: Path, home: Path) -> None:
        self.name, self.raw, self.home = name, raw_model(folder), home
        self.depth = len(self.raw.hidden(self.raw.tokenize("the").ids)) - 1
        (home / "corpus.txt").write_text("\n".join(CORPUS) + "\n", encoding="utf-8")
        (home / "stop.txt").write_text("\n".join(STOP_WORDS) + "\n", encoding="utf-8")
        self.files = {"stopwords": home / "stop.txt"}
        for command, key in (("mean", "centering"), ("idf", "idf")):
            assert (
                main(["fit", command, str(home / "corpus.txt"), "--set", f"model={name}", "-q", "-o", str(home / key)])
                == 0
            )
            (self.files[key],) = (home / key).iterdir()
        self.kept_loaded = twmd_registry.load("sbert", model=name, layer=0, centering="none")
        assert self.kept_loaded.spec
        self.stop_words = [tuple(self.raw.tokenize(word).pieces[1:-1]) for word in STOP_WORDS]


@pytest.fixture(scope="session")
def benches(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Bench]:
    @cache
    def make(name: str) -> Bench:
        home = tmp_path_factory.mktemp(name)
        if name == "embedded":
            folder = embedded_folder()
            assert folder is not None
            return Bench(name, folder, home)
        tokenizer = wordpiece()
        torch.manual_seed(0)
        sizes = {"hidden_size": 16, "num_hidden_layers": 3, "num_attention_heads": 2, "intermediate_size": 24}
        BertModel(BertConfig(vocab_size=len(tokenizer), max_position_embeddings=64, **sizes)).save_pretrained(
            home / "tiny"
        )
        tokenizer.save_pretrained(home / "tiny")
        return Bench(str(home / "tiny"), home / "tiny", home)

    return make


def shaken(model: whole.Model, seed: int) -> whole.Model:
    """Return the same model with rounding errors in its hidden states and inner products."""
    draw = np.random.default_rng(seed)

    @cache
    def hidden(ids: tuple[int, ...]) -> np.ndarray:
        states = model.hidden(ids)
        return np.asarray(
            states + ROUNDING * np.linalg.norm(states, axis=2, keepdims=True) * draw.standard_normal(states.shape)
        )

    def products(x: np.ndarray, y: np.ndarray) -> np.ndarray:
        lengths = np.outer(np.linalg.norm(x, axis=1), np.linalg.norm(y, axis=1))
        return np.asarray(x @ y.T + ROUNDING * lengths * draw.standard_normal(lengths.shape))

    return replace(model, hidden=hidden, products=products)


def draw_setting(draw: np.random.Generator, depth: int) -> dict[str, Any]:
    """Keys and values as in a signature."""

    def one(*choices: Any) -> Any:
        return choices[draw.integers(len(choices))]

    metric = one("twmd", "trwmd", "moverscore", "bertscore_centered", "wordset_cka", "sbert")
    keys: dict[str, Any] = {"metric": metric, "layer": str(draw.integers(depth + 1))}
    if draw.random() < 0.33:
        first, last = sorted(draw.choice(depth + 1, 2, replace=False).tolist())
        keys["layer"] = one(f"{first}-{last}", f"{first},{last}", f"last:{draw.integers(2, depth + 1)}")
        powers = ",".join(one("-inf", "1", "inf", "2", "3", "5") for _ in range(draw.integers(1, 4)))
        keys["aggregation"] = one("mean", "concat", f"pmeans:{powers}", "routing:gaussian", "routing:epanechnikov")
    keys["special"] = one("cls", "none", "all")
    keys["ngram"] = one("1", "1", "1", "2", "3", "4", "sentence")
    if metric == "bertscore_centered" and keys["ngram"] == "1":
        partners = {"special": "partners", "padding": one("none", "1", "2", "4")}
        keys |= one({"special": "cls"}, {"special": "none"}, {"special": "all"}, partners, partners)
    keys["subwords"], keys["punctuation"] = one("keep", "keep", "drop"), one("keep", "keep", "drop", "drop-ascii")
    keys["unknown"] = one("apart", "apart", "keep")
    keys["stopwords"] = one("none", "none", "list")
    if keys["stopwords"] == "list":
        keys["stopword_unit"] = one("word", "word", "piece")
    keys["idf"] = one("none", "none", "none", "corpus", "references", "background")
    keys["centering"] = one("none", "dimension", "sentence", "batch", "corpus", "background")
    if keys["centering"] in {"batch", "corpus"}:
        keys["centering_side"] = one("joint", "separate")
    if keys["centering"] == "batch":
        keys["centering_size"] = str(draw.integers(1, 6))
    if metric in {"twmd", "trwmd", "bertscore_centered"}:
        keys["output"] = one("precision", "recall", "f1")
    if metric in {"twmd", "trwmd"}:
        keys["objective"] = one("expected", "entropic")
        keys["temperature"] = repr(float(10 ** draw.uniform(-3, 0)))
    if metric == "twmd":
        keys["iterations"] = one("1", "1", "2", "3", "5", "converged")
        if keys["iterations"] == "converged":
            keys["temperature"] = repr(float(10 ** draw.uniform(-2, 0)))  # below, the fixed point is far
    if metric == "moverscore":
        keys["distance"], keys["transform"] = one("similarity", "sqeuclidean", "euclidean"), one("linear", "inverse")
    if metric == "sbert":
        keys["vectors"] = "unit" if keys["centering"] == "sentence" else one("unit", "raw")
    if metric in whole.SELF_NORMALISED:
        keys["normalize"] = one("yes", "yes", "no")
    keys["multiref"] = one("max", "mean")
    keys["truncation"] = one("cut", "cut", "cut:6", "cut:11", "window:5/2", "window:12/7")
    keys["baseline"] = "fitted" if draw.random() < 0.05 and keys.get("normalize") != "no" else "none"
    return keys


def draw_texts(draw: np.random.Generator) -> Texts:
    """Return one to six segments of one to three references; texts repeat, and some references are the prediction."""
    predictions = [TEXTS[i] for i in draw.integers(len(TEXTS), size=draw.integers(1, 7))]
    references = [[TEXTS[i] for i in draw.integers(len(TEXTS), size=draw.integers(1, 4))] for _ in predictions]
    own = [
        [prediction if draw.random() < 0.1 else text for text in texts]
        for prediction, texts in zip(predictions, references, strict=True)
    ]
    return predictions, own


def keys_here(bench: Bench, keys: dict[str, Any]) -> dict[str, Any]:
    """Return the same keys in a user's form, with files for fitted values."""
    given = {name: value for name, value in keys.items() if name not in {"metric", "baseline"}}
    given |= {name: f"background:{bench.files[name]}" for name in ("centering", "idf") if given[name] == "background"}
    return given | {"stopwords": bench.files["stopwords"] if keys["stopwords"] == "list" else "none"}


@pytest.mark.parametrize("seed", range(SETTINGS))
def test_random_setting_scores_as_recomputed_from_the_raw_model(
    seed: int, benches: Callable[[str], Bench], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    draw = np.random.default_rng(seed)
    bench = benches("embedded" if draw.random() < 0.15 else "tiny")
    keys, texts = draw_setting(draw, bench.depth), draw_texts(draw)
    given = keys_here(bench, keys)
    fitted = whole.Fitted(bench.stop_words, STOP_WORDS, CORPUS, CORPUS)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TwmdWarning)  # empty texts, batches of one segment and so on are meant
        if keys["baseline"] == "fitted":
            of_metric = twmd_registry.load(keys["metric"], model=bench.name, **given)
            path = given["baseline"] = of_metric.fit_baseline(CORPUS, pairs=6).save(tmp_path)
            values = json.loads(path.read_text(encoding="utf-8"))["values"]
            fitted = replace(fitted, baseline=tuple(values[side] for side in SIDES if side in values))
        if seed % 3 == 0:  # in small batches and pieces, which change nothing
            given["batch_tokens"] = 1
            monkeypatch.setattr(pipeline, "CHUNK_TOKENS", 8)
            monkeypatch.setattr(pipeline, "BLOCK_CELLS", 10)
        here = twmd_registry.load(keys["metric"], model=bench.name, any_language=True, **given).score(*texts)
    sides = {side: getattr(here, side) if "output" in keys else here.scores for side in SIDES}
    expected = whole.score(*texts, keys, bench.raw, fitted)
    assert here.scores == sides[keys.get("output", "f1")]
    assert here.score == pytest.approx(np.mean(here.scores), abs=1e-12)
    off = np.array([sides[side] for side in SIDES]) - np.array(expected[:3])  # (3, segments)
    allowed = np.full(off.shape, TOLERANCE)
    if (np.abs(off) > allowed).any():
        moved = [
            np.array(whole.score(*texts, keys, shaken(bench.raw, k), fitted)[:3]) - np.array(expected[:3])
            for k in range(8)
        ]
        allowed = np.clip(4 * np.abs(moved).max(axis=0), TOLERANCE, LOOSEST)
    wrong = np.flatnonzero((np.abs(off) > allowed).any(axis=0))
    assert not len(wrong), "\n".join(
        [f"seed {seed}, {bench.name}: {keys}", f"predictions={texts[0]!r}, references={texts[1]!r}"]
        + [f"segment {i} is off by {off[:, i]}, allowed {allowed[:, i].max():.1e}" for i in wrong]
    )


def test_settings_are_drawn_over_all_keys_of_the_metrics_that_align() -> None:
    settings = [draw_setting(np.random.default_rng(seed), 6) for seed in range(500)]
    drawn = {(keys["metric"], name) for keys in settings for name in keys}
    metrics = {metric for metric, _ in drawn}
    assert metrics == set(MetricName) - {"stsscore", "ensemble"}
    read_before = {"model", "revision", "adapter", "dtype"}  # which hidden states are given: tested with the encoder
    other_texts = {"against", "source_weight", "align"}  # sources and documents: test_against.py and test_documents.py
    read_before |= {"prompt"}  # of whole texts: test_sentence.py
    assert drawn == {
        (metric, name)
        for metric in metrics
        for name in {"metric", *CATALOGUE[MetricName(metric)].keys} - read_before - other_texts
    }
