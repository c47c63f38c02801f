"""Print the table of an algorithm's parameters, as its page in docs has it: ``python -m axonrl.models dqn``."""

import sys

from .blocks.params import params_of, table

if __name__ == "__main__":
    for name in sys.argv[1:]:
        print(table(params_of(name)))
