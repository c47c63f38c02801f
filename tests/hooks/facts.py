"""What a session tells hooks, where it does not matter."""

import numpy as np

from axonrl.facts import BeginFacts, EndFacts, TimestepFacts, UpdateFacts

BEGIN = BeginFacts(num_envs=1, resumed=False, limits={})
UPDATE = UpdateFacts(0.5, {})
END = EndFacts("done", None, 1.0)
_ROW = np.zeros(1)
TIMESTEP = TimestepFacts(_ROW, _ROW, _ROW, _ROW, _ROW, _ROW)
