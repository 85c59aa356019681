"""``twmd install``: one line that every Python of this environment runs at start, so that scripts that have never
heard of this package can say ``evaluate.load("twmd")``.

The line puts one small finder in place, which waits for `evaluate.loading` and only then imports `twmd_registry`
(whose import arms the hook). Until then it costs no import at all. It does nothing when the package is gone, when
its import fails, or when ``TWMD_DISABLE`` is set.
"""

from __future__ import annotations

import os
import sysconfig
from pathlib import Path

from twmd_registry.errors import FileError

NAME = "twmd_registry_startup.pth"
FINDER = """
class WaitForEvaluate:
    def find_spec(self, name, path=None, target=None):
        if name != "evaluate.loading":
            return None
        sys.meta_path.remove(self)
        try:
            import twmd_registry
        except Exception:
            pass
        import importlib.util
        return importlib.util.find_spec(name)

sys.meta_path.insert(0, WaitForEvaluate())
"""
LINE = f"import os, sys; os.environ.get('TWMD_DISABLE') or exec({FINDER!r}, {{'sys': sys}})\n"
"""What the file holds: `site` runs a line that starts with ``import``."""


def startup_file() -> Path:
    """Where the line belongs in this environment."""
    return Path(sysconfig.get_path("purelib")) / NAME


def installed() -> bool:
    """Whether the line is there."""
    return startup_file().is_file()


def install() -> Path:
    """Write the line.

    Returns:
        The file.

    Raises:
        FileError: The environment cannot be written to.
    """
    file = startup_file()
    partial = file.with_suffix(f".{os.getpid()}.part")
    try:
        partial.write_text(LINE, encoding="utf-8")
        partial.replace(file)
    except OSError as error:
        raise FileError(
            f"cannot write {file}: {error.strerror}. Use an environment of your own (python -m venv)."
        ) from error
    return file


def uninstall() -> bool:
    """Remove the line.

    Returns:
        Whether it was there.

    Raises:
        FileError: It cannot be removed, or the file holds something else.
    """
    file = startup_file()
    if not file.is_file():
        return False
    try:
        if file.read_text(encoding="utf-8") != LINE:
            raise FileError(f"{file} was changed by somebody: look at it and remove it by hand.")
        file.unlink()
    except OSError as error:
        if isinstance(error, FileError):
            raise
        raise FileError(f"cannot remove {file}: {error.strerror}.") from error
    return True
