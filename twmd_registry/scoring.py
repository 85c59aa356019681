"""`Scorer`: a specification that can be asked for scores."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any

import numpy as np

from twmd_registry.alignment import Alignment
from twmd_registry.assemble import over_references
from twmd_registry.baseline import random_pairs, rescale, write_baseline
from twmd_registry.border import check_segments, digest_of_texts
from twmd_registry.errors import InputError, ModelError, SpecError, warn
from twmd_registry.pairs import Pairs, make_pairs
from twmd_registry.pipeline import TextFlags
from twmd_registry.registry.catalogue import entry
from twmd_registry.registry.names import Centering, Multiref, Output
from twmd_registry.registry.options import RunOptions, split_options
from twmd_registry.registry.parts import Parts
from twmd_registry.registry.signature import Signature, parse_signature
from twmd_registry.registry.spec import MetricSpec, make_spec
from twmd_registry.routes import AlignmentRoute, Route, route_of
from twmd_registry.scores import Counts, PairScores, ScoreSet, make_score_set

Progress = Callable[[int], None]

BASELINE_PAIRS = 10_000
"""Pairs that a baseline is the mean of."""
SHOWN_WORDS = 5
"""Words that a warning names."""


class Scorer:
    """Scores predictions against references by one specification.

    The model is loaded at first use, shared with all other scorers of the process that use it with the same
    adapter, dtype and device, and freed when the last of them is closed. A scorer can be pickled; the copy
    loads its model again.

    >>> with scorer("twmd") as twmd:
    ...     round(twmd.score(["it rains"], ["it rains"]).score, 4)
    1.0
    """

    def __init__(self, spec: MetricSpec, options: RunOptions | None = None, parts: Parts | None = None) -> None:
        """Remember what to do; nothing is loaded yet.

        Args:
            spec: What to compute.
            options: Where and how fast.
            parts: Where its parts are, when `spec` is a stranger's (a signature's); names in it are then no paths.
        """
        self.requested = spec
        self.options = options or RunOptions()
        self.parts = parts
        self.route: Route = route_of(spec, self.options, parts)

    @property
    def spec(self) -> MetricSpec:
        """The specification as it is applied: layer, limit, fingerprint and mean vector settled. Loads the model.

        Raises:
            ModelError: The model, adapter or mean vector is not to be had or not what was named.
            SpecError: A layer or limit that the model does not have.
        """
        return self.route.spec

    @property
    def signature(self) -> str:
        """The signature without the number of references. Loads the model."""
        return str(Signature(self.spec))

    def score(self, predictions: Iterable[str], references: Iterable[str] | Iterable[Iterable[str]]) -> ScoreSet:
        """Score every prediction against its reference or references.

        Args:
            predictions: Texts, one per segment.
            references: One text per segment, or one list of texts per segment; lists may differ in length.

        Returns:
            Scores per segment, their mean, the signature, and counts of truncated, empty and repeated texts.

        Raises:
            InputError: The texts cannot be scored; names the row.
            SpecError: A layer or limit that the model does not have.
            ModelError: The model, adapter or mean vector is not to be had, or memory does not suffice.

        Warns:
            TwmdWarning: Once per call for each of: empty texts, truncated texts, texts of unknown tokens only, a
                centering batch of one segment, a solver that stopped early.
        """
        return score_all([self], predictions, references)[0]

    def fit_baseline(self, texts: Iterable[str], pairs: int = BASELINE_PAIRS, seed: int = 0) -> bytes:
        """Score pairs of unrelated texts: the content of a baseline file, for ``baseline=``.

        Args:
            texts: A corpus, which is paired at random.
            pairs: How many pairs.
            seed: Of the draw.

        Raises:
            InputError: Fewer than two different texts.
            SpecError: The scorer has a baseline already.
            ModelError: As for `score`, or unrelated texts score 1 or more.
        """
        if self.requested.baseline is not None:
            raise SpecError(f"baseline={self.requested.baseline} is set already: fit one for scores without it.")
        found = self.score(*random_pairs(texts, pairs, seed))
        sides = found.precision, found.recall, found.f1
        scores = PairScores(*map(np.array, sides)) if None not in sides else PairScores(np.array(found.scores))
        return write_baseline(self.spec, scores, seed)

    def close(self) -> None:
        """Give the model back; the last scorer to do so frees its memory. The scorer can be used again."""
        self.route.close()

    def __enter__(self) -> Scorer:
        """Use the scorer in a ``with`` block that closes it."""
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        """Close."""
        self.close()

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle what to do, not the model."""
        return Scorer, (self.requested, self.options, self.parts)

    def __repr__(self) -> str:
        """Metric and requested keys."""
        keys = ", ".join(f"{name}={value}" for name, value in self.requested.values().items())
        return f"Scorer({self.requested.metric}: {keys})"


