"""Which rows are evaluated, and which references they have: what `Trainer` does not say."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from twmd_registry.engine.distributed import world_size
from twmd_registry.errors import InputError, SpecError, menu, warn

Rows = Sequence[str] | Sequence[Sequence[str]]
"""References, one entry per row of a data set: a text, or a list of texts."""
References = Rows | Mapping[str, Rows] | Callable[[Any], Rows] | None
"""References of one evaluation set, of several by split, a function from the data set, or None for the labels."""


class EvaluationRows:
    """The data set under evaluation, as far as a callback sees it, and its references.

    Attributes:
        dataset: What is evaluated now; None until `watch` was called.
    """

    def __init__(self, references: References) -> None:
        """Keep the references; they are looked up when there are rows.

        Args:
            references: As for `make_compute_metrics`.

        Raises:
            SpecError: They are of no such kind.
        """
        if isinstance(references, (str, bytes)) or not (
            references is None or callable(references) or hasattr(references, "__len__")
        ):
            raise SpecError(
                "references must be a list, a dict of lists by split, a function of the data set, or None; got "
                f"{references!r:.60}."
            )
        self._references = references
        self._labels_of: dict[str, str] = {}
        self.dataset: Any = None

    def watch(self, dataset: Any, *, in_order: bool) -> None:
        """Learn which data set is evaluated.

        Args:
            dataset: The data set.
            in_order: Whether its rows come in their order.

        Raises:
            SpecError: They do not, and references belong to rows by their order.
        """
        if not in_order and self._references is not None:
            raise SpecError(
                "grouping by length evaluates rows in another order than the data set's: references can only be "
                "the labels (None)."
            )
        self.dataset = dataset

    def number(self, found: int) -> int:
        """How many of the rows that came are the data set's; the rest repeats some, to fill the last batch of every
        process.

        Args:
            found: Rows that came.

        Raises:
            SpecError: Several processes, and nobody said how many rows the data set has.
            InputError: More rows than the data set has, in a single process.

        Warns:
            TwmdWarning: Rows are missing, or several processes evaluate a data set without a length.
        """
        several = world_size() > 1
        if self.dataset is None:
            if several:
                raise SpecError(
                    "several processes evaluate, and repeat rows at the end: give the same object in "
                    "callbacks=[...], too."
                )
            return found
        size = len(self.dataset) if hasattr(self.dataset, "__len__") else None
        if size is None:
            if several:
                warn("the data set has no length: rows that several processes repeat at its end are scored twice.")
            return found
        if found > size and not several:
            raise InputError(
                f"{found} predictions came for an evaluation set of {size} rows: were there some of an "
                "evaluation that was broken off?"
            )
        if found < size:
            warn(f"predictions came for {found} of the {size} rows of the evaluation set only (dataloader_drop_last?).")
        return min(found, size)

    def references_of(self, labels: Sequence[str]) -> Rows:
        """The references of the rows.

        Args:
            labels: The decoded labels, one per row.

        Raises:
            SpecError: Which evaluation set this is cannot be told.
            InputError: Another number of rows than references, or other labels under one name.
        """
        if self._references is None:
            return labels
        name = ""
        if callable(self._references):
            found = self._references(self._known())
        elif isinstance(self._references, Mapping):
            name = self._split()
            found = self._references[name]
        else:
            found = self._references
        size = len(self.dataset) if hasattr(self.dataset, "__len__") else len(labels)
        if len(found) != size:
            raise InputError(
                f"there are {len(found)} references{name and f' of {name!r}'} for an evaluation set of {size} "
                f"rows. {_SEVERAL}"
            )
        if not callable(self._references):
            self._check_labels(name, labels)
        return found[: len(labels)]

    def _known(self) -> Any:
        if self.dataset is None:
            raise SpecError("to tell evaluation sets apart, give the same object in callbacks=[...], too.")
        return self.dataset

    def _split(self) -> str:
        """The split that the data set says it is."""
        split = getattr(self._known(), "split", None)
        if split is None:
            raise SpecError(
                "references are given by split, but the evaluation set does not say which split it is: give a "
                "function of the data set."
            )
        if str(split) not in self._references:  # type: ignore[operator]
            others = menu(str(split), self._references)  # type: ignore[arg-type]
            raise SpecError(f"there are no references of the split {str(split)!r}; {others}.")
        return str(split)

    def _check_labels(self, name: str, labels: Sequence[str]) -> None:
        """Refuse another evaluation set than the one that the references were used for before."""
        digest = hashlib.sha256(json.dumps(list(labels)).encode()).hexdigest()
        if self._labels_of.setdefault(name, digest) != digest:
            raise InputError(
                f"the references{name and f' of {name!r}'} were used for rows with other labels before: two "
                f"evaluation sets? {_SEVERAL}"
            )


_SEVERAL = "For several evaluation sets give a dict {split: references}, or a function of the data set."
