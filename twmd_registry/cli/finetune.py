"""``twmd finetune``."""

from __future__ import annotations

import argparse

from twmd_registry.cli.files import check_folder
from twmd_registry.cli.options import make_scorers, options_of, parse_metrics
from twmd_registry.errors import SpecError
from twmd_registry.judgments.sets import read_all_rated, title_of
from twmd_registry.registry.presets import name_preset


def run_finetune(arguments: argparse.Namespace) -> int:
    """Train a metric, print what it reached and how to use it.

    Raises:
        SpecError: ``--rank`` beside ``--full``.
    """
    from twmd_registry.train.data import TrainingData
    from twmd_registry.train.finetune import FinetunePlan, finetune
    from twmd_registry.train.recipe import Loss, Recipe, Target, Weights

    name = name_preset(arguments.name, str(arguments.output.resolve()))  # what cannot be fails here
    check_folder(arguments.output)
    options = options_of(arguments)
    if arguments.full and arguments.rank is not None:
        raise SpecError("--rank is of an adapter, and --full trains none: leave one of them out.")
    arguments.set = [*([f"model={arguments.model}"] if arguments.model else []), *arguments.set]
    (scorer,) = make_scorers(parse_metrics([arguments.metric], arguments), options)
    recipe = Recipe(
        weights=Weights.FULL if arguments.full else Weights(arguments.adapter),
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
    train, dev, holdout = (
        tuple(TrainingData(title_of(one), rated) for one, rated in read_all_rated(named).items())
        for named in (arguments.train, arguments.dev, arguments.holdout)
    )
    plan = FinetunePlan(scorer.requested, train, dev, holdout, recipe)
    done = finetune(plan, arguments.output, options=options, name=name, resume=arguments.resume)
    print(f"{done.steps} steps; mean squared error on training segments {done.loss:.4f} (of standardised ratings, whose variance is 1)")
    if done.before is not None and done.best is not None:
        for what, found in (("untrained", done.before), (f"epoch {done.best.epoch:g}", done.best)):
            print(f"dev, {what}: Pearson {found.pearson:.4f}, Kendall {found.kendall:.4f}")
    print(f"use -m {arguments.metric} --set {' '.join(f'{key}={value}' for key, value in done.keys.items())}")
    print(f"signature {done.signature}")
    return 0
