"""What the two ways to a score share: finding the model, claiming it, settling the specification."""

from __future__ import annotations

import contextlib
from collections.abc import Hashable, Sequence
from functools import cached_property, partial
from typing import Any

from twmd_registry.baseline import BASELINE, Baseline, find_baseline
from twmd_registry.encode.encoder import Encoder
from twmd_registry.errors import ModelError
from twmd_registry.models.adapter import AdapterFiles, find_adapter
from twmd_registry.models.files import ModelFiles, find_model
from twmd_registry.models.fitted import find_signed
from twmd_registry.models.load import pick_device
from twmd_registry.models.pool import Handle
from twmd_registry.pairs import Pairs, TextFlags
from twmd_registry.pipeline import Total, alone
from twmd_registry.progress import Progress
from twmd_registry.registry.options import RunOptions
from twmd_registry.registry.parts import Parts, SharedParts
from twmd_registry.registry.spec import MetricSpec
from twmd_registry.regress.regressor import Regressor
from twmd_registry.scores import PairScores

Scored = tuple[list[PairScores], TextFlags]
"""The scores of all pairs by every route of a group, and what to know of the texts."""


class Route:
    """What the two ways share: finding the model, claiming it, settling the specification.

    Attributes:
        kind: The class of the loaded model.
    """

    kind: type[Encoder] | type[Regressor]

    def __init__(self, spec: MetricSpec, options: RunOptions, parts: Parts | None = None) -> None:
        """Remember what to do; nothing is found or loaded yet.

        Args:
            spec: What to compute.
            options: Where and how fast.
            parts: Where its parts are, when `spec` is a stranger's; None when the user wrote it, paths and all.
        """
        self.requested, self.options, self.parts = spec, options, parts
        self._handle: Handle | None = None

    @cached_property
    def files(self) -> ModelFiles:
        """The model's files.

        Raises:
            ModelError: The model is not here, or its content is not what the signature says.
        """
        name, wanted = str(self.requested.model), self.requested.fingerprint
        if self.parts and self.parts.model:
            files = find_model(self.parts.model)
            if wanted and wanted != files.fingerprint:
                # The folder may be another metric's of the same record: this one's model may be here under its own name.
                with contextlib.suppress(ModelError):
                    files = find_model(name, self.requested.revision, paths=False)
        else:
            files = find_model(name, self.requested.revision, paths=self.parts is None)
        if wanted and wanted != files.fingerprint:
            raise ModelError(f"model {files.label} has the content @{files.fingerprint} here, not @{wanted} as asked for.")
        # Of two names for one content, the one that was published stays.
        return files._replace(name=name) if wanted and self.parts else files

    @cached_property
    def adapter(self) -> AdapterFiles | None:
        """The adapter's files, None when there is no adapter.

        Raises:
            ModelError: There is no such adapter here, or not with that content.
        """
        asked = self.requested.adapter
        if asked is None:
            return None
        if self.parts is None or self.parts.adapter is None:
            return find_adapter(asked, paths=self.parts is None)
        found, (_, _, wanted) = find_adapter(self.parts.adapter), asked.partition("@")
        if wanted and found.name.rpartition("@")[2] != wanted:
            if isinstance(self.parts, SharedParts):
                with contextlib.suppress(ModelError):
                    return find_adapter(asked, paths=False)
            raise ModelError(f"adapter {self.parts.adapter} has the content {found.name.rpartition('@')[2]}, not {wanted} as asked for.")
        return found._replace(name=asked) if wanted else found

    @property
    def model_key(self) -> Hashable:
        """Everything that decides which loaded model this is."""
        return (self.kind.__name__, self.files, self.adapter, self.requested.dtype, str(pick_device(self.options.device)))

    @property
    def model(self) -> Any:
        """The loaded model, shared."""
        if self._handle is None:
            # A partial and not a method of this route: no cycle keeps the model alive when the scorer is gone.
            load = partial(self.kind, self.files, self.adapter, str(self.requested.dtype), pick_device(self.options.device))
            self._handle = Handle(self.model_key, load)
        return self._handle.get()

    @cached_property
    def spec(self) -> MetricSpec:
        """The applied specification."""
        return self._settled.replace(baseline=self.baseline.hash if self.baseline else None)

    @cached_property
    def _settled(self) -> MetricSpec:
        return self._settle()

    @cached_property
    def baseline(self) -> Baseline | None:
        """What scores are rescaled by.

        Raises:
            ModelError: It is not here, damaged, or of other settings.
        """
        asked = self.requested.baseline
        if asked is None:
            return None
        return find_signed(lambda wanted: find_baseline(wanted, self._settled), asked, self.parts, BASELINE)

    def _settle(self) -> MetricSpec:
        """Fill in what only the model can say."""
        limit = self.model.check_limit(self.requested.limit)
        return self.requested.replace(
            model=self.files.name,
            fingerprint=self.files.fingerprint,
            adapter=self.adapter.name if self.adapter else None,
            truncation=self._truncation(limit),
        )

    def _truncation(self, limit: int | None) -> str:
        """The applied truncation."""
        return "cut" if limit is None else f"cut:{limit}"

    @property
    def share_key(self) -> Hashable:
        """Scorers with the same key are scored together."""
        return (self.model_key, self.spec.truncation, self.options.batch_tokens)

    def close(self) -> None:
        """Give the model back."""
        if self._handle is not None:
            self._handle.release()
            self._handle = None

    def park(self) -> None:
        """Leave the device, if the model is loaded, until it is used again."""
        if self._handle is not None:
            self._handle.get().park()

    def score_group(self, group: Sequence[Any], pairs: Pairs, progress: Progress | None, total: Total = alone) -> Scored:
        """Score all pairs by every member of a group that shares a key."""
        raise NotImplementedError

    def work(self, group: Sequence[Any], pairs: Pairs) -> int:
        """Units of progress that scoring such a group reports at most."""
        raise NotImplementedError

    def sum_up(self, group: Sequence[Any], pairs: Pairs, total: Total) -> None:
        """Give `total` the share of these pairs in what depends on the whole corpus; for most, nothing does."""
