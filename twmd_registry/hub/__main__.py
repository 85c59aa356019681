"""``python -m twmd_registry.hub FOLDER``: what ``make cards`` runs."""

from pathlib import Path

import click

from twmd_registry.hub.space import write_cards


@click.command()
@click.argument("folder", type=click.Path(file_okay=False, path_type=Path))
def main(folder: Path) -> None:
    """Write the card of every metric into FOLDER."""
    write_cards(folder)


main()
