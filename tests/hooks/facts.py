from typing import Any

import numpy as np

from axonrl.hooks.events import BeginFacts, EndFacts, TimestepFacts, UpdateFacts

BEGIN = BeginFacts(num_envs=1, resumed=False, limits={})
UPDATE = UpdateFacts(0.5, {})
END = EndFacts("done", None, 1.0)
_ROW = np.zeros(1)
TIMESTEP = TimestepFacts(_ROW, _ROW, _ROW, _ROW, _ROW, _ROW)


def begun(hook: Any, session: Any, state: Any = None, facts: BeginFacts = BEGIN) -> Any:
    """A hook at the beginning of a run, which resumes where it had a ``state``."""
    if state is not None:
        hook.load_state_dict(state)
    hook.begin(session, facts)
    return hook
