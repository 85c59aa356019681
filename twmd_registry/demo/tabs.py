"""The three tabs: which inputs there are, which function they go to, and where its answer is shown.

An error is an answer like any other: a line above the results, and no results.
"""

from __future__ import annotations

import math
import tempfile
from pathlib import Path
from typing import Any

import gradio as gr

from twmd_registry.demo import signature, table_scores, texts
from twmd_registry.demo.api import FILES
from twmd_registry.demo.choices import AS_PRESET, CENTERINGS, HOTTEST, METRICS, SWEEPS, PageSettings, offered_presets
from twmd_registry.demo.markup import messages, table
from twmd_registry.demo.uploads import LARGEST, MOST_ROWS, SUFFIXES, read_pasted, read_upload
from twmd_registry.errors import TwmdError

HYPOTHESIS = "A small boat drifts past the old lighthouse."
REFERENCES = "The little boat floats by an old lighthouse.\nA boat is passing the lighthouse."
AT_ONCE = 4
"""Visitors whose texts are scored at the same time; files are scored one after another."""
ROW_WIDTHS = (60, 340, 340)
"""In pixels, of a row's number and texts."""
SCORE_WIDTH = 130


def answer_texts(  # noqa: PLR0917 (Gradio gives inputs by position)
    hypothesis: str, references: str, metric: str, preset: str, temperature: float, iterations: str, centering: str
) -> tuple[str, str, str, str]:
    """Score two texts: notices or the error, the table, the signature, the plan."""
    try:
        found = texts.score_texts(
            hypothesis, references, metric, PageSettings(preset, temperature, iterations, centering)
        )
    except TwmdError as error:
        return messages(error=str(error)), "", "", ""
    return (
        messages(found.notices),
        table(texts.HEADERS, found.rows, "numbers"),
        found.signature,
        f'<div class="twmd-plan">{found.picture}</div>',
    )


def refuse_settings() -> tuple[str, str, str, str]:
    """Answer where Gradio refuses an input by itself: an error, and no scores of earlier inputs."""
    return messages(error="Nothing was scored: choose from the lists, and try again."), "", "", ""


def add_texts_tab(page: gr.Blocks, metric: str) -> None:
    """Add the tab for two texts.

    Args:
        page: The page, which scores its example when it opens.
        metric: The one that is chosen first.
    """
    with gr.Row():
        with gr.Column(min_width=320):
            hypothesis = gr.Textbox(HYPOTHESIS, label="Hypothesis", lines=2, max_lines=6, elem_id="hypothesis")
            references = gr.Textbox(
                REFERENCES, label="References, one per line", lines=3, max_lines=8, elem_id="references"
            )
            with gr.Row():
                chosen = gr.Dropdown(METRICS, value=metric, label="Plan of", elem_id="metric", min_width=140)
                preset = gr.Dropdown(offered_presets(), label="Preset", elem_id="preset", min_width=140)
            temperature = gr.Slider(
                0, HOTTEST, value=0, step=0.01, label="Temperature (0: preset)", elem_id="temperature"
            )
            # Gradio's own check leaves the old scores and, of an empty field, a traceback in the terminal;
            # `PageSettings` are checked anyway.
            temperature.preprocess = lambda value: math.nan if value is None else value
            iterations = gr.Radio(SWEEPS, value=AS_PRESET, label="Sinkhorn sweeps", elem_id="iterations")
            centering = gr.Dropdown(CENTERINGS, value=AS_PRESET, label="Centering", elem_id="centering")
        with gr.Column(min_width=320):
            notices = gr.HTML(elem_id="notices")
            scores = gr.HTML(elem_id="scores")
            line = gr.Textbox(
                label="Signature", buttons=["copy"], interactive=False, lines=2, max_lines=8, elem_id="signature"
            )
    plan = gr.HTML(elem_id="plan")
    inputs = [hypothesis, references, chosen, preset, temperature, iterations, centering]
    how: dict[str, Any] = {
        "inputs": inputs,
        "outputs": [notices, scores, line, plan],
        "concurrency_limit": AT_ONCE,
        "show_progress": "hidden",
    }
    # Pasting a text is a change, but to Gradio no input. While somebody types, of all that waits only the last is
    # scored.
    # A temperature out of range is put back into it when its field is left: a change, and no input, either.
    triggers = [
        hypothesis.change,
        references.change,
        temperature.change,
        *(one.input for one in inputs[2:] if one is not temperature),
    ]
    scored = gr.on(triggers, answer_texts, trigger_mode="always_last", api_visibility="private", **how)
    scored.failure(refuse_settings, None, how["outputs"], api_visibility="private", show_progress="hidden")
    page.load(answer_texts, api_visibility="private", **how)


