"""``python -m twmd_registry.hub FOLDER``: what ``make cards`` runs."""

import argparse
from pathlib import Path

from twmd_registry.hub.space import write_cards

parser = argparse.ArgumentParser(prog="twmd_registry.hub", description="Write the card of every metric into FOLDER.")
parser.add_argument("folder", metavar="FOLDER", type=Path)
write_cards(parser.parse_args().folder)
