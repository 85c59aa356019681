"""Values of a comparison of systems and of a `Record`: scores with everything that it takes to compute them again."""

from __future__ import annotations

import datetime as dt
import platform
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal, NamedTuple

from twmd_registry.registry.names import LEXICAL_NAMES, OUTPUTS
from twmd_registry.registry.signature import Signature, parse_signature
from twmd_registry.version import __version__

if TYPE_CHECKING:  # they need numpy and torch, which reading a record does not
    from twmd_registry.engine.result import DocumentScore, ScoreSet

PACKAGES = ("torch", "transformers", "tokenizers", "safetensors", "numpy", "POT", "peft", "sacrebleu")
"""Libraries whose version may move a score within its tolerance."""


@dataclass(frozen=True)
class Resampling:
    """The test (``bs``, paired bootstrap, or ``ar``, approximate randomisation, of every system against the first) and
    the bootstrap intervals that are published with scores; 0 samples or resamples without one.
    """

    test: Literal["bs", "ar", None] = None
    samples: int = 0
    resamples: int = 0
    seed: int = 12345


class DeltaAccuracy(NamedTuple):
    """How often people prefer the better of two systems whose scores differ so much: a share from 0.5 to 1 within its
    95% interval, by the fitted file of a hash, see `twmd_registry.metaeval.delta_accuracy`.
    """

    share: float
    low: float
    high: float
    fit: str


@dataclass(frozen=True)
class SystemScore:
    """One system by one metric, this package's or SacreBLEU's.

    Attributes:
        score: The corpus score, on the metric's own scale, as its `sides`, precision, recall and f1.
        scores: One score per segment; empty for SacreBLEU's metrics unless they were asked for.
        counts: Counts of the texts; of SacreBLEU's metrics a record has the number of segments, a comparison nothing.
        mean: Of the bootstrap resamples, as `ci`, half the width of their central 95%; None without them.
        p_value: Of the difference to the first system, as `accuracy`; None for that system, and where there is none.
        resampled: The corpus score of every bootstrap resample; empty unless asked for. Resample i draws the same
            segments for every system and metric.
        documents: By document its score, where segments belong to documents.
        signature: In a record: the long form; number of references, resamples and seed included.
        keys: In a record: the keys of our signature once more, to be read without a parser, and to notice an edit.
    """

    score: float
    sides: dict[str, float]
    scores: tuple[float, ...]
    counts: dict[str, int]
    mean: float | None = None
    ci: float | None = None
    p_value: float | None = None
    resampled: tuple[float, ...] = ()
    accuracy: DeltaAccuracy | None = None
    documents: dict[str, DocumentScore] = field(default_factory=dict)
    signature: str = ""
    keys: dict[str, str] = field(default_factory=dict)

    @property
    def head(self) -> str:
        """The beginning of the signature: the metric's name."""
        return self.signature.partition("|")[0]

    @property
    def is_lexical(self) -> bool:
        """Whether the metric is SacreBLEU's own, by the signature."""
        return self.head in LEXICAL_NAMES.values()

    @property
    def tested(self) -> dict[str, float]:
        """The results of a test or an interval, by name."""
        values = {"mean": self.mean, "ci": self.ci, "p_value": self.p_value}
        return {name: value for name, value in values.items() if value is not None}


class MetricColumn(NamedTuple):
    """One metric over all systems; `hundred` where it runs to 100 (SacreBLEU's own), `errors` where less is better
    (TER); `long_signature` where `signature` is the short form.
    """

    name: str
    signature: str
    hundred: bool
    cells: tuple[SystemScore, ...]
    errors: bool = False
    long_signature: str = ""


class SystemComparison(NamedTuple):
    """A table of scores: the names of the systems, the baseline first, the metrics, tests and intervals if any, and the
    document of every segment if known.
    """

    systems: tuple[str, ...]
    columns: tuple[MetricColumn, ...]
    resampling: Resampling | None = None
    documents: tuple[str, ...] = ()


def column_of(scores: ScoreSet) -> MetricColumn:
    """Make a column of one system's scores by one of our metrics."""
    return MetricColumn(str(scores.metric), str(scores.signature), hundred=False, cells=(cell_of(scores),))


def cell_of(scores: ScoreSet) -> SystemScore:
    """Make a cell of one system's scores by one of our metrics."""
    sides: dict[str, float] = {name: value for name, value in scores.as_dict().items() if name in set(OUTPUTS)}
    return SystemScore(scores.score, sides, scores.scores, scores.counts.as_dict())


