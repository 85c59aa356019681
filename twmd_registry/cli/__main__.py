"""``python -m twmd_registry.cli``."""

import sys

from twmd_registry.cli import main

sys.exit(main())
