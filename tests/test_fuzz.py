"""Given any bytes, readers of files and strings return a value or raise one of this package's errors.

The tests run a hundred cases of each. ``make fuzz`` runs 100 rounds of 1,000, as far as a reader's time allows.
"""

from __future__ import annotations

import gzip
import json
import os
import re
import struct
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

import twmd_registry
from tests.tiny import WORDS
from twmd_registry.errors import SignatureError, TwmdError
from twmd_registry.files.compressed import read_content
from twmd_registry.files.tables import TableRow, detect_form, form_of, read_rows
from twmd_registry.models.files import find_model
from twmd_registry.models.vectors import WordTable, load_static, read_table
from twmd_registry.record.content import Record, make_record, parse_record, record_text
from twmd_registry.registry.metric_spec import AppliedSpec
from twmd_registry.registry.own_presets import read_preset_file
from twmd_registry.registry.signature import Signature, parse_signature
from twmd_registry.registry.spec import make_spec

T = TypeVar("T")
MAX_SECONDS = 300
"""For all rounds of a reader, in each of the two processes of ``make fuzz``."""
SPENT_S = defaultdict[str, float](float)
OFTEN = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
SIGNATURES = [str(Signature(AppliedSpec.of(make_spec(name)))) for name in ("twmd", "moverscore", "ensemble")]
SIGNATURES += [Signature(AppliedSpec.of(make_spec("twmd", centering="batch")), 2, bs=1000, seed=1).format(short=True)]
TABLE = b'{"prediction": "a cat", "reference": "the cat", "n": 0.5}\n{"prediction": "b", "references": ["c", "d"]}\n'
PRESET = b'[mine.shared]\nmodel = "embedded"\nlayer = 3\n[mine.metrics.twmd]\ntemperature = 0.1\nprovenance = "a"\n'
VECTORS = b"3 2\nthe 0.5 1\ncat -1 2e-3\nsat 3 4\n"


@pytest.fixture(autouse=True, params=range(int(os.environ.get("FUZZ_ROUNDS", "1"))))
def _round(request: pytest.FixtureRequest) -> Iterator[None]:
    """Run a test once per round, until its time is over."""
    name = request.node.originalname
    if SPENT_S[name] > MAX_SECONDS:
        pytest.skip(f"{name}: {MAX_SECONDS} seconds are over")
    started = time.monotonic()
    yield
    SPENT_S[name] += time.monotonic() - started


@st.composite
def spoilt(draw: st.DrawFn, seed: bytes) -> bytes:
    """Return bytes with some pieces removed, repeated, exchanged or invented."""
    content = seed
    for _ in range(draw(st.integers(1, 4))):
        start = draw(st.integers(0, len(content)))
        end = draw(st.integers(start, min(len(content), start + 40)))
        other = draw(st.integers(0, len(seed)))
        pieces = [b"\x00", b"\xff", b"NaN", b"1e999", b"-1", b'"', b"[", b"\n"]
        made_up = st.binary(max_size=8) | st.sampled_from(pieces)
        piece = draw(made_up | st.just(seed[other : other + 40]))
        content = content[:start] + piece + content[end:]
    return content


def check_reading(read: Callable[[], T], is_right: Callable[[T], bool]) -> None:
    """Fail on every exception but this package's own, and on a wrong value."""
    with suppress(TwmdError):
        assert is_right(read())


def survives_writing(record: Record) -> bool:
    """Return whether a record is read back unchanged."""
    return parse_record(record_text(replace(record, edited=False))) == replace(record, edited=False)


def is_table(table: WordTable) -> bool:
    """Return whether different words have finite vectors, after one row for all others."""
    words, vectors = table
    return len(set(words)) == len(words) == len(vectors) - 1 and bool(np.isfinite(vectors).all())


@pytest.mark.parametrize("name", ["t.jsonl", "t"])
def test_undamaged_tables_and_files_are_read(tmp_path: Path, record: bytes, name: str) -> None:
    for file, content in (("preset.toml", PRESET), ("vectors.txt", VECTORS), ("table.gz", gzip.compress(TABLE))):
        (tmp_path / file).write_bytes(content)
    assert len(read_preset_file(tmp_path / "preset.toml")[1]) == 1
    assert is_table(read_table(tmp_path / "vectors.txt"))
    assert read_content(tmp_path / "table.gz") == TABLE
    assert len(read_rows(name, TABLE, detect_form(name, TABLE, ["prediction"]) or "")) == 2
    assert survives_writing(parse_record(record.decode()))


