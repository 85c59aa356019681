"""Our metrics as torchmetrics: results, state, reset, and gathering over two processes."""

from __future__ import annotations

import copy
import importlib
import pickle
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import twmd_registry
from tests.processes import run_beside
from twmd_registry.engine.result import COUNTS, Counts
from twmd_registry.errors import InputError, MissingExtraError, TwmdWarning
from twmd_registry.registry.metrics import CATALOGUE
from twmd_registry.registry.names import MetricName

torchmetrics = pytest.importorskip("torchmetrics")

from twmd_registry.plugins.torchmetrics import (  # noqa: E402
    METRICS,
    SBERT,
    TWMD,
    BERTScoreCentered,
    Row,
    WordsetCKA,
    collate_rows,
    order_rows,
)

ROOT = Path(__file__).resolve().parents[2]
PAIRS = (
    ("the cat sat on the mat", ["a cat sat on a mat"]),
    ("it rains", ["it is raining", "rain"]),
    ("we saw a dog", ["we saw the dog"]),
    ("the tram came late", ["the tram was late"]),
    ("bread was sold out", ["there was bread left", "no bread"]),
    ("snow fell", ["it snowed"]),
)
PREDICTIONS, REFERENCES = [prediction for prediction, _ in PAIRS], [several for _, several in PAIRS]
ORDERED: dict[str, Any] = {"centering": "batch", "centering_size": 2}
"""Keys with which a score depends on neighbouring segments."""


def single(values: Any) -> Any:
    """Return our numbers in torch's default precision."""
    return np.float32(values).tolist()


@pytest.mark.parametrize("metric", MetricName)
def test_several_updates_score_all_texts(metric: MetricName) -> None:
    ours = twmd_registry.load(metric).score(PREDICTIONS, REFERENCES)
    theirs = METRICS[metric]()
    for start in (0, 2, 4):
        theirs.update(PREDICTIONS[start : start + 2], REFERENCES[start : start + 2])
    found = theirs.compute()
    assert found.shape == ()
    assert found.item() == single(ours.score)


def test_every_part_of_a_score_is_a_tensor() -> None:
    ours, theirs = twmd_registry.load("twmd").score(PREDICTIONS, REFERENCES), TWMD(as_dict=True)
    theirs.update(PREDICTIONS, REFERENCES)
    expected = {name: single(value) for name, value in ours.as_dict().items() if name != "signature"}
    assert {name: value.tolist() for name, value in theirs.compute().items()} == expected
    assert set(expected) == {"twmd", "precision", "recall", "f1", "scores", *COUNTS, "letters_Latin"}
    one_sided = WordsetCKA(as_dict=True)
    one_sided.update(PREDICTIONS, REFERENCES)
    assert set(one_sided.compute()) == {"wordset_cka", "scores", *COUNTS, "letters_Latin"}
    assert theirs.signature == twmd_registry.load("twmd").signature


def test_text_counts_exist_after_compute_and_not_after_reset() -> None:
    theirs = TWMD()
    assert theirs.counts is None
    theirs.update(["", "it rains"], ["it rains", "it rains"])
    with pytest.warns(TwmdWarning, match="texts without a token: 1"):
        theirs.compute()
    counted: dict[str, Any] = dict.fromkeys(COUNTS, 0)
    expected = Counts(**counted, letters={"Latin": 21})  # of three texts
    assert theirs.counts == expected._replace(segments=2, empty=1, repeated=2)
    theirs.reset()
    assert (theirs.counts, theirs.texts) == (None, [])


def test_forward_returns_the_batch_score_and_keeps_the_batch() -> None:
    ours, theirs = twmd_registry.load("twmd", **ORDERED), TWMD(**ORDERED)
    for batch in (slice(0, 4), slice(4, 6)):
        expected = ours.score(PREDICTIONS[batch], REFERENCES[batch]).score
        assert theirs(PREDICTIONS[batch], REFERENCES[batch]).item() == single(expected)
    assert theirs.compute().item() == single(ours.score(PREDICTIONS, REFERENCES).score)


