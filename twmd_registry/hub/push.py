"""Uploads a metric's Space to the Hugging Face Hub."""

from __future__ import annotations

import re
import tempfile
from pathlib import Path

from twmd_registry.errors import FileError, SpecError
from twmd_registry.hub.space import build_space

SPACE = re.compile(r"(?P<owner>[A-Za-z0-9][\w.-]*)/(?P<name>[A-Za-z]\w*)", re.ASCII)
"""ORG/NAME; NAME becomes a Python module, so no hyphen."""
_TOKEN = re.compile(r"[!-~]+")
"""What can stand in a header: anything else would be shown by the error of the HTTP library."""


def read_token(file: Path | None) -> str:
    """Find the token to write to the Hub with.

    Args:
        file: A file that holds nothing but the token; None for the environment's (``HF_TOKEN``) or that of ``hf auth
            login``.

    Returns:
        The token. It stands in no message of this package.

    Raises:
        FileError: There is none, the file cannot be read, or what was found cannot be a token.
    """
    if file is None:
        from huggingface_hub import get_token

        token, where = get_token() or "", "the environment"
        if not token:
            raise FileError(
                "no token to write to the Hub with: set HF_TOKEN, run 'hf auth login', or give --token-file FILE."
            )
    else:
        try:
            token, where = file.read_text(encoding="utf-8").strip(), str(file)
        except (OSError, UnicodeDecodeError) as error:
            raise FileError(
                f"cannot read the token file {file}: {getattr(error, 'strerror', None) or 'not UTF-8'}."
            ) from error
    if not _TOKEN.fullmatch(token):
        raise FileError(f"{where} holds no token: expected one word of ASCII characters.")
    return token


def push_space(metric: str, space: str, *, token: str, private: bool = False) -> str:
    """Build a metric's Space and upload it; one that exists gets a new commit.

    Args:
        metric: The metric's name.
        space: The Space, ORG/NAME.
        token: A token that may write there.
        private: Create it so that only its owner sees it.

    Returns:
        Its address.

    Raises:
        SpecError: The metric has no card, or `space` is no name that ``evaluate.load`` can load.
        FileError: The Hub cannot be reached or refuses, or `private` is wanted and the Space is public already.
    """
    found = SPACE.fullmatch(space)
    if found is None:
        raise SpecError(
            f"{space!r} is no name for a metric's Space: expected ORG/NAME, NAME of letters, digits and '_' "
            "only (it names a module)."
        )
    from huggingface_hub.errors import HfHubHTTPError

    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch, found["name"])
        build_space(metric, folder, module=found["name"])
        try:
            return _upload(folder, space, token=token, private=private)
        except HfHubHTTPError as error:
            raise FileError(
                f"the Hub refuses to write {space} (HTTP {error.response.status_code}): "
                f"{_advice(error.response.status_code)}"
            ) from error
        except FileError:
            raise
        except Exception as error:  # requests or httpx, by the version of the Hub's client, each with errors of its own
            raise FileError(
                f"the upload to {space} failed ({type(error).__name__}): is there a network, and HF_HUB_OFFLINE unset?"
            ) from error


def _upload(folder: Path, space: str, *, token: str, private: bool) -> str:
    from huggingface_hub import HfApi

    api = HfApi(token=token)
    address = api.create_repo(space, repo_type="space", space_sdk="gradio", private=private or None, exist_ok=True)
    if private and not api.space_info(space).private:
        raise FileError(
            f"{space} is there already and public: make it private on the Hub first, or push without --private."
        )
    api.upload_folder(
        repo_id=space, repo_type="space", folder_path=folder, commit_message=f"Write the metric {folder.name}"
    )
    return str(address)


def _advice(status: int) -> str:
    if status in {401, 403}:
        return "the token must be valid and may write there; make one at huggingface.co/settings/tokens."
    return "try again later." if status >= 500 else "see whether the owner and the name are right."