@OFTEN
@given(
    st.sampled_from(SIGNATURES)
    .flatmap(lambda text: spoilt(text.encode()))
    .map(lambda content: content.decode("utf-8", "surrogateescape"))
    | st.text()
)
@example("|".join(reversed(SIGNATURES[0].split("|"))))
@example(SIGNATURES[0] * 40)
def test_any_string_is_a_canonical_signature_or_an_error_with_a_column(text: str) -> None:
    try:
        signature = parse_signature(text)
    except SignatureError as error:
        assert re.match(r"column \d+: ", str(error))  # noqa: PT017 (a signature may be right)
    else:
        assert parse_signature(str(signature)) == signature


@pytest.fixture(scope="module")
def record() -> bytes:
    """Return a record as text."""
    scores = twmd_registry.score(["a cat", "it rains"], ["the cat", "rain fell"])
    made = make_record([("system", [scores])], references=[["the cat"], ["rain fell"]], seconds=1.0)
    return record_text(made).encode()


@OFTEN
@given(st.data())
def test_any_text_is_a_record_or_an_error(record: bytes, data: st.DataObject) -> None:
    content = data.draw(spoilt(record)).decode("utf-8", "replace")
    check_reading(lambda: parse_record(content), survives_writing)


@OFTEN
@given(st.data())
def test_changed_record_is_a_record_or_an_error(record: bytes, data: st.DataObject) -> None:
    content = json.loads(record)
    place = content
    while isinstance(place, dict | list) and place:
        keys = list(place) if isinstance(place, dict) else range(len(place))
        parent, key = place, data.draw(st.sampled_from(keys))
        place = place[key]
        if data.draw(st.booleans()):
            break
    kinds: st.SearchStrategy[object] = (
        st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.just([]) | st.just({})
    )
    parent[key] = data.draw(kinds)
    check_reading(lambda: parse_record(json.dumps(content)), survives_writing)


@OFTEN
@given(spoilt(PRESET))
def test_any_file_is_a_preset_or_an_error(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "preset.toml"
    path.write_bytes(content)
    check_reading(lambda: read_preset_file(path), lambda found: found[0] == content and len(found[1]) > 0)


@OFTEN
@given(spoilt(VECTORS) | st.binary(max_size=200))
@example(b"3 2\nthe \x00\x00\x80\x7f\x00\x00\x00\x00\n")  # an infinite number, in word2vec's binary form
def test_any_file_is_word_vectors_or_an_error(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "vectors.txt"
    path.write_bytes(content)
    check_reading(lambda: read_table(path), is_table)


@pytest.fixture(scope="module")
def saved_vectors(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("static")
    table = tmp_path_factory.mktemp("table") / "vectors.txt"
    table.write_text("".join(f"{word} {i} 1\n" for i, word in enumerate(WORDS)), encoding="utf-8")
    return twmd_registry.save_vectors(table, folder / "model")


@OFTEN
@given(st.data())
def test_any_safetensors_file_is_a_model_or_an_error(saved_vectors: Path, data: st.DataObject) -> None:
    path = saved_vectors / "model.safetensors"
    whole = path.read_bytes()
    size = struct.unpack("<Q", whole[:8])[0]
    header = data.draw(spoilt(whole[8 : 8 + size]))
    announced = data.draw(st.just(len(header)) | st.integers(0, 2**64 - 1))
    rest = data.draw(st.just(whole[8 + size :]) | st.binary(max_size=9))
    try:
        path.write_bytes(struct.pack("<Q", announced) + header + rest)
        check_reading(
            lambda: load_static(find_model(str(saved_vectors)), "float32")[0].weight,
            lambda vectors: vectors.shape == (len(WORDS) + 1, 2) and bool(vectors.isfinite().all()),
        )
    finally:
        path.write_bytes(whole)


@OFTEN
@given(spoilt(TABLE) | st.binary(max_size=200), st.sampled_from(["t.jsonl", "t.csv", "t.tsv", "t.parquet", "t"]))
def test_any_upload_is_rows_or_an_error(content: bytes, name: str) -> None:
    def are_rows(rows: list[TableRow]) -> bool:
        return [row.number for row in rows] == sorted({row.number for row in rows})  # of {}: a row without a column

    form = detect_form(name, content, ["prediction"]) or form_of(name)
    check_reading(lambda: read_rows(name, content, form), are_rows)
