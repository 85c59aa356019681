"""`evaluate.Metric`s, `twmd setup evaluate`, and scripts that do not import this package."""

from __future__ import annotations

import copy
import os
import pickle
import subprocess
import sys
import textwrap
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import evaluate
import pytest
from evaluate import load as load_before_us

import twmd_registry
from tests.conftest import Run, Texts
from twmd_registry.engine.result import Counts
from twmd_registry.errors import InputError, SpecError
from twmd_registry.plugins import evaluate_hook as hook
from twmd_registry.plugins.evaluate_hook import METRICS, metrics_folder, module_name
from twmd_registry.registry.metrics import CATALOGUE
from twmd_registry.registry.names import MetricName

ROOT = Path(__file__).resolve().parents[2]
COUNTS = {*Counts._fields} - {"letters", "sentences"} | {"letters_Latin"}
P, R = ["the cat sat on the mat", "it rains"], ["a cat was sitting on the mat", "it is raining"]


def test_every_metric_of_the_catalogue_has_a_module() -> None:
    assert set(METRICS) == set(CATALOGUE) - {MetricName.SBERT}
    assert {path.parent.name for path in (ROOT / "metrics").glob("*/*.py")} == set(METRICS)


@pytest.mark.parametrize("name", METRICS)
def test_every_metric_returns_the_engines_scores_under_its_name(name: str, texts: Texts) -> None:
    metric = evaluate.load(name)
    assert (metric.name, type(metric).__module__) == (name, f"twmd_registry.metrics.{name}.{name}")
    some = texts.predictions[:4], texts.references[:4]
    result = metric.compute(predictions=some[0], references=some[1])
    engine = twmd_registry.load(name).score(*some)
    assert result == engine.as_dict()
    two_sided = {"precision", "recall", "f1"} if CATALOGUE[MetricName(name)].two_sided else set()
    assert set(result) == {name, "scores", "signature", *COUNTS} | two_sided
    assert all(type(result[key]) is float for key in {name} | two_sided)
    assert metric.info.citation.startswith("@")
    assert "evaluate.load" in metric.inputs_description


def test_rows_are_added_singly_in_batches_or_all_together() -> None:
    whole = evaluate.load("twmd").compute(predictions=P, references=R)
    piecewise = evaluate.load("twmd")
    piecewise.add(prediction=P[0], reference=R[0])
    piecewise.add_batch(predictions=P[1:], references=[[R[1]]])
    assert piecewise.compute() == whole
    assert piecewise.compute(predictions=P, references=R) == whole
    piecewise.add(predictions=P[0], references=R[:1])
    combined = evaluate.combine([evaluate.load("twmd"), evaluate.load("trwmd")])
    combined.add(prediction=P[0], reference=R[0])
    assert piecewise.compute()["scores"] == [combined.compute()["twmd"]] == whole["scores"][:1]


def test_preset_is_the_configuration_and_keys_go_to_load_or_compute() -> None:
    loaded = evaluate.load("trwmd", "embedded", temperature=0.5, output="recall", device="cpu")
    result = loaded.compute(predictions=P, references=R)
    assert "|temperature:0.5|" in result["signature"]
    assert result["trwmd"] == result["recall"]
    for_this_call = evaluate.load("trwmd", "embedded").compute(
        predictions=P, references=R, temperature=0.5, output="recall"
    )
    assert for_this_call == result
    assert loaded.compute(predictions=P, references=R, temperature=0.1)["signature"] != result["signature"]
    assert loaded.compute(predictions=P, references=R) == result
    by_name = evaluate.load("trwmd", preset="embedded", temperature=0.5, output="recall")
    assert by_name.compute(predictions=P, references=R) == result


@pytest.mark.parametrize(
    ("given", "keys", "words"),
    [
        (["twmd"], {"temprature": 1}, "unknown key 'temprature'; did you mean 'temperature'"),
        (["twmd", "embedded"], {"preset": "roberta-base"}, "two presets, "),
        (["twmd"], {"revision": "main"}, "model='org/name@revision'"),
    ],
)
def test_wrong_settings_are_refused_when_a_metric_is_loaded(given: list[str], keys: dict[str, Any], words: str) -> None:
    with pytest.raises(SpecError, match=words):
        evaluate.load(*given, **keys)


@pytest.mark.parametrize(
    ("keys", "words"),
    [({"tau": 1}, "unknown key 'tau'"), ({"preset": "embedded"}, "preset is not a key: .*evaluate.load")],
)
def test_wrong_key_in_compute_is_refused_and_leaves_the_metric_usable(keys: dict[str, Any], words: str) -> None:
    metric = evaluate.load("twmd")
    with pytest.raises(SpecError, match=words):
        metric.compute(predictions=P, references=R, **keys)
    assert metric.compute(predictions=P, references=R)["scores"]


