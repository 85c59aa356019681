from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

import twmd_registry
from tests import tiny
from twmd_registry.encode.mean_vectors import MEAN_VECTOR, find_background, read_background
from twmd_registry.engine.backends import TokenAlignmentBackend
from twmd_registry.errors import ModelError
from twmd_registry.models.files import find_model
from twmd_registry.models.fitted import save
from twmd_registry.registry.names import EMBEDDED_MODEL
from twmd_registry.registry.options import RunOptions
from twmd_registry.registry.spec import make_spec

CORPUS = ["the cat sat", "a dog ran over the hill", "the cat sat", " "]


@pytest.fixture
def backend(tmp_path: Path) -> TokenAlignmentBackend:
    folder = tiny.save_encoder("bert", tmp_path / "bert")
    return TokenAlignmentBackend(make_spec("sbert", model=str(folder), layer=0, centering="none"), RunOptions())


def test_mean_vector_of_repeated_texts_averages_all_token_occurrences(
    backend: TokenAlignmentBackend, tmp_path: Path
) -> None:
    found = read_background(save(MEAN_VECTOR, backend.fit_background(CORPUS), tmp_path))
    with torch.inference_mode():
        rows = [backend.model.encode(backend.model.tokenise([text]), [2]).layers[2].numpy() for text in CORPUS[:3]]
    expected = {
        "all": np.concatenate(rows).mean(0),
        "cls": np.concatenate([row[:-1] for row in rows]).mean(0),
        "none": np.concatenate([row[1:-1] for row in rows]).mean(0),
    }
    for policy, mean in expected.items():
        np.testing.assert_allclose(found.content[policy][2].numpy(), mean, atol=1e-6)
    assert found.content["none"].shape == (tiny.DEPTH + 1, tiny.WIDTH)
    assert (found.about["texts"], found.about["tokens"]) == (3, 12)


def test_mean_vector_file_with_nan_is_rejected(backend: TokenAlignmentBackend, tmp_path: Path) -> None:
    content = bytearray(backend.fit_background(CORPUS))
    content[-4:] = np.float32(np.nan).tobytes()
    path = save(MEAN_VECTOR, bytes(content), tmp_path)
    with pytest.raises(ModelError, match="not finite"):
        read_background(path)


def test_mean_of_another_model_is_refused(tmp_path: Path, backend: TokenAlignmentBackend) -> None:
    other = tiny.save_encoder("bert", tmp_path / "other", seed=3)
    path = save(MEAN_VECTOR, backend.fit_background(CORPUS), tmp_path)
    with pytest.raises(ModelError, match="not on this model"):
        twmd_registry.scorer("twmd", model=str(other), layer=1, centering=f"background:{path}").score(["a"], ["a"])


def test_mean_of_the_model_without_its_adapter_is_refused(tmp_path: Path, backend: TokenAlignmentBackend) -> None:
    path = save(MEAN_VECTOR, backend.fit_background(CORPUS), tmp_path)
    assert find_background(str(path), backend.files.fingerprint, None).about["adapter"] is None
    with pytest.raises(ModelError, match="adapter None, not on this model"):
        find_background(str(path), backend.files.fingerprint, "some-adapter@0123456789ab")


def test_background_centering_without_a_packaged_mean_raises_an_error_with_fit_mean(tmp_path: Path) -> None:
    folder = tiny.save_encoder("bert", tmp_path / "bert")
    with pytest.raises(ModelError, match="twmd fit-mean"):
        twmd_registry.scorer("twmd", model=str(folder), layer=1, centering="background").score(["a"], ["a"])


def test_file_that_is_no_mean_vector_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "mean.safetensors"
    path.write_bytes(b"something else")
    with pytest.raises(ModelError, match="not a mean-vector file"):
        read_background(path)


def test_each_packaged_model_comes_with_one_mean() -> None:
    paths = list(MEAN_VECTOR.packaged.glob("mean-*.safetensors"))
    means = [read_background(path) for path in paths]
    assert [path.name for path in paths] == [f"mean-{mean.hash}.safetensors" for mean in means]
    models = {str(mean.about["fingerprint"]) for mean in means}
    assert models == {find_model(EMBEDDED_MODEL).fingerprint, make_spec("twmd", preset="multilingual").fingerprint}
    assert len(means) == len(models)
