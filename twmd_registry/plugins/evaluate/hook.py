"""Makes ``evaluate.load("twmd")`` find the installed metric. Standard library only.

`evaluate` has no entry points. Its one door is ``evaluate.loading.evaluation_module_factory``, which answers
with the dotted name of a module; here that is the installed one, so nothing is copied, nothing is looked up on
the network, and classes pickle by reference. `arm` wraps that function now, or as soon as `evaluate` is
imported.
"""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any

from twmd_registry.registry.names import MetricName

PATCHED = "evaluate.loading"
"""The module that holds the factory."""
COPIED_TO = ("evaluate.inspect", "evaluate.evaluation_suite")
"""Modules that import the factory by value; those loaded before us need the wrapped one, too."""
MARK = "_wrapped_by_twmd_registry"
"""Attribute of a factory that is wrapped already."""


def metrics_folder() -> Path:
    """Return the folder of the metric modules: inside the package when installed, beside it in a checkout."""
    package = Path(__file__).resolve().parents[2]
    installed = package / "metrics"
    return installed if (installed / MetricName.TWMD).is_dir() else package.parent / "metrics"


METRICS = tuple(str(name) for name in MetricName if (metrics_folder() / name).is_dir())
"""The metrics with an `evaluate` module."""


def path(metric: str) -> str:
    """The folder of a metric's module, for ``evaluate.load(twmd_registry.path("twmd"))``.

    Raises:
        SpecError: There is no such metric.
    """
    if metric not in METRICS:
        from twmd_registry.errors import SpecError, menu

        raise SpecError(f"there is no evaluate module for {metric!r}; {menu(str(metric), METRICS)}.")
    return str(metrics_folder() / metric)


def module_name(wanted: str) -> str | None:
    """The dotted name of the module for a bare metric name or for `path` of one; None for anything else."""
    for metric in METRICS:
        if wanted == metric or wanted == str(metrics_folder() / metric):
            return f"twmd_registry.metrics.{metric}.{metric}"
    return None


def arm() -> None:
    """Wrap `evaluate`'s factory, now or when `evaluate` is imported. Calling it again changes nothing."""
    loading = sys.modules.get(PATCHED)
    if loading is not None:
        wrap_factory(loading)
    elif not any(isinstance(finder, _FactoryFinder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _FactoryFinder())


def wrap_factory(loading: ModuleType) -> None:
    """Let the factory answer for our names and ask the original for all others; with ours it refuses a ``revision``
    (SpecError).
    """
    original = getattr(loading, "evaluation_module_factory", None)
    if original is None or hasattr(original, MARK):
        return

    @functools.wraps(original)
    def factory(path: str, module_type: str | None = None, *args: Any, **kwargs: Any) -> Any:
        module = module_name(str(path)) if module_type in (None, "metric") else None
        if module is None:
            return original(path, module_type, *args, **kwargs)
        if kwargs.get("revision") is not None:
            from twmd_registry.errors import SpecError

            raise SpecError(
                "evaluate keeps the keyword revision for its modules: give a model's revision as "
                "model='org/name@revision'."
            )
        return loading.ImportableModule(module, "0" * 64)

    setattr(factory, MARK, True)
    loading.evaluation_module_factory = factory  # type: ignore[attr-defined]
    for name in COPIED_TO:
        if name in sys.modules and hasattr(sys.modules[name], "evaluation_module_factory"):
            sys.modules[name].evaluation_module_factory = factory  # type: ignore[attr-defined]


class _FactoryFinder:
    """A finder that waits for `PATCHED`, steps aside, and has the factory wrapped once it is loaded."""

    def find_spec(self, name: str, _path: Sequence[str] | None, _target: ModuleType | None = None) -> ModuleSpec | None:
        """Find `PATCHED` as everybody else would; leave every other module alone."""
        if name != PATCHED:
            return None
        with contextlib.suppress(ValueError):
            sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.loader is not None:
            run = spec.loader.exec_module

            def run_and_wrap(module: ModuleType) -> None:
                run(module)
                # Whatever goes wrong in here must never break `import evaluate`.
                with contextlib.suppress(Exception):
                    wrap_factory(module)

            spec.loader.exec_module = run_and_wrap  # type: ignore[method-assign]
        return spec
