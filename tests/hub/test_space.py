"""``twmd hub build``: a Space's folder."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import twmd_registry
from tests.conftest import Run
from twmd_registry.errors import FileError
from twmd_registry.hub.space import build_space

ROOT = Path(__file__).resolve().parents[2]
P, R = ["the cat sat on the mat", "it rains"], ["a cat was sitting on the mat", "it is raining"]
LOAD_ALL = """
import json, sys
import evaluate
for name in sys.argv[3:]:
    metric = evaluate.load(f"spaces/{name}")
    predictions, references = json.loads(sys.argv[1]), json.loads(sys.argv[2])
    result = metric.compute(predictions=predictions, references=references)
    print(json.dumps([metric.name, type(metric).__module__, result]))
by_file = evaluate.load("spaces/twmd/twmd.py", temperature=0.5)
assert by_file.scorer.spec.temperature == 0.5
"""


def test_evaluate_loads_a_space_from_its_folder_offline(tmp_path: Path) -> None:
    metrics = ("twmd", "wordset_cka")
    for metric in metrics:
        build_space(metric, tmp_path / "spaces" / metric)
    offline = {"HF_MODULES_CACHE": str(tmp_path / "modules"), "HF_EVALUATE_OFFLINE": "1", "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", LOAD_ALL, json.dumps(P), json.dumps(R), *metrics]
    done = subprocess.run(command, env=os.environ | offline, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    loaded = [json.loads(line) for line in done.stdout.splitlines()]
    assert [name for name, _, _ in loaded] == list(metrics)
    for name, module, result in loaded:
        # a copy of the folder's, not the installed module
        assert module.startswith(f"evaluate_modules.metrics.{name}.")
        assert result["scores"] == pytest.approx(list(twmd_registry.scorer(name).score(P, R).scores), abs=1e-5)


def test_build_needs_no_model_no_network_and_no_token(tmp_path: Path) -> None:
    code = (
        "import socket, sys\n"
        "def refuse(*_): raise AssertionError('network')\n"
        "socket.socket.connect = refuse\n"
        "from twmd_registry.cli import main\n"
        "assert main(['hub', 'build', 'twmd', '-o', 'new/space']) == 0\n"
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
    assert run(f"hub build twmd -o {tmp_path}") == (1, "", error)
    assert [file.name for file in tmp_path.iterdir()] == ["mine"]
    with pytest.raises(FileError, match=r"cannot write .*mine/README.md: File exists\."):
        build_space("twmd", tmp_path / "mine")
    with pytest.raises(FileError, match=r"cannot write .*space/README.md: Not a directory\."):
        build_space("twmd", tmp_path / "mine" / "space")
    assert (tmp_path / "mine").read_text(encoding="utf-8") == "mine"
    (tmp_path / "empty").mkdir()
    assert build_space("twmd", tmp_path / "empty") == tmp_path / "empty" / "twmd.py"
