"""``python -m twmd_registry.hub FOLDER``: what ``make cards`` runs."""

import sys
from pathlib import Path

from twmd_registry.hub.space import write_cards

write_cards(Path(sys.argv[1]))