class InputFile(NamedTuple):
    """A file that was scored: its role, ``predictions`` or ``references``, and its name without its folder."""

    role: str
    name: str
    sha256: str


@dataclass(frozen=True)
class RecordedSystem:
    """One system; `texts` is the sha256 of its texts and their references as they were scored (`ScoreSet.texts`)."""

    name: str
    texts: str
    results: tuple[SystemScore, ...]


@dataclass(frozen=True)
class Record:
    """The content of a record file, as `twmd score --record` writes it.

    Attributes:
        created: When, in UTC, ISO 8601.
        inputs: The files, when texts came from files.
        references: sha256 of the references of all systems, by `digest_of_texts` without predictions; empty where they
            are not known.
        systems: The systems, the first of them the baseline where systems are compared.
        environment: Versions, device, threads.
        seconds: Wall time of scoring, model loading included.
        resampling: The test and the intervals; None where there were none.
        documents: The document of every segment, if known.
        edited: Whether it was read from a file that was changed after it had been written.
    """

    created: str
    inputs: tuple[InputFile, ...]
    systems: tuple[RecordedSystem, ...]
    environment: dict[str, str]
    seconds: float
    resampling: Resampling | None = None
    references: str = ""
    documents: tuple[str, ...] = ()
    edited: bool = False


def make_record(
    results: Sequence[tuple[str, Sequence[ScoreSet]]],
    *,
    inputs: Sequence[InputFile] = (),
    references: Sequence[Sequence[str]] = (),
    seconds: float,
    device: str = "auto",
    comparison: SystemComparison | None = None,
) -> Record:
    """Make a record of systems' names, each with its score sets, with this machine's versions and device, made now.

    References are of every segment, where all systems have the same; `comparison` is the published table of these
    systems: a column for each of the score sets, and one for each metric of SacreBLEU.
    """
    from twmd_registry.engine.pairs import Segments, digest_of_texts

    systems = []
    for i, (name, sets) in enumerate(results):
        columns = comparison.columns if comparison else tuple(map(column_of, sets))
        cells = [(column, column.cells[i if comparison else 0]) for column in columns]
        recorded = tuple(_recorded(column, cell, len(sets[0].scores)) for column, cell in cells)
        systems.append(RecordedSystem(name, sets[0].texts, recorded))
    return Record(
        created=dt.datetime.now(dt.UTC).isoformat(timespec="seconds"),
        inputs=tuple(inputs),
        systems=tuple(systems),
        environment=environment(device),
        seconds=round(seconds, 3),
        resampling=comparison.resampling if comparison else None,
        references=digest_of_texts(Segments([], list(map(list, references)))) if references else "",
        documents=comparison.documents if comparison else (),
    )


def _recorded(column: MetricColumn, cell: SystemScore, segments: int) -> SystemScore:
    """Return a cell of a comparison as a record holds it."""
    signature = column.long_signature or column.signature
    if column.hundred:  # SacreBLEU's own
        return replace(cell, signature=signature, counts={"segments": segments}, resampled=())
    return replace(cell, signature=signature, keys=spec_keys(parse_signature(signature)), resampled=())


def spec_keys(signature: Signature) -> dict[str, str]:
    """Return everything that a signature says, as text."""
    spec = signature.spec
    keys = spec.texts()
    trailer = {"nrefs": signature.nrefs, "bs": signature.bs, "ar": signature.ar, "seed": signature.seed}
    known = {name: value for name, value in {"fingerprint": spec.fingerprint, **trailer}.items() if value is not None}
    return {"metric": str(spec.metric), **keys, **known, "version": signature.version}


def environment(device: str = "auto") -> dict[str, str]:
    """Return versions, device and threads as text; nothing that identifies a person or a machine."""
    from importlib import metadata  # a slow import, which reading a record does not need

    import torch

    from twmd_registry.models.load import pick_device

    versions = {"twmd-registry": __version__}
    for name in PACKAGES:
        try:
            versions[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    picked = pick_device(device)
    return versions | {
        "python": platform.python_version(),
        "platform": f"{platform.system()} {platform.machine()}",
        "device": f"cuda ({torch.cuda.get_device_name(picked)})" if picked.type == "cuda" else picked.type,
        "threads": str(torch.get_num_threads()),
    }
