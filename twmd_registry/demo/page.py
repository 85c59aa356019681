"""The page: three Gradio tabs around pure functions, each with an API endpoint.

An error is shown as a line above empty results. Gradio's "Use via API" shows the endpoints' names and docstrings.
"""

from __future__ import annotations

import math
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from twmd_registry.demo import answers
from twmd_registry.engine.scorer import Scorer
from twmd_registry.errors import FileError, InputError, TwmdError, missing_extra
from twmd_registry.registry.metrics import entry
from twmd_registry.registry.names import DEFAULT_PRESET, EMBEDDED_READS
from twmd_registry.registry.references import is_blank
from twmd_registry.template import render

try:
    import gradio as gr
except ImportError as error:
    raise missing_extra("the page needs Gradio", "demo") from error

KEPT_S = 3600
"""Seconds after which uploads and downloads are deleted. All are deleted when the page ends."""
SWEEP_S = 600
WAITING = 64
"""Maximum number of waiting requests."""
LEAD = f"Compare a generated text with a reference by {len(answers.METRICS)} metrics, and see how each score arises."
ABOUT = f"""Everything is computed on the machine that serves this page. Nothing is sent elsewhere. Files are
deleted after an hour. A signature reproduces its score on any machine.

The model of most presets reads {EMBEDDED_READS}. A preset's label lists its languages."""
TEAL = ("#eef6f6", "#d9ebea", "#b3d8d6", "#8fd3ce", "#6fd0c8", "#0b6e6e", "#0b6e6e", "#095a5a", "#084c4c", "#073e3e")
"""The report's accent colour in Gradio's ten shades, lightest first."""


def build_page(metric: str | None = None) -> gr.Blocks:
    """Build the page, ready to ``launch``, with `metric` selected (default: the first)."""
    chosen = answers.METRICS[0] if metric is None else metric
    facts = entry(chosen)
    page = gr.Blocks(title="twmd-registry", analytics_enabled=False, delete_cache=(SWEEP_S, KEPT_S))
    styles = {name: render(f"{name}.css") for name in ("alignment", "light", "dark")}
    fonts = {"font": ["system-ui", "sans-serif"], "font_mono": ["ui-monospace", "monospace"]}
    hues = {"primary_hue": (accent := gr.themes.Color(*TEAL, "#052e2e")), "secondary_hue": accent}
    readable = {"body_text_color_subdued": "*neutral_500", "link_text_color_dark": "*primary_400"}  # 4.5 : 1
    readable |= {"slider_color_dark": "*primary_400", "checkbox_label_text_color_selected": "*body_text_color"}
    plain = {
        "block_border_width": "0px",
        "block_shadow": "none",
        "block_padding": "0",
        "block_label_border_width": "0px",
    }
    page.launch = partial(
        page.launch,
        theme=gr.themes.Default(**hues, neutral_hue="gray", **fonts).set(**readable, **plain),
        css=render("style.css", "demo", **styles),
        max_file_size=answers.LARGEST,
        share=False,
        quiet=True,  # without Gradio's lines about public tunnels
        footer_links=["api", "settings"],
    )
    page.scorers = [Scorer(answers.spec_of(name)) for name in answers.METRICS]
    for scorer in page.scorers:
        _ = scorer.spec  # loads the model, which stays in memory with the page
    settings = [value for preset in PRESETS for value in (chosen, preset, 0, *[answers.AS_PRESET] * 2)]
    fields: tuple[Any, ...] = (HYPOTHESIS, REFERENCES, "", False, *settings)
    example = answer_texts(*fields)  # here, because components that are made below join the page
    with page:
        title, lead = (
            ("Embedding metrics with signatures", LEAD) if metric is None else (facts.title, f"{facts.about} {LEAD}")
        )
        gr.Markdown(f"# {title}\n{lead}", elem_id="lead")
        with gr.Tabs():
            with gr.Tab("Two texts"):
                add_texts_tab(page, chosen, example)
            with gr.Tab("A file"):
                add_file_tab(chosen)
            with gr.Tab("A signature"):
                add_signature_tab()
        gr.Markdown(ABOUT, elem_id="about")
    page.queue(max_size=WAITING)
    return page


