"""Training data: checks, standardised ratings, batches."""

from __future__ import annotations

import numpy as np
import pytest

from tests.train.rated_words import named_words, rated_words
from twmd_registry.errors import InputError, TwmdWarning
from twmd_registry.judgments.rated import RatedSegments
from twmd_registry.train.data import (
    Batches,
    TrainingData,
    check_held_out,
    make_batches,
    make_examples,
    rating_scale,
    segments_of,
    warn_about_overlap,
)
from twmd_registry.train.recipe import Recipe


@pytest.mark.parametrize(
    ("ratings", "message"),
    [
        ([1.0, 2.0, float("nan")], r"^set: ratings\[2\] is nan; expected a finite number: leave the segment out\.$"),
        ([0.5, 0.5, 0.5], r"^set: ratings do not vary \(all 3 are 0\.5\); nothing can be learned"),
        ([1.0, 1.0 + 1e-7, 1.0], r"^set: ratings do not vary \(all 3 are 1\)"),
    ],
)
def test_non_finite_or_constant_ratings_are_refused(ratings: list[float], message: str) -> None:
    data = TrainingData("set", rated_words(4, 1)._replace(ratings=np.array(ratings)))
    with pytest.raises(InputError, match=message):
        rating_scale(data)


def test_ratings_are_standardised_and_texts_checked_within_each_data_set() -> None:
    data = [named_words(20, 1), TrainingData("percent", rated_words(10, 2)._replace(ratings=np.arange(10) * 11.0))]
    examples = make_examples(data)
    assert rating_scale(data[1]) == pytest.approx((49.5, 11 * (99 / 12) ** 0.5))
    for one, part in ((data[0], examples[:20]), (data[1], examples[20:])):
        z = [target for _, _, target, _ in part]
        assert (np.mean(z), np.std(z)) == pytest.approx((0, 1))
        assert np.corrcoef(z, one.rated.ratings)[0, 1] == pytest.approx(1)
    assert [row[0] for row in examples] == [*data[0].rated.predictions, *data[1].rated.predictions]
    rated = rated_words(4, 1)
    rated.references[2] = 7
    with pytest.raises(InputError, match=r"^set: references\[2\] must be a text"):
        segments_of(TrainingData("set", rated))


def test_shared_references_are_refused_if_held_out_and_counted_in_dev() -> None:
    train, dev, tested = named_words(20, 1), named_words(10, 2), rated_words(6, 3)
    check_held_out([train, dev], [TrainingData("test", tested)])
    copy = train.rated.references[4]
    spaced = f" {dev.rated.references[3]} ".replace(" ", "  ").upper()
    tested.references[:] = [[copy, "it ran"], [spaced], *([one] for one in tested.references[2:])]
    copies = sum(reference == copy for reference in train.rated.references)
    found = rf"words1 {copies} of 20 \(the first: \d+\), words2 1 of 10 \(the first: 4\); remove them"
    with pytest.raises(InputError, match=rf"held out \(test\): {found}"):
        check_held_out([train, dev], [TrainingData("test", tested)])
    dev.rated.references[0] = copy
    message = r"^words2: segments whose reference is also in the training data: 1 of 10; dev overestimates the model\.$"
    with pytest.warns(TwmdWarning, match=message):
        warn_about_overlap([train], [dev])


@pytest.mark.parametrize(
    ("own", "held_out"),
    [
        ("caf\u00e9", "cafe\u0301"),
        ("it\u2019s \u201cover\u201d", 'it\'s "over"'),
        ("\u00abja\u00bb \u2013 nein", "'ja' - nein"),
        ("on page 1\u20132", "ON page\u00a01-2"),
        ("\ufb01ve \uff11\uff12 co\u00adop", "FIVE 12 coop"),
        ("Stra\u00dfe", "STRASSE"),
    ],
)
def test_held_out_text_is_found_in_another_unicode_form(own: str, held_out: str) -> None:
    rated = rated_words(2, 1)
    train = TrainingData("train", rated._replace(references=["it ran", own]))
    test = TrainingData("test", rated._replace(references=["a cat", held_out]))
    for first, second in ((train, test), (test, train)):
        with pytest.raises(InputError, match=r"held out .*: \w+ 1 of 2 \(the first: 2\)"):
            check_held_out([first], [second])


@pytest.mark.parametrize("size", [1, 7, 100])
def test_epoch_draws_every_row_once_in_batches_of_similar_size(size: int) -> None:
    pools = [np.arange(0, 50), np.arange(50, 57), np.arange(57, 83)]
    batches = Batches(pools, np.arange(83) % 9, size, seed=1)
    found = list(batches)
    assert len(found) == len(batches) == sum(-(-len(pool) // size) for pool in pools)
    assert sorted(i for batch in found for i in batch) == list(range(83))
    for pool in pools:
        in_pool = [batch for batch in found if batch[0] in pool]
        sizes = [len(batch) for batch in in_pool]
        assert max(sizes) <= min(size, min(sizes) + 1)
        assert all(set(batch) <= set(pool.tolist()) for batch in in_pool)


def test_batch_of_pearson_loss_holds_a_single_group_with_a_correlation() -> None:
    examples = make_examples([named_words(40, 1), named_words(30, 2)])
    groups = [{examples[i][3] for i in batch} for batch in make_batches(examples, Recipe(batch=8, loss="pearson"))]
    assert all(len(groups_of_batch) == 1 for groups_of_batch in groups)
    assert set().union(*groups) == {(f"words{seed}", group) for seed in (1, 2) for group in ("cs-en", "de-en")}
    mixed = list(make_batches(examples, Recipe(batch=8)))
    assert len(mixed) == 9
    assert any(len({examples[i][3] for i in batch}) > 1 for batch in mixed)
    rated = rated_words(6, 1)
    few = RatedSegments([*rated.group[:5], "fi-en"], *rated[1:])
    constant = rated._replace(ratings=np.where(np.array(rated.group) == "de-en", 0.5, rated.ratings))
    for data, left in (
        (few, r"words, group de-en \(2\); words, group fi-en \(1\)"),
        (constant, r"words, group de-en \(3\)"),
    ):
        examples = make_examples([TrainingData("words", data)])
        with pytest.raises(InputError, match=f"^loss=pearson needs 3 segments .*: leave out {left}, or train with"):
            make_batches(examples, Recipe(loss="pearson"))
        assert len(make_batches(examples, Recipe())) == 1
