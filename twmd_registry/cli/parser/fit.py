"""Commands that make parts of a specification."""

from __future__ import annotations

import argparse
from pathlib import Path

from twmd_registry.cli.parser.arguments import DATA, Commands, columns, command, device, later, seed, settings, where, whole
from twmd_registry.registry.names import MetricName
from twmd_registry.train.recipe import TRAINABLE


def add_fit_mean(commands: Commands) -> None:
    """Add ``twmd fit-mean``."""
    sub = command(
        commands,
        "fit-mean",
        later("fit", "run_fit_mean"),
        "Fit the mean vector that centering=background subtracts; prints the value to use.",
        "twmd fit-mean corpus.txt --model roberta-base",
        files=("files",),
    )
    sub.add_argument("files", nargs="+", type=Path, metavar="FILE", help="texts, one per line, or tables")
    columns(sub)
    sub.add_argument("--model", default="embedded", help="default: embedded")
    for key in ("revision", "adapter", "truncation", "dtype"):
        sub.add_argument(f"--{key}", help="as the key of the specification")
    sub.add_argument("-o", "--output", type=Path, metavar="DIR", help="default: where background:HASH is looked for")
    device(sub)


def add_fit_idf(commands: Commands) -> None:
    """Add ``twmd fit-idf``."""
    sub = command(
        commands,
        "fit-idf",
        later("fit", "run_fit_idf"),
        "Count in how many texts each token occurs, for idf=background; prints the value to use.",
        "twmd fit-idf corpus.txt --model roberta-base",
        files=("files",),
    )
    sub.add_argument("files", nargs="+", type=Path, metavar="FILE", help="texts, one per line, or tables")
    columns(sub)
    sub.add_argument("--model", default="embedded", help="default: embedded")
    for key in ("revision", "truncation"):
        sub.add_argument(f"--{key}", help="as the key of the specification")
    sub.add_argument("-o", "--output", type=Path, metavar="DIR", help="default: where background:HASH is looked for")
    device(sub)


def add_fit_baseline(commands: Commands) -> None:
    """Add ``twmd fit-baseline``."""
    sub = command(
        commands,
        "fit-baseline",
        later("fit", "run_fit_baseline"),
        "Score random pairs of texts, for baseline=HASH: scores on a scale where unrelated texts are 0.",
        "twmd fit-baseline bertscore_centered corpus.txt --set centering=none",
        files=("files",),
        metrics=(),
    )
    sub.add_argument("metric", metavar="METRIC", help=", ".join(one for one in MetricName if one is not MetricName.ENSEMBLE))
    sub.add_argument("files", nargs="+", type=Path, metavar="FILE", help="texts, one per line, or tables")
    columns(sub)
    sub.add_argument("--pairs", type=whole, default=10_000, metavar="N", help="how many pairs (default: 10000)")
    sub.add_argument("--seed", type=seed, default=0, metavar="SEED", help="of the draw (default: 0)")
    sub.add_argument("-o", "--output", type=Path, metavar="DIR", help="default: where baseline=HASH is looked for")
    settings(sub)
    where(sub)


def add_tune(commands: Commands) -> None:
    """Add ``twmd tune``."""
    sub = command(
        commands,
        "tune",
        later("tune", "run_tune"),
        "Choose layer, temperature, centering and special tokens on rated data (TWMD paper, Appendix B).",
        "twmd tune twmd --data wmt:wmt15.jsonl wmt:wmt16.jsonl",
        data=("data",),
        names=("metrics",),
    )
    sub.add_argument("metrics", nargs="+", metavar="METRIC", help="metrics to tune")
    sub.add_argument("--data", nargs="+", required=True, metavar="DATA", help=DATA)
    sub.add_argument("--model", default="embedded", help="default: embedded")
    sub.add_argument("--layers", nargs="+", type=int, metavar="K", help="hidden states to try (default: all from 1)")
    sub.add_argument(
        "--try",
        dest="tried",
        nargs="+",
        action="extend",
        default=[],
        metavar="KEY=VALUE,..",
        help="what is tried of a key (temperature=0.1,0.2 ngram=1,2; default: at most 200 settings)",
    )
    sub.add_argument(
        "-o", "--output", type=Path, metavar="DIR", help="write every trial (TSV), the surfaces (PNG, SVG), and preset.toml with hashes of the data"
    )
    sub.add_argument("--name", help="of the preset (default: MODEL-tuned, with a number where that is taken)")
    where(sub)