def scorer(metric: str | Signature, preset: str | None = None, **keys: Any) -> Scorer:
    """Make a scorer.

    Args:
        metric: A metric of the catalogue, or a signature, which gives the scorer back that it was written by.
        preset: A preset's name; without one, the preset tuned for the model.
        keys: Keys of the specification (``temperature=0.1``) and run options (``device="cpu"``). Beside a signature only
            run options, and where its parts are on this machine: ``model=FOLDER``, ``adapter=FOLDER``,
            ``background=FILE``, ``stopwords=FILE``, ``idf=FILE``, ``baseline=FILE``; their
            content must be what the signature says.

    Raises:
        SpecError: Unknown metric, preset or key, or a value that is not possible; of a signature, names the column.

    Warns:
        TwmdWarning: As for `parse_signature`.
    """
    if isinstance(metric, Signature) or (isinstance(metric, str) and "|" in metric):
        return _scorer_of_signature(metric, preset, keys)
    options, spec_keys = split_options(keys, entry(metric).keys)
    return Scorer(make_spec(metric, preset, **spec_keys), options)


def _scorer_of_signature(signature: str | Signature, preset: str | None, keys: dict[str, Any]) -> Scorer:
    if preset is not None:
        raise SpecError(f"a signature says everything: preset={preset!r} cannot be given beside it.")
    options, parts = split_options(keys, Parts._fields)
    for name in parts:
        if name not in Parts._fields:
            raise SpecError(f"the signature fixes {name}: beside it, say only where its parts are ({', '.join(Parts._fields)}) and how to run.")
    return Scorer(parse_signature(signature).spec, options, Parts(**{name: str(path) for name, path in parts.items() if path is not None}))


def score_all(
    scorers: Sequence[Scorer],
    predictions: Iterable[str],
    references: Iterable[str] | Iterable[Iterable[str]],
    *,
    progress: Progress | None = None,
) -> list[ScoreSet]:
    """Score the same texts by several scorers, encoding each different text once per model.

    Args:
        scorers: At least one.
        predictions: As for `Scorer.score`.
        references: As for `Scorer.score`.
        progress: Called with the number of texts (or pairs, for a regression model) done.

    Returns:
        One `ScoreSet` per scorer.

    Raises:
        SpecError: There is no scorer, something that is none, or as for `Scorer.score`.
        InputError: As for `Scorer.score`.
        ModelError: As for `Scorer.score`.
    """
    if isinstance(scorers, Scorer) or not all(isinstance(one, Scorer) for one in scorers):
        raise SpecError('expected a list of scorers: score_all([scorer("twmd"), scorer("trwmd")], predictions, references).')
    if not scorers:
        raise SpecError("there is no metric to score by.")
    segments = check_segments(predictions, references)
    pairs, digest = make_pairs(segments), digest_of_texts(segments)
    _warn_of_lonely_centering([one.spec for one in scorers], len(pairs.counts))
    routes: dict[Any, list[int]] = {}
    for i, one in enumerate(scorers):
        routes.setdefault(one.route.share_key, []).append(i)
    results: dict[int, ScoreSet] = {}
    empty, truncated, unknown = np.zeros(len(pairs.texts), dtype=bool), 0, 0
    for members in routes.values():
        group = [scorers[i].route for i in members]
        found, flags = group[0].score_group(group, pairs, progress)
        empty |= flags.empty
        truncated = max(truncated, int(flags.truncated.sum()))
        unknown = max(unknown, int(flags.unknown.sum()))
        _warn_of_words(flags.missing)
        for i, scores in zip(members, found, strict=True):
            baseline = scorers[i].route.baseline
            results[i] = _score_set(scorers[i], pairs, rescale(scores, baseline) if baseline else scores, flags, digest)
    _warn_of_texts(_count_empty(pairs, empty), truncated, unknown)
    return [results[i] for i in range(len(scorers))]


