"""From the token ids that `Trainer` hands over to texts."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from twmd_registry.errors import InputError, SpecError


def texts_of(ids: Any, tokenizer: Any, what: str) -> list[str]:
    """Decode token ids in any of the forms that `Trainer` has for them.

    Args:
        ids: Whole numbers of shape (rows, tokens), as an array or a tensor; a list of such batches; or a tuple of
            outputs, of which
            the first holds the ids. Negative numbers (the -100 of joined batches) and padding may stand side by side.
        tokenizer: A tokenizer, or a processor that holds one.
        what: Whose they are, for messages.

    Returns:
        One text per row, without special tokens and without space at its ends.

    Raises:
        InputError: They are no token ids: logits, most likely.
        SpecError: The tokenizer has no token to pad with.
    """
    if isinstance(ids, tuple):
        return texts_of(ids[0], tokenizer, what)
    if isinstance(ids, list):
        return [text for batch in ids for text in texts_of(batch, tokenizer, what)]
    numbers = ids.detach().cpu().numpy() if torch.is_tensor(ids) else np.asarray(ids)
    if numbers.ndim != 2 or not np.issubdtype(numbers.dtype, np.integer):
        raise InputError(
            f"{what} must be token ids, whole numbers of shape (rows, tokens), not {numbers.dtype} of shape "
            f"{numbers.shape}: "
            "set predict_with_generate=True in Seq2SeqTrainingArguments."
        )
    padded = np.where(numbers < 0, padding_of(tokenizer), numbers)
    return [text.strip() for text in tokenizer.batch_decode(padded, skip_special_tokens=True)]


def padding_of(tokenizer: Any) -> int:
    """The id of a special token that decoding leaves out: padding, or else the end of a text.

    Raises:
        SpecError: There is neither.
    """
    own = getattr(tokenizer, "tokenizer", tokenizer)
    for token in (own.pad_token_id, own.eos_token_id):
        if token is not None:
            return int(token)
    raise SpecError(
        "the tokenizer has neither a padding nor an end token to put in the place of -100: set tokenizer.pad_token."
    )
