"""Recipes: the commands that made the packaged adapters, read from ``recipes.toml`` here."""

from __future__ import annotations

import shlex
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from twmd_registry.errors import SpecError
from twmd_registry.messages import menu

DATA = "Folder with wmt/, mlqe/, stsb/, stsb-multi/, wmt18-systems.tar.xz and wmt19-systems.tar.xz (default: data)."
PROGRAMS = {"twmd": "twmd_registry.cli", "experiments": "experiments", "pip": "pip"}


class Recipe(NamedTuple):
    """A recipe's output, the recipes that it needs, and its command lines, with names of folders in braces."""

    about: str
    needs: tuple[str, ...]
    steps: tuple[str, ...]


def read_recipes() -> dict[str, Recipe]:
    """Read all recipes by name, in an order that can be run."""
    content = tomllib.loads(Path(__file__).with_name("recipes.toml").read_text(encoding="utf-8"))
    shared = content.pop("shared")
    return {
        name: Recipe(
            recipe["about"],
            tuple(recipe.get("needs", ())),
            tuple(_fill(step, shared) for step in recipe.get("steps", ())),
        )
        for name, recipe in content.items()
    }


def _fill(step: str, shared: dict[str, str]) -> str:
    for name, text in shared.items():
        step = step.replace(f"{{{name}}}", text)
    return " ".join(step.split())


def steps_of(name: str) -> Iterator[str]:
    """Yield the steps of a recipe, its prerequisites' first; raise SpecError for an unknown recipe."""
    recipes = read_recipes()
    if name not in recipes:
        raise SpecError(f"no recipe {name!r}; {menu(name, recipes)}.")
    for needed in recipes[name].needs:
        yield from steps_of(needed)
    yield from recipes[name].steps


def run_recipe(name: str, data: Path, build: Path) -> int:
    """Run the steps of a recipe that are not complete; return the exit status of the first that fails, or 0."""
    for step in dict.fromkeys(steps_of(name)):
        program, *words = shlex.split(step.format(data=data, build=build))
        output = Path(words[words.index("-d" if program == "pip" else "-o") + 1])
        started = (output / "checkpoints").is_dir()
        if output.exists() and not started:
            continue
        print(shlex.join([program, *words]), flush=True)
        output.parent.mkdir(parents=True, exist_ok=True)
        resume = ["--resume"] if started and program == "twmd" else []  # others resume by themselves
        command = [sys.executable, "-m", PROGRAMS[program], *words, *resume]
        status = subprocess.run(command, check=False).returncode
        if status:
            return status
    return 0
