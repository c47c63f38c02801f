"""Decays as schedules of axonrl, which are numbers on the host and tensors inside a model."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from ....core.schedules import PythonOps


@dataclasses.dataclass(frozen=True)
class DecaySchedule:
    """The values of a :class:`~.decays.Decay`, as an :class:`axonrl.schedules.Schedule` has them.

    Args:
        spec: what ``Decay.to_json`` returned.
    """

    spec: Mapping[str, Any]

    def __call__(self, t: Any, ops: Any = PythonOps) -> Any:
        """The value at time ``t``: an int, or with ``keras.ops`` an integer scalar tensor."""
        spec = self.spec
        if "constant_value" in spec:
            return ops.cast(spec["constant_value"], "float32")
        start, end = spec["from"], spec["to"]
        passed = ops.cast(t - spec["start_timestep"], "float32") / spec["num_timesteps"]
        passed = ops.minimum(ops.maximum(passed, 0.0), 1.0)
        if "half_life" not in spec:
            return end + (start - end) * ops.power(1.0 - passed, spec.get("power", 1.0))
        half_lives = spec["num_timesteps"] / spec["half_life"]
        within = end + (start - end) * ops.power(0.5, passed * half_lives)
        return ops.where(passed >= 1.0, end, within)

    @property
    def bounds(self) -> tuple[float, float]:
        """The smallest and the largest value."""
        spec = self.spec
        ends = [spec["constant_value"]] if "constant_value" in spec else [spec["from"], spec["to"]]
        return min(ends), max(ends)
