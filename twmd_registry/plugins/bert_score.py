"""bert_score's functions, with its arguments and its numbers, on this package's engine.

    from twmd_registry.plugins.bert_score import score  # in place of: from bert_score import score

Every result has a signature, by which `twmd_registry.load` scores again without this module.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from twmd_registry.encode.idf import write_frequencies
from twmd_registry.engine.scorer import Scorer, load, score_all
from twmd_registry.errors import SpecError
from twmd_registry.models.fitted import FittedFile
from twmd_registry.registry.bert_score import layer_of_model, model_of_language
from twmd_registry.registry.names import MetricName
from twmd_registry.registry.spec import BERTSCORE

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from twmd_registry.engine.backends import TokenAlignmentBackend

__all__ = ["BERTScorer", "plot_example", "score"]

BATCH_SIZE = 64
"""Pairs of a batch, whose longest text bert_score pads the others to."""
ITS_VERSION = "0.3.12"
"""The version that bert_score 0.3.13 writes into its hash."""
ARGUMENTS = frozenset(
    {"lang", "model_type", "num_layers", "verbose", "batch_size", "nthreads", "all_layers", "rescale_with_baseline"}
    | {"baseline_path", "use_fast_tokenizer"}
)
"""Arguments of bert_score that are no keys or run options here."""


class Scores(tuple[Tensor, Tensor, Tensor]):
    """Precision, recall and F1, as bert_score returns them; each of shape (N,), or (L, N) of all layers.

    Attributes:
        signature: The applied specification; of all layers, one line per layer.
    """

    signature: str


class Hash(str):
    """bert_score's own name for its settings.

    Attributes:
        signature: The applied specification, as in `Scores`.
    """

    __slots__ = ("signature",)
    signature: str


def score(
    cands: Sequence[str],
    refs: Sequence[str] | Sequence[Sequence[str]],
    model_type: str | None = None,
    num_layers: int | None = None,
    verbose: bool = False,
    idf: bool | Mapping[int, float] = False,
    device: str | torch.device | None = None,
    batch_size: int = BATCH_SIZE,
    nthreads: int = 4,
    all_layers: bool = False,
    lang: str | None = None,
    return_hash: bool = False,
    rescale_with_baseline: bool = False,
    baseline_path: str | None = None,
    use_fast_tokenizer: bool = False,
) -> Any:
    """Score candidates against their references, as ``bert_score.score``.

    Args:
        cands: Generated texts.
        refs: One text per candidate, or a list of texts per candidate, of which the best counts.
        model_type: A model on the Hub, or a folder; the model of `lang` if not given.
        num_layers: The layer that is read; the one of bert_score's table if not given, and for a model that it does not
            know five sixths of its depth.
        verbose: Print how long it took.
        idf: Weigh tokens by how rare they are in the references; or a dict that bert_score's ``get_idf_dict`` made.
        device: Device of the encoder.
        batch_size: Pairs of a batch. In bert_score a text that is shorter than the longest of its batch ends in a
            partner of similarity 0; with 1 a score depends on its own pair alone.
        nthreads: Not used: the tokenizer uses the cores by itself.
        all_layers: Score by each hidden state.
        lang: Language of the texts, as ``en``.
        return_hash: Return bert_score's hash, too.
        rescale_with_baseline: Rescale so that unrelated texts score 0, by bert_score's table for `lang`.
        baseline_path: A table to rescale by in its place, with a line LAYER,P,R,F and below it one per layer.
        use_fast_tokenizer: Named in the hash; tokenizers are always the fast ones.

    Returns:
        `Scores`; with `return_hash` a pair of these and a `Hash`.

    Raises:
        InputError: The texts cannot be scored; names the row.
        SpecError: Neither a model nor a language, or a dict of weights that bert_score did not make.
        ModelError: The model, or a baseline for it, is missing.
    """
    own = BERTScorer(
        model_type,
        num_layers,
        batch_size,
        nthreads,
        all_layers,
        idf=bool(idf),
        device=device,
        lang=lang,
        rescale_with_baseline=rescale_with_baseline,
        baseline_path=baseline_path,
        use_fast_tokenizer=use_fast_tokenizer,
    )
    if isinstance(idf, Mapping):
        own.take_idf(idf)
    scored = own.score(cands, refs, verbose, batch_size, return_hash)
    _LATEST[:] = [own]
    return scored


_LATEST: list[BERTScorer] = []
"""The scorer of the latest `score`: it keeps its model in memory, so that a loop of calls loads it once."""


class BERTScorer:
    """Scores by one model, as ``bert_score.BERTScorer``: with its properties, and `signature` beside `hash`."""

    def __init__(
        self,
        model_type: str | None = None,
        num_layers: int | None = None,
        batch_size: int = BATCH_SIZE,
        nthreads: int = 4,
        all_layers: bool = False,
        idf: bool = False,
        idf_sents: Iterable[str] | None = None,
        device: str | torch.device | None = None,
        lang: str | None = None,
        rescale_with_baseline: bool = False,
        baseline_path: str | None = None,
        use_fast_tokenizer: bool = False,
    ) -> None:
        """Keep the settings; `idf_sents` are texts in which tokens are counted, those of the references of every call
        if not given. Other arguments, and errors, are those of `score`.
        """
        if model_type is None and lang is None:
            raise SpecError("give model_type, or lang for bert_score's model of a language.")
        keys = read_arguments(
            {
                "model_type": model_type,
                "num_layers": num_layers,
                "idf": idf,
                "lang": lang,
                "rescale_with_baseline": rescale_with_baseline,
                "baseline_path": baseline_path,
            }
        )
        self.lang, self.idf, self.model_type = lang, idf, str(keys["model"])
        self.rescale_with_baseline, self.baseline_path = rescale_with_baseline, baseline_path
        self.use_fast_tokenizer, self.all_layers = use_fast_tokenizer, all_layers
        self.batch_size, self.nthreads = batch_size, nthreads
        self.device = "auto" if device is None else str(device)
        self._keys = keys
        self._scorer = self._make(BATCH_SIZE)
        if idf_sents is not None:
            self.compute_idf(idf_sents)

    def _make(self, batch_size: int, **keys: Any) -> Scorer:
        padding = batch_size if batch_size > 1 else "none"
        options = {"device": self.device, "any_language": True}
        return load(MetricName.BERTSCORE_CENTERED, BERTSCORE, **self._keys | {"padding": padding} | keys | options)

    @property
    def _backend(self) -> TokenAlignmentBackend:
        return self._scorer.backend  # type: ignore[return-value]

    @property
    def num_layers(self) -> int:
        """The layer that is read; loads the model where its depth decides."""
        return int(self._keys["layer"] if "layer" in self._keys else str(self._scorer.spec.layer))

    @property
    def baseline_vals(self) -> Tensor:
        """Precision, recall and F1 of unrelated texts, shape (3,); zeros without rescaling. Loads the model."""
        baseline = self._backend.baseline
        return torch.tensor(baseline.content if baseline else (0.0, 0.0, 0.0))

    @property
    def signature(self) -> str:
        """The signature of these settings, with batches of 64 pairs. Loads the model."""
        return self._scorer.signature

    @property
    def hash(self) -> Hash:
        """bert_score's hash of these settings, with their `signature`. Loads the model."""
        return self._hash(self.signature)

    def _hash(self, signature: str) -> Hash:
        weighed = "_idf" if self.idf else "_no-idf"
        text = f"{self.model_type}_L{self.num_layers}{weighed}_version={ITS_VERSION}"
        text += f"(hug_trans={metadata.version('transformers')})"
        if self.rescale_with_baseline:
            text += "-custom-rescaled" if self.baseline_path is not None else "-rescaled"
        made = Hash(text + ("_fast-tokenizer" if self.use_fast_tokenizer else ""))
        made.signature = signature
        return made

    def compute_idf(self, sents: Iterable[str]) -> None:
        """Count tokens in some texts, for the weights of all further calls; the counts are kept as ``twmd fit idf``
        keeps them.
        """
        self._take(self._backend.fit_idf([text.strip() for text in sents]))

    def take_idf(self, weights: Mapping[int, float]) -> None:
        """Take the weights that bert_score's ``get_idf_dict`` returned; raises `SpecError` for any others."""
        unseen: Callable[[], float] | None = getattr(weights, "default_factory", None)
        documents = round(math.exp(unseen()) - 1) if unseen else 0
        counts = {int(token): round((documents + 1) / math.exp(weight) - 1) for token, weight in weights.items()}
        rounded = {token: math.log((documents + 1) / (count + 1)) for token, count in counts.items()}
        if not unseen or any(abs(rounded[int(token)] - weight) > 1e-6 for token, weight in weights.items()):
            raise SpecError("idf: expected True, False, or a dict that bert_score's get_idf_dict made from texts.")
        self._take(write_frequencies(self._backend.model, counts, documents))

    def _take(self, frequencies: FittedFile) -> None:
        path = frequencies.save()
        loaded = self._scorer
        self.idf, self._keys = True, self._keys | {"idf": f"background:{path}"}
        self._scorer = self._make(BATCH_SIZE)
        self._scorer.signature  # noqa: B018 (loads the model before the other scorer is freed)
        loaded.close()

    def score(
        self,
        cands: Sequence[str],
        refs: Sequence[str] | Sequence[Sequence[str]],
        verbose: bool = False,
        batch_size: int = BATCH_SIZE,
        return_hash: bool = False,
    ) -> Any:
        """Score candidates against their references; arguments, result and errors are those of the function `score`."""
        started = time.perf_counter()
        layers = range(self._backend.model.depth + 1) if self.all_layers else [None]
        scorers = [self._make(batch_size, **({} if k is None else {"layer": k})) for k in layers]
        results = score_all(scorers, _strip(cands), _strip(refs))
        sides = torch.tensor(np.array([(one.precision, one.recall, one.f1) for one in results]), dtype=torch.float32)
        scores = Scores(sides.transpose(0, 1) if self.all_layers else sides[0])
        scores.signature = "\n".join(str(one.signature) for one in results)
        if verbose:
            seconds = time.perf_counter() - started
            print(f"done in {seconds:.2f} seconds, {len(results[0].scores) / seconds:.2f} sentences/sec")
        return (scores, self._hash(scores.signature)) if return_hash else scores

    def plot_example(self, candidate: str, reference: str, fname: str | Path = "") -> Figure:
        """Draw the similarities of all words of two texts, without special tokens, and rescaled as scores are; write
        the picture to `fname`, if given, or else show it where matplotlib has a window or a notebook.
        """
        import matplotlib as mpl
        import matplotlib.pyplot as plt

        alignment = self._scorer.score([candidate.strip()], [reference.strip()]).explain(0)
        rows, columns = alignment.hypothesis_shares > 0, alignment.reference_shares > 0
        baseline = float(self.baseline_vals[2])
        similarities = (alignment.similarities[rows][:, columns] - baseline) / (1 - baseline)
        tokens = [
            [token for token, kept in zip(texts, which, strict=True) if kept]
            for texts, which in ((alignment.hypothesis, rows), (alignment.reference, columns))
        ]
        figure, axes = plt.subplots(figsize=(len(tokens[1]) + 1, len(tokens[0]) + 1))
        image = axes.imshow(similarities, cmap="Blues", vmin=0, vmax=1)
        axes.set_yticks(range(len(tokens[0])), tokens[0])
        axes.set_xticks(range(len(tokens[1])), tokens[1], rotation=45, ha="right", rotation_mode="anchor")
        axes.set_xlabel("Reference (tokenized)")
        axes.set_ylabel("Candidate (tokenized)")
        axes.set_title("Similarity Matrix" + (" (after Rescaling)" if self.rescale_with_baseline else ""))
        for (i, j), value in np.ndenumerate(similarities):
            axes.text(j, i, f"{value:.3f}", ha="center", va="center", color="k" if value < 0.5 else "w")
        figure.colorbar(image, ax=axes, fraction=0.02)
        figure.tight_layout()
        if fname:
            figure.savefig(fname, dpi=100)
        elif mpl.get_backend().lower() != "agg":
            plt.show()
        return figure

    def __repr__(self) -> str:
        """Return the hash, as bert_score does."""
        return f"{type(self).__name__}(hash={self.hash}, batch_size={self.batch_size}, nthreads={self.nthreads})"


