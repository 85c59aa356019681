"""`Scorer`: scores texts with one specification."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from numbers import Integral
from types import TracebackType
from typing import Any, Literal, NoReturn, TypeVar, Unpack

import numpy as np

from twmd_registry.engine.alignment import Alignment
from twmd_registry.engine.backend import Backend, PairScores, Scores
from twmd_registry.engine.baseline import make_baseline, random_pairs, rescale
from twmd_registry.engine.input_warnings import (
    check_texts,
    name_texts,
    warn_about_language,
    warn_about_other_nrefs,
    warn_about_texts,
    warn_about_unread_sources,
)
from twmd_registry.engine.pair_backends import RegressionBackend, SentenceBackend
from twmd_registry.engine.pairs import Pairs, Segments, check_segments, digest_of_texts, make_pairs
from twmd_registry.engine.pipeline import CorpusSums
from twmd_registry.engine.result import COUNTS, SIDE, Counts, ScoreSet, merge_hashes
from twmd_registry.engine.sentences import SENTENCE_COUNTS
from twmd_registry.engine.token_backend import TokenAlignmentBackend
from twmd_registry.errors import InputError, ModelError, SpecError, check_types
from twmd_registry.messages import collect_warnings, warn
from twmd_registry.models.fitted import FittedFile
from twmd_registry.progress import Progress, Stage, split_progress
from twmd_registry.registry.metric_spec import AppliedSpec, MetricSpec, WeightedSpec, has_keys, split_name
from twmd_registry.registry.metrics import entry
from twmd_registry.registry.names import LEXICAL_NAMES, MetricName
from twmd_registry.registry.options import (
    PART_NAMES,
    LocalFiles,
    MetricKeys,
    PartKeys,
    RunOptions,
    resolve_local_files,
    split_options,
)
from twmd_registry.registry.signature import Signature, parse_signature
from twmd_registry.registry.spec import SOURCE_WEIGHT, make_spec, spec_with_keys
from twmd_registry.tensors import TextFacts

T = TypeVar("T")
BASELINE_PAIRS = 10_000
"""Default number of random pairs for a baseline."""


class Scorer:
    """Scores predictions against references with one specification.

    The model is loaded at first use, shared by all scorers of this process that use it with the same adapter, dtype and
    device, and freed when the last of them is closed. A scorer can be pickled; the copy loads its model again.

    Examples:
        >>> with load("twmd") as twmd:
        ...     round(twmd.score(["it rains"], ["it rains"]).score, 4)
        1.0
    """

    @check_types(spec=MetricSpec, options=RunOptions | None, local_files=LocalFiles | None, nrefs=Integral | str | None)
    def __init__(
        self,
        spec: MetricSpec,
        options: RunOptions | None = None,
        local_files: LocalFiles | None = None,
        nrefs: int | Literal["var"] | None = None,
    ) -> None:
        """Store the request; load nothing.

        Args:
            spec: The specification.
            options: Device, batch size and caches.
            local_files: Paths of files that `spec` names by hash, if it comes from a signature.
            nrefs: The signature's number of references; texts with a different number cause a warning.
        """
        self.requested, self.options, self.nrefs = spec, options or RunOptions(), nrefs
        self.local_files = local_files
        self._averaged: tuple[tuple[float, Scorer], ...] = tuple(
            (weight, Scorer(member, self.options, local_files)) for weight, member in split_mean(spec)
        )
        if not self._averaged:
            self.backend: Backend = make_backend(spec, self.options, local_files)

    @classmethod
    def from_signature(cls, signature: str | Signature, **parts: Unpack[PartKeys]) -> Scorer:
        """Build a scorer from a signature.

        Args:
            signature: A signature, long or short.
            parts: Paths of the signature's files (``model=FOLDER``, ``adapter=FOLDER``, ``background=FILE``,
                ``stopwords=FILE``, ``idf=FILE``, ``baseline=FILE``), whose content must be the signed one; and run
                options (``device="cpu"``).

        Raises:
            SignatureError: Not a signature; the message names the column.
            SpecError: A key that the signature fixes, or a file that it does not name.

        Warns:
            TwmdWarning: As for `parse_signature`, or when scored texts have a different number of references.
        """
        options, places = split_options({**parts}, PART_NAMES)
        for name in places:
            if name not in PART_NAMES:
                settable = f"only the paths of its files ({', '.join(PART_NAMES)}) and run options can be set"
                raise SpecError(f"the signature fixes {name}: leave it out; {settable}.")
        parsed = parse_signature(signature)
        local_files = resolve_local_files(LocalFiles(**places), [parsed.spec])
        return cls(parsed.spec, options, local_files, parsed.nrefs)

    @property
    def members(self) -> tuple[Scorer, ...]:
        """The members of a mean (an ensemble, ``against=both``), otherwise the scorer itself."""
        return tuple(member for _, averaged in self._averaged for member in averaged.members) or (self,)

    @property
    def weights(self) -> tuple[float, ...]:
        """The weights of the members."""
        return tuple(weight * share for weight, member in self._averaged for share in member.weights) or (1.0,)

    @property
    def spec(self) -> AppliedSpec:
        """The applied specification, with layer, limit, fingerprint and mean vector. Loads the models.

        Raises:
            ModelError: The model or another file is missing, or does not have the signed content.
            SpecError: The model does not have the layer or limit, or the machine does not have the device.
            MissingExtraError: The embedded model, or `peft` for an adapter, is not installed.
        """
        if not self._averaged:
            return self.backend.spec
        applied = [member.spec for _, member in self._averaged]
        if self.requested.against == "both":
            (_, of_sources), (_, share) = applied, self.weights
            return of_sources.replace(against="both", source_weight=share)
        members = [WeightedSpec(weight, spec) for (weight, _), spec in zip(self._averaged, applied, strict=True)]
        return AppliedSpec(metric=self.requested.metric, members=members)

    @property
    def signature(self) -> str:
        """The signature without the number of references. Loads the model, and raises the errors of `spec`."""
        return str(Signature(self.spec))

    def score(
        self,
        predictions: Iterable[str],
        references: Iterable[str | None] | Iterable[Iterable[str | None]] | None = None,
        sources: Iterable[str] | None = None,
        *,
        progress: Progress | None = None,
    ) -> ScoreSet:
        """Score every prediction against its reference or references, its source, or both (key ``against``).

        Args:
            predictions: Texts, one per segment.
            references: One text per segment, or one list of texts per segment; lists may differ in length. None or a
                blank text is ignored if the segment has another reference, otherwise it is an empty reference. Not
                needed with ``against=source``.
            sources: As for `twmd_registry.score_all`; needed with ``against=source`` and ``both``.
            progress: Called with the number of segments done since its last call.

        Returns:
            Scores per segment, their mean, the signature, and counts of truncated, empty and repeated texts.

        Raises:
            InputError: The texts cannot be scored, or are missing; the message names the row.
            ModelError: There is not enough memory, or the model returns numbers that are not finite.
            TwmdError: As for `spec`.

        Warns:
            TwmdWarning: At most once per call for each kind of unusual text or setting (docs/bad-input.md).
        """
        segments = check_segments(predictions, references, sources, drop_missing=self.options.drop_missing)
        warn_about_unread_sources([self.requested], sources)
        return score_segments([self], segments, progress=progress)[0]

    @check_types(texts=Iterable, pairs=Integral, seed=Integral)
    def fit_baseline(
        self, texts: Iterable[str], pairs: int = BASELINE_PAIRS, seed: int = 0, progress: Progress | None = None
    ) -> FittedFile:
        """Fit a baseline: the mean score b of random pairs, which rescales x to ``(x - b) / (1 - b)`` (Zhang et al.
        2020).

        Args:
            texts: A corpus to pair at random.
            pairs: Number of pairs, at least 1.
            seed: Seed of the random pairs, not negative.
            progress: As for `score`; each pair is a segment.

        Returns:
            The baseline. Its `save` returns a value for the key ``baseline``.

        Raises:
            TwmdError: There are too few texts or pairs, the scorer has a baseline or cannot have one, unrelated texts
                score 1 or more, or as for `score`.
        """
        if self.requested.members:
            raise SpecError("an ensemble has no baseline of its own: set its members' baselines.")
        if self.requested.baseline is not None:
            raise SpecError(f"baseline={self.requested.baseline} is set already: fit with a scorer without it.")
        if self.requested.against is not None:
            raise SpecError(f"against={self.requested.against} has no baseline: random pairs of texts have no source.")
        scores = score_with([self], *random_pairs(texts, pairs, seed), progress=progress)[0]
        sides = [side for side in (scores.precision, scores.recall, scores.f1) if side is not None]
        return make_baseline(self.spec, np.array(sides or [scores.scores]), seed)

    @check_types(of_members=Iterable)
    def combine(self, of_members: Sequence[ScoreSet]) -> ScoreSet:
        """Average the members' scores, segment by segment: ``sum_k w_k score_k / sum_k w_k`` (Herbold 2024, A.2).

        Members reduce several references first. With ``against=both``, references and sources have the weights 1 - w
        and w (``source_weight``), and precision, recall and F1 are averaged too.
        """
        if [type(scores) for scores in of_members] != [ScoreSet] * len(self.weights):
            raise InputError(f"of_members must be {len(self.weights)} score sets, one of each member.")
        sides = [scores.by_side if self.requested.against else scores.values[None] for scores in of_members]
        nrefs = [scores.signature.nrefs for scores in of_members]  # 0 for members that compare with sources
        max_counts = {name: max(getattr(scores.counts, name) for scores in of_members) for name in COUNTS}
        return replace(
            of_members[0],
            signature=Signature(self.spec, next((number for number in nrefs if number != 0), 0)),
            by_side=np.average(sides, axis=0, weights=self.weights),
            counts=of_members[0].counts._replace(**max_counts),
            hashes=merge_hashes(scores.hashes for scores in of_members),
            explainer=_refuse_to_explain_mean,
            by_reference=None,
        )

    def park(self) -> None:
        """Move the model to the CPU to free device memory; its next use moves it back."""
        for member in self.members:
            member.backend.park()

    def close(self) -> None:
        """Release the model. The last scorer to do so frees its memory. The scorer can be used again."""
        for member in self.members:
            member.backend.close()

    def __enter__(self) -> Scorer:
        """Return the scorer, which the ``with`` block closes."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the scorer."""
        self.close()

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the request, not the model."""
        return type(self), (self.requested, self.options, self.local_files, self.nrefs)

    def __repr__(self) -> str:
        """Return the metric and the requested keys."""
        keys = ", ".join(f"{name}={value}" for name, value in self.requested.values().items())
        return f"{type(self).__name__}({self.requested.metric}: {keys})"


def make_backend(spec: MetricSpec, options: RunOptions, local_files: LocalFiles | None = None) -> Backend:
    """Return the backend of a specification's metric."""
    if spec.metric is MetricName.STSSCORE:
        return RegressionBackend(spec, options, local_files)
    return (SentenceBackend if spec.reads_sentences else TokenAlignmentBackend)(spec, options, local_files)


