"""Two processes give the scores of one. They are started once, for all cases."""

from __future__ import annotations

import os
import pickle
import re
import warnings
from collections.abc import Iterator, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
import torch.distributed as dist

import twmd_registry
from tests import tiny
from tests.processes import CONTEXT, PATIENCE
from twmd_registry.encode.encoder import Encoder
from twmd_registry.engine.distributed import score_over_ranks
from twmd_registry.engine.result import ScoreSet
from twmd_registry.errors import ModelError, TwmdError, TwmdWarning
from twmd_registry.tensors import EncodedTexts, TextTokens

RANKS = 2
BERT, REGRESSOR, TABLE = "bert", "regressor", "table.txt"

WORDS = [word for word in tiny.WORDS if word.isalpha()]
DRAW = np.random.default_rng(11)


def sentence() -> str:
    return " ".join(DRAW.choice(WORDS, DRAW.integers(2, 9)))


SEGMENTS = [(sentence(), [sentence() for _ in range(DRAW.integers(1, 4))]) for _ in range(17)]
"""With 1 to 3 references."""

SEPARATE, LAYERS = {"centering_side": "separate"}, {"layer": "1,3", "aggregation": "mean"}
METRICS: dict[str, tuple[str, dict[str, Any]]] = {
    "twmd": ("twmd", {"centering": "none"}),
    "twmd, batches of 2": ("twmd", {"centering": "batch", "centering_size": 2, "centering_side": "joint"}),
    "twmd, batches of 3": ("twmd", {"centering": "batch", "centering_size": 3, **SEPARATE, "multiref": "mean"}),
    "trwmd, corpus": ("trwmd", {"centering": "corpus", "centering_side": "joint"}),
    "bertscore, corpus": ("bertscore_centered", {"centering": "corpus", **SEPARATE, "idf": "references"}),
    "moverscore, idf": ("moverscore", {"centering": "none", "idf": "corpus", "ngram": 2}),
    "moverscore, corpus and idf": ("moverscore", {"centering": "corpus", "idf": "corpus", **LAYERS}),
    "bertscore, padding": ("bertscore_centered", {"centering": "none", "special": "partners", "padding": 3}),
    "wordset_cka": ("wordset_cka", {"centering": "dimension"}),
    "sbert": ("sbert", {"centering": "none"}),
    "stsscore": ("stsscore", {"model": REGRESSOR, "scale": 5}),
    "static": ("twmd", {"model": TABLE, "layer": 0, "centering": "corpus"}),
}
ODD = [
    ("", ["the cat", " "]),
    ("cat", ["cat"]),
    ("cat " * 60, ["the dog", "dog " * 60]),
    ("zebra", ["the cat"]),
    ("the cat", ["zebra", "cat", ""]),
    ("the heron ran", ["it ran"]),
    ("", ["the heron ran"]),
]
"""Empty, cut, unknown, of one word, and the same in both shares."""


class Case(NamedTuple):
    segments: list[tuple[str, list[str]]]
    metrics: list[tuple[str, dict[str, Any]]]
    trouble: str = ""  # on the second rank
    calls: int = 1


class Outcome(NamedTuple):
    found: list[ScoreSet]
    error: tuple[str, str] | None
    warnings: list[str]
    encoded: int  # texts, by the last call


MEMBERS = f"twmd;model={BERT};layer=2;centering=corpus,2*sbert;model={BERT};layer=1;centering=none"
CASES: dict[str, Case] = {
    **{f"{number} segments": Case(SEGMENTS[:number], list(METRICS.values())) for number in (1, 2, 3, 17)},
    **{f"{name} alone": Case(SEGMENTS, [metric]) for name, metric in METRICS.items() if "," in name},
    "ensemble": Case(SEGMENTS, [("ensemble", {"members": MEMBERS})]),
    "odd texts": Case(ODD, [*METRICS.values(), ("twmd", {"centering": "sentence", "special": "none"})]),
    "documents": Case(
        [
            ("\n".join(text for text, _ in SEGMENTS[i : i + 3]), ["\n".join(own[0] for _, own in SEGMENTS[i : i + 4])])
            for i in range(0, 9, 3)
        ],
        [("twmd", {"align": "sentences", "centering": "corpus", "centering_side": "joint"})],
    ),
    "untuned": Case(SEGMENTS[:4], [("twmd", {"layer": None})]),
    "kept references": Case(SEGMENTS, [("twmd", {"centering": "none", "keep_references": "1MB"})], calls=2),
    "bad row": Case([("a cat", ["the cat"]), ("a dog", [])], [METRICS["twmd"]]),
}
TROUBLES: dict[str, tuple[str, str]] = {
    "texts": ("InputError", r"^rank 1 has different texts \(17 segments\) from rank 0 \(17\): pass all texts"),
    "fewer texts": ("InputError", r"^rank 1 has different texts \(16 segments\) from rank 0 \(17\)"),
    "metric": ("SpecError", r"^rank 1 scores with twmd\|.*layer:1\|.*, rank 0 with twmd\|.*layer:2\|"),
    "model": ("ModelError", r"^rank 1 of 2 failed: .*nowhere"),
    "encoder": ("ModelError", r"^rank 1 of 2 failed: out of patience$"),
    "bug": ("TwmdError", r"^rank 1 of 2 failed: KeyError: 'a bug'$"),
}
"""What goes wrong on rank 1, and the error that all ranks raise."""
BROKEN = {
    name: Case(SEGMENTS, [METRICS["trwmd, corpus"] if name != "metric" else METRICS["twmd"]], trouble=name)
    for name in TROUBLES
}
AFTERWARDS = {"after all troubles": Case(SEGMENTS, [METRICS["trwmd, corpus"]])}


