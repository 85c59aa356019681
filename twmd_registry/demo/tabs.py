"""The three tabs: which inputs there are, which function they go to, and where its answer is shown.

Every function is also an endpoint of the page's API, with its docstring as description. An error is an answer like any other: a line in
the last output, with everything else empty.
"""

from __future__ import annotations

import tempfile
from html import escape
from pathlib import Path
from typing import Any

import gradio as gr

from twmd_registry.demo import file, signature, texts
from twmd_registry.demo.choices import AS_PRESET, CENTERINGS, HOTTEST, METRICS, SWEEPS, Settings, offered_presets
from twmd_registry.demo.uploads import LARGEST, MOST_ROWS, SUFFIXES, read_pasted, read_upload
from twmd_registry.demo.worker import Worker
from twmd_registry.errors import TwmdError

HYPOTHESIS = "A small boat drifts past the old lighthouse."
REFERENCES = "The little boat floats by an old lighthouse.\nA boat is passing the lighthouse."
AT_ONCE = 4
"""Visitors whose texts are scored at the same time; files are scored one after another, by a process of their own."""


def messages(notices: tuple[str, ...] = (), error: str | None = None) -> str:
    """Write what is to be said as HTML, escaped.

    Args:
        notices: What a reader of the scores should know.
        error: Why there are none.
    """
    lines = [("twmd-error", error)] if error else []
    lines += [("twmd-notice", notice) for notice in notices]
    return "\n".join(f'<p class="{kind}" role="status">{escape(line[:1].upper() + line[1:])}</p>' for kind, line in lines)


def answer_texts(  # noqa: PLR0917 (Gradio gives inputs by position, and shows their names)
    hypothesis: str, references: str, metric: str, preset: str, temperature: float, iterations: str, centering: str
) -> Any:
    """Score a text against one or more references by every metric, and show one metric's plan.

    Args:
        hypothesis: The text to score; the first 2,000 characters are read.
        references: The references, one per line; the first 2,000 characters are read.
        metric: The metric whose plan and signature are shown.
        preset: A preset; metrics that have none of this name take their default.
        temperature: T of twmd and trwmd; 0 for the preset's.
        iterations: Sinkhorn sweeps of twmd: preset, 1, 2, 5, 10 or converged.
        centering: What is subtracted from token vectors: preset, none, dimension, sentence, batch, corpus or background.

    Returns:
        The table of scores, the plan as HTML, the signature, and notices or the error as HTML.
    """
    try:
        found = texts.score_texts(hypothesis, references, metric, Settings(preset, temperature, iterations, centering))
    except TwmdError as error:
        return [], "", "", messages(error=str(error))
    return list(map(list, found.rows)), f'<div class="twmd-plan">{found.picture}</div>', found.signature, messages(found.notices)


def add_texts_tab(page: gr.Blocks, metric: str) -> None:
    """Add the tab for two texts.

    Args:
        page: The page, which scores its example when it opens.
        metric: The one that is chosen first.
    """
    with gr.Row():
        with gr.Column(min_width=320):
            hypothesis = gr.Textbox(HYPOTHESIS, label="Hypothesis", lines=2, max_lines=6, elem_id="hypothesis")
            references = gr.Textbox(REFERENCES, label="References, one per line", lines=3, max_lines=8, elem_id="references")
            with gr.Row():
                chosen = gr.Dropdown(METRICS, value=metric, label="Plan and signature of", elem_id="metric", min_width=140)
                preset = gr.Dropdown(offered_presets(), label="Preset", elem_id="preset", min_width=140)
            temperature = gr.Slider(0, HOTTEST, value=0, step=0.01, label="Temperature (0: the preset's)", elem_id="temperature")
            iterations = gr.Radio(SWEEPS, value=AS_PRESET, label="Sinkhorn sweeps", elem_id="iterations")
            centering = gr.Dropdown(CENTERINGS, value=AS_PRESET, label="Centering", elem_id="centering")
        with gr.Column(min_width=320):
            scores = _table(texts.HEADERS, "Scores", "scores")
            notices = gr.HTML(elem_id="texts-messages")
            line = gr.Textbox(label="Signature", buttons=["copy"], interactive=False, lines=2, max_lines=8, elem_id="signature")
    plan = gr.HTML(elem_id="plan")
    inputs = [hypothesis, references, chosen, preset, temperature, iterations, centering]
    how: dict[str, Any] = {"inputs": inputs, "outputs": [scores, plan, line, notices], "concurrency_limit": AT_ONCE, "show_progress": "hidden"}
    # While somebody types, of all that waits only the last is scored.
    triggers = [one.input for one in inputs]
    gr.on(triggers, answer_texts, api_name="score_texts", trigger_mode="always_last", **how)
    page.load(answer_texts, api_visibility="private", **how)


