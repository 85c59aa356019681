"""bert_score's functions with its arguments and numbers, on this package's engine.

    from twmd_registry.plugins.bert_score import score  # instead of: from bert_score import score

Every result has a signature, with which `twmd_registry.load` reproduces it without this module.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib import metadata
from itertools import compress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from twmd_registry.encode.idf import write_frequencies
from twmd_registry.engine.scorer import Scorer, load, score_with
from twmd_registry.errors import SpecError, check_types, missing_extra
from twmd_registry.messages import warn
from twmd_registry.models.fitted import FittedFile
from twmd_registry.registry.bert_score import layer_of_model, model_of_language
from twmd_registry.registry.names import MetricName
from twmd_registry.registry.spec import BERTSCORE

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from twmd_registry.engine.token_backend import TokenAlignmentBackend

__all__ = ["BERTScorer", "plot_example", "score"]

BATCH_SIZE = 64
"""Pairs per batch; bert_score pads texts to the longest of their batch."""
ITS_VERSION = "0.3.12"
"""Version that bert_score 0.3.13 writes into its hash."""
ARGUMENTS = frozenset(
    {"lang", "model_type", "num_layers", "verbose", "batch_size", "nthreads", "all_layers", "rescale_with_baseline"}
    | {"baseline_path", "use_fast_tokenizer"}
)
"""Arguments of bert_score that are neither keys nor run options here."""


class Scores(tuple[Tensor, Tensor, Tensor]):
    """Precision, recall and F1 as returned by bert_score; each of shape (N,), or (L, N) with all layers.

    Attributes:
        signature: The applied specification; with all layers, one line per layer.
    """

    signature: str


class Hash(str):
    """bert_score's name for its settings.

    Attributes:
        signature: The applied specification, as in `Scores`.
    """

    __slots__ = ("signature",)
    signature: str


@check_types(idf=bool | Mapping | None, verbose=bool, return_hash=bool)
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
    """Score candidates against their references, like ``bert_score.score``.

    Args:
        cands: Generated texts.
        refs: One text per candidate, or a list of texts, whose best score counts.
        model_type: A Hub model or a folder; defaults to the model of `lang`.
        num_layers: The layer to read. Defaults to bert_score's table, or to five sixths of the depth of a model that is
            not in it.
        verbose: Whether to print the time.
        idf: Whether to weight tokens by their rarity in the references, or a dict from bert_score's ``get_idf_dict``.
        device: Device of the encoder.
        batch_size: Pairs per batch. In bert_score, a text that is shorter than the longest of its batch has a partner
            of similarity 0. With 1, a score depends on its own pair only.
        nthreads: Ignored; the tokenizer uses all cores.
        all_layers: Whether to score with every hidden state.
        lang: Language of the texts, such as ``en``.
        return_hash: Whether to return bert_score's hash too.
        rescale_with_baseline: Whether to rescale so that unrelated texts score 0, by bert_score's table for `lang`.
        baseline_path: Another table to rescale by, with a header LAYER,P,R,F and one line per layer.
        use_fast_tokenizer: Only named in the hash; tokenizers are always fast ones.

    Returns:
        `Scores`; with `return_hash` a pair of `Scores` and `Hash`.

    Raises:
        InputError: The texts cannot be scored; names the row.
        SpecError: Neither a model nor a language is named, or a dict of weights is not bert_score's.
        ModelError: The model, or a baseline for it, is missing.
    """
    scorer = BERTScorer(
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
        scorer.take_idf(idf)
    scored = scorer.score(cands, refs, verbose, batch_size, return_hash)
    _LATEST[:] = [scorer]
    return scored


_LATEST: list[BERTScorer] = []
"""The scorer of the latest `score`. It keeps its model in memory, so a loop of calls loads it once."""


class BERTScorer:
    """Scores with one model, with the properties of ``bert_score.BERTScorer`` and a `signature`."""

    @check_types(
        lang=str | None,
        **dict.fromkeys(("all_layers", "idf", "rescale_with_baseline", "use_fast_tokenizer"), bool | None),
    )
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
        """Store the settings.

        With `idf`, tokens are counted in `idf_sents`, by default in every call's references. Other arguments, and
        errors, are those of `score`.
        """
        if model_type is None and lang is None:
            raise SpecError("pass model_type, or lang for bert_score's model of a language.")
        names = {"model_type": model_type, "num_layers": num_layers, "idf": idf, "lang": lang}
        names |= {"rescale_with_baseline": rescale_with_baseline, "baseline_path": baseline_path}
        keys = read_arguments(names)
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
        options = {"device": self.device, "any_language": True, "padding": _padding(batch_size)}
        return load(MetricName.BERTSCORE_CENTERED, BERTSCORE, **self._keys | keys | options)

    @property
    def _backend(self) -> TokenAlignmentBackend:
        return self._scorer.backend  # type: ignore[return-value]

    @property
    def num_layers(self) -> int:
        """The layer to read. Loads the model if its depth decides."""
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
        weighted = "_idf" if self.idf else "_no-idf"
        text = f"{self.model_type}_L{self.num_layers}{weighted}_version={ITS_VERSION}"
        text += f"(hug_trans={metadata.version('transformers')})"
        if self.rescale_with_baseline:
            text += "-custom-rescaled" if self.baseline_path is not None else "-rescaled"
        made = Hash(text + ("_fast-tokenizer" if self.use_fast_tokenizer else ""))
        made.signature = signature
        return made

    def compute_idf(self, sents: Iterable[str]) -> None:
        """Count tokens in texts to weight all further calls. Counts are saved like ``twmd fit idf``'s.

        As in bert_score, a scorer without `idf` makes no use of them.
        """
        if self.idf:
            self._take(self._backend.fit_idf([text.strip() for text in sents]))
        else:
            warn("idf_sents has no effect without idf=True, as in bert_score.")

    def take_idf(self, weights: Mapping[int, float]) -> None:
        """Use the weights that bert_score's ``get_idf_dict`` returned; raise `SpecError` for any others."""
        unseen: Callable[[], float] = getattr(weights, "default_factory", None) or (lambda: math.nan)
        try:
            documents = round(math.exp(unseen()) - 1)
            counts = {int(token): round((documents + 1) / math.exp(weight) - 1) for token, weight in weights.items()}
            rounded = {token: math.log((documents + 1) / (count + 1)) for token, count in counts.items()}
            is_theirs = all(abs(rounded[int(token)] - weight) <= 1e-6 for token, weight in weights.items())
        except (TypeError, ValueError, ArithmeticError):
            is_theirs = False
        if not is_theirs:
            raise SpecError("idf: expected True, False, or a dict made by bert_score's get_idf_dict.")
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
        """Score candidates against their references; arguments, result and errors as in `score`."""
        started = time.perf_counter()
        layers = range(self._backend.model.depth + 1) if self.all_layers else [None]
        scorers = [self._make(batch_size, **({} if k is None else {"layer": k})) for k in layers]
        results = score_with(scorers, _strip(cands), _strip(refs))
        sides = torch.tensor(np.array([(r.precision, r.recall, r.f1) for r in results]), dtype=torch.float32)
        scores = Scores(sides.transpose(0, 1) if self.all_layers else sides[0])
        scores.signature = "\n".join(str(result.signature) for result in results)
        if verbose:
            seconds = time.perf_counter() - started
            print(f"done in {seconds:.2f} seconds, {len(results[0].scores) / seconds:.2f} sentences/sec")
        return (scores, self._hash(scores.signature)) if return_hash else scores

    def plot_example(self, candidate: str, reference: str, fname: str | Path = "") -> Figure:
        """Draw the similarities of all words of two texts, without special tokens and idf, and rescaled like scores.

        The picture is written to `fname`, or else shown if matplotlib has a window or notebook.
        """
        try:
            import matplotlib as mpl
            import matplotlib.pyplot as plt
        except ImportError as error:
            raise missing_extra("plot_example needs matplotlib", "plots") from error

        alignment = self._make(1, idf="none").score([candidate.strip()], [reference.strip()]).explain(0)
        rows, columns = alignment.hypothesis_shares > 0, alignment.reference_shares > 0
        baseline = float(self.baseline_vals[2])
        similarities = (alignment.similarities[rows][:, columns] - baseline) / (1 - baseline)
        tokens = [[*compress(alignment.hypothesis, rows)], [*compress(alignment.reference, columns)]]
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
    """Draw the similarities of two texts' words, like `BERTScorer.plot_example`; other arguments as for `score`."""
    scorer = BERTScorer(
        model_type,
        num_layers,
        lang=lang,
        rescale_with_baseline=rescale_with_baseline,
        baseline_path=baseline_path,
        use_fast_tokenizer=use_fast_tokenizer,
    )
    return scorer.plot_example(candidate, reference, fname)