def serve(metric: str | None, port: int | None, announce: Callable[[str], None]) -> None:
    """Serve the page on 127.0.0.1 until interrupted, by default at the first free port from 7860."""
    page = build_page(metric)
    try:
        _, address, _ = page.launch(server_name="127.0.0.1", server_port=port, prevent_thread_lock=True)
    except OSError as error:
        problem = f"port {port} is not free" if port else "none of Gradio's ports, 7860 to 7959, is free"
        raise FileError(f"{problem}: choose another with --port.") from error
    announce(address)
    page.block_thread()


HYPOTHESIS = "A small boat drifts past the old lighthouse."
REFERENCES = "The little boat floats by an old lighthouse.\nA boat is passing the lighthouse."
SCORING = '<p class="twmd-hint">Scoring ...</p>'
PRESETS = (DEFAULT_PRESET, "embedded")
"""The presets of the two settings."""
AT_ONCE = 4
"""Number of visitors whose texts are scored concurrently."""
FILES = "files"
"""The queue for files from the page and the API, which are scored one by one."""
ROW_WIDTHS, SCORE_WIDTH = (60, 340, 340), 130
"""Column widths in pixels: row number, prediction and references, then each score."""
PRIVATE: dict[str, Any] = {"api_visibility": "private"}
QUIET = PRIVATE | {"show_progress": "hidden"}
HIDE = "() => ['', '', '', {__type__: 'update', visible: false}]"
SETTING = answers.SETTING
_Output = partial(gr.Textbox, buttons=["copy"], interactive=False, lines=2, max_lines=8)
_messages = partial(render, "messages.html", "demo")
_table = partial(render, "table.html", "demo")


@contextmanager
def _as_gradio_error() -> Iterator[None]:
    try:
        yield
    except TwmdError as error:
        raise gr.Error(str(error), print_exception=False) from error


def _by_header(headers: tuple[str, ...], rows: Any) -> list[dict[str, str]]:
    return [dict(zip(headers, row, strict=True)) for row in rows]


@_as_gradio_error()
def score_texts(  # noqa: PLR0917 (Gradio passes inputs by position)
    hypothesis: str,
    references: list[str],
    metric: str = answers.METRICS[0],
    preset: str = DEFAULT_PRESET,
    temperature: float = 0.0,
    iterations: str = answers.AS_PRESET,
    centering: str = answers.AS_PRESET,
    source: str = "",
) -> dict[str, Any]:
    """Score a text against its references with every metric. Returns scores, one metric's signature, and notices.

    Args:
        hypothesis: The text, up to 2,000 characters.
        references: Texts, up to 2,000 characters in all; none for a preset that reads the source. Line breaks in a text
            count as spaces.
        metric: The metric whose signature is returned.
        preset: A preset. Metrics without it use their default.
        temperature: T of twmd and trwmd; 0 for the preset's value.
        iterations: Sinkhorn sweeps of twmd: preset, 1, 2, 5, 10 or converged.
        centering: Mean to subtract from token vectors: preset, none, dimension, sentence, batch, corpus or background.
        source: The source text, for presets that read it, up to 2,000 characters.
    """
    if not isinstance(hypothesis, str) or not isinstance(references, list):
        raise InputError("expected a text as hypothesis and a list of texts as references, as in ['the cat', 'a cat'].")
    lines = "\n".join(" ".join(text.split("\n")) for text in references)
    settings = {"temperature": temperature, "iterations": iterations, "centering": centering}
    rows, _, signature, notices = answers.score_texts(hypothesis, lines, metric, source, preset, **settings)
    return {"scores": _by_header(answers.HEADERS, rows), "signature": signature, "notices": notices}


