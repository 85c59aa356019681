"""``twmd setup space build`` and ``push``: a Space's folder, and its upload to a fake Hub client."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, TypeAlias
from unittest.mock import MagicMock, create_autospec

import evaluate
import huggingface_hub
import pytest
from huggingface_hub import HfApi, constants

import twmd_registry
from tests.conftest import Run
from twmd_registry.demo.space import build_space, push_space, read_token
from twmd_registry.errors import FileError, SpecError

ROOT = Path(__file__).resolve().parents[2]
P, R = ["the cat sat on the mat", "it rains"], ["a cat was sitting on the mat", "it is raining"]


def test_evaluate_loads_a_space_from_its_folder_offline(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evaluate.config, "HF_EVALUATE_OFFLINE", True)
    for metric in ("twmd", "wordset_cka"):
        build_space(metric, folder / "spaces" / metric)
        loaded = evaluate.load(f"spaces/{metric}")
        # a copy of the folder's, not the installed module
        assert type(loaded).__module__.startswith(f"evaluate_modules.metrics.{metric}.")
        result = loaded.compute(predictions=P, references=R)
        assert result["scores"] == pytest.approx(list(twmd_registry.load(metric).score(P, R).scores), abs=1e-5)
    assert evaluate.load("spaces/twmd/twmd.py", temperature=0.5).scorer.spec.temperature == 0.5


def test_build_needs_no_model_no_network_and_no_token(tmp_path: Path) -> None:
    code = (
        "import socket, sys\n"
        "def refuse(*_): raise AssertionError('network')\n"
        "socket.socket.connect = refuse\n"
        "from twmd_registry.cli import main\n"
        "assert main(['setup', 'space', 'build', '-m', 'twmd', '-o', 'new/space']) == 0\n"
        "assert not {'torch', 'transformers', 'evaluate', 'huggingface_hub'} & set(sys.modules)\n"
    )
    environment = {name: value for name, value in os.environ.items() if name != "HF_TOKEN"} | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"built {Path('new/space')}; load it with evaluate.load({str(Path('new/space/twmd.py'))!r})\n"
    names = {file.name for file in (tmp_path / "new/space").iterdir()}
    assert names == {"twmd.py", "README.md", "app.py", "requirements.txt"}
    assert (tmp_path / "new/space/twmd.py").read_bytes() == (ROOT / "metrics/twmd/twmd.py").read_bytes()


def test_folder_with_files_is_refused_and_unchanged(tmp_path: Path, run: Run) -> None:
    (tmp_path / "mine").write_text("mine", encoding="utf-8")
    error = f"twmd: {tmp_path} is not empty: name a new folder for the Space.\n"
    assert run(f"setup space build -m twmd -o {tmp_path}") == (1, "", error)
    assert [file.name for file in tmp_path.iterdir()] == ["mine"]
    with pytest.raises(FileError, match=r"cannot write .*mine/README.md: File exists\."):
        build_space("twmd", tmp_path / "mine")
    with pytest.raises(FileError, match=r"cannot write .*space/README.md: Not a directory\."):
        build_space("twmd", tmp_path / "mine" / "space")
    assert (tmp_path / "mine").read_text(encoding="utf-8") == "mine"
    (tmp_path / "empty").mkdir()
    assert build_space("twmd", tmp_path / "empty") == tmp_path / "empty" / "twmd.py"


TOKEN = "hf_a-token-of-the-tests"
ADDRESS = "https://huggingface.co/spaces/"


class RefusedError(Exception):
    """An answer of the Hub that repeats the token."""

    response = SimpleNamespace(status_code=403)


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> MagicMock:
    """Return a client whose Space exists and is private; `files` has the uploaded files, `made` creates the client."""
    api: MagicMock = create_autospec(HfApi, instance=True)
    api.create_repo.side_effect = lambda **asked: f"{ADDRESS}{asked['repo_id']}"
    api.space_info.return_value.private = True
    api.files = {}

    def upload(**given: Any) -> None:
        api.files |= {path.name: path.read_text(encoding="utf-8") for path in given["folder_path"].iterdir()}

    api.upload_folder.side_effect = upload
    api.made = create_autospec(HfApi, return_value=api)
    monkeypatch.setattr(huggingface_hub, "HfApi", api.made)
    return api


Push: TypeAlias = Callable[..., tuple[int, str, str]]


@pytest.fixture
def push(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: Run) -> Push:
    """Push with a token; returns status, output and errors, which must not contain the token."""
    monkeypatch.delenv("HUGGING_FACE_HUB_TOKEN", raising=False)
    monkeypatch.setattr(constants, "HF_TOKEN_PATH", str(tmp_path / "no token"))

    def call(metric: str, space: str, *arguments: str, token: str = TOKEN) -> Any:
        monkeypatch.setenv("HF_TOKEN", token)
        status, out, err = run("setup space push", space, "-m", metric, *arguments)
        assert TOKEN not in out + err
        return status, out, err

    return call


def error_of(pushed: tuple[int, str, str]) -> str:
    status, out, error = pushed
    assert (status, out) == (1, "")
    assert re.fullmatch(r"twmd: .+\n", error)
    return error


def test_push_creates_the_space_and_uploads_the_files_of_build(hub: MagicMock, push: Push, tmp_path: Path) -> None:
    status, out, error = push("twmd", "my-org/twmd", "--private")
    assert status == 0, error
    assert out == f"pushed {ADDRESS}my-org/twmd; load it with evaluate.load('my-org/twmd')\n"
    asked = {"repo_id": "my-org/twmd", "repo_type": "space", "space_sdk": "gradio", "private": True, "exist_ok": True}
    hub.create_repo.assert_called_once_with(**asked)
    build_space("twmd", tmp_path / "built")
    assert hub.files == {file.name: file.read_text(encoding="utf-8") for file in (tmp_path / "built").iterdir()}
    hub.made.assert_called_once_with(token=TOKEN)


def test_push_takes_a_token_file_and_another_name(hub: MagicMock, push: Push, tmp_path: Path) -> None:
    (tmp_path / "token").write_text(f"{TOKEN}\n", encoding="utf-8")
    status, _, error = push("moverscore", "org/mover_2", "--token-file", str(tmp_path / "token"), token="")
    assert status == 0, error
    assert {"mover_2.py", "README.md", "app.py", "requirements.txt"} == set(hub.files)
    assert hub.create_repo.call_args.kwargs["private"] is None  # an existing Space stays as it is
    hub.made.assert_called_once_with(token=TOKEN)


def test_refused_push_is_one_line_without_the_token_and_uploads_nothing(hub: MagicMock, push: Push) -> None:
    assert "no token for the Hub" in error_of(push("twmd", "org/twmd", token=""))
    hub.create_repo.assert_not_called()
    hub.space_info.return_value.private = False
    assert "org/twmd exists and is public" in error_of(push("twmd", "org/twmd", "--private"))
    hub.create_repo.side_effect = RefusedError(f"no {TOKEN}")
    assert "cannot write org/twmd (403): check the network, the token" in error_of(push("twmd", "org/twmd"))
    hub.upload_folder.assert_not_called()


@pytest.mark.parametrize("offline", [False, True])
def test_missing_network_and_offline_mode_are_one_line(
    offline: bool, push: Push, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(constants, "ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", offline)
    assert re.search(r"cannot write org/twmd \(\w+\): check the network", error_of(push("twmd", "org/twmd")))


@pytest.mark.parametrize("content", [b" \n", b"two words", "tökén".encode(), b"\xff"])
def test_file_without_a_token_is_refused_and_not_shown(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "token"
    file.write_bytes(content)
    with pytest.raises(FileError, match="token") as refused:
        read_token(file)
    shown = content.decode(errors="ignore").strip()
    assert not shown or shown not in str(refused.value)


@pytest.mark.parametrize("space", ["twmd", "org/tw-md", "org/2twmd"])
def test_name_that_evaluate_cannot_load_is_refused(space: str) -> None:
    with pytest.raises(SpecError, match="expected ORG/NAME"):
        push_space("twmd", space, token=TOKEN)
