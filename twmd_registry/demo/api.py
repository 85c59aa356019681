"""The endpoints that programs may call; their names and docstrings are the documentation under "Use via API"."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import gradio as gr

from twmd_registry.demo import signature_tab, texts
from twmd_registry.demo.choices import AS_PRESET, METRICS, PageSettings
from twmd_registry.demo.table_scores import read_pasted, score_file
from twmd_registry.errors import InputError, TwmdError

FILES = "files"
"""The queue of files, of the page and of programs: they are scored one after another."""


@contextmanager
def _as_gradio_error() -> Iterator[None]:
    try:
        yield
    except TwmdError as error:
        raise gr.Error(str(error), print_exception=False) from error


@_as_gradio_error()
def score_texts(  # noqa: PLR0917 (Gradio gives inputs by position)
    hypothesis: str,
    references: list[str],
    metric: str = METRICS[0],
    preset: str = "embedded",
    temperature: float = 0.0,
    iterations: str = AS_PRESET,
    centering: str = AS_PRESET,
) -> dict[str, Any]:
    """Score a text against its references by every metric. Returns the scores, one metric's signature, and notices.

    Args:
        hypothesis: The text; its first 2,000 characters are read.
        references: One or more texts; line breaks in them count as blanks, and their first 2,000 characters together
            are read.
        metric: The metric whose signature is given.
        preset: A preset; metrics that have none of this name take their default.
        temperature: T of twmd and trwmd; 0 for the preset's.
        iterations: Sinkhorn sweeps of twmd: preset, 1, 2, 5, 10 or converged.
        centering: What is subtracted from token vectors: preset, none, dimension, sentence, batch, corpus or
            background.
    """
    if not isinstance(hypothesis, str) or not isinstance(references, list):
        raise InputError("expected a text as hypothesis and a list of texts as references, as in ['the cat', 'a cat'].")
    lines = "\n".join(" ".join(text.split("\n")) for text in references)
    settings = PageSettings(preset, temperature, iterations, centering)
    rows, _, signature, notices = texts.score_texts(hypothesis, lines, metric, settings)
    return {"scores": _by_header(texts.HEADERS, rows), "signature": signature, "notices": notices}


@_as_gradio_error()
def explain_signature(text: str) -> dict[str, Any]:
    """Explain a signature. Returns its fields (key, value, meaning, default), the command that scores by it again, and
    notices.

    Args:
        text: A signature, long or short.
    """
    fields, command, notices = signature_tab.explain_signature(text)
    headers = ("key", "value", "meaning", "default")
    return {"fields": _by_header(headers, fields), "command": command, "notices": notices}


@_as_gradio_error()
def score_table(table: str, metrics: list[str], preset: str = "embedded") -> dict[str, Any]:
    """Score a table of predictions and references. Returns the scores of the whole and of every row, signatures, and
    the record.

    Args:
        table: CSV, TSV or JSON lines with a column prediction and columns whose names begin with reference.
        metrics: Names of metrics.
        preset: A preset; metrics that have none of this name take their default.
    """
    return score_file(read_pasted(table), metrics, preset)


def _by_header(headers: tuple[str, ...], rows: Any) -> list[dict[str, str]]:
    return [dict(zip(headers, row, strict=True)) for row in rows]