def add_file_tab(metric: str) -> None:
    """Add the tab for a file; `metric` is chosen first."""
    gr.Markdown(
        "A table with a header and the columns `prediction` and `reference` (more references: `reference_2`, "
        f"...), as {', '.join(SUFFIXES)}, "
        f"up to {LARGEST // 10**6} MB and {MOST_ROWS:,} rows. JSON lines may have a list as `references`."
    )
    with gr.Row():
        upload = gr.File(label="Upload a table", file_types=list(SUFFIXES), height=180, elem_id="upload")
        example = "prediction,reference\nIt rains.,It is raining."
        pasted = gr.Textbox(label="or paste one", lines=5, max_lines=5, placeholder=example, elem_id="pasted")
    chosen = gr.CheckboxGroup(METRICS, value=[metric], label="Metrics", elem_id="metrics")
    preset = gr.Dropdown(offered_presets(), label="Preset", elem_id="file-preset")
    button = gr.Button("Score", variant="primary", elem_id="score-file")
    outputs = [gr.HTML(elem_id="file-notices"), *(gr.HTML(elem_id=name) for name in ("file-scores", "distribution"))]
    with gr.Column(visible=False) as results:
        rows = gr.Dataframe(type="array", interactive=False, wrap=True, label="Scores of its rows", elem_id="rows")
        downloads = gr.File(
            label="Scores of the rows (TSV), record for 'twmd verify' (JSON)", interactive=False, elem_id="downloads"
        )
        signatures = gr.Textbox(
            label="Signatures", buttons=["copy"], interactive=False, lines=2, max_lines=12, elem_id="signatures"
        )
    folder = Path(downloads.GRADIO_CACHE)

    def clear(error: str = "") -> Any:
        """Show no scores: those of another file would be taken for this one's."""
        return messages(error=error), "", "", gr.Column(visible=False), None, None, ""

    def answer(upload: str | None, pasted: str, metrics: list[str], preset: str) -> Any:
        """Score a file: notices or the error, the table, the distributions, and what is shown only with them."""
        if upload and pasted.strip():
            return clear("There are an uploaded file and a pasted table: remove one of them.")
        try:
            uploaded = read_upload(Path(upload)) if upload else read_pasted(pasted)
            found = table_scores.score_file(uploaded, metrics, preset)
        except TwmdError as error:
            return clear(str(error))
        # Scores that were asked for before the file was changed may arrive after that: they say whose they are.
        whole = messages([f"Scores of {uploaded.name}:"]) + table(table_scores.HEADERS, found.rows, "numbers")
        downloads, lost = _to_download(found, folder)
        results = gr.Column(visible=True), _rows(found), downloads, found.signatures
        return messages((*found.notices, *lost)), whole, found.pictures, *results

    inputs = [upload, pasted, chosen, preset]
    shown, outputs = [*outputs, results], [*outputs, results, rows, downloads, signatures]
    quietly: dict[str, Any] = {"api_visibility": "private", "show_progress": "hidden"}
    scored = button.click(answer, inputs, outputs, api_visibility="private", concurrency_limit=1, concurrency_id=FILES)
    unreadable = "Nothing was scored: this file cannot be read here. Upload another one."
    scored.failure(lambda: clear(unreadable), None, outputs, **quietly)
    # In the browser: a change that waits in the server's queue could clear the scores that were asked for after it.
    empty = "() => ['', '', '', {__type__: 'update', visible: false}]"
    gr.on([one.change for one in inputs], None, None, shown, js=empty, **quietly)


def _rows(found: table_scores.FileResult) -> gr.Dataframe:
    """The table of rows, which can be sorted; all of it is text or numbers, nothing is read as Markdown or HTML."""
    scores = len(found.segment_headers) - len(ROW_WIDTHS)
    return gr.Dataframe(
        value=list(map(list, found.segments)),
        headers=list(found.segment_headers),
        datatype=["number", "str", "str", *["number"] * scores],
        column_widths=[*ROW_WIDTHS, *[SCORE_WIDTH] * scores],
    )


def _to_download(found: table_scores.FileResult, cache: Path) -> tuple[list[str] | None, list[str]]:
    """Write what can be downloaded among the files that Gradio deletes by itself; scores are shown even if that fails.

    Returns:
        The files, and notices about those that cannot be written.
    """
    try:
        cache.mkdir(parents=True, exist_ok=True)
        folder = Path(tempfile.mkdtemp(dir=cache))
        for name, text in (("scores.tsv", found.tsv), ("record.json", found.record)):
            (folder / name).write_text(text, encoding="utf-8", errors="backslashreplace")
    except OSError as error:
        return None, [f"scores and record cannot be written for download: {error.strerror}."]
    return [str(folder / "scores.tsv"), str(folder / "record.json")], []


def answer_signature(text: str) -> tuple[str, str, str]:
    """Explain a signature: notices or the error, the table of its fields, the command."""
    try:
        found = signature.explain_signature(text)
    except TwmdError as error:
        return messages(error=str(error)), "", ""
    return messages(found.notices), table(signature.HEADERS, found.fields, "words"), found.command


def add_signature_tab() -> None:
    """Add the tab that explains a signature."""
    text = gr.Textbox(
        label="Signature", lines=3, max_lines=8, placeholder="twmd|output:f1|model:...|version:...", elem_id="asked"
    )
    button = gr.Button("Explain", variant="primary", elem_id="explain")
    outputs = [
        gr.HTML(elem_id="signature-notices"),
        gr.HTML(elem_id="fields"),
        gr.Textbox(
            label="The command that scores by it again",
            buttons=["copy"],
            interactive=False,
            lines=2,
            max_lines=8,
            elem_id="command",
        ),
    ]
    gr.on(
        [button.click, text.submit],
        answer_signature,
        text,
        outputs,
        api_visibility="private",
        concurrency_limit=AT_ONCE,
    )
