"""Labels of metrics in one comparison."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from twmd_registry.cli import main
from twmd_registry.registry.diff import labels_of
from twmd_registry.registry.spec import MetricSpec, make_spec

OPEN = make_spec("twmd", model="a/b", layer=1)


@pytest.mark.parametrize(
    ("specs", "labels"),
    [
        ([make_spec("twmd", layer=6)], ["twmd"]),
        ([make_spec("twmd"), make_spec("sbert", layer=6)], ["twmd", "sbert"]),
        (
            [make_spec("twmd"), make_spec("twmd", layer=6), make_spec("twmd", layer=6, temperature=0.5)],
            ["twmd layer=4 temperature=0.15", "twmd layer=6 temperature=0.15", "twmd layer=6 temperature=0.5"],
        ),
        ([make_spec("twmd"), make_spec("twmd", ngram=2)], ["twmd", "twmd ngram=2"]),
        ([OPEN.replace(fingerprint="0" * 12), OPEN], [f"twmd model=a/b@{'0' * 12}", "twmd model=a/b"]),
        (
            [
                *(make_spec("ensemble", members=own) for own in ("twmd,2*sbert", "twmd;layer=6,sbert")),
                make_spec("twmd"),
            ],
            ["ensemble(twmd layer=4,2*sbert)", "ensemble(twmd layer=6,sbert)", "twmd"],
        ),
        ([make_spec("ensemble", members="twmd,sbert")], ["ensemble"]),
        ([make_spec("twmd")] * 3, ["twmd", "twmd#2", "twmd#3"]),
        ([], []),
    ],
)
def test_settings_of_one_metric_are_labelled_by_what_differs(specs: list[MetricSpec], labels: list[str]) -> None:
    assert labels_of(specs) == labels


def test_every_command_labels_two_settings_alike(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    texts = [
        ("It rains.", "It is raining."),
        ("A cat sat.", "The cat sat."),
        ("We won 3 games in Oslo.", "We won three games in Oslo."),
    ]
    rows = "".join(f"{pair[k]}\t{pair[1]}\t{k}\t{i}\tx\n" for i, pair in enumerate(texts) for k in range(2))
    Path("rated.tsv").write_text(f"prediction\treference\trating\titem\tgroup\n{rows}", encoding="utf-8")
    for name, k in (("hyp", 0), ("ref", 1)):
        Path(f"{name}.txt").write_text("".join(f"{pair[k]}\n" for pair in texts), encoding="utf-8")
    metrics = ["-m", "sbert", "sbert;layer=6", "ensemble(sbert,twmd)", "ensemble(sbert;layer=6,twmd)"]
    labels = ["sbert layer=4", "sbert layer=6", "ensemble(sbert layer=4,twmd)", "ensemble(sbert layer=6,twmd)"]
    assert main(["correlate", "--data", "table:rated.tsv", *metrics, "--resamples", "0", "--format", "json"]) == 0
    assert [one["label"] for one in json.loads(capsys.readouterr().out)["metrics"]] == labels
    assert main(["score", "ref.txt", "-i", "hyp.txt", *metrics, "--format", "json"]) == 0
    assert [one["metric"] for one in json.loads(capsys.readouterr().out)] == labels
    assert main(["report", "ref.txt", "-i", "hyp.txt", *metrics, "-o", "report.html"]) == 0
    page = Path("report.html").read_text(encoding="utf-8")
    assert all(f'<th scope="col">{label}' in page for label in labels)