def split_mean(spec: MetricSpec) -> tuple[tuple[float, MetricSpec], ...]:
    """Return the weighted members of a mean: an ensemble's, or both comparisons of ``against=both``."""
    if spec.metric is MetricName.ENSEMBLE:
        return tuple((member.weight, member.spec) for member in spec.members)
    if spec.against != "both":
        return ()
    share = float(spec.source_weight or SOURCE_WEIGHT)
    # The second mean vector belongs to the sources.
    centering = replace(spec.centering, means=spec.centering.means[:1])
    of_references = spec.replace(against=None, source_weight=None, centering=centering)
    return (1 - share, of_references), (share, spec.replace(against="source", source_weight=None))


def _refuse_to_explain_mean(_segment: int, _reference: int | None) -> NoReturn:
    raise SpecError("a mean (ensemble, against=both) has no alignment of its own: explain a member's scores.")


def load(
    metric: str | Signature | MetricSpec = MetricName.TWMD, preset: str | None = None, **keys: Unpack[MetricKeys]
) -> Scorer:
    """Create a scorer for a metric. Its model is loaded at first use.

    Examples:
        >>> with load("twmd", temperature=0.1) as twmd:
        ...     round(twmd.score(["it rains"], ["it rains"]).score, 4)
        1.0

    Args:
        metric: A metric of the catalogue; ``ensemble(METRIC,METRIC,...)`` for the mean of several, optionally with keys
            and a weight (``ensemble(stsscore,2*sbert;layer=6)``); a signature, as for `Scorer.from_signature`; or a
            metric with its keys (``"twmd;layer=5"``) or a specification, which take only run options.
        preset: A preset's name; without one, the preset tuned for the model.
        keys: Keys of the specification (``temperature=0.1``) and run options (``device="cpu"``).

    Raises:
        SpecError: Unknown metric, preset or key, or an invalid value.
        TwmdError: As for `Scorer.from_signature`.

    Warns:
        TwmdWarning: As for `parse_signature`.
    """
    arguments: dict[str, Any] = {**keys}
    if isinstance(metric, Signature) or (isinstance(metric, str) and "|" in metric):
        if preset is not None:
            raise SpecError(f"a signature fixes all keys: leave out preset={preset!r}.")
        return Scorer.from_signature(metric, **arguments)
    if isinstance(metric, str) and has_keys(metric):
        metric = spec_with_keys(metric)
    if isinstance(metric, MetricSpec):
        options, fixed = split_options(arguments if preset is None else {**arguments, "preset": preset}, ())
        if fixed:
            raise SpecError(f"a specification fixes {', '.join(fixed)}: change it with spec.replace() first.")
        return Scorer(metric, options)
    name = split_name(metric)[0] if isinstance(metric, str) else metric
    options, spec_keys = split_options(arguments, entry(name).keys)
    return Scorer(make_spec(metric, preset, **spec_keys), options)


