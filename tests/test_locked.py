"""What ``make`` installs: every package in one version, by hashes of files, and all that pyproject.toml asks for."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
PYTHONS = ("3.11", "3.12", "3.13")


def locked(extra: str) -> list[tuple[Requirement, int]]:
    """Return the requirements of a file, and the number of hashes of each; other lines are comments."""
    text = (ROOT / "locked" / f"{extra}.txt").read_text(encoding="utf-8").replace(" \\\n    --hash", " --hash")
    lines = [line for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")]
    entries = [re.fullmatch(r"([^\\]+?)((?: --hash=sha256:[0-9a-f]{64})+)", line) for line in lines]
    assert all(entries), [line[:100] for line, entry in zip(lines, entries, strict=True) if not entry]
    return [(Requirement(entry[1]), entry[2].count("--hash")) for entry in entries if entry]


def asked(extra: str) -> list[Requirement]:
    """Return what pyproject.toml asks for, with the extras that an extra names."""
    own = [Requirement(line) for line in PROJECT["optional-dependencies"][extra]]
    others = [name for each in own if each.name == PROJECT["name"] for name in sorted(each.extras)]
    return [each for each in own if each.name != PROJECT["name"]] + [each for name in others for each in asked(name)]


@pytest.mark.parametrize("extra", ["embedded", "dev"])
def test_each_package_has_one_version_with_hashes_and_every_requirement_is_among_them(extra: str) -> None:
    entries = locked(extra)
    assert all(hashes for _, hashes in entries)
    wanted = [*map(Requirement, PROJECT["dependencies"]), *asked(extra)]
    for python in PYTHONS:
        here = {"python_version": python, "python_full_version": f"{python}.9"}
        versions: dict[str, str] = {}
        for each, _ in entries:
            if each.marker is None or each.marker.evaluate(here):
                assert each.name not in versions
                (pin,) = each.specifier
                assert pin.operator == "=="
                versions[canonicalize_name(each.name)] = pin.version
        missing = [each for each in wanted if versions.get(canonicalize_name(each.name), "0") not in each.specifier]
        assert [each.name for each in missing] == ["torch"], f"make locked writes them into locked/{extra}.txt"


def test_no_library_of_a_gpu_is_locked_and_the_demo_has_what_is_tested() -> None:
    names = {each.name for extra in ("embedded", "dev") for each, _ in locked(extra)}
    assert not [name for name in names if name.startswith(("cuda", "nvidia", "triton"))]
    demo, tested = ({(each.name, str(each.specifier)) for each, _ in locked(extra)} for extra in ("embedded", "dev"))
    assert demo <= tested
