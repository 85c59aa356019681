"""``twmd tune``, ``study`` and ``reproduce``: what they try, print, write and refuse."""

from __future__ import annotations

import csv
import json
import re
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import twmd_registry
from tests import tiny
from tests.cli.parsing import rows_of
from tests.conftest import Patch, Refused, Run
from tests.judgments.test_mt_metrics_eval import wmt
from tests.judgments.test_readers import MRPC, written
from tests.papers.rated_files import write_wmt
from twmd_registry.judgments.corpora import read_stsb, read_wmt
from twmd_registry.judgments.sets import content_of, read_rated
from twmd_registry.metaeval.diagnosis import diagnose
from twmd_registry.registry.names import MetricName
from twmd_registry.registry.options import RunOptions
from twmd_registry.registry.presets import presets, read_presets

COLUMNS = "prediction,reference,rating,group\n"
ROWS = f"{COLUMNS}uno duo,uno,3,x\nduo,uno duo tres,2,x\ntres,uno,1,x\nuno tres,tres duo,2.5,x\n"
FEW = "--layers 1 2 2 --try centering=none special=cls temperature=0.1,0.1"


@pytest.fixture
def rated(folder: Path) -> Path:
    for name in ("rated.csv", "again.csv"):
        (folder / name).write_text(ROWS, encoding="utf-8")
    return folder


@pytest.fixture
def line(rated: Path, tiny_encoder: Callable[[str], Path]) -> str:
    return f"tune twmd twmd --set model={tiny_encoder('bert')} --data table:rated.csv"


def test_tune_prints_the_best_settings_and_writes_all(rated: Path, run: Run) -> None:
    tried = "--layers 1 2 --try special=all temperature=0.1,0.2"
    status, printed, _ = run(f"tune moverscore trwmd --data table:rated.csv {tried} -o out")
    out = rated / "out"
    assert status == 0
    assert "moverscore: 10 settings on 4 segments" in printed
    assert "trwmd: 20 settings on 4 segments" in printed
    names = [f"{metric}{suffix}" for metric in ("moverscore", "trwmd") for suffix in (".tsv", ".png", ".svg")]
    assert sorted(path.name for path in out.iterdir()) == sorted([*names, "preset.toml", "preset.safetensors"])
    header, *trials = [row.split("\t") for row in (out / "trwmd.tsv").read_text(encoding="utf-8").splitlines()]
    assert {"layer", "temperature", "pearson"} <= set(header)
    assert len(trials) == 20
    assert [float(row[-1]) for row in trials] == sorted((float(row[-1]) for row in trials), reverse=True)
    written = read_presets((out / "preset.toml").read_text(encoding="utf-8"), "preset.toml")
    # A packaged preset of twmd is called embedded-tuned: the one that is written has a name that is free.
    assert {(preset.name, preset.metric) for preset in written} == {
        ("embedded-tuned-2", MetricName.MOVERSCORE),
        ("embedded-tuned-2", MetricName.TRWMD),
    }
    (trwmd,) = (preset for preset in written if preset.metric == "trwmd")
    assert str(trwmd.keys["layer"]) == trials[0][header.index("layer")]
    about = f"rated.csv@{content_of(read_rated('table:rated.csv'))} (4 segments): mean Pearson"
    assert f"{about} {float(trials[0][-1]):.4f}, the best of 20 settings" in trwmd.provenance
    assert str(rated) not in trwmd.provenance


def test_json_of_tune_has_numbers_of_full_precision(line: str, rated: Path, run: Run) -> None:
    tried = "--layers 1 2 --try special=all temperature=0.25 centering=none,batch"
    status, printed, _ = run(f"{line} {tried} --format json -o out")
    rows = json.loads(printed)["twmd"]
    assert (status, {row["layer"] for row in rows}) == (0, {1, 2})
    assert {(row["centering"], row["centering_size"]) for row in rows} == {("none", None), ("batch", 32)}
    header, *trials = [row.split("\t") for row in (rated / "out" / "twmd.tsv").read_text(encoding="utf-8").splitlines()]
    assert [f"{row['pearson']:.6f}" for row in rows] == [trial[header.index("pearson")] for trial in trials]


def test_neutral_value_of_a_tried_key_is_shown_and_tsv_has_no_title(line: str, run: Run) -> None:
    tried = "--layers 1 --try special=all centering=none temperature=0.25 unknown=keep,apart"
    header, *trials = [row.split("\t") for row in run(f"{line} {tried} --format tsv")[1].splitlines()]
    assert header == ["layer", "unknown", "pearson"]
    assert sorted(unknown for _, unknown, _ in trials) == ["apart", "keep"]
    assert {row["unknown"] for row in json.loads(run(f"{line} {tried} --format json")[1])["twmd"]} == {"apart", "keep"}