_LATEST: list[Scorer] = []
"""The scorers that the latest call created. They keep their models in memory, so a loop loads them once."""


def score(
    predictions: Iterable[str],
    references: Iterable[str | None] | Iterable[Iterable[str | None]] | None = None,
    metric: str | Signature | MetricSpec = MetricName.TWMD,
    preset: str | None = None,
    *,
    sources: Iterable[str] | None = None,
    progress: Progress | None = None,
    **keys: Unpack[MetricKeys],
) -> ScoreSet:
    """Score texts with one metric.

    The model stays loaded until a call with another model. Use `load` to decide when it is freed.

    Examples:
        >>> score(["it rains"], ["it rains"]).score > 0.999
        True

    Args:
        predictions: Texts, one per segment: a list, or any other sequence such as a column of pandas or `datasets`.
        references: One text per segment, or one list of texts per segment. Not needed with ``against=source``.
        metric: A metric's name, ``ensemble(METRIC,METRIC,...)``, or a signature, as for `load`.
        preset: A preset's name; without one, the preset tuned for the model.
        sources: The texts that were translated or summarised, one per segment; needed with ``against=source`` and
            ``both``.
        progress: As for `Scorer.score`.
        keys: Keys of the specification (``temperature=0.1``) and run options (``device="cpu"``), as for `load`.

    Returns:
        The scores of all segments, their mean, the signature and counts.

    Raises:
        TwmdError: As for `load` and `Scorer.score`.
    """
    new = load(metric, preset, **keys)
    scores = new.score(predictions, references, sources, progress=progress)
    _LATEST[:] = [new]
    return scores


