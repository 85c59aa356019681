"""The arguments of every command. Imports nothing heavy, so that ``--help`` is instant."""

from __future__ import annotations

import argparse
import importlib
import math
import os
from collections.abc import Callable
from pathlib import Path

from twmd_registry.registry.names import MetricName
from twmd_registry.version import __version__

Run = Callable[[argparse.Namespace], int]


def _later(module: str, function: str) -> Run:
    """A command whose code is imported when it runs."""

    def run(arguments: argparse.Namespace) -> int:
        status: int = getattr(importlib.import_module(f"twmd_registry.cli.{module}"), function)(arguments)
        return status

    return run


def build_parser() -> argparse.ArgumentParser:
    """The parser of ``twmd``."""
    parser = argparse.ArgumentParser(prog="twmd", description="Embedding metrics for generated text, with signatures that can be re-run.")
    parser.add_argument("--version", action="version", version=f"twmd {__version__}")
    parser.set_defaults(run=None)
    commands = parser.add_subparsers(title="commands", metavar="COMMAND")
    for add in (_score, _align, _verify, _diff, _cite, _list, _explain, _preset, _selfcheck, *_FITTING, _install):
        add(commands)
    return parser


def _command(commands: argparse._SubParsersAction[argparse.ArgumentParser], name: str, run: Run, about: str, example: str) -> argparse.ArgumentParser:
    sub = commands.add_parser(
        name, help=about, description=about, epilog=f"example:\n  {example}", formatter_class=argparse.RawDescriptionHelpFormatter
    )
    sub.set_defaults(run=run)
    return sub


def _where(sub: argparse.ArgumentParser) -> None:
    """Run options: they never change a score."""
    sub.add_argument("--device", default="auto", help="auto, cpu, cuda, cuda:1, mps (default: auto)")
    sub.add_argument("--batch-tokens", type=_whole, metavar="N", help="most padded tokens in the encoder at once")


def _whole(text: str, least: int = 1) -> int:
    if not text.isascii() or not text.isdecimal() or int(text) < least:
        raise argparse.ArgumentTypeError(f"expected a whole number from {least}, not {text}")
    return int(text)


def _resamples(text: str) -> int:
    return _whole(text, 2)


def _seed(text: str) -> int:
    return _whole(text, 0)


def _usual_seed() -> int:
    """SacreBLEU's: from its environment variable where that is a number."""
    found = os.environ.get("SACREBLEU_SEED", "")
    return int(found) if found.isascii() and found.isdecimal() else 12345


def _tolerance(text: str) -> float:
    number = float(text)
    if not 0 <= number < math.inf:
        raise argparse.ArgumentTypeError(f"expected a finite number from 0, not {text}")
    return number


