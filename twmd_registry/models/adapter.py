"""PEFT adapters: packaged with this project, in a folder, or on the Hub; named by content."""

from __future__ import annotations

import json
import textwrap
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import resources
from pathlib import Path
from typing import Any

from twmd_registry.errors import MissingExtraError, ModelError
from twmd_registry.models.files import HUB_ID, ModelFiles, from_hub, isolate
from twmd_registry.registry.fingerprint import digest, sha256_of

_FILES = ("adapter_config.json", "adapter_model.safetensors")
HEAD_FILE = "head.safetensors"
"""The head of a siamese regression model, beside the adapter of its encoder; see `twmd_registry.models.regressor`."""


def packaged_adapters() -> Path:
    """Return the folder of the adapters that come with this package."""
    return Path(str(resources.files("twmd_registry"))) / "data" / "adapters"


def adapter_files(folder: Path) -> list[Path]:
    """List the files of an adapter's folder that decide its output: the hash in its name is over these."""
    return [path for name in (*_FILES, HEAD_FILE) if (path := folder / name).is_file()]


def find_adapter(adapter: str, *, paths: bool = True) -> ModelFiles:
    """Find an adapter, whose name is ``name@hash``, by a packaged name, a folder (with `paths`; not when a signature
    names it) or a Hub id, with or without ``@hash``; raise a `ModelError` for none, no safetensors, or another content
    than the hash says.
    """
    name, _, wanted = adapter.partition("@")
    if not paths and not HUB_ID.fullmatch(name):
        raise ModelError(
            f"the signature names a folder of its author's, {name!r}: name your copy by adapter=FOLDER "
            "(--part adapter=FOLDER)."
        )
    own = Path(adapter).expanduser() if paths else None
    if own and own.is_dir():
        name, wanted, folder = adapter, "", own
    elif HUB_ID.fullmatch(name) and (packaged_adapters() / name).is_dir():
        folder = packaged_adapters() / name
    else:
        folder = from_hub(name, what="adapter")
    for file in _FILES:
        if not (folder / file).is_file():
            raise ModelError(f"adapter {name!r} has no {file}: only PEFT adapters saved as safetensors are loaded.")
    found = digest({path.name: sha256_of(path) for path in adapter_files(folder)})
    if wanted and wanted != found:
        raise ModelError(f"adapter {name!r} has the content {found}, not {wanted} as asked for.")
    public = f"./{folder.resolve().name}" if own and folder == own else name
    return ModelFiles(f"{public}@{found}", folder, found, repr(name))


def read_adapter_config(adapter: ModelFiles, name: str) -> Any:
    """Read an entry of an adapter's configuration; raise a `ModelError` if that is damaged."""
    try:
        return json.loads((adapter.folder / "adapter_config.json").read_text(encoding="utf-8")).get(name)
    except (OSError, ValueError, AttributeError) as error:
        raise ModelError(f"adapter {adapter.name}: its adapter_config.json is damaged ({error}).") from error


def check_base(adapter: ModelFiles, files: ModelFiles) -> None:
    """Refuse an adapter that says it was made for a model of another name; a folder here may be a copy of any."""
    base = read_adapter_config(adapter, "base_model_name_or_path")
    known = (
        isinstance(base, str) and HUB_ID.fullmatch(base) and HUB_ID.fullmatch(files.name) and not Path(base).exists()
    )
    if known and base.rpartition("/")[2] != files.name.rpartition("/")[2]:
        raise ModelError(
            f"adapter {adapter.name} was made for {base}, not for {files.name}: it does not fit this model."
        )


def merge(network: Any, adapter: ModelFiles, files: ModelFiles) -> Any:
    """Return a network with an adapter merged into it; raise a `ModelError` if it was made for another model or does
    not fit the network, and a `MissingExtraError` without `peft`.
    """
    check_base(adapter, files)
    try:
        from peft import PeftModel
    except ImportError as error:
        raise MissingExtraError("adapters need peft: pip install 'twmd-registry[embedded]'") from error
    with one_line_errors(adapter), isolate(adapter_files(adapter.folder)) as folder:
        return PeftModel.from_pretrained(network, str(folder), local_files_only=True).merge_and_unload()


@contextmanager
def one_line_errors(adapter: ModelFiles) -> Iterator[None]:
    """Raise a `ModelError` that names the adapter in place of any error of peft while it is loaded."""
    try:
        with warnings.catch_warnings():
            # peft uses a name that transformers will rename; a user cannot act on that.
            warnings.simplefilter("ignore", FutureWarning)
            # An adapter for another kind of network would be ignored in silence, and still be in the signature.
            warnings.filterwarnings("error", message="Found missing adapter keys")
            yield
    except Exception as error:
        lines = [
            line.strip() for line in str(error).splitlines() if line.strip() and not line.rstrip().endswith(":")
        ] or [type(error).__name__]
        raise ModelError(
            f"adapter {adapter.name} does not fit this model: {textwrap.shorten(lines[0], 120)}"
        ) from error
