"""The SacreBLEU of embedding metrics: scores of generated text with reproducible signatures.

>>> import twmd_registry
>>> twmd_registry.list_metrics()[:3]
['twmd', 'trwmd', 'moverscore']

Importing this package loads no torch and no model, uses no network, and makes ``evaluate.load("twmd")`` work.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from twmd_registry.plugins.evaluate_hook import arm
from twmd_registry.plugins.evaluate_hook import path as path
from twmd_registry.version import __version__ as __version__

if TYPE_CHECKING:
    from twmd_registry.comparison.lexical_scores import score_all as score_all
    from twmd_registry.engine.distributed import score_over_ranks as score_over_ranks
    from twmd_registry.engine.mbr import MbrResult as MbrResult
    from twmd_registry.engine.mbr import mbr as mbr
    from twmd_registry.engine.result import ScoreSet as ScoreSet
    from twmd_registry.engine.scorer import Scorer as Scorer
    from twmd_registry.engine.scorer import load as load
    from twmd_registry.engine.scorer import score as score
    from twmd_registry.models.vectors import save_vectors as save_vectors
    from twmd_registry.record.content import Record as Record
    from twmd_registry.record.content import make_record as make_record
    from twmd_registry.record.content import read_record as read_record
    from twmd_registry.record.content import write_record as write_record
    from twmd_registry.record.verify import verify_record as verify_record
    from twmd_registry.registry.diff import compare_signatures as compare_signatures
    from twmd_registry.registry.metric_spec import AppliedSpec as AppliedSpec
    from twmd_registry.registry.metric_spec import MetricSpec as MetricSpec
    from twmd_registry.registry.names import MetricName as MetricName
    from twmd_registry.registry.options import LocalFiles as LocalFiles
    from twmd_registry.registry.options import MetricKeys as MetricKeys
    from twmd_registry.registry.options import RunOptions as RunOptions
    from twmd_registry.registry.signature import Signature as Signature
    from twmd_registry.registry.signature import parse_signature as parse_signature

_NAMES = {
    "comparison.lexical_scores": ("score_all",),
    "engine.distributed": ("score_over_ranks",),
    "engine.mbr": ("MbrResult", "mbr"),
    "engine.result": ("ScoreSet",),
    "engine.scorer": ("Scorer", "load", "score"),
    "models.vectors": ("save_vectors",),
    "record.verify": ("verify_record",),
    "record.content": ("Record", "make_record", "read_record", "write_record"),
    "registry.diff": ("compare_signatures",),
    "registry.metric_spec": ("AppliedSpec", "MetricSpec"),
    "registry.names": ("MetricName",),
    "registry.options": ("LocalFiles", "MetricKeys", "RunOptions"),
    "registry.signature": ("Signature", "parse_signature"),
}
"""Public names by the module from which they are loaded at first use."""
_WHERE = {name: module for module, names in _NAMES.items() for name in names}

__all__ = sorted([*_WHERE, "__version__", "list_metrics", "path"])  # noqa: PLE0605


if not TYPE_CHECKING:  # with this function a type checker would accept misspelt names

    def __getattr__(name: str) -> Any:
        if name not in _WHERE:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = getattr(importlib.import_module(f"{__name__}.{_WHERE[name]}"), name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return __all__


def list_metrics() -> list[str]:
    """List the names of all metrics, in the catalogue's order."""
    from twmd_registry.registry.names import MetricName

    return [str(name) for name in MetricName]


arm()
