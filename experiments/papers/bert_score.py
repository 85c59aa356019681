"""The packaged table of bert_score's figures, from an installed bert_score 0.3.13.

The figures are each model's layer, which its authors chose on WMT16;
the default model of each language; and scores of unrelated texts by language, model and layer (precision, recall, F1).
"""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

ABOUT = {
    "source": "bert_score 0.3.13 (Zhang et al. 2020), https://github.com/Tiiiger/bert_score",
    "licence": "MIT, Copyright (c) 2019 Tianyi Zhang, Varsha Kishore, Felix Wu, Kilian Q. Weinberger, and Yoav Artzi",
}


def read_figures() -> dict[str, Any]:
    """Read all figures from the installed package."""
    import bert_score
    from bert_score.utils import lang2model, model2layers

    folder = Path(bert_score.__file__).parent / "rescale_baseline"
    baselines: dict[str, dict[str, list[list[float]]]] = {}
    for path in sorted(folder.rglob("*.tsv")):
        language, _, model = path.relative_to(folder).with_suffix("").as_posix().partition("/")
        with path.open(encoding="utf-8", newline="") as lines:
            _, *rows = csv.reader(lines)
        baselines.setdefault(language, {})[model] = [[float(value) for value in row[1:]] for row in rows]
    return {
        "languages": dict(lang2model),
        "other_languages": lang2model.default_factory(),
        "layers": dict(model2layers),
        "baselines": baselines,
    }


def write_table(figures: dict[str, Any]) -> str:
    """Write figures as JSON, with one line per language and model."""
    text = json.dumps(ABOUT | {name: value for name, value in figures.items() if name != "baselines"}, indent=1)
    languages = [
        f"  {json.dumps(language)}: {{\n"
        + ",\n".join(
            f"   {json.dumps(model)}: {json.dumps(rows, separators=(',', ':'))}" for model, rows in some.items()
        )
        + "\n  }"
        for language, some in figures["baselines"].items()
    ]
    return text.removesuffix("\n}") + ',\n "baselines": {\n' + ",\n".join(languages) + "\n }\n}\n"