def answer_texts(hypothesis: str, references: str, source: str, compare: bool, *settings: Any) -> tuple[Any, ...]:
    """Score two texts with one setting, or with two to `compare`. Return notices or the error, plans, table,
    signatures.
    """
    shown, notices = list[dict[str, Any]](), list[str]()
    try:
        for values in (settings[: len(SETTING)], settings[len(SETTING) :])[: 1 + compare]:
            metric, preset, *keys = values
            named = dict(zip(SETTING[2:], keys, strict=True))
            rows, plan, line, more = answers.score_texts(hypothesis, references, metric, source, preset, **named)
            changed = [f"{key} {named[key]}" for key in named if named[key] not in {0, answers.AS_PRESET}]
            scores = {name: score for name, score, *_ in rows}
            label = ", ".join([preset, *changed])
            shown.append({"metric": metric, "label": label, "score": scores[metric], "plan": plan, "line": line})
            shown[-1] |= {"rows": rows, "scores": scores}
            notices += more
    except TwmdError as error:
        return _messages(error=answers.advise(str(error))), "", "", *[gr.Textbox("", label="Signature")] * 2
    headers: tuple[str, ...] = answers.HEADERS
    rows = shown[0]["rows"]
    if compare:
        headers = ("metric", "A", "B", "B - A")
        rows = [(name, *answers.compare(*(one["scores"][name] for one in shown))) for name in shown[0]["scores"]]
    names = ("", "") if not compare else ("A: ", "B: ")
    signatures = [
        gr.Textbox(one["line"], label=f"{name}Signature of {one['metric']}", visible=True)
        for name, one in zip(names, shown, strict=False)
    ]
    signatures += [gr.Textbox("", visible=False)] * (2 - len(shown))
    messages = _messages(notices=map(answers.advise, dict.fromkeys(notices)))
    table = _table(headers=headers, rows=rows, kind="numbers")
    return messages, render("plans.html", "demo", shown=shown, names=names), table, *signatures


def _choose_preset(elem_id: str, value: str, **options: Any) -> gr.Dropdown:
    choices = [(label, name) for name, label in answers.offered_presets().items()]
    return gr.Dropdown(choices, value=value, label="Preset", elem_id=elem_id, **options)


def _add_setting(metric: str, preset: str, suffix: str = "") -> list[Any]:
    """Add the fields of a setting, in the order of `SETTING`."""
    with gr.Row():
        chosen = gr.Dropdown(answers.METRICS, value=metric, label="Metric", elem_id=f"metric{suffix}", min_width=120)
        presets = _choose_preset(f"preset{suffix}", preset, min_width=200)
    with gr.Accordion("Temperature, iterations, centering", open=False, elem_id=f"keys{suffix}"):
        about, max_temperature = "Temperature (0 keeps the preset's)", answers.MAX_TEMPERATURE
        temperature = gr.Slider(0, max_temperature, value=0, step=0.01, label=about, elem_id=f"temperature{suffix}")
        # `spec_of` checks the value. Gradio's check would keep old scores, and print a traceback for an empty field.
        temperature.preprocess = lambda value: math.nan if value is None else value
        sweeps = {"label": "Sinkhorn sweeps", "elem_id": f"iterations{suffix}"}
        iterations = gr.Radio(answers.SWEEPS, value=answers.AS_PRESET, **sweeps)
        places = {"label": "Centering", "elem_id": f"centering{suffix}"}
        centering = gr.Dropdown(answers.CENTERINGS, value=answers.AS_PRESET, **places)
    return [chosen, presets, temperature, iterations, centering]


