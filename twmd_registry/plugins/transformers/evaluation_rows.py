"""The rows of an evaluation: their texts, and their references, which `Trainer` does not know."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch

from twmd_registry.engine.distributed import world_size
from twmd_registry.errors import InputError, SpecError, menu, warn

Rows = Sequence[str] | Sequence[Sequence[str]]
"""References, one entry per row of a data set: a text, or a list of texts."""
References = Rows | Mapping[str, Rows] | Callable[[Any], Rows] | None
"""References of one evaluation set, of several by split, a function from the data set, or None for the labels."""
_SEVERAL = "For several evaluation sets give a dict {split: references}, or a function of the data set."


class EvaluationRows:
    """The data set under evaluation (None before `watch`) and its references."""

    def __init__(self, references: References, sources: References = None) -> None:
        """Keep the references and sources, as for `RegistryCallback`; refuse other types."""
        for what, texts in (("references", references), ("sources", sources)):
            if isinstance(texts, (str, bytes)) or not (texts is None or callable(texts) or hasattr(texts, "__len__")):
                raise SpecError(
                    f"{what} must be a list, a dict of lists by split, a function of the data set, or None; got "
                    f"{texts!r:.60}."
                )
        self._references, self._sources = references, sources
        self._labels_of: dict[str, str] = {}
        self.dataset: Any = None

    def watch(self, dataset: Any, *, in_order: bool) -> None:
        """Set the data set that is evaluated; refuse rows in another order than its own, where references go by it."""
        if not in_order and (self._references is not None or self._sources is not None):
            raise SpecError(
                "grouping by length evaluates rows in another order than the data set's: turn it off, or give "
                "references=None, which takes the labels as references."
            )
        self.dataset = dataset

    def count(self, received: int) -> int:
        """Return how many received rows belong to the data set; the others are repeats that fill the last batches.

        Several processes need the data set for that. Missing rows bring a warning.
        """
        several = world_size() > 1
        if self.dataset is None and several:
            raise SpecError(
                "several processes repeat rows at the end: give the compute_metrics object in callbacks=[...], too."
            )
        if not hasattr(self.dataset, "__len__"):
            if several:
                warn("the data set has no length: rows repeated at its end are scored twice. Use one with a length.")
            return received
        size = len(self.dataset)
        if received > size and not several:
            raise InputError(
                f"{received} predictions came for an evaluation set of {size} rows; some may come from an interrupted "
                "evaluation. Evaluate again."
            )
        if received < size:
            warn(
                f"predictions came for {received} of the {size} rows of the evaluation set only "
                "(set dataloader_drop_last=False to score every row)."
            )
        return min(received, size)

    def references_of(self, labels: Sequence[str]) -> Rows:
        """Return the references of the rows, of which there are as many as decoded labels; refuse those of an unknown
        evaluation set, of another number of rows, or of a split with other labels before.
        """
        return labels if self._references is None else self._texts_of("references", self._references, labels)

    def sources_of(self, labels: Sequence[str]) -> Rows | None:
        """Return the sources of the rows likewise, None where there are none."""
        return None if self._sources is None else self._texts_of("sources", self._sources, labels)

    def _texts_of(self, what: str, given: Any, labels: Sequence[str]) -> Rows:
        name, references = "", given
        if callable(references):
            references = references(self._known_dataset())
        elif isinstance(references, Mapping):
            name = self._split(references)
            references = references[name]
        size = len(self.dataset) if hasattr(self.dataset, "__len__") else len(labels)
        of_name = name and f" of {name!r}"
        if len(references) != size:
            raise InputError(
                f"there are {len(references)} {what}{of_name} for an evaluation set of {size} rows. {_SEVERAL}"
            )
        digest = hashlib.sha256(json.dumps(list(labels)).encode()).hexdigest()
        if not callable(given) and self._labels_of.setdefault(name, digest) != digest:
            raise InputError(
                f"the {what}{of_name} were used for rows with other labels before: two evaluation sets? {_SEVERAL}"
            )
        rows: Rows = references[: len(labels)]
        return rows

    def _known_dataset(self) -> Any:
        if self.dataset is None:
            raise SpecError(
                "references by split or function need the data set: give the compute_metrics object in callbacks, too."
            )
        return self.dataset

    def _split(self, references: Mapping[str, Rows]) -> str:
        """Return the name of the data set's split."""
        split = getattr(self._known_dataset(), "split", None)
        if split is None:
            raise SpecError(
                "references are given by split, but the evaluation set does not say which split it is: give a "
                "function of the data set."
            )
        if str(split) not in references:
            raise SpecError(f"there are no references of the split {str(split)!r}; {menu(str(split), references)}.")
        return str(split)


def decode_texts(ids: Any, tokenizer: Any, what: str) -> list[str]:
    """Decode token ids in any of the forms that `Trainer` has for them: shape (rows, tokens), a list of such batches,
    or a tuple of outputs that begins with the ids. Negative numbers (the -100 of joined batches) are padding. Raises an
    `InputError` for other values (most likely logits).
    """
    if isinstance(ids, tuple):
        return decode_texts(ids[0], tokenizer, what)
    if isinstance(ids, list):
        return [text for batch in ids for text in decode_texts(batch, tokenizer, what)]
    numbers = ids.detach().cpu().numpy() if torch.is_tensor(ids) else np.asarray(ids)
    if numbers.ndim != 2 or not np.issubdtype(numbers.dtype, np.integer):
        raise InputError(
            f"{what} must be token ids, whole numbers of shape (rows, tokens), not {numbers.dtype} of shape "
            f"{numbers.shape}: set predict_with_generate=True in Seq2SeqTrainingArguments."
        )
    padded = np.where(numbers < 0, padding_of(tokenizer), numbers)
    return [text.strip() for text in tokenizer.batch_decode(padded, skip_special_tokens=True)]


def padding_of(tokenizer: Any) -> int:
    """Return the id of a special token that decoding leaves out: padding, or else the end of a text."""
    inner = getattr(tokenizer, "tokenizer", tokenizer)
    for token in (inner.pad_token_id, inner.eos_token_id):
        if token is not None:
            return int(token)
    raise SpecError(
        "the tokenizer has neither a padding nor an end token to put in the place of -100: set tokenizer.pad_token."
    )
