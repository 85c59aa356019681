"""``twmd average``."""

from __future__ import annotations

import argparse

from twmd_registry.cli.files import check_folder
from twmd_registry.registry.names import Dtype
from twmd_registry.registry.options import RunOptions
from twmd_registry.registry.presets import name_preset


def run_average(arguments: argparse.Namespace) -> int:
    """Average adapters and print how to use the mean."""
    from twmd_registry.train.average import average

    name = name_preset(arguments.name, str(arguments.output.resolve()))
    check_folder(arguments.output)
    options = RunOptions(device=arguments.device)
    found = average(arguments.adapters, arguments.output, dtype=Dtype(arguments.dtype), options=options, name=name)
    metric = found.signature.partition("|")[0]
    print(f"the mean of {len(arguments.adapters)} adapters, of rank {found.rank}")
    print(f"use -m {metric} --set {' '.join(f'{key}={value}' for key, value in found.keys.items())}")
    print(f"signature {found.signature}")
    return 0
