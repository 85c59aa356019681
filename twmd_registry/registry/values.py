"""Composite values of a specification. Each is parsed once, checked when created, and writes its canonical form."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, cast, get_args

from twmd_registry.errors import SpecError, shown
from twmd_registry.registry.names import CENTERINGS, AggregationKind, CenteringKind, RoutingKernel, Side

MAX_LAYER, MAX_POWERS = 999, 16
"""Largest number of a hidden state, and largest number of power means."""
MAX_BATCH = 1_000_000
"""Largest centering batch, so a stranger's signature can be computed."""
MAX_TOKENS, MAX_OVERLAP = 1_000_000, 64
"""Largest truncation limit in tokens, and largest number of windows per token."""


def _is_whole(value: object, largest: int) -> bool:
    return type(value) is int and 1 <= value <= largest


def _is_layer(value: object) -> bool:
    return type(value) is int and abs(value) <= MAX_LAYER


@dataclass(frozen=True)
class Layers:
    """The hidden states to read.

    Attributes:
        numbers: Ascending, 0 for the embedding layer. Negative ones follow. They count from the end, -1 for the last,
            and only a model can resolve them.
    """

    numbers: tuple[int, ...]

    def __post_init__(self) -> None:
        """Sort the numbers; raise SpecError for an impossible or missing number."""
        numbers: object = self.numbers
        if not isinstance(numbers, tuple) or not numbers or not all(map(_is_layer, numbers)):
            raise SpecError(f"layers {shown(numbers)} are not possible: expected a tuple of whole numbers.")
        object.__setattr__(self, "numbers", tuple(sorted(set(numbers), key=lambda number: (number < 0, number))))

    @classmethod
    def parse(cls, value: object) -> Layers:
        """Parse a number, an iterable of numbers, or a text such as ``2-6``, ``1,3,6``, ``-1`` or ``last:5``.

        >>> str(Layers.parse([4, 2, 3])), str(Layers.parse(range(-5, 0))), str(Layers.parse("0,-1"))
        ('2-4', 'last:5', '0,-1')
        """
        if isinstance(value, Layers):
            return value
        if not isinstance(value, str):
            is_iterable = isinstance(value, Iterable) and not isinstance(value, bytes | bytearray)
            numbers: Iterable[Any] = value if is_iterable else (value,)  # type: ignore[assignment]
            return cls(tuple(number.item() if hasattr(number, "item") else number for number in numbers))
        text = re.sub(r"\s*([,-])\s*", r"\1", value.strip())
        if match := re.fullmatch(r"last:([1-9][0-9]{0,2})", text):
            return cls(tuple(range(-int(match[1]), 0)))
        part = r"-[1-9][0-9]{0,2}|[0-9]{1,3}(-[0-9]{1,3})?"
        if not re.fullmatch(rf"({part})(,({part}))*", text):
            raise SpecError(f"layers {shown(value)} are not possible.")
        chosen: list[int] = []
        for numbers_text in text.split(","):
            first, dash, last = numbers_text.partition("-")
            if not first or not dash:
                chosen.append(int(numbers_text))
            elif int(last) < int(first):
                raise SpecError(f"layers {numbers_text} run backwards.")
            else:
                chosen += range(int(first), int(last) + 1)
        return cls(tuple(chosen))

    def __str__(self) -> str:
        """Return the canonical text."""
        first, last = self.numbers[0], self.numbers[-1]
        is_range = len(self.numbers) > 1 and len(self.numbers) == last - first + 1 and (first < 0) == (last < 0)
        if is_range and first >= 0:
            return f"{first}-{last}"
        if is_range and last == -1:
            return f"last:{len(self.numbers)}"
        return ",".join(map(str, self.numbers))

    @property
    def value(self) -> int | str:
        """The value of the key: a number for one layer, otherwise the text."""
        return self.numbers[0] if len(self.numbers) == 1 else str(self)

    @property
    def is_open(self) -> bool:
        """Whether only a model can resolve the numbers."""
        return self.numbers[-1] < 0

    def settle(self, depth: int) -> Layers:
        """Return the layers of a model with hidden states 0 to `depth`; raise SpecError if it has too few."""
        # Counted from the end, the embedding layer is only reached in a table of word vectors.
        if any(-number > max(depth, 1) for number in self.numbers):
            raise SpecError(f"layer={self} is out of range: this model has {depth} layers.")
        return Layers(tuple(number if number >= 0 else depth + 1 + number for number in self.numbers))


