"""A metric's Space: its card with facts from the registry, the folder for ``evaluate.load``, and the upload."""

from __future__ import annotations

import re
import tempfile
import tomllib
from collections.abc import Sequence
from importlib import resources
from pathlib import Path
from typing import Any

from twmd_registry.errors import FileError, SpecError, requirement
from twmd_registry.messages import menu
from twmd_registry.plugins.evaluate_hook import path
from twmd_registry.registry.metrics import CATALOGUE
from twmd_registry.registry.names import EMBEDDED_READS, MetricName
from twmd_registry.registry.paths import read_secret, write_file
from twmd_registry.registry.presets import PACKAGED, default_preset, presets_of
from twmd_registry.registry.signature import describe_preset
from twmd_registry.template import render
from twmd_registry.version import __version__

SDK_VERSION = "6.31.0"
"""Gradio's version in a Space."""
DATA = {"wmt17": "WMT17 into English", "stsb-test": "STS-B, test set"}
"""Titles of the data sets in ``data/agreement.tsv``."""
CORRELATIONS = {"pearson": "Pearson r", "spearman": "Spearman rho", "kendall": "Kendall tau-b"}
"""Titles of the correlations there."""
LANGUAGES = "https://huggingface.co/intfloat/multilingual-e5-small#supported-languages"
"""List of the multilingual model's languages."""
_PACKAGE = resources.files("twmd_registry")


def metrics_with_card() -> tuple[MetricName, ...]:
    """Return the metrics that have a card, in the registry's order."""
    cards = _PACKAGE.joinpath("data/cards")
    return tuple(metric for metric in MetricName if cards.joinpath(f"{metric}.toml").is_file())


def card_text(metric: str) -> dict[str, Any]:
    """Read the hand-written part of a metric's card, ``data/cards/METRIC.toml``; raise SpecError without a card.

    `example` has the texts that every card scores. `scores` has the default preset's scores, to three digits, of the
    examples, of `unrelated` texts and of unrelated `words`. `papers` has published correlations times 100, `presets` a
    line about every preset, which replaces the shared one.
    """
    if metric not in metrics_with_card():
        raise SpecError(f"no card for {metric!r}; {menu(metric, metrics_with_card())}.")
    card, shared = (
        tomllib.loads(_PACKAGE.joinpath(f"data/cards/{name}.toml").read_text(encoding="utf-8"))
        for name in (metric, "shared")
    )
    joined = {"limitations": card["limitations"] + shared["limitations"]}
    return card | shared | joined | {"presets": shared["presets"] | card.get("presets", {})}


def write_card(metric: str) -> str:
    """Write a metric's card in Markdown. Its Python examples are doctests that build on each other."""
    text, name = card_text(metric), MetricName(metric)
    facts, default = CATALOGUE[name], default_preset(name, None)
    card = render(
        "metric_card.md",
        "demo",
        metric=metric,
        facts=facts,
        text=text,
        default=default,
        presets=[
            {
                "name": preset.name,
                "model": (preset.model or "any").rpartition("/")[2],
                "reads": _reads(preset.languages),
                "about": f"{'default, ' if preset == default else ''}{text['presets'][preset.name]}",
            }
            for preset in presets_of(name).values()
            if preset.source == PACKAGED
        ],
        signature=describe_preset(default, nrefs=1),
        values=_values(name, text["papers"]),
        languages=max(len(preset.languages) for preset in presets_of(name).values()),
        languages_link=LANGUAGES,
        sdk_version=SDK_VERSION,
        embedded_reads=EMBEDDED_READS,
    )
    return f"{card}\n"


def _reads(languages: Sequence[str]) -> str:
    if len(languages) > 1:
        return f"[{len(languages)} languages]"
    return "English" if languages else ""


def measured_correlations() -> list[tuple[str, ...]]:
    """Read ``data/agreement.tsv``: data set, metric, correlation, group, value times 100 and half its interval."""
    _, _, *lines = _PACKAGE.joinpath("data/agreement.tsv").read_text(encoding="utf-8").splitlines()
    return [tuple(line.split("\t")) for line in lines]


