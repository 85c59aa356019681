"""Render the templates of results, reports, alignment pictures, the demo and the metrics' cards."""

from __future__ import annotations

import functools
import json
from typing import TYPE_CHECKING

from twmd_registry.messages import visible

if TYPE_CHECKING:
    from jinja2 import Environment


@functools.cache
def _environment(package: str) -> Environment:
    from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined, select_autoescape

    environment = Environment(
        # Any page may embed a result's notebook view.
        loader=ChoiceLoader([PackageLoader(f"twmd_registry.{name}") for name in dict.fromkeys((package, "engine"))]),
        autoescape=select_autoescape(("html", "svg")),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals["zip"] = zip
    environment.filters.update(visible=visible, json=functools.partial(json.dumps, ensure_ascii=False))
    return environment


def render(template: str, package: str = "report", **values: object) -> str:
    """Render a template from the folder ``templates`` of a subpackage; HTML and SVG escape every value."""
    return _environment(package).get_template(template).render(values)