_POWERS = (float("inf"), float("-inf"), *range(1, 100))
"""Valid p of power means: numbers of both signs have these p-th roots only."""


@dataclass(frozen=True)
class Aggregation:
    """How to combine the vectors of several layers.

    Attributes:
        kind: ``mean``, ``concat``, ``pmeans`` or ``routing``.
        powers: For ``pmeans``, whole numbers from 1 to 99, or plus or minus infinity.
        kernel: For ``routing``.
    """

    kind: AggregationKind
    powers: tuple[float, ...] = ()
    kernel: RoutingKernel | None = None

    def __post_init__(self) -> None:
        """Raise SpecError if the parts do not fit the kind."""
        if (
            self.kind not in get_args(AggregationKind)
            or not isinstance(self.powers, tuple)
            or not all(power in _POWERS for power in self.powers)
            or not (1 <= len(self.powers) <= MAX_POWERS if self.kind == "pmeans" else not self.powers)
            or not (self.kernel in get_args(RoutingKernel) if self.kind == "routing" else self.kernel is None)
        ):
            raise SpecError(f"aggregation {self.kind}, powers {self.powers}, kernel {self.kernel} is not possible.")

    @classmethod
    def parse(cls, value: object) -> Aggregation:
        """Parse ``mean``, ``pmeans:-inf,1,inf`` or ``routing:gaussian``; the part after the colon has a default."""
        if isinstance(value, Aggregation):
            return value
        kind, colon, rest = str(value).partition(":")
        if kind == "pmeans":
            texts = [text.strip().lower().removeprefix("+") for text in (rest or "-inf,1,inf").split(",")]
            if not all(re.fullmatch(r"-?inf|[1-9][0-9]?", text) for text in texts):
                raise SpecError(f"power means {rest!r} are not possible.")
            return cls("pmeans", tuple(map(float, texts)))
        if kind == "routing":
            return cls("routing", kernel=cast("RoutingKernel", rest or "gaussian"))
        if colon:
            raise SpecError(f"aggregation {value!r} is not possible.")
        return cls(cast("AggregationKind", kind))

    def __str__(self) -> str:
        """Return the canonical text."""
        parts = self.kernel or ",".join(f"{power:g}" for power in self.powers)
        return f"{self.kind}:{parts}" if parts else self.kind