@pytest.mark.parametrize("name", ["house-v1.5-tuned", "7.0"])
def test_written_preset_can_be_added_and_used(name: str, line: str, rated: Path, run: Run) -> None:
    status, printed, _ = run(f"{line} {FEW} --name {name} -o out")
    assert (status, "twmd: 2 settings on 4 segments" in printed) == (0, True)  # equal values are one setting
    assert "the best of 2 settings of layer" in (rated / "out" / "preset.toml").read_text(encoding="utf-8")
    assert run("preset add out/preset.toml")[0] == 0
    model = line.split()[4]
    try:
        assert "temperature:0.1" in run(f"score -i rated.csv -m twmd --preset {name} --set {model}")[1]
    finally:
        assert run(f"preset remove {name}")[0] == 0


def test_default_name_is_free_and_its_model_is_an_absolute_path(
    line: str, rated: Path, tiny_encoder: Callable[[str], Path], run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, names = tiny_encoder("bert"), []
    monkeypatch.chdir(model.parent)
    line = line.replace(str(model), model.name).replace("rated.csv", f"{rated}/rated.csv")
    for folder in (rated / "first", rated / "second"):
        assert run(f"{line} {FEW} -o {folder}")[0] == 0
        names.append(run(f"preset add {folder}/preset.toml")[1].split()[1])
    assert names == [f"{model.name}-tuned", f"{model.name}-tuned-2"]
    for name in names:
        assert presets()[MetricName.TWMD, name].model == str(model)
        assert run(f"preset remove {name}")[0] == 0


def test_without_try_at_most_200_settings_are_tried_and_the_time_is_announced(rated: Path, run: Run) -> None:
    texts = [("rained all day", "a cat sat"), ("tram was late", "a cat was"), ("she sang", "he sang"), ("we won", "we")]
    rows = "".join(f"{text},{reference},{rating}\n" for rating, (text, reference) in enumerate(texts))
    (rated / "rated.csv").write_text(f"prediction,reference,rating\n{rows}", encoding="utf-8")
    _, printed, announced = run("tune twmd sbert --data table:rated.csv")
    tried = [int(number) for number in re.findall(r"^\w+: (\d+) settings on 4 segments$", printed, re.MULTILINE)]
    assert len(tried) == 2
    assert 100 < sum(tried) <= 200
    first, second, *_ = announced.splitlines()
    assert first == "twmd: at most 200 settings are tried without --try KEY=VALUE,..."
    assert re.fullmatch(rf"twmd: {sum(tried)} settings on 4 segments take about \d:\d\d:\d\d \(h:mm:ss\)\.", second)


def test_with_try_every_combination_is_tried(line: str, run: Run) -> None:
    temperatures = ",".join(str(k / 100) for k in range(1, 120))
    _, printed, announced = run(f"{line} --layers 1 2 --try centering=none special=cls temperature={temperatures}")
    assert "twmd: 238 settings on 4 segments" in printed
    assert "at most" not in announced
    assert "238 settings on 4 segments take about" in announced


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ("--name café", "a preset's name holds letters"),
        ("--try clip=yes", "clip: none of twmd has such a key"),
        ("--try colour=red", "there is no key 'colour'"),
        ("--try temperature=cold", "temperature='cold' is not possible"),
        ("--try layer=1", "--layers names layers, --set model=MODEL a model"),
        ("--try temperature=", "expected KEY=VALUE,VALUE once per key"),
        ("--try vectors=raw centering=sentence", "no combination of the values to try is possible"),
        ("--set layer=abc", "--set layer=abc: expected the number of a hidden state; --layers takes several."),
        ("--set layer=1 --layers 2", "both say which layers are tried: give one of them"),
        ("--data table:again.csv", "hold the same rated texts: name them once"),
    ],
)
def test_bad_line_is_refused_before_anything_is_written(
    options: str, words: str, line: str, rated: Path, refused: Refused
) -> None:
    layers = "" if "layer=" in options else "--layers 1"
    line = line.replace("twmd twmd", "sbert") if "vectors" in options else line
    refused(f"{line} {layers} -o out {options}", words)
    assert not (rated / "out").exists()


R = np.random.default_rng(3)
TABLES = ["table1", "table2", "table3", "table4", "auc"]
SENTENCES = [
    "The heron waited.",
    "A heron was waiting by the weir.",
    "Rain.",
    "It rained the whole night.",
    "Bread was sold out by nine.",
    "No bread.",
]


