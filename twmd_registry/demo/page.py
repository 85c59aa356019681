"""The page itself: three tabs of Gradio around pure functions.

A Space's whole program is ``from twmd_registry.demo.page import build_page; build_page("twmd").launch()``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from twmd_registry.demo.answers import LARGEST, METRICS, PageSettings, spec_of
from twmd_registry.engine.scorer import Scorer
from twmd_registry.errors import FileError, MissingExtraError
from twmd_registry.registry.metrics import entry
from twmd_registry.registry.names import EMBEDDED_READS
from twmd_registry.report.template import render

try:
    import gradio as gr

    from twmd_registry.demo.tabs import add_file_tab, add_signature_tab, add_texts_tab
except ImportError as error:
    raise MissingExtraError("the page needs Gradio: pip install 'twmd-registry[demo]'") from error

KEPT_S = 3600
"""Seconds after which an uploaded file, or a file to download, is deleted; all are when the page ends."""
SWEEP_S = 600
WAITING = 64
"""Requests that may wait; more are refused."""
INTRODUCTION = f"""# Embedding metrics with signatures
Compare a generated text with a reference by {len(METRICS)} metrics, see why a score is what it is, and take along the
signature that gives it again. Everything is computed on the machine that serves this page; nothing is sent elsewhere,
and files are deleted after an hour.

The model of most presets reads {EMBEDDED_READS}; the names of presets say for which languages they
were made."""


class Page(gr.Blocks):  # type: ignore[misc]
    """The page as Gradio's `Blocks`, with the settings of this package."""

    def __init__(self) -> None:
        """Make an empty page, and load the models that it needs."""
        super().__init__(title="twmd-registry", analytics_enabled=False, delete_cache=(SWEEP_S, KEPT_S))
        self.scorers = [Scorer(spec_of(metric, PageSettings())) for metric in METRICS]
        for scorer in self.scorers:
            _ = scorer.spec  # loads the model, which stays in memory as long as the page

    def launch(self, **options: Any) -> Any:
        """Serve the page as `gradio.Blocks.launch` does, by default without its lines about public tunnels."""
        font = ["system-ui", "sans-serif"]
        styles = {name: render(f"{name}.css") for name in ("alignment", "light", "dark")}
        own = {
            "theme": gr.themes.Default(primary_hue="blue", font=font, font_mono=["ui-monospace", "monospace"]),
            "css": render("style.css", "demo", **styles),
            "max_file_size": LARGEST,
            "share": False,
            "quiet": True,
            "footer_links": ["api", "settings"],
        }
        return super().launch(**(own | options))

    def close(self, *arguments: Any, **options: Any) -> None:
        """Stop serving as `gradio.Blocks.close` does, and free the models."""
        super().close(*arguments, **options)
        for scorer in self.scorers:
            scorer.close()


def build_page(metric: str | None = None) -> Page:
    """Build the page of all metrics, ready to ``launch``; `metric` is chosen when it opens, or the first."""
    chosen = METRICS[0] if metric is None else metric
    facts = entry(chosen)
    page = Page()
    with page:
        gr.Markdown(INTRODUCTION)
        if metric is not None:
            gr.Markdown(f"**{facts.title}** (`{chosen}`): {facts.about}")
        with gr.Tabs():
            with gr.Tab("Two texts"):
                add_texts_tab(page, chosen)
            with gr.Tab("A file"):
                add_file_tab(chosen)
            with gr.Tab("A signature"):
                add_signature_tab()
    page.queue(max_size=WAITING)
    return page


def serve(metric: str | None, port: int | None, announce: Callable[[str], None]) -> None:
    """Serve the page on 127.0.0.1 until it is interrupted; by default at the first free port from 7860."""
    page = build_page(metric)
    try:
        _, address, _ = page.launch(server_name="127.0.0.1", server_port=port, prevent_thread_lock=True)
    except OSError as error:
        taken = f"port {port} is not free" if port else "none of Gradio's ports, 7860 to 7959, is free"
        raise FileError(f"{taken}: choose another by --port.") from error
    announce(address)
    page.block_thread()
