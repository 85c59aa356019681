"""`SentenceEncoder`: a model with one vector per text, as its authors made it (sentence-transformers)."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Sequence
from importlib import import_module
from threading import RLock
from typing import Any, NamedTuple

import numpy as np
import torch

from twmd_registry.errors import ModelError
from twmd_registry.messages import warn
from twmd_registry.models import probe
from twmd_registry.models.files import ModelFiles, content_of, merge, sentence_content
from twmd_registry.models.inference import LoadedModel, keep_order
from twmd_registry.models.load import check_vocabulary, length_limit, load_encoder, load_tokenizer, opened
from twmd_registry.models.packaged import Bert, is_packaged, load_bert, read_tokenizer
from twmd_registry.models.vectors import is_static
from twmd_registry.registry.pipeline import MODULES, PIPELINE, SEQUENCE, pipeline_settings, sentence_modules
from twmd_registry.tensors import TextTokens

SIMILARITIES: dict[str, Callable[[np.ndarray, np.ndarray], Any]] = {
    "cosine": lambda x, y: np.einsum("pd,pd->p", x, y) / (_norms(x) * _norms(y)),
    "dot": lambda x, y: np.einsum("pd,pd->p", x, y),
    "euclidean": lambda x, y: -np.linalg.norm(x - y, axis=1),
    "manhattan": lambda x, y: -np.abs(x - y).sum(1),
}
"""Similarities of P pairs of vectors, shape (P, D) each, by sentence-transformers' name and computed as by it; shape
(P,).
"""


def _norms(x: np.ndarray) -> Any:
    return np.maximum(np.linalg.norm(x, axis=1), 1e-12)


class Line(NamedTuple):
    """A line that maps the cosine of two texts to a rating."""

    weight: float
    bias: float


class SentenceEncoder(LoadedModel):
    """A sentence-transformers model on a device. Packaged models are read directly, as by `Encoder`.

    Attributes:
        prompts: Texts that may precede an input, by name.
        default_prompt: Name of the prompt that the authors put before every text; None without one.
        similarity: Name of the similarity of two vectors, of `SIMILARITIES`.
        own_limit: Tokens that the authors let it read (``max_seq_length``), at most `limit`; None without one.
        line: Of a siamese regression model, the line that maps cosines to ratings.
    """

    tokenizer: Any

    def __init__(
        self, files: ModelFiles, adapter: ModelFiles | None, dtype: str, device: torch.device, line: Line | None = None
    ) -> None:
        """Load the model and merge an adapter; raise ModelError if that fails."""
        if is_static(files):
            raise ModelError(
                f"model {files.label} contains static word vectors: set vectors=raw and layer=0 for sbert."
            )
        self.files, self.device, self.dtype, self.line = files, device, dtype, line
        self.shortest = 5 if line else 3  # one token or, if two texts share the limit, two; and the special tokens
        settings = pipeline_settings(files.folder)
        self.prompts, self.default_prompt = settings["prompts"], settings["default_prompt_name"]
        self.similarity = str(settings["similarity_fn_name"])
        if self.similarity not in SIMILARITIES:
            expected = ", ".join(SIMILARITIES)
            raise ModelError(f"model {files.label} compares by {self.similarity!r}: expected {expected}.")
        if self.similarity != "cosine":
            warn(f"model {files.label} compares by {self.similarity}, as its authors say: scores have other bounds.")
        longest = settings["max_seq_length"]
        if is_packaged(files, adapter):
            encoder, self.tokenizer = load_bert(files, adapter, dtype), read_tokenizer(files)
            network: Any = encoder
        else:
            encoder, self.tokenizer = load_bare(files, dtype), load_tokenizer(_without_pipeline(files))
            check_vocabulary(self.tokenizer, encoder, files.label)
            if adapter is not None:
                encoder = merge(encoder, adapter, files)
            network = load_pipeline(files, encoder, dtype)
            longest = network.max_seq_length
        self.network = self.place(network)
        self.limit = length_limit(encoder, self.tokenizer, self.shortest, files.label)
        self.own_limit = min((int(limit) for limit in (longest, self.limit) if limit), default=None)
        self.lock = RLock()  # a tokenizer has state
        self._pads = isinstance(encoder, Bert) or self._padding_changes_nothing()

    def check_limit(self, requested: int | None) -> int | None:
        """Return the length limit, as `LoadedModel.check_limit`; by default the authors'."""
        return super().check_limit(requested or self.own_limit)

    def _padding_changes_nothing(self) -> bool:
        """Return whether texts of different lengths get the same vectors together and separately."""
        words = sorted(self.tokenizer.get_vocab(), key=self.tokenizer.get_vocab().__getitem__)[-8:]
        texts = [" ".join(words[:2]), " ".join(words)]

        def compare() -> bool:
            with torch.inference_mode(), keep_order(self.network):
                separate = torch.cat([self._run([text], None, self.limit) for text in texts])
                return probe.equals(self._run(texts, None, self.limit), separate, self.dtype)

        return bool(probe.run(self.files.label, compare))

    def encode(
        self,
        texts: Sequence[str],
        tokens: Sequence[TextTokens],
        *,
        limit: int | None,
        prompt: str | None = None,
        batch_tokens: int | None = None,
    ) -> np.ndarray:
        """Return the vectors of tokenised texts, shape (texts, D), float32. The lock must be held.

        A text is cut at `limit` tokens, with its prompt and special tokens.
        """
        vectors = dict[int, np.ndarray]()

        def forward(batch: np.ndarray) -> list[torch.Tensor]:
            numbers = batch.tolist()
            if isinstance(self.network, Bert):
                found = self._average([tokens[i].ids for i in numbers])
            else:
                found = self._run([texts[i] for i in numbers], prompt, limit)
            vectors.update(zip(numbers, found.float().cpu().numpy(), strict=True))
            return [found]

        self.run_batches(np.array([len(text.ids) for text in tokens]), batch_tokens, forward, pads=self._pads)
        return np.stack([vectors[i] for i in range(len(texts))])

    def _run(self, texts: Sequence[str], prompt: str | None, limit: int | None) -> torch.Tensor:
        """Return sentence-transformers' vectors for a batch of texts; shape (B, D)."""
        if limit is not None:
            self.network.max_seq_length = limit
        vectors: torch.Tensor = self.network.encode(
            list(texts),
            prompt=self.prompts[prompt] if prompt else "",
            batch_size=len(texts),
            convert_to_tensor=True,
            show_progress_bar=False,
        )
        return vectors

    def _average(self, ids: Sequence[np.ndarray]) -> torch.Tensor:
        """Return the means of a packaged model's token vectors of B texts, special tokens included; shape (B, D)."""
        inputs = probe.inputs_of(ids, self.tokenizer.pad_token_id, self.device)
        hidden = self.network(**inputs).last_hidden_state.float()  # (B, N, D)
        if (mask := inputs.get("attention_mask")) is None:
            return torch.Tensor(hidden.mean(1))
        weights = mask[..., None].float()  # (B, N, 1)
        return torch.Tensor((hidden * weights).sum(1) / weights.sum(1))


