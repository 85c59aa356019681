"""What a command gets: the values of its parameters, by name."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TypeAlias

Arguments: TypeAlias = SimpleNamespace