def add_train(commands: Commands) -> None:
    """Add ``twmd train``."""
    sub = command(
        commands,
        "train",
        later("fit", "run_train"),
        "Train the adapter of STSScore on the STS benchmark.",
        "twmd train stsb --data stsb:stsb/ -o adapter/",
        data=("data",),
    )
    sub.add_argument("task", choices=("stsb",))
    sub.add_argument("--data", required=True, metavar="stsb:DIR", help="a folder with train.csv and dev.csv")
    sub.add_argument("-o", "--output", type=Path, required=True, metavar="DIR")


def add_finetune(commands: Commands) -> None:
    """Add ``twmd finetune``."""
    sub = command(
        commands,
        "finetune",
        later("finetune", "run_finetune"),
        "Train a metric's encoder on human ratings through the metric itself (TWMD paper, 6.2); writes an adapter, a preset and a card.",
        "twmd finetune twmd --train wmt:wmt15.jsonl --dev wmt:wmt16.jsonl --holdout wmt:wmt17.jsonl -o adapter/",
        data=("train", "dev", "holdout"),
        names=("metric",),
    )
    sub.add_argument("metric", metavar="METRIC", help=", ".join(TRAINABLE))
    sub.add_argument("--model", help="default: that of --preset, else the embedded one")
    sub.add_argument("--train", nargs="+", required=True, metavar="DATA", help=DATA)
    sub.add_argument("--dev", nargs="+", default=[], metavar="DATA", help="likewise; chooses the epoch (default: none, the last epoch is kept)")
    sub.add_argument("--holdout", nargs="+", default=[], metavar="DATA", help="likewise; refuse data that hold any of their references")
    sub.add_argument("-o", "--output", type=Path, required=True, metavar="DIR")
    _add_recipe(sub)
    sub.add_argument("--resume", action="store_true", help="go on with the interrupted run in DIR")
    sub.add_argument("--name", help="of the preset (default: the name of DIR, with a number where that is taken)")
    settings(sub)
    device(sub)


def add_average(commands: Commands) -> None:
    """Add ``twmd average``."""
    sub = command(
        commands,
        "average",
        later("average", "run_average"),
        "Average the adapters of several 'twmd finetune' runs into one (runs of other seeds, say); it scores as fast as one of them.",
        "twmd average seed1/ seed2/ seed3/ -o adapter/",
        files=("adapters",),
    )
    sub.add_argument("adapters", nargs="+", type=Path, metavar="DIR", help="what 'twmd finetune' wrote")
    sub.add_argument("-o", "--output", type=Path, required=True, metavar="DIR")
    sub.add_argument("--dtype", choices=("float32", "float16", "bfloat16"), default="float32", help="of the adapter's numbers (default: float32)")
    sub.add_argument("--name", help="of the preset (default: the name of DIR, with a number where that is taken)")
    sub.add_argument("--device", default="auto", help="cpu, cuda, cuda:1, mps or auto (default: auto)")


def _add_recipe(sub: argparse.ArgumentParser) -> None:
    """How it is trained; defaults are those of `twmd_registry.train.recipe.Recipe`."""
    weights = sub.add_mutually_exclusive_group()
    weights.add_argument("--adapter", choices=("lora",), default="lora", help="train an adapter (default: lora)")
    weights.add_argument("--full", action="store_true", help="train all weights that the metric reads")
    sub.add_argument("--rank", type=whole, metavar="N", help="of the adapter (default: 16)")
    sub.add_argument(
        "--target", choices=("output", "mean"), default="output", help="fit the score, or the mean of precision and recall (default: output)"
    )
    sub.add_argument(
        "--loss",
        choices=("mse", "pearson"),
        default="mse",
        help="mean squared error of a line on the score, or 0.3 times that less Pearson's r, in batches of one group each (default: mse)",
    )
    sub.add_argument("--bf16", action="store_true", help="train with matrix products in bfloat16: up to twice as fast where the machine has them")
    sub.add_argument("--dropout", type=float, metavar="P", help="share that a step leaves out, from 0 and below 1 (default: the model's own)")
    sub.add_argument("--epochs", type=whole, default=3, metavar="N", help="default: 3")
    sub.add_argument("--batch", type=whole, default=16, metavar="N", help="segments per step (default: 16)")
    sub.add_argument("--learning-rate", type=float, metavar="X", help="default: 5e-4, and 5e-5 with --full")
    sub.add_argument("--seed", type=seed, default=12345, metavar="SEED", help="default: 12345")
    sub.add_argument("--save-steps", type=whole, metavar="N", help="steps between two checkpoints (default: one per epoch)")
