"""Mean correlations of settings against one scorer at a time."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from tests import tiny
from twmd_registry.engine.scorer import Scorer
from twmd_registry.errors import InputError, TwmdWarning
from twmd_registry.judgments.rated import RatedSegments, select
from twmd_registry.metaeval.tune import mean_correlations
from twmd_registry.registry.spec import make_spec

R = np.random.default_rng(9)


def made_up(sizes: dict[str, int]) -> RatedSegments:
    """Groups of different sizes, their rows mixed."""
    group = list(R.permutation([name for name, size in sizes.items() for _ in range(size)]))
    texts = [" ".join(R.choice(tiny.WORDS, size=R.integers(2, 7))) for _ in range(2 * len(group))]
    return RatedSegments(group, texts[::2], texts[1::2], R.normal(size=len(group)), 0)


@pytest.fixture(scope="module")
def scorers(tmp_path_factory: pytest.TempPathFactory) -> list[Scorer]:
    model = str(tiny.save_encoder("bert", tmp_path_factory.mktemp("bert")))
    sides = [
        make_spec("twmd", "paper", model=model, layer=2, temperature=0.1, output=side)
        for side in ("precision", "recall", "f1")
    ]
    return [Scorer(spec) for spec in [*sides, make_spec("sbert", "paper", model=model, layer=1)]]


def test_agreement_is_the_plain_mean_of_groups_scored_apart(scorers: list[Scorer]) -> None:
    rated, expected = made_up({"a": 40, "b": 5}), []
    for one in scorers:
        groups = [select(rated, np.flatnonzero(np.array(rated.group) == name)) for name in ("a", "b")]
        expected.append(
            np.mean(
                [
                    stats.pearsonr(one.score(own.predictions, own.references).scores, own.ratings).statistic
                    for own in groups
                ]
            )
        )
    assert mean_correlations(scorers, rated) == pytest.approx(expected, abs=1e-5)
    assert len(set(expected)) == 4


def test_group_without_a_correlation_is_named_and_left_out(scorers: list[Scorer]) -> None:
    whole = made_up({"a": 12, "b": 2})
    with pytest.warns(
        TwmdWarning,
        match="b: no correlation for 4 of 4 settings: pearson is undefined: 3 or more segments are needed, there are 2",
    ):
        found = mean_correlations(scorers, whole)
    assert (
        found.tolist()
        == mean_correlations(scorers, select(whole, np.flatnonzero(np.array(whole.group) == "a"))).tolist()
    )
    with pytest.warns(TwmdWarning), pytest.raises(InputError, match=r"no group has a correlation: b \(2 segments\)"):
        mean_correlations(scorers, made_up({"b": 2}))


def test_setting_that_does_not_vary_where_others_do_is_refused(scorers: list[Scorer]) -> None:
    words = RatedSegments(["a"] * 4, list(tiny.WORDS[:4]), [tiny.WORDS[4]] * 4, np.arange(4.0), 0)
    spec = scorers[3].requested  # sentence centering leaves nothing of one word
    own = [Scorer(spec.replace(special="none", centering=centering)) for centering in ("none", "sentence")]
    with (
        pytest.warns(TwmdWarning),
        pytest.raises(
            InputError, match=r"group a: pearson is undefined for .*centering=sentence.*, and not for others"
        ),
    ):
        mean_correlations(own, words)
