"""The mean of several adapters: runs of one recipe from other seeds, as one adapter that costs what each of them costs.

Every adapter k changes a weight W by ``s_k B_k A_k``; the mean of the changed weights (Wortsman et al. 2022, "Model
soups") is ``W + sum_k (s_k / K) B_k A_k``, which is an adapter, too, of all their ranks together.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch

from twmd_registry.encode.mean_vectors import MeanVectors, origin_of
from twmd_registry.engine.backends import TokenAlignmentBackend
from twmd_registry.engine.scorer import Scorer
from twmd_registry.errors import FileError, SpecError
from twmd_registry.metaeval.overlap import TRAINING_DATA, read_hashes, write_hashes
from twmd_registry.models.adapter import AdapterFiles, find_adapter
from twmd_registry.models.files import ModelFiles, find_model
from twmd_registry.models.load import load_encoder
from twmd_registry.registry.names import Centering, Dtype
from twmd_registry.registry.options import RunOptions
from twmd_registry.registry.own_presets import PRESET_FILE, read_preset_file
from twmd_registry.registry.paths import write_atomically
from twmd_registry.registry.presets import Preset, write_presets
from twmd_registry.registry.spec import MetricSpec, apply_preset, keys_to_set
from twmd_registry.train.mean_transfer import with_means
from twmd_registry.train.model_card import write_average_card
from twmd_registry.train.weights import require_training, save_adapter

FEWEST = 2


class AverageResult(NamedTuple):
    """What averaging gave.

    Attributes:
        signature: Of the metric with the mean adapter.
        keys: What to set for it, KEY to value.
        rank: Of the adapter.
    """

    signature: str
    keys: dict[str, str]
    rank: int


class _AverageMember(NamedTuple):
    """One trained metric, and what its folder says of it."""

    spec: MetricSpec
    preset: Preset
    adapter: AdapterFiles
    background: MeanVectors | None

    @property
    def settings(self) -> dict[str, object]:
        """Everything but the weights that decides its scores."""
        own: dict[str, object] = {
            "metric": self.spec.metric,
            "fingerprint": self.spec.fingerprint,
            **self.spec.values(),
            "adapter": None,
        }
        return own | ({"centering": f"{Centering.BACKGROUND}:{origin_of(self.background)}"} if self.background else {})


def average(
    folders: Sequence[Path],
    output: Path,
    *,
    dtype: Dtype = Dtype.FLOAT32,
    options: RunOptions = RunOptions(),  # noqa: B008
    name: str = "average",
) -> AverageResult:
    """Average the adapters of some trained metrics, and write what is needed to score by it.

    Args:
        folders: What ``twmd finetune`` wrote, of one metric with the same settings, K of them.
        output: Where it goes: the adapter, ``preset.toml``, ``README.md``, ``signature.txt`` and hashes of the training
            data.
        dtype: How its numbers are kept; float16 and bfloat16 halve the file, and the weights differ by that rounding.
        options: Where the signature is made.
        name: Of the preset.

    Returns:
        Signature and keys of the mean.

    Raises:
        SpecError: Fewer than two, the same adapter twice, a model without an adapter, or other settings or another base
            than the first.
        FileError: A folder that holds no trained metric, or an output that is not empty or cannot be written.
        ModelError: The model or an adapter is not to be had or damaged.
        MissingExtraError: `peft` or `accelerate` is not installed.
    """
    require_training()
    if len(folders) < FEWEST:
        raise SpecError(f"{len(folders)} adapter was given: an average is of two or more.")
    members = [_read(folder, options) for folder in folders]
    _check_alike(members, folders)
    if output.is_dir() and any(output.iterdir()):
        raise FileError(f"{output} is not empty: give a new folder, so that nothing in it is written over.")
    first = members[0]
    files = find_model(str(first.spec.model), first.spec.revision)
    wrapped, ranks = _load(members, files)
    _combine(wrapped, len(members), dtype)
    save_adapter(wrapped, files.name, output)
    made = Scorer(with_means(first.spec.replace(adapter=str(output.resolve())), first.background, output), options)
    found = AverageResult(made.signature, keys_to_set(made.requested), sum(ranks))
    _document(members, found, made, files, output, name=name)
    hashes = [read_hashes(one.adapter.folder / TRAINING_DATA) for one in members]
    write_hashes({name: own for one in hashes for name, own in one.items()}, output / TRAINING_DATA)
    return found


def _read(folder: Path, options: RunOptions) -> _AverageMember:
    """Read what ``twmd finetune`` wrote into a folder."""
    if not (folder / PRESET_FILE).is_file():
        raise FileError(f"{folder} holds no {PRESET_FILE}: expected a folder that 'twmd finetune' wrote.")
    _, presets = read_preset_file(folder / PRESET_FILE)
    if len(presets) != 1:
        raise SpecError(
            f"{folder / PRESET_FILE} sets {len(presets)} metrics: expected what 'twmd finetune' wrote, one."
        )
    spec = apply_preset(presets[0], {})
    if spec.adapter is None:
        raise SpecError(
            f"{folder} holds a whole model: adapters are averaged, which 'twmd finetune' trains without --full."
        )
    spec = spec.replace(adapter=str(folder.resolve()))
    return _AverageMember(
        spec, presets[0], find_adapter(str(spec.adapter)), TokenAlignmentBackend(spec, options).background
    )


def _check_alike(members: Sequence[_AverageMember], folders: Sequence[Path]) -> None:
    """Refuse what has no mean."""
    hashes = [one.adapter.name.rpartition("@")[2] for one in members]
    first = members[0].settings
    for i, (member, folder) in enumerate(zip(members, folders, strict=True)):
        own = member.settings
        if odd := [
            f"{key} is {own.get(key)}, not {first.get(key)}"
            for key in dict.fromkeys([*first, *own])
            if own.get(key) != first.get(key)
        ]:
            raise SpecError(f"{folder} was trained with other settings than {folders[0]}: {'; '.join(odd)}.")
        if hashes[i] in hashes[:i]:
            raise SpecError(
                f"{folder} and {folders[hashes.index(hashes[i])]} hold the same adapter: train each with a seed "
                "of its own (--seed)."
            )


def _load(members: Sequence[_AverageMember], files: ModelFiles) -> tuple[Any, list[int]]:
    """Load the encoder with every adapter in it, named by its number; return it and their ranks."""
    from peft import PeftModel

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # as in `twmd_registry.models.adapter.merge`
        wrapped: Any = PeftModel.from_pretrained(
            load_encoder(files, Dtype.FLOAT32), str(members[0].adapter.folder), adapter_name="0", local_files_only=True
        )
        for number, member in enumerate(members[1:], 1):
            wrapped.load_adapter(str(member.adapter.folder), adapter_name=str(number), local_files_only=True)
    return wrapped, [int(wrapped.peft_config[str(number)].r) for number in range(len(members))]


def _combine(wrapped: Any, number: int, dtype: Dtype) -> None:
    """Replace the adapters by their mean, under the name that PEFT saves without a folder of its own."""
    names = [str(k) for k in range(number)]
    wrapped.add_weighted_adapter(
        names, [1 / number] * number, "default", combination_type="cat"
    )  # exact: factors side by side
    wrapped.set_adapter("default")
    for one in names:
        wrapped.delete_adapter(one)
    for weight_name, weight in wrapped.named_parameters():
        if ".default." in weight_name:
            weight.data = weight.data.to(getattr(torch, dtype)).contiguous()


def _document(
    members: Sequence[_AverageMember], found: AverageResult, made: Scorer, files: ModelFiles, output: Path, *, name: str
) -> None:
    """Write preset, card and signature."""
    parts = [(one.adapter.name, one.preset.provenance) for one in members]
    listed = " ".join(f"{adapter}: {provenance}" for adapter, provenance in parts)
    about = f"The mean of the weights of {len(parts)} adapters. {listed}"
    preset = Preset(name, made.requested.metric, made.requested.values(), about, made.spec.fingerprint)
    write_atomically(output / PRESET_FILE, write_presets(name, about, [preset]).encode())
    write_average_card(
        output,
        metric=made.requested.metric,
        base=f"{files.name}@{files.fingerprint}",
        signature=found.signature,
        keys=found.keys | ({"model": files.name} if "model" in found.keys else {}),
        members=parts,
        rank=found.rank,
    )
