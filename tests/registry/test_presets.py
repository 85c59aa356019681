"""Presets of users and of other packages."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

import evaluate
import pytest

import twmd_registry
from tests.conftest import Patch, Run
from twmd_registry.errors import FileError, SpecError, TwmdWarning
from twmd_registry.registry import presets as module
from twmd_registry.registry.names import EMBEDDED_MODEL, MetricName
from twmd_registry.registry.own_presets import add_preset, remove_preset
from twmd_registry.registry.presets import GROUP, Preset, default_preset, presets, read_presets, write_presets

HOUSE = """
[house]
provenance = "Tuned on our own release notes, 2026: Pearson 0.7 on 500 rated segments."
[house.shared]
model = "sentence-transformers/all-MiniLM-L6-v2"
fingerprint = "21de63af9d45"
layer = 5
special = "none"
centering = "batch"
iterations = 3
objective = "expected"
output = "recall"
normalize = true
multiref = "mean"
truncation = "cut:128"
dtype = "float32"
[house.metrics.twmd]
temperature = 0.07
[house.metrics.trwmd]
temperature = 0.03
centering = "none"
"""


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TWMD_HOME", str(tmp_path / "home"))
    presets.cache_clear()
    yield
    presets.cache_clear()


@pytest.fixture
def house(tmp_path: Path) -> Path:
    path = tmp_path / "house.toml"
    path.write_text(HOUSE, encoding="utf-8")
    return path


def test_added_preset_is_known_everywhere(house: Path, folder: Path, run: Run) -> None:
    signature = "twmd|output:recall|model:sentence-transformers/all-MiniLM-L6-v2@21de63af9d45|layer:5"
    assert f"added house for twmd: {signature}" in run(f"setup preset add {house}")[1]
    house.unlink()
    presets.cache_clear()
    assert "house" in run("explain")[1]
    assert "\ntrwmd\thouse\ttrwmd|output:recall|" in run("explain --signatures")[1]
    predictions, references = ["a cat", "it rains"], ["the cat", "it pours"]
    by_python = twmd_registry.load("twmd", "house").score(predictions, references)
    by_evaluate = evaluate.load("twmd", "house").compute(predictions=predictions, references=references)
    assert by_evaluate["signature"] == str(by_python.signature)
    centering = "centering:batch|centering_size:32|centering_side:separate"
    assert f"|{centering}|temperature:0.07|iterations:3|" in by_evaluate["signature"]
    for name, lines in (("hyp", predictions), ("ref", references)):
        (folder / f"{name}.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    printed = run("score ref.txt -i hyp.txt -m twmd --preset house -b -w 9")[1]
    assert float(printed) == pytest.approx(by_python.score, abs=1e-8)
    assert run("setup preset remove house")[0] == 0
    with pytest.raises(SpecError, match="twmd has no preset 'house'"):
        twmd_registry.load("twmd", "house")


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        (HOUSE, "", "contains no preset"),
        (HOUSE, "not toml", "is not TOML"),
        (HOUSE, "house = 3", r"\[house\]: no \[house.metrics.METRIC\] table"),
        (HOUSE, HOUSE.partition("[house.sh")[0] + "metrics.twmd = 3", r"\[house\], metrics: twmd=3: expected a table"),
        (
            HOUSE,
            HOUSE.partition("[house.sh")[0] + "shared = 3\nmetrics.twmd.layer = 3",
            r"\[house\]: shared=3: expected a table",
        ),
        ("[house]\n", "[house]\ncolour = 1\n", r"\[house\]: unknown: colour\. Expected provenance"),
        ('provenance = "', 'provenance = " " #', r"\[house\]: no provenance"),
        ("metrics.twmd", "metrics.twdm", "metrics.twdm: unknown metric 'twdm'; did you mean 'twmd'"),
        ("temperature = 0.07", "", "leaves out temperature"),
        ("temperature = 0.07", 'temperature = 0.07\ntuned = "layer"', "tuned='layer': expected a list of names"),
        ("temperature = 0.07", 'temperature = 0.07\ntuned = ["colour"]', "metrics.twmd: unknown key 'colour'"),
        ("21de63af9d45", "xyz", "fingerprint='xyz' is not 12 hexadecimal digits"),
        ("[house", "[../house", "is not TOML"),
        ("house", '"../house"', r"a preset's name"),
        ("house", "embedded", "'embedded' exists"),
        ("[house]", '[other]\nprovenance = "x"\n[other.metrics.sbert]\nlayer = 1\n[house]', "contains 2 presets"),
    ],
)
def test_bad_preset_is_refused_with_its_position(
    house: Path, tmp_path: Path, before: str, after: str, words: str
) -> None:
    assert before in HOUSE
    house.write_text(HOUSE.replace(before, after), encoding="utf-8")
    with pytest.raises(SpecError, match=words):
        add_preset(house)
    assert not list((tmp_path / "home").rglob("*.toml"))


def test_unreadable_files_are_named_and_only_added_presets_can_be_removed(house: Path) -> None:
    with pytest.raises(FileError, match=r"none.toml: No such file"):
        add_preset(house.with_name("none.toml"))
    with pytest.raises(SpecError, match=r"^no preset 'embedded' was added here; there are no others\.$"):
        remove_preset("embedded")
    add_preset(house)
    found = [default_preset(MetricName.TWMD, model).name for model in (None, EMBEDDED_MODEL)]
    assert found == ["embedded-tuned", "embedded"]
    with pytest.raises(SpecError, match="no preset '../house' was added here; did you mean 'house'"):
        remove_preset("../house")
    house.write_bytes("# é".encode("latin-1"))
    with pytest.raises(FileError, match="is not UTF-8: byte 0xe9 in line 1"):
        add_preset(house)


def test_used_preset_name_is_refused_and_another_works(house: Path, run: Run) -> None:
    assert run(f"setup preset add {house}")[0] == 0
    advice = "add this one under another name with --name NAME, or remove yours with 'twmd setup preset remove house'."
    assert run(f"setup preset add {house}")[::2] == (2, f"twmd: preset 'house' exists already: {advice}\n")
    before = twmd_registry.load("trwmd", "house").requested
    assert run(f"setup preset add {house} --name yard.2")[0] == 0
    assert twmd_registry.load("trwmd", "yard.2").requested == before
    assert "Tuned on our own release notes" in presets()[MetricName.TWMD, "yard.2"].provenance
    assert run("setup preset remove house --name x")[0] == 2
    status, _, err = run(f"setup preset add {house} --name a/b")
    assert (status, "a preset's name" in err) == (2, True)


@pytest.mark.parametrize(
    ("content", "warning"),
    [
        (HOUSE, None),
        (HOUSE.replace("house", "embedded"), "package brings_presets: the name embedded is taken"),
        ("[", "package brings_presets is not TOML"),
        (None, "entry point 'any' of twmd_registry.presets"),
    ],
)
def test_package_can_provide_presets(
    tmp_path: Path, monkeypatch: Patch, content: str | None, warning: str | None
) -> None:
    (tmp_path / "brings_presets").mkdir()
    for name, text in (("__init__.py", ""), *([("ours.toml", content)] if content else [])):
        (tmp_path / "brings_presets" / name).write_text(text, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    point = metadata.EntryPoint("any", "brings_presets:ours.toml", GROUP)
    monkeypatch.setattr(metadata, "entry_points", lambda group: [point] if group == GROUP else [])
    if warning is None:
        assert presets()[MetricName.TWMD, "house"].source == "package brings_presets"
    else:
        with pytest.warns(TwmdWarning, match=warning):
            assert (MetricName.TWMD, "house") not in presets()
        assert presets()[MetricName.TWMD, "embedded"].source == module.PACKAGED
    sys.modules.pop("brings_presets", None)


def test_preset_has_the_languages_of_its_model_or_of_another_preset() -> None:
    tuned, plain = (presets()[MetricName.TWMD, name] for name in ("multilingual-tuned", "multilingual"))
    assert tuned.languages == plain.languages != ()
    text = '[villa]\nlike = "hose"\nprovenance = "Made here."\n[villa.metrics.twmd]\nlayer = 4\n'
    with pytest.raises(SpecError, match=r"\[villa\]: like='hose': expected the name of another preset"):
        read_presets(text, "test")
    made = Preset("mine", MetricName.TWMD, {"model": EMBEDDED_MODEL, "layer": 2}, "Chosen here.")
    (read,) = read_presets(write_presets("mine", "Chosen here.", [made]), "mine.toml")
    assert (read.languages, read.scripts) == (("en",), ("Latin",))
    unknown = Preset("mine", MetricName.TWMD, {"model": "org/unknown"}, "Chosen here.")
    assert "languages" not in write_presets("mine", "Chosen here.", [unknown])
