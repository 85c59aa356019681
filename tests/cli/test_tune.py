"""``twmd tune``: what it refuses before it computes, and that what it writes can be used."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests import tiny
from twmd_registry.cli import main
from twmd_registry.registry.names import MetricName
from twmd_registry.registry.presets import presets

ROWS = (
    "prediction,reference,rating,group\nuno duo,uno,3,x\nduo,uno duo tres,2,x\ntres,uno,1,x\nuno tres,tres duo,2.5,x\n"
)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(tiny.save_encoder("bert", tmp_path_factory.mktemp("bert")))


@pytest.fixture
def data(tmp_path: Path) -> Path:
    for name in ("rated", "again"):
        (tmp_path / f"{name}.csv").write_text(ROWS, encoding="utf-8")
    return tmp_path / "rated.csv"


def command(data: Path, model: str, *more: str) -> list[str]:
    few = ["--layers", "1", "2", "2", "--try", "centering=none", "special=cls", "temperature=0.1,0.1"]
    return ["tune", "twmd", "twmd", "--set", f"model={model}", "--data", f"table:{data}", *few, *more]


@pytest.mark.parametrize("name", ["plain", "house-v1.5-tuned", "7.0"])
def test_preset_that_is_written_can_be_added_and_used(
    name: str, data: Path, model: str, capsys: pytest.CaptureFixture[str]
) -> None:
    out = data.parent / "out"
    assert main(command(data, model, "--name", name, "-o", str(out))) == 0
    assert "twmd: 2 settings on 4 segments" in capsys.readouterr().out  # what is asked for twice is one setting
    assert "the best of 2 settings of layer" in (out / "preset.toml").read_text(encoding="utf-8")
    assert main(["preset", "add", str(out / "preset.toml")]) == 0
    texts = data.parent / "texts.txt"
    texts.write_text("uno duo\n", encoding="utf-8")
    assert main(["score", str(texts), "-i", str(texts), "-m", "twmd", "--preset", name, "--set", f"model={model}"]) == 0
    assert "temperature:0.1" in capsys.readouterr().out
    assert main(["preset", "remove", name]) == 0


def test_name_that_is_taken_is_not_the_default(data: Path, model: str, capsys: pytest.CaptureFixture[str]) -> None:
    out = [data.parent / name for name in ("one", "two")]
    for folder in out:
        assert main(command(data, model, "-o", str(folder))) == 0
        assert main(["preset", "add", str(folder / "preset.toml")]) == 0
    names = [line.split()[1] for line in capsys.readouterr().out.splitlines() if line.startswith("added ")]
    assert names == [f"{Path(model).name}-tuned", f"{Path(model).name}-tuned-2"]
    for name in names:
        assert main(["preset", "remove", name]) == 0


def test_preset_of_a_model_in_a_folder_is_found_from_anywhere(
    data: Path, model: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(Path(model).parent)
    assert main(command(data, Path(model).name, "--name", "relative", "-o", str(data.parent / "out"))) == 0
    monkeypatch.chdir(data.parent)
    assert main(["preset", "add", "out/preset.toml"]) == 0
    assert presets()[MetricName.TWMD, "relative"].model == model
    assert main(["preset", "remove", "relative"]) == 0


def test_without_try_at_most_200_settings_are_tried_and_the_time_is_announced(
    data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    texts = (
        ("it rained all day", "a cat sat there"),
        ("the tram was late", "a cat was sitting"),
        ("she sang well", "he sang badly"),
        ("we won", "we lost it"),
    )
    rows = "".join(f"{one},{other},{rating}\n" for rating, (one, other) in enumerate(texts))
    data.write_text(f"prediction,reference,rating\n{rows}", encoding="utf-8")
    assert main(["tune", "twmd", "sbert", "--data", f"table:{data}"]) == 0
    printed, said = capsys.readouterr()
    tried = [int(number) for number in re.findall(r"^\w+: (\d+) settings on 4 segments$", printed, re.MULTILINE)]
    assert len(tried) == 2
    assert 100 < sum(tried) <= 200
    first, second, *_ = said.splitlines()
    assert first == "twmd: at most 200 settings are tried without --try KEY=VALUE,..."
    assert re.fullmatch(rf"twmd: {sum(tried)} settings on 4 segments take about \d+ seconds\.", second)


def test_with_try_every_combination_is_tried(data: Path, model: str, capsys: pytest.CaptureFixture[str]) -> None:
    temperatures = ",".join(str(k / 100) for k in range(1, 120))
    tried = ["--layers", "1", "2", "--try", "centering=none", "special=cls", f"temperature={temperatures}"]
    assert main(["tune", "twmd", "--set", f"model={model}", "--data", f"table:{data}", *tried]) == 0
    printed, said = capsys.readouterr()
    assert "twmd: 238 settings on 4 segments" in printed
    assert "at most" not in said
    assert "238 settings on 4 segments take about" in said


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (["--name", "café"], "a preset's name holds letters"),
        (["--try", "clip=yes"], "clip: none of twmd has such a key"),
        (["--data", "table:{data}", "table:{again}"], "hold the same rated texts: name them once"),
        (["-o", "{data}/out"], "is a file: give a folder"),
    ],
)
def test_what_cannot_be_is_refused_first(
    more: list[str], words: str, data: Path, model: str, capsys: pytest.CaptureFixture[str]
) -> None:
    given = [one.format(data=data, again=data.with_stem("again")) for one in more]
    output = [] if "-o" in given else ["-o", str(data.parent / "out")]
    assert main([*command(data, model, *output), *given]) in {1, 2}
    assert words in capsys.readouterr().err
    assert not (data.parent / "out").exists()
