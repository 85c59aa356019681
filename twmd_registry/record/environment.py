"""The machine and the libraries a score comes from: what can move it within its tolerance."""

from __future__ import annotations

import platform
from importlib import metadata
from typing import TYPE_CHECKING

from twmd_registry.models.load import pick_device
from twmd_registry.version import __version__

if TYPE_CHECKING:
    import torch

PACKAGES = ("torch", "transformers", "tokenizers", "safetensors", "numpy", "POT", "peft", "sacrebleu")


def environment(device: str = "auto") -> dict[str, str]:
    """Versions, device and threads, in words; nothing that tells who or where somebody is.

    Args:
        device: The device as in `RunOptions`.

    Raises:
        SpecError: No such device here.
    """
    import torch

    found = {"twmd-registry": __version__} | {name: version for name in PACKAGES if (version := _version(name))}
    return found | {
        "python": platform.python_version(),
        "platform": f"{platform.system()} {platform.machine()}",
        "device": _device(pick_device(device)),
        "threads": str(torch.get_num_threads()),
    }


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _device(device: torch.device) -> str:
    import torch

    return f"cuda ({torch.cuda.get_device_name(device)})" if device.type == "cuda" else device.type
