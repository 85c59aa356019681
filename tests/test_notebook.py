"""The notebook's outputs are those of its cells."""

from __future__ import annotations

import json
import re
from typing import Any

from tests.quickstart import NOTEBOOK, execute


def rounded(outputs: list[dict[str, Any]]) -> list[str]:
    """Return outputs as text, with numbers to three digits: the last ones are the machine's."""
    text = [json.dumps({k: v for k, v in one.items() if k != "execution_count"}, sort_keys=True) for one in outputs]
    return [re.sub(r"\d+\.\d{3,}", lambda found: f"{float(found[0]):.3f}", one) for one in text]


def test_notebook_outputs_match_its_cells() -> None:
    notebook = json.loads(NOTEBOOK.read_text(encoding="utf-8"))
    cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    found = execute(notebook)
    assert [rounded(cell["outputs"]) for cell in cells] == [rounded(outputs) for outputs in found]
    pictures = [one for outputs in found for one in outputs if "text/html" in one.get("data", {})]
    assert len(pictures) >= 2
