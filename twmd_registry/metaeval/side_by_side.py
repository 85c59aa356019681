"""Several metrics, ours, SacreBLEU's and ROUGE, on the same segments: their scores, and tables of results as text.

Importing it loads no numpy: the command line reads `FORMATS` at its start.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib.metadata import version
from typing import Any, TypeAlias

from twmd_registry.errors import InputError, MissingExtraError, visible
from twmd_registry.judgments.mt_metrics_eval import LabelledScores
from twmd_registry.judgments.rated import RatedSegments
from twmd_registry.progress import Progress, expect, split_progress
from twmd_registry.registry.diff import labels_of
from twmd_registry.registry.members import write_members
from twmd_registry.registry.options import RunOptions
from twmd_registry.registry.spec import MetricSpec

Compared = MetricSpec | str | LabelledScores
"""A metric of ours, a name of `twmd_registry.registry.names.SEGMENT_LEXICAL`, or scores that a
shared task has published."""
MISSING, UNDEFINED = "-", "undefined"
"""The cell of a data set that is not available, or of an undefined number; of a correlation that is not defined."""
FORMATS = {"txt": "simple", "md": "github", "tex": "latex_booktabs", "tsv": "tsv"}
"""The forms of tables, by the suffix of such a file, and what `tabulate` calls each."""
WIDTH, LEAST_WIDTH, MARGIN = 100, 24, "  "
"""Characters of a plain table at most, of a column with broken words at least, and what `tabulate` adds to heads."""
_LATEX = str.maketrans({"μ": r"$\mu$", "±": r"$\pm$", "|": r"\textbar{}"})
"""Characters that `tabulate` leaves as they are, which not every LaTeX sets right."""

TextTable: TypeAlias = tuple[str, tuple[str, ...], Sequence[tuple[str, ...]]]
"""The name, the header and the rows of a table."""


def write_table(
    header: Sequence[object], rows: Iterable[Sequence[object]], form: str, align: Sequence[str] = (), names: int = 0
) -> str:
    """Write a table in a form of `FORMATS`, a plain one with rows at most `WIDTH` wide: heads and texts are wrapped; of
    too many columns there are several tables, each with the first `names` columns, which name the rows, or those before
    all numbers; too many of them are written as one. Numbers are ``right`` in `align`, or without it, are decimals.
    """
    pipe = r"\|" if form == "md" else "|"
    cells = [[visible(str(cell)).replace("|", pipe) for cell in row] for row in (header, *rows)]
    if form == "tsv":
        return "\n".join("\t".join(row) for row in cells)
    from tabulate import tabulate

    layouts, tables = [dict[int, int | None].fromkeys(range(len(cells[0])))], list[str]()
    if form == "txt":
        columns = list(enumerate(zip(*cells, strict=True)))
        numbers = [k for k, column in columns if (align[k] == "right" if align else k and _are_decimals(column[1:]))]
        widths = [_measure(head, texts, is_number=k in numbers) for k, (head, *texts) in columns]
        names = names or min(numbers, default=1)
        narrow = [min(least, LEAST_WIDTH // 2) + 2 for _, least in widths]
        if names > 1 and sum(narrow[:names]) + max(narrow[names:], default=0) > WIDTH:
            pairs = [[f"{cells[0][k]}={row[k]}" for k in range(names) if row[k] != MISSING] for row in cells[1:]]
            named = ([" ".join(pair), *row[names:]] for pair, row in zip(pairs, cells[1:], strict=True))
            return write_table(["row", *cells[0][names:]], named, form, names=1)
        layouts = _layout(widths, names)
    for limits in layouts:
        head, *lines = ([row[k] for k in limits] for row in cells)
        settings: dict[str, Any] = {"colalign": [align[k] for k in limits] if align else None}
        if lines:  # the heads of a table without rows are not wrapped: tabulate 0.9 fails
            settings["maxcolwidths"] = list(limits.values())
            settings["maxheadercolwidths"] = [limit and limit - len(MARGIN) for limit in limits.values()]
        tables.append(tabulate(lines, headers=head, tablefmt=FORMATS[form], disable_numparse=True, **settings))
    if form == "tex":  # a bracket or star at the start of a row would be an argument of the line break before it
        return re.sub(r"(?m)^(?= *[\[*])", "{}", tables[0]).translate(_LATEX)
    return "\n\n".join(tables)


def _are_decimals(cells: Sequence[str]) -> bool:
    """Return whether all cells that are not missing begin with a number, and one with a decimal."""
    numbers = [re.match(r"[-+]?\d+(\.\d+)?(\s|$)", cell) for cell in cells if cell not in {"", MISSING, UNDEFINED}]
    return all(numbers) and any(number[1] for number in numbers if number)


def _measure(head: str, cells: Sequence[str], *, is_number: bool) -> tuple[int, int]:
    """Return a column's width without wrapping, and the least one, by which no number and no usual word is broken."""
    from wcwidth import wcswidth as width  # as `tabulate` measures, a wide letter as two characters

    words = [*(word + MARGIN for word in head.split()), *(word for cell in cells for word in cell.split())]
    least = max(
        len(MARGIN), min(LEAST_WIDTH, max(map(width, words), default=0)), *map(width, cells if is_number else ())
    )
    return max(map(width, [head + MARGIN, *cells])), least