def moved_module(name: str) -> Any:
    """Import a module that sentence-transformers 5.4 moved into `sentence_transformer`."""
    try:
        return import_module(f"sentence_transformers.sentence_transformer.{name}")
    except ModuleNotFoundError:
        return import_module(f"sentence_transformers.{name}")


def replace_network(holder: Any, network: Any) -> None:
    """Put a network into sentence-transformers' module; the attribute's name depends on the library's version."""
    name = next(name for name in ("model", "auto_model") if name in holder._modules)  # noqa: SLF001
    setattr(holder, name, network)


def load_bare(files: ModelFiles, dtype: str) -> Any:
    """Load a model's encoder like `load_encoder`, without what follows it."""
    return load_encoder(_without_pipeline(files), dtype)


def _without_pipeline(files: ModelFiles) -> ModelFiles:
    return files._replace(sha256=content_of(files.folder))


def load_pipeline(files: ModelFiles, encoder: Any, dtype: str) -> Any:
    """Load a sentence-transformers model on the CPU with this encoder, from only the files that its content covers."""
    with opened(files, f"model {files.label}", sentence_content) as folder:
        modules, settings = sentence_modules(files.folder), pipeline_settings(files.folder)
        if modules:
            listed = [("Transformer", ""), *((module.name, module.place) for module in modules)]
            types = [
                # This class name works in every version of the library.
                {"idx": k, "name": str(k), "path": place, "type": f"sentence_transformers.models.{name}"}
                for k, (name, place) in enumerate(listed)
            ]
            sequence = {key: settings.pop(key) for key in ("max_seq_length", "do_lower_case")}
            for name, content in ((MODULES, types), (SEQUENCE, sequence), (PIPELINE, settings)):
                (folder / name).write_text(json.dumps(content), encoding="utf-8")
            for module in modules:
                (folder / module.place).mkdir()
                for file in module.files:
                    shutil.copyfile(file, folder / module.place / file.name)
        from sentence_transformers import SentenceTransformer

        network = SentenceTransformer(
            str(folder),
            device="cpu",
            truncate_dim=settings["truncate_dim"],
            trust_remote_code=False,
            local_files_only=True,
            model_kwargs={"use_safetensors": True, "trust_remote_code": False},
        )
    replace_network(network[0], encoder)
    return network.to(getattr(torch, dtype))