def score_with(
    scorers: Sequence[Scorer],
    predictions: Iterable[str],
    references: Iterable[str | None] | Iterable[Iterable[str | None]] | None = None,
    sources: Iterable[str] | None = None,
    *,
    progress: Progress | None = None,
) -> list[ScoreSet]:
    """Score the same texts with several scorers, like `twmd_registry.score_all`, which also takes names."""
    drop_missing = any(scorer.options.drop_missing for scorer in scorers)
    segments = check_segments(predictions, references, sources, drop_missing=drop_missing)
    return score_segments(scorers, segments, progress=progress)


def check_scorers(scorers: Sequence[Scorer | str]) -> list[Scorer]:
    """Return at least one scorer; create scorers for names. Raise SpecError for an empty list."""
    is_list = isinstance(scorers, Iterable) and not isinstance(scorers, str)
    if not is_list or not all(isinstance(scorer, Scorer | str) for scorer in scorers):
        raise SpecError('expected a list of metrics: ["twmd", "trwmd"], or of scorers: [load("twmd")].')
    if not scorers:
        raise SpecError('the list of metrics is empty: pass at least one, as in ["twmd"].')
    made = {name: _scorer_of_name(name) for name in scorers if isinstance(name, str)}
    if made:
        _LATEST[:] = made.values()
    return [made[scorer] if isinstance(scorer, str) else scorer for scorer in scorers]


def _scorer_of_name(name: str) -> Scorer:
    """Create a scorer from a signature or a metric's name with or without keys."""
    if name.partition(";")[0] in LEXICAL_NAMES:
        raise SpecError(f"{name} is SacreBLEU's: use twmd_registry.score_all or 'twmd score'.")
    return load(name)


