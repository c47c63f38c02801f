"""What the transitions of these tests look like."""

from __future__ import annotations

import numpy as np

from axonrl.contracts import ArraySpec, SpecTree


def specs_of(observation: SpecTree) -> dict[str, SpecTree]:
    """Specs of transitions with such observations and discrete actions."""
    return {
        "observation": observation,
        "action": ArraySpec((), np.int32),
        "reward": ArraySpec((), np.float32),
        "terminated": ArraySpec((), np.bool_),
        "truncated": ArraySpec((), np.bool_),
        "next_observation": observation,
    }
