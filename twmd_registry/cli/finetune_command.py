"""``twmd finetune``."""

from __future__ import annotations

import rich_click as click

from twmd_registry.cli.declare import (
    DATA,
    FOLDER,
    POSITIVE,
    RATED,
    Arguments,
    MetricParameter,
    argument,
    command,
    device,
    many,
    option,
    seed,
    settings,
)
from twmd_registry.cli.inputs import check_folder
from twmd_registry.cli.requested import make_scorers, options_of
from twmd_registry.errors import SpecError
from twmd_registry.judgments.sets import read_all_rated, title_of
from twmd_registry.registry.presets import name_preset
from twmd_registry.train.recipe import TRAINABLE, Loss, Recipe, Target, Weights

RECIPE = "Recipe"


@command(
    "finetune",
    lexical=(),
    example="twmd finetune twmd --train wmt:wmt15.jsonl --dev wmt:wmt16.jsonl --holdout wmt:wmt17.jsonl -o adapter/",
)
@argument("metric", type=MetricParameter(TRAINABLE), metavar="METRIC")
@many("--train", type=DATA, required=True, metavar="DATA", help=RATED)
@many("--dev", type=DATA, metavar="DATA", help="Likewise; chooses the epoch (default: none, the last epoch is kept).")
@many("--holdout", type=DATA, metavar="DATA", help="Likewise; data that hold any of their references are refused.")
@option(
    "-o",
    "--output",
    type=FOLDER,
    required=True,
    metavar="DIR",
    help="Where the adapter, the preset and the card are written.",
)
@option("--full", is_flag=True, panel=RECIPE, help="Train all weights that the metric reads (default: a LoRA adapter).")
@option("--rank", type=POSITIVE, panel=RECIPE, metavar="N", help="Of the adapter (default: 16).")
@option(
    "--target",
    type=click.Choice([str(one) for one in Target]),
    default=str(Target.OUTPUT),
    panel=RECIPE,
    help="Fit the score, or the mean of precision and recall (default: output).",
)
@option(
    "--loss",
    type=click.Choice([str(one) for one in Loss]),
    default=str(Loss.MSE),
    panel=RECIPE,
    help=(
        "Mean squared error of a line on the score, or 0.3 times that less Pearson's r, in batches of one group "
        "each (default: mse)."
    ),
)
@option(
    "--bf16",
    is_flag=True,
    panel=RECIPE,
    help="Matrix products in bfloat16: up to twice as fast where the machine has them.",
)
@option(
    "--dropout",
    type=float,
    panel=RECIPE,
    metavar="P",
    help="Share that a step leaves out, from 0 and below 1 (default: the model's own).",
)
@option("--epochs", type=POSITIVE, default=3, panel=RECIPE, metavar="N", help="Default: 3.")
@option("--batch", type=POSITIVE, default=16, panel=RECIPE, metavar="N", help="Segments per step (default: 16).")
@option("--learning-rate", type=float, panel=RECIPE, metavar="X", help="Default: 5e-4, and 5e-5 with --full.")
@seed("Of order and dropout")
@option(
    "--save-steps",
    type=POSITIVE,
    panel=RECIPE,
    metavar="N",
    help="Steps between two checkpoints (default: one per epoch).",
)
@option("--resume", is_flag=True, help="Continue the interrupted run in DIR.")
@option("--name", metavar="NAME", help="Of the preset (default: the name of DIR, with a number where that is taken).")
@settings
@device
def finetune_command(arguments: Arguments) -> int:
    """Train a metric's encoder on human ratings through the metric itself (TWMD paper, 6.2); writes an adapter, a
    preset and a card.

    Raises:
        SpecError: ``--rank`` beside ``--full``.
    """
    name = name_preset(arguments.name, str(arguments.output.resolve()))  # what cannot be fails here
    check_folder(arguments.output)
    options = options_of(arguments)
    if arguments.full and arguments.rank is not None:
        raise SpecError("--rank is of an adapter, and --full trains none: leave one of them out.")
    (scorer,) = make_scorers(arguments.asked, options)
    recipe = Recipe(
        weights=Weights.FULL if arguments.full else Weights.LORA,
        **({} if arguments.rank is None else {"rank": arguments.rank}),
        epochs=arguments.epochs,
        learning_rate=arguments.learning_rate,
        batch=arguments.batch,
        seed=arguments.seed,
        target=Target(arguments.target),
        loss=Loss(arguments.loss),
        bf16=arguments.bf16,
        dropout=arguments.dropout,
        save_steps=arguments.save_steps,
    )
    from twmd_registry.train.data import TrainingData
    from twmd_registry.train.finetune import FinetunePlan, finetune

    train, dev, holdout = (
        tuple(TrainingData(title_of(one), rated) for one, rated in read_all_rated(named).items())
        for named in (arguments.train, arguments.dev, arguments.holdout)
    )
    plan = FinetunePlan(scorer.requested, train, dev, holdout, recipe)
    done = finetune(plan, arguments.output, options=options, name=name, resume=arguments.resume)
    print(
        f"{done.steps} steps; mean squared error on training segments {done.loss:.4f} (of standardised ratings, "
        "whose variance is 1)"
    )
    if done.before is not None and done.best is not None:
        for what, found in (("untrained", done.before), (f"epoch {done.best['epoch']:g}", done.best)):
            print(f"dev, {what}: Pearson {found['pearson']:.4f}, Kendall {found['kendall']:.4f}")
    print(f"use -m {arguments.metric} --set {' '.join(f'{key}={value}' for key, value in done.keys.items())}")
    print(f"signature {done.signature}")
    return 0