class Hooks:
    """Steps of `score_pairs` that callers may replace. These hooks change nothing.

    `Ranks` (a distributed run) replaces `take` and `gather`, a shared pass of a service `known`, Ray's actors `sums`.
    """

    def known(self, group: Sequence[Backend], pairs: Pairs) -> PairScores | None:
        """Return the scores of the pairs if already known, otherwise None."""
        del group, pairs
        return None

    def take(self, group: Sequence[Backend], pairs: Pairs) -> Pairs:
        """Return the pairs that this process scores: all of them."""
        del group
        return pairs

    def sums(self, group: Sequence[Backend]) -> CorpusSums:
        """Return the sums over the corpus; none if the pairs are the corpus."""
        del group
        return {}

    def gather(self, group: Sequence[Backend], pairs: Pairs, scores: PairScores) -> PairScores:
        """Return the scores of all pairs, given those of the pairs taken."""
        del group, pairs
        return scores


def score_pairs(group: Sequence[Backend], pairs: Pairs, stage: Stage, hooks: Hooks | None = None) -> PairScores:
    """Score pairs with the backends of a group, which share a model. All scores are computed here."""
    hooks = hooks or Hooks()
    known = hooks.known(group, pairs)
    if known is not None:
        return known
    scores = group[0].score_pairs(group, hooks.take(group, pairs), stage, hooks.sums(group))
    return hooks.gather(group, pairs, scores)


@dataclass
class _Comparison:
    """The scorers of a call that compare predictions with references, or those that compare them with sources."""

    members: list[Scorer]
    pairs: Pairs
    letters: dict[str, int] = field(default_factory=dict)  # By script
    # By model: facts about the texts, and whether it is a table of word vectors
    facts: list[tuple[TextFacts, bool]] = field(default_factory=list)


def group_by(values: Iterable[T], key: Callable[[T], Hashable]) -> list[list[T]]:
    """Group values with equal keys, in order of first occurrence."""
    groups = dict[Hashable, list[T]]()
    for value in values:
        groups.setdefault(key(value), []).append(value)
    return list(groups.values())


@check_types(progress=Callable | None)
def score_segments(
    scorers: Sequence[Scorer],
    segments: Segments,
    *,
    progress: Progress | None = None,
    hooks: Hooks | None = None,
    rows: Sequence[int] = (),
) -> list[ScoreSet]:
    """Score checked texts with several metrics, encoding each distinct text once per model.

    Args:
        scorers: At least one.
        segments: The result of `check_segments`.
        progress: As for `Scorer.score`.
        hooks: Replaced steps of `score_pairs`.
        rows: The row numbers of the segments in warnings; from 0 if empty.
    """
    members = list(dict.fromkeys(member for scorer in scorers for member in scorer.members))
    comparisons = [
        _Comparison(group_members, make_pairs(segments, group_members[0].requested))
        for group_members in group_by(members, lambda member: member.requested.against)
    ]
    digest = digest_of_texts(segments, sources=any(one.pairs.against == "source" for one in comparisons))
    rows = rows or range(len(segments.predictions))
    results = dict[Scorer, ScoreSet]()
    with collect_warnings() as held:  # several models, or chunks of the texts, may repeat a warning
        for comparison in comparisons:  # before loading a model
            backends = [member.backend for member in comparison.members]
            comparison.letters = check_texts(backends, comparison.pairs, rows)
        # `share_key` loads the model and completes the specification.
        by_model = [(one, group_by(one.members, lambda member: member.backend.share_key)) for one in comparisons]
        groups = [(comparison, group) for comparison, groups_of_model in by_model for group in groups_of_model]
        stage = split_progress(progress, len(rows), len(groups))
        for comparison, group in groups:
            backends = [member.backend for member in group]
            warn_about_language(backends[0].spec.model, comparison.pairs)
            found = score_pairs(backends, comparison.pairs, stage, hooks)
            empty = found.facts.flags["empty"]
            if empty.any() and not backends[0].scores_empty:
                where = name_texts(comparison.pairs, empty, rows)
                model = backends[0].spec.model
                raise InputError(f"{where}: {model} has no score for a text without a token; leave these rows out.")
            comparison.facts.append((found.facts, backends[0].model.static))
            for member, scores in zip(group, found.by_backend, strict=True):
                results[member] = _make_score_set(member, comparison, scores, found.facts, digest)
        for comparison in comparisons:
            warn_about_texts(comparison.pairs, comparison.facts, rows)
        sets = [
            results[scorer] if scorer in results else scorer.combine([results[member] for member in scorer.members])
            for scorer in scorers
        ]
        for scorer, score_set in zip(scorers, sets, strict=True):
            if scorer.nrefs is not None and scorer.nrefs != score_set.signature.nrefs:
                warn_about_other_nrefs(scorer.nrefs, score_set.signature)
    for message in dict.fromkeys(held):
        warn(message)
    return sets


