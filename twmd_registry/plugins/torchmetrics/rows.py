"""Segments as bytes in a tensor: what torchmetrics can keep, move, save and gather over processes."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch

from twmd_registry.engine.pairs import Segments, check_segments
from twmd_registry.errors import InputError


class Row(NamedTuple):
    """One segment.

    Attributes:
        position: Its number in the data set; None where nobody said.
        prediction: The text.
        references: Its references, at least one.
    """

    position: int | None
    prediction: str
    references: list[str]


def make_rows(
    predictions: object, references: object, positions: torch.Tensor | Sequence[int] | int | None
) -> list[Row]:
    """Check segments and number them.

    Args:
        predictions: As for `check_segments`.
        references: As for `check_segments`.
        positions: One whole number from 0 per segment; a number alone for a single one; or None.

    Raises:
        InputError: The texts cannot be scored, or a position that is none; names the row.
    """
    segments = check_segments(predictions, references)
    if positions is None:
        return [Row(None, *segment) for segment in zip(*segments, strict=True)]
    numbers = np.atleast_1d(positions.cpu() if isinstance(positions, torch.Tensor) else positions).tolist()
    if len(numbers) != len(segments.predictions):
        raise InputError(
            f"there are {len(segments.predictions)} predictions but {len(numbers)} positions: give one position "
            "for each."
        )
    for row, number in enumerate(numbers):
        if isinstance(number, bool) or not isinstance(number, int) or number < 0:
            raise InputError(
                f"positions[{row}] must be a whole number from 0, the segment's place in the data set; got {number!r}."
            )
    return [Row(*row) for row in zip(numbers, *segments, strict=True)]


def write_rows(rows: Sequence[Row], device: torch.device) -> torch.Tensor:
    """Write segments as lines of JSON in UTF-8, which can be cut and joined anywhere between lines.

    Args:
        rows: The segments.
        device: Where the tensor is to be.

    Returns:
        Shape (bytes,), uint8.
    """
    lines = "".join(json.dumps(row, ensure_ascii=False, separators=(",", ":")) + "\n" for row in rows)
    return torch.from_numpy(np.array(bytearray(lines.encode()), dtype=np.uint8)).to(device)


def read_rows(content: torch.Tensor) -> list[Row]:
    """Read segments that `write_rows` wrote.

    Args:
        content: Shape (bytes,); of any type, for a byte is exact in all of them (torchmetrics' ``set_dtype`` converts
            states).

    >>> row = Row(None, "it rains", ["rain"])
    >>> read_rows(write_rows([row], torch.device("cpu")).bfloat16()) == [row]
    True
    """
    text = bytes(content.to("cpu", torch.uint8).numpy()).decode()
    return [Row(*json.loads(line)) for line in text.split("\n")[:-1]]


def in_order(rows: Sequence[Row]) -> Segments:
    """Put segments in the order of the data, each position once.

    Args:
        rows: Segments in the order they were gathered, which stays where they have no positions.

    Raises:
        InputError: There is none; some have positions and others not; or one position has different texts.
    """
    if not rows:
        raise InputError("there is nothing to score: update() with predictions and references first.")
    if any(row.position is None for row in rows):
        if any(row.position is not None for row in rows):
            raise InputError(
                "some segments came with positions and others without: give positions in every update() or in none."
            )
        return Segments([row.prediction for row in rows], [row.references for row in rows])
    found: dict[int, Row] = {}
    for row in rows:
        if row.position is not None and found.setdefault(row.position, row) != row:
            raise InputError(
                f"two segments with different texts came as position {row.position}: a position is a segment's "
                "place in the data set."
            )
    ordered = [found[position] for position in sorted(found)]
    return Segments([row.prediction for row in ordered], [row.references for row in ordered])
