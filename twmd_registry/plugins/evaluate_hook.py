"""Make ``evaluate.load("twmd")`` return the installed metric. Standard library only.

`evaluate` has no entry points. `arm` therefore wraps ``evaluate.loading.evaluation_module_factory``, now or when
`evaluate` is imported, so it returns the installed module for our names.

Without our import, ``evaluate.load`` queries the Hub first. If that fails, it takes the newest of the modules that
`install` writes: ``<HF_MODULES_CACHE>/evaluate_modules/metrics/evaluate-metric--NAME/<64 hexadecimal digits>/NAME.py``.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import importlib.util
import os
import shutil
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

from twmd_registry.errors import SpecError
from twmd_registry.messages import menu
from twmd_registry.registry.names import MetricName
from twmd_registry.registry.paths import is_there, write_atomically

PATCHED = "evaluate.loading"
"""Module with the factory."""


def metrics_folder() -> Path:
    """Return the folder of the metric modules: inside the installed package, or next to it in a checkout."""
    package = Path(__file__).resolve().parents[1]
    installed = package / "metrics"
    return installed if (installed / MetricName.TWMD).is_dir() else package.parent / "metrics"


METRICS = tuple(str(name) for name in MetricName if (metrics_folder() / name).is_dir())
"""Metrics with an `evaluate` module."""


def path(metric: str) -> str:
    """Return the folder of a metric's module, for ``evaluate.load(twmd_registry.path("twmd"))``.

    Raises:
        SpecError: The metric is unknown.
    """
    if metric not in METRICS:
        raise SpecError(f"no evaluate module for {metric!r}; {menu(str(metric), METRICS)}.")
    return str(metrics_folder() / metric)


def module_name(name: str) -> str | None:
    """Return the module's dotted name for a metric's name or `path`; None for anything else."""
    for metric in METRICS:
        if name == metric or name == str(metrics_folder() / metric):
            return f"twmd_registry.metrics.{metric}.{metric}"
    return None


def arm() -> None:
    """Wrap `evaluate`'s factory, now or when `evaluate` is imported."""
    loading = sys.modules.get(PATCHED)
    if loading is not None:
        wrap_factory(loading)
    elif not any(finder is _FINDER for finder in sys.meta_path):
        sys.meta_path.insert(0, _FINDER)


def wrap_factory(loading: ModuleType) -> None:
    """Wrap the factory to resolve our names, without a ``revision`` (SpecError), and pass on all others."""
    original = getattr(loading, "evaluation_module_factory", None)
    if original is None:
        return

    @functools.wraps(original)
    def factory(path: str, module_type: str | None = None, *args: Any, **kwargs: Any) -> Any:
        module = module_name(str(path)) if module_type in (None, "metric") else None
        if module is None:
            return original(path, module_type, *args, **kwargs)
        if kwargs.get("revision") is not None:
            raise SpecError("revision is evaluate's own keyword: pass a model's revision as model='org/name@revision'.")
        return loading.ImportableModule(module, "0" * 64)

    loading.evaluation_module_factory = factory  # type: ignore[attr-defined]


def _find_spec(name: str, _path: Sequence[str] | None, _target: ModuleType | None = None) -> ModuleSpec | None:
    """Find `PATCHED` once, through the other finders, so the factory is wrapped when the module is loaded."""
    if name != PATCHED:
        return None
    with contextlib.suppress(ValueError):
        sys.meta_path.remove(_FINDER)
    spec = importlib.util.find_spec(name)
    if spec is not None and spec.loader is not None:
        run = spec.loader.exec_module

        def run_and_wrap(module: ModuleType) -> None:
            run(module)
            # An error here must not break `import evaluate`.
            with contextlib.suppress(Exception):
                wrap_factory(module)

        spec.loader.exec_module = run_and_wrap  # type: ignore[method-assign]
    return spec


_FINDER: Any = SimpleNamespace(find_spec=_find_spec)
"""A module finder for `sys.meta_path`."""


def metrics_cache() -> Path:
    """Return `evaluate`'s folder of cached metrics, by HF_MODULES_CACHE, HF_HOME or XDG_CACHE_HOME."""
    from huggingface_hub.constants import HF_HOME

    return Path(os.environ.get("HF_MODULES_CACHE") or Path(HF_HOME) / "modules") / "evaluate_modules" / "metrics"


def _results_cache() -> Path:
    """Return `evaluate`'s folder for rows that a metric collects."""
    from huggingface_hub.constants import HF_HOME

    return Path(os.environ.get("HF_METRICS_CACHE") or Path(HF_HOME) / "metrics")


def is_installed() -> bool:
    """Return whether the cache has every metric's module in this version."""
    return all(is_there(_cached_module(metric)) for metric in METRICS)


def install() -> Path:
    """Write every metric's module into `evaluate`'s cache, replacing older ones; return the cache's folder."""
    uninstall()
    for metric in METRICS:
        write_atomically(_cached_module(metric), _source(metric).read_bytes())
    return metrics_cache()


def uninstall() -> bool:
    """Remove the metrics' modules from `evaluate`'s cache; return whether there were any.

    It removes what any version of `install` wrote, and copies made by `evaluate`.
    """
    removed = [_remove_modules(metric) for metric in METRICS]
    return any(removed)


def _source(metric: str) -> Path:
    return Path(path(metric), f"{metric}.py")


def _cached_module(metric: str) -> Path:
    digest = hashlib.sha256(_source(metric).read_bytes()).hexdigest()
    return metrics_cache() / f"evaluate-metric--{metric}" / digest / f"{metric}.py"


def _remove_modules(metric: str) -> bool:
    """Remove a metric's modules that import this package; return whether there were any.

    Folders with nothing else, locks, and the empty folder of results are removed too.
    """
    found = False
    for name in (f"evaluate-metric--{metric}", metric):  # loaded from the Hub, like `install`'s; loaded by path
        folder = metrics_cache() / name
        ours = [module.parent for module in folder.glob(f"*/{metric}.py") if b"twmd_registry" in module.read_bytes()]
        for module_folder in ours:
            shutil.rmtree(module_folder)
        if ours and {path.name for path in folder.iterdir()} <= {"__init__.py", "__pycache__"}:
            shutil.rmtree(folder)
            folder.with_name(f"{name}.lock").unlink(missing_ok=True)
        found = found or bool(ours)
    results = _results_cache() / metric
    if found and not any(path.is_file() for path in results.rglob("*")):
        shutil.rmtree(results, ignore_errors=True)
    return found
