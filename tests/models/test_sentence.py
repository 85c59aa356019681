"""sbert against sentence-transformers, on small models."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import twmd_registry
from tests import tiny
from twmd_registry.errors import InputError, ModelError, SpecError, TwmdWarning
from twmd_registry.models.files import PACKAGED, content_of, sentence_content
from twmd_registry.models.sentence import SentenceEncoder
from twmd_registry.registry.names import EMBEDDED_MODEL

FIRST = ["the cat sat on mat", "a dog ran over hill in rain today", "it", "the cat sat on mat"]
SECOND = ["a cat sat", "we saw it again", "the rain , the dog", "it ran"]
KINDS = (
    "mean",
    "cls",
    "max",
    "weightedmean",
    "lasttoken",
    "mean_sqrt_len_tokens",
    "dense",
    "prompted",
    "excluded",
    "dot",
    "narrow",
    "cnn",
)


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Return folders saved by sentence-transformers, by type."""
    from sentence_transformers import SentenceTransformer, models

    home = tmp_path_factory.mktemp("sentence")
    network = models.Transformer(str(tiny.save_encoder("bert", home / "bert")))
    for kind in KINDS:
        torch.manual_seed(0)
        modes = {"dense": "cls"} | dict.fromkeys(("prompted", "excluded", "dot", "narrow", "cnn"), "mean")
        pooling = models.Pooling(tiny.WIDTH, pooling_mode=modes.get(kind, kind), include_prompt=kind != "excluded")
        more = [models.Dense(tiny.WIDTH, 8), models.Normalize()] if kind == "dense" else []
        settings: dict[str, Any] = {"prompts": {"query": "today we saw ", "passage": "the "}}
        if kind == "prompted":
            settings["default_prompt_name"] = "query"
        if kind == "dot":
            settings["similarity_fn_name"] = "dot"
        before = [models.CNN(tiny.WIDTH, tiny.WIDTH // 2, [1, 3])] if kind == "cnn" else []
        model = SentenceTransformer(modules=[network, *before, pooling, *more], **settings, device="cpu")
        model.max_seq_length = 12 if kind == "cls" else tiny.POSITIONS
        model.save_pretrained(str(home / kind), create_model_card=False)
    tiny.change_json(home / "narrow" / "config_sentence_transformers.json", truncate_dim=8)  # as 6.2 writes it
    return {path.name: path for path in home.iterdir()}


def by_library(folder: Path, **prompt: str) -> list[float]:
    from sentence_transformers import SentenceTransformer

    width = 8 if folder.name == "narrow" else None  # older versions do not read it
    model = SentenceTransformer(str(folder), device="cpu", truncate_dim=width)
    found: list[float] = model.similarity_pairwise(
        *(model.encode(texts, batch_size=1, **prompt) for texts in (FIRST, SECOND))  # padding changes the cnn
    ).tolist()
    return found


@pytest.mark.filterwarnings("ignore::twmd_registry.errors.TwmdWarning")
@pytest.mark.parametrize("kind", [*KINDS, "bert"])
def test_score_equals_the_librarys(kind: str, folders: dict[str, Path]) -> None:
    folder = str(folders[kind])
    assert twmd_registry.score(FIRST, SECOND, "sbert", model=folder).scores == pytest.approx(
        by_library(folders[kind]), abs=2e-6
    )
    if kind == "bert":
        return
    for prompt, signed in (
        ("query", {"prompt_name": "query"}),
        ("passage", {"prompt_name": "passage"}),
        ("none", {"prompt": ""}),
    ):
        found = twmd_registry.score(FIRST, SECOND, "sbert", model=folder, prompt=prompt)
        assert found.scores == pytest.approx(by_library(folders[kind], **signed), abs=2e-6)
        is_signed = prompt != "none" or kind == "prompted"
        assert (f"|prompt:{prompt}|" in str(found.signature)) == is_signed
        assert twmd_registry.load(str(found.signature), model=folder).score(FIRST, SECOND).scores == found.scores


def test_packaged_model_returns_the_librarys_numbers(texts: Any) -> None:
    from sentence_transformers import SentenceTransformer

    path = PACKAGED[EMBEDDED_MODEL][1]()
    assert path is not None
    model = SentenceTransformer(str(path), device="cpu")
    plain = twmd_registry.load("sbert", "sentence-transformers").score(*texts).scores
    expected = model.similarity_pairwise(*(model.encode(side) for side in texts)).tolist()
    assert plain == pytest.approx(expected, abs=1e-6)
    of_tokens: dict[str, Any] = {
        "layer": 6,
        "special": "all",
        "centering": "none",
        "vectors": "raw",
        "truncation": "cut:256",
    }
    assert plain == pytest.approx(twmd_registry.load("sbert", **of_tokens).score(*texts).scores, abs=1e-6)


def test_default_prompt_and_limit_are_signed_and_a_prompt_counts_towards_the_limit(folders: dict[str, Path]) -> None:
    assert "|prompt:query|" in twmd_registry.load("sbert", model=str(folders["prompted"])).signature
    assert "truncation:cut%3A12|" in twmd_registry.load("sbert", model=str(folders["cls"])).signature
    text = ["the cat sat on mat and ran over hill ,"]  # ten tokens and two special ones
    assert twmd_registry.score(text, text, "sbert", model=str(folders["cls"])).counts.truncated == 0
    with pytest.warns(TwmdWarning, match="longer than the limit"):
        assert (
            twmd_registry.score(text, text, "sbert", model=str(folders["cls"]), prompt="passage").counts.truncated == 1
        )


def test_empty_text_has_no_score_by_a_similarity_with_other_bounds(folders: dict[str, Path]) -> None:
    with pytest.raises(InputError, match=r"predictions\[1\]: .*no score"):
        twmd_registry.score(["it", ""], ["it", "it"], "sbert", model=str(folders["dot"]))


def test_fingerprint_covers_the_modules_but_not_their_notation(folders: dict[str, Path], tmp_path: Path) -> None:
    contents = {kind: sentence_content(folder) for kind, folder in folders.items()}
    assert len({content_of(folder) for folder in folders.values()}) == 1
    assert len(set(contents.values())) == len(KINDS) + 1
    changes: list[tuple[str, str, Any]] = [
        ("dense", "2_Dense/model.safetensors", None),
        ("dense", "2_Dense/config.json", {"activation_function": "torch.nn.modules.linear.Identity"}),
        ("cls", "1_Pooling/config.json", {"pooling_mode": "max"}),
        ("cls", "config_sentence_transformers.json", {"similarity_fn_name": "dot"}),
        ("cls", "config_sentence_transformers.json", {"prompts": {"query": "a "}}),
        ("cls", "config_sentence_transformers.json", {"truncate_dim": 8}),
        ("cls", "sentence_bert_config.json", {"do_lower_case": True}),
        ("cnn", "1_CNN/cnn_config.json", {"kernel_sizes": [3, 3]}),
    ]
    for number, (kind, file, values) in enumerate(changes):
        copy = shutil.copytree(folders[kind], tmp_path / str(number))
        if values is None:
            tiny.flip_last_byte(copy / file)
        else:
            tiny.change_json(copy / file, **values)
        assert sentence_content(copy) != contents[kind], file
    old = shutil.copytree(folders["cls"], tmp_path / "old")
    (old / "1_Pooling" / "config.json").write_text(
        json.dumps({"word_embedding_dimension": 16, "pooling_mode_cls_token": True, "pooling_mode_mean_tokens": False})
    )
    modules = json.loads((old / "modules.json").read_text())
    for module in modules:
        module["type"] = f"sentence_transformers.models.{module['type'].rpartition('.')[2]}"
    (old / "modules.json").write_text(json.dumps(modules))
    assert sentence_content(old) == contents["cls"]
    assert twmd_registry.score(FIRST, SECOND, "sbert", model=str(old)).scores == pytest.approx(
        by_library(folders["cls"]), abs=2e-6
    )


def test_each_distinct_text_is_encoded_once(folders: dict[str, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    encode, encoded = SentenceEncoder.encode, list[str]()

    def keep(model: SentenceEncoder, texts: list[str], *args: Any, **more: Any) -> Any:
        encoded.extend(texts)
        return encode(model, texts, *args, **more)

    monkeypatch.setattr(SentenceEncoder, "encode", keep)
    monkeypatch.setattr("twmd_registry.engine.pair_backends.CHUNK_LETTERS", 150)
    twmd_registry.score([*FIRST, "it"], [*SECOND, FIRST[0]], "sbert", model=str(folders["max"]))
    assert sorted(encoded) == sorted({*FIRST, *SECOND})


@pytest.mark.parametrize(
    ("place", "change", "words"),
    [
        ("cls/modules.json", "not json", "not a list of modules"),
        (
            "cls/modules.json",
            '[{"idx": 0, "name": "0", "path": "0_X", "type": "sentence_transformers.models.BoW"}]',
            "Transformer",
        ),
        ("dense/modules.json", ('"sentence_transformers.', '"evil.'), "never run"),
        ("dense/modules.json", ("2_Dense", "../dense"), "expected a folder next to it"),
        ("dense/2_Dense/config.json", ("torch.nn.modules.activation.Tanh", "os.system"), "never run"),
        ("dense/2_Dense/model.safetensors", None, "2_Dense has no .safetensors file"),
        ("cls/1_Pooling/config.json", None, "1_Pooling has no .json file"),
        ("cls/1_Pooling/config.json", "{}", "Pooling lack"),
        ("cls/1_Pooling/config.json", '{"pooling_mode": "clss"}', "did you mean 'cls'"),
        ("cls/modules.json", ('.Pooling"', '.Poling"'), "did you mean 'Pooling'"),
        ("cls/modules.json", ('.Pooling"', '.Dropout"'), "no Pooling"),
        ("cls/config_sentence_transformers.json", ('"cosine"', '"maxsim"'), "maxsim"),
        ("cls/config_sentence_transformers.json", '{"truncate_dim": "8"}', "positive integer"),
        ("cls/config_sentence_transformers.json", '{"default_prompt_name": "quary"}', "'quary', which is not"),
        ("cls/sentence_bert_config.json", '{"do_lower_case": "no"}', "true or false"),
        ("cls/sentence_bert_config.json", '{"processing_kwargs": {"text": {"padding": true}}}', "processing_kwargs"),
        ("cls/sentence_bert_config.json", '{"modality_config": {"text": {"method": "get_text_features"}}}', "text"),
    ],
)
def test_damaged_and_hostile_folders_are_refused(
    place: str, change: Any, words: str, folders: dict[str, Path], tmp_path: Path
) -> None:
    kind, _, file = place.partition("/")
    folder = shutil.copytree(folders[kind], tmp_path / "model")
    if change is None:
        (folder / file).rename((folder / file).with_suffix(".bin"))
    elif isinstance(change, str):
        (folder / file).write_text(change, encoding="utf-8")
    else:
        content = (folder / file).read_text(encoding="utf-8")
        assert change[0] in content
        (folder / file).write_text(content.replace(*change), encoding="utf-8")
    with pytest.raises(ModelError, match=words):
        twmd_registry.score(FIRST, SECOND, "sbert", model=str(folder))


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ({"prompt": "quary"}, "query"),
        ({"truncation": "window:8/4"}, "truncation=window"),
        ({"preset": "published", "layer": 1}, "layer concerns token vectors"),
        ({"preset": "paper", "prompt": "query"}, "leave out vectors"),
        ({"truncation": "cut:41"}, "reads at most 40 tokens"),
    ],
)
def test_keys_without_a_use_are_refused(keys: dict[str, Any], words: str, folders: dict[str, Path]) -> None:
    with pytest.raises(SpecError, match=words):
        twmd_registry.score(FIRST, SECOND, "sbert", model=str(folders["max"]), **keys)


def test_half_precision_two_references_and_empty_texts_work(folders: dict[str, Path]) -> None:
    folder = str(folders["cls"])
    exact, coarse = (
        twmd_registry.score(FIRST, SECOND, "sbert", model=folder, dtype=d).scores for d in ("float32", "bfloat16")
    )
    assert np.abs(np.array(exact) - np.array(coarse)).max() < 0.05
    found = twmd_registry.score(["", FIRST[0], ""], [["", ""], [SECOND[0], FIRST[0]], ["a cat"]], "sbert", model=folder)
    assert found.scores == pytest.approx((1.0, 1.0, 0.0))
