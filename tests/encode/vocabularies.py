"""Small real tokenizers of every type, trained on sentences written for the tests."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors, trainers
from transformers import PreTrainedTokenizerFast

from twmd_registry.encode.pieces import pieces_of

SENTENCES = [
    "the heron was waiting at the weir and the heron was walking away",
    "walkers walked where herons wait, waded and walked on",
    "see the old mill (see this), then see the weir!",
    "a baker, baking and baked bread: the bread of the bakery",
    "we saw café crème and naïve herons in the café",
    "waiting, waited, wading; walking, baking, seeing",
]
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]"]


def wrapped(backend: Tokenizer) -> PreTrainedTokenizerFast:
    backend.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[(name, backend.token_to_id(name)) for name in ("[CLS]", "[SEP]")]
    )
    made = bare(backend)
    made.cls_token, made.sep_token = "[CLS]", "[SEP]"
    return made


def bare(backend: Tokenizer) -> PreTrainedTokenizerFast:
    """Without special tokens around a text, as GPT-2 reads it."""
    return PreTrainedTokenizerFast(tokenizer_object=backend, pad_token="[PAD]", unk_token="[UNK]")


def wordpiece() -> PreTrainedTokenizerFast:
    backend = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    backend.normalizer = normalizers.BertNormalizer(lowercase=True)
    backend.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    backend.train_from_iterator(
        [*SENTENCES, "我 们 喜 欢 猫"],
        trainers.WordPieceTrainer(vocab_size=90, special_tokens=SPECIAL, show_progress=False),
    )
    return wrapped(backend)


def byte_level_backend(*, prefix: bool) -> Tokenizer:
    backend = Tokenizer(models.BPE())
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=prefix)
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    backend.train_from_iterator(
        SENTENCES[:4],
        trainers.BpeTrainer(vocab_size=310, special_tokens=SPECIAL, initial_alphabet=alphabet, show_progress=False),
    )
    return backend


def unigram() -> PreTrainedTokenizerFast:
    backend = Tokenizer(models.Unigram())
    backend.normalizer = normalizers.NFKC()
    backend.pre_tokenizer = pre_tokenizers.Metaspace()
    backend.train_from_iterator(
        [*SENTENCES, "我们喜欢猫"] * 3,
        trainers.UnigramTrainer(vocab_size=110, special_tokens=SPECIAL, unk_token="[UNK]", show_progress=False),
    )
    return wrapped(backend)


def sentencepiece_bpe() -> PreTrainedTokenizerFast:
    backend = Tokenizer(models.BPE(unk_token="[UNK]"))
    backend.pre_tokenizer = pre_tokenizers.Metaspace()
    backend.train_from_iterator(
        [*SENTENCES, "我们喜欢猫"], trainers.BpeTrainer(vocab_size=90, special_tokens=SPECIAL, show_progress=False)
    )
    return wrapped(backend)


def end_of_word_bpe() -> PreTrainedTokenizerFast:
    backend = Tokenizer(models.BPE(unk_token="[UNK]", end_of_word_suffix="</w>"))
    backend.normalizer = normalizers.Lowercase()
    backend.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    backend.train_from_iterator(
        SENTENCES,
        trainers.BpeTrainer(vocab_size=100, special_tokens=SPECIAL, end_of_word_suffix="</w>", show_progress=False),
    )
    return wrapped(backend)


def word_level() -> PreTrainedTokenizerFast:
    backend = Tokenizer(models.WordLevel(unk_token="[UNK]"))
    backend.pre_tokenizer = pre_tokenizers.Whitespace()
    backend.train_from_iterator(SENTENCES, trainers.WordLevelTrainer(special_tokens=SPECIAL))
    return wrapped(backend)


def byte_fallback() -> PreTrainedTokenizerFast:
    """Return words and letters of a Llama-like vocabulary; other letters are read byte by byte."""
    pieces = [*SPECIAL, *(f"<0x{byte:02X}>" for byte in range(256)), *"▁acefhnortuvxy", "▁a", "▁n", "▁na", "ve", "▁h"]
    merges = [("▁", "a"), ("▁", "n"), ("▁n", "a"), ("v", "e"), ("▁", "h")]
    ids = {piece: i for i, piece in enumerate(pieces)}
    backend = Tokenizer(models.BPE(ids, merges, unk_token="[UNK]", byte_fallback=True))
    backend.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    return wrapped(backend)


SUBWORD: dict[str, Callable[[], PreTrainedTokenizerFast]] = {
    "wordpiece": wordpiece,
    "byte-level": lambda: wrapped(byte_level_backend(prefix=False)),
    "byte-level with a space before": lambda: wrapped(byte_level_backend(prefix=True)),
    "unigram": unigram,
    "sentencepiece bpe": sentencepiece_bpe,
    "end-of-word bpe": end_of_word_bpe,
}
ALL = SUBWORD | {"word-level": word_level}


class Reader:
    """A tokenizer with a description of its vocabulary, as views need."""

    def __init__(self, tokenizer: PreTrainedTokenizerFast) -> None:
        self.tokenizer, self.pieces = tokenizer, pieces_of(tokenizer)

    def read(self, texts: list[str]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return ids of many texts in a row, which are the texts' own, and every text's length."""
        found = self.tokenizer.backend_tokenizer.encode_batch(texts)
        ids = np.array([i for one in found for i in one.ids], dtype=np.int64)
        is_text = np.array([not special for one in found for special in one.special_tokens_mask], dtype=bool)
        return ids, is_text, np.array([len(one.ids) for one in found])

    def continuing(self, texts: list[str]) -> np.ndarray:
        ids, is_text, lengths = self.read(texts)
        return self.pieces.continuing(ids, is_text, (np.cumsum(lengths) - lengths)[lengths > 0])

    def tokens(self, texts: list[str]) -> list[str]:
        return [str(token) for token in self.tokenizer.convert_ids_to_tokens(self.read(texts)[0].tolist())]

    def words(self, text: str) -> list[str]:
        """Return the words of one text, joined from their pieces."""
        ids, is_text, _ = self.read([text])
        found: list[str] = []
        for number, in_text, on in zip(ids.tolist(), is_text, self.continuing([text]), strict=True):
            if in_text and on and found:
                found[-1] += self.pieces.texts[number]
            elif in_text:
                found.append(self.pieces.texts[number])
        return found
