"""``twmd average``."""

from __future__ import annotations

import rich_click as click

from twmd_registry.cli.declare import FOLDER, INPUT_FOLDER, Arguments, argument, command, option
from twmd_registry.cli.inputs import check_folder
from twmd_registry.registry.names import Dtype
from twmd_registry.registry.options import RunOptions
from twmd_registry.registry.presets import name_preset
from twmd_registry.registry.spec import keys_to_set


@command("average", example="twmd average seed1/ seed2/ seed3/ -o adapter/")
@argument("adapters", nargs=-1, required=True, type=INPUT_FOLDER, metavar="DIR...")
@option("-o", "--output", type=FOLDER, required=True, metavar="DIR", help="Where the mean is written.")
@option(
    "--dtype",
    type=click.Choice([str(dtype) for dtype in Dtype]),
    default=str(Dtype.FLOAT32),
    help="Of the adapter's numbers (default: float32).",
)
@option("--name", metavar="NAME", help="Of the preset (default: the name of DIR, with a number where that is taken).")
@option("--device", default="auto", help="auto, cpu, cuda, cuda:1, mps (default: auto).")
def average_command(arguments: Arguments) -> int:
    """Average the adapters of several 'twmd finetune' runs (of other seeds, say) into one, which scores as fast as one
    of them.
    """
    from twmd_registry.train.average import average

    name = name_preset(arguments.name, str(arguments.output.resolve()))
    check_folder(arguments.output)
    options = RunOptions(device=arguments.device)
    scorer, rank = average(
        arguments.adapters, arguments.output, dtype=Dtype(arguments.dtype), options=options, name=name
    )
    keys = " ".join(f"{key}={value}" for key, value in keys_to_set(scorer.requested).items())
    print(f"the mean of {len(arguments.adapters)} adapters, of rank {rank}")
    print(f"use -m {scorer.requested.metric} --set {keys}")
    print(f"signature {scorer.signature}")
    return 0