def test_collection_keeps_texts_once() -> None:
    ours = {name: twmd_registry.load(name).score(PREDICTIONS, REFERENCES).score for name in ("twmd", "sbert")}
    collection = torchmetrics.MetricCollection([TWMD(), SBERT(), torchmetrics.text.CHRFScore()])
    for start in (0, 2, 4):
        collection.update(preds=PREDICTIONS[start : start + 2], target=REFERENCES[start : start + 2])
        collection.compute()  # which gathers, and must not cut the metrics apart
    found = collection.compute()
    assert set(found) == {"TWMD", "SBERT", "CHRFScore"}
    assert (found["TWMD"].item(), found["SBERT"].item()) == (single(ours["twmd"]), single(ours["sbert"]))
    assert sorted(map(sorted, collection.compute_groups.values())) == [["CHRFScore"], ["SBERT", "TWMD"]]
    collection.reset()
    assert collection["SBERT"].texts == []
    batch = collection(PREDICTIONS[:2], REFERENCES[:2])
    assert batch["TWMD"].item() == single(twmd_registry.load("twmd").score(PREDICTIONS[:2], REFERENCES[:2]).score)


def test_copies_pickles_and_states_contain_texts_but_no_model() -> None:
    theirs = TWMD(**ORDERED)
    theirs.update(PREDICTIONS[:2], REFERENCES[:2])
    expected = theirs.compute().item()
    for copied in (copy.deepcopy(theirs), theirs.clone(), pickle.loads(pickle.dumps(theirs))):
        copied.reset()
        copied.update(PREDICTIONS[:2], REFERENCES[:2])
        assert copied.compute().item() == expected
        assert copied.scorer.requested == theirs.scorer.requested
    assert len(pickle.dumps(theirs)) < 20_000
    assert (list(theirs.parameters()), theirs.state_dict()) == ([], {})
    theirs.persistent(mode=True)
    fresh = TWMD(**ORDERED)
    fresh.load_state_dict(theirs.state_dict())
    fresh.update(PREDICTIONS[2:], REFERENCES[2:])
    whole = twmd_registry.load("twmd", **ORDERED).score(PREDICTIONS, REFERENCES)
    assert fresh.compute().item() == single(whole.score)


def test_bounds_and_direction_equal_the_declaration() -> None:
    for name, kind in METRICS.items():
        one = kind()
        assert (one.plot_lower_bound, one.plot_upper_bound) == (CATALOGUE[name].lowest, CATALOGUE[name].highest)
        assert (one.higher_is_better, one.is_differentiable, one.full_state_update) == (True, False, False)
    assert set(METRICS) == set(MetricName)
    rescaled = BERTScoreCentered(baseline="00009f652bda", centering="none")
    assert (rescaled.plot_lower_bound, rescaled.plot_upper_bound) == (None, None)


def test_bad_input_is_refused_immediately() -> None:
    theirs = TWMD()
    with pytest.raises(InputError, match=r"predictions\[1\] must be a text; got int 5"):
        theirs.update(["a", 5], ["a", "b"])  # type: ignore[list-item]
    with pytest.raises(InputError, match="2 predictions but 1 positions"):
        theirs.update(["a", "b"], ["a", "b"], [0])
    for positions in ([[0], [1]], [0.5, 1.0], [-1, 0], [True, False]):
        with pytest.raises(InputError, match="non-negative integers"):
            theirs.update(["a", "b"], ["a", "b"], positions)  # type: ignore[arg-type]
    assert theirs.texts == []


def test_mismatched_positions_are_refused() -> None:
    with pytest.raises(InputError, match="some segments came with positions and others without"):
        order_rows([Row(0, "a", ["b"], None), Row(None, "c", ["d"], None)])
    with pytest.raises(InputError, match="two segments with different texts came as position 3"):
        order_rows([Row(3, "a", ["b"], None), Row(3, "a", ["c"], None)])
    with pytest.raises(InputError, match="nothing to score: update"):
        order_rows([])


def test_missing_torchmetrics_error_shows_the_install_line(monkeypatch: pytest.MonkeyPatch) -> None:
    name = "twmd_registry.plugins.torchmetrics"
    monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "torchmetrics", None)
    with pytest.raises(MissingExtraError, match=r"pip install .*\[torchmetrics\]"):
        importlib.import_module(name)


