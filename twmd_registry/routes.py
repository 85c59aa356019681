"""The two ways to a score: through token vectors and their alignment, or through a regression model."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from functools import cached_property, partial

import numpy as np
import torch

from twmd_registry.assemble import empty_score
from twmd_registry.encode import idf
from twmd_registry.encode.background import MEAN_VECTOR, Background, find_background, fit_background
from twmd_registry.encode.encoder import Encoder
from twmd_registry.encode.layers import check_layer, last_layers, rule_layer
from twmd_registry.encode.stopwords import STOP_WORDS, StopWords, find_stop_words
from twmd_registry.encode.store import Reading
from twmd_registry.encode.words import as_tokenized
from twmd_registry.errors import warn
from twmd_registry.models.arithmetic import exact_arithmetic
from twmd_registry.models.fitted import find_signed
from twmd_registry.pairs import Pairs
from twmd_registry.pipeline import ENCODED, Job, PairPlan, Run, Total, alone
from twmd_registry.progress import Progress
from twmd_registry.registry.keys import layers_text
from twmd_registry.registry.names import Centering, First, Idf, MetricName, Special, Unknown
from twmd_registry.registry.options import RunOptions
from twmd_registry.registry.own_presets import warn_of_other_settings
from twmd_registry.registry.parts import Parts
from twmd_registry.registry.spec import MetricSpec
from twmd_registry.regress.regressor import Predictions, Regressor
from twmd_registry.route import Route, Scored
from twmd_registry.scores import PairScores
from twmd_registry.views import Fitted


class AlignmentRoute(Route):
    """encode -> center -> align -> assemble."""

    kind = Encoder

    @cached_property
    def background(self) -> Background | None:
        """The mean vectors that background centering subtracts.

        Raises:
            ModelError: They are not here, damaged, or of another model.
        """
        if self.requested.centering_kind is not Centering.BACKGROUND:
            return None
        asked = self.requested.background
        of_model = partial(find_background, fingerprint=self.files.fingerprint, adapter=self.adapter.name if self.adapter else None)
        return of_model(None) if asked is None else find_signed(of_model, asked, self.parts, MEAN_VECTOR)

    @cached_property
    def stop_words(self) -> StopWords | None:
        """The words that are left out.

        Raises:
            ModelError: The list is not here, or not one.
        """
        asked = self.requested.stopwords
        return None if asked is None else find_signed(find_stop_words, asked, self.parts, STOP_WORDS)

    @cached_property
    def frequencies(self) -> idf.IdfFile | None:
        """The document frequencies of ``idf=background``.

        Raises:
            ModelError: They are not here, damaged, or of another tokenizer.
        """
        asked = self.requested.idf_file
        return None if asked is None else find_signed(lambda wanted: idf.find_idf(wanted, self.model.tokenizer), asked, self.parts, idf.FREQUENCIES)

    def _settle(self) -> MetricSpec:
        """Fill in what only the model can say; warns when its layer was chosen by rule."""
        background, stop_words, frequencies = self.background, self.stop_words, self.frequencies
        settled = (
            super()
            ._settle()
            .replace(
                layer=self._layers(),
                unknown=None if self.model.static else self.requested.unknown,
                stopwords=stop_words.hash if stop_words else None,
                idf=f"{Idf.BACKGROUND}:{frequencies.hash}" if frequencies else self.requested.idf,
                centering=f"{Centering.BACKGROUND}:{background.hash}" if background else self.requested.centering,
            )
        )
        if self.adapter is not None:
            warn_of_other_settings(settled, self.adapter.folder)
        return settled

    def _layers(self) -> int | str:
        """The layers that are read, written as in a signature."""
        asked, encoder = self.requested.layer, self.model
        if asked is None:
            layer = rule_layer(encoder.depth)
            warn(
                f"untuned: nobody has measured which settings of {self.files.name} agree best with people: layer={layer} (5/6 of its depth) by "
                f"rule, centering={self.requested.centering} and the rest as in the signature."
            )
            return check_layer(layer, encoder.depth, self.files.name)
        layers = self.requested.layers or last_layers(str(asked), encoder.depth)
        check_layer(max(layers), encoder.depth, self.files.name)
        return layers_text(layers)  # type: ignore[return-value]

    def _truncation(self, limit: int | None) -> str:
        window = self.model.window(limit, self.requested.stride)
        return super()._truncation(limit) if window is None else f"window:{window.size}/{window.stride}"

    @property
    def reading(self) -> Reading:
        """How long texts are read."""
        return Reading(self.spec.limit, self.model.window(self.spec.limit, self.spec.stride))

    @property
    def job(self) -> Job:
        """The applied specification with what was fitted for it."""
        fitted, encoder = Fitted(), self.model
        if self.background is not None:
            means = self.background.means[Special(str(self.spec.special))]
            fitted = fitted._replace(means={k: means[k] for k in self.spec.layers})
        if self.stop_words is not None:
            fitted = fitted._replace(stop_words=as_tokenized(self.stop_words.words, encoder.tokenizer, encoder.pieces))
        if self.frequencies is not None:
            unseen = encoder.tokenizer.unk_token_id if self.spec.unknown == Unknown.APART else None
            weights = torch.from_numpy(self.frequencies.frequencies.unseen(unseen).weights)
            fitted = fitted._replace(weights=(weights, weights))
        return Job(self.spec, fitted)

    def run(self, group: Sequence[AlignmentRoute], pairs: Pairs, progress: Progress | None, total: Total = alone) -> Run:
        """Plan the work of a group."""
        return Run(
            self.model,
            [route.job for route in group],
            pairs,
            self.reading,
            batch_tokens=self.options.batch_tokens,
            keep=max(route.options.kept_bytes for route in group),
            disk=max(route.options.disk_bytes for route in group),
            total=total,
            progress=progress,
        )

    def fit_background(self, texts: Iterable[str], progress: Progress | None = None) -> bytes:
        """Fit the mean vectors of this model over a corpus: the content of a mean-vector file."""
        with self.model.lock, torch.inference_mode(), exact_arithmetic():
            return fit_background(self.model, texts, self.reading, adapter=self.spec.adapter, progress=progress)

    def fit_idf(self, texts: Iterable[str], progress: Progress | None = None) -> bytes:
        """Count document frequencies over a corpus: the content of a frequencies file."""
        with self.model.lock:
            return idf.fit_idf(self.model, texts, self.reading, progress)

    def score_group(self, group: Sequence[AlignmentRoute], pairs: Pairs, progress: Progress | None, total: Total = alone) -> Scored:
        """Score all pairs by every member, each different text encoded once."""
        with self.model.lock, torch.inference_mode(), exact_arithmetic():
            return self.run(group, pairs, progress, total).score()

    def work(self, group: Sequence[AlignmentRoute], pairs: Pairs) -> int:
        """Every different text, twice where sums over the corpus take a pass of their own, and every pair by every specification."""
        passes = 2 if any(route.spec.centering_kind is Centering.CORPUS for route in group) else 1
        return len(pairs.texts) * passes * ENCODED + len(pairs.hyp) * len(group)

    def sum_up(self, group: Sequence[AlignmentRoute], pairs: Pairs, total: Total) -> None:
        """Give `total` the sums of token vectors and the document frequencies of these pairs."""
        with self.model.lock, torch.inference_mode(), exact_arithmetic():
            self.run(group, pairs, None, total).sum_up()

    def explain(self, pairs: Pairs, pair: int) -> PairPlan:
        """How a pair among these is aligned."""
        with self.model.lock, torch.inference_mode(), exact_arithmetic():
            return self.run([self], pairs, None).explain(pair)


class RegressionRoute(Route):
    """A pair of texts in, a number out."""

    kind = Regressor

    def _settle(self) -> MetricSpec:
        """Leave out the keys of order where a model reads the texts apart: there they do nothing."""
        settled = super()._settle()
        return settled.replace(first=None, symmetric=None) if self.model.reads_apart else settled

    def score_group(self, group: Sequence[RegressionRoute], pairs: Pairs, progress: Progress | None, total: Total = alone) -> Scored:
        """Score all pairs; each different pair goes through the model once, and depends on no other."""
        del total
        with self.model.lock:
            return self._score_group(group, pairs, progress)

    def work(self, group: Sequence[RegressionRoute], pairs: Pairs) -> int:
        """A unit per pair and order."""
        return len(pairs.hyp) * len({first for route in group for first in route.orders})

    def _score_group(self, group: Sequence[RegressionRoute], pairs: Pairs, progress: Progress | None) -> Scored:
        flags = self.model.look_at(pairs.texts)
        empty = flags.empty
        different, inverse = np.unique(np.stack([pairs.hyp, pairs.ref]), axis=1, return_inverse=True)
        hyp, ref = different
        full = np.flatnonzero(~empty[hyp] & ~empty[ref])
        blank = np.flatnonzero(empty[hyp] | empty[ref])
        fixed = np.array([empty_score(bool(empty[hyp[i]]), bool(empty[ref[i]])) for i in blank])
        raw: dict[First, np.ndarray] = {}
        for first in sorted({first for route in group for first in route.orders}) if len(full) else ():
            before, after = (hyp[full], ref[full]) if first is First.PREDICTION else (ref[full], hyp[full])
            predicted = self._predict([pairs.texts[i] for i in before], [pairs.texts[i] for i in after], progress)
            raw[first] = predicted.values
            flags.truncated[np.stack([before, after], axis=1)[predicted.truncated]] = True
        found = []
        for route in group:
            scores = np.zeros(len(hyp))
            scores[blank] = fixed
            if raw:
                scores[full] = np.mean([raw[first] for first in route.orders], axis=0) / float(route.spec.scale or 1.0)
            found.append(PairScores((np.clip(scores, 0.0, 1.0) if route.spec.clip else scores)[inverse]))
        return found, flags

    def _predict(self, firsts: list[str], seconds: list[str], progress: Progress | None) -> Predictions:
        with torch.inference_mode(), exact_arithmetic():
            found: Predictions = self.model.predict(firsts, seconds, limit=self.spec.limit, batch_tokens=self.options.batch_tokens, progress=progress)
        return found

    @property
    def orders(self) -> tuple[First, ...]:
        """Which text is read first, in every reading."""
        return tuple(First) if self.spec.symmetric else (First(self.spec.first or First.PREDICTION),)


def route_of(spec: MetricSpec, options: RunOptions, parts: Parts | None = None) -> Route:
    """The route of a specification's metric."""
    return (RegressionRoute if spec.metric is MetricName.STSSCORE else AlignmentRoute)(spec, options, parts)


def share_groups(routes: Sequence[Route]) -> list[list[int]]:
    """Which of some routes are scored together, by their numbers: those that share a model, in the order of the first of each."""
    groups: dict[Hashable, list[int]] = {}
    for i, route in enumerate(routes):
        groups.setdefault(route.share_key, []).append(i)
    return list(groups.values())


def score_group(group: Sequence[Route], pairs: Pairs, progress: Progress | None) -> Scored:
    """Score all pairs by every route of a group that shares a model."""
    return group[0].score_group(group, pairs, progress)
