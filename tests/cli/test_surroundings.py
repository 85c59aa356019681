"""A command's environment: warning filters, variables, low memory, impossible file names."""

from __future__ import annotations

import errno
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import twmd_registry
from tests.conftest import Run
from twmd_registry.errors import ModelError, TwmdError, is_out_of_memory
from twmd_registry.files.lines import visible_files
from twmd_registry.judgments.sets import read_rated
from twmd_registry.registry.paths import write_file


@pytest.mark.parametrize("category", [Warning, UserWarning])
def test_warning_filter_affects_only_this_package(category: Any, files: Path, run: Run) -> None:
    (files / "gap.txt").write_text("a cat\n\nnine\n")
    with warnings.catch_warnings():
        warnings.simplefilter("error", category)
        assert run("score ref.txt -i good.txt -b")[0] == 0
        status, out, err = run("score ref.txt -i gap.txt -b")
    assert (status, out, err.count("\n")) == (1, "", 1)
    assert "texts without a token: 1" in err


def test_variable_with_a_bad_value_is_named(files: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SACREBLEU_SEED", "none")
    status, _, err = run("score ref.txt -i good.txt -m bleu")
    assert (status, "SACREBLEU_SEED" in err) == (2, True)


def caused(error: Exception, cause: Exception) -> Exception:
    error.__cause__ = cause
    return error


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (MemoryError(), True),
        (OSError(errno.ENOMEM, "Cannot allocate memory"), True),
        (ImportError("libtorch_cpu.so: failed to map segment from shared object"), True),
        (RuntimeError("unable to mmap 90868376 bytes from file <f>: Cannot allocate memory (12)"), True),
        (RuntimeError("can't start new thread"), True),
        (caused(ModelError("cannot be loaded"), MemoryError()), True),
        (caused(ModelError("cannot be loaded"), ValueError()), False),
        (OSError(errno.ENOENT, "No such file"), False),
        (ImportError("No module named x"), False),
    ],
)
def test_out_of_memory_errors_are_recognised_and_reported_in_one_line(
    error: Exception, expected: bool, files: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert is_out_of_memory(error) is expected

    def fail(*_: object, **__: object) -> None:
        raise error

    if expected:
        monkeypatch.setattr("twmd_registry.cli.score.make_scorers", fail)
        status, _, err = run("score ref.txt -i good.txt")
        assert (status, err.count("\n"), "out of memory" in err) == (1, 1, True)


@pytest.mark.parametrize("name", ["x" * 300, "a\0b", "x/" * 3000 + "x", "~nobody-here/x"])
@pytest.mark.parametrize(
    "use",
    [
        lambda name: twmd_registry.score(["a"], ["b"], model=name),
        lambda name: twmd_registry.score(["a"], ["b"], adapter=name, layer=2),
        lambda name: twmd_registry.score(["a"], ["b"], centering=f"background:{name}"),
        lambda name: twmd_registry.score(["a"], ["b"], stopwords=name),
        lambda name: twmd_registry.score(["a"], ["b"], "stsscore", model=f"{name}@main"),
        lambda name: read_rated(f"table:{name}.jsonl"),
        lambda name: read_rated(f"mte:{name}"),
        twmd_registry.read_record,
    ],
)
def test_impossible_file_name_raises_the_packages_error(use: Callable[[str], Any], name: str) -> None:
    with pytest.raises(TwmdError):
        use(name)


def test_file_with_an_impossible_name_cannot_be_written() -> None:
    for name in ("x" * 300, "a\0b"):
        with pytest.raises(TwmdError, match="cannot write"):
            write_file(Path(name), b"")


def test_hidden_files_are_not_outputs(tmp_path: Path) -> None:
    for name in ("._S1.txt", "S1.txt", ".S2.txt", "S2.md"):
        (tmp_path / name).touch()
    assert [path.name for path in visible_files(tmp_path, "*.txt")] == ["S1.txt"]


def test_cell_may_be_as_long_as_a_full_line(folder: Path, run: Run) -> None:
    long = "a" * 200_000  # more than Python's own limit of a cell
    (folder / "long.csv").write_text(f'prediction,reference\n"{long}",a b\n')
    (folder / "long.tsv").write_text(f"prediction\treference\n{long}\ta b\n")
    assert [run(f"score -i {name} -m ter -b")[0] for name in ("long.csv", "long.tsv")] == [0, 0]


def test_width_of_no_digits_is_kept(files: Path, run: Run) -> None:
    assert run("score ref.txt -i good.txt --record r.json -q")[0] == 0
    assert "/twmd-1-blue" in run("cite r.json --format badge -w 0")[1]
