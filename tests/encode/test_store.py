from __future__ import annotations

import itertools
import time
from concurrent.futures import CancelledError
from threading import Event, get_ident
from typing import Any

import numpy as np
import pytest
import torch

import twmd_registry
from tests.conftest import Texts
from twmd_registry.encode.encoder import Encoder
from twmd_registry.encode.store import TextStore
from twmd_registry.engine import pipeline
from twmd_registry.engine.backends import TokenAlignmentBackend
from twmd_registry.engine.pairs import BYTES_PER_TOKEN, COPIES_FACTOR, Pairs, check_segments, make_pairs, plan_chunks
from twmd_registry.engine.pipeline import PipelineRun
from twmd_registry.errors import ModelError, collect_warnings, warn
from twmd_registry.models.files import find_model
from twmd_registry.tensors import TextFlags


@pytest.fixture(scope="module")
def encoder(bert: str) -> Encoder:
    return Encoder(find_model(bert), None, "float32", torch.device("cpu"))


@pytest.fixture
def chunks_ahead(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make small chunks, and encode them ahead, as on an accelerator."""
    monkeypatch.setattr(pipeline, "CHUNK_TOKENS", 60)
    monkeypatch.setattr(pipeline, "BLOCK_CELLS", 200)
    monkeypatch.setattr(pipeline, "IN_ORDER", set())


def some_pairs() -> Pairs:
    references = [["the cat sat", "a dog ran"] if i % 3 else ["the cat sat"] for i in range(9)]
    return make_pairs(check_segments(["it ran", "we saw the cat", "it ran"] * 3, references))


def open_store(encoder: Encoder, pairs: Pairs) -> tuple[TextStore, list[slice]]:
    """Return a store of the texts of some pairs, and their chunks."""
    chunks, uses = plan_chunks(pairs, None, 1, 1)
    flags = TextFlags._make([*np.zeros((6, len(pairs.texts)), dtype=bool), {}])
    return TextStore(encoder, pairs.texts, [2], uses, flags=flags), list(chunks)


@pytest.mark.parametrize(("most", "step"), [(1, 1), (8, 1), (1, 4), (10**9, 1)])
def test_chunks_cover_all_pairs_and_end_at_steps(most: int, step: int) -> None:
    pairs = some_pairs()
    pieces, _ = plan_chunks(pairs, None, most, step)
    assert [p for piece in pieces for p in range(piece.start, piece.stop)] == list(range(len(pairs.hyp)))
    boundaries = [*pairs.starts.tolist(), len(pairs.hyp)]
    assert all(boundaries.index(piece.start) % step == 0 for piece in pieces)
    assert (len(pieces) == 1) is (most == 10**9)


def test_copies_of_repeated_texts_are_bounded() -> None:
    pairs = make_pairs(check_segments(["yes", "no"] * 500, ["no", "yes"] * 500))
    chunks, _ = plan_chunks(pairs, None, 100, step=2)
    tokens = sum(len(text) // BYTES_PER_TOKEN + 2 for text in ("yes", "no"))
    assert len(chunks) > 1
    assert [chunk.start for chunk in chunks] == [0, *(chunk.stop for chunk in chunks[:-1])]
    assert all((chunk.stop - chunk.start) / 2 * tokens <= COPIES_FACTOR * 100 for chunk in chunks)


def test_every_text_is_encoded_once_and_held_while_it_is_needed(encoder: Encoder) -> None:
    pairs = some_pairs()
    store, pieces = open_store(encoder, pairs)
    before = encoder.texts_encoded
    with torch.inference_mode():
        alone = {text: encoder.encode(encoder.tokenise([text]), [2]).layers[2] for text in pairs.texts}
        for p, piece in enumerate(pieces):
            ids = np.union1d(pairs.hyp[piece], pairs.ref[piece])
            held, rows = store.fetch(ids, batch_tokens=None, progress=None)
            starts = np.cumsum(held.lengths.numpy()) - held.lengths.numpy()
            for text, row in zip(ids, rows, strict=True):
                mine = held.layers[2][starts[row] : starts[row] + int(held.lengths[row])]
                torch.testing.assert_close(mine, alone[pairs.texts[text]], atol=2e-6, rtol=0)
            store.forget(p, 10**6)
    assert len(pieces) == len(pairs.counts)
    assert encoder.texts_encoded - before == 2 * len(pairs.texts)
    assert len(store._held_texts) == 0


def test_text_that_does_not_fit_is_encoded_again(encoder: Encoder) -> None:
    pairs = some_pairs()
    store, pieces = open_store(encoder, pairs)
    before = encoder.texts_encoded
    with torch.inference_mode():
        for p, piece in enumerate(pieces):
            store.fetch(np.union1d(pairs.hyp[piece], pairs.ref[piece]), batch_tokens=None, progress=None)
            store.forget(p, 0)
    assert encoder.texts_encoded - before > len(pairs.texts)


def test_cpu_encodes_chunks_in_the_thread_of_the_caller(texts: Texts, monkeypatch: pytest.MonkeyPatch) -> None:
    threads, fetch = list[int](), TextStore.fetch

    def fetch_and_note(*given: Any, **options: Any) -> Any:
        threads.append(get_ident())
        return fetch(*given, **options)

    monkeypatch.setattr(pipeline, "CHUNK_TOKENS", 60)
    monkeypatch.setattr(TextStore, "fetch", fetch_and_note)
    twmd_registry.scorer("twmd", layer=1).score(*texts)
    assert len(threads) > 2
    assert {*threads} == {get_ident()}


@pytest.mark.usefixtures("chunks_ahead")
def test_chunk_is_encoded_while_the_chunk_before_it_is_aligned(texts: Texts, monkeypatch: pytest.MonkeyPatch) -> None:
    scorer = twmd_registry.scorer("moverscore", layer=1)
    with monkeypatch.context() as patch:
        patch.setattr(pipeline, "CHUNK_TOKENS", 10**6)
        whole = scorer.score(*texts)
    fetched, aligned, met = [Event() for _ in range(len(texts[0]) + 1)], [], []
    fetch, align_pairs = TextStore.fetch, pipeline.align_pairs

    def fetch_and_set(*given: Any, **options: Any) -> Any:
        found = fetch(*given, **options)
        next(event for event in fetched if not event.is_set()).set()
        return found

    def align_later(*given: Any) -> Any:
        aligned.append(1)
        # The second chunk is encoded before the first is aligned.
        met.append(fetched[len(aligned)].wait(20 if len(aligned) == 1 else 0))
        return align_pairs(*given)

    monkeypatch.setattr(TextStore, "fetch", fetch_and_set)
    monkeypatch.setattr("twmd_registry.engine.pipeline.align_pairs", align_later)
    np.testing.assert_allclose(scorer.score(*texts).scores, whole.scores, rtol=0, atol=1e-5)
    assert len(aligned) > 2
    assert met[0]


def test_error_in_a_later_chunk_leaves_the_scorer_usable(texts: Texts, monkeypatch: pytest.MonkeyPatch) -> None:
    scorer = twmd_registry.scorer("twmd", layer=1)
    whole = scorer.score(*texts)
    fetch, calls = TextStore.fetch, itertools.count()

    def fail_at_the_third(*given: Any, **options: Any) -> Any:
        if next(calls) == 2:
            raise ModelError("out of memory.")
        return fetch(*given, **options)

    with monkeypatch.context() as patch:
        patch.setattr(pipeline, "CHUNK_TOKENS", 60)
        patch.setattr(TextStore, "fetch", fail_at_the_third)
        with pytest.raises(ModelError, match="out of memory"):
            scorer.score(*texts)
    assert scorer.score(*texts).scores == whole.scores


@pytest.mark.usefixtures("chunks_ahead")
@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_chunk_encoded_in_advance_has_no_gradient(mode: Any, texts: Texts) -> None:
    backend = twmd_registry.scorer("twmd", layer=1).backend
    assert isinstance(backend, TokenAlignmentBackend)
    run = PipelineRun(backend.model, {backend.spec: backend.view}, make_pairs(check_segments(*texts)))
    with mode():
        found = list(run.score_chunks())
    assert len(found) > 2
    assert not any(scores.requires_grad for _, by_spec in found for scores in by_spec.values())


@pytest.mark.usefixtures("chunks_ahead")
def test_warnings_of_chunks_encoded_in_advance_are_collected(texts: Texts, monkeypatch: pytest.MonkeyPatch) -> None:
    fetch, numbers = TextStore.fetch, itertools.count()

    def fetch_and_warn(*given: Any, **options: Any) -> Any:
        warn(f"piece {next(numbers)}.")
        return fetch(*given, **options)

    monkeypatch.setattr(TextStore, "fetch", fetch_and_warn)
    with collect_warnings() as held:
        twmd_registry.scorer("twmd", layer=1).score(*texts)
    assert len(held) > 2
    assert held == [f"piece {k}." for k in range(len(held))]


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.usefixtures("chunks_ahead")
def test_chunk_is_encoded_in_the_stream_of_the_caller(texts: Texts, monkeypatch: pytest.MonkeyPatch) -> None:
    seen, fetch = set(), TextStore.fetch

    def fetch_and_note(*given: Any, **options: Any) -> Any:
        seen.add(torch.cuda.current_stream())
        return fetch(*given, **options)

    monkeypatch.setattr(TextStore, "fetch", fetch_and_note)
    own = torch.cuda.Stream()  # type: ignore[no-untyped-call]
    with torch.cuda.stream(own):
        twmd_registry.scorer("twmd", layer=1, device="cuda").score(*texts)
    assert seen == {own}


@pytest.mark.usefixtures("chunks_ahead")
def test_interrupt_stops_the_encoding_of_the_next_chunk(texts: Texts, monkeypatch: pytest.MonkeyPatch) -> None:
    scorer = twmd_registry.scorer("twmd", layer=1, batch_tokens=1)  # a text per batch
    began, interrupted, calls, cancelled = Event(), Event(), itertools.count(), []
    fetch = TextStore.fetch

    def fetch_late(*given: Any, **options: Any) -> Any:
        if next(calls) == 1:
            began.set()
            interrupted.wait(20)
            time.sleep(0.2)
            try:
                return fetch(*given, **options)
            except CancelledError:
                cancelled.append(1)
                raise
        return fetch(*given, **options)

    def interrupt(*given: Any) -> Any:
        assert began.wait(20)
        interrupted.set()
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(TextStore, "fetch", fetch_late)
        patch.setattr(pipeline, "align_pairs", interrupt)
        with pytest.raises(KeyboardInterrupt) as held:  # its traceback holds every frame of the call
            scorer.score(*texts)
    assert cancelled == [1]  # before the call ended, and gave the model free
    assert held.tb is not None
    assert scorer.score(*texts).scores