@pytest.fixture
def papers(folder: Path) -> Path:
    """Return a folder with STS-B, MRPC and WMT22, made up; no QQP."""
    papers = folder / "data"
    for name in ("stsb", "mrpc"):
        (papers / name).mkdir(parents=True)
    pairs = [(SENTENCES[a], SENTENCES[b]) for a, b in R.integers(len(SENTENCES), size=(24, 2))]
    with (papers / "stsb" / "test.csv").open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows((*pair, f"{R.uniform(0, 5):.2f}") for pair in pairs[:12])
    write_mrpc(papers, [f"{i % 2}\t1\t2\t{a}\t{b}" for i, (a, b) in enumerate(pairs[12:])])
    wmt(papers / "wmt22", "".join(f"A\t{-i}\n" for i in range(len(SENTENCES))), {"A": "\n".join(SENTENCES[::-1])})
    written(papers / "wmt22", "\n".join(SENTENCES), "references/zh-en.refA.txt")
    return papers


def write_mrpc(papers: Path, rows: list[str]) -> None:
    written(papers, "\n".join([MRPC, *rows]), "mrpc/msr_paraphrase_test.txt")


def signatures_of(out: Path) -> dict[str, str]:
    return dict(line.split("\t") for line in (out / "signatures.txt").read_text(encoding="utf-8").splitlines())


