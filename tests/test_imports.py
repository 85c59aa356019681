"""Imports: layers, speed, and no remote code."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "twmd_registry"

LAYERS = (
    {"errors"},
    {"messages", "progress", "version"},
    {"template"},
    {"registry"},
    {"tensors"},
    {"models"},
    {"encode", "align"},
    {"engine"},
    {"files", "comparison"},
    {"record"},
    {"judgments"},
    {"plugins", "metaeval", "scale"},
    {"train"},
    {"report"},
    {"demo", "serve"},
    {"cli"},
)
"""Layers from the bottom up: a top-level package imports from lower layers only, never from its own layer."""

IMPORTS_OUTSIDE_LAYERS = {"metrics": {"plugins"}}
"""Top-level packages outside the layers, and the packages that they may import."""


def sources() -> list[Path]:
    return sorted(PACKAGE.rglob("*.py"))


def top_level_name(path: Path) -> str:
    first = path.relative_to(PACKAGE).parts[0]
    return first.removesuffix(".py")


def imports(path: Path) -> Iterator[str]:
    """Yield the dotted name of every module that a file imports, at any level of nesting."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module


def test_packages_import_from_lower_layers_only() -> None:
    floor = {name: number for number, names in enumerate(LAYERS) for name in names}
    upward = []
    for path in sources():
        here = top_level_name(path)
        below = {name for name in floor if floor[name] < floor.get(here, 0)}
        allowed = IMPORTS_OUTSIDE_LAYERS.get(here, below) | {here}
        imported = [name for name in imports(path) if name.startswith("twmd_registry.") and here != "__init__"]
        upward += [f"{path.relative_to(ROOT)} imports {name}" for name in imported if name.split(".")[1] not in allowed]
    assert upward == []


def test_package_does_not_import_experiments() -> None:
    files = [*sources(), *sorted((ROOT / "metrics").rglob("*.py"))]
    assert [str(path) for path in files for name in imports(path) if name.split(".")[0] == "experiments"] == []


def test_third_party_imports_are_in_their_places() -> None:
    others = [path for path in sources() if top_level_name(path) not in {"plugins", "judgments", "train"}]
    heavy = {(str(path), name) for path in others for name in imports(path) if re.match(r"(evaluate|datasets)\b", name)}
    assert heavy == set()
    outside = {
        name
        for path in sources()
        if top_level_name(path) == "registry"
        for name in imports(path)
        if name.split(".")[0] not in sys.stdlib_module_names | {"twmd_registry"}
    }
    assert outside == set()
    oracles = sorted((ROOT / "tests" / "oracles").glob("*.py"))
    assert oracles
    assert [path.name for path in oracles for name in imports(path) if name.split(".")[0] == "twmd_registry"] == []


def test_no_remote_code_is_run_and_no_pickle_loaded() -> None:
    text = "\n".join(path.read_text(encoding="utf-8") for path in sources())
    assert [word for word in ("trust_remote_code=True", "torch.load(", "pickle.load") if word in text] == []


def test_package_import_is_fast() -> None:
    slow = "{'torch', 'transformers', 'numpy', 'evaluate', 'datasets'} & set(sys.modules)"
    check = f"import sys, twmd_registry; twmd_registry.list_metrics(); assert not {slow}, {slow}"
    completed = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True, check=False, cwd=ROOT)
    assert completed.returncode == 0, completed.stderr


def test_modules_have_no_import_cycles() -> None:
    modules = {".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__") for path in sources()}
    below = {name: set(imported_modules(name, modules)) - {name} for name in modules - {"twmd_registry"}}
    while free := {name for name, needed in below.items() if not needed & below.keys()}:
        below = {name: needed for name, needed in below.items() if name not in free}
    assert below == {}


def imported_modules(name: str, modules: set[str]) -> Iterator[str]:
    """Yield the modules of the package that a module imports, at any level of nesting."""
    path = ROOT.joinpath(*name.split("."))
    tree = ast.parse(
        (path.with_suffix(".py") if path.with_suffix(".py").is_file() else path / "__init__.py").read_text("utf-8")
    )
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                yield from {inner if inner in modules else node.module} & modules
