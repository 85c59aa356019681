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
from urllib.request import Request, urlopen

from twmd_registry.engine.pairs import check_segments
from twmd_registry.engine.scorer import Scorer, load
from twmd_registry.engine.shared_passes import check_needs_no_sources
from twmd_registry.errors import InputError, ModelError, SpecError, check_types
from twmd_registry.messages import collect_warnings, menu, warn
from twmd_registry.plugins import name_of
from twmd_registry.registry.options import MetricKeys
from twmd_registry.registry.references import is_missing

REPEATED = re.compile(r"(.{1,60}?)\1{3,}", re.DOTALL)
"""A string that is repeated at least three times in a row."""
COLUMN = "reference"
"""Default column of references."""
SHORTEST_REPEATED = 12
"""Minimum characters of a repetition that makes a completion degenerate."""


BUSY, TOO_LARGE, RETRIES = {429, 503}, 413, 5
"""Statuses after which to retry a request, or to split it into halves, and the number of retries."""


class ServedScorer:
    """Scores through a ``twmd serve``, so training processes share one model."""

    def __init__(self, url: str, metric: str, timeout: float = 120.0) -> None:
        """Store the service's address and its metric's name; its key is in TWMD_API_KEY."""
        if not url.startswith(("http://", "https://")):
            raise SpecError(f"url={url!r}: expected the address printed by 'twmd serve', as in http://127.0.0.1:8080.")
        self._url, self._metric, self._timeout = url.rstrip("/"), metric, timeout

    @property
    def signature(self) -> str:
        """The signature of the service's metric."""
        served = {metric["metric"]: metric["signature"] for metric in self._ask("/metrics")}
        if self._metric not in served:
            raise SpecError(f"metric {self._metric!r} is not served at {self._url}; {menu(self._metric, served)}.")
        return str(served[self._metric])

    def score(self, predictions: Sequence[str], references: Sequence[Any]) -> SimpleNamespace:
        """Return an object with ``scores``; repeat the service's warnings.

        Raises ModelError if the service does not answer, InputError if it refuses the texts.
        """
        body = {"predictions": list(predictions), "references": list(references), "metric": self._metric}
        try:
            answer = self._ask("/score", body)
        except _TooLargeError as error:
            if len(predictions) == 1:
                raise InputError(str(error)) from error
            middle = len(predictions) // 2
            first = self.score(predictions[:middle], references[:middle]).scores
            return SimpleNamespace(scores=first + self.score(predictions[middle:], references[middle:]).scores)
        for notice in answer["notices"]:
            warn(notice)
        return SimpleNamespace(scores=answer["scores"])

    def _ask(self, path: str, body: Any = None) -> Any:
        """Return the service's answer; wait if it is busy."""
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
                raise ModelError(f"{self._url} does not answer ({reason}): start it with 'twmd serve'.") from error
        raise AssertionError  # unreachable: the last attempt returns or raises


class _TooLargeError(Exception):
    """The service refuses a request for its size."""


