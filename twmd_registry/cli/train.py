"""``twmd train``: train adapters on human ratings."""

from __future__ import annotations

from typing import TYPE_CHECKING, get_args

from twmd_registry.cli import declare
from twmd_registry.cli.declare import Arguments, command
from twmd_registry.cli.groups import group
from twmd_registry.cli.metrics import make_scorers, options_of, parse_keys, parse_metrics
from twmd_registry.errors import SpecError
from twmd_registry.judgments.corpora import read_stsb
from twmd_registry.judgments.sets import read_all_rated, title_of
from twmd_registry.registry.names import Dtype
from twmd_registry.registry.presets import name_preset
from twmd_registry.registry.spec import keys_to_set
from twmd_registry.train.recipe import TRAINABLE, Loss, Recipe, Target

if TYPE_CHECKING:
    from twmd_registry.engine.scorer import Scorer

train_command = group(
    "train",
    "Train adapters on human ratings.",
    package="twmd_registry.cli",
    sections={"Commands": ("train", "metric stsscore average")},
    example="twmd train metric wmt:wmt15.jsonl --dev wmt:wmt16.jsonl -m twmd -o adapter/",
)
RECIPE = {"panel": "Recipe"}
LOSS = (
    "mse: mean squared error of a linear function of the score; pearson: 0.3 times this error minus Pearson's r, in "
    "batches with one group each of the data (default: mse)."
)
HOLDOUT = "Held-out rated data; training data with one of their references (sources) are refused."
RATE = "Learning rate (default: 5e-4, and 5e-5 with --full)."
TARGET = "Fit the score, or the mean of precision and recall (default: output)."
NAME = "Name of the preset (default: the name of DIR, with a number if that name is taken)."
BF16 = "Matrix products in bfloat16: up to twice as fast on hardware that supports it."
DROPOUT = "Dropout probability, at least 0 and below 1 (default: the model's value)."
preset_name = declare.option("--name", "NAME", NAME)
DTYPE = "Data type of the adapter's weights (default: float32)."
adapter_dtype = declare.choice("--adapter-dtype", get_args(Dtype), "float32", DTYPE)
finetuning = declare.all_of(
    declare.many("--dev", "DATA", "Rated data for selecting the best epoch (default: none; the last epoch is kept)."),
    declare.many("--holdout", "DATA", HOLDOUT),
    declare.output("Where the adapter, the preset and the card are written.", required=True),
    declare.flag("--full", "Train all weights that the metric reads (default: a LoRA adapter).", **RECIPE),
    declare.option("--rank", "N", "Rank of the LoRA adapter, at most the model's width (default: 16).", **RECIPE),
    declare.choice("--target", get_args(Target), "output", TARGET, **RECIPE),
    declare.choice("--loss", get_args(Loss), "mse", LOSS, **RECIPE),
    declare.flag("--bf16", BF16, **RECIPE),
    declare.option("--dropout", "P", DROPOUT, type=float, **RECIPE),
    declare.option("--epochs", "N", "Epochs (default: 3).", default=3, **RECIPE),
    declare.option("--batch", "N", "Segments per step (default: 16).", default=16, **RECIPE),
    declare.option("--learning-rate", "X", RATE, type=float, **RECIPE),
    declare.seed("Seed of the batch order and of dropout"),
    declare.option(
        "--save-steps", "N", "Steps between checkpoints within an epoch (default: none; one per epoch).", **RECIPE
    ),
    declare.flag("--resume", "Continue the interrupted run in DIR."),
    preset_name,
    declare.settings,
)
"""Declares everything that determines a trained metric, except its training data."""