def add_texts_tab(page: gr.Blocks, metric: str, example: tuple[Any, ...]) -> None:
    """Add the tab for two texts. The page opens with the scored example, or with the texts and settings of its link."""
    notices, plan, scores, signature, _ = example
    with gr.Row(elem_id="bench"):
        with gr.Column(elem_id="texts"):
            hypothesis = gr.Textbox(HYPOTHESIS, label="Hypothesis", lines=2, max_lines=6, elem_id="hypothesis")
            references = gr.Textbox(
                REFERENCES, label="References, one per line", lines=2, max_lines=8, elem_id="references"
            )
        with gr.Column(elem_id="plans"):
            outputs = [gr.HTML(notices, elem_id="notices"), gr.HTML(plan, elem_id="plan")]
        with gr.Column(elem_id="settings"):
            about = "Source (for presets that read it)"
            source = gr.Textbox("", label=about, lines=1, max_lines=4, elem_id="source")
            settings = _add_setting(metric, PRESETS[0])
            compare = gr.Checkbox(label="Compare with a second setting", elem_id="compare")
            with gr.Column(elem_id="second"):  # hidden by the style: Gradio keeps no values of hidden fields
                settings += _add_setting(metric, PRESETS[1], "2")
    with gr.Row():
        with gr.Column(scale=2, min_width=300):
            outputs.append(gr.HTML(scores, elem_id="scores"))
        with gr.Column(scale=3, min_width=300):
            outputs.append(_Output(signature.value, label=signature.label, elem_id="signature"))
            outputs.append(_Output(elem_id="signature2", visible=False))
            button = gr.Button("Link to these texts and settings", size="sm", elem_id="share")
            link = gr.Textbox(label="Link", visible=False, interactive=False, buttons=["copy"], elem_id="link")
    inputs = [hypothesis, references, source, compare, *settings]
    button.click(None, inputs, link, js=render("link.js", "demo", names=answers.LINKED), **QUIET)
    options = QUIET | {"inputs": inputs, "outputs": outputs, "concurrency_limit": AT_ONCE}
    # While a visitor types or a link fills the fields, only the last waiting request is scored.
    scored = gr.on([field.change for field in inputs], answer_texts, trigger_mode="always_last", **options)
    refused = _messages(error="Nothing was scored: choose values from the lists and try again."), "", "", "", ""
    scored.failure(lambda: refused, None, outputs, **QUIET)  # Gradio itself refused an input

    def open_link(request: gr.Request) -> Any:
        """Return the fields' values when a link opens the page, as far as its parameters are offered."""
        values, problems = answers.read_link(dict(request.query_params), [field.value for field in inputs])
        for problem in problems:
            gr.Warning(problem)
        if values != [field.value for field in inputs]:
            return [*values, SCORING]  # the fields' changes start the scoring
        # A visitor may be typing already. An update of a slider, even an empty one, would replace its `preprocess`.
        return [*(field.value if isinstance(field, gr.Slider) else gr.skip() for field in inputs), gr.skip()]

    page.load(open_link, None, [*inputs, outputs[1]], **QUIET)
    gr.api(score_texts, api_name="score_texts", concurrency_limit=AT_ONCE)


@_as_gradio_error()
def score_table(table: str, metrics: list[str], preset: str = DEFAULT_PRESET) -> dict[str, Any]:
    """Score a table. Returns corpus scores, the scores of every row, signatures, and the record.

    Args:
        table: CSV, TSV or JSON lines with a column prediction and columns whose names start with reference, or a column
            source for presets that read it.
        metrics: Names of metrics.
        preset: A preset. Metrics without it use their default.
    """
    return answers.score_file(answers.read_pasted(table), metrics, preset)


def add_file_tab(metric: str) -> None:
    """Add the tab for a file."""
    gr.Markdown(
        "A table with a header and the columns `prediction` and `reference` (more references: `reference_2`, ...), as "
        f"{', '.join(answers.SUFFIXES)}, up to {answers.LARGEST // 10**6} MB and {answers.MAX_ROWS:,} rows. JSON "
        "lines may have a list as `references`. Presets that read the source need a column `source` instead."
    )
    example = "prediction,reference\nIt rains.,It is raining."
    with gr.Row():
        upload = gr.File(label="Upload a table", file_types=list(answers.SUFFIXES), height=180, elem_id="upload")
        pasted = gr.Textbox(label="or paste a table", lines=5, max_lines=5, placeholder=example, elem_id="pasted")
    chosen = gr.CheckboxGroup(answers.METRICS, value=[metric], label="Metrics", elem_id="metrics")
    preset = _choose_preset("file-preset", DEFAULT_PRESET)
    button = gr.Button("Score", variant="primary", elem_id="score-file")
    shown = [gr.HTML(elem_id=name) for name in ("file-notices", "file-scores", "distribution")]
    with gr.Column(visible=False) as results:
        rows = gr.Dataframe(type="array", interactive=False, wrap=True, label="Scores of the rows", elem_id="rows")
        about = "Scores of the rows (TSV), record for 'twmd verify' (JSON)"
        downloads = gr.File(label=about, interactive=False, elem_id="downloads")
        signatures = _Output(label="Signatures", max_lines=12, elem_id="signatures")
    shown.append(results)
    inputs, outputs = [upload, pasted, chosen, preset], [*shown, rows, downloads, signatures]
    answer = partial(answer_file, Path(downloads.GRADIO_CACHE))
    scored = button.click(answer, inputs, outputs, concurrency_limit=1, concurrency_id=FILES, **PRIVATE)
    problem = "Nothing was scored: this file cannot be read here. Upload another file."
    scored.failure(lambda: _show_error(problem), None, outputs, **QUIET)
    # In the browser, because a change in the server's queue could clear the scores of a later request.
    gr.on([field.change for field in inputs], None, None, shown, js=HIDE, **QUIET)
    gr.api(score_table, api_name="score_table", concurrency_limit=1, concurrency_id=FILES)


