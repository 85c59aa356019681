"""Encoded texts on disk: another process encodes nothing, no score changes, and never another's vectors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import twmd_registry
from tests import tiny
from tests.conftest import Texts
from tests.processes import run_beside
from twmd_registry.encode import disk
from twmd_registry.engine.result import ScoreSet
from twmd_registry.engine.scorer import Scorer, score_all
from twmd_registry.errors import SpecError, TwmdWarning
from twmd_registry.models.adapter import packaged_adapters
from twmd_registry.registry.options import RunOptions

PREDICTIONS = ["the cat sat", "a dog ran over the hill", "it"]
OTHERS = ["a cat sat on the mat today", "a dog ran", "it rains"]
REFERENCES = [["the cat sat on the mat", "a cat sat"], ["a dog ran"], ["it ran again", "the dog", "we saw it"]]
DIFFERENT = 9
"""Different texts among PREDICTIONS and REFERENCES."""
ROOM = "10MB"


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TWMD_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(tiny.save_encoder("bert", tmp_path_factory.mktemp("bert")))


def metric(folder: str, name: str = "twmd", **keys: Any) -> Scorer:
    return twmd_registry.scorer(name, **{"model": folder, "layer": 2, "centering": "none", "disk_cache": ROOM, **keys})


def once(scorer: Scorer, predictions: Any = PREDICTIONS, references: Any = REFERENCES) -> tuple[ScoreSet, int]:
    """Score by a model that is loaded for this alone, as in a process of its own; and how many texts went through the
    encoder."""
    with scorer:
        before = scorer.backend.model.sentences_encoded
        found = scorer.score(predictions, references)
        return found, scorer.backend.model.sentences_encoded - before


KEYS: dict[str, dict[str, Any]] = {
    "twmd": {},
    "corpus": {"centering": "corpus"},
    "batch": {"centering": "batch", "centering_size": 2},
    "layers": {"name": "moverscore", "idf": "corpus", "layer": "1,2,3", "aggregation": "pmeans:-inf,1,inf"},
    "sbert": {"name": "sbert", "special": "all"},
    "window": {"truncation": "window:6/2"},
    "cut": {"truncation": "cut:4"},
    "bfloat16": {"dtype": "bfloat16"},
}


@pytest.mark.parametrize("name", KEYS)
@pytest.mark.filterwarnings("ignore::twmd_registry.errors.TwmdWarning")
def test_second_run_encodes_nothing_and_scores_the_same_to_the_last_bit(folder: str, name: str) -> None:
    plain, number = once(metric(folder, **KEYS[name], disk_cache=0))
    assert number == DIFFERENT
    assert once(metric(folder, **KEYS[name])) == (plain, DIFFERENT)
    assert once(metric(folder, **KEYS[name])) == (plain, 0)


def once_more(folder: str) -> tuple[ScoreSet, int]:
    """What another process does."""
    return once(metric(folder))


def test_another_process_encodes_nothing(folder: str, home: Path) -> None:
    expected, number = once(metric(folder))
    assert number == DIFFERENT
    assert run_beside(once_more, (folder,)) == [(expected, 0)]


def test_other_metrics_temperatures_and_references_find_it(folder: str) -> None:
    once(metric(folder))
    for keys in ({"temperature": 0.7}, {"name": "sbert"}, {"name": "wordset_cka", "centering": "corpus"}):
        assert once(metric(folder, **keys)) == (once(metric(folder, **keys, disk_cache=0))[0], 0)
    found, number = once(metric(folder), OTHERS, [*REFERENCES[1:], ["it sat"]])
    assert number == 3  # "it sat", and two of OTHERS: "a dog ran" is known as a reference
    plain, _ = once(metric(folder, disk_cache=0), OTHERS, [*REFERENCES[1:], ["it sat"]])
    np.testing.assert_allclose(found.scores, plain.scores, rtol=0, atol=1e-5)


@pytest.mark.filterwarnings("ignore::twmd_registry.errors.TwmdWarning")
@pytest.mark.parametrize(
    "other",
    [
        {"layer": 1},
        {"layer": "1,2", "aggregation": "mean"},
        {"truncation": "cut:5"},
        {"truncation": "window:5/2"},
        {"dtype": "bfloat16"},
    ],
)
def test_cached_references_under_other_settings_are_encoded_again(folder: str, other: dict[str, Any]) -> None:
    once(metric(folder))
    assert once(metric(folder, **other)) == (once(metric(folder, **other, disk_cache=0))[0], DIFFERENT)
    assert once(metric(folder))[1] == 0


def test_another_model_does_not_find_it(folder: str, tmp_path: Path) -> None:
    once(metric(folder))
    other = str(tiny.save_encoder("bert", tmp_path / "bert", seed=1))
    assert once(metric(other)) == (once(metric(other, disk_cache=0))[0], DIFFERENT)


def test_cached_references_with_another_adapter_are_encoded_again() -> None:
    keys: dict[str, Any] = {"layer": 4, "centering": "none"}
    adapter = str(packaged_adapters() / "stsb-siamese")
    numbers = []
    for own in (keys, {**keys, "adapter": adapter}, keys, {**keys, "adapter": adapter}):
        one = twmd_registry.scorer("sbert", **own, disk_cache=ROOM)
        before = one.backend.model.sentences_encoded
        scores = one.score(PREDICTIONS, REFERENCES).scores
        numbers.append(one.backend.model.sentences_encoded - before)
        assert scores == twmd_registry.scorer("sbert", **own).score(PREDICTIONS, REFERENCES).scores
    assert numbers == [DIFFERENT, DIFFERENT, 0, 0]


@pytest.mark.parametrize("what", range(6))
def test_what_other_software_or_another_device_has_computed_is_not_found(
    folder: str, what: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    once(metric(folder))
    made_with = disk._versions(metric(folder).backend.model)
    monkeypatch.setattr(disk, "_versions", lambda encoder: [*made_with[:what], "another", *made_with[what + 1 :]])
    assert once(metric(folder))[1] == DIFFERENT


def test_software_and_device_are_those_that_compute() -> None:
    import tokenizers
    import torch
    import transformers

    model = twmd_registry.scorer("twmd").backend.model
    versions = [module.__version__ for module in (twmd_registry, torch, transformers, tokenizers)]
    assert disk._versions(model) == [disk.FORMAT, *versions, model.device.type]
    assert len(versions) == 4


def test_counts_and_warnings_stay(folder: str) -> None:
    references = [["cat " * 60], [" "], ["zebra"]]
    found = []
    runs: list[dict[str, Any]] = [{"disk_cache": 0}, {}, {}]
    for keys in runs:
        with pytest.warns(TwmdWarning) as caught:
            scored, number = once(metric(folder, **keys), PREDICTIONS, references)
        found.append((scored, [str(one.message) for one in caught]))
    assert found[0] == found[1] == found[2]
    assert scored.counts[:4] == (3, 1, 1, 1)
    assert len(caught) == 3
    assert number == 0


def test_words_without_a_vector_stay_counted(tmp_path: Path) -> None:
    table = tmp_path / "table.txt"
    table.write_text("cat 1 0\ndog 0.5 1\nsat 0 1\n", encoding="utf-8")
    numbers = []
    for _ in range(2):
        with pytest.warns(TwmdWarning, match="words without a vector, left out: 2 .*'h\u00e9ron', 'stork'"):
            found, number = once(metric(str(table), layer=0), ["cat"], [["h\u00e9ron cat stork sat"]])
        assert found.counts.oov == 2
        numbers.append(number)
    assert numbers == [2, 0]


def test_it_feeds_the_references_in_main_memory(folder: str, home: Path) -> None:
    once(metric(folder))
    with metric(folder, keep_references="1MB") as one:
        model = one.backend.model
        first = one.score(PREDICTIONS, REFERENCES)
        assert (model.sentences_encoded, len(model.references)) == (0, 6)
        for path in (home / "cache").rglob("*.safetensors"):
            path.unlink()
        assert one.score(OTHERS, REFERENCES).scores != first.scores
        assert model.sentences_encoded == 2  # "a dog ran" is a reference, too


def test_several_pieces_and_metrics_share_it(folder: str, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = [
        found.scores
        for found in score_all(
            [metric(folder, name, disk_cache=0) for name in ("twmd", "sbert")], PREDICTIONS, REFERENCES
        )
    ]
    monkeypatch.setattr("twmd_registry.engine.pipeline.CHUNK_TOKENS", 12)
    for expected in (DIFFERENT, 0):
        scorers = [metric(folder, "twmd"), metric(folder, "sbert", disk_cache=0)]
        found = [one.scores for one in score_all(scorers, PREDICTIONS, REFERENCES)]
        assert scorers[0].backend.model.sentences_encoded == expected
        np.testing.assert_allclose(found, whole, rtol=0, atol=1e-5)
        for one in scorers:
            one.close()


@pytest.mark.parametrize("piece", [10**6, 700])
def test_several_pieces_and_shards_change_no_bit(texts: Texts, piece: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("twmd_registry.engine.pipeline.CHUNK_TOKENS", piece)
    monkeypatch.setattr("twmd_registry.engine.pipeline.BLOCK_CELLS", 2000)
    monkeypatch.setattr(disk, "SHARD_BYTES", 100_000)
    runs = []
    for room in (0, ROOM, ROOM):
        one = twmd_registry.scorer("twmd", disk_cache=room)
        before = one.backend.model.sentences_encoded
        runs.append(one.score(*texts))
        number = one.backend.model.sentences_encoded - before
    assert runs[0] == runs[1] == runs[2]
    assert number == 0


def test_no_folder_is_made_unless_asked_for(folder: str, home: Path) -> None:
    once(metric(folder, disk_cache=0))
    assert not (home / "cache").exists()


def test_no_text_is_written(folder: str, home: Path) -> None:
    once(metric(folder))
    content = b"".join(path.read_bytes() for path in (home / "cache").rglob("*.safetensors"))
    assert len(content) > DIFFERENT * 16 * 4
    assert not any(word.encode() in content for word in ("the cat", "over", "hill"))


def test_keep_references_accepts_byte_sizes_and_rejects_other_values() -> None:
    assert [twmd_registry.scorer("twmd", disk_cache=given).options.disk_cache for given in (0, 7, "2kB", "10GB")] == [
        0,
        7,
        2000,
        10**10,
    ]
    wrong: list[Any] = [-1, 1.5, True, "", "much", "1TB", None]
    for given in wrong:
        with pytest.raises(
            SpecError, match=r'^disk_cache=.* is not possible: expected a number of bytes from 0, or .*"256MB"'
        ):
            RunOptions(disk_cache=given)
