"""The key ``seeds`` of an experiment file: the number of seeds, or a list of them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Annotated, Any, Final, TypeAlias

from pydantic import BeforeValidator, WithJsonSchema

from ...core.yaml_text import show
from .sections import integer_if_whole

MOST: Final = 1000
"""The maximum number of seeds; more are treated as a mistake, such as a seed instead of a number of seeds."""
MAX_SEED: Final = 2**63 - 1
_EXPECTED: Final = f"the number of seeds, 1 to {MOST:,}, or a list of different seeds of at least 0"
_PART: Final = re.compile(r"([0-9]{1,19})(?:-([0-9]{1,19}))?")


def _check_seeds(value: Any) -> Any:
    value = integer_if_whole(value)
    if isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= MOST:
        return value
    if isinstance(value, list) and 1 <= len(value) <= MOST:
        seeds = [integer_if_whole(one) for one in value]
        if all(type(one) is int and 0 <= one <= MAX_SEED for one in seeds) and len(set(seeds)) == len(seeds):
            return seeds
    raise ValueError(f"must be {_EXPECTED}, got {show(value)}")


Seeds: TypeAlias = Annotated[
    int | list[int],
    BeforeValidator(_check_seeds),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "integer", "minimum": 1, "maximum": MOST},
                {
                    "type": "array",
                    "items": {"type": "integer", "minimum": 0},
                    "minItems": 1,
                    "maxItems": MOST,
                    "uniqueItems": True,
                },
            ]
        }
    ),
]
"""A number of seeds, or the seeds."""


def seed_list(seeds: int | list[int], first: int | None) -> list[int]:
    """The list of seeds; a number of seeds begins at ``first``, or at 0."""
    return list(seeds) if isinstance(seeds, list) else [(first or 0) + index for index in range(seeds)]


def as_yaml(text: str) -> str:
    """Translate an option, ``8``, ``100-109`` or ``3,5,9``, to YAML; ``ValueError``."""
    if re.fullmatch("[0-9]{1,9}", text):
        return str(_check_seeds(int(text)))
    seeds: list[int] = []
    for part in text.split(","):
        bounds = _PART.fullmatch(part)
        first = int(bounds[1]) if bounds else 1
        last = int(bounds[2] or first) if bounds else 0
        if not 0 <= last - first < MOST:
            raise ValueError(f"must be a number of seeds (8), a range (100-109) or a list (3,5,9), got {text!r}")
        seeds += range(first, last + 1)
    return str(_check_seeds(seeds))


def seed_ranges(seeds: Sequence[int]) -> str:
    """Seeds as text, such as ``0 to 7, 12, 13``."""
    runs: list[list[int]] = []
    for seed in seeds:
        if runs and seed == runs[-1][-1] + 1:
            runs[-1].append(seed)
        else:
            runs.append([seed])
    return ", ".join(f"{run[0]} to {run[-1]}" if len(run) > 2 else ", ".join(map(str, run)) for run in runs)
