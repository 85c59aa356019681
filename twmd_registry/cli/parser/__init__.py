"""The arguments of every command. Imports nothing heavy, so that ``--help`` is instant."""

from __future__ import annotations

from twmd_registry.cli.parser import fit, hub, inform, published, scoring, study
from twmd_registry.cli.parser.arguments import Parser, example_of, quiet
from twmd_registry.version import __version__

COMMANDS = (
    scoring.add_score,
    scoring.add_report,
    scoring.add_align,
    published.add_verify,
    published.add_diff,
    published.add_cite,
    inform.add_list,
    inform.add_explain,
    inform.add_preset,
    inform.add_cache,
    inform.add_selfcheck,
    inform.add_demo,
    fit.add_fit_mean,
    fit.add_fit_idf,
    fit.add_fit_baseline,
    fit.add_tune,
    fit.add_train,
    fit.add_finetune,
    fit.add_average,
    study.add_study,
    study.add_correlate,
    study.add_robustness,
    study.add_diagnose,
    study.add_reproduce,
    hub.add_hub,
    inform.add_install,
    inform.add_completion,
)
"""In the order of ``--help``."""


def build_parser() -> Parser:
    """The parser of ``twmd``."""
    parser = Parser(
        prog="twmd",
        description="Embedding metrics for generated text, with signatures that can be re-run.",
        **example_of("twmd score ref.txt -i system_a.txt system_b.txt -m twmd moverscore\n  twmd score --help"),
    )
    parser.add_argument("--version", action="version", version=f"twmd {__version__}")
    parser.set_defaults(run=None)
    quiet(parser, default=False)
    commands = parser.add_subparsers(title="commands", metavar="COMMAND")
    for add in COMMANDS:
        add(commands)
    return parser
