"""Which segments make a step."""

from __future__ import annotations

import numpy as np
import pytest

from tests.train.rated_words import named_words
from twmd_registry.errors import InputError
from twmd_registry.judgments.rated import RatedSegments
from twmd_registry.train.batches import Batches, batches_of
from twmd_registry.train.data import TrainingData, TrainingExample, examples, scale_of
from twmd_registry.train.recipe import Loss, Recipe


def rows(*data: TrainingData) -> list[TrainingExample]:
    return examples(data, [scale_of(one) for one in data])


@pytest.mark.parametrize("size", [1, 3, 7, 24, 100])
def test_every_row_comes_once_in_an_epoch_in_batches_of_like_size(size: int) -> None:
    pools = [np.arange(0, 50), np.arange(50, 57), np.arange(57, 83)]
    batches = Batches(pools, size, seed=1)
    found = list(batches)
    assert len(found) == len(batches) == sum(-(-len(pool) // size) for pool in pools)
    assert sorted(i for batch in found for i in batch) == list(range(83))
    for pool in pools:
        own = [len(batch) for batch in found if batch[0] in pool]
        assert max(own) <= size
        assert max(own) - min(own) <= 1
        assert all(set(batch) <= set(pool.tolist()) for batch in found if batch[0] in pool)


def test_epoch_is_drawn_from_its_number_and_the_seed() -> None:
    def epoch(seed: int, number: int) -> list[list[int]]:
        batches = Batches([np.arange(40)], 8, seed)
        batches.set_epoch(number)
        return list(batches)

    assert epoch(1, 3) == epoch(1, 3)
    assert len({str(epoch(seed, number)) for seed in (1, 2) for number in (0, 1)}) == 4


def test_correlation_is_within_one_group_of_one_data_set() -> None:
    data = rows(named_words(40, 1), named_words(30, 2))
    found = list(batches_of(data, Recipe(batch=8, loss=Loss.PEARSON)))
    assert all(len({data[i].group for i in batch}) == 1 for batch in found)
    assert {data[batch[0]].group for batch in found} == {
        (f"words{seed}", group) for seed in (1, 2) for group in ("cs-en", "de-en")
    }
    together = list(batches_of(data, Recipe(batch=8)))
    assert len(together) == 9
    assert any(len({data[i].group for i in batch}) > 1 for batch in together)


def test_groups_too_small_for_a_correlation_are_named() -> None:
    whole = named_words(6, 1)
    few = RatedSegments([*whole.rated.group[:5], "fi-en"], *whole.rated[1:])
    message = (
        r"loss=pearson needs 3 segments of a group: leave out words, group de-en \(2\); words, group fi-en \(1\), "
        r"or train with loss=mse."
    )
    with pytest.raises(InputError, match=message):
        batches_of(rows(TrainingData("words", few)), Recipe(loss=Loss.PEARSON))
    assert len(batches_of(rows(TrainingData("words", few)), Recipe())) == 1


def test_groups_whose_ratings_do_not_vary_are_named() -> None:
    whole = named_words(20, 1).rated
    ratings = np.where(np.array(whole.group) == "de-en", 0.5, whole.ratings)
    with pytest.raises(
        InputError,
        match=(
            "loss=pearson needs ratings that vary within a group: leave out words, group de-en, or train with loss=mse."
        ),
    ):
        batches_of(rows(TrainingData("words", whole._replace(ratings=ratings))), Recipe(loss=Loss.PEARSON))
