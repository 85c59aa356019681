from __future__ import annotations

import json
from pathlib import Path

import pytest

from twmd_registry.cli import main
from twmd_registry.record import selfcheck
from twmd_registry.registry.names import MetricName


def test_this_installation_gives_the_published_scores(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["selfcheck"]) == 0
    printed = capsys.readouterr()
    assert f"{len(MetricName)} of {len(MetricName)} metrics agree" in printed.out
    assert printed.err == ""  # one of its own texts is empty, and one of unknown tokens: that is what they are for


def test_every_metric_is_checked_on_every_pair() -> None:
    golden = json.loads(selfcheck.GOLDEN.read_text(encoding="utf-8"))
    assert set(golden["metrics"]) == set(MetricName)
    assert all(len(published["scores"]) == len(golden["pairs"]) for published in golden["metrics"].values())


def test_score_that_is_off_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    golden = json.loads(selfcheck.GOLDEN.read_text(encoding="utf-8"))
    golden["metrics"]["twmd"]["scores"][0] += 3 * selfcheck.TOLERANCE
    golden["metrics"]["sbert"]["signature"] += "x"
    changed = tmp_path / "golden.json"
    changed.write_text(json.dumps(golden), encoding="utf-8")
    monkeypatch.setattr(selfcheck, "GOLDEN", changed)
    assert main(["selfcheck"]) == 1
    lines = {line.split()[0]: line for line in capsys.readouterr().out.splitlines() if line}
    assert "off by more than" in lines["twmd"]
    assert "another signature" in lines["sbert"]
    assert lines["trwmd"].endswith("ok")


def test_new_metrics_scores_are_added_and_published_ones_stay() -> None:
    golden = json.loads(selfcheck.GOLDEN.read_text(encoding="utf-8"))
    golden["metrics"]["trwmd"]["scores"][0] = 9.0
    published = golden["metrics"].pop("twmd")
    completed = selfcheck.add_missing_scores(golden)["metrics"]
    assert list(completed) == list(MetricName)
    assert completed["trwmd"]["scores"][0] == 9.0
    assert completed["twmd"]["signature"] == published["signature"]
    assert completed["twmd"]["scores"] == pytest.approx(published["scores"], abs=selfcheck.TOLERANCE)
