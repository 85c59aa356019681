"""`twmd install`: put the metrics' modules where `evaluate` looks for cached ones.

``evaluate.load("twmd")`` first asks the Hub. When the Hub cannot be reached or has no such module, it takes the newest
``<HF_MODULES_CACHE>/evaluate_modules/metrics/evaluate-metric--NAME/<64 hexadecimal digits>/NAME.py``
(`evaluate.loading.CachedEvaluationModuleFactory`). No code of ours runs before that.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from pathlib import Path

from twmd_registry.errors import FileError
from twmd_registry.plugins.evaluate.hook import METRICS, path
from twmd_registry.registry.paths import write_atomically


def metrics_cache() -> Path:
    """Return `evaluate`'s folder of cached metrics; it follows HF_MODULES_CACHE, HF_HOME and XDG_CACHE_HOME."""
    from huggingface_hub.constants import HF_HOME

    return Path(os.environ.get("HF_MODULES_CACHE") or Path(HF_HOME) / "modules") / "evaluate_modules" / "metrics"


def is_installed() -> bool:
    """Return whether the cache has every metric's module as this version of the package writes it."""
    return all(_cached_module(metric).is_file() for metric in METRICS)


def install() -> Path:
    """Write every metric's module into `evaluate`'s cache, in place of older ones; return the cache's folder."""
    try:
        for metric in METRICS:
            module = _cached_module(metric)
            write_atomically(module, _source(metric).read_bytes())
            _remove_modules(metric, keep=module.parent)
    except OSError as error:
        raise _file_error(error) from error
    return metrics_cache()


def uninstall() -> bool:
    """Remove what `install` wrote, in this version or an older one; return whether there was anything."""
    try:
        removed = [_remove_modules(metric) for metric in METRICS]
    except OSError as error:
        raise _file_error(error) from error
    return any(removed)


def _file_error(error: OSError) -> FileError:
    return FileError(
        f"cannot change {error.filename}: {error.strerror}. "
        "HF_MODULES_CACHE names another folder for evaluate's modules."
    )


def _source(metric: str) -> Path:
    return Path(path(metric), f"{metric}.py")


def _cached_module(metric: str) -> Path:
    digest = hashlib.sha256(_source(metric).read_bytes()).hexdigest()
    return metrics_cache() / f"evaluate-metric--{metric}" / digest / f"{metric}.py"


def _remove_modules(metric: str, keep: Path | None = None) -> bool:
    """Remove the folders of a metric's modules that import this package, except one; return whether there were any."""
    folder = metrics_cache() / f"evaluate-metric--{metric}"
    ours = [
        module.parent
        for module in folder.glob(f"*/{metric}.py")
        if module.parent != keep and b"twmd_registry" in module.read_bytes()
    ]
    for module_folder in ours:
        shutil.rmtree(module_folder)
    if ours and not any(folder.iterdir()):
        folder.rmdir()
    return bool(ours)