def _layout(widths: Sequence[tuple[int, int]], names: int) -> list[dict[int, int | None]]:
    """Return the columns of every table that a table is split into, each with its limit; None if it is not wrapped."""
    least = [width for _, width in widths]
    most = WIDTH - 2 * names - max(least[names:], default=0)  # that names may take
    while sum(least[:names]) > most and (widest := max(least[:names])) > LEAST_WIDTH // 2:
        least[least.index(widest)] -= 1  # words of names are broken rather than numbers
    room = WIDTH + 2 - sum(least[:names]) - 2 * names
    least[names:] = [min(width, room - 2) for width in least[names:]]

    def cut(most: int) -> list[list[int]]:
        parts = [list[int]()]
        for k in range(names, len(least)):
            if parts[-1] and (len(parts[-1]) == most or sum(least[j] + 2 for j in [*parts[-1], k]) > room):
                parts.append([])
            parts[-1].append(k)
        return parts

    even = math.ceil((len(least) - names) / len(cut(len(least))))  # about as many columns in each
    return [_fit({k: (widths[k][0], least[k]) for k in (*range(names), *part)}) for part in cut(even)]


def _fit(widths: Mapping[int, tuple[int, int]]) -> dict[int, int | None]:
    """Return the limits of a table's columns, None for those that are not wrapped: the widest ones are."""
    limits = {k: need for k, (need, _) in widths.items()}
    while sum(limits.values()) + 2 * (len(limits) - 1) > WIDTH:
        limits[max((k for k in limits if limits[k] > widths[k][1]), key=lambda k: limits[k])] -= 1
    return {k: limit if limit < widths[k][0] else None for k, limit in limits.items()}


def as_text(table: TextTable, form: str, names: int = 0) -> str:
    """Write a table, as `write_table` does, below its name; ``tsv`` leaves the name out."""
    name, header, rows = table
    return {"tsv": "", "tex": f"% {name}\n"}.get(form, f"{name}\n\n") + write_table(header, rows, form, names=names)


def as_report(tables: Iterable[TextTable], notes: Iterable[str], form: str) -> str:
    """Write tables in a form of `FORMATS`, and lines below them, as comments where the form has them."""
    sign = {"tex": "% ", "tsv": "# "}.get(form, "")
    below = "\n".join(f"{sign}{visible(line)}" for line in notes)
    return "\n\n".join([*(as_text(table, form) for table in tables), below])


def between(low: float | None, high: float | None, digits: int = 3) -> str | None:
    """Write an interval; None where there is none."""
    return None if low is None or high is None else f"{low:.{digits}f} .. {high:.{digits}f}"


def names_of(metrics: Iterable[Compared]) -> str:
    """Return the canonical text of metrics, in their order."""
    return ",".join(map(_name_of, metrics))


def _name_of(metric: Compared) -> str:
    if isinstance(metric, MetricSpec):
        return write_members([(1.0, metric)])
    return metric if isinstance(metric, str) else metric.signature