def test_study_writes_tables_and_figures_and_names_what_is_missing(
    papers: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    status, printed, warned = run("study stsscore --data-dir data -o out --stsscore 'stsscore;clip=yes'")
    out = papers.parent / "out"
    assert status == 0
    assert "left out: QQP (no qqp/quora_duplicate_questions.tsv or qqp/train.tsv in" in warned
    assert "left out: RoBERTa (" in warned
    tables = [f"{name}.{suffix}" for name in TABLES for suffix in ("txt", "md", "tex", "tsv")]
    figures = [f"{name}.{suffix}" for name in ("sts-b", "mrpc", "mrpc-roc", "wmt22-zh-en") for suffix in ("png", "svg")]
    numbers = ["sts-b.csv", "mrpc.csv", "wmt22-zh-en.csv", "data.txt", "signatures.txt"]
    assert sorted(path.name for path in out.iterdir()) == sorted([*tables, *figures, *numbers])
    signatures = signatures_of(out)
    assert list(signatures) == ["BLEU", "BERTScore", "S-BERT", "STSScore", "Ensemble"]
    assert "|clip:yes|" in signatures["STSScore"]
    assert signatures["Ensemble"].startswith("ensemble(stsscore;")
    stsb = read_stsb(papers / "stsb" / "test.csv")
    expected = twmd_registry.scorer(signatures["Ensemble"]).score(stsb.predictions, stsb.references).scores
    assert [float(row["Ensemble"]) for row in rows_of(out / "sts-b.csv")] == pytest.approx(expected)
    assert (out / "table1.txt").read_text(encoding="utf-8") in printed
    rows = rows_of(out / "table1.tsv")
    assert [row["paper"] for row in rows if row["metric"] == "BLEU"][:3] == ["0.34", "0.32", "0.26"]
    assert [row["here"] for row in rows if row["column"].startswith("QQP")] == [""] * 5 * 4
    assert (out / "sts-b.png").read_bytes().startswith(b"\x89PNG")


def test_json_holds_every_table_and_a_set_of_one_class_has_no_area(papers: Path, run: Run) -> None:
    write_mrpc(papers, [f"1\t1\t2\t{a}\t{b}" for a, b in zip(SENTENCES, SENTENCES[::-1], strict=True)])
    printed = json.loads(run("study stsscore --data-dir data -o out --format json")[1])
    assert list(printed) == TABLES
    for name, table in printed.items():
        rows = rows_of(papers.parent / "out" / f"{name}.tsv")
        assert [row["here"] for row in table["rows"]] == [float(row["here"]) if row["here"] else None for row in rows]
    assert [row["here"] for row in printed["auc"]["rows"] if row["column"] == "MRPC"] == [None] * 5


@pytest.mark.parametrize(
    ("options", "status", "words"),
    [
        ("--data-dir data --bertscore 'bertscore_centered;layer=99'", 2, "layer=99 is out of range"),
        ("--data-dir data --sbert sbert,twmd", 2, "expected one metric with its keys, not 2"),
        ("", 1, "give --data-dir DIR, --hub"),
        (f"--data-dir {__file__}", 1, "no data set can be read"),
        ("--data-dir data -o file", 2, "is a file."),
        ("--data-dir data -o data", 1, "is not empty: give a new folder"),
    ],
)
def test_bad_line_leaves_folders_as_they_are(
    options: str, status: int, words: str, papers: Path, refused: Refused
) -> None:
    (papers.parent / "file").write_text("mine", encoding="utf-8")
    refused(f"study stsscore -o out {options}", words, status)
    assert not (papers.parent / "out").exists()


def test_pictures_without_matplotlib_are_refused_before_scoring(
    rated: Path, refused: Refused, monkeypatch: Patch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    refused("correlate table:rated.csv -m bleu -o out", "figures need matplotlib: pip install", 1)
    assert not Path("out").exists()


pytest.importorskip("matplotlib")
TABLE = {".txt", ".md", ".tex", ".tsv", "-signatures.tsv"}
PICTURE = {".csv", ".png", ".svg"}


@pytest.fixture(scope="module")
def years(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("data")
    for year in (16, 17):
        write_wmt(folder, year, rows=6)
    return folder


@pytest.fixture
def command(years: Path, tiny_encoder: Callable[[str], Path]) -> str:
    return f"--data-dir {years} --model {tiny_encoder('bert')}"


@pytest.mark.parametrize(
    ("table", "pictures"),
    [
        ("twmd-table8", (set(), 0)),
        ("twmd-figure4", ({f"-{side}{suffix}" for side in ("left", "right") for suffix in PICTURE}, 20)),
        ("moverscore-figure2", (PICTURE, 6)),
    ],
)
def test_table_is_printed_and_written_in_every_format(
    table: str, pictures: tuple[set[str], int], command: str, tmp_path: Path, run: Run
) -> None:
    status, printed, _ = run(f"reproduce {table} {command} -o {tmp_path}")
    assert status == 0
    written, (drawn, points) = {path.name.removeprefix(table): path for path in tmp_path.iterdir()}, pictures
    assert set(written) == TABLE | drawn
    assert written[".txt"].read_text(encoding="utf-8") == printed
    for suffix, path in written.items():
        if suffix.endswith(".csv"):
            assert len(rows_of(path)) == points
        elif suffix.endswith(".png"):
            assert path.read_bytes().startswith(b"\x89PNG")
        elif suffix.endswith(".svg"):
            assert "<svg" in path.read_text(encoding="utf-8")


def test_numbers_are_written_in_full_with_their_signatures(command: str, tmp_path: Path, run: Run) -> None:
    status, out, _ = run(f"reproduce twmd-table8 {command} --layer 2 --format json -o {tmp_path}")
    rows, printed = rows_of(tmp_path / "twmd-table8.tsv"), json.loads(out)
    assert (status, len(rows)) == (0, (6 + 1) * 8 * 2)
    assert [row["here"] for row in printed["rows"]] == [float(row["here"]) if row["here"] else None for row in rows]
    for row in rows[: 6 * 8 * 2]:
        assert float(row["difference"]) == pytest.approx(float(row["here"]) - float(row["roberta-base"]))
    agreement = [row for row in rows if row["metric"] == "rank agreement"]
    assert [row["column"] for row in agreement[::2]] == list(dict.fromkeys(row["column"] for row in rows))
    assert all(not row["difference"] for row in agreement)
    lines = (tmp_path / "twmd-table8-signatures.tsv").read_text(encoding="utf-8").splitlines()
    signatures = dict(line.split("\t") for line in lines)
    assert list(signatures) == ["BERTscore", "BERTscore-b", "TWMD", "TWMD-b", "TRWMD", "TRWMD-b"]
    assert printed["signatures"] == signatures


def test_diagnosis_is_drawn_without_centering_and_under_all(
    command: str, years: Path, tiny_encoder: Callable[[str], Path], tmp_path: Path, run: Run
) -> None:
    corpus = list(dict.fromkeys(read_wmt(years / "wmt" / "wmt16.jsonl").references))
    diagnosis = diagnose(str(tiny_encoder("bert")), corpus, RunOptions())
    for name in ("twmd-figure1", "twmd-figure2"):
        status, printed, _ = run(f"reproduce {name} {command} -o {tmp_path}")
        assert (status, f", {len(corpus)} texts, {diagnosis.words} words" in printed) == (0, True)
        assert ("  paper  " in printed) is (name == "twmd-figure2")  # the paper says nothing of figure 1 in words
        assert {path.name for path in tmp_path.glob(f"{name}*")} == {f"{name}{suffix}" for suffix in PICTURE}
    first, second = (rows_of(tmp_path / f"twmd-figure{number}.csv") for number in (1, 2))
    assert [(row["centering"], row["layer"]) for row in first] == [("none", str(k)) for k in range(tiny.DEPTH + 1)]
    assert [float(row["random"]) for row in second] == diagnosis.estimates[:, :, 0]["mean"].ravel().tolist()
    assert first == [row for row in second if row["centering"] == "none"]
    found = json.loads(run(f"reproduce twmd-figure2 {command} --format json")[1])
    assert len(found["rows"]) == len({(row["centering"], row["layer"]) for row in found["rows"]})
    assert {verdict["paper"] for verdict in found["verdicts"]} - {None}
    assert found["model"] == diagnosis.model  # in full, while titles have its own name alone
    assert f" Here: {Path(diagnosis.model).name}, " in printed
