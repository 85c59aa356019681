"""The averages of the metrics shared task against their separately computed parts."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

from experiments.protocols.tasks import (
    EVERY_DOMAIN,
    EVERY_PAIR,
    PUBLISHED,
    TASKS,
    RankTask,
    TaskPart,
    TaskResult,
    average_ranks,
    list_rank_tasks,
    rank_by_tasks,
    read_divisions,
    run_task,
    share_weight,
)
from tests.conftest import Run
from tests.judgments.test_mt_metrics_eval import wmt
from tests.judgments.test_readers import written
from tests.metaeval.pairwise import correlate_pairs
from tests.metaeval.test_agreement import make_campaign
from twmd_registry.errors import InputError
from twmd_registry.judgments.official import LabelledScores
from twmd_registry.judgments.rated import RatedSegments
from twmd_registry.judgments.sets import content_of, read_rated
from twmd_registry.metaeval.study import Study
from twmd_registry.registry.names import Statistic
from twmd_registry.registry.options import RunOptions

NAMES = {"g0": "en-de", "g1": "zh-en"}


def make_task() -> tuple[list[LabelledScores], RatedSegments]:
    """Return the scores of a better and a worse metric on two language pairs of WMT23."""
    scores, rated = make_campaign(noise=5.0)
    worse = scores + np.random.default_rng(3).normal(0, 60, len(scores))
    rated = rated._replace(group=[NAMES[name] for name in rated.group])
    both = {"worse": worse, "better": scores}
    return [
        LabelledScores(f"{name}*", f"official:{name}@{'0' * 12}", tuple(values)) for name, values in both.items()
    ], rated


def run_made(task: str, metrics: list[LabelledScores], rated: RatedSegments) -> TaskResult:
    study = Study("made", content_of(rated), tuple(metrics), ("pearson",))
    return run_task(task, study, rated, RunOptions())


def test_wmt23_averages_accuracy_correlations_and_acc_eq() -> None:
    metrics, rated = make_task()
    result = run_made("wmt23", metrics, rated)
    assert [metric.label for metric in result.scored] == ["better*", "worse*"]
    group, system, item = (np.array(labels) for labels in (rated.group, rated.system, rated.item))
    scores, expected, alike = np.array(metrics[1].scores), [], []
    for pair in ("en-de", "zh-en"):
        in_pair = group == pair
        means = np.array(
            [[v[in_pair & (system == s)].mean() for s in np.unique(system)] for v in (scores, rated.ratings)]
        )
        signs = [np.sign(np.subtract.outer(side, side)[np.triu_indices(5, 1)]) for side in means]
        alike += (signs[0] == signs[1]).tolist()
        correlations = (
            stats.pearsonr(*means).statistic,
            stats.pearsonr(scores[in_pair], rated.ratings[in_pair]).statistic,
        )
        expected += [(1 + r) / 2 for r in correlations]  # from 0 to 1, as accuracies
        expected.append(correlate_pairs("acc_eq", scores[in_pair], rated.ratings[in_pair], item[in_pair]))
    expected += [np.mean(alike)] * 2  # the same weight as a part of both pairs
    assert result.averages[0] == pytest.approx(np.mean(expected), abs=1e-12)
    assert result.notes == ("wmt23: no ratings of he-en; the average is over en-de, zh-en.",)
    assert result.tables["task"][1][2] == "accuracy of systems (x 2)"
    unrated = [run_made(task, metrics, rated._replace(dropped=2)).notes[-1] for task in ("wmt23", "wmt24")]
    assert ["worse*, better* scores systems by the mean of rated" in note for note in unrated] == [True, False]


def test_wmt24_averages_spa_and_acc_eq_and_refuses_other_pairs() -> None:
    metrics, rated = make_task()
    parts = run_made("wmt24", metrics, rated).parts[0]
    assert list(parts) == ["en-de system spa", "en-de segment acc_eq"]
    rows = [i for i, name in enumerate(rated.group) if name == "en-de"]
    items, systems = ([labels[i] for i in rows] for labels in (rated.item or [], rated.system or []))
    spa = correlate_pairs("spa", np.array(metrics[1].scores)[rows], rated.ratings[rows], items, systems)
    assert parts["en-de system spa"]["value"] == pytest.approx(spa, abs=1e-12)
    metrics, rated = make_task()
    with pytest.raises(InputError, match="wmt24 ranks metrics on en-de, en-es, ja-zh; these data have none of them"):
        run_made("wmt24", metrics, rated._replace(group=["cs-en"] * len(rated.group)))
    with pytest.raises(InputError, match="divided further, as 'en-de news'"):
        run_made("wmt23", metrics, rated._replace(group=["en-de news"] * len(rated.group)))
    assert set(TASKS) == {"wmt22", "wmt23", "wmt24"}


PAIRS, DOMAINS, SYSTEMS, ITEMS = ("en-de", "en-ru", "zh-en"), ("chat", "news", "shop", "social"), 5, 16
PEOPLE = "refB"


def make_year(metrics: int = 3) -> tuple[list[list[float]], RatedSegments]:
    """Return the scores of increasingly noisy metrics, and ratings of a year like WMT22."""
    rng = np.random.default_rng(4)
    rows = [
        (pair, DOMAINS[item % 4], system, f"{pair}:{item + 1}")
        for pair in PAIRS
        for system in [*(f"s{k}" for k in range(SYSTEMS)), *([PEOPLE] if pair != "en-ru" else [])]
        for item in range(ITEMS)
    ]
    groups, domains, systems, items = map(list, zip(*rows, strict=True))
    quality = np.array([3.0 if system == PEOPLE else float(system[1]) for system in systems])
    ratings = np.round(quality + rng.normal(0, 2, len(rows)))
    scores = [ratings + rng.normal(0, 0.5 + 3 * k, len(rows)) for k in range(metrics)]
    rated = RatedSegments(groups, [""] * len(rows), [""] * len(rows), ratings, 0, items, systems)
    rated = rated._replace(domain=domains, by_person=[system == PEOPLE for system in systems])
    return [row.tolist() for row in scores], rated


def measure(
    scores: list[list[float]], rated: RatedSegments, tasks: list[RankTask], trials: int = 0
) -> tuple[dict[RankTask, TaskPart], ...]:
    return rank_by_tasks(tasks, scores, [{}] * len(scores), rated, trials=trials, seed=1, done=lambda: None)


def test_complete_year_has_the_published_tasks_and_weights() -> None:
    tasks = list_rank_tasks(PAIRS, make_year()[1])
    assert len(tasks) == len(set(tasks)) == PUBLISHED
    assert Counter(pair for pair, *_ in tasks) == {EVERY_PAIR: 1, "en-de": 80, "en-ru": 40, "zh-en": 80}
    weights = share_weight(tasks)
    assert sum(weights.values()) == pytest.approx(1)
    assert weights[tasks[0]] == 1 / 4  # of four values of the language pair
    for task in tasks[1:]:
        share = 1 / 4 / 5 / 2 / (1 if task.pair == "en-ru" else 2) / (3 if task.level == "segment" else 1) / 2
        assert weights[task._replace(statistic="kendall")] == pytest.approx(share)


def test_ranks_equal_separately_computed_correlations() -> None:
    scores, rated = make_year()
    tasks = list_rank_tasks(PAIRS, rated)
    measured = measure(scores, rated, tasks)
    group, domain, system, item = map(np.array, (rated.group, rated.domain, rated.system, rated.item))
    functions: dict[Statistic, Callable[..., Any]] = {"pearson": stats.pearsonr, "kendall": stats.kendalltau}
    for task in tasks[1::7]:
        pair, part_of_pair, level, humans, averaging, statistic = task
        rows = (group == pair) & (np.isin(domain, DOMAINS if part_of_pair == EVERY_DOMAIN else part_of_pair))
        rows &= (system != PEOPLE) | (humans == "with people")
        values = []
        for system_parts in np.array(scores):
            if level == "system":
                sides = (system_parts, rated.ratings)
                parts = [np.array([[v[rows & (system == s)].mean() for s in set(system[rows])] for v in sides])]
            else:
                column = {"none": group, "system": system, "item": item}[averaging]
                both = np.array([system_parts, rated.ratings])
                parts = [both[:, rows & (column == name)] for name in set(column[rows])]
            correlations = [functions[statistic](*part).statistic for part in parts if np.ptp(part, axis=1).all()]
            values.append(np.mean(correlations))
        found = [parts_of_metric[task] for parts_of_metric in measured]
        assert [part["value"] for part in found] == pytest.approx(values)
        assert [part["averaged"] for part in found] == stats.rankdata(np.negative(values), method="min").tolist()
    system_parts = [part for (_, _, level, *_), part in measured[1].items() if level == "system"]
    expected = np.average(
        [part["averaged"] for part in system_parts], weights=[part["weight"] for part in system_parts]
    )
    assert average_ranks(measured[1])["system"] == pytest.approx(expected)


def test_missing_language_pairs_are_named_and_the_others_ranked(tmp_path: Path, run: Run) -> None:
    texts = ["it rains", "a dog barks", "the sun sets", "no bread"]
    outputs = {f"s{k}": [text[: 2 + 2 * k] for text in texts] for k in range(4)} | {PEOPLE: [f"{t}!" for t in texts]}
    scores = "".join(f"{name}\t{-((i + k) % 4) - i}\n" for i, name in enumerate(outputs) for k in range(4))
    folder = wmt(tmp_path, scores, {name: "\n".join(lines) + "\n" for name, lines in outputs.items()}, "en-de")
    for name in ("refA", PEOPLE):
        written(folder, "\n".join(texts) + "\n", f"references/en-de.{name}.txt")
    shown = run(f"task wmt22 mte:{folder} -m chrf bleu")[1]
    assert "wmt22: no ratings of en-ru, zh-en; the average is over en-de." in shown
    assert "wmt22: 9 of 201 tasks; no documents, and so no domains, of en-de; no human translations of" in shown
    written(folder, "news a\nnews a\nchat b\nchat b\n", "documents/en-de.docs")
    written(folder, "news\ts0\t-7\n", "human-scores/en-de.mqm.domain.score")
    data = f"mte:{folder},humans=yes"
    _, shown, warned = run(f"task wmt22 {data} -m chrf bleu --format json --trials 9")
    assert "the mean of their segments' ratings is used: refB of en-de chat, s0 of en-de chat, s1" in warned
    result = json.loads(shown)
    by_system_in_a_domain = (
        2 * 2 * 2
    )  # domains of two segments, with and without human translations, by Pearson and Kendall
    note = "wmt22: 41 of 201 tasks; 8 are left out, in which a metric has no correlation."
    assert result["notes"][1:] == [note]
    assert len(result["metrics"][0]["parts"]) == 49 - by_system_in_a_domain
    averages = [metric["average"] for metric in result["metrics"]]
    assert averages == sorted(averages)
    _, _, warned = run(f"task wmt22 {data},group=domain -m chrf")
    assert "these data are divided further, as 'en-de news'" in warned
    assert "en-de news news" not in warned  # nobody requested ratings of subdomains
    rated = read_divisions(data, read_rated(data))
    assert rated.domain is not None
    assert rated.domain[:4] == ["news", "news", "chat", "chat"]
    assert rated.by_person == [False] * 16 + [True] * 4
    assert rated.system_ratings == {("en-de news", "s0"): -7}