def test_combine_accepts_two_copies_and_third_party_metrics() -> None:
    cold, hot = evaluate.load("twmd", temperature=0.02), evaluate.load("twmd", temperature=0.5)
    both = evaluate.combine([cold, hot, "bertscore_centered"]).compute(predictions=P, references=R)
    assert both["twmd_0_twmd"] == cold.compute(predictions=P, references=R)["twmd"]
    assert both["twmd_1_twmd"] == hot.compute(predictions=P, references=R)["twmd"]
    assert both["twmd_0_twmd"] != both["twmd_1_twmd"]
    assert "bertscore_centered" in both


@pytest.mark.parametrize("clone", [copy.copy, copy.deepcopy, lambda metric: pickle.loads(pickle.dumps(metric))])
def test_copy_scores_the_same_with_its_own_rows(clone: Callable[[Any], Any]) -> None:
    metric = evaluate.load("twmd", temperature=0.3, keep_in_memory=True)
    whole = metric.compute(predictions=P, references=R)
    metric.add(prediction=P[0], reference=R[0])
    copied = clone(metric)
    copied.add_batch(predictions=P[1:], references=R[1:])
    assert (len(metric), len(copied)) == (1, 2)
    assert copied.compute() == whole
    assert metric.compute()["scores"] == whole["scores"][:1]
    assert clone(type(metric)) is type(metric)


def test_threads_sharing_a_metric_score_their_own_rows() -> None:
    metric = evaluate.load("twmd")
    texts = [[f"{P[0]} {number}"] * (number + 1) for number in range(4)]
    expected = [twmd_registry.score(one, [R[0]] * len(one)).score for one in texts]
    with ThreadPoolExecutor(6) as pool:
        found = pool.map(lambda one: metric.compute(predictions=one, references=[R[0]] * len(one)), texts * 3)
        assert [one["twmd"] for one in found] == pytest.approx(expected * 3, abs=1e-6)
        list(pool.map(lambda one: metric.add_batch(predictions=one, references=[R[0]] * len(one)), texts * 3))
    assert metric.compute()["segments"] == 3 * sum(map(len, texts))


def test_rows_of_several_processes_are_in_files_and_are_not_copied(tmp_path: Path) -> None:
    several: dict[str, Any] = {"num_process": 2, "cache_dir": str(tmp_path)}
    with pytest.raises(ValueError, match="keep_in_memory"):
        evaluate.load("twmd", keep_in_memory=True, **several)
    metric = evaluate.load("twmd", **several)
    assert pickle.loads(pickle.dumps(metric)).num_process == 2
    metric.writer = [1]  # as with rows, without the other process, for which it would wait
    with pytest.raises(SpecError, match="locked file"):
        pickle.dumps(metric)


@pytest.mark.parametrize(
    ("predictions", "references", "words"),
    [
        (P, R[:1], "2 predictions but 1 references"),
        (P, None, "no references: pass them, or pass sources"),
        (None, None, "nothing to score"),
    ],
)
def test_bad_rows_raise_one_clear_error(predictions: Any, references: Any, words: str) -> None:
    with pytest.raises(InputError, match=words):
        evaluate.load("twmd").compute(predictions=predictions, references=references)


def test_later_batch_counts_its_rows_from_the_first() -> None:
    metric = evaluate.load("twmd")
    metric.add_batch(predictions=P, references=R)
    with pytest.raises(InputError, match=r"predictions\[3\]"):
        metric.add_batch(predictions=["fine", None], references=R)


def test_metric_is_found_by_path_and_by_an_earlier_imported_load(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "twmd").mkdir()
    (folder / "twmd" / "twmd.py").write_text("raise RuntimeError('not this one')\n", encoding="utf-8")
    for metric in (load_before_us("twmd"), evaluate.load(twmd_registry.path("twmd"))):
        assert type(metric).__module__ == "twmd_registry.metrics.twmd.twmd"
    with pytest.raises(SpecError, match="no evaluate module for 'sbert'"):
        twmd_registry.path("sbert")
    monkeypatch.chdir(ROOT)
    result = evaluate.load("metrics/twmd").compute(predictions=P, references=R)
    assert result == metric.compute(predictions=P, references=R)