def scorers_of(case: Case, folder: Path, trouble: str) -> Iterator[twmd_registry.Scorer]:
    for metric, given in case.metrics:
        keys = {"layer": 2, "model": BERT, **given}
        if metric == "stsscore":
            del keys["layer"]
        if metric == "ensemble":
            keys = {"members": given["members"].replace(f"model={BERT}", f"model={folder / BERT}")}
        else:
            keys["model"] = str(folder / ("nowhere" if trouble == "model" else keys["model"]))
        if trouble == "metric":
            keys["layer"] = 1
        yield twmd_registry.load(metric, **keys)


def run(case: Case, folder: Path, rank: int | None, patch: pytest.MonkeyPatch) -> Outcome:
    """Score a case; in a process of its own, or as one of several ranks."""
    predictions, references = (list(side) for side in zip(*case.segments, strict=True))
    found, trouble = list[ScoreSet](), case.trouble if rank == 1 else ""
    error, done, encode = None, list[int](), Encoder.encode

    def count(encoder: Encoder, tokens: Sequence[TextTokens], *rest: Any, **more: Any) -> EncodedTexts:
        done.append(len(tokens))
        return encode(encoder, tokens, *rest, **more)

    def fail(*_: object, **__: object) -> None:
        raise ModelError("out of patience") if trouble == "encoder" else KeyError("a bug")

    patch.setattr(Encoder, "encode", fail if trouble in {"encoder", "bug"} else count)
    if trouble == "texts":
        predictions[3] = "another"
    if trouble == "fewer texts":
        predictions, references = predictions[:-1], references[:-1]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", TwmdWarning)
        try:
            scorers = list(scorers_of(case, folder, trouble))
            for _ in range(case.calls):
                done.clear()
                found = score_over_ranks(scorers, predictions, references)
        except TwmdError as raised:
            error = type(raised).__name__, str(raised)
    patch.undo()
    return Outcome(found, error, [str(one.message) for one in caught if one.category is TwmdWarning], sum(done))


def work(rank: int, folder: Path) -> None:
    """Run one of the ranks; its outcomes go into a file."""
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    torch.set_num_threads(1)
    store, patience = (folder / "store").as_uri(), timedelta(seconds=PATIENCE)
    dist.init_process_group("gloo", init_method=store, rank=rank, world_size=RANKS, timeout=patience)
    patch = pytest.MonkeyPatch()
    found = {name: run(case, folder, rank, patch) for name, case in (CASES | BROKEN | AFTERWARDS).items()}
    (folder / f"rank{rank}.pickle").write_bytes(pickle.dumps(found))
    dist.destroy_process_group()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    here = tmp_path_factory.mktemp("ranks")
    tiny.save_encoder("bert", here / BERT)
    tiny.save_regressor(here / REGRESSOR)
    rows = [f"{word} {' '.join(f'{x:.4f}' for x in DRAW.normal(size=6))}" for word in WORDS]
    (here / TABLE).write_text("\n".join(rows) + "\n", encoding="utf-8")
    return here


@pytest.fixture(scope="module")
def outcomes(folder: Path) -> list[dict[str, Outcome]]:
    """Return the outcomes by rank."""
    started = [CONTEXT.Process(target=work, args=(rank, folder)) for rank in range(RANKS)]
    for process in started:
        process.start()
    for process in started:
        process.join(PATIENCE)
        process.kill()
    assert [process.exitcode for process in started] == [0] * RANKS
    return [pickle.loads((folder / f"rank{rank}.pickle").read_bytes()) for rank in range(RANKS)]


@pytest.mark.parametrize("name", [*CASES, *AFTERWARDS])
def test_every_rank_returns_the_scores_of_a_single_process(
    name: str, folder: Path, outcomes: list[dict[str, Outcome]], monkeypatch: pytest.MonkeyPatch
) -> None:
    alone = run((CASES | AFTERWARDS)[name], folder, None, monkeypatch)
    assert (alone.error is not None) is (name == "bad row")
    for of_rank in outcomes:
        mine = of_rank[name]
        assert mine.error == alone.error
        assert len(mine.found) == len(alone.found)
        for found, expected in zip(mine.found, alone.found, strict=True):
            assert (found.signature, found.counts, found.texts) == (expected.signature, expected.counts, expected.texts)
            for side in ("scores", "precision", "recall", "f1"):
                wanted = getattr(expected, side)
                assert getattr(found, side) == (None if wanted is None else pytest.approx(wanted, abs=1e-5))
    assert outcomes[0][name].found == outcomes[1][name].found
    assert outcomes[0][name].warnings == alone.warnings
    assert outcomes[1][name].warnings == []


@pytest.mark.parametrize("trouble", TROUBLES)
def test_error_on_one_rank_is_raised_on_all(trouble: str, outcomes: list[dict[str, Outcome]]) -> None:
    kind, text = TROUBLES[trouble]
    for of_rank in outcomes:
        error = of_rank[trouble].error or ("", "")
        assert error[0] == kind
        assert re.search(text, error[1])


def test_every_rank_encodes_its_share_only_and_keeps_its_references(
    folder: Path, outcomes: list[dict[str, Outcome]], monkeypatch: pytest.MonkeyPatch
) -> None:
    name = "twmd, batches of 2 alone"
    shares = [of_rank[name].encoded for of_rank in outcomes]
    alone = run(CASES[name], folder, None, monkeypatch).encoded
    different = {text for prediction, references in SEGMENTS for text in (prediction, *references)}
    assert len(different) == alone == sum(shares)
    assert min(shares) > alone / 4
    assert sum(of_rank["kept references"].encoded for of_rank in outcomes) == len(SEGMENTS)
