"""``twmd finetune``."""

from __future__ import annotations

import argparse

from twmd_registry.cli.score import make_scorers
from twmd_registry.cli.tune import preset_name
from twmd_registry.rated.sets import read_rated, title_of
from twmd_registry.registry.options import RunOptions


def run_finetune(arguments: argparse.Namespace) -> int:
    """Train a metric, print what it reached and how to use it."""
    from twmd_registry.train.data import NamedData
    from twmd_registry.train.finetune import Plan, finetune
    from twmd_registry.train.recipe import Recipe, Target, Weights

    name = preset_name(arguments)  # what cannot be fails here
    options = RunOptions(device=arguments.device, batch_tokens=arguments.batch_tokens)
    arguments.set = [f"model={arguments.model}", *arguments.set]
    (scorer,) = make_scorers([arguments.metric], arguments, options)
    recipe = Recipe(
        weights=Weights.FULL if arguments.full else Weights(arguments.adapter),
        rank=arguments.rank,
        epochs=arguments.epochs,
        learning_rate=arguments.learning_rate,
        batch=arguments.batch,
        seed=arguments.seed,
        target=Target(arguments.target),
        save_steps=arguments.save_steps,
    )
    train, dev, holdout = (
        tuple(NamedData(title_of(one), read_rated(one)) for one in named) for named in (arguments.train, arguments.dev, arguments.holdout)
    )
    plan = Plan(scorer.requested, train, dev, holdout, recipe)
    done = finetune(plan, arguments.output, options=options, name=name, resume=arguments.resume)
    print(f"{done.steps} steps, last logged loss {done.loss:.4f}")
    if done.before is not None and done.best is not None:
        for what, found in (("untrained", done.before), (f"epoch {done.best.epoch:g}", done.best)):
            print(f"dev, {what}: Pearson {found.pearson:.4f}, Kendall {found.kendall:.4f}")
    print(f"use -m {arguments.metric} --set {' '.join(f'{key}={value}' for key, value in done.keys.items())}")
    print(f"signature {done.signature}")
    return 0
