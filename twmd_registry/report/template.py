"""Renders the templates of reports, alignment pictures, citations and cards, and escapes text for LaTeX."""

from __future__ import annotations

import functools
import json
from typing import TYPE_CHECKING

from twmd_registry.errors import visible

if TYPE_CHECKING:
    from jinja2 import Environment


_LATEX = str.maketrans(
    {c: f"\\{c}" for c in "_%#&${}"}
    | {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
    | {"|": r"\textbar{}\allowbreak{}"}
)


def escape_latex(text: str) -> str:
    """Escape a text for LaTeX; a line may break after each bar, as between the fields of a signature."""
    return text.translate(_LATEX)


@functools.cache
def _environment(room: str) -> Environment:
    from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape

    environment = Environment(
        loader=PackageLoader(f"twmd_registry.{room}"),
        autoescape=select_autoescape(("html", "svg")),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals["zip"] = zip
    environment.filters.update(visible=visible, json=functools.partial(json.dumps, ensure_ascii=False))
    return environment


def render(template: str, room: str = "report", **values: object) -> str:
    """Render a template of a room's folder ``templates``; in HTML and SVG, every value is escaped."""
    return _environment(room).get_template(template).render(values)
