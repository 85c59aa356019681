"""Execute the documentation's notebook without Jupyter.

``python -m tests.quickstart`` writes its outputs again.
"""

from __future__ import annotations

import ast
import io
import json
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

NOTEBOOK = Path(__file__).resolve().parents[1] / "docs" / "quickstart.ipynb"


def execute(notebook: dict[str, Any]) -> list[list[dict[str, Any]]]:
    """Return the outputs of every code cell: what it prints, and the value of its last expression, as HTML where it has
    that form.
    """
    names: dict[str, Any] = {"__name__": "__main__"}
    outputs = []
    for cell in notebook["cells"]:
        if cell["cell_type"] != "code":
            continue
        body = ast.parse("".join(cell["source"])).body
        last = body[-1].value if isinstance(body[-1], ast.Expr) else None
        body = body if last is None else body[:-1]
        with redirect_stdout(io.StringIO()) as printed:
            exec(compile(ast.Module(body, []), "cell", "exec"), names)
            value = eval(compile(ast.Expression(last), "cell", "eval"), names) if last else None
        shown: list[dict[str, Any]] = []
        if text := printed.getvalue():
            shown.append({"output_type": "stream", "name": "stdout", "text": text.splitlines(keepends=True)})
        if value is not None:
            data = {"text/plain": repr(value).splitlines(keepends=True)}
            if hasattr(value, "_repr_html_"):
                data["text/html"] = value._repr_html_().splitlines(keepends=True)
            shown.append({"output_type": "execute_result", "data": data, "metadata": {}, "execution_count": None})
        outputs.append(shown)
    return outputs


def main() -> None:
    """Write the outputs of the notebook again."""
    notebook = json.loads(NOTEBOOK.read_text(encoding="utf-8"))
    cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    for number, (cell, outputs) in enumerate(zip(cells, execute(notebook), strict=True), 1):
        shown = [{**one, "execution_count": number} if "execution_count" in one else one for one in outputs]
        cell |= {"outputs": shown, "execution_count": number}
    NOTEBOOK.write_text(json.dumps(notebook, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
