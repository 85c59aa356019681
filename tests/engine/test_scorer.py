"""What `scorer`, `score` and `verify_record` accept."""

from __future__ import annotations

from pathlib import Path

import pytest

import twmd_registry
from twmd_registry.errors import SpecError

PREDICTIONS, REFERENCES = ["the cat sat", "it rains"], ["a cat sat", "it pours"]


def test_scorer_of_a_specification_gives_the_same_score() -> None:
    scored = twmd_registry.score(PREDICTIONS, REFERENCES, temperature=0.1)
    spec = twmd_registry.parse(str(scored.signature))
    assert twmd_registry.scorer(spec, device="cpu").score(PREDICTIONS, REFERENCES).scores == pytest.approx(
        scored.scores, abs=1e-6
    )
    assert twmd_registry.score(PREDICTIONS, REFERENCES, spec).signature == scored.signature


@pytest.mark.parametrize("keys", [{"temperature": 0.2}, {"preset": "embedded"}])
def test_specification_with_keys_is_refused(keys: dict[str, object]) -> None:
    spec = twmd_registry.scorer("twmd").requested
    with pytest.raises(SpecError, match="a specification fixes temperature|a preset is no key"):
        twmd_registry.scorer(spec, **keys)  # type: ignore[arg-type]


def test_record_is_verified_by_the_name_of_its_file(tmp_path: Path) -> None:
    record = twmd_registry.make_record([("system", [twmd_registry.score(PREDICTIONS, REFERENCES)])], seconds=1.0)
    twmd_registry.write_record(record, str(tmp_path / "record.json"))
    for named in (record, tmp_path / "record.json", str(tmp_path / "record.json")):
        assert twmd_registry.verify_record(named, [(PREDICTIONS, REFERENCES)]).agrees
