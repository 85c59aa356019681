from __future__ import annotations

import array
import errno
import fcntl
import io
import json
import os
import signal
import subprocess
import sys
import termios
import time
from collections.abc import Callable
from pathlib import Path

import pytest

import twmd_registry
from twmd_registry.cli import main
from twmd_registry.registry.names import MetricName

ROOT = Path(__file__).resolve().parents[2]
REFERENCES = ["a cat was sitting on the mat", "it is raining", "the shop opens at nine"]
GOOD = ["the cat sat on the mat", "it rains", "the shop opens at nine"]
POOR = ["cat mat", "it is sunny", "nine shops"]
Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with references and two systems, which the command runs in."""
    monkeypatch.chdir(tmp_path)
    for name, lines in (("ref.txt", REFERENCES), ("good.txt", GOOD), ("poor.txt", POOR)):
        (tmp_path / name).write_text("\n".join(lines) + "\n", encoding="utf-8")
    return tmp_path


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    def call(*arguments: str) -> tuple[int, str, str]:
        try:
            status = main(list(arguments))
        except SystemExit as stop:
            status = int(stop.code or 0)
        captured = capsys.readouterr()
        return status, captured.out, captured.err

    return call


class TestOutput:
    def test_the_number_is_pythons(self, files: Path, run: Run) -> None:
        status, out, _ = run("score", "ref.txt", "-i", "good.txt", "-m", *MetricName, "-b", "-w", "12")
        expected = [twmd_registry.scorer(metric).score(GOOD, REFERENCES).score for metric in MetricName]
        assert status == 0
        assert [float(line) for line in out.splitlines()] == pytest.approx(expected, abs=1e-6)

    def test_the_table_of_one_system_holds_every_metric_side_and_signature(self, files: Path, run: Run) -> None:
        status, out, err = run("score", "ref.txt", "-i", "good.txt", "-m", "twmd", "moverscore", "bleu")
        rows = [line.split() for line in out.splitlines()]
        assert (status, err) == (0, "")
        assert rows[0] == ["metric", "system", "score", "precision", "recall", "f1"]
        assert [row[:2] for row in rows[2:5]] == [
            ["twmd", "good.txt"],
            ["moverscore", "good.txt"],
            ["BLEU", "good.txt"],
        ]
        assert rows[3][3:] == rows[4][3:] == ["-", "-", "-"]
        for metric in ("twmd", "moverscore"):
            signature = next(line.strip() for line in out.splitlines() if line.strip().startswith(f"{metric}|"))
            assert str(twmd_registry.scorer(metric).score(GOOD, REFERENCES).signature) == signature

    def test_the_table_of_several_has_the_baseline_first(self, files: Path, run: Run) -> None:
        status, out, _ = run("score", "ref.txt", "-i", "good.txt", "poor.txt", "-m", "twmd", "chrf", "ter", "--short")
        rows = [line.split() for line in out.splitlines()]
        assert status == 0
        assert rows[0] == ["system", "twmd", "chrF2", "TER"]
        assert [row[:-3] for row in rows[2:4]] == [["Baseline:", "good.txt"], ["poor.txt"]]
        assert float(rows[2][-3]) > float(rows[3][-3])
        assert "  twmd|o:f1|m:sentence-transformers/all-MiniLM-L6-v2@0336012e2308|l:4|" in out
        assert "  chrF2|#:1|c:mixed|" in out

    @pytest.mark.parametrize(("option", "key"), [("--paired-bs", "bs:200"), ("--paired-ar", "ar:200")])
    def test_paired_tests_mark_what_is_significant(self, files: Path, run: Run, option: str, key: str) -> None:
        many = [f"{text} {i}" for i in range(20) for text in GOOD]
        for name, lines in (
            ("ref", [f"{text} {i}" for i in range(20) for text in REFERENCES]),
            ("good", many),
            ("poor", many[::-1]),
        ):
            (files / f"{name}.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
        arguments = (
            "score",
            "ref.txt",
            "-i",
            "good.txt",
            "good.txt",
            "poor.txt",
            "-m",
            "twmd",
            "bleu",
            option,
            f"{option}-n",
            "200",
            "--seed",
            "0",
        )
        status, out, _ = run(*arguments)
        assert status == 0
        assert out.count("(p = 1.0000)") == 2
        assert out.count("(p = 0.0050)*") == 2
        assert out.count(f"|{key}|seed:0|") == 2
        assert "every system against good.txt" in out
        rows = json.loads(run(*arguments, "--format", "json")[1])
        assert [row["p_value"] for row in rows if "p_value" in row] == [
            1.0,
            1.0,
            pytest.approx(1 / 201),
            pytest.approx(1 / 201),
        ]
        assert run(*arguments)[1] == out

    def test_confidence_adds_an_interval(self, files: Path, run: Run) -> None:
        _, out, _ = run(
            "score", "ref.txt", "-i", "good.txt", "-m", "twmd", "bleu", "--confidence", "--confidence-n", "50"
        )
        assert out.count("±") == 2
        assert out.count("|bs:50|seed:12345|") == 2
        row = json.loads(run("score", "ref.txt", "-i", "good.txt", "--confidence", "--format", "json")[1])[0]
        assert row["ci"] > 0
        assert row["mean"] == pytest.approx(row["score"], abs=0.05)

    def test_intervals_of_a_paired_bootstrap_are_of_its_own_resamples(self, files: Path, run: Run) -> None:
        line = ("score", "ref.txt", "-i", "good.txt", "poor.txt", "-q", "--paired-bs", "--paired-bs-n", "60")
        plain = run(*line)
        assert (plain[0], plain[1].count("±"), plain[1].count("|bs:60|")) == (0, 3, 1)  # one in the header
        assert run(*line, "--confidence") == plain == run(*line, "--confidence", "--confidence-n", "60")

    def test_latex_is_a_booktabs_table(self, files: Path, run: Run) -> None:
        (files / "a_b.txt").write_text("\n".join(POOR) + "\n", encoding="utf-8")
        _, out, _ = run("score", "ref.txt", "-i", "good.txt", "a_b.txt", "-m", "twmd", "--format", "latex")
        assert out.startswith("\\begin{tabular}")
        assert "\\toprule" in out
        assert "a\\_b.txt" in out
        assert "\n% twmd|output:f1|" in out

    def test_a_signature_is_a_metric(self, files: Path, run: Run) -> None:
        signature = twmd_registry.scorer("twmd", temperature=0.5).signature
        _, out, _ = run("score", "ref.txt", "-i", "good.txt", "poor.txt", "-m", signature, "twmd", "--set", "layer=2")
        assert out.splitlines()[0].split() == [
            "system",
            *"twmd layer=4 temperature=0.5 twmd layer=2 temperature=0.15".split(),
        ]

    def test_systems_with_one_file_name_are_told_apart_by_their_folders(self, files: Path, run: Run) -> None:
        for folder in ("one", "two"):
            (files / folder).mkdir()
            (files / folder / "out.txt").write_text("\n".join(GOOD), encoding="utf-8")
        _, out, _ = run("score", "ref.txt", "-i", "one/out.txt", "two/out.txt")
        assert [line.split()[-2] for line in out.splitlines()[2:4]] == ["one/out.txt", "two/out.txt"]

    def test_systems_with_different_references_are_not_put_side_by_side(self, files: Path, run: Run) -> None:
        for name, reference in (("a", "x"), ("b", "y")):
            (files / f"{name}.jsonl").write_text(
                json.dumps({"prediction": "p", "reference": reference}), encoding="utf-8"
            )
        status, _, err = run("score", "-i", "a.jsonl", "b.jsonl")
        assert (status, "b.jsonl and a.jsonl hold different references: score them one by one" in err) == (1, True)

    def test_json_and_tsv_hold_the_same(self, files: Path, run: Run) -> None:
        arguments = ("score", "ref.txt", "-i", "good.txt", "poor.txt", "-m", "twmd", "--format")
        found = json.loads(run(*arguments, "json")[1])
        header, *lines = (line.split("\t") for line in run(*arguments, "tsv", "-w", "9")[1].splitlines())
        for entry, line in zip(found, lines, strict=True):
            row = dict(zip(header, line, strict=True))
            assert (row["system"], row["signature"], row["segments"]) == (
                entry["system"],
                entry["signature"],
                str(entry["segments"]),
            )
            assert float(row["recall"]) == pytest.approx(entry["recall"], abs=1e-9)
        assert "scores" not in found[0]
        whole = json.loads(run(*arguments, "json", "--sentence-level")[1])
        assert len(whole[0]["scores"]) == 3

    def test_sentence_level_is_one_line_per_segment(self, files: Path, run: Run) -> None:
        _, out, _ = run("score", "ref.txt", "-i", "good.txt", "-m", "twmd", "--sentence-level", "-w", "10")
        assert [float(line) for line in out.splitlines()] == pytest.approx(
            twmd_registry.scorer("twmd").score(GOOD, REFERENCES).scores, abs=1e-9
        )
        _, out, _ = run(
            "score", "ref.txt", "-i", "good.txt", "poor.txt", "-m", "twmd", "sbert", "-sl", "--format", "tsv"
        )
        lines = [line.split("\t") for line in out.splitlines()]
        assert lines[0] == ["good.txt:twmd", "good.txt:sbert", "poor.txt:twmd", "poor.txt:sbert"]
        assert [len(line) for line in lines] == [4] * 4

    def test_sacrebleus_metrics_have_sentence_scores_too(self, files: Path, run: Run) -> None:
        _, out, _ = run("score", "ref.txt", "-i", "good.txt", "-m", "ter", "bleu", "-sl")
        rows = [[float(cell) for cell in line.split("\t")] for line in out.splitlines()]
        assert [len(row) for row in rows] == [2] * 3
        assert rows[2] == [0.0, 100.0]

    def test_the_same_file_twice_is_two_systems(self, files: Path, run: Run) -> None:
        _, out, _ = run("score", "ref.txt", "-i", "good.txt", "good.txt", "-b")
        assert len(set(out.splitlines())) == 1
        assert len(out.splitlines()) == 2

    def test_set_reaches_the_metrics_that_use_the_key(self, files: Path, run: Run) -> None:
        status, out, _ = run(
            "score",
            "ref.txt",
            "-i",
            "good.txt",
            "-m",
            "twmd",
            "moverscore",
            "--set",
            "temperature=0.5",
            "--set",
            "layer=2",
        )
        assert status == 0
        assert "|temperature:0.5|" in out
        assert out.count("|layer:2|") == 2

    def test_predictions_come_from_standard_input(self, files: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO("\n".join(GOOD).encode())))
        status, out, _ = run("score", "ref.txt", "-b", "-w", "9")
        assert (status, out) == (0, run("score", "ref.txt", "-i", "good.txt", "-b", "-w", "9")[1])

    def test_json_lines_bring_their_own_references(self, files: Path, run: Run) -> None:
        rows = [
            {"prediction": p, "references": [r, p]} if i else {"prediction": p, "reference": r}
            for i, (p, r) in enumerate(zip(GOOD, REFERENCES, strict=True))
        ]
        (files / "good.jsonl").write_text("\n".join(json.dumps(row) for row in rows), encoding="utf-8")
        status, out, _ = run("score", "-i", "good.jsonl", "-sl", "-w", "6")
        assert status == 0
        assert [float(line) for line in out.splitlines()[1:]] == pytest.approx([1, 1], abs=1e-5)
        first = twmd_registry.scorer("twmd").score(GOOD[:1], REFERENCES[:1]).score
        assert float(out.splitlines()[0]) == pytest.approx(first, abs=1e-5)

    def test_json_lines_are_known_by_their_first_line(
        self, files: Path, run: Run, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        rows = [{"prediction": p, "reference": r} for p, r in zip(GOOD, REFERENCES, strict=True)]
        content = "\n".join(json.dumps(row) for row in rows)
        (files / "good.json").write_text(content, encoding="utf-8")
        wanted = run("score", "ref.txt", "-i", "good.txt", "-b", "-w", "9")[1]
        assert run("score", "-i", "good.json", "-b", "-w", "9")[1] == wanted
        for arguments in ((), ("-i", "-")):
            monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content.encode())))
            assert run("score", *arguments, "-b", "-w", "9")[1] == wanted

    def test_a_line_that_looks_like_json_is_text(self, files: Path, run: Run) -> None:
        (files / "code.txt").write_text('{"name": 1}\n[1]\n{\n', encoding="utf-8")
        assert run("score", "code.txt", "-i", "code.txt", "-b")[1] == "1.0000\n"

    def test_a_name_cannot_break_a_row(self, files: Path, run: Run) -> None:
        (files / "a\tb.txt").write_text("\n".join(GOOD), encoding="utf-8")
        _, out, _ = run("score", "ref.txt", "-i", "a\tb.txt", "--format", "tsv")
        assert len({line.count("\t") for line in out.splitlines()}) == 1
        assert "a\\tb.txt\t" in out

    def test_reference_files_are_streams_side_by_side(self, files: Path, run: Run) -> None:
        status, out, _ = run("score", "ref.txt", "good.txt", "-i", "good.txt", "-b")
        assert status == 0
        assert float(out) == pytest.approx(1, abs=1e-4)


class TestUsage:
    @pytest.mark.parametrize(
        ("arguments", "words"),
        [
            (("-m", "twdm"), "there is no metric 'twdm'; did you mean 'twmd'"),
            (("--preset", "large"), "twmd has no preset 'large'"),
            (("--set", "temperature"), "expected KEY=VALUE"),
            (("--set", "temprature=1"), "did you mean 'temperature'"),
            (("--set", "temperature=0"), "expected a number from 1e-6 to 1e6"),
            (("--set", "layer=7"), "layer=7 is out of range"),
            (("--set", "layer=3", "special=nun"), "special='nun' is not possible"),
            (("--paired-bs",), "a paired test compares systems: give two or more after -i"),
            (("-m", "bleu", "--record", "x.json"), "Add one of ours, as in -m bleu twmd, or leave out --record"),
            (("-m", "bleu", "--set", "temperature=1"), "--set and --preset are for metrics that are named"),
            (("-m", "blue"), "there is no metric 'blue'; did you mean 'bleu'"),
            (("-m", "twmd|output:f1"), "column 15: model is missing here"),
            (("-m", "moverscore", "--set", "temperature=1"), "no key 'temperature' of moverscore"),
            (("--set", "truncation=cut:9999"), "reads at most 512 tokens"),
        ],
    )
    def test_bad_usage_is_status_two_and_one_line(
        self, files: Path, run: Run, arguments: tuple[str, ...], words: str
    ) -> None:
        status, out, err = run("score", "ref.txt", "-i", "good.txt", *arguments)
        assert (status, out) == (2, "")
        assert words in err
        assert len(err.splitlines()) == 1

    @pytest.mark.parametrize(
        "arguments", [(), ("score", "--no-such-flag"), ("fly",), ("score", "-w", "0"), ("score", "--batch-tokens", "0")]
    )
    def test_bad_arguments_are_status_two(self, run: Run, arguments: tuple[str, ...]) -> None:
        assert run(*arguments)[0] == 2

    @pytest.mark.parametrize(
        ("arguments", "words"),
        [
            (("--paired-bs", "--seed", "-1"), "Invalid value for '--seed': -1 is not in the range x>=0."),
            (
                ("--confidence", "--confidence-n", "1"),
                "Invalid value for '--confidence-n': 1 is not in the range x>=2.",
            ),
            (("--paired-bs", "--paired-ar"), "--paired-bs and --paired-ar are two tests: give one of them."),
            (
                ("--paired-bs", "--paired-bs-n", "60", "--confidence", "--confidence-n", "50"),
                "got 60 for the test (--paired-bs-n) and 50 for the intervals (--confidence-n).",
            ),
            (
                ("--paired-bs", "--confidence-n", "50"),
                "got 1000 for the test (--paired-bs-n) and 50 for the intervals (--confidence-n).",
            ),
        ],
    )
    def test_impossible_resampling_is_bad_usage(
        self, files: Path, run: Run, arguments: tuple[str, ...], words: str
    ) -> None:
        status, _, err = run("score", "ref.txt", "-i", "good.txt", "poor.txt", *arguments)
        assert status == 2
        assert err.splitlines()[-1].endswith(words)

    def test_references_twice_or_never_are_refused(
        self, files: Path, run: Run, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("sys.stdin", None)
        (files / "own.jsonl").write_text('{"prediction": "a", "reference": "b"}\n', encoding="utf-8")
        assert "holds references already" in run("score", "ref.txt", "-i", "own.jsonl")[2]
        assert "nothing to score" in run("score")[2]
        assert "no references for good.txt" in run("score", "-i", "good.txt")[2]


class TestBadData:
    @pytest.mark.parametrize(
        ("name", "content", "words"),
        [
            ("hyp.txt", None, "hyp.txt: No such file or directory"),
            ("hyp.txt", b"", "hyp.txt is empty"),
            ("hyp.txt", b"fine\nnot \xff\n", "hyp.txt is not UTF-8: byte 0xff in line 2"),
            ("hyp.txt", b"one\ntwo\n", "hyp.txt has 2 segments but ref.txt has 3"),
            (
                "hyp.jsonl",
                b'{"prediction": "a"}\nnot json\n',
                "hyp.jsonl, row 2: expected a JSON object (Expecting value",
            ),
            (
                "hyp.jsonl",
                b'{"prediction": "a"}\n{"text": "b"}\n',
                "hyp.jsonl, row 2: no column 'prediction'; Choices: text",
            ),
            ("hyp.jsonl", b"{}\n", "hyp.jsonl, row 1: no column 'prediction'; it has none"),
            ("hyp.jsonl", b'["a"]\n', "hyp.jsonl, row 1: expected a JSON object, not ['a']."),
            ("hyp.jsonl", b"[" * 100_000 + b"\n", "hyp.jsonl, row 1: expected a JSON object ("),
            (
                "hyp.json",
                b'{"prediction": "a", "references": [null]}\n',
                "hyp.json, row 1: expected a text as a reference, not None.",
            ),
            ("hyp.json", b'{"prediction": "a", "references": []}\n', "hyp.json, row 1: an empty list of references"),
            ("hyp.json", b'{"prediction": ["a"]}\n', "hyp.json, row 1: expected a text as prediction, not ['a']."),
            (
                "hyp.jsonl",
                b'{"prediction": "a"}\n{"prediction": 3}\n{"prediction": "c"}\n',
                "hyp.jsonl, row 2: expected a text as prediction, not 3.",
            ),
            (
                "hyp.jsonl",
                b'{"prediction": "a"}\n{"prediction": "\\ud800"}\n{"prediction": "c"}\n',
                "hyp.jsonl, row 2: prediction is not valid Unicode: lone surrogate at character 0.",
            ),
        ],
    )
    def test_bad_files_are_status_one_and_one_line(
        self, files: Path, run: Run, name: str, content: bytes | None, words: str
    ) -> None:
        if content is not None:
            (files / name).write_bytes(content)
        status, out, err = run("score", "ref.txt", "-i", name)
        assert (status, out) == (1, "")
        assert words in err
        assert len(err.splitlines()) == 1

    def test_reference_files_of_different_length_are_named(self, files: Path, run: Run) -> None:
        (files / "short.txt").write_text("one\n", encoding="utf-8")
        status, _, err = run("score", "ref.txt", "short.txt", "-i", "good.txt")
        assert (status, "short.txt has 1 lines but ref.txt has 3" in err) == (1, True)

    def test_references_in_some_lines_only_are_refused(self, files: Path, run: Run) -> None:
        (files / "own.jsonl").write_text(
            '{"prediction": "a", "reference": "b"}\n{"prediction": "c"}\n', encoding="utf-8"
        )
        assert (
            "own.jsonl, row 2: no column 'references' or 'reference'; Choices: prediction."
            in run("score", "-i", "own.jsonl")[2]
        )

    def test_lines_end_at_line_feeds_only(self, files: Path, run: Run) -> None:
        odd = ["a\u2028b", "c\x0bd\x85e", "f\rg"]
        (files / "odd.txt").write_bytes("\n".join(odd).encode())
        (files / "bom.txt").write_bytes(b"\xef\xbb\xbf" + "\n".join(odd).encode() + b"\n")
        status, out, _ = run("score", "odd.txt", "-i", "bom.txt", "-sl", "-w", "5")
        assert (status, out.splitlines()) == (0, ["1.00000"] * 3)

    def test_empty_lines_are_counted_in_one_warning(self, files: Path, run: Run) -> None:
        (files / "gaps.txt").write_text("\n \nthe shop opens at nine\n", encoding="utf-8")
        status, out, err = run("score", "ref.txt", "-i", "gaps.txt", "-sl", "-w", "3")
        assert (status, out.splitlines()) == (0, ["0.000", "0.000", "1.000"])
        assert (
            err
            == "twmd: warning: texts without a token: 2; each scores 0 against text and 1 against another empty text (before any baseline).\n"
        )

    def test_an_unknown_model_is_one_line(self, files: Path, run: Run) -> None:
        status, _, err = run("score", "ref.txt", "-i", "good.txt", "--set", "model=no/such", "--set", "layer=1")
        assert (status, len(err.splitlines())) == (1, 1)
        assert "no/such" in err


class TestStreams:
    @pytest.mark.parametrize(
        ("redirection", "words"),
        [
            (">/dev/full", "twmd: cannot write: No space left on device\n"),
            (">&-", "twmd: standard output is closed\n"),
        ],
    )
    def test_an_output_that_takes_nothing_is_one_line(self, redirection: str, words: str) -> None:
        command = f"{sys.executable} -m twmd_registry.cli explain twmd {redirection}"
        done = subprocess.run(command, shell=True, capture_output=True, text=True, check=False)
        assert (done.returncode, done.stderr) == (1, words)

    @pytest.mark.parametrize("place", ["good.txt/out.json", "none/out.json"])
    def test_a_record_that_cannot_be_written_costs_no_score(self, files: Path, run: Run, place: str) -> None:
        expected = run("score", "ref.txt", "-i", "good.txt")[1]
        before = sorted(files.iterdir())
        status, out, err = run("score", "ref.txt", "-i", "good.txt", "--record", place)
        assert (status, out) == (1, expected)
        assert err.startswith(f"twmd: cannot write {place}: ")
        assert len(err.splitlines()) == 1
        assert sorted(files.iterdir()) == before

    def test_a_full_disk_costs_the_record_alone(self, files: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
        expected = run("score", "ref.txt", "-i", "good.txt", "--format", "json")[1]

        def full(path: Path, content: bytes) -> None:
            raise OSError(errno.ENOSPC, "No space left on device")

        monkeypatch.setattr("twmd_registry.record.file.write_whole", full)
        status, out, err = run("score", "ref.txt", "-i", "good.txt", "--format", "json", "--record", "out.json")
        assert (status, out, err) == (1, expected, "twmd: cannot write out.json: No space left on device.\n")
        assert not (files / "out.json").exists()

    def test_an_output_that_takes_nothing_costs_no_record(self, files: Path) -> None:
        done = subprocess.run(
            f"{sys.executable} -m twmd_registry.cli score ref.txt -i good.txt -b --record out.json >/dev/full",
            shell=True,
            capture_output=True,
            text=True,
            check=False,
        )
        assert (done.returncode, done.stderr) == (1, "twmd: cannot write: No space left on device\n")
        assert len(twmd_registry.read_record("out.json").systems[0].results[0].scores) == 3

    def test_neither_output_nor_record_can_be_written_and_the_error_is_one_line(self, files: Path) -> None:
        done = subprocess.run(
            f"{sys.executable} -m twmd_registry.cli score ref.txt -i good.txt -b --record none/out.json >/dev/full",
            shell=True,
            capture_output=True,
            text=True,
            check=False,
        )
        assert (done.returncode, done.stderr) == (1, "twmd: cannot write none/out.json: there is no folder none.\n")

    def test_a_record_that_cannot_be_written_is_announced_first_at_a_terminal(
        self, files: Path, run: Run, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("sys.stderr.isatty", lambda: True)
        monkeypatch.setenv("NO_COLOR", "1")
        status, out, err = run("score", "ref.txt", "-i", "good.txt", "-b", "--record", "none/out.json")
        words = "cannot write none/out.json: there is no folder none."
        assert (status, bool(out)) == (1, True)
        assert [line for line in err.splitlines() if words in line] == [
            f"twmd: warning: {words} Only the scores will be printed.",
            f"twmd: {words}",
        ]

    def test_a_closed_input_is_one_line(self, files: Path) -> None:
        command = f"{sys.executable} -m twmd_registry.cli score ref.txt <&-"
        done = subprocess.run(command, shell=True, capture_output=True, text=True, check=False)
        assert (done.returncode, done.stderr) == (1, "twmd: standard input is closed.\n")

    def test_where_nobody_watches_there_is_no_progress_bar_and_a_name_that_cannot_be_shown_is_escaped(
        self, files: Path
    ) -> None:
        (files / "h\u00e9.txt").write_text("\n".join(GOOD), encoding="utf-8")
        command = [sys.executable, "-m", "twmd_registry.cli", "score", "ref.txt", "-i", "good.txt", "h\u00e9.txt"]
        environment = os.environ | {"PYTHONIOENCODING": "ascii"}
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
        assert (done.returncode, done.stderr) == (0, "")
        assert "h\\xe9.txt" in done.stdout


def test_a_signature_for_another_number_of_references_is_announced(files: Path, run: Run) -> None:
    signature = str(twmd_registry.scorer("twmd").score(GOOD, REFERENCES).signature).replace("nrefs:1", "nrefs:2")
    status, _, err = run("score", "ref.txt", "-i", "good.txt", "poor.txt", "-m", signature)
    assert (status, len(err.splitlines())) == (0, 1)
    assert "warning: the signature of twmd was written for nrefs:2; these texts have nrefs:1." in err


class TestRows:
    def test_a_warning_counts_rows_from_one(self, files: Path, run: Run) -> None:
        (files / "emoji.txt").write_text("the cat sat\nit rains\n\U0001f600\n", encoding="utf-8")
        _, _, err = run("score", "ref.txt", "-i", "emoji.txt", "-b")
        assert "(prediction of row 3)" in err
        assert "predictions[" not in err


class TestSignals:
    def test_a_reader_that_leaves_causes_no_traceback(self, files: Path) -> None:
        (files / "many.txt").write_text("the cat sat\n" * 40_000, encoding="utf-8")
        command = f"{sys.executable} -m twmd_registry.cli score many.txt -i many.txt -sl -w 16 | head -n 1"
        done = subprocess.run(command, shell=True, capture_output=True, text=True, check=False)
        assert done.stderr == ""
        assert float(done.stdout) == pytest.approx(1, abs=1e-5)

    def test_a_reader_that_leaves_does_not_cost_the_record(self, files: Path) -> None:
        command = f"{sys.executable} -m twmd_registry.cli score ref.txt -i good.txt --record out.json"
        process = subprocess.Popen(command.split(), stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        assert process.stdout is not None
        process.stdout.close()
        assert process.wait(timeout=120) == 141
        assert len(twmd_registry.read_record(files / "out.json").systems[0].results[0].scores) == 3

    def test_an_interrupt_causes_no_traceback(self, files: Path) -> None:
        process = subprocess.Popen(
            [sys.executable, "-m", "twmd_registry.cli", "score", "ref.txt"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # noqa: PLW1509 (a test's worker may ignore it, and so would its child)
        )
        assert process.stdin is not None
        process.stdin.write("the cat sat\n")
        process.stdin.flush()
        unread = array.array("i", [1])
        while unread[
            0
        ]:  # until the command waits for more: before that, libraries that are imported may swallow an interrupt
            time.sleep(0.1)
            fcntl.ioctl(process.stdin, termios.FIONREAD, unread)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
        assert (out, err) == ("", "twmd: interrupted\n")
        assert process.returncode == 130
