"""Rated data by their names on the Hub, with a stand-in for the Hub."""

from __future__ import annotations

from typing import Any

import datasets
import pytest

from twmd_registry.errors import FileError
from twmd_registry.metaeval.herbold import SOURCES
from twmd_registry.rated.hub import HUB, read_hub

ROWS: dict[str, list[dict[str, Any]]] = {
    "glue/stsb": [
        {"sentence1": "A heron waits.", "sentence2": "A bird waits.", "label": 3.5, "idx": 0},
        {"sentence1": "Rain.", "sentence2": "Snow.", "label": -1.0, "idx": 1},
    ],
    "glue/mrpc": [
        {"sentence1": "Rain.", "sentence2": "Snow.", "label": 0, "idx": 0},
        {"sentence1": "Rain.", "sentence2": "It rains.", "label": 1, "idx": 1},
    ],
    "glue/qqp": [{"question1": "Why?", "question2": "How?", "label": 0, "idx": 0}, {"question1": "", "question2": "How?", "label": 0, "idx": 1}],
    "mteb/stsbenchmark-sts": [{"sentence1": "Rain.", "sentence2": "Snow.", "score": 1.2, "split": "test"}],
    "wmt22-zh-en-mqm": [
        {"lp": "zh-en", "mt": "A dike.", "ref": "A dyke.", "score": -1.0, "system": "one", "year": 2022},
        {"lp": "zh-en", "mt": "A dyke.", "ref": "A dyke.", "score": 0.0, "system": "refA", "year": 2022},
        {"lp": "zh-en", "mt": "A dam.", "ref": "A dyke.", "score": -5.0, "system": "two", "year": 2021},
        {"lp": "en-de", "mt": "Ein Deich.", "ref": "Der Deich.", "score": -1.0, "system": "one", "year": 2022},
    ],
}
EXPECTED = {
    "glue/stsb": ([3.5], 1),
    "glue/mrpc": ([0, 1], 0),
    "glue/qqp": ([0], 1),
    "mteb/stsbenchmark-sts": ([1.2], 0),
    "wmt22-zh-en-mqm": ([-1], 0),
}


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str | None, str]]:
    asked: list[tuple[str, str | None, str]] = []

    def load_dataset(repo: str, config: str | None, *, split: str) -> datasets.Dataset:
        asked.append((repo, config, split))
        return datasets.Dataset.from_list(next(ROWS[name] for name, one in HUB.items() if (one.repo, one.config) == (repo, config)))

    monkeypatch.setattr(datasets, "load_dataset", load_dataset)
    return asked


@pytest.mark.parametrize("name", HUB)
def test_each_set_is_read_with_its_own_columns(name: str, hub: list[tuple[str, str | None, str]]) -> None:
    found = read_hub(name)
    ratings, dropped = EXPECTED[name]
    assert (found.ratings.tolist(), found.dropped) == (pytest.approx(ratings), dropped)
    assert hub == [(HUB[name].repo, HUB[name].config, HUB[name].split)]
    assert set(found.group) == ({"one"} if HUB[name].group else {name})
    assert found.predictions[0] == ROWS[name][0][HUB[name].columns[0]]
    assert found.references[0] == ROWS[name][0][HUB[name].columns[1]]


def test_every_set_of_the_study_has_a_name_on_the_hub() -> None:
    assert {source.hub for source in SOURCES.values()} <= set(HUB)


def test_a_split_without_ratings_is_said_so(hub: list[tuple[str, str | None, str]], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(ROWS, "glue/stsb", [ROWS["glue/stsb"][1]])
    with pytest.raises(FileError, match="glue/stsb, split test holds no rated segment"):
        read_hub("glue/stsb", "test")
    assert hub == [("nyu-mll/glue", "stsb", "test")]


def test_a_changed_form_is_said_so(hub: list[tuple[str, str | None, str]], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(ROWS, "glue/stsb", [{"text1": "a", "text2": "b", "label": 1.0}])
    with pytest.raises(FileError, match="glue/stsb on the Hub has no column 'sentence1'"):
        read_hub("glue/stsb")
    assert hub


def test_a_name_nobody_knows_gets_the_menu() -> None:
    with pytest.raises(FileError, match=r"no data set is called 'glue/cola' here; expected one of glue/stsb, "):
        read_hub("glue/cola")


def test_without_a_network_one_line_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(datasets.config, "HF_HUB_OFFLINE", True)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(FileError, match="cannot read glue/mrpc from the Hub: "):
        read_hub("glue/mrpc")
