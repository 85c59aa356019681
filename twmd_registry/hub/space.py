"""A metric's Space: the folder that the Hub shows and that ``evaluate.load`` reads."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from twmd_registry.errors import FileError
from twmd_registry.hub.card import write_card
from twmd_registry.hub.card_text import metrics_with_card
from twmd_registry.plugins.evaluate.hook import path
from twmd_registry.version import __version__

APP = '''\
"""The page of the Space."""

from twmd_registry.demo.page import build_page

build_page("{metric}").launch()
'''
REQUIREMENTS = f"twmd-registry[embedded,demo]=={__version__}\n"


class SpaceFile(NamedTuple):
    """One file of a Space.

    Attributes:
        name: Its name in the Space's folder.
        text: What it holds.
    """

    name: str
    text: str


def card_files(metric: str) -> tuple[SpaceFile, ...]:
    """The files of a Space that are written for it: card, page, requirements.

    Args:
        metric: The metric's name.

    Raises:
        SpecError: It has no card; the message lists those that do.
    """
    card = SpaceFile("README.md", write_card(metric))
    return (card, SpaceFile("app.py", APP.format(metric=metric)), SpaceFile("requirements.txt", REQUIREMENTS))


def build_space(metric: str, folder: Path, *, module: str | None = None) -> Path:
    """Put a metric's Space together: its card, page and requirements, and its `evaluate` module.

    Needs no network, no token and no model.

    Args:
        metric: The metric's name.
        folder: Where to; new or empty.
        module: What the Space will be called, and so its module: ``evaluate.load("ORG/NAME")`` looks for ``NAME.py``.
            The metric's name
            when not given.

    Returns:
        The module's file, which ``evaluate.load`` accepts.

    Raises:
        SpecError: The metric has no card; the message lists those that do.
        FileError: The folder holds something, is a file, or cannot be written to.
    """
    files = card_files(metric)
    source = Path(path(metric), f"{metric}.py").read_text(encoding="utf-8")
    script = SpaceFile(f"{module or metric}.py", source)
    try:
        if folder.is_dir() and any(folder.iterdir()):
            raise FileError(f"{folder} is not empty: name a new folder for the Space.")
        folder.mkdir(parents=True, exist_ok=True)
        _write((*files, script), folder)
    except OSError as error:
        if isinstance(error, FileError):
            raise
        raise FileError(f"cannot write a Space to {folder}: {error.strerror}.") from error
    return folder / script.name


def write_cards(folder: Path) -> None:
    """Write card, page and requirements of every metric that has a card, each into a folder of its name; what is there
    is replaced.

    Args:
        folder: ``hub_cards`` of a checkout.
    """
    for metric in metrics_with_card():
        (folder / metric).mkdir(parents=True, exist_ok=True)
        _write(card_files(metric), folder / metric)


def _write(files: tuple[SpaceFile, ...], folder: Path) -> None:
    for file in files:
        (folder / file.name).write_text(file.text, encoding="utf-8", newline="\n")
