"""What a trained metric takes over from the untrained one beside its weights."""

from __future__ import annotations

from pathlib import Path

from twmd_registry.encode.mean_vectors import MEAN_VECTOR, MeanVectors, transfer_means
from twmd_registry.models.adapter import find_adapter
from twmd_registry.models.files import find_model
from twmd_registry.models.fitted import save
from twmd_registry.registry.names import Centering
from twmd_registry.registry.spec import MetricSpec


def with_means(spec: MetricSpec, background: MeanVectors | None, folder: Path) -> MetricSpec:
    """Hand the mean vectors on that a metric was trained with.

    Args:
        spec: The trained metric.
        background: The means, None where it subtracts none.
        folder: Where they are written.

    Returns:
        The specification with these means.
    """
    if background is None:
        return spec
    files = find_model(str(spec.model), spec.revision)
    adapter = find_adapter(spec.adapter).name if spec.adapter else None
    path = save(MEAN_VECTOR, transfer_means(background, files.name, files.fingerprint, adapter), folder.resolve())
    return spec.replace(centering=f"{Centering.BACKGROUND}:{path}")