def _values(metric: MetricName, papers: list[dict[str, str]]) -> list[list[str]]:
    """Return the table of our and published correlations, with its two header rows."""
    measured: dict[str, dict[str, str]] = {}
    for data, name, correlation, group, value, half_width in measured_correlations():
        if name == metric and group == "mean":
            measured.setdefault(data, {})[correlation] = f"**{value} ±{half_width}**"
    ours = [(about, "**default preset**", measured[data]) for data, about in DATA.items() if data in measured]
    entries = [*ours, *((DATA[row["data"]], row["source"], row) for row in papers)]
    used = [name for name in CORRELATIONS if any(name in values for *_, values in entries)]
    head = ["data", "whose", *(CORRELATIONS[name] for name in used)]
    rows = [[data, source, *(values.get(name, "-") for name in used)] for data, source, values in entries]
    return [head, ["---"] * len(head), *rows]


APP = '''\
"""The page of the Space."""

from twmd_registry.demo.page import build_page

build_page("{metric}").launch()
'''
SPACE = re.compile(r"[A-Za-z0-9][\w.-]*/([A-Za-z]\w*)", re.ASCII)
"""ORG/NAME without a hyphen in NAME, which becomes a Python module."""
TOKEN = re.compile(r"[!-~]+")
"""Characters of an HTTP header. For others the HTTP library's error would show the token."""


def requirements() -> str:
    """Return a Space's requirements: this package from the address it came from, or the release of this version."""
    line = requirement("demo")
    if " @ " not in line:
        line = (
            f"# Needs release {__version__} on PyPI. Before that, name a repository: {line} @ git+ADDRESS\n"
            f"{line}=={__version__}"
        )
    return f"{line}\n"


def card_files(metric: str) -> dict[str, str]:
    """Return a Space's card, page and requirements by file name; raise SpecError without a card."""
    app = APP.format(metric=metric)
    return {"README.md": write_card(metric), "app.py": app, "requirements.txt": requirements()}


def build_space(metric: str, folder: Path, *, module: str | None = None) -> Path:
    """Build a metric's Space in a new or empty folder; return its `evaluate` module, named like the Space."""
    files = card_files(metric)
    script = folder / f"{module or metric}.py"
    files[script.name] = Path(path(metric), f"{metric}.py").read_text(encoding="utf-8")
    if folder.is_dir() and any(folder.iterdir()):
        raise FileError(f"{folder} is not empty: name a new folder for the Space.")
    _write(files, folder)
    return script


def write_cards(folder: Path) -> None:
    """Write every metric's card, page and requirements to a folder of its name; overwrite existing files."""
    for metric in metrics_with_card():
        _write(card_files(metric), folder / metric)


def _write(files: dict[str, str], folder: Path) -> None:
    for name, text in files.items():
        write_file(folder / name, text.encode())


def read_token(file: Path | None) -> str:
    """Read the Hub token from a file; without one, use ``HF_TOKEN`` or the token of ``hf auth login``."""
    if file is None:
        from huggingface_hub import get_token

        token, source = get_token() or "", "the environment"
        if not token:
            ways = "set HF_TOKEN, run 'hf auth login', or add --token-file FILE"
            raise FileError(f"no token for the Hub: {ways}.")
    else:
        token, source = read_secret(file, "the token file"), str(file)
    if not TOKEN.fullmatch(token):
        raise FileError(f"{source} has no token: expected a single word of ASCII characters.")
    return token


def push_space(metric: str, space: str, *, token: str, private: bool = False) -> str:
    """Build a metric's Space, upload it to ORG/NAME (as a new commit if that exists), and return its URL."""
    match = SPACE.fullmatch(space)
    if match is None:
        expected = "expected ORG/NAME with only letters, digits and '_' in NAME, which names a module"
        raise SpecError(f"{space!r} cannot be the name of a metric's Space: {expected}.")
    from huggingface_hub import HfApi

    api = HfApi(token=token)
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch, match[1])
        build_space(metric, folder, module=folder.name)
        repo: dict[str, Any] = {"repo_id": space, "repo_type": "space"}
        try:
            address = api.create_repo(**repo, space_sdk="gradio", private=private or None, exist_ok=True)
            refused = private and not api.space_info(space).private
            if not refused:
                api.upload_folder(**repo, folder_path=folder, commit_message=f"Write the metric {folder.name}")
        except Exception as error:  # the Hub's client uses requests or httpx, which have different errors
            reason = getattr(getattr(error, "response", None), "status_code", None) or type(error).__name__
            hint = "check the network, the token's permissions and the name"
            raise FileError(f"cannot write {space} ({reason}): {hint}.") from error
    if refused:
        raise FileError(f"{space} exists and is public: make it private on the Hub, or push without --private.")
    return str(address)
