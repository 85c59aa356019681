"""Average several adapters of one base model (Wortsman et al. 2022, "Model soups").

The changes of weights are averaged, ``sum_k (s_k / K) B_k A_k``, as an adapter whose rank is the sum of all ranks, or
as the nearest adapter of a lower rank.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from twmd_registry.encode.mean_vectors import origin_of
from twmd_registry.engine.scorer import Scorer
from twmd_registry.engine.token_backend import TokenAlignmentBackend
from twmd_registry.errors import FileError, SpecError
from twmd_registry.metaeval.overlap import TRAINING_DATA, read_hashes, write_hashes
from twmd_registry.models.files import ModelFiles, find_adapter, find_model, open_adapter
from twmd_registry.models.load import load_encoder
from twmd_registry.registry.metric_spec import MetricSpec
from twmd_registry.registry.names import Dtype
from twmd_registry.registry.options import RunOptions
from twmd_registry.registry.own_presets import PRESET_FILE, read_preset_file
from twmd_registry.registry.presets import Preset
from twmd_registry.registry.spec import apply_preset
from twmd_registry.train.model import require_training
from twmd_registry.train.trained_files import save_adapter, save_documents, save_means, writing


def average(
    folders: Sequence[Path],
    output: Path,
    *,
    dtype: Dtype = "float32",
    rank: int | None = None,
    options: RunOptions = RunOptions(),  # noqa: B008
    name: str = "average",
) -> tuple[Scorer, int]:
    """Average the adapters in output folders of ``twmd train metric``, and save the metric with the mean adapter.

    Metrics and settings must be equal, except for layers: the first metric's are read. A single adapter is copied.
    Without `rank`, the mean has the sum of the ranks and is exact.

    Returns:
        The scorer of the mean, and the rank of its adapter.
    """
    require_training()
    read = [_read(folder) for folder in folders]
    specs, presets = [spec for spec, _ in read], [preset for _, preset in read]
    adapters = [find_adapter(str(spec.adapter)) for spec in specs]
    backgrounds = [next(iter(TokenAlignmentBackend(spec, options).backgrounds), None) for spec in specs]
    _check_alike(folders, specs, [origin_of(background) if background else None for background in backgrounds])
    if output.is_dir() and any(output.iterdir()):
        raise FileError(f"{output} is not empty: choose a new folder, so nothing is overwritten.")
    files = find_model(str(specs[0].model), specs[0].revision)
    cut = rank is not None
    wrapped, rank = _merge(adapters, files, rank)
    with writing(output):
        save_adapter(wrapped, files.name, output, dtype)
        spec = specs[0].replace(adapter=str(output.resolve()))
        scorer = Scorer(save_means(spec, backgrounds[0], output), options)
        members = [(adapter.name, preset.provenance) for adapter, preset in zip(adapters, presets, strict=True)]
        listed = " ".join(f"{adapter}: {provenance}" for adapter, provenance in members)
        mean = f"the mean of {len(members)} adapters' weights" if len(members) > 1 else "another adapter's weights"
        about = f"of rank {rank}, in {dtype}: {'the nearest of this rank to ' if cut else ''}{mean}"
        provenance = f"A LoRA adapter {about}. {listed}"
        save_documents(scorer, files, output, "average", name=name, provenance=provenance, members=members, about=about)
        hashes = [read_hashes(adapter.folder / TRAINING_DATA) for adapter in adapters]
        write_hashes({data: values for by_name in hashes for data, values in by_name.items()}, output / TRAINING_DATA)
    return scorer, rank


def _read(folder: Path) -> tuple[MetricSpec, Preset]:
    path = folder / PRESET_FILE
    if not path.is_file():
        raise FileError(f"{folder} contains no {PRESET_FILE}: expected a folder written by 'twmd train metric'.")
    _, presets = read_preset_file(path)
    if len(presets) != 1:
        raise SpecError(f"{path} sets {len(presets)} metrics: expected one, as written by 'twmd train metric'.")
    spec = apply_preset(presets[0], {})
    if spec.adapter is None:
        hint = "only adapters can be averaged, which 'twmd train metric' trains without --full"
        raise SpecError(f"{folder} contains a whole model: {hint}.")
    return spec.replace(adapter=str(folder.resolve())), presets[0]


def _check_alike(folders: Sequence[Path], specs: Sequence[MetricSpec], origins: Sequence[str | None]) -> None:
    """Refuse metrics that differ in more than weights."""
    first: dict[str, object] = {}
    for folder, spec, origin in zip(folders, specs, origins, strict=True):
        settings: dict[str, object] = {"metric": spec.metric, "fingerprint": spec.fingerprint, **spec.values()}
        settings |= {"adapter": None, "layer": None}
        if origin:
            settings["centering"] = f"background:{origin}"
        first = first or settings
        keys = [key for key in first | settings if settings.get(key) != first.get(key)]
        if keys:
            differences = "; ".join(f"{key} is {settings.get(key)}, not {first.get(key)}" for key in keys)
            raise SpecError(f"{folder} was trained with different settings from {folders[0]}: {differences}.")


def _merge(adapters: Sequence[ModelFiles], files: ModelFiles, rank: int | None) -> tuple[Any, int]:
    """Return the base model with the mean adapter, and the adapter's rank."""
    from peft import PeftModel

    names = [str(number) for number in range(len(adapters))]
    network = load_encoder(files, "float32")
    with open_adapter(adapters[0], files) as folder:
        wrapped: Any = PeftModel.from_pretrained(network, folder, adapter_name="0", local_files_only=True)
    for number, adapter in zip(names[1:], adapters[1:], strict=True):
        with open_adapter(adapter, files) as folder:
            wrapped.load_adapter(folder, adapter_name=number, local_files_only=True)
    whole = sum(int(wrapped.peft_config[number].r) for number in names)
    if rank is not None and rank >= whole:
        raise SpecError(f"rank {rank} is not below {whole}, the sum of the adapters' ranks: leave it out.")
    # "cat" concatenates the factors and is exact. PEFT saves "default" without a subfolder.
    method = {"combination_type": "cat"} if rank is None else {"combination_type": "svd", "svd_rank": rank}
    # PEFT only reduces the rank of a sum, so a single adapter is reduced as the sum of its halves.
    parts = names * 2 if rank is not None and len(names) == 1 else names
    wrapped.add_weighted_adapter(parts, [1 / len(parts)] * len(parts), "default", svd_full_matrices=False, **method)
    wrapped.set_adapter("default")
    for number in names:
        wrapped.delete_adapter(number)
    return wrapped, rank or whole
