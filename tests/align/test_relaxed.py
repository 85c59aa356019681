"""``trwmd``: tempered relaxed transport."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given

from tests.align.problems import QUICK, Drawn, pair, pairs, tempered
from tests.oracles import family as oracle
from twmd_registry.align.relaxed import relaxed


@QUICK
@given(pairs)
def test_float32_is_as_exact_at_low_temperatures_as_at_any(p: Drawn) -> None:
    # C moves by at most 1 + 2 log(partners) times what S does, whatever the temperature.
    rounded = p.s.to(torch.float32)
    for temperature in (1e-5, 1e-3, 0.1):
        wanted = oracle.relaxed(np.asarray(rounded[0].to(torch.float64).numpy()), temperature)
        assert float(relaxed(rounded, p.hyp, p.ref, tempered(temperature))) == pytest.approx(wanted, abs=1e-6)


def test_trwmd_with_any_number_of_sweeps_is_the_same() -> None:
    p = pair(2, 2)
    assert (
        float(relaxed(*p, tempered(0.1, None)))
        == float(relaxed(*p, tempered(0.1, 1)))
        == float(relaxed(*p, tempered(0.1, 9)))
    )
