from __future__ import annotations

import fcntl
import json
import os
import pty
import re
import struct
import subprocess
import sys
import termios
import threading
from pathlib import Path

import pytest

import twmd_registry
from tests.cli.test_terminal import read_terminal
from twmd_registry.cli import main
from twmd_registry.judgments.sets import content_of
from twmd_registry.judgments.translations import read_wmt
from twmd_registry.registry.catalogue import CATALOGUE
from twmd_registry.registry.names import EMBEDDED_MODEL, EMBEDDED_READS, MetricName
from twmd_registry.registry.presets import presets, read_presets

DEMO = Path(twmd_registry.__file__).parent / "data" / "demo" / "system_a.jsonl"


def test_list_shows_every_metric_and_preset(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert all(any(line.startswith(f"{metric} ") for line in lines) for metric in MetricName)
    assert sum(len(line.split()) > 2 and not line.startswith(("metric", "--", "evaluate")) for line in lines) == len(
        presets()
    )
    embedded = [line for line in lines if " embedded " in line]
    assert len(embedded) == len(MetricName)
    assert all(line.endswith("yes (installed)") for line in embedded)


@pytest.mark.parametrize("metric", MetricName)
def test_explain_shows_keys_presets_and_citation(metric: MetricName, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", metric]) == 0
    out = capsys.readouterr().out
    assert all(f"\n{key} " in out for key in CATALOGUE[metric].keys)
    assert all(f"\n  {name}\n" in out for owner, name in presets() if owner is metric)
    assert CATALOGUE[metric].citation in out
    span = (
        "no fixed bounds"
        if CATALOGUE[metric].lowest is None
        else f"{CATALOGUE[metric].lowest:g} to {CATALOGUE[metric].highest:g}"
    )
    assert f"\nrange:              {span}, higher is closer\n" in out
    assert f"The default model, {EMBEDDED_MODEL}, reads {EMBEDDED_READS}." in " ".join(out.split())


def test_explain_refuses_an_unknown_metric(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "bleu"]) == 2
    assert "there is no metric 'bleu'" in capsys.readouterr().err


def test_fit_mean_prints_a_value_that_works(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TWMD_HOME", str(tmp_path / "home"))
    (tmp_path / "corpus.txt").write_text("the cat sat\nit rains\n", encoding="utf-8")
    (tmp_path / "more.jsonl").write_text('{"prediction": "a", "references": ["b", "c"]}\n', encoding="utf-8")
    values = []
    for extra in ([], ["-o", str(tmp_path / "means")]):
        assert main(["fit-mean", str(tmp_path / "corpus.txt"), str(tmp_path / "more.jsonl"), *extra]) == 0
        fitted, use = capsys.readouterr().out.splitlines()
        assert fitted.startswith("fitted on 5 texts, ")
        values.append(use.removeprefix("use --set "))
    signatures = set()
    for value in values:
        assert main(["score", str(tmp_path / "corpus.txt"), "-i", str(tmp_path / "corpus.txt"), "--set", value]) == 0
        signatures.add(capsys.readouterr().out.splitlines()[-1])
    assert len(signatures) == 1
    assert f"centering:background%3A{values[0].rpartition(':')[2]}" in signatures.pop()


def test_corpus_without_text_is_bad_data(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "blank.txt").write_text("\n \n", encoding="utf-8")
    assert main(["fit-mean", str(tmp_path / "blank.txt")]) == 1
    assert "every text is empty" in capsys.readouterr().err


@pytest.fixture
def rated(tmp_path: Path) -> Path:
    rows = [
        f'{{"lang": "xx-en", "candidate": "{a}", "reference": "{b}", "score": {score}}}'
        for a, b, score in (
            ("a cat", "the cat", 1),
            ("it rains", "a dog ran", -1),
            ("nine shops", "nine shops open", 0.5),
            ("so be it", "never", 0),
        )
    ]
    path = tmp_path / "rated.jsonl"
    path.write_text("\n".join(rows) + "\n", encoding="utf-8")
    return path


def test_tune_prints_the_best_settings_and_writes_all(
    rated: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    arguments = [
        "tune",
        "moverscore",
        "trwmd",
        "--data",
        f"wmt:{rated}",
        "--layers",
        "1",
        "2",
        "--try",
        "special=all",
        "temperature=0.1,0.2",
        "-o",
        str(out),
    ]
    assert main(arguments) == 0
    printed = capsys.readouterr().out
    assert "moverscore: 10 settings on 4 segments" in printed
    assert "trwmd: 20 settings on 4 segments" in printed
    names = [f"{metric}{suffix}" for metric in ("moverscore", "trwmd") for suffix in (".tsv", ".png", ".svg")]
    assert sorted(path.name for path in out.iterdir()) == sorted([*names, "preset.toml", "preset.safetensors"])
    header, *trials = [line.split("\t") for line in (out / "trwmd.tsv").read_text(encoding="utf-8").splitlines()]
    assert {"layer", "temperature", "pearson"} <= set(header)
    assert len(trials) == 20
    assert [float(line[-1]) for line in trials] == sorted((float(line[-1]) for line in trials), reverse=True)
    best, other = read_presets((out / "preset.toml").read_text(encoding="utf-8"), "preset.toml")
    # A packaged preset of twmd is called embedded-tuned: the one that is written has a name that is free.
    assert (best.name, {best.metric, other.metric}) == ("embedded-tuned-2", {"moverscore", "trwmd"})
    trwmd = best if best.metric == "trwmd" else other
    assert str(trwmd.keys["layer"]) == trials[0][header.index("layer")]
    assert (
        f"rated.jsonl@{content_of(read_wmt(rated))} (4 segments): mean Pearson {float(trials[0][-1]):.4f}, the "
        "best of 20 settings" in trwmd.provenance
    )
    assert str(tmp_path) not in trwmd.provenance


def test_tuned_preset_can_be_used(rated: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert (
        main(
            [
                "tune",
                "sbert",
                "--data",
                f"wmt:{rated}",
                "--layers",
                "1",
                "--try",
                "centering=none",
                "--name",
                "mine",
                "-o",
                str(out),
            ]
        )
        == 0
    )
    assert main(["preset", "add", str(out / "preset.toml")]) == 0
    try:
        assert main(["score", "-i", str(DEMO), "-m", "sbert", "--preset", "mine", "-b"]) == 0
    finally:
        assert main(["preset", "remove", "mine"]) == 0


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--try", "colour=red"], "there is no key 'colour'"),
        (["--try", "temperature=cold"], "temperature='cold' is not possible"),
        (["--try", "layer=1"], "no layer or model"),
        (["--try", "special"], "expected KEY=VALUE,VALUE"),
        (["--try", "vectors=raw", "centering=sentence"], "no combination of what is to be tried is possible"),
        (["--name", "a/b"], "a preset's name holds letters"),
    ],
)
def test_what_cannot_be_tried_is_refused(
    options: list[str], words: str, rated: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert (
        main(["tune", "sbert", "--data", f"wmt:{rated}", "--layers", "1", "-o", str(tmp_path / "out"), *options]) == 2
    )
    assert words in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


WATCHED = {
    "score few.txt -i few.txt few.txt -m twmd": "80/80 segments",
    "score few.txt -i few.txt -m stsscore bleu --record rec.json": "40/40 segments",
    "score few.txt -i few.txt few.txt -m bleu ter --paired-bs": "4/4 steps",
    "report few.txt -i few.txt other.txt -m sbert bleu -o report.html": "alignments",
    "verify rec.json": "40/40 segments",
    "fit-mean few.txt -o means": "40/40 texts",
    "fit-idf few.txt -o idf": "40/40 texts",
    "fit-baseline sbert few.txt --pairs 30 -o baselines": "30/30 pairs",
    "diagnose embedded --data few.txt": "40/40 texts",
    "correlate table:rated.jsonl -m twmd bleu --resamples 0": "12/12 segments",
    "tune sbert --data table:rated.jsonl --layers 1 --try centering=none special=all": "12/12 segments",
    "robustness --data table:pairs.jsonl -m sbert --resamples 0": "12/12 segments",
    "selfcheck": "8/8 metrics",
    "selfcheck --quiet": None,
}
"""Command lines, and what stands in the bar at their end; None for those that show none."""


def test_bar_with_total_rate_and_time_left_shows_on_a_terminal_when_work_is_long(tmp_path: Path) -> None:
    (tmp_path / "few.txt").write_text(
        "".join(f"Line {i} of a text is not long.\n" for i in range(40)), encoding="utf-8"
    )
    (tmp_path / "other.txt").write_text("".join(f"Row {i} of it.\n" for i in range(40)), encoding="utf-8")
    rows = [
        {"prediction": f"Line {i} is not {i}.", "reference": f"Line {i} was not long.", "rating": i % 5}
        for i in range(12)
    ]
    (tmp_path / "rated.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    pairs = "".join(
        json.dumps(row | {"item": i // 2, "group": "x", "rating": i % 2}) + "\n" for i, row in enumerate(rows)
    )
    (tmp_path / "pairs.jsonl").write_text(pairs, encoding="utf-8")
    code = (
        "import sys, twmd_registry.cli.terminal as terminal; terminal.PATIENCE_S = 0.0\n"
        "from twmd_registry.cli import main\n"
        "for line in sys.argv[1:]: main(line.split()); print('<END>', file=sys.stderr, flush=True)"
    )
    outer, inner = pty.openpty()
    fcntl.ioctl(inner, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 120, 0, 0))
    found: list[bytes] = []
    reader = threading.Thread(target=lambda: found.extend(read_terminal(outer)))
    reader.start()
    drawn_at_once = os.environ | {"TQDM_MININTERVAL": "0"}
    done = subprocess.run(
        [sys.executable, "-c", code, *WATCHED],
        stdout=subprocess.PIPE,
        stderr=inner,
        cwd=tmp_path,
        env=drawn_at_once,
        check=False,
    )
    os.close(inner)
    reader.join()
    os.close(outer)
    assert done.returncode == 0
    shown = b"".join(found).decode().split("<END>")
    for (line, bar), own in zip(WATCHED.items(), shown, strict=False):
        bars = re.findall(r"\| *(\d+/\d+) \[\d\d:\d\d<[\d:?]+, +[\d.?]+(?: (\w+)/s|s/ (\w+))\]", own)
        assert bool(bars) is (bar is not None), (line, own)
        if bar is not None:
            assert any(bar in f"{count} {unit}{inverse}" for count, unit, inverse in bars), (line, own)
