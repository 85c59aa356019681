"""A metric as a reward function of TRL's trainers."""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Mapping, Sequence, Sized
from types import SimpleNamespace
from typing import Any, Unpack
from urllib.error import HTTPError, URLError
from urllib.parse import quote
from urllib.request import Request, urlopen

from twmd_registry.engine.pairs import check_segments
from twmd_registry.engine.scorer import Scorer, load
from twmd_registry.engine.shared_passes import check_needs_no_sources
from twmd_registry.errors import InputError, ModelError, SpecError
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


BUSY, TOO_LARGE, RETRIES = {429, 503}, 413, 5
"""Statuses of a service to which a request is sent again, and in halves; how often again."""


class ServedScorer:
    """Scores by a ``twmd serve``, so that the processes of a training share one model."""

    def __init__(self, url: str, metric: str, timeout: float = 120.0) -> None:
        """Store the service's address and the metric's name there; its key is in TWMD_API_KEY, as for the service."""
        if not url.startswith(("http://", "https://")):
            raise SpecError(f"url={url!r}: expected the address that 'twmd serve' prints, as in http://127.0.0.1:8080.")
        self._url, self._metric, self._timeout = url.rstrip("/"), metric, timeout

    @property
    def signature(self) -> str:
        """Return the signature of the metric there."""
        return str(self._ask(f"/signature?metric={quote(self._metric)}")["signature"])

    def score(self, predictions: Sequence[str], references: Sequence[Any]) -> SimpleNamespace:
        """Return the ``scores``; warns of what the service noticed. Raises ModelError where it does not answer, and
        InputError where it refuses the texts.
        """
        body = {"predictions": list(predictions), "references": list(references), "metric": self._metric}
        try:
            answer = self._ask("/score", body)
        except _TooLargeError as error:
            if len(predictions) == 1:
                raise InputError(str(error)) from error
            middle = len(predictions) // 2
            halves = (slice(None, middle), slice(middle, None))
            return SimpleNamespace(
                scores=[score for half in halves for score in self.score(predictions[half], references[half]).scores]
            )
        for notice in answer["notices"]:
            warn(notice)
        return SimpleNamespace(scores=answer["scores"])

    def _ask(self, path: str, body: Any = None) -> Any:
        """Return the service's answer, waiting where it has too many requests."""
        headers = {"Content-Type": "application/json"}
        if key := os.environ.get("TWMD_API_KEY"):
            headers["Authorization"] = f"Bearer {key}"
        data = None if body is None else json.dumps(body).encode()
        for attempt in range(RETRIES + 1):
            try:
                with urlopen(Request(self._url + path, data, headers), timeout=self._timeout) as answer:  # noqa: S310
                    return json.load(answer)
            except HTTPError as error:
                text = error.read().decode(errors="replace").strip()
                message = f"{self._url}: {json.loads(text)['error'] if text.startswith('{') else text}"
                if error.code == TOO_LARGE:
                    raise _TooLargeError(message) from error
                if error.code not in BUSY or attempt == RETRIES:
                    raise (InputError if error.code in {400, 422} else ModelError)(message) from error
                time.sleep(2**attempt)
            except (URLError, OSError, ValueError) as error:
                reason = getattr(error, "reason", error)
                raise ModelError(f"{self._url} does not answer ({reason}): start it by 'twmd serve'.") from error
        raise AssertionError  # the last attempt has returned or raised


class _TooLargeError(Exception):
    """A request that the service refuses for its size."""


class Reward:
    """A reward function of TRL: ``(completions, **columns) -> rewards``; made by `reward_function`."""

    def __init__(self, reward_scorer: Scorer | ServedScorer, reference_column: str, name: str, *, guard: bool) -> None:
        """Store the scorer and the settings of `reward_function`."""
        self.scorer = reward_scorer
        self.__name__ = name  # TRL logs rewards/NAME
        self._reference_column, self._guard = reference_column, guard
        self._warned = set[str]()

    @property
    def signature(self) -> str:
        """Return the signature, to be published with the results; this loads the model."""
        return str(self.scorer.signature)

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
    url: str | None = None,
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
        url: The address of a ``twmd serve`` that scores in place of this process, so that training processes share one
            model; `metric` is its name there, and the service has the settings. Its API key is in ``TWMD_API_KEY``.
        guard: Whether a completion that repeats one string for most of its length, or is its prompt, is scored as an
            empty text: a policy finds such texts, which score high by accident.
        keys: Keys of the specification and run options; unless given, ``keep_references`` is 256 MB (they
            come back in every epoch) and ``any_language`` is true (a policy may write in any script).

    Raises:
        SpecError: As for `twmd_registry.load`, or the metric compares with sources; settings beside `url`.
    """
    beside = ("" if reference_column == COLUMN else f"_column_{reference_column}") + ("" if guard else "_unguarded")
    if url is not None:
        if preset is not None or keys:
            raise SpecError("with url=, the service has the settings: leave preset and keys out, and give them to it.")
        return Reward(ServedScorer(url, metric), reference_column, name or metric + beside, guard=guard)
    usual_options: MetricKeys = {"keep_references": "256MB", "any_language": True}
    reward_scorer = load(metric, preset, **(usual_options | keys))
    check_needs_no_sources(reward_scorer)
    usual = name_of(reward_scorer.requested, preset) + beside
    return Reward(reward_scorer, reference_column, name or usual, guard=guard)