def compute_shares(rank: int, folder: Path, shares: dict[str, list[dict[str, Any]]]) -> dict[str, dict[str, Any]]:
    """Return the results of one of two processes by name, computed over both shares."""
    torch.distributed.init_process_group("gloo", init_method=(folder / "store").as_uri(), rank=rank, world_size=2)
    found = {}
    for name, ranks in shares.items():
        metric = TWMD(as_dict=True, **ORDERED)
        if ranks[rank]["preds"]:
            metric.update(**ranks[rank])
        found[name] = {key: value.tolist() for key, value in metric.compute().items()}
        assert len(metric.texts) == 1, "what was gathered is not what the process keeps"
    torch.distributed.destroy_process_group()
    return found


def share(numbers: list[int], **more: Any) -> dict[str, Any]:
    return {"preds": [PREDICTIONS[i] for i in numbers], "target": [REFERENCES[i] for i in numbers], **more}


def test_two_processes_with_uneven_shares_return_the_overall_score(tmp_path: Path) -> None:
    shares = {
        "uneven": [share([0, 1, 2, 3, 4]), share([5])],
        "idle": [share([]), share([0, 1, 2, 3, 4, 5])],
        "dealt": [share([0, 2, 4, 0], positions=[0, 2, 4, 0]), share([1, 3, 5, 1], positions=[1, 3, 5, 1])],
        "unordered": [share([0, 2, 4]), share([1, 3, 5])],
    }
    ours = twmd_registry.load("twmd", **ORDERED)
    for found in run_beside(compute_shares, (0, tmp_path, shares), (1, tmp_path, shares)):
        for name in shares:
            order = [0, 2, 4, 1, 3, 5] if name == "unordered" else range(6)
            expected = ours.score([PREDICTIONS[i] for i in order], [REFERENCES[i] for i in order])
            assert found[name]["scores"] == pytest.approx(expected.scores, abs=1e-6), name
            assert found[name]["twmd"] == pytest.approx(expected.score, abs=1e-6), name
    assert found["unordered"]["twmd"] != pytest.approx(found["dealt"]["twmd"], abs=1e-5)


def test_sources_are_kept_in_the_order_of_positions() -> None:
    theirs = TWMD(against="source")
    theirs.update(["it rained", "a dog barked"], [["x"], ["y"]], [1, 0], sources=["there was rain", "dogs make noise"])
    sources = ["dogs make noise", "there was rain"]
    expected = twmd_registry.score(["a dog barked", "it rained"], sources=sources, against="source")
    assert float(theirs.compute()) == pytest.approx(expected.score, abs=1e-6)
    theirs.reset()
    theirs.update(["a dog barked"], sources=["dogs make noise"])
    theirs.update("it rained", sources="there was rain")
    assert float(theirs.compute()) == pytest.approx(expected.score, abs=1e-6)
    references = TWMD()
    references.update("it rained", sources="there was rain")
    with pytest.raises(InputError, match="twmd compares predictions with references: pass them"):
        references.compute()


def test_references_that_are_tuples_or_missing_stay_rows() -> None:
    rows = [("a", None, ("x", "y"), 1), ("b", ["z"], ("w", None), 2)]
    *texts, numbers = collate_rows(rows)
    assert texts == [["a", "b"], [None, ["z"]], [["x", "y"], ["w", None]]]
    assert numbers.tolist() == [1, 2]


def test_reference_lists_stay_rows_and_a_transposed_square_warns() -> None:
    rows: Any = [
        {
            "prediction": prediction,
            "references": [prediction, "no bread"],
            "position": number,
            "ids": torch.tensor([number]),
        }
        for number, prediction in enumerate(PREDICTIONS[:4])
    ]
    kept, transposed = TWMD(), TWMD()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for batch in torch.utils.data.DataLoader(rows, batch_size=2, collate_fn=collate_rows):
            kept.update(batch["prediction"], batch["references"], batch["position"])
            assert batch["ids"].shape == (2, 1)
    assert float(kept.compute()) == pytest.approx(1, abs=1e-6)
    for batch in torch.utils.data.DataLoader(rows, batch_size=2):
        with pytest.warns(TwmdWarning, match="transposed.*collate_rows"):
            transposed.update(batch["prediction"], batch["references"])
    assert float(transposed.compute()) < 0.9