def score_lexically(name: str, rated: RatedSegments, progress: Progress | None = None) -> tuple[tuple[float, ...], str]:
    """Return every segment's score from 0 to 1 by a metric of `SEGMENT_LEXICAL`, and its signature.

    Sentence BLEU with its effective order; chrF; chrF++; and ROUGE, the F1 of unigrams, bigrams, or the longest common
    subsequence, without stemming, with the best of several references.
    """
    references = [[texts] if isinstance(texts, str) else list(texts) for texts in rated.references]
    most = max(map(len, references))
    if name.startswith("rouge"):
        score, signature = _rouge(name, most)
    else:
        from sacrebleu.metrics.bleu import BLEU
        from sacrebleu.metrics.chrf import CHRF

        metric = BLEU(effective_order=True) if name == "bleu" else CHRF(word_order=2 if name == "chrf++" else 0)
        ends = min(references, key=len), max(references, key=len)
        streams = [[texts[k] if k < len(texts) else None for texts in ends] for k in range(most)]
        metric.corpus_score(["", ""], streams)  # type: ignore[arg-type]  # makes the signature complete
        signature = f"{name}|{metric.get_signature().format()}"

        def score(text: str, texts: list[str]) -> float:
            return float(metric.sentence_score(text, texts).score / 100)

    scores = []
    for text, texts in zip(rated.predictions, references, strict=True):
        scores.append(score(text, texts))
        if progress:
            progress(1)
    return tuple(scores), signature


def _rouge(name: str, references: int) -> tuple[Callable[[str, list[str]], float], str]:
    """Return the score of a text by its references, and the signature."""
    try:
        from rouge_score.rouge_scorer import RougeScorer
    except ImportError as error:
        raise MissingExtraError("ROUGE: pip install 'twmd-registry[rouge]'") from error
    scorer = RougeScorer([name])
    signature = f"{name}|nrefs:{references}|stemmer:no|version:{version('rouge-score')}"
    return lambda text, texts: float(scorer.score_multi(texts, text)[name].fmeasure), signature


def score_side_by_side(
    metrics: Sequence[Compared], rated: RatedSegments, data: str, options: RunOptions, progress: Progress | None = None
) -> tuple[tuple[Compared, ...], tuple[LabelledScores, ...], tuple[str, ...]]:
    """Score every segment by every metric, each text encoded once per model.

    Returns the metrics as they were applied, the scores of each, and a warning for each metric that was trained or
    tuned on these data, whose name is `data`.
    """
    specs = [metric for metric in metrics if isinstance(metric, MetricSpec)]
    segments = len(rated.predictions)
    expect(progress, segments)
    stage = split_progress(progress, segments, bool(specs) + sum(isinstance(metric, str) for metric in metrics))
    scored, overlaps = dict[Compared, tuple[Compared, LabelledScores]](), tuple[str, ...]()
    if specs:  # SacreBLEU's metrics alone need no torch
        from twmd_registry.engine.scorer import Scorer, score_all
        from twmd_registry.metaeval.overlap import warn_about_overlap

        scorers = [Scorer(spec, options) for spec in specs]
        with stage(segments) as report:
            sets = score_all(scorers, rated.predictions, rated.references, sources=rated.source, progress=report)
        labels = labels_of([scores.signature.spec for scores in sets])
        overlaps = warn_about_overlap(labels, scorers, rated.references, data)
        for spec, scores, label in zip(specs, sets, labels, strict=True):
            scored[spec] = scores.signature.spec, LabelledScores(label, str(scores.signature), scores.scores)
    else:
        from twmd_registry.engine.input_warnings import check_texts
        from twmd_registry.engine.pairs import check_segments, make_pairs

        check_texts((), make_pairs(check_segments(rated.predictions, rated.references)), range(segments))
    for metric in metrics:
        if isinstance(metric, str):
            with stage(segments) as report:
                segment_scores, signature = score_lexically(metric, rated, report)
            scored[metric] = metric, LabelledScores(metric, signature, segment_scores)
        elif isinstance(metric, LabelledScores):
            if len(metric.scores) != segments:
                raise InputError(f"{metric.label} has {len(metric.scores)} published scores of {segments} segments.")
            scored[metric] = metric, metric
    applied, results = zip(*(scored[metric] for metric in metrics), strict=True)
    return applied, results, overlaps
