"""Print the table of an algorithm's parameters for its page in docs: ``python -m axonrl.models dqn``."""

import sys

from ..core.registry import find
from .blocks.params import params_of, table

if __name__ == "__main__":
    for name in sys.argv[1:]:
        try:
            find("model_fn", name)
        except ValueError as error:
            sys.exit(f"axonrl.models: error: {error}")
        print(table(params_of(name)))
