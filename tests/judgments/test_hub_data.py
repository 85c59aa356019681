"""Rated data by their names on the Hub, with a stand-in for the Hub."""

from __future__ import annotations

from typing import Any, NamedTuple

import datasets
import pytest

from twmd_registry.errors import FileError
from twmd_registry.judgments.generation import SUMMARY_RATINGS
from twmd_registry.judgments.hub_data import HUB, read_hub
from twmd_registry.papers.experiment import read_experiment

STS = [f"sts{year}-sts" for year in range(12, 17)]

ROWS: dict[str, list[dict[str, Any]]] = {
    "nyu-mll/glue stsb": [
        {"sentence1": "A heron waits.", "sentence2": "A bird waits.", "label": 3.5, "idx": 0},
        {"sentence1": "Rain.", "sentence2": "Snow.", "label": -1.0, "idx": 1},
    ],
    "nyu-mll/glue mrpc": [
        {"sentence1": "Rain.", "sentence2": "Snow.", "label": 0, "idx": 0},
        {"sentence1": "Rain.", "sentence2": "It rains.", "label": 1, "idx": 1},
    ],
    "nyu-mll/glue qqp": [
        {"question1": "Why?", "question2": "How?", "label": 0, "idx": 0},
        {"question1": "", "question2": "How?", "label": 0, "idx": 1},
    ],
    **{
        f"mteb/{name} None": [{"sentence1": "Rain.", "sentence2": "Snow.", "score": 1.2}]
        for name in ("stsbenchmark-sts", *STS)
    },
    "RicardoRei/wmt-mqm-human-evaluation None": [
        {"lp": "zh-en", "src": "Di.", "mt": "A dike.", "ref": "A dyke.", "score": -1.0, "system": "one", "year": 2022},
        {"lp": "zh-en", "src": "Di.", "mt": "A dyke.", "ref": "A dyke.", "score": 0.0, "system": "refA", "year": 2022},
        {"lp": "zh-en", "src": "Di.", "mt": "A dam.", "ref": "A dyke.", "score": -5.0, "system": "two", "year": 2021},
        {
            "lp": "en-de",
            "src": "A dyke.",
            "mt": "Ein Deich.",
            "ref": "Der Deich.",
            "score": -1.0,
            "system": "one",
            "year": 2022,
        },
    ],
    "RicardoRei/wmt-da-human-evaluation None": [
        {
            "lp": lp,
            "src": "S.",
            "mt": f"{lp} {year}",
            "ref": "A weir.",
            "score": score,
            "raw": 70.0,
            "annotators": 1,
            "domain": "news",
            "year": year,
        }
        for year in range(2017, 2023)
        for lp, score in (("de-en", -0.5), ("fi-en", float("nan")), ("fi-en", 1.5), ("en-fi", 0.25))
    ],
    "mteb/summeval None": [
        {
            "id": f"article {number}",
            "machine_summaries": [f"Machine {number}.", "Another."],
            "human_summaries": ["Person.", "Other person."],
            **{name: [number + place / 4, None if number else 1.0] for place, name in enumerate(SUMMARY_RATINGS)},
        }
        for number in range(2)
    ],
}
"""By repository and configuration."""


class Expected(NamedTuple):
    """What is read of a set."""

    ratings: list[float]
    dropped: int
    predictions: list[str]
    references: list[Any]
    group: list[str] | None = None
    item: list[str] | None = None
    system: list[str] | None = None


