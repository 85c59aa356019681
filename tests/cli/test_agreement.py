"""``twmd tune``: trials, output and errors."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import Patch, Refused, Run
from twmd_registry.judgments.sets import content_of, read_rated
from twmd_registry.metaeval.tune import tune
from twmd_registry.registry.names import MetricName
from twmd_registry.registry.options import RunOptions
from twmd_registry.registry.presets import presets, read_presets
from twmd_registry.registry.spec import make_spec

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
    return f"tune table:rated.csv -m twmd twmd --set model={tiny_encoder('bert')}"


def test_tune_prints_the_best_settings_and_writes_all(rated: Path, run: Run) -> None:
    tried = "--layers 1 2 --try special=all temperature=0.1,0.2"
    status, printed, told = run(f"tune table:rated.csv -m moverscore trwmd {tried} -o out")
    out = rated / "out"
    assert status == 0
    assert "moverscore: 10 settings on 4 segments" in printed
    assert "trwmd: 20 settings on 4 segments" in printed
    names = [f"{metric}{suffix}" for metric in ("moverscore", "trwmd") for suffix in (".tsv", ".png", ".svg")]
    assert sorted(path.name for path in out.iterdir()) == sorted([*names, "preset.toml", "preset.safetensors"])
    header, *trials = [row.split("\t") for row in (out / "trwmd.tsv").read_text(encoding="utf-8").splitlines()]
    assert {"layer", "temperature", "pearson"} <= set(header)
    assert len(trials) == 20
    pearson = [round(float(row[-1]), 3) for row in trials]  # tied settings are in another order
    assert pearson == sorted(pearson, reverse=True)
    assert printed.count(" default") == 2
    assert ("Next: " in told) == (printed.count("agrees best") < 2)
    written = read_presets((out / "preset.toml").read_text(encoding="utf-8"), "preset.toml")
    # twmd has a packaged preset embedded-tuned, so the written one gets an unused name.
    assert {(preset.name, preset.metric) for preset in written} == {
        ("embedded-tuned-2", MetricName.MOVERSCORE),
        ("embedded-tuned-2", MetricName.TRWMD),
    }
    (trwmd,) = (preset for preset in written if preset.metric == "trwmd")
    assert str(trwmd.keys["layer"]) == trials[0][header.index("layer")]
    about = f"rated.csv@{content_of(read_rated('table:rated.csv'))} (4 segments): mean Pearson"
    assert f"{about} {float(trials[0][-1]):.4f}, the best of 20 settings" in trwmd.provenance
    assert str(rated) not in trwmd.provenance


def test_tune_json_has_full_precision(line: str, rated: Path, run: Run) -> None:
    tried = "--layers 1 2 --try special=all temperature=0.25 centering=none,batch"
    status, printed, _ = run(f"{line} {tried} --format json -o out")
    *rows, default = json.loads(printed)["twmd"]
    best = "best" if rows[0]["pearson"] > default["pearson"] else "best other"
    assert (rows[0]["setting"], default["setting"], rows[0]["ci"] > 0) == (best, "default", True)
    assert (status, {row["layer"] for row in rows}) == (0, {1, 2})
    assert {(row["centering"], row["centering_size"]) for row in rows} == {("none", None), ("batch", 32)}
    header, *trials = [row.split("\t") for row in (rated / "out" / "twmd.tsv").read_text(encoding="utf-8").splitlines()]
    assert [f"{row['pearson']:.6f}" for row in rows] == [trial[header.index("pearson")] for trial in trials]


@pytest.mark.parametrize("name", ["house-v1.5-tuned", "7.0"])
def test_written_preset_can_be_added_and_used(name: str, line: str, rated: Path, run: Run) -> None:
    status, printed, _ = run(f"{line} {FEW} --name {name} -o out")
    assert (status, "twmd: 2 settings on 4 segments" in printed) == (0, True)  # equal values are one setting
    assert "the best of 2 settings of layer" in (rated / "out" / "preset.toml").read_text(encoding="utf-8")
    assert run("setup preset add out/preset.toml")[0] == 0
    model = line.rsplit(maxsplit=1)[-1]
    try:
        assert "temperature:0.1" in run(f"score -i rated.csv -m twmd --preset {name} --set {model}")[1]
    finally:
        assert run(f"setup preset remove {name}")[0] == 0


def test_default_name_is_unused_and_its_model_path_is_absolute(
    line: str, rated: Path, tiny_encoder: Callable[[str], Path], run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, names = tiny_encoder("bert"), []
    monkeypatch.chdir(model.parent)
    line = line.replace(str(model), model.name).replace("rated.csv", f"{rated}/rated.csv")
    for folder in (rated / "first", rated / "second"):
        assert run(f"{line} {FEW} -o {folder}")[0] == 0
        names.append(run(f"setup preset add {folder}/preset.toml")[1].split()[1])
    assert names == [f"{model.name}-tuned", f"{model.name}-tuned-2"]
    for name in names:
        assert presets()[MetricName.TWMD, name].model == str(model)
        assert run(f"setup preset remove {name}")[0] == 0


def test_at_most_200_settings_are_tried_by_default_and_the_time_is_announced(rated: Path, run: Run) -> None:
    texts = [("rained all day", "a cat sat"), ("tram was late", "a cat was"), ("she sang", "he sang"), ("we won", "we")]
    rows = "".join(f"{text},{reference},{rating}\n" for rating, (text, reference) in enumerate(texts))
    (rated / "rated.csv").write_text(f"prediction,reference,rating\n{rows}", encoding="utf-8")
    _, printed, announced = run("tune table:rated.csv -m twmd sbert")
    tried = [int(number) for number in re.findall(r"^\w+: (\d+) settings on 4 segments$", printed, re.MULTILINE)]
    assert len(tried) == 2
    assert 100 < sum(tried) <= 200
    first, second, *_ = announced.splitlines()
    assert first == "twmd: at most 200 settings are tried without --try KEY=VALUE,..."
    assert re.fullmatch(rf"twmd: {sum(tried)} settings on 4 segments take about \d:\d\d:\d\d \(h:mm:ss\)\.", second)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ("--name café", "a preset's name"),
        ("--try clip=yes", "clip: not used by twmd"),
        ("--try colour=red", "unknown key 'colour'"),
        ("--try temperature=cold", "temperature='cold' is not possible"),
        ("--try layer=1", "--set model=MODEL"),
        ("--try temperature=", "expected KEY=VALUE,VALUE once per key"),
        ("--try vectors=raw centering=sentence", "no combination of the values to try is possible"),
        ("--set layer=abc", "--set layer=abc"),
        ("--set layer=1 --layers 2", "both choose layers"),
        ("table:again.csv", "same rated texts"),
    ],
)
def test_bad_command_is_refused_before_any_output(
    options: str, words: str, line: str, rated: Path, refused: Refused
) -> None:
    layers = "" if "layer=" in options else "--layers 1"
    line = line.replace("twmd twmd", "sbert") if "vectors" in options else line
    refused(f"{line} {layers} -o out {options}", words)
    assert not (rated / "out").exists()


def test_missing_matplotlib_is_reported_before_scoring(rated: Path, refused: Refused, monkeypatch: Patch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    refused("correlate table:rated.csv -m bleu -o out", "figures need matplotlib: pip install", 1)
    assert not Path("out").exists()


def test_tune_guesses_columns_suggests_the_next_step_and_needs_no_matplotlib(
    folder: Path, run: Run, monkeypatch: pytest.MonkeyPatch, line: str
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    rows = "".join(f"a cat {i},a dog {i % 3},{i}\n" for i in range(9))
    (folder / "mine.csv").write_text(f"hypothesis,ref,quality\n{rows}", encoding="utf-8")
    status, _, error = run(f"{line.replace('table:rated.csv', 'mine.csv')} {FEW} -o out")
    assert status == 0
    for words in ("column hypothesis", "column quality", "2 settings on 9 rows", "out/preset.toml", "matplotlib"):
        assert words in error
    assert not list((folder / "out").glob("*.png"))
    assert "mine.csv,rating=COLUMN" in run("tune mine.csv,rating=none -m twmd")[2]


@pytest.mark.usefixtures("rated")
def test_simpler_of_tied_settings_is_the_best(tiny_encoder: Callable[[str], Path]) -> None:
    rated = read_rated("table:rated.csv")
    model = str(tiny_encoder("bert"))
    simple = make_spec("twmd", model=model)
    other = simple.replace(temperature=float(simple.temperature or 1) * 1.0001)
    assert tune([other, simple], [rated], RunOptions())[0].spec.temperature == simple.temperature
