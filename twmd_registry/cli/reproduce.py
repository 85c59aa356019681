"""``twmd reproduce``."""

from __future__ import annotations

from twmd_registry.cli.declare import FOLDER, INPUT_FOLDER, Arguments, argument, command, option, run_options
from twmd_registry.registry.names import EMBEDDED_MODEL


@command("reproduce", example="twmd reproduce twmd-table2 --data-dir data/ -o out/")
@argument("table", metavar="TABLE")
@option("--data-dir", type=INPUT_FOLDER, required=True, metavar="DIR", help="Holds wmt/wmt17.jsonl, sts/STS12 and so on, as the table needs.")
@option("--model", default=EMBEDDED_MODEL, metavar="MODEL", help=f"Default: {EMBEDDED_MODEL}.")
@option("--layer", type=int, metavar="K", help="Hidden state (default: the paper's for its models, else the preset's or by rule).")
@option("-o", "--output", type=FOLDER, metavar="DIR", help="Write the table (text, Markdown, LaTeX, TSV) and signatures.")
@run_options
def reproduce_command(arguments: Arguments) -> int:
    """Compute a paper's table or figure again with any model, beside the paper's own numbers.

    TABLE is one of twmd-table1 to 9, twmd-figure1 to 6, twmd-appendix-b (Chen et al. 2020); moverscore-table1, 3, 5, 6,
    moverscore-figure2, 3 (Zhao et al. 2019).
    """
    from twmd_registry.cli.reproductions import run_reproduce

    return run_reproduce(arguments)