EXPECTED: dict[str, Expected] = {
    "glue/stsb": Expected([3.5], 1, ["A heron waits."], ["A bird waits."]),
    "glue/mrpc": Expected([0, 1], 0, ["Rain.", "Rain."], ["Snow.", "It rains."]),
    "glue/qqp": Expected([0], 1, ["Why?"], ["How?"]),
    **{f"mteb/{name}": Expected([1.2], 0, ["Rain."], ["Snow."]) for name in ("stsbenchmark-sts", *STS)},
    "wmt22-zh-en-mqm": Expected([-1], 0, ["A dike."], ["A dyke."], ["zh-en"], ["zh-en:Di."], ["one"]),
    **{
        f"wmt{year}-to-en-da": Expected(
            [-0.5, 1.5],
            1,
            [f"de-en 20{year}", f"fi-en 20{year}"],
            ["A weir."] * 2,
            ["de-en", "fi-en"],
            ["de-en:S.", "fi-en:S."],
        )
        for year in range(17, 23)
    },
    **{
        f"mteb/summeval/{name}": Expected(
            [place / 4, 1.0, 1 + place / 4],
            1,
            ["Machine 0.", "Another.", "Machine 1."],
            [["Person.", "Other person."]] * 3,
            None,
            ["article 0", "article 0", "article 1"],
        )
        for place, name in enumerate(SUMMARY_RATINGS)
    },
}


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str | None, str]]:
    asked: list[tuple[str, str | None, str]] = []

    def load_dataset(repo: str, config: str | None, *, split: str) -> datasets.Dataset:
        asked.append((repo, config, split))
        return datasets.Dataset.from_list(ROWS[f"{repo} {config}"])

    monkeypatch.setattr(datasets, "load_dataset", load_dataset)
    return asked


def test_every_set_has_rows_here() -> None:
    assert set(EXPECTED) == set(HUB)


@pytest.mark.parametrize("name", HUB)
def test_each_set_is_read_with_its_own_columns(name: str, hub: list[tuple[str, str | None, str]]) -> None:
    found, expected = read_hub(name), EXPECTED[name]
    assert (found.ratings.tolist(), found.dropped) == (pytest.approx(expected.ratings), expected.dropped)
    assert hub == [(HUB[name].repo, HUB[name].config, HUB[name].split)]
    assert (found.predictions, found.references) == (expected.predictions, expected.references)
    assert found.group == (expected.group or [name] * len(expected.ratings))
    assert (found.item, found.system) == (expected.item, expected.system)


def test_as_many_ratings_as_texts_are_needed(
    hub: list[tuple[str, str | None, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    row = {**ROWS["mteb/summeval None"][0], "fluency": [1.0]}
    monkeypatch.setitem(ROWS, "mteb/summeval None", [row])
    with pytest.raises(FileError, match="mteb/summeval/fluency on the Hub has a row of 2 texts and 1 ratings"):
        read_hub("mteb/summeval/fluency")
    assert hub


def test_every_set_of_the_study_has_a_name_on_the_hub() -> None:
    assert {source["hub"] for source in read_experiment("stsscore-table1").data.values()} <= set(HUB)


def test_split_without_ratings_is_said_so(
    hub: list[tuple[str, str | None, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(ROWS, "nyu-mll/glue stsb", [ROWS["nyu-mll/glue stsb"][1]])
    with pytest.raises(FileError, match="glue/stsb, split test holds no rated segment"):
        read_hub("glue/stsb", "test")
    assert hub == [("nyu-mll/glue", "stsb", "test")]


def test_changed_form_is_said_so(hub: list[tuple[str, str | None, str]], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(ROWS, "nyu-mll/glue stsb", [{"text1": "a", "text2": "b", "label": 1.0}])
    with pytest.raises(FileError, match="glue/stsb on the Hub has no column 'sentence1'"):
        read_hub("glue/stsb")
    assert hub


def test_name_nobody_knows_gets_the_menu() -> None:
    with pytest.raises(
        FileError, match=r"no data set is called 'glue/cola' here; did you mean .* Choices: glue/stsb, "
    ):
        read_hub("glue/cola")


def test_without_a_network_one_line_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(datasets.config, "HF_HUB_OFFLINE", True)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(FileError, match="cannot read glue/mrpc from the Hub: "):
        read_hub("glue/mrpc")