def plot_example(
    candidate: str,
    reference: str,
    model_type: str | None = None,
    num_layers: int | None = None,
    lang: str | None = None,
    rescale_with_baseline: bool = False,
    baseline_path: str | None = None,
    use_fast_tokenizer: bool = False,
    fname: str | Path = "",
) -> Figure:
    """Draw the similarities of two texts' words, as `BERTScorer.plot_example`; other arguments are those of `score`."""
    own = BERTScorer(
        model_type,
        num_layers,
        lang=lang,
        rescale_with_baseline=rescale_with_baseline,
        baseline_path=baseline_path,
        use_fast_tokenizer=use_fast_tokenizer,
    )
    return own.plot_example(candidate, reference, fname)


def read_arguments(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return keys and run options for the preset ``bertscore``, from arguments of bert_score and keys among them.

    >>> read_arguments({"lang": "en", "num_layers": 5, "idf": True, "device": "cpu"})
    {'idf': 'references', 'device': 'cpu', 'model': 'roberta-large', 'layer': 5}
    """
    if given.get("all_layers"):
        raise SpecError("all_layers gives many scores per segment: use twmd_registry.plugins.bert_score.score.")
    keys = {name: value for name, value in given.items() if name not in ARGUMENTS}
    if isinstance(given.get("idf"), bool):
        keys["idf"] = "references" if given["idf"] else "none"
    lang = None if given.get("lang") is None else str(given["lang"]).lower()
    model = given.get("model_type") or (model_of_language(lang) if lang else None)
    if model:
        keys["model"] = model
    layer = given.get("num_layers") if given.get("num_layers") is not None else layer_of_model(str(model))
    if layer is not None:
        keys["layer"] = layer
    if given.get("batch_size") is not None:
        keys["padding"] = given["batch_size"] if given["batch_size"] > 1 else "none"
    if given.get("rescale_with_baseline"):
        if not (lang or given.get("baseline_path")):
            raise SpecError("rescale_with_baseline takes the baseline of a language: give lang, or baseline_path.")
        keys["baseline"] = given.get("baseline_path") or f"bert_score:{lang}"
    return keys


def _strip(texts: Any) -> Any:
    """Return texts, or lists of texts, without white space around them; anything else as it is, to be refused."""
    if isinstance(texts, str):
        return texts.strip()
    return [_strip(text) for text in texts] if isinstance(texts, list | tuple) else texts
