"""Rated data by name on the Hub, with a fake Hub."""

from __future__ import annotations

from typing import Any

import datasets
import pytest

from twmd_registry.errors import FileError
from twmd_registry.judgments.corpora import SUMMARY_RATINGS
from twmd_registry.judgments.sets import HUB, read_rated

ROWS: dict[str, list[dict[str, Any]]] = {
    "nyu-mll/glue stsb": [
        {"sentence1": "A heron waits.", "sentence2": "A bird waits.", "label": 3.5, "idx": 0},
        {"sentence1": "Rain.", "sentence2": "Snow.", "label": -1.0, "idx": 1},
    ],
    "RicardoRei/wmt-mqm-human-evaluation None": [
        {"lp": "zh-en", "src": "Di.", "mt": "A dike.", "ref": "A dyke.", "score": -1.0, "system": "one", "year": 2022},
        {"lp": "zh-en", "src": "Di.", "mt": "A dyke.", "ref": "A dyke.", "score": 0.0, "system": "refA", "year": 2022},
        {"lp": "zh-en", "src": "Di.", "mt": "A dam.", "ref": "A dyke.", "score": -5.0, "system": "two", "year": 2021},
        {"lp": "en-de", "src": "A.", "mt": "Ein.", "ref": "Der.", "score": -1.0, "system": "one", "year": 2022},
    ],
    "RicardoRei/wmt-da-human-evaluation None": [
        {"lp": lp, "src": "S.", "mt": f"{lp} {year}", "ref": "A weir.", "score": score, "raw": 70.0, "year": year}
        for year in (2017, 2018)
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


EXPECTED: dict[str, list[Any]] = {
    "glue/stsb": [[3.5], 1, ["A heron waits."], ["A bird waits."], None, None, None],
    "wmt22-zh-en-mqm": [[-1], 0, ["A dike."], ["A dyke."], ["zh-en"], ["zh-en:Di."], ["one"]],
    "wmt18-to-en-da": [
        *([-0.5, 1.5], 1, ["de-en 2018", "fi-en 2018"], ["A weir."] * 2),
        *(["de-en", "fi-en"], ["de-en:S.", "fi-en:S."], None),
    ],
    "mteb/summeval/consistency": [
        *([0.25, 1.0, 1.25], 1, ["Machine 0.", "Another.", "Machine 1."], [["Person.", "Other person."]] * 3),
        *(None, ["article 0", "article 0", "article 1"], None),
    ],
}
"""By data set: ratings, dropped rows, predictions, references, groups, items, systems."""


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str | None, str]]:
    requests: list[tuple[str, str | None, str]] = []

    def load_dataset(repo: str, config: str | None, *, split: str) -> datasets.Dataset:
        requests.append((repo, config, split))
        return datasets.Dataset.from_list(ROWS[f"{repo} {config}"])

    monkeypatch.setattr(datasets, "load_dataset", load_dataset)
    return requests


@pytest.mark.parametrize("name", EXPECTED)
def test_data_set_is_read_with_its_own_columns(name: str, hub: list[tuple[str, str | None, str]]) -> None:
    result, (ratings, dropped, predictions, references, group, item, system) = read_rated(name), EXPECTED[name]
    assert (result.ratings.tolist(), result.dropped) == (pytest.approx(ratings), dropped)
    assert hub == [(HUB[name]["repo"], HUB[name].get("config"), HUB[name].get("split", "test"))]
    assert (result.predictions, result.references) == (predictions, references)
    assert (result.group, result.item, result.system) == (group or [name] * len(ratings), item, system)


Asked = list[tuple[str, str | None, str]]


@pytest.mark.parametrize(
    ("row", "words"),
    [
        (ROWS["nyu-mll/glue stsb"][1], "glue/stsb, split validation contains no rated segment"),
        ({"text1": "a", "label": 1.0}, "glue/stsb on the Hub has no column 'sentence1'"),
    ],
)
def test_damaged_data_set_is_refused(row: Any, words: str, hub: Asked, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(ROWS, "nyu-mll/glue stsb", [row])
    with pytest.raises(FileError, match=words):
        read_rated("glue/stsb")
    assert hub == [("nyu-mll/glue", "stsb", "validation")]


def test_offline_data_set_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(datasets.config, "HF_HUB_OFFLINE", True)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(FileError, match="cannot read glue/mrpc from the Hub: "):
        read_rated("glue/mrpc")
