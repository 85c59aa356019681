"""A metric's Space: the folder that the Hub shows and that ``evaluate.load`` reads, and its upload."""

from __future__ import annotations

import re
import tempfile
from pathlib import Path
from typing import Any

from twmd_registry.errors import FileError, SpecError
from twmd_registry.hub import metrics_with_card
from twmd_registry.hub.card import write_card
from twmd_registry.plugins.evaluate.hook import path
from twmd_registry.registry.paths import read_secret, write_file
from twmd_registry.version import __version__

APP = '''\
"""The page of the Space."""

from twmd_registry.demo.page import build_page

build_page("{metric}").launch()
'''
REQUIREMENTS = f"twmd-registry[embedded,demo]=={__version__}\n"
SPACE = re.compile(r"[A-Za-z0-9][\w.-]*/([A-Za-z]\w*)", re.ASCII)
"""ORG/NAME; NAME becomes a Python module, so no hyphen."""
TOKEN = re.compile(r"[!-~]+")
"""The characters of an HTTP header; the HTTP library's errors show others."""


def card_files(metric: str) -> dict[str, str]:
    """Return the text of a Space's card, page and requirements, by file name; `SpecError` without a card."""
    app = APP.format(metric=metric)
    return {"README.md": write_card(metric), "app.py": app, "requirements.txt": REQUIREMENTS}


def build_space(metric: str, folder: Path, *, module: str | None = None) -> Path:
    """Build a metric's Space in a new or empty folder: its card, page, requirements and `evaluate` module.

    Needs no network, token or model. `module` is the Space's name (default: the metric's), for ``evaluate.load`` of
    ``ORG/NAME`` looks for ``NAME.py``. Returns the module's file, which ``evaluate.load`` accepts. Raises SpecError for
    a metric without a card, and FileError if the folder is not empty or cannot be written to.
    """
    files = card_files(metric)
    script = folder / f"{module or metric}.py"
    files[script.name] = Path(path(metric), f"{metric}.py").read_text(encoding="utf-8")
    if folder.is_dir() and any(folder.iterdir()):
        raise FileError(f"{folder} is not empty: name a new folder for the Space.")
    _write(files, folder)
    return script


def write_cards(folder: Path) -> None:
    """Write card, page and requirements of every metric with a card into a folder of its name, over existing files."""
    for metric in metrics_with_card():
        _write(card_files(metric), folder / metric)


def _write(files: dict[str, str], folder: Path) -> None:
    for name, text in files.items():
        write_file(folder / name, text.encode())


def read_token(file: Path | None) -> str:
    """Read the token for writing to the Hub from a file; None for ``HF_TOKEN``, or that of ``hf auth login``.

    Raises FileError where there is none. No message shows it.
    """
    if file is None:
        from huggingface_hub import get_token

        token, source = get_token() or "", "the environment"
        if not token:
            ways = "set HF_TOKEN, run 'hf auth login', or give --token-file FILE"
            raise FileError(f"no token to write to the Hub: {ways}.")
    else:
        token, source = read_secret(file, "the token file"), str(file)
    if not TOKEN.fullmatch(token):
        raise FileError(f"{source} has no token: expected one word of ASCII characters.")
    return token


def push_space(metric: str, space: str, *, token: str, private: bool = False) -> str:
    """Build a metric's Space and upload it to ORG/NAME; an existing Space gets a new commit. Return its address.

    Raises SpecError for a metric without a card or a name that ``evaluate.load`` cannot load, and FileError if the Hub
    cannot be reached or refuses, or `private` is wanted and the Space is public.
    """
    match = SPACE.fullmatch(space)
    if match is None:
        expected = "expected ORG/NAME, NAME of letters, digits and '_' only (it names a module)"
        raise SpecError(f"{space!r} cannot be the name of a metric's Space: {expected}.")
    from huggingface_hub import HfApi
    from huggingface_hub.errors import HfHubHTTPError

    api = HfApi(token=token)
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch, match[1])
        build_space(metric, folder, module=folder.name)
        repo: dict[str, Any] = {"repo_id": space, "repo_type": "space"}
        try:
            address = api.create_repo(**repo, space_sdk="gradio", private=private or None, exist_ok=True)
            if private and not api.space_info(space).private:
                raise FileError(  # noqa: TRY301 (nothing may be uploaded)
                    f"{space} exists and is public: make it private on the Hub, or push without --private."
                )
            api.upload_folder(**repo, folder_path=folder, commit_message=f"Write the metric {folder.name}")
        except HfHubHTTPError as error:
            status = error.response.status_code
            raise FileError(f"the Hub refuses to write {space} (HTTP {status}): {_advice(status)}") from error
        except FileError:
            raise
        except Exception as error:  # requests or httpx, by the version of the Hub's client, each with errors of its own
            reason = f"the upload to {space} failed ({type(error).__name__})"
            raise FileError(f"{reason}: is there a network, and HF_HUB_OFFLINE unset?") from error
    return str(address)


def _advice(status: int) -> str:
    if status in {401, 403}:
        return "the token must be valid and may write there; make a token at huggingface.co/settings/tokens."
    return "try again later." if status >= 500 else "see whether the owner and the name are right."