def _make_score_set(member: Scorer, comparison: _Comparison, found: Scores, facts: TextFacts, digest: str) -> ScoreSet:
    """Rescale the scores of pairs, reduce them over references, and return a `ScoreSet`."""
    spec, baseline = member.backend.spec, member.backend.baseline
    pairs, letters, flags = comparison.pairs, comparison.letters, facts.flags
    scores = rescale(found.sides, baseline) if baseline else found.sides
    # The best precision, recall and F1 may come from different references.
    if len(scores[0]) == len(pairs.starts):  # one reference each
        by_side = scores
    elif spec.multiref == "max":
        by_side = np.maximum.reduceat(scores, pairs.starts, axis=1)  # (sides, segments)
    else:
        by_side = np.add.reduceat(scores, pairs.starts, axis=1) / pairs.counts
    scripts = member.backend.scripts
    names = (SENTENCE_COUNTS.names or ()) if spec.align else ()
    of_sentences = {name: int(found.sentences[name].sum()) for name in names}
    counts = Counts(
        segments=len(pairs.counts),
        truncated=int(flags["truncated"].sum()),
        empty=int(flags["empty"][pairs.hyp[pairs.starts]].sum() + flags["empty"][pairs.ref].sum()),
        unknown=int(flags["unknown"].sum()),
        repeated=len(pairs.counts) + len(pairs.ref) - len(pairs.texts),
        oov=sum(map(len, facts.missing.values())),
        foreign=sum(letters[script] for script in letters if scripts and script not in scripts),
        letters=letters,
        sentences=of_sentences,
    )
    nrefs = 0 if spec.against else int(pairs.counts[0])
    signature = Signature(spec, nrefs if (pairs.counts == pairs.counts[0]).all() else "var")
    # A scorer itself would keep its model in memory.
    backend = partial(make_backend, member.requested, member.options, member.local_files)
    of_pairs = scores[SIDE[spec.output]]
    return ScoreSet(
        signature=signature,
        by_side=by_side,
        counts=counts,
        texts=digest,
        hashes=member.backend.hashes,
        explainer=partial(_explain_pairs, make=backend, signature=signature, pairs=pairs, scores=of_pairs),
        by_reference=of_pairs,
    )


def _explain_pairs(
    segment: int,
    reference: int | None,
    *,
    make: Callable[[], Backend],
    signature: Signature,
    pairs: Pairs,
    scores: np.ndarray,
) -> Alignment:
    """Compute the alignment of a scored segment again (`ScoreSet.explain`), with the backend that `make` returns.

    `scores` are *the* scores of all pairs, shape (pairs,), which determine the best reference.
    """
    pair = _find(pairs, scores, segment, reference)
    backend = make()
    if not isinstance(backend, TokenAlignmentBackend):
        raise SpecError(f"{signature.spec.metric} has no alignment to show: it predicts a number from both texts.")
    try:
        if backend.spec != signature.spec:
            raise ModelError("the model or another file of these scores has changed since: score the texts again.")
        return backend.explain(pairs, pair, float(scores[pair]), signature)
    finally:
        backend.close()


def _find(pairs: Pairs, scores: np.ndarray, segment: int, reference: int | None) -> int:
    """Return the pair of a segment and a reference; without `reference`, the highest-scoring pair."""
    if not 0 <= segment < len(pairs.counts):
        raise InputError(f"segment {segment} is out of range: there are {len(pairs.counts)}, counted from 0.")
    first, number = int(pairs.starts[segment]), int(pairs.counts[segment])
    if reference is None:
        return first + int(scores[first : first + number].argmax())
    if not 0 <= reference < number:
        raise InputError(f"reference {reference} of segment {segment} is out of range: it has {number}, from 0.")
    return first + reference
