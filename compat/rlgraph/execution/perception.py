"""Who turns an environment's states into what the model sees: the agent, the worker, or nobody."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..agents.agent import Agent
from ..processing.preprocessors import Preprocessor
from ..spaces import IntBox, Space, stacked
from ..spaces.readers import StatesReader
from ..spaces.rebuilt import rebuilt
from ..utils.rlgraph_errors import refuse
from .lane import SteppedEnvironment

_NAME = "SingleThreadedWorker"


class Perception:
    """Every state is preprocessed once, in order: next states are those that the agent then acts on.

    Args:
        agent: acts on them.
        states: the space of the environments' states.
        preprocessor: the worker's own; None: the agent preprocesses, if it has something to do.
    """

    def __init__(self, agent: Agent, states: Space, preprocessor: Preprocessor | None) -> None:
        self._agent, self._preprocessor = agent, preprocessor
        self._agent_does = preprocessor is None and agent.preprocesses
        self._read = StatesReader(_NAME, states)
        self._space = agent.preprocessed_state_space
        self._boxes = self._space.flat()
        found = states if preprocessor is None else rebuilt(states, preprocessor.outputs)
        wanted, what = (agent.state_space, "state_space") if preprocessor is None else (self._space, "model's states")
        if not _alike(found, wanted):
            refuse(f"{_NAME}: env_spec", f"has states {found}; the agent's {what} is {wanted}", found)

    def see(self, lane: SteppedEnvironment, state: Any) -> Any:
        """A state of a lane as the model sees it."""
        if self._preprocessor is None:
            return self._agent.preprocess_states(state, env_ids=lane.env_id) if self._agent_does else state
        arrays, _ = self._read("env_spec", state)
        found = self._preprocessor(arrays, [lane.number])
        return self._space.unflatten({name: found[name][0].astype(box.dtype) for name, box in self._boxes.items()})

    def begin(self, lane: SteppedEnvironment) -> None:
        """An episode begins in this lane: what was remembered of its states is forgotten."""
        self._agent.reset(lane.env_id)
        if self._preprocessor is not None:
            self._preprocessor.reset([lane.number])

    def batch(self, lanes: Sequence[SteppedEnvironment]) -> Any:
        """What the lanes see, with a leading axis."""
        return stacked(self._space, [lane.seen for lane in lanes])


def check_actions(agent: Agent, actions: Space) -> None:
    """Refuse environments that take other actions than the agent's."""
    if not _alike(agent.action_space, actions):
        problem = f"takes actions {actions}; the agent's action_space is {agent.action_space}"
        refuse(f"{_NAME}: env_spec", problem, actions)


def _alike(found: Space, wanted: Space) -> bool:
    """Same names, shapes, kinds of numbers, and categories; bounds of floats may differ."""
    ours, theirs = found.flat(), wanted.flat()
    return ours.keys() == theirs.keys() and all(_marks(box) == _marks(theirs[name]) for name, box in ours.items())


def _marks(box: Any) -> tuple[Any, ...]:
    values = (box.num_categories, box.low.tolist()) if isinstance(box, IntBox) and box.num_categories else ()
    return (box.shape, box.dtype.kind.replace("u", "i"), *values)
