"""``verify``, ``diff`` and ``cite``: what is done with published scores."""

from __future__ import annotations

from pathlib import Path

from twmd_registry.cli.parser.arguments import Commands, columns, command, later, parts, tolerance, where


def add_verify(commands: Commands) -> None:
    """Add ``twmd verify``."""
    sub = command(
        commands,
        "verify",
        later("verify", "run_verify"),
        "Score again, and say whether a record, or a number out of a paper, holds (0 it does, 1 it does not). Without files, those that the "
        "record names are taken, if they are here with the same content.",
        "twmd verify scores.json\n  twmd verify scores.json --refs ref.txt --hyps system_a.txt system_b.txt\n"
        "  twmd verify 'twmd|output:f1|...|version:0.3.0' 0.8614 ref.txt -i system_a.txt",
        files=("references", "refs", "input"),
    )
    sub.add_argument("what", metavar="RECORD|SIGNATURE", help="a file that 'twmd score --record' wrote, or a signature")
    sub.add_argument("value", nargs="?", metavar="VALUE", help="beside a signature: the number as printed")
    sub.add_argument("references", nargs="*", type=Path, metavar="REF", help="reference files")
    sub.add_argument("--refs", nargs="+", type=Path, default=[], metavar="REF", help="reference files, as well")
    sub.add_argument("-i", "--input", "--hyps", nargs="+", type=Path, metavar="HYP", help="one file per system, in the record's order")
    columns(sub)
    sub.add_argument("--tolerance", type=tolerance, metavar="X", help="largest difference of a segment's score (default: 1e-5 in float32)")
    parts(sub)
    where(sub)


def add_diff(commands: Commands) -> None:
    """Add ``twmd diff``."""
    sub = command(
        commands,
        "diff",
        later("verify", "run_diff"),
        "Say in words what two signatures do not share, and whether their numbers may be compared (0 they may, 1 not).",
        "twmd diff 'twmd|output:f1|...' 'twmd|output:recall|...'",
    )
    sub.add_argument("one", metavar="SIGNATURE")
    sub.add_argument("other", metavar="SIGNATURE")


def add_cite(commands: Commands) -> None:
    """Add ``twmd cite``."""
    sub = command(
        commands,
        "cite",
        later("cite", "run"),
        "What a paper or a model card needs to publish a record's scores.",
        "twmd cite scores.json --format latex",
        files=("record",),
    )
    sub.add_argument("record", type=Path, metavar="RECORD", help="a file that 'twmd score --record' wrote")
    sub.add_argument(
        "--format", "--as", dest="form", choices=("paper", "sentence", "latex", "bibtex", "markdown", "badge", "eval_results"), default="paper",
        help="default: paper (sentences with footnotes in LaTeX, and BibTeX)",
    )  # fmt: skip
    sub.add_argument("-w", "--width", type=int, choices=range(1, 17), default=4, metavar="DIGITS", help="digits after the point (default: 4)")
    for name, about, default in (
        ("task", "for eval_results: the Hub's task", "text-generation"),
        ("dataset", "for eval_results: the data set's Hub id", None),
    ):
        sub.add_argument(f"--{name}", metavar="NAME", default=default, help=about)
