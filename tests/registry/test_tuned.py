"""The packaged tuned metric: small, signed, and better than the untuned one on unseen ratings."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

import twmd_registry
from tests.conftest import shared
from twmd_registry.judgments.corpora import read_wmt
from twmd_registry.judgments.rated import select
from twmd_registry.metaeval.correlation import correlate
from twmd_registry.models.files import packaged_adapters
from twmd_registry.registry.metric_spec import AppliedSpec
from twmd_registry.registry.signature import Signature
from twmd_registry.registry.spec import make_spec

LOG = (Path(__file__).resolve().parents[2] / "experiments" / "LOG.md").read_text(encoding="utf-8")
ADAPTERS = {
    "rated-twmd": ("twmd", "embedded-tuned"),
    "rated-mpnet": ("twmd", "mpnet-tuned"),
    "rated-multilingual": ("twmd", "multilingual-tuned"),
    "rated-source": ("twmd", "multilingual-source-tuned"),
    "stsb-siamese": ("stsscore", "embedded"),
    "stsb-mpnet": ("stsscore", "mpnet-stsb"),
    "stsb-multilingual": ("stsscore", "multilingual"),
}
"""The metric and preset of every packaged adapter."""
MAX_BYTES = 3_000_000
PAIR = "tr-en"


def printed(name: str) -> str:
    """Return the value of `PAIR` in the log's table of correlations."""
    table = LOG[LOG.index("| Pearson r x 100 |") :]
    head, row = (
        next(line for line in table.splitlines() if line.startswith(start)).split("|")
        for start in ("| Pearson", f"| {name} |")
    )
    return row[[cell.strip() for cell in head].index(PAIR)].split()[0]


@pytest.mark.parametrize("name", sorted(path.name for path in packaged_adapters().iterdir()))
def test_packaged_adapter_is_small_and_has_card_and_signature_of_its_preset(name: str) -> None:
    folder = packaged_adapters() / name
    assert sum(path.stat().st_size for path in folder.iterdir()) <= MAX_BYTES
    signature = Signature(AppliedSpec.of(make_spec(*ADAPTERS[name])))
    assert (folder / "signature.txt").read_text(encoding="utf-8") == f"{signature}\n"
    card = (folder / "README.md").read_text(encoding="utf-8")
    assert str(signature) in card
    assert re.search(r"Pearson 0\.\d+", card)


def test_default_agrees_better_with_ratings_of_an_unseen_year_than_untuned() -> None:
    rated = read_wmt(shared("data/wmt/wmt17.jsonl"))
    rated = select(rated, np.flatnonzero(np.array(rated.group) == PAIR))
    scores = twmd_registry.load("twmd").score(rated.predictions, rated.references).scores
    r = correlate("pearson", np.array(scores), rated.ratings)
    assert f"{100 * r:.1f}" == printed("`twmd`")
    assert 100 * r > float(printed("TWMD, preset `embedded`")) + 4
