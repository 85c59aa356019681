"""``twmd hub build`` and ``twmd hub push``."""

from __future__ import annotations

import rich_click as click

from twmd_registry.cli.declare import FILE, FOLDER, Arguments, MetricParameter, argument, command, option
from twmd_registry.hub import metrics_with_card


@click.group("hub", no_args_is_help=False, epilog="Example: twmd hub build moverscore -o spaces/moverscore")
@click.option("-q", "--quiet", is_flag=True, help="No warnings, notices and progress bars; results and errors stay.")
def hub_command(*, quiet: bool) -> None:
    """Build a metric's Hugging Face Space, or push it to the Hub."""


@command("build", example="twmd hub build twmd -o spaces/twmd")
@argument("metric", type=MetricParameter(metrics_with_card()), metavar="METRIC")
@option("-o", "--output", type=FOLDER, required=True, metavar="DIR", help="A new or empty folder.")
def build_command(arguments: Arguments) -> int:
    """Put a metric's Space together in a folder: card, page, requirements and evaluate module. Needs no network and no
    token.
    """
    from twmd_registry.hub.space import build_space

    module = build_space(arguments.metric, arguments.output)
    print(f"built {arguments.output}; load it with evaluate.load({str(module)!r})")
    return 0


@command("push", example="twmd hub push twmd my-org/twmd --private")
@argument("metric", type=MetricParameter(metrics_with_card()), metavar="METRIC")
@argument("space", metavar="ORG/NAME")
@option("--private", is_flag=True, help="Create it so that only its owner sees it.")
@option("--token-file", type=FILE, metavar="FILE", help="A file that holds the token, instead of the environment.")
def push_command(arguments: Arguments) -> int:
    """Build a metric's Space and upload it to the Hub, with the token of HF_TOKEN or 'hf auth login'.

    The Space ORG/NAME is created when it is not there.
    """
    from twmd_registry.hub.space import push_space, read_token

    address = push_space(
        arguments.metric, arguments.space, token=read_token(arguments.token_file), private=arguments.private
    )
    print(f"pushed {address}; load it with evaluate.load({arguments.space!r})")
    return 0


hub_command.add_command(build_command)
hub_command.add_command(push_command)