class Reward:
    """A reward function for TRL, ``(completions, **columns) -> rewards``; made by `reward_function`."""

    def __init__(self, reward_scorer: Scorer | ServedScorer, reference_column: str, name: str, *, guard: bool) -> None:
        """Store the scorer and the settings of `reward_function`."""
        self.scorer = reward_scorer
        self.__name__ = name  # TRL logs rewards/NAME
        self._reference_column, self._guard = reference_column, guard
        self._warned = set[str]()

    @property
    def signature(self) -> str:
        """The signature, to publish with the results. Loads the model."""
        return str(self.scorer.signature)

    def __call__(self, completions: Sequence[Any], **columns: Any) -> list[float | None]:
        """Return the score of every completion, neither clipped nor normalised.

        Completions are texts, or conversations whose last message counts. TRL also passes ``prompts`` and the columns
        of the data set, with a reference (text or list of texts) per completion. Without a reference (None or NaN, or a
        list of these) the result is None, by which a TRL reward function abstains. Raises InputError if there is no
        column of references or a completion is not a text, and whatever `Scorer.score` raises.
        """
        if self._reference_column not in columns:
            known = ", ".join(name for name, values in columns.items() if isinstance(values, list))
            raise InputError(f"no column {self._reference_column!r} for references; the columns are {known}.")
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
            all_three = zip(texts, (_text(prompt) or "" for prompt in prompts), references, strict=True)
            texts = ["" if _is_degenerate(*row) else row[0] for row in all_three]
        scored = [row for row, missing in enumerate(absent) if not missing]
        if not scored:
            return [None] * len(texts)
        with collect_warnings() as messages:
            scores = self.scorer.score([texts[row] for row in scored], [references[row] for row in scored]).scores
        for message in messages:
            # Numbers differ from step to step.
            key = re.split(r"\d", message.lstrip("0123456789."))[0]
            if key not in self._warned:
                self._warned.add(key)
                warn(message)
        rewards = dict(zip(scored, scores, strict=True))
        return [rewards.get(row) for row in range(len(texts))]


def _text(turns: Any) -> str | None:
    """Return a text, or a conversation's last message, empty if it only calls tools; None for anything else."""
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
    """Return whether a text repeats one string or copies its prompt, unless a reference does so too."""
    copied = bool(text.split()) and text.split() == prompt.split() and text not in references
    return copied or (repeats_itself(text) and not any(map(repeats_itself, references)))


def repeats_itself(text: str) -> bool:
    """Return whether one string of at most 60 characters, repeated in a row, makes up more than half of a text.

    >>> repeats_itself("so it goes, so it goes, so it goes, so it goes, and on")
    True
    """
    text += " "  # the last repetition must end like the others
    distinct = len({text[i : i + 5] for i in range(len(text) - 4)})
    if distinct > 0.625 * len(text) + 4:  # a repetitive text has fewer: half of it, and one period
        return False
    return any(
        len(match[0].strip()) >= max(SHORTEST_REPEATED, len(text) // 2 + 1) and any(map(str.isalpha, match[1]))
        for match in REPEATED.finditer(text)
    )


@check_types(reference_column=str, name=str | None, url=str | None, guard=bool)
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
    """Create a reward function for TRL's ``reward_funcs``.

    Args:
        metric: A metric or signature, as for `twmd_registry.load`.
        preset: A preset's name.
        reference_column: The column with a reference or list of references per prompt. The function abstains if it is
            None.
        name: The name in TRL's log, by default the metric's with its preset, changed keys and changed settings
            (``twmd_column_summary``, ``twmd_unguarded``). TRL logs one mean of all rewards with a name.
        url: The address of a ``twmd serve`` that scores instead, so training processes share one model. `metric`
            is its name there, and the service has the settings. The API key is in ``TWMD_API_KEY``.
        guard: Whether to score a completion as an empty text if it mostly repeats one string or copies its prompt.
            Such texts score high by accident, and a policy finds them.
        keys: Keys of the specification and run options. ``keep_references`` defaults to 256 MB, because references
            recur in every epoch, and ``any_language`` to true, because a policy may write in any script.

    Raises:
        SpecError: As for `twmd_registry.load`, the metric needs sources, or settings are combined with `url`.
    """
    suffix = ("" if reference_column == COLUMN else f"_column_{reference_column}") + ("" if guard else "_unguarded")
    if url is not None:
        if preset is not None or keys:
            raise SpecError("with url=, the service has the settings: pass preset and keys to 'twmd serve' instead.")
        return Reward(ServedScorer(url, metric), reference_column, name or metric + suffix, guard=guard)
    usual_options: MetricKeys = {"keep_references": "256MB", "any_language": True}
    reward_scorer = load(metric, preset, **(usual_options | keys))
    check_needs_no_sources(reward_scorer)
    usual = name_of(reward_scorer.requested, preset) + suffix
    return Reward(reward_scorer, reference_column, name or usual, guard=guard)
