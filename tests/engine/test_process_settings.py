"""Scoring leaves the caller's process as it was, and the caller's settings move no score."""

from __future__ import annotations

import contextlib
import itertools
import random
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers.utils import logging as transformers_logging
from transformers.utils.import_utils import enable_tf32

import twmd_registry
from tests import tiny
from tests.processes import in_a_fork
from twmd_registry.models.inference import exact_arithmetic

PREDICTIONS = ["the cat sat on the mat and ran over the hill in rain .", "a dog", "we saw it again today", "the the"]
REFERENCES = ["a cat sat over a mat", "the dog ran today", "it rain", "a dog ran"]
TINY: dict[str, Any] = {"layer": tiny.DEPTH, "centering": "none"}
BACKENDS: Any = torch.backends
NEW_INTERFACE = hasattr(BACKENDS, "fp32_precision")


def precisions() -> tuple[object, ...]:
    """Return all of torch's settings for float32 products, through both interfaces."""
    state: list[object] = []
    reads = (lambda: BACKENDS.cuda.matmul.allow_tf32, lambda: BACKENDS.cudnn.allow_tf32)
    for read in (torch.get_float32_matmul_precision, *reads):
        try:
            state.append(read())
        except RuntimeError:
            state.append("mixed")
    if NEW_INTERFACE:
        places: list[Any] = [BACKENDS, BACKENDS.cudnn, BACKENDS.cudnn.conv, BACKENDS.cudnn.rnn, BACKENDS.cuda.matmul]
        places += [BACKENDS.mkldnn, BACKENDS.mkldnn.matmul, BACKENDS.mkldnn.conv, BACKENDS.mkldnn.rnn]
        state += [place.fp32_precision for place in places]
    return tuple(state)


def settings() -> dict[str, object]:
    """Everything process-wide or of this thread that scoring might change."""
    return {
        "precisions": precisions(),
        "default dtype": torch.get_default_dtype(),
        "deterministic": torch.are_deterministic_algorithms_enabled(),
        "warn only": torch.is_deterministic_algorithms_warn_only_enabled(),
        "modes": (torch.is_grad_enabled(), torch.is_inference_mode_enabled()),
        "autocast": [(torch.is_autocast_enabled(kind), torch.get_autocast_dtype(kind)) for kind in ("cpu", "cuda")],
        "threads": (torch.get_num_threads(), torch.get_num_interop_threads()),
        "verbosity": transformers_logging.get_verbosity(),
        "bars": transformers_logging.is_progress_bar_enabled(),
        "torch's random": torch.random.get_rng_state().tolist(),
        "random": (str(np.random.get_state()), random.getstate()),  # noqa: NPY002 (the state that users seed)
    }


def reset() -> None:
    torch.set_default_dtype(torch.float32)
    if NEW_INTERFACE:
        for place in (BACKENDS, BACKENDS.mkldnn.matmul, BACKENDS.cuda.matmul):
            place.fp32_precision = "none"
    torch.set_float32_matmul_precision("highest")
    if NEW_INTERFACE:
        BACKENDS.mkldnn.matmul.fp32_precision = BACKENDS.cuda.matmul.fp32_precision = "none"


@pytest.fixture(autouse=True)
def _defaults() -> Iterator[None]:
    reset()
    yield
    reset()


def score(metric: str = "twmd", **keys: Any) -> list[float]:
    with twmd_registry.load(metric, **keys) as scorer:
        return scorer.score(PREDICTIONS, REFERENCES).scores


@contextlib.contextmanager
def unchanged() -> Iterator[None]:
    before = settings()
    yield
    assert settings() == before


def set_as_the_trainer() -> None:
    """Do what ``TrainingArguments(tf32=True)`` does."""
    enable_tf32.cache_clear()
    enable_tf32(enable=True)


LEGACY: dict[str, Callable[[], object]] = {
    "untouched": lambda: None,
    "medium": lambda: torch.set_float32_matmul_precision("medium"),
    "allow_tf32": lambda: setattr(BACKENDS.cuda.matmul, "allow_tf32", True),
    "trainer": set_as_the_trainer,
}
NEW: dict[str, Callable[[], object]] = {
    "untouched": lambda: None,
    "all tf32": lambda: setattr(BACKENDS, "fp32_precision", "tf32"),
    "mkldnn bf16": lambda: setattr(BACKENDS.mkldnn.matmul, "fp32_precision", "bf16"),
    "cuda tf32": lambda: setattr(BACKENDS.cuda.matmul, "fp32_precision", "tf32"),
}


@pytest.fixture(scope="module")
def scorers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[twmd_registry.Scorer, twmd_registry.Scorer]]:
    """Yield a scorer that loads its model for every score, and one that has scored and keeps it; of equal models."""
    folders = [tiny.save_encoder("bert", tmp_path_factory.mktemp("model") / name) for name in ("cold", "warm")]
    cold, warm = (twmd_registry.load("twmd", model=str(folder), **TINY) for folder in folders)
    warm.score(PREDICTIONS, REFERENCES)
    yield cold, warm
    warm.close()


@pytest.mark.parametrize("new", NEW if NEW_INTERFACE else ["untouched"])
@pytest.mark.parametrize("legacy", LEGACY)
def test_precision_of_products_set_by_either_interface_is_kept_and_moves_no_score(
    legacy: str, new: str, scorers: tuple[twmd_registry.Scorer, twmd_registry.Scorer]
) -> None:
    cold, warm = scorers
    wanted = warm.score(PREDICTIONS, REFERENCES).scores
    for order in itertools.permutations([LEGACY[legacy], NEW[new]]):
        for scorer in (cold, warm):
            reset()
            cold.close()
            for setting in order:
                setting()
            with unchanged():
                assert scorer.score(PREDICTIONS, REFERENCES).scores == pytest.approx(wanted, abs=1e-5)


