"""Files of a trained metric: weights, mean vectors, preset, model card and signature."""

from __future__ import annotations

import contextlib
import json
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from importlib import resources
from pathlib import Path
from typing import Any

from safetensors import SafetensorError

from twmd_registry.encode.mean_vectors import MEAN_VECTOR, MeanVectors, transfer_means
from twmd_registry.engine.scorer import Scorer
from twmd_registry.errors import FileError, TwmdError
from twmd_registry.models.files import ModelFiles, find_adapter, find_model
from twmd_registry.models.fingerprint import tokenizer_files
from twmd_registry.models.fitted import save
from twmd_registry.registry.metric_spec import MetricSpec
from twmd_registry.registry.metrics import CATALOGUE
from twmd_registry.registry.names import Dtype
from twmd_registry.registry.own_presets import PRESET_FILE
from twmd_registry.registry.paths import write_atomically
from twmd_registry.registry.presets import Preset, write_presets
from twmd_registry.registry.spec import keys_to_set
from twmd_registry.version import __version__


@contextlib.contextmanager
def writing(folder: Path, hint: str = "") -> Iterator[None]:
    """Turn libraries' errors on writing files into a `FileError` with the folder and `hint`."""
    try:
        yield
    except Exception as error:
        in_torch = "inline_container.cc" in str(error)  # a RuntimeError from `torch.save`, which hides the reason
        if isinstance(error, TwmdError) or not (in_torch or isinstance(error, OSError | SafetensorError)):
            raise
        known = getattr(error, "strerror", None) or str(error).removesuffix(".")
        reason = "torch.save failed, as it does on a full disk" if in_torch else known
        raise FileError(f"cannot write {folder}: {reason}.{hint}") from error


def save_adapter(wrapped: Any, base: str, folder: Path, dtype: Dtype = "float32") -> None:
    """Write a PEFT model's adapter "default", rounded to `dtype`, with its base model's public name."""
    import torch

    for name, weight in wrapped.named_parameters():
        if ".default." in name:
            weight.data = weight.data.to(getattr(torch, dtype)).contiguous()
    with _staged(folder) as stage:
        wrapped.save_pretrained(str(stage), save_embedding_layers=False)
        path = stage / "adapter_config.json"
        settings = json.loads(path.read_text(encoding="utf-8"))
        # A local path means nothing to others, and the order of a set differs between runs.
        settings["base_model_name_or_path"] = base
        if isinstance(settings["target_modules"], list):
            settings["target_modules"] = sorted(settings["target_modules"])
        path.write_text(json.dumps(settings, indent=2, sort_keys=True) + "\n", encoding="utf-8")


def save_cross_encoder(model: Any, folder: Path) -> None:
    """Write sentence-transformers' cross-encoder without its model card."""
    with _staged(folder) as stage:
        model.save_pretrained(str(stage), create_model_card=False)


def save_network(network: Any, files: ModelFiles, folder: Path) -> None:
    """Write a whole network with its base model's tokenizer."""
    with _staged(folder) as stage:
        network.save_pretrained(str(stage))
        for path in [*tokenizer_files(files.folder), files.folder / "tokenizer_config.json"]:
            if path.is_file():
                shutil.copyfile(path, stage / path.name)


@contextlib.contextmanager
def _staged(folder: Path) -> Iterator[Path]:
    """Yield a temporary folder for libraries, then move its files to `folder`, atomically and with usual permissions.

    Libraries make weights readable for their owner only.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder, suffix=".part") as stage:
        yield Path(stage)
        for path in sorted(Path(stage).iterdir()):
            write_atomically(folder / path.name, path.read_bytes())
            path.unlink()


def save_means(spec: MetricSpec, background: MeanVectors | None, folder: Path) -> MetricSpec:
    """Write the untrained metric's mean vectors, if any, for the trained `spec`; return `spec` with them."""
    if background is None:
        return spec
    files = find_model(str(spec.model), spec.revision)
    adapter = find_adapter(spec.adapter).name if spec.adapter else None
    path = save(MEAN_VECTOR, transfer_means(background, files.name, files.fingerprint, adapter), folder.resolve())
    return spec.replace(centering=f"background:{path}")


def save_documents(
    scorer: Scorer, files: ModelFiles, folder: Path, template: str, *, name: str, provenance: str, **values: Any
) -> None:
    """Write preset, card and signature of a metric trained from the base model `files`, without local paths."""
    requested = scorer.requested
    preset = Preset(name, requested.metric, requested.values(), provenance, scorer.spec.fingerprint)
    write_atomically(folder / PRESET_FILE, write_presets(name, provenance, [preset]).encode())
    keys = keys_to_set(requested)
    if requested.adapter and "model" in keys:
        keys |= {"model": files.name}
    shown = " ".join(f"{key}={value}" for key, value in keys.items()).replace(str(folder.resolve()), "FOLDER")
    texts = "-i out.txt --src source.txt" if requested.against == "source" else "ref.txt -i out.txt"
    values |= {"metric": requested.metric, "title": CATALOGUE[requested.metric].title, "keys": shown, "texts": texts}
    library = "peft" if requested.adapter else "transformers"
    values |= {"provenance": provenance}
    write_card(folder, template, f"{files.name}@{files.fingerprint}", scorer.signature, values, library=library)


def write_card(
    folder: Path, template: str, base: str, signature: str, values: Mapping[str, Any], *, library: str = "peft"
) -> None:
    """Render a template of ``train/templates`` to ``README.md``, and write ``signature.txt``."""
    from huggingface_hub import ModelCard, ModelCardData

    data = ModelCardData(base_model=base.partition("@")[0], library_name=library, pipeline_tag="sentence-similarity")
    text = resources.files("twmd_registry").joinpath(f"train/templates/{template}.md").read_text(encoding="utf-8")
    card = ModelCard.from_template(
        data, template_str=text, base=base, signature=signature, version=__version__, **values
    )
    write_atomically(folder / "README.md", f"{str(card).rstrip()}\n".encode())
    write_atomically(folder / "signature.txt", f"{signature}\n".encode())
