"""``twmd setup space``: a metric's Hugging Face Space."""

from __future__ import annotations

from twmd_registry.cli import declare
from twmd_registry.cli.declare import Arguments, command
from twmd_registry.cli.groups import group
from twmd_registry.demo.space import metrics_with_card

space_command = group(
    "space",
    "Build a metric's Hugging Face Space, or push it to the Hub.",
    package="twmd_registry.cli.setup",
    sections={"Commands": ("space", "build push")},
    example="twmd setup space build -m moverscore -o spaces/moverscore",
)


@command("build", example="twmd setup space build -m twmd -o spaces/twmd")
@declare.metric("The metric.", metrics_with_card(), required=True)
@declare.output("A new or empty folder.", required=True)
def build_command(arguments: Arguments) -> int:
    """Build a metric's Space in a folder: card, page, requirements and evaluate module. Needs no network or token."""
    from twmd_registry.demo.space import build_space

    (metric,) = arguments.metrics
    module = build_space(metric, arguments.output)
    print(f"built {arguments.output}; load it with evaluate.load({str(module)!r})")
    return 0


@command("push", example="twmd setup space push my-org/twmd -m twmd --private")
@declare.argument("space", metavar="ORG/NAME")
@declare.metric("The metric.", metrics_with_card(), required=True)
@declare.flag("--private", "Make it visible to its owner only.")
@declare.option("--token-file", "FILE", "File with the token, instead of the environment.")
def push_command(arguments: Arguments) -> int:
    """Build a metric's Space and upload it to the Hub, with the token of HF_TOKEN or 'hf auth login'.

    The Space ORG/NAME is created if it does not exist.
    """
    from twmd_registry.demo.space import push_space, read_token

    token = read_token(arguments.token_file)
    (metric,) = arguments.metrics
    address = push_space(metric, arguments.space, token=token, private=arguments.private)
    print(f"pushed {address}; load it with evaluate.load({arguments.space!r})")
    return 0