@pytest.mark.skipif(not NEW_INTERFACE, reason="this torch has the old interface only")
def test_operator_that_follows_its_parent_still_does_afterwards() -> None:
    BACKENDS.fp32_precision = "tf32"
    with exact_arithmetic():
        assert BACKENDS.mkldnn.matmul.fp32_precision == "ieee"
    BACKENDS.fp32_precision = "bf16"
    assert BACKENDS.mkldnn.matmul.fp32_precision == "bf16"


DTYPES = [torch.float64, torch.bfloat16]


@pytest.mark.parametrize(
    ("metric", "keys", "family"),
    [
        ("twmd", TINY | {"centering": "batch"}, "bert"),
        ("twmd", TINY | {"iterations": "converged", "temperature": 1, "multiref": "mean"}, "bert"),
        ("trwmd", TINY | {"centering": "corpus", "idf": "corpus"}, "bert"),
        ("moverscore", TINY | {"centering": "sentence", "ngram": 2, "transform": "inverse"}, "bert"),
        ("bertscore_centered", TINY | {"special": "partners"}, "bert"),
        ("wordset_cka", {"centering": "dimension", "layer": "1-3", "aggregation": "pmeans:1,inf"}, "bert"),
        ("sbert", TINY | {"vectors": "raw"}, "bert"),
        ("twmd", {"preset": "embedded-tuned"}, None),
        ("stsscore", {}, None),
        *(("twmd", TINY, family) for family in ("bert", "roberta", "deberta-v2", "modernbert", "t5", "gpt2")),
    ],
)
def test_default_dtype_and_device_of_the_caller_are_kept_and_move_no_score(
    metric: str, keys: dict[str, Any], family: str | None, tiny_encoder: Callable[[str], Path]
) -> None:
    if family:
        keys = keys | {"model": str(tiny_encoder(family))}
    wanted = score(metric, **keys)
    with torch.device("meta"), unchanged():
        assert score(metric, **keys) == pytest.approx(wanted, abs=1e-5)
    for dtype in DTYPES:
        torch.set_default_dtype(dtype)
        with unchanged():
            assert score(metric, **keys) == pytest.approx(wanted, abs=1e-5)


@contextlib.contextmanager
def deterministic_on_more_threads() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.use_deterministic_algorithms(mode=True)
    torch.set_num_threads(threads + 1)
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(mode=False)
        torch.set_num_threads(threads)


MODES: dict[str, Callable[[], Any]] = {
    "deterministic algorithms": deterministic_on_more_threads,
    "no_grad": torch.no_grad,
    "enable_grad": torch.enable_grad,
    "inference_mode": torch.inference_mode,
    "autocast bfloat16": lambda: torch.autocast("cpu", dtype=torch.bfloat16),
    "autocast float16": lambda: torch.autocast("cpu", dtype=torch.float16),
}


@pytest.mark.parametrize("metric", ["twmd", "moverscore", "stsscore"])
def test_mode_of_the_calling_thread_is_kept_and_moves_no_score(metric: str) -> None:
    wanted = score(metric)
    for mode in MODES.values():
        with mode(), unchanged():
            assert score(metric) == pytest.approx(wanted, abs=1e-5)


def test_threads_of_different_models_leave_the_process_as_it_was() -> None:
    asked: list[tuple[str, dict[str, Any]]] = [("twmd", {}), ("twmd", {"preset": "embedded-tuned"}), ("stsscore", {})]
    wanted = [score(metric, **keys) for metric, keys in asked]
    torch.set_default_dtype(torch.float64)
    torch.set_float32_matmul_precision("medium")
    start = threading.Barrier(len(asked))

    def work(metric: str, keys: dict[str, Any]) -> list[list[float]]:
        start.wait()
        return [score(metric, **keys) for _ in range(2)]

    with unchanged(), ThreadPoolExecutor(len(asked)) as pool:
        found = list(pool.map(lambda setting: work(*setting), asked))
    for scores, expected in zip(found, wanted, strict=True):
        for one in scores:
            assert one == pytest.approx(expected, abs=1e-5)


def during(action: Callable[[int], None]) -> list[float]:
    """Score, calling `action` in the middle of it."""
    with twmd_registry.load("twmd") as scorer:
        (scores,) = twmd_registry.score_all([scorer], PREDICTIONS, REFERENCES, progress=action)
        return scores.scores


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_exception_in_the_middle_leaves_the_process_as_it_was(error: type[BaseException]) -> None:
    torch.set_default_dtype(torch.float64)
    torch.set_float32_matmul_precision("medium")

    def fail(_texts: int) -> None:
        assert torch.get_float32_matmul_precision() == "highest"
        raise error

    with unchanged(), pytest.raises(error):
        during(fail)


def test_fork_in_the_middle_of_another_threads_score_starts_as_the_caller_is() -> None:
    torch.set_float32_matmul_precision("medium")
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # OpenMP's own threads do not live in a fork
    wanted, before, state = score(), settings(), random.getstate()
    scoring, forked = threading.Event(), threading.Event()

    def wait(_texts: int) -> None:
        scoring.set()
        forked.wait(60)

    def work() -> bool:
        random.setstate(state)  # Python gives every fork random numbers of its own
        return settings() == before and score() == pytest.approx(wanted, abs=1e-5) and settings() == before

    with ThreadPoolExecutor(1) as pool:
        other = pool.submit(during, wait)
        assert scoring.wait(60)
        try:
            assert torch.get_float32_matmul_precision() == "highest"
            assert in_a_fork(work)
        finally:
            forked.set()
        assert other.result() == pytest.approx(wanted, abs=1e-5)
    assert settings() == before
    torch.set_num_threads(threads)