def _table(headers: tuple[str, ...], label: str, name: str) -> gr.Dataframe:
    """A table to look at, all of it text: nothing in it is read as Markdown or HTML."""
    return gr.Dataframe(headers=list(headers), datatype="str", type="array", interactive=False, wrap=True, label=label, elem_id=name)


def add_file_tab(worker: Worker, metric: str) -> None:
    """Add the tab for a file.

    Args:
        worker: Scores files.
        metric: The one that is chosen first.
    """
    gr.Markdown(
        f"A table with a header and the columns `prediction` and `reference` (more references: `reference_2`, ...), as {', '.join(SUFFIXES)}, "
        f"up to {LARGEST // 10**6} MB and {MOST_ROWS:,} rows. JSON lines may have a list as `references`."
    )
    with gr.Row():
        upload = gr.File(label="Upload a table", file_types=list(SUFFIXES), height=160, elem_id="upload")
        pasted = gr.Textbox(
            label="or paste one", lines=6, max_lines=6, placeholder="prediction,reference\nIt rains.,It is raining.", elem_id="pasted"
        )
    with gr.Row():
        chosen = gr.CheckboxGroup(METRICS, value=[metric], label="Metrics", elem_id="metrics")
        preset = gr.Dropdown(offered_presets(), label="Preset", elem_id="file-preset", scale=0, min_width=200)
    button = gr.Button("Score", variant="primary", elem_id="score-file")
    outputs = [
        _table(file.HEADERS, "Scores of the whole file", "file-scores"),
        gr.HTML(elem_id="distribution"),
        _table(("row", "prediction", "references", metric), "Scores of its rows", "segments"),
        gr.File(label="Download: scores of the rows (TSV), record for 'twmd verify' (JSON)", interactive=False, elem_id="downloads"),
        gr.Textbox(label="Signatures", buttons=["copy"], interactive=False, lines=2, max_lines=12, elem_id="signatures"),
        gr.HTML(elem_id="file-messages"),
    ]
    folder = Path(outputs[3].GRADIO_CACHE)

    def answer_file(upload: str | None, pasted: str, metrics: list[str], preset: str) -> Any:
        """Score a table of predictions and references by some metrics.

        Args:
            upload: A CSV, TSV or JSON-lines file with a column prediction and columns whose names begin with reference.
            pasted: The table as text, where there is no file.
            metrics: Names of metrics.
            preset: A preset; metrics that have none of this name take their default.

        Returns:
            The table of scores, their distributions as HTML, every row's scores, files to download (TSV and the record as JSON),
            signatures, and notices or the error as HTML.
        """
        try:
            found = worker.score(read_upload(Path(upload)) if upload else read_pasted(pasted), metrics, preset)
        except TwmdError as error:
            return [], "", [], None, "", messages(error=str(error))
        rows = gr.Dataframe(headers=list(found.segment_headers), value=list(map(list, found.segments)))
        return list(map(list, found.rows)), found.pictures, rows, _to_download(found, folder), found.signatures, messages(found.notices)

    button.click(answer_file, [upload, pasted, chosen, preset], outputs, api_name="score_file", concurrency_limit=1, show_progress_on=button)


def _to_download(found: file.FileScores, cache: Path) -> list[str]:
    """Write what can be downloaded among the files that Gradio deletes by itself."""
    cache.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(dir=cache))
    written = []
    for name, text in (("scores.tsv", found.tsv), ("record.json", found.record)):
        (folder / name).write_text(text, encoding="utf-8")
        written.append(str(folder / name))
    return written


def answer_signature(text: str) -> Any:
    """Explain a signature: every key with its meaning, its value, and whether it is the default of its model.

    Args:
        text: A signature, long or short.

    Returns:
        The table of its fields, the command that scores by it again, and notices or the error as HTML.
    """
    try:
        found = signature.explain_signature(text)
    except TwmdError as error:
        return [], "", messages(error=str(error))
    return list(map(list, found.fields)), found.command, messages(found.notices)


def add_signature_tab() -> None:
    """Add the tab that explains a signature."""
    text = gr.Textbox(label="Signature", lines=3, max_lines=8, placeholder="twmd|output:f1|model:...|version:...", elem_id="asked")
    button = gr.Button("Explain", variant="primary", elem_id="explain")
    outputs = [
        gr.HTML(elem_id="signature-messages"),
        _table(signature.HEADERS, "What it says", "fields"),
        gr.Textbox(label="The command that scores by it again", buttons=["copy"], interactive=False, lines=2, max_lines=8, elem_id="command"),
    ]
    gr.on([button.click, text.submit], answer_signature, text, [*outputs[1:], outputs[0]], api_name="explain_signature", concurrency_limit=AT_ONCE)
