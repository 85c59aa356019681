from __future__ import annotations

import json
from pathlib import Path

from tests.conftest import Patch, Run
from twmd_registry.record import selfcheck
from twmd_registry.registry.names import MetricName


def test_this_installation_reproduces_the_published_scores_of_every_metric_and_pair(run: Run) -> None:
    status, out, err = run("setup selfcheck")
    assert (status, "13 of 13 settings agree" in out) == (0, True)
    assert err == ""  # its texts include an empty one and one of unknown tokens on purpose
    golden = json.loads(selfcheck.GOLDEN.read_text(encoding="utf-8"))
    assert set(MetricName) < set(golden["metrics"])
    assert all(len(published["scores"]) == len(golden["pairs"]) for published in golden["metrics"].values())


def test_wrong_score_is_named(monkeypatch: Patch, tmp_path: Path, run: Run) -> None:
    golden = json.loads(selfcheck.GOLDEN.read_text(encoding="utf-8"))
    golden["metrics"] = {name: golden["metrics"][name] for name in ("twmd", "sbert", "trwmd")}
    golden["metrics"]["twmd"]["scores"][0] += 3 * selfcheck.TOLERANCE
    golden["metrics"]["sbert"]["signature"] += "x"
    monkeypatch.setattr(selfcheck, "GOLDEN", tmp_path / "golden.json")
    selfcheck.GOLDEN.write_text(json.dumps(golden), encoding="utf-8")
    status, out, _ = run("setup selfcheck")
    lines = {line.split()[0]: line for line in out.splitlines() if line}
    assert (status, "off by more than" in lines["twmd"]) == (1, True)
    assert "signature is" in lines["sbert"]
    assert lines["trwmd"].endswith("ok")
