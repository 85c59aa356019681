"""``twmd cache``, and ``--disk-cache``."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import Run

EMBEDDED = "sentence-transformers/all-MiniLM-L6-v2"


@pytest.fixture
def home(files: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TWMD_HOME", str(files / "home"))
    return files / "home"


@pytest.fixture
def score(home: Path, run: Run, tiny_encoder: Callable[[str], Path]) -> Callable[..., str]:
    """Score by the embedded model, or by a tiny one where keys are given; return the output."""

    def call(keys: str = "", size: str = "1MB") -> str:
        tiny = f"--set model={tiny_encoder('bert')} centering=none {keys}" if keys else ""
        status, out, _ = run(f"score ref.txt -i good.txt -m twmd -sl --disk-cache {size} {tiny}")
        assert status == 0
        return out

    return call


def test_cached_texts_are_listed_by_model(home: Path, run: Run, score: Callable[..., str]) -> None:
    for keys in ("", "layer=1", "layer=1 dtype=bfloat16", "layer=2"):
        score(keys)
    first, heads, _, row, *_ = run("cache ls")[1].splitlines()
    assert first.startswith(f"{home / 'cache'}: 20 texts, 0.1 MB (each run brings its own bound")
    assert heads.split() == ["model", "texts", "files", "MB", "last", "used"]
    assert re.fullmatch(r"\S+@[0-9a-f]{12}( float32)? +\d+ +\d+ +[\d.]+ +\d{4}-\S+ \S+", row)
    rows = [line.split("\t") for line in run("cache ls --format tsv")[1].splitlines()[1:]]
    named = {re.sub("@[0-9a-f]{12}", "@", row[0]): tuple(row[1:3]) for row in rows}
    assert named == {
        f"{EMBEDDED}@ float32": ("5", "1"),
        "./bert@ float32": ("10", "2"),
        "./bert@ bfloat16": ("5", "1"),
    }


def test_list_has_every_format(home: Path, run: Run, score: Callable[..., str]) -> None:
    assert json.loads(run("cache ls --format json")[1]) == []
    score()
    score("layer=1")
    kept = json.loads(run("cache ls --format json")[1])
    assert [(model["texts"], model["shards"]) for model in kept] == [(5, 1), (5, 1)]
    assert sum(model["bytes"] for model in kept) == sum(path.stat().st_size for path in home.rglob("*.safetensors"))
    rows = [line.split("\t") for line in run("cache ls --format tsv")[1].splitlines()]
    assert rows[0] == ["model", "texts", "files", "MB", "last used"]
    assert [(row[0], row[4]) for row in rows[1:]] == [(model["model"], model["used"]) for model in kept]
    (removed,) = json.loads(run("cache clear --model embedded --format json")[1])
    assert removed in kept
    assert removed["model"].startswith(f"{EMBEDDED}@")


def test_one_model_can_be_cleared(home: Path, run: Run, score: Callable[..., str]) -> None:
    score()
    score("layer=1")
    assert run(f"cache clear --model {EMBEDDED}")[:2] == (0, f"removed 5 texts, 0.1 MB, from {home / 'cache'}\n")
    assert len(list((home / "cache").rglob("*.safetensors"))) == 1
    assert ": 5 texts" in run("cache ls --model ./bert")[1]
    status, _, err = run("cache ls --model embedded")
    assert (status, f"nothing is kept of a model {EMBEDDED!r}; Choices: ./bert@" in err) == (2, True)


def test_whole_cache_can_be_cleared(home: Path, run: Run, score: Callable[..., str]) -> None:
    score("layer=1")
    (shard,) = (home / "cache").rglob("*.safetensors")
    shard.with_name("damaged.safetensors").write_bytes(b"nonsense")
    assert run("cache clear")[0] == 0
    assert list((home / "cache").rglob("*.safetensors")) == []
    assert len(run("cache ls")[1].splitlines()) == 1


@pytest.mark.parametrize("action", ["ls", "clear"])
def test_empty_cache_has_no_texts_and_no_model(home: Path, action: str, run: Run) -> None:
    status, out, _ = run(f"cache {action}")
    assert (status, "0 texts, 0.0 MB" in out, home.exists()) == (0, True, False)
    assert run(f"cache {action} --model no/such") == (
        2,
        "",
        "twmd: nothing is kept of a model 'no/such'; the cache is empty.\n",
    )


def test_folder_that_cannot_be_used_is_an_error_of_one_line(home: Path, run: Run) -> None:
    (home / "cache" / "lock").mkdir(parents=True)
    status, _, err = run("cache clear")
    assert status == 1
    assert re.fullmatch(r"twmd: the disk cache in \S+ cannot be used: .+\n", err)


def test_numbers_are_those_of_a_run_without_cache(home: Path, score: Callable[..., str]) -> None:
    assert len({score(size=size) for size in ("0", "1MB", "1MB")}) == 1
