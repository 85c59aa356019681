"""The SacreBLEU of embedding metrics: scores of generated text that carry what it takes to get them again.

>>> import twmd_registry
>>> twmd_registry.list_metrics()
['twmd', 'trwmd', 'moverscore', 'bertscore_centered', 'wordset_cka', 'stsscore', 'sbert']

Importing this package loads no torch and no model, touches no network, and makes ``evaluate.load("twmd")``
work.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from twmd_registry.plugins.evaluate.hook import arm
from twmd_registry.version import __version__

if TYPE_CHECKING:
    from twmd_registry.registry.names import MetricName as MetricName
    from twmd_registry.registry.options import RunOptions as RunOptions
    from twmd_registry.registry.signature import parse_signature as parse_signature
    from twmd_registry.registry.spec import MetricSpec as MetricSpec
    from twmd_registry.scores import ScoreSet as ScoreSet
    from twmd_registry.scoring import Scorer as Scorer
    from twmd_registry.scoring import score_all as score_all
    from twmd_registry.scoring import scorer as scorer

_WHERE = {
    "MetricName": "registry.names",
    "MetricSpec": "registry.spec",
    "RunOptions": "registry.options",
    "ScoreSet": "scores",
    "Scorer": "scoring",
    "parse_signature": "registry.signature",
    "path": "plugins.evaluate.hook",
    "score_all": "scoring",
    "scorer": "scoring",
}
"""Public names and the modules they are loaded from when first used."""

__all__ = [
    "MetricName",
    "MetricSpec",
    "RunOptions",
    "ScoreSet",
    "Scorer",
    "__version__",
    "list_metrics",
    "parse",
    "parse_signature",
    "path",
    "score_all",
    "scorer",
]


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f"{__name__}.{_WHERE[name]}"), name)
    globals()[name] = value
    return value


def list_metrics() -> list[str]:
    """The names of all metrics."""
    from twmd_registry.registry.names import MetricName

    return [str(name) for name in MetricName]


def parse(signature: str) -> MetricSpec:
    """The specification that a signature, long or short, stands for.

    Raises:
        SignatureError: It is not a signature; the message names the column.
    """
    from twmd_registry.registry.signature import parse_signature

    return parse_signature(signature).spec


arm()
