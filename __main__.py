"""``python -m axonrl`` is the command ``axonrl``."""

import sys

from .experiments.commands.cli import main

if __name__ == "__main__":
    sys.exit(main())