def _score(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    sub = _command(
        commands,
        "score",
        _later("score", "run"),
        "Score files: one segment per line, or JSON lines with prediction and reference(s).",
        "twmd score ref.txt -i system_a.txt system_b.txt -m twmd bertscore_centered\n  cat out.txt | twmd score ref1.txt ref2.txt -m twmd -b",
    )
    sub.add_argument("references", nargs="*", type=Path, metavar="REF", help="reference files, one per reference stream")
    sub.add_argument("-i", "--input", nargs="+", type=Path, metavar="HYP", help="one file per system (default: standard input)")
    sub.add_argument(
        "-m",
        "--metrics",
        nargs="+",
        default=[str(MetricName.TWMD)],
        metavar="METRIC",
        help=f"default: twmd; of {', '.join(MetricName)}, a signature, or SacreBLEU's bleu, chrf, ter",
    )
    _settings(sub)
    sub.add_argument(
        "--format", choices=("text", "table", "json", "latex", "tsv"), default="text", help="default: text; table is another word for it"
    )
    sub.add_argument("-b", "--score-only", action="store_true", help="print the numbers alone")
    sub.add_argument("-sh", "--short", action="store_true", help="short signatures")
    sub.add_argument("-sl", "--sentence-level", action="store_true", help="print one line per segment")
    sub.add_argument(
        "-w", "--width", type=int, choices=range(1, 17), default=4, metavar="DIGITS", help="digits after the point, 1 to 16 (default: 4)"
    )
    sub.add_argument("--record", type=Path, metavar="FILE", help="write scores, signatures, hashes and environment to a JSON file")
    _test_options(sub)
    _parts(sub)
    _where(sub)


def _settings(sub: argparse.ArgumentParser) -> None:
    """What decides scores."""
    sub.add_argument("--preset", help="a named setting, see 'twmd list'")
    sub.add_argument(
        "--set", action="extend", nargs="+", default=[], metavar="KEY=VALUE", help="set a key of the specification; see 'twmd explain METRIC'"
    )


def _test_options(sub: argparse.ArgumentParser) -> None:
    """SacreBLEU's tests and intervals."""
    tests = sub.add_mutually_exclusive_group()
    tests.add_argument("--paired-bs", action="store_true", help="paired bootstrap test of every system against the first")
    tests.add_argument("--paired-ar", action="store_true", help="paired approximate randomisation test of every system against the first")
    sub.add_argument("--paired-bs-n", type=_resamples, default=1000, metavar="N", help="bootstrap resamples (default: 1000)")
    sub.add_argument("--paired-ar-n", type=_resamples, default=10_000, metavar="N", help="randomisation trials (default: 10000)")
    sub.add_argument("--confidence", action="store_true", help="95%% confidence intervals by bootstrap")
    sub.add_argument("--confidence-n", type=_resamples, default=1000, metavar="N", help="bootstrap resamples of the intervals (default: 1000)")
    sub.add_argument("--seed", type=_seed, default=_usual_seed(), metavar="SEED", help="of the resampling (default: $SACREBLEU_SEED, else 12345)")


def _align(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    sub = _command(
        commands,
        "align",
        _later("align", "run"),
        "Show how the score of two texts comes about: which token carries how much to which.",
        'twmd align moverscore "It rained all day." "The whole day was rainy." -o plan.png',
    )
    sub.add_argument("metric", metavar="METRIC", help="a metric, or a signature")
    sub.add_argument("hypothesis", metavar="HYP", help="a text")
    sub.add_argument("reference", metavar="REF", help="a text")
    sub.add_argument("-o", "--output", type=Path, metavar="FILE", help="draw it: a .png, .svg or .html file")
    _settings(sub)
    _parts(sub)
    _where(sub)


def _parts(sub: argparse.ArgumentParser) -> None:
    """Where the parts of a signature are here."""
    sub = sub.add_argument_group("parts of a signature", "beside a named metric, use --set KEY=VALUE")  # type: ignore[assignment]
    for name, what in (("model", "model"), ("adapter", "adapter")):
        sub.add_argument(f"--{name}", metavar="DIR", help=f"your copy of the {what}; its content must be the one that was signed")
    for name, what in (("background", "mean vector"), ("stopwords", "stop words"), ("idf", "document frequencies"), ("baseline", "baseline")):
        sub.add_argument(f"--{name}", metavar="FILE", help=f"your copy of the {what}; likewise")


def _verify(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    sub = _command(
        commands,
        "verify",
        _later("verify", "run_verify"),
        "Score again, and say whether a record, or a number out of a paper, holds (0 it does, 1 it does not).",
        "twmd verify scores.json --refs ref.txt --hyps system_a.txt system_b.txt\n"
        "  twmd verify 'twmd|output:f1|...|version:0.3.0' 0.8614 ref.txt -i system_a.txt",
    )
    sub.add_argument("what", metavar="RECORD|SIGNATURE", help="a file that 'twmd score --record' wrote, or a signature")
    sub.add_argument("value", nargs="?", metavar="VALUE", help="beside a signature: the number as printed")
    sub.add_argument("references", nargs="*", type=Path, metavar="REF", help="reference files")
    sub.add_argument("--refs", nargs="+", type=Path, default=[], metavar="REF", help="reference files, as well")
    sub.add_argument("-i", "--input", "--hyps", nargs="+", type=Path, metavar="HYP", help="one file per system, in the record's order")
    sub.add_argument("--tolerance", type=_tolerance, metavar="X", help="largest difference of a segment's score (default: 1e-5 in float32)")
    _parts(sub)
    _where(sub)


def _diff(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    sub = _command(
        commands,
        "diff",
        _later("verify", "run_diff"),
        "Say in words what two signatures do not share, and whether their numbers may be compared (0 they may, 1 not).",
        "twmd diff 'twmd|output:f1|...' 'twmd|output:recall|...'",
    )
    sub.add_argument("one", metavar="SIGNATURE")
    sub.add_argument("other", metavar="SIGNATURE")


def _cite(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    sub = _command(
        commands,
        "cite",
        _later("cite", "run"),
        "What a paper or a model card needs to publish a record's scores.",
        "twmd cite scores.json --as latex",
    )
    sub.add_argument("record", type=Path, metavar="RECORD", help="a file that 'twmd score --record' wrote")
    sub.add_argument(
        "--as", dest="form", choices=("paper", "sentence", "latex", "bibtex", "markdown", "badge", "eval_results"), default="paper",
        help="default: paper (sentences with footnotes in LaTeX, and BibTeX)",
    )  # fmt: skip
    sub.add_argument("-w", "--width", type=int, choices=range(1, 17), default=4, metavar="DIGITS", help="digits after the point (default: 4)")
    for name, about, default in (
        ("task", "for eval_results: the Hub's task", "text-generation"),
        ("dataset", "for eval_results: the data set's Hub id", None),
    ):
        sub.add_argument(f"--{name}", metavar="NAME", default=default, help=about)


def _preset(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    sub = _command(commands, "preset", _later("inform", "run_preset"), "Add a preset of your own, or take it away.", "twmd preset add house.toml")
    sub.add_argument("action", choices=("add", "remove"))
    sub.add_argument("what", metavar="FILE.toml|NAME", help="add: a TOML file with one preset; remove: a preset's name")


def _list(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    sub = _command(commands, "list", _later("inform", "run_list"), "List metrics, presets and what works offline.", "twmd list --signatures")
    sub.add_argument("--signatures", action="store_true", help="print the canonical signature of every preset of every metric, and nothing else")


def _explain(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    sub = _command(commands, "explain", _later("inform", "run_explain"), "Explain a metric, its keys, presets and citation.", "twmd explain twmd")
    sub.add_argument("metric", metavar="METRIC", help=", ".join(MetricName))


def _selfcheck(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    sub = _command(
        commands, "selfcheck", _later("inform", "run_selfcheck"), "Compare this installation's scores with the published ones.", "twmd selfcheck"
    )
    _where(sub)


def _fit_mean(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    sub = _command(
        commands,
        "fit-mean",
        _later("fit", "run_fit_mean"),
        "Fit the mean vector that centering=background subtracts; prints the value to use.",
        "twmd fit-mean corpus.txt --model roberta-base",
    )
    sub.add_argument("files", nargs="+", type=Path, metavar="FILE", help="texts, one per line, or JSON lines")
    sub.add_argument("--model", default="embedded", help="default: embedded")
    for key in ("revision", "adapter", "truncation", "dtype"):
        sub.add_argument(f"--{key}", help="as the key of the specification")
    sub.add_argument("-o", "--output", type=Path, metavar="DIR", help="default: where background:HASH is looked for")
    _where(sub)


def _fit_idf(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    sub = _command(
        commands,
        "fit-idf",
        _later("fit", "run_fit_idf"),
        "Count in how many texts each token occurs, for idf=background; prints the value to use.",
        "twmd fit-idf corpus.txt --model roberta-base",
    )
    sub.add_argument("files", nargs="+", type=Path, metavar="FILE", help="texts, one per line, or JSON lines")
    sub.add_argument("--model", default="embedded", help="default: embedded")
    for key in ("revision", "truncation"):
        sub.add_argument(f"--{key}", help="as the key of the specification")
    sub.add_argument("-o", "--output", type=Path, metavar="DIR", help="default: where background:HASH is looked for")
    _where(sub)


def _fit_baseline(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    sub = _command(
        commands,
        "fit-baseline",
        _later("fit", "run_fit_baseline"),
        "Score random pairs of texts, for baseline=HASH: scores on a scale where unrelated texts are 0.",
        "twmd fit-baseline bertscore_centered corpus.txt --set centering=none",
    )
    sub.add_argument("metric", metavar="METRIC", help=", ".join(one for one in MetricName if one is not MetricName.ENSEMBLE))
    sub.add_argument("files", nargs="+", type=Path, metavar="FILE", help="texts, one per line, or JSON lines")
    sub.add_argument("--pairs", type=_whole, default=10_000, metavar="N", help="how many pairs (default: 10000)")
    sub.add_argument("--seed", type=_seed, default=0, metavar="SEED", help="of the draw (default: 0)")
    sub.add_argument("-o", "--output", type=Path, metavar="DIR", help="default: where baseline=HASH is looked for")
    _settings(sub)
    _where(sub)


def _tune(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    sub = _command(
        commands,
        "tune",
        _later("fit", "run_tune"),
        "Choose layer, temperature, centering and special tokens on rated data (TWMD paper, Appendix B).",
        "twmd tune twmd --data wmt15.jsonl wmt16.jsonl",
    )
    sub.add_argument("metrics", nargs="+", metavar="METRIC", help="metrics to tune")
    sub.add_argument("--data", nargs="+", type=Path, required=True, metavar="FILE", help="JSON lines with lang, candidate, reference, score")
    sub.add_argument("--model", default="embedded", help="default: embedded")
    sub.add_argument("--layers", nargs="+", type=int, metavar="K", help="hidden states to try (default: all from 1)")
    sub.add_argument("--background", metavar="HASH", help="mean vector to try (default: the packaged one)")
    sub.add_argument("-o", "--output", type=Path, metavar="FILE", help="write every trial as TSV")
    _where(sub)


def _train(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    sub = _command(
        commands,
        "train",
        _later("fit", "run_train"),
        "Train the adapter of STSScore on the STS benchmark.",
        "twmd train stsb --data stsb/ -o adapter/",
    )
    sub.add_argument("task", choices=("stsb",))
    sub.add_argument("--data", type=Path, required=True, metavar="DIR", help="folder with train.csv and dev.csv")
    sub.add_argument("-o", "--output", type=Path, required=True, metavar="DIR")


MEASURES = {
    "stsscore": "stsscore",
    "bertscore": "bertscore_centered;centering=none;baseline=b52f4f73e689",
    "sbert": "sbert;layer=6;special=all;centering=none",
}
"""What the STSScore paper measures beside BLEU, on the embedded model."""


def _study(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    sub = _command(
        commands,
        "study",
        _later("study", "run_study"),
        "Do a paper's analysis over: its tables beside the paper's numbers, and its figures.",
        "twmd study stsscore --data-dir data/ -o out/",
    )
    sub.add_argument("paper", choices=("stsscore",), help="Herbold 2024")
    sub.add_argument("--data-dir", type=Path, metavar="DIR", help="holds stsb/, mrpc/, qqp/, wmt22/, as far as you have them")
    sub.add_argument("--hub", action="store_true", help="read from the Hugging Face Hub what DIR does not hold")
    sub.add_argument("-o", "--output", type=Path, required=True, metavar="DIR", help="tables (text, Markdown, LaTeX, TSV), figures (PNG, SVG, CSV)")
    for name, member in MEASURES.items():
        sub.add_argument(f"--{name}", default=member, metavar="METRIC", help=f"a metric with keys, as a member of an ensemble (default: {member})")
    _where(sub)


_FITTING = (_fit_mean, _fit_idf, _fit_baseline, _tune, _train, _study)
"""Commands that make parts of a specification."""


def _install(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    about = "Let every script of this environment say evaluate.load('twmd'), without importing twmd_registry."
    _command(commands, "install", _later("setup", "run_install"), about, "twmd install")
    _command(commands, "uninstall", _later("setup", "run_uninstall"), "Take back what 'twmd install' did.", "twmd uninstall")