@command(
    "metric",
    example="twmd train metric wmt:wmt15.jsonl --dev wmt:wmt16.jsonl --holdout wmt:wmt17.jsonl -m twmd -o adapter/",
    note=declare.RATED,
)
@declare.argument("data", nargs=-1, required=True, type=declare.DATA, metavar="DATA...")
@declare.metric("The metric.", TRAINABLE, required=True)
@finetuning
@declare.placement
@declare.any_language
def metric_command(arguments: Arguments) -> int:
    """Train a metric's encoder on human ratings through the metric itself (TWMD paper, 6.2), and write an adapter, a
    preset and a card.
    """
    name = name_preset(arguments.name, str(arguments.output.resolve()))  # fails before anything is computed
    options = options_of(arguments)
    if arguments.full and arguments.rank is not None:
        raise SpecError("--rank sets the rank of an adapter, but --full trains no adapter: remove one of the options.")
    named = arguments.preset or {key.partition("=")[0] for key in arguments.set} & {"model", "adapter"}
    if not named and arguments.metrics[0] in TRAINABLE:  # the default has an adapter, and none is trained on another
        arguments.set = ["model=embedded", *arguments.set]
    (scorer,) = make_scorers(parse_metrics(arguments.metrics, arguments), options)
    keys = ("full", "epochs", "learning_rate", "batch", "seed", "bf16", "dropout", "save_steps")
    recipe_keys = {key: getattr(arguments, key) for key in keys} | ({"rank": arguments.rank} if arguments.rank else {})
    recipe = Recipe(target=arguments.target, loss=arguments.loss, **recipe_keys)
    from twmd_registry.train.data import TrainingData
    from twmd_registry.train.finetune import FinetunePlan, finetune

    train, dev, holdout = (
        tuple(TrainingData(title_of(source), rated) for source, rated in read_all_rated(sources).items())
        for sources in (arguments.data, arguments.dev, arguments.holdout)
    )
    plan = FinetunePlan(scorer.requested, train, dev, holdout, recipe)
    trained = finetune(plan, arguments.output, options=options, name=name, resume=arguments.resume)
    scale = "of standardised ratings, whose variance is 1"
    print(f"{trained.steps} steps; mean squared error on training segments {trained.loss:.4f} ({scale})")
    for agreement in trained.agreements:
        checkpoint = f"epoch {agreement['epoch']:g}" if agreement["epoch"] else "untrained"
        print(f"dev, {checkpoint}: Pearson {agreement['pearson']:.4f}, Kendall {agreement['kendall']:.4f}")
    _print_usage(trained.scorer)
    return 0


@command("stsscore", example="twmd train stsscore stsb/ -o adapter/")
@declare.argument("folder", type=declare.INPUT_FOLDER, metavar="DIR")
@declare.keys("model")
@declare.flag("--siamese", "Train a sentence encoder and a line on the cosine of two texts, not a cross-encoder.")
@declare.flag("--full", "Train all weights of a cross-encoder (default: a LoRA adapter).")
@declare.option("--epochs", "N", "Epochs (default: 3).", default=3)
@declare.flag("--bf16", BF16)
@adapter_dtype
@declare.output("Where the adapter, or the model, is written.", required=True)
@declare.device
@declare.any_language
def stsscore_command(arguments: Arguments) -> int:
    """Train STSScore's regression model on the STS benchmark: a cross-encoder, as in the paper, or a siamese model.

    DIR contains train.csv and dev.csv.
    """
    model = parse_keys(arguments, ["model"]).get("model", "embedded")
    if arguments.full and arguments.siamese:
        raise SpecError("--full trains a cross-encoder, and --siamese an adapter with a line: remove one of them.")
    sets = {name: read_stsb(arguments.folder / f"{name}.csv") for name in ("train", "dev")}  # before torch is loaded
    from twmd_registry.train.stsb import train_stsb

    signature, pearson = train_stsb(
        sets,
        arguments.output,
        model=model,
        siamese=arguments.siamese,
        recipe=Recipe(full=arguments.full, epochs=arguments.epochs, bf16=arguments.bf16),
        dtype=arguments.adapter_dtype,
        any_language=arguments.any_language,
        device=arguments.device,
    )
    keys = f"model={arguments.output}" if arguments.full else f"model={model} adapter={arguments.output}"
    print(f"Pearson on dev {pearson:.4f}\nuse --set {keys}")
    print(f"signature {signature}")
    return 0


@command("average", example="twmd train average seed1/ seed2/ seed3/ -o adapter/")
@declare.argument("adapters", nargs=-1, required=True, type=declare.INPUT_FOLDER, metavar="DIR...")
@declare.output("Where the mean is written.", required=True)
@adapter_dtype
@declare.option("--rank", "N", "Rank of the mean adapter, for a smaller file (default: the sum of the ranks).")
@preset_name
@declare.device
def average_command(arguments: Arguments) -> int:
    """Average the adapters of several 'twmd train metric' runs (with different seeds, for example) into a single
    adapter that scores as fast as any one of them; of a single adapter, --adapter-dtype or --rank makes a smaller copy.
    """
    from twmd_registry.train.average import average

    name = name_preset(arguments.name, str(arguments.output.resolve()))
    settings = {"dtype": arguments.adapter_dtype, "rank": arguments.rank, "name": name}
    scorer, rank = average(arguments.adapters, arguments.output, options=options_of(arguments), **settings)
    number = len(arguments.adapters)
    print(f"averaged {number} adapters into one of rank {rank}" if number > 1 else f"copied the adapter: rank {rank}")
    _print_usage(scorer)
    return 0


def _print_usage(scorer: Scorer) -> None:
    keys = " ".join(f"{key}={value}" for key, value in keys_to_set(scorer.requested).items())
    print(f"use -m {scorer.requested.metric} --set {keys}\nsignature {scorer.signature}")