def read_arguments(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Convert arguments of bert_score, with keys among them, to keys and run options for the preset ``bertscore``.

    >>> read_arguments({"lang": "en", "num_layers": 5, "idf": True, "device": "cpu"})
    {'idf': 'references', 'device': 'cpu', 'model': 'roberta-large', 'layer': 5}
    """
    if arguments.get("all_layers"):
        raise SpecError("all_layers gives many scores per segment: use twmd_registry.plugins.bert_score.score.")
    keys = dict[str, Any]()
    own = {name: value for name, value in arguments.items() if name not in ARGUMENTS and value is not None}
    if isinstance(arguments.get("idf"), bool):
        keys["idf"] = "references" if arguments["idf"] else "none"
    lang = None if arguments.get("lang") is None else str(arguments["lang"]).lower()
    model = arguments.get("model_type") or (model_of_language(lang) if lang else None)
    if model:
        keys["model"] = model
    layer = arguments.get("num_layers") if arguments.get("num_layers") is not None else layer_of_model(str(model))
    if layer is not None and (arguments.get("num_layers") is not None or "layer" not in own):
        keys["layer"] = layer
    if arguments.get("batch_size") is not None:
        keys["padding"] = _padding(arguments["batch_size"])
    if arguments.get("rescale_with_baseline"):
        if not (lang or arguments.get("baseline_path")):
            raise SpecError("rescale_with_baseline needs a language's baseline: pass lang, or baseline_path.")
        keys["baseline"] = arguments.get("baseline_path") or f"bert_score:{lang}"
    if both := [name for name in keys if name != "idf" and name in own]:
        argument = f"an argument of bert_score that sets it to {keys[both[0]]}"
        raise SpecError(f"{both[0]}={own[both[0]]} and {argument}: pass one of them.")
    return own | keys


def _padding(batch_size: int) -> int | str:
    """Return the value of the key for a batch size; `SpecError` for an impossible one."""
    if not isinstance(batch_size, int) or batch_size < 1:
        raise SpecError(f"batch_size: expected an integer of at least 1; got {batch_size!r}.")
    return batch_size if batch_size > 1 else "none"


def _strip(texts: Any) -> Any:
    """Return texts, or lists of texts, without surrounding white space; anything else unchanged, to be refused."""
    if isinstance(texts, str):
        return texts.strip()
    return [_strip(text) for text in texts] if isinstance(texts, list | tuple) else texts