def answer_file(cache: Path, upload: str | None, pasted: str, metrics: list[str], preset: str) -> tuple[Any, ...]:
    """Score a file. Return notices or the error, table, distributions, and the parts shown only with scores."""
    if upload and not is_blank(pasted):
        return _show_error("There is an uploaded file and a pasted table: remove one of them.")
    try:
        uploaded = answers.read_upload(Path(upload)) if upload else answers.read_pasted(pasted)
        result = answers.score_file(uploaded, metrics, preset)
    except TwmdError as error:
        return _show_error(str(error))
    # Scores name their file, because they may arrive after the visitor has chosen another one.
    title = _messages(notices=[f"Scores of {uploaded[0].name}:"])
    whole = title + _table(headers=answers.FILE_HEADERS, rows=result["rows"], kind="numbers")
    cache.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(dir=cache))  # Gradio empties it
    downloads = {"scores.tsv": result["tsv"], "record.json": result["record"]}
    for name, text in downloads.items():
        (folder / name).write_text(text, encoding="utf-8", errors="backslashreplace")
    scores = len(result["segment_headers"]) - len(ROW_WIDTHS)
    rows = gr.Dataframe(
        value=result["segments"],
        headers=result["segment_headers"],
        datatype=["number", "str", "str", *["number"] * scores],  # nothing is read as Markdown or HTML
        column_widths=[*ROW_WIDTHS, *[SCORE_WIDTH] * scores],
    )
    notices, files = (
        _messages(notices=map(answers.advise, result["notices"])),
        [str(folder / name) for name in downloads],
    )
    return notices, whole, result["pictures"], gr.Column(visible=True), rows, files, result["signatures"]


def _show_error(error: str) -> tuple[Any, ...]:
    """Return an error and empty outputs, which clear an earlier file's scores."""
    return _messages(error=answers.advise(error)), "", "", gr.Column(visible=False), None, None, ""


@_as_gradio_error()
def explain_signature(text: str) -> dict[str, Any]:
    """Explain a signature. Returns its fields (key, value, meaning, default), a command to score with it, and notices.

    Args:
        text: A signature, long or short.
    """
    fields, command, notices = answers.explain_signature(text)
    headers = ("key", "value", "meaning", "default")
    return {"fields": _by_header(headers, fields), "command": command, "notices": notices}


def answer_signature(text: str) -> tuple[str, str, str]:
    """Explain a signature. Return notices or the error, the table of fields, and the command."""
    try:
        fields, command, notices = answers.explain_signature(text)
    except TwmdError as error:
        return _messages(error=error), "", ""
    return _messages(notices=notices), _table(headers=answers.FIELD_HEADERS, rows=fields, kind="words"), command


def add_signature_tab() -> None:
    """Add the tab that explains a signature."""
    example = "twmd|output:f1|model:...|version:..."
    text = gr.Textbox(label="Signature", lines=3, max_lines=8, placeholder=example, elem_id="asked")
    button = gr.Button("Explain", variant="primary", elem_id="explain")
    outputs = [gr.HTML(elem_id="signature-notices"), gr.HTML(elem_id="fields")]
    outputs.append(_Output(label="Command to score with it", elem_id="command"))
    gr.on([button.click, text.submit], answer_signature, text, outputs, concurrency_limit=AT_ONCE, **PRIVATE)
    gr.api(explain_signature, api_name="explain_signature", concurrency_limit=AT_ONCE)
