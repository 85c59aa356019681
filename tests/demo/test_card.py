"""The metrics' cards: generated, correct and executed."""

from __future__ import annotations

import doctest
import json
import re
import shlex
from pathlib import Path

import pytest
import yaml

import twmd_registry
from tests.conftest import Run, shared
from twmd_registry.cli import main
from twmd_registry.demo.space import (
    CORRELATIONS,
    DATA,
    SDK_VERSION,
    card_text,
    measured_correlations,
    metrics_with_card,
    write_card,
    write_cards,
)
from twmd_registry.plugins.evaluate_hook import METRICS
from twmd_registry.registry.metrics import CATALOGUE
from twmd_registry.registry.names import EMBEDDED_READS, MetricName

ROOT = Path(__file__).resolve().parents[2]
CARDS = ROOT / "hub_cards"
LARGEST = 6_000
METRICS_WITH_CARD = metrics_with_card()
EXAMPLE = card_text("twmd")["example"]


def test_every_evaluate_metric_except_the_ensemble_has_a_card() -> None:
    assert set(METRICS_WITH_CARD) == set(METRICS) - {MetricName.ENSEMBLE}
    assert {path.name for path in CARDS.iterdir()} == {"README.md", *METRICS_WITH_CARD}


def test_make_cards_writes_the_cards_of_the_checkout_over_older_ones(tmp_path: Path) -> None:
    (tmp_path / "twmd").mkdir()
    (tmp_path / "twmd" / "README.md").write_text("old", encoding="utf-8")
    write_cards(tmp_path)
    written, kept = (
        {path.relative_to(root): path.read_text(encoding="utf-8") for path in root.glob("*/*")}
        for root in (tmp_path, CARDS)
    )
    assert written == kept


@pytest.mark.parametrize("metric", METRICS_WITH_CARD)
def test_python_examples_print_the_shown_results(metric: MetricName) -> None:
    card = (CARDS / metric / "README.md").read_text(encoding="utf-8")
    source = "\n".join(re.findall(r"^```python\n(.*?)^```", card, flags=re.DOTALL | re.MULTILINE))
    shown = doctest.DocTestParser().get_doctest(source, {}, metric, f"{metric}/README.md", 0)
    assert len(shown.examples) == source.count(">>> ") > 6
    results = doctest.DocTestRunner(verbose=False).run(shown)
    assert (results.failed, results.attempted) == (0, len(shown.examples))


@pytest.mark.parametrize("metric", ["twmd", "stsscore"])
def test_command_of_a_card_verifies_its_score(metric: str, folder: Path) -> None:
    Path("hyp.txt").write_text(f"{EXAMPLE['partial']}\n", encoding="utf-8")
    Path("ref.txt").write_text(f"{EXAMPLE['reference']}\n", encoding="utf-8")
    card = (CARDS / metric / "README.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"^```bash\n(.*?)^```", card, flags=re.DOTALL | re.MULTILINE)
    program, *arguments = shlex.split(block)
    assert program == "twmd"
    assert main(arguments) == 0
    Path("hyp.txt").write_text(f"{EXAMPLE['worst']}\n", encoding="utf-8")
    assert main(arguments) == 1


@pytest.mark.parametrize("metric", METRICS_WITH_CARD)
def test_card_is_short_and_has_the_front_matter_of_a_space(metric: MetricName) -> None:
    card, scores = write_card(metric), card_text(metric)["scores"]
    head = yaml.safe_load(card.split("---\n", 2)[1])
    assert (head["sdk"], head["sdk_version"], head["app_file"]) == ("gradio", SDK_VERSION, "app.py")
    assert scores["worst"] < scores["partial"] < scores["best"]
    assert scores["worst"] < scores["misled"] < scores["best"]
    assert len(card.encode()) <= LARGEST
    assert CATALOGUE[metric].citation in card


def test_agreement_tables_contain_only_measured_numbers() -> None:
    page = (ROOT / "docs" / "agreement.md").read_text(encoding="utf-8")
    log = (ROOT / "experiments" / "LOG.md").read_text(encoding="utf-8")
    printed = set()
    for text, title, correlation in (
        (page, "Pearson r x 100", "pearson"),
        (log, "Pearson r x 100", "pearson"),
        (log, "Kendall tau-b x 100", "kendall"),
    ):
        head, _, *rows = text[text.index(f"| {title} |") :].partition("\n\n")[0].splitlines()
        groups = [cell.strip() for cell in head.split("|")[2:-1]]
        for row in rows:
            name, *cells = (cell.strip(" *") for cell in row.split("|")[1:-1])
            if name.startswith("`"):
                for group, cell in zip(groups, cells, strict=True):
                    kind, where = ("kendall", "mean") if group == "Kendall, mean" else (correlation, group)
                    if len(values := cell.split(" ±")) == 2:
                        printed.add(("wmt17", name.strip("`"), kind, where, *values))
    assert printed == {row for row in measured_correlations() if row[0] == "wmt17"}
    assert len(printed) == 2 * len(MetricName) * 8
    assert {data for data, *_ in measured_correlations()} == set(DATA)
    assert {correlation for _, _, correlation, *_ in measured_correlations()} == set(CORRELATIONS)


def test_unrelated_words_and_texts_have_the_scores_in_the_cards() -> None:
    scorers = [twmd_registry.load(metric) for metric in METRICS_WITH_CARD]
    vocabulary = scorers[0].backend.model.tokenizer.get_vocab()
    ordered = sorted(vocabulary, key=vocabulary.__getitem__)
    words = [word for word in ordered if word.isascii() and word.isalpha() and len(word) > 2]
    rows = [json.loads(line) for line in shared("data/wmt/wmt17.jsonl").read_text(encoding="utf-8").splitlines()]
    pairs = [(rows[i]["candidate"], rows[(i + 1960) % len(rows)]["reference"]) for i in range(0, len(rows), 10)]
    assert len(pairs) == 392
    texts = {"words": (words[:4000:10], words[4000:8000:10]), "unrelated": tuple(map(list, zip(*pairs, strict=True)))}
    for name, (predictions, references) in texts.items():
        own = scorers if name == "words" else scorers[:1]
        for scorer, result in zip(own, twmd_registry.score_all(own, predictions, references), strict=True):
            metric = scorer.spec.metric
            assert result.score == pytest.approx(card_text(metric)["scores"][name], abs=0.0005 + 1e-5), metric
            if name == "words":
                shown = f"unrelated single words: {result.score:.2f}."
                assert shown in (CARDS / metric / "README.md").read_text(encoding="utf-8")


def test_cards_name_the_texts_that_the_embedded_model_reads() -> None:
    result = twmd_registry.load("twmd").score(["US", "sch\u00f6n", "a\u00f1os"], ["us", "schon", "anos"])
    assert result.scores == pytest.approx([1.0] * 3, abs=1e-6)
    for metric in METRICS_WITH_CARD:
        assert EMBEDDED_READS in (CARDS / metric / "README.md").read_text(encoding="utf-8")


def test_stsscores_agreement_on_sts_b_equals_its_cards(run: Run) -> None:
    data = shared("data/stsb/test.csv")
    printed = run(f"correlate stsb:{data} -m stsscore --correlation pearson spearman --format json")[1]
    (result,) = json.loads(printed)["metrics"]
    reached = result["agreement"]
    stated = {row[2]: row[4:] for row in measured_correlations() if row[0] == "stsb-test"}
    assert stated == {
        name: (f"{100 * one['value']:.1f}", f"{50 * (one['high'] - one['low']):.1f}") for name, one in reached.items()
    }