@dataclass(frozen=True)
class Centering:
    """What to subtract from token vectors.

    Attributes:
        kind: The kind.
        size: Segments per batch, for ``batch``.
        side: One mean for both sides (``joint``) or one each (``separate``), for ``batch`` and ``corpus``.
        means: For ``background``, the hash or file of the mean vector, and of the sources' own if there is one; empty
            for the packaged mean.
    """

    kind: CenteringKind = "none"
    size: int | None = None
    side: Side | None = None
    means: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Raise SpecError if the parts do not fit the kind."""
        if self.kind not in CENTERINGS:
            raise SpecError(f"centering={self.kind!r} is not possible: expected one of {', '.join(CENTERINGS)}.")
        uses = CENTERING_PARTS.get(self.kind, ())
        for part, value, key in (("size", self.size, "centering_size"), ("side", self.side, "centering_side")):
            if value is not None and part not in uses:
                other = f"{key} has no effect with centering={self.kind}"
                raise SpecError(f"{other}: only centering=batch or corpus uses it.")
            if value is None and part in uses:
                raise SpecError(f"centering={self.kind} leaves out {key}: set it.")
        if self.size is not None and not _is_whole(self.size, MAX_BATCH):
            raise SpecError(f"centering_size={self.size!r} is not possible: a whole number from 1 to {MAX_BATCH}.")
        if self.side is not None and self.side not in get_args(Side):
            raise SpecError(f"centering_side={self.side!r} is not possible: one of {', '.join(get_args(Side))}.")
        means: object = self.means
        if (
            not isinstance(means, tuple)
            or not all(map(_is_name, means))
            or len(means) > 2 * (self.kind == "background")
        ):
            raise SpecError(f"mean vectors {self.means!r} of centering={self.kind} are not possible.")

    def __str__(self) -> str:
        """Return the value of the key ``centering``."""
        return f"{self.kind}:{'+'.join(self.means)}" if self.means else self.kind


CENTERING_PARTS: dict[object, tuple[str, ...]] = {"batch": ("size", "side"), "corpus": ("side",)}
"""The parts that each kind of centering needs; ``background`` may have means."""


def _is_name(text: object) -> bool:
    return isinstance(text, str) and bool(text.strip()) and not any(c in text for c in "\n\r\0")


@dataclass(frozen=True)
class Idf:
    """Inverse document frequencies that weight the tokens.

    Attributes:
        kind: ``corpus`` (each side's own), ``references`` (the references', for both sides), or ``background``.
        table: For ``background``, the hash or file of the document frequencies.
    """

    kind: str
    table: str | None = None

    def __post_init__(self) -> None:
        """Raise SpecError for an unknown kind, or a table that does not fit the kind."""
        fits = _is_name(self.table) if self.kind == "background" else self.table is None
        if self.kind not in ("corpus", "references", "background") or not fits:
            raise SpecError(f"idf {self.kind!r} with table {self.table!r} is not possible.")

    @classmethod
    def parse(cls, value: object) -> Idf:
        """Parse ``corpus``, ``references``, or ``background:`` followed by a hash or file."""
        if isinstance(value, Idf):
            return value
        kind, colon, rest = str(value).partition(":")
        return cls(kind, rest if colon else None)

    def __str__(self) -> str:
        """Return the canonical text."""
        return self.kind if self.table is None else f"{self.kind}:{self.table}"

    @property
    def is_counted(self) -> bool:
        """Whether frequencies are counted over the scored texts."""
        return self.table is None


@dataclass(frozen=True)
class Truncation:
    """How to handle a text that is longer than a model can read.

    Attributes:
        limit: Maximum tokens of a text (of a window; of a pair for stsscore); None for the model's own limit.
        stride: Tokens between the starts of two windows; None to cut texts.
    """

    limit: int | None = None
    stride: int | None = None

    def __post_init__(self) -> None:
        """Raise SpecError for numbers out of bounds."""
        if (
            (self.limit is not None and not _is_whole(self.limit, MAX_TOKENS))
            or (self.stride is not None and not _is_whole(self.stride, MAX_TOKENS))
            or (self.stride is not None and not self.stride <= (self.limit or 0) <= MAX_OVERLAP * self.stride)
        ):
            raise SpecError(f"truncation {self.limit!r}, {self.stride!r} is not possible.")

    @classmethod
    def parse(cls, value: object) -> Truncation:
        """Parse ``cut``, ``cut:N`` or ``window:N/S``."""
        if isinstance(value, Truncation):
            return value
        match = re.fullmatch(r"cut(:([1-9][0-9]{0,8}))?|window:([1-9][0-9]{0,8})/([1-9][0-9]{0,8})", str(value))
        if not match:
            raise SpecError(f"truncation {value!r} is not possible.")
        return cls(*(int(text) if text else None for text in (match[2] or match[3], match[4])))

    @property
    def cut(self) -> int | None:
        """The limit at which texts are cut before they are read; None for windows."""
        return None if self.stride else self.limit

    def __str__(self) -> str:
        """Return the canonical text."""
        if self.stride is not None:
            return f"window:{self.limit}/{self.stride}"
        return "cut" if self.limit is None else f"cut:{self.limit}"
