"""What the transitions of these tests look like."""

from __future__ import annotations

from typing import Any

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


def timestep(now: Any, following: Any, **changes: Any) -> dict[str, Any]:
    """What a memory's ``step`` takes; and ``extend``, if ``changes`` have arrays for the rest."""
    rest = {"action": 0, "reward": 0.0, "terminated": False, "truncated": False}
    return {"observation": now, "next_observation": following, **rest, **changes}


def timesteps(now: Any, following: Any, **changes: Any) -> dict[str, Any]:
    """What ``extend`` takes: the same for each lane."""
    rest = dict.fromkeys(("action", "reward", "terminated", "truncated"), np.zeros(len(now)))
    return timestep(now, following, **{**rest, **changes})