def test_other_names_are_loaded_by_evaluate(folder: Path) -> None:
    script = folder / "own" / "own.py"
    script.parent.mkdir()
    script.write_text(
        "import datasets\nimport evaluate\n\n\nclass Own(evaluate.Metric):\n    def _info(self):\n"
        "        text = datasets.Value('string')\n"
        "        features = datasets.Features({'predictions': text, 'references': text})\n"
        "        return evaluate.MetricInfo(description='', citation='', features=features)\n\n"
        "    def _compute(self, predictions, references):\n        return {'own': 7.0}\n",
        encoding="utf-8",
    )
    assert evaluate.load("./own").compute(predictions=["a"], references=["b"]) == {"own": 7.0}
    assert module_name("bleu") is None
    assert module_name(str(metrics_folder() / "nothing")) is None


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Let `evaluate`'s modules be temporary; return the metrics' folder."""
    monkeypatch.setenv("HF_MODULES_CACHE", str(tmp_path / "modules"))
    return tmp_path / "modules" / "evaluate_modules" / "metrics"


def run_python(code: str, folder: Path, **variables: str) -> str:
    """Run code in a process that may go online; return its output."""
    environment = os.environ | {"HF_HUB_OFFLINE": "", "PYTHONPATH": str(ROOT)} | variables
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        capture_output=True,
        text=True,
        check=False,
        cwd=folder,
        env=environment,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_installed_metric_loads_offline_without_our_import(cache: Path, tmp_path: Path) -> None:
    hook.install()
    code = """
        import sys, time
        import evaluate, socket
        assert "twmd_registry" not in sys.modules
        def refuse(*args, **settings):
            raise socket.gaierror("no network")
        socket.getaddrinfo = refuse
        start = time.perf_counter()
        metric = evaluate.load("twmd", temperature=0.3)
        seconds = time.perf_counter() - start
        print(seconds, type(metric).__module__, metric.compute(predictions=["a cat"], references=["a cat"])["twmd"])
    """
    seconds, module, score = run_python(code, tmp_path, HF_EVALUATE_CACHE=str(tmp_path / "downloads")).split()
    (installed,) = cache.glob("evaluate-metric--twmd/*/twmd.py")
    assert module == f"evaluate_modules.metrics.evaluate-metric--twmd.{installed.parent.name}.twmd"
    assert float(score) == pytest.approx(1, abs=1e-5)
    assert float(seconds) < 30


def test_installing_twice_writes_the_same_files_and_uninstalling_removes_all(cache: Path, run: Run) -> None:
    assert "off (turn it on with 'twmd setup evaluate'" in run("explain")[1]
    for _ in range(2):
        assert f"installed in {cache}\n" in run("setup evaluate")[1]
        assert sorted(file.stem for file in cache.rglob("*") if file.is_file()) == sorted(METRICS)
    assert f"on ({cache})" in run("explain")[1]
    assert run("setup uninstall")[0] == 0
    assert list(cache.iterdir()) == []
    assert "nothing to remove" in run("setup uninstall")[1]


def test_installing_replaces_only_our_older_modules(cache: Path) -> None:
    older, other = (cache / "evaluate-metric--twmd" / (digit * 64) / "twmd.py" for digit in "ab")
    for file, text in ((older, "import twmd_registry"), (other, "import evaluate")):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    hook.install()
    assert (older.parent.exists(), other.exists()) == (False, True)
    assert hook.is_installed()
    assert hook.uninstall()
    assert [file for file in cache.rglob("*") if file.is_file()] == [other]


def test_hook_that_fails_does_not_break_evaluate(tmp_path: Path) -> None:
    """Replace `evaluate` by a small package, because only its import matters."""
    package = tmp_path / "stand-in" / "evaluate"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("from evaluate.loading import load\n", encoding="utf-8")
    (package / "loading.py").write_text("def load(path): return path\n", encoding="utf-8")
    code = """
        import twmd_registry.plugins.evaluate_hook as hook
        def fail(module):
            print('tried')
            raise RuntimeError('hook')
        hook.wrap_factory = fail
        import evaluate
        print(evaluate.load.__name__)
    """
    assert run_python(code, tmp_path, PYTHONPATH=f"{package.parent}{os.pathsep}{ROOT}") == "tried\nload\n"


def test_two_ranks_score_like_one(tmp_path: Path) -> None:
    shares = [["a cat sat", "it rains"], ["the dog ran"]]

    def score(rank: int) -> Any:
        metric = evaluate.load(
            "twmd", num_process=2, process_id=rank, experiment_id="two", cache_dir=str(tmp_path), timeout=300
        )
        metric.add_batch(predictions=shares[rank], references=[[f"{text} today"] for text in shares[rank]])
        return metric.compute()

    with ThreadPoolExecutor() as pool:  # the ranks of `evaluate` meet at locked files: threads do as well
        first, second = pool.map(score, (0, 1))
    assert second is None
    texts = [*shares[0], *shares[1]]
    single = twmd_registry.load("twmd").score(texts, [f"{text} today" for text in texts])
    assert first["scores"] == pytest.approx(list(single.scores), abs=1e-5)
