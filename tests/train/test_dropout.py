"""Dropout in training is what was asked for, in every family of encoders."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import Tensor

from tests.tiny import FAMILIES, OTHERS, save_encoder
from twmd_registry.encode.encoder import Encoder
from twmd_registry.models.files import find_model
from twmd_registry.train.weights import set_dropout

TOKENS = torch.arange(4, 12)[None]


@pytest.mark.parametrize("family", [*FAMILIES, *OTHERS])
def test_share_is_what_is_asked_for(family: str, tmp_path: Path) -> None:
    network = Encoder(
        find_model(str(save_encoder(family, tmp_path / family))), None, "float32", torch.device("cpu")
    ).network

    def hidden() -> Tensor:
        found: Tensor = network(input_ids=TOKENS, attention_mask=torch.ones_like(TOKENS)).last_hidden_state.detach()
        return found

    still = hidden()
    set_dropout(network, 0.5)
    assert torch.equal(hidden(), still)  # while it scores, nothing is left out
    network.train()
    assert not torch.allclose(hidden(), hidden())
    set_dropout(network, 0.0)
    torch.testing.assert_close(hidden(), still)