def _score_set(one: Scorer, pairs: Pairs, found: PairScores, flags: TextFlags, digest: str) -> ScoreSet:
    """Reduce references to segments and attach signature and counts."""
    spec = one.spec
    rule = Multiref(spec.multiref or Multiref.MAX)
    segments = PairScores(*(None if side is None else over_references(side, pairs.counts, rule) for side in found))  # type: ignore[arg-type]
    nrefs = str(pairs.counts[0]) if (pairs.counts == pairs.counts[0]).all() else "var"
    texts = len(pairs.counts) + len(pairs.ref)
    counts = Counts(
        segments=len(pairs.counts),
        truncated=int(flags.truncated.sum()),
        empty=_count_empty(pairs, flags.empty),
        unknown=int(flags.unknown.sum()),
        repeated=texts - len(pairs.texts),
        oov=len(flags.missing),
    )
    signature = Signature(spec, nrefs)
    explainer = Explainer(one.requested, one.options, one.parts, signature, pairs, found.chosen(spec.output))
    return make_score_set(signature, segments, counts, digest, explainer)


@dataclass(frozen=True, eq=False)
class Explainer:
    """Finds the alignment of a pair again.

    Attributes:
        requested: With `options` and `parts`, what makes the scorer: a scorer itself would keep its model in memory.
        options: Where and how fast.
        parts: Where its parts are.
        signature: What was applied.
        pairs: All pairs that were scored.
        scores: *The* score of each.
    """

    requested: MetricSpec
    options: RunOptions
    parts: Parts | None
    signature: Signature
    pairs: Pairs
    scores: np.ndarray

    def __call__(self, segment: int, reference: int | None) -> Alignment:
        """As `ScoreSet.explain`."""
        pair = self._find(segment, reference)
        with Scorer(self.requested, self.options, self.parts) as again:
            if not isinstance(again.route, AlignmentRoute):
                raise SpecError(f"{self.requested.metric} has no alignment to show: it predicts a number from both texts at once.")
            if again.spec != self.signature.spec:
                raise ModelError("the model, or another part of these scores, has changed since: score the texts again to have them explained.")
            found = again.route.explain(self.pairs, pair)
        sides = {"score": found.plans.hypothesis}
        if self.signature.spec.output:
            sides = {str(Output.PRECISION): found.plans.hypothesis, str(Output.RECALL): found.plans.reference}
        return Alignment(
            signature=self.signature,
            score=float(self.scores[pair]),
            hypothesis=tuple(found.hypothesis),
            reference=tuple(found.reference),
            hypothesis_shares=found.hypothesis_shares,
            reference_shares=found.reference_shares,
            similarities=found.similarities,
            plans={side: plan.numpy() for side, plan in sides.items()},
        )

    def _find(self, segment: int, reference: int | None) -> int:
        """The pair that is meant."""
        if not 0 <= segment < len(self.pairs.counts):
            raise InputError(f"segment {segment} is out of range: there are {len(self.pairs.counts)}, counted from 0.")
        first, number = int(self.pairs.starts[segment]), int(self.pairs.counts[segment])
        if reference is None:
            return first + int(self.scores[first : first + number].argmax())
        if not 0 <= reference < number:
            raise InputError(f"reference {reference} of segment {segment} is out of range: it has {number}, counted from 0.")
        return first + reference


def _count_empty(pairs: Pairs, empty: np.ndarray) -> int:
    """Predictions and references (each occurrence) without a token."""
    return int(empty[pairs.hyp[pairs.starts]].sum() + empty[pairs.ref].sum())


def _warn_of_texts(empty: int, truncated: int, unknown: int) -> None:
    if empty:
        warn(f"texts without a token: {empty}; each scores 0 against text and 1 against another empty text.")
    if truncated:
        warn(f"different texts longer than the limit (truncation, in the signature): {truncated}; each lost its end.")
    if unknown:
        warn(f"different texts of nothing but unknown tokens: {unknown}; to this model they are all alike.")


def _warn_of_words(missing: Sequence[str]) -> None:
    if missing:
        often = Counter(missing)
        shown = ", ".join([*(repr(word) for word, _ in often.most_common(SHOWN_WORDS)), *(["..."] if len(often) > SHOWN_WORDS else [])])
        warn(f"words without a vector, left out: {len(missing)} in different texts, {len(often)} different ({shown}).")


def _warn_of_lonely_centering(specs: Sequence[MetricSpec], segments: int) -> None:
    for spec in specs:
        last = segments % spec.centering_size if spec.centering_size else segments
        if spec.centering_kind in {Centering.BATCH, Centering.CORPUS} and (last == 1 or spec.centering_size == 1):
            which = "the last segment" if segments > 1 and spec.centering_size != 1 else "a segment"
            warn(
                f"centering={spec.centering}: {which} is alone in its batch, so that its own mean is subtracted: "
                "use background centering to score single segments."
            )
            return
