"""A metric as a reward function of TRL's trainers."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence, Sized
from typing import Any, Unpack

from twmd_registry.engine.pairs import check_segments
from twmd_registry.engine.scorer import Scorer, load
from twmd_registry.engine.shared_passes import check_needs_no_sources
from twmd_registry.errors import InputError
from twmd_registry.messages import collect_warnings, warn
from twmd_registry.plugins import name_of
from twmd_registry.registry.options import MetricKeys
from twmd_registry.registry.references import is_missing

REPEATED = re.compile(r"(.{1,60}?)\1{3,}", re.DOTALL)
"""A string that follows itself three times or more."""
COLUMN = "reference"
"""The usual column of references."""
SHORTEST_REPEATED = 12
"""Characters of a repetition that makes a completion degenerate."""


class Reward:
    """A reward function of TRL: ``(completions, **columns) -> rewards``; made by `reward_function`."""

    def __init__(self, reward_scorer: Scorer, reference_column: str, name: str, *, guard: bool) -> None:
        """Store the scorer and the settings of `reward_function`."""
        self.scorer = reward_scorer
        self.__name__ = name  # TRL logs rewards/NAME
        self._reference_column, self._guard = reference_column, guard
        self._warned = set[str]()

    @property
    def signature(self) -> str:
        """Return the signature, to be published with the results; this loads the model."""
        return self.scorer.signature

    def __call__(self, completions: Sequence[Any], **columns: Any) -> list[float | None]:
        """Return the score of every completion, as it is: nothing is clipped or normalised. Where there is no reference
        (None or NaN, alone or as a list of nothing else), return None, by which a reward function of TRL abstains.

        Completions are texts, or conversations, whose last message counts. Beside them TRL gives ``prompts`` and
        the columns of the data set, among them the references: a text, or a list of texts, per completion. Raises
        InputError if there is no column of references, if a completion is no text, and as `Scorer.score`.
        """
        if self._reference_column not in columns:
            known = ", ".join(name for name, values in columns.items() if isinstance(values, list))
            raise InputError(f"no column {self._reference_column!r} to take references from; there are {known}.")
        answers = [_text(completion) for completion in completions]
        column, prompts = columns[self._reference_column], columns.get("prompts") or [""] * len(answers)
        for name, values in ((self._reference_column, column), ("prompts", prompts)):
            if isinstance(values, str) or not isinstance(values, Sized) or len(values) != len(answers):
                raise InputError(f"the column {name!r} must be a list of {len(answers)} values, one per completion.")
        absent = [is_missing(entry) for entry in column]
        empty: Any = [""] if any(isinstance(entry, list | tuple) for entry in column) else ""
        rows = [empty if missing else entry for entry, missing in zip(column, absent, strict=True)]
        texts, references, _ = check_segments(answers, rows)
        if self._guard:
            texts = [
                "" if _is_degenerate(text, _text(prompt) or "", reference) else text
                for text, prompt, reference in zip(texts, prompts, references, strict=True)
            ]
        scored = [row for row, missing in enumerate(absent) if not missing]
        if not scored:
            return [None] * len(texts)
        with collect_warnings() as messages:
            scores = self.scorer.score([texts[row] for row in scored], [references[row] for row in scored]).scores
        for message in messages:
            # Without shares, counts and rows, which differ from step to step.
            kind = re.split(r"\d", message.lstrip("0123456789."))[0]
            if kind not in self._warned:
                self._warned.add(kind)
                warn(message)
        rewards = dict(zip(scored, scores, strict=True))
        return [rewards.get(row) for row in range(len(texts))]


def _text(turns: Any) -> str | None:
    """Return a text, or a conversation's last message, empty if that only calls tools; None for all else."""
    match turns:
        case str(text) | [*_, {"content": str(text)}]:
            return text
        case [*_, {"content": [*parts]}] if all(map(_is_text_part, parts)):
            return "".join(part["text"] for part in parts)
        case [*_, Mapping() as message] if message.get("content") is None:
            return ""
    return None


def _is_text_part(part: Any) -> bool:
    return isinstance(part, Mapping) and part.get("type") == "text" and isinstance(part.get("text"), str)


def _is_degenerate(text: str, prompt: str, references: Sequence[str]) -> bool:
    """Return whether a text repeats one string or is its prompt, and no reference does or is so."""
    copied = bool(text.split()) and text.split() == prompt.split() and text not in references
    return copied or (repeats_itself(text) and not any(map(repeats_itself, references)))


def repeats_itself(text: str) -> bool:
    """Return whether more than half of a text is one string of at most 60 characters, repeated in a row.

    >>> repeats_itself("so it goes, so it goes, so it goes, so it goes, and on")
    True
    """
    text += " "  # so that the last of several words or phrases is followed by what follows the others
    different = len({text[i : i + 5] for i in range(len(text) - 4)})
    if different > 0.625 * len(text) + 4:  # a text that repeats itself has fewer: half of it, and a period
        return False
    return any(
        len(match[0].strip()) >= max(SHORTEST_REPEATED, len(text) // 2 + 1) and any(map(str.isalpha, match[1]))
        for match in REPEATED.finditer(text)
    )


def reward_function(
    metric: str = "twmd",
    preset: str | None = None,
    *,
    reference_column: str = COLUMN,
    name: str | None = None,
    guard: bool = True,
    **keys: Unpack[MetricKeys],
) -> Reward:
    """Make a reward function for TRL's ``reward_funcs``.

    Args:
        metric: A metric or signature, as for `twmd_registry.load`.
        preset: A preset's name.
        reference_column: The column of the data set with a reference, or a list of references, per prompt; where it is
            None, the function abstains.
        name: The name in TRL's log, by default the metric's with its preset and changed keys, also of this
            function (``twmd_column_summary``, ``twmd_unguarded``): TRL logs one mean of all rewards of a name.
        guard: Whether a completion that repeats one string for most of its length, or is its prompt, is scored as an
            empty text: a policy finds such texts, which score high by accident.
        keys: Keys of the specification and run options; unless given, ``keep_references`` is 256 MB (they
            come back in every epoch) and ``any_language`` is true (a policy may write in any script).

    Raises:
        SpecError: As for `twmd_registry.load`, or the metric compares with sources.
    """
    usual_options: MetricKeys = {"keep_references": "256MB", "any_language": True}
    reward_scorer = load(metric, preset, **(usual_options | keys))
    check_needs_no_sources(reward_scorer)
    usual = name_of(reward_scorer.requested, preset)
    usual += ("" if reference_column == COLUMN else f"_column_{reference_column}") + ("" if guard else "_unguarded")
    return Reward(reward_scorer, reference_column, name or usual, guard=guard)
