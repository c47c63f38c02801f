"""Print the table of an algorithm's parameters, as its page in docs has it: ``python -m axonrl.models dqn``."""

import importlib
import sys

from .blocks.params import Params, table


def params_of(algorithm: str) -> type[Params]:
    """The class of an algorithm's parameters, by the name of its module."""
    module = importlib.import_module(f"axonrl.models.{algorithm}")
    return next(
        value
        for value in vars(module).values()
        if isinstance(value, type) and issubclass(value, Params) and value.__module__ == module.__name__
    )


if __name__ == "__main__":
    for name in sys.argv[1:]:
        print(table(params_of(name)))
