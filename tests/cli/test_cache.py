"""``twmd cache``, and ``--disk-cache``."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests import tiny
from twmd_registry.cli import main

ACTIONS = ("ls", "clear")


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TWMD_HOME", str(tmp_path / "home"))
    (tmp_path / "ref.txt").write_text("the cat sat\nit ran\n", encoding="utf-8")
    (tmp_path / "out.txt").write_text("a cat sat\nit ran\n", encoding="utf-8")
    return tmp_path / "home"


def score(home: Path, *keys: str, size: str = "1MB") -> None:
    texts = [str(home.parent / "ref.txt"), "-i", str(home.parent / "out.txt")]
    assert main(["score", *texts, "-m", "twmd", "-b", "--disk-cache", size, *keys]) == 0


def tiny_keys(home: Path, *more: str) -> list[str]:
    folder = home.parent / "bert"
    return [
        "--set",
        f"model={folder if folder.exists() else tiny.save_encoder('bert', folder)}",
        "layer=1",
        "centering=none",
        *more,
    ]


def test_what_is_kept_is_listed_by_model(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    score(home)
    score(home, *tiny_keys(home))
    score(home, *tiny_keys(home, "dtype=bfloat16"))
    score(home, *tiny_keys(home, "layer=2"))
    capsys.readouterr()
    assert main(["cache", "ls"]) == 0
    first, _, _, *rows = capsys.readouterr().out.splitlines()
    assert first.startswith(f"{home / 'cache'}: 12 texts, 0.0 MB (each run brings its own bound")
    cells = [re.fullmatch(r"(.+?) +(\d+) +(\d+) +([\d.]+) +\d{4}-\S+ \S+", row) for row in rows]
    named = {re.sub("@[0-9a-f]{12}", "@", row[1]): row.groups()[1:] for row in cells if row}
    assert named == {
        "sentence-transformers/all-MiniLM-L6-v2@ float32": ("3", "1", "0.0"),
        "./bert@ float32": ("6", "2", "0.0"),
        "./bert@ bfloat16": ("3", "1", "0.0"),
    }


def test_list_has_every_format(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["cache", "ls", "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out) == []
    score(home)
    score(home, *tiny_keys(home))
    capsys.readouterr()
    assert main(["cache", "ls", "--format", "json"]) == 0
    kept = json.loads(capsys.readouterr().out)
    assert [(one["texts"], one["shards"]) for one in kept] == [(3, 1), (3, 1)]
    assert sum(one["bytes"] for one in kept) == sum(
        path.stat().st_size for path in home.rglob("cache/**/*.safetensors")
    )
    assert main(["cache", "ls", "--format", "tsv"]) == 0
    rows = [line.split("\t") for line in capsys.readouterr().out.splitlines()]
    assert rows[0] == ["model", "texts", "files", "MB", "last used"]
    assert [(row[0], row[4]) for row in rows[1:]] == [(one["model"], one["used"]) for one in kept]
    assert main(["cache", "clear", "--model", "embedded", "--format", "json"]) == 0
    (removed,) = json.loads(capsys.readouterr().out)
    assert removed in kept
    assert removed["model"].startswith("sentence-transformers/all-MiniLM-L6-v2@")


@pytest.mark.parametrize("name", ["embedded", "sentence-transformers/all-MiniLM-L6-v2"])
def test_one_model_can_be_cleared(home: Path, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    score(home)
    score(home, *tiny_keys(home))
    capsys.readouterr()
    assert main(["cache", "clear", "--model", name]) == 0
    assert re.fullmatch(rf"removed 3 texts, 0\.0 MB, from {re.escape(str(home / 'cache'))}\n", capsys.readouterr().out)
    assert len(list((home / "cache").rglob("*.safetensors"))) == 1
    assert main(["cache", "ls", "--model", "./bert"]) == 0
    assert ": 3 texts" in capsys.readouterr().out
    assert main(["cache", "ls", "--model", name]) == 2
    assert (
        f"nothing is kept of a model {'sentence-transformers/all-MiniLM-L6-v2'!r}; Choices: ./bert@"
        in capsys.readouterr().err
    )


def test_everything_can_be_cleared(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    score(home, *tiny_keys(home))
    (shard,) = (home / "cache").rglob("*.safetensors")
    shard.with_name("damaged.safetensors").write_bytes(b"nonsense")
    assert main(["cache", "clear"]) == 0
    assert list((home / "cache").rglob("*.safetensors")) == []
    capsys.readouterr()
    assert main(["cache", "ls"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 1


@pytest.mark.parametrize("action", ACTIONS)
def test_there_may_be_nothing(home: Path, action: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["cache", action]) == 0
    assert "0 texts, 0.0 MB" in capsys.readouterr().out
    assert not home.exists()


def test_a_folder_that_cannot_be_used_is_an_error_of_one_line(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (home / "cache" / "lock").mkdir(parents=True)
    assert main(["cache", "clear"]) == 1
    assert re.fullmatch(r"twmd: the disk cache in \S+ cannot be used: .+\n", capsys.readouterr().err)


def test_a_size_that_is_none_is_bad_usage(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    texts = [str(home.parent / "ref.txt"), "-i", str(home.parent / "out.txt")]
    assert main(["score", *texts, "--disk-cache", "much"]) == 2
    assert "disk_cache='much' is not possible" in capsys.readouterr().err


def test_numbers_are_those_of_a_run_without(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    printed = []
    for size in ("0", "1MB", "1MB"):
        score(home, "-sl", size=size)
        printed.append(capsys.readouterr().out)
    assert printed[0] == printed[1] == printed[2]


@pytest.mark.parametrize("action", ACTIONS)
def test_of_an_empty_cache_no_model_can_be_chosen(home: Path, action: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["cache", action, "--model", "no/such"]) == 2
    assert capsys.readouterr().err == "twmd: nothing is kept of a model 'no/such'; the cache is empty.\n"
