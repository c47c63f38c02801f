"""Adapts environments of RLgraph's interface to Gymnasium's, for the actors of a cluster."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from ....core.checks import shortened
from ..processing.preprocessors import Preprocessor
from ..spaces import BoolBox, Dict, IntBox, Space, Tuple
from ..spaces.readers import StatesReader
from ..spaces.space_specs import with_boxes
from ..utils.rlgraph_errors import refuse
from .environment import Environment, step_environment

if TYPE_CHECKING:
    import gymnasium

GymnasiumSpace: TypeAlias = "gymnasium.Space[Any]"
AnyEnv: TypeAlias = "gymnasium.Env[Any, Any]"


@dataclasses.dataclass(frozen=True)
class EnvironmentFactory:
    """Makes Gymnasium environments from a specification; can be sent to other processes.

    Closing one terminates the environment. Only the seed of the first reset is used: later seeds would begin a new game
    where ``episodic_life`` continues the old one.

    Args:
        spec: a specification for ``Environment.from_spec``, without objects that belong to this process.
        preprocessing_spec: preprocessing of the states; each environment has its own Preprocessor.
        frame_skip: how often each action is repeated; rewards are summed.
        where: owner of the environments, for messages.
    """

    spec: Any
    preprocessing_spec: Any = None
    frame_skip: int = 1
    where: str = "EnvironmentFactory"

    def __call__(self) -> AnyEnv:
        """A new environment; it has the original as ``environment``, and the ``state_space`` of preprocessed states.

        Raises:
            RLGraphError: the specification is invalid, or the preprocessing does not fit the states.
        """
        import gymnasium

        environment = Environment.from_spec(self.spec)
        kind: Any = type(type(environment).__name__, (_FromRLGraph, gymnasium.Env), {})
        try:
            made: AnyEnv = kind(environment, self.preprocessing_spec, self.frame_skip, self.where)
        except BaseException:
            environment.terminate()
            raise
        return made


class _FromRLGraph:
    """The part that does not need Gymnasium, which is loaded when an environment is made."""

    def __init__(self, environment: Environment, preprocessing_spec: Any, frame_skip: int, where: str) -> None:
        self.environment, self._frame_skip = environment, frame_skip
        space = environment.state_space
        self._preprocessor = Preprocessor(f"{where}: preprocessing_spec", preprocessing_spec, space.flat())
        self.state_space = with_boxes(space, self._preprocessor.outputs)
        """The space of preprocessed states."""
        self._read = StatesReader(type(environment).__name__, space)
        self.observation_space = gymnasium_space(self.state_space)
        self.action_space = gymnasium_actions(environment.action_space)
        self._is_seeded = False

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begin an episode."""
        del options
        if seed is not None and not self._is_seeded:
            self.environment.seed(seed)
        self._is_seeded = self._is_seeded or seed is not None
        self._preprocessor.reset()
        return self._preprocess("reset", self.environment.reset()), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Act, repeating the action ``frame_skip`` times or until the episode ends."""
        step = step_environment(self.environment, action, self._frame_skip)
        terminated = step.terminal and not step.truncated
        return self._preprocess("step", step.state), step.reward, terminated, step.truncated, {}

    def render(self) -> Any:
        """Render the environment, if it can be rendered."""
        self.environment.render()

    def close(self) -> None:
        """Terminate the environment."""
        self.environment.terminate()

    def _preprocess(self, method: str, state: Any) -> Any:
        rows, single = self._read(method, state, "state")
        if not single:
            problem = f"must be one of {self.environment.state_space}, got a batch: {shortened(state)}"
            refuse(f"{type(self.environment).__name__}.{method}: state", problem, state)
        found = self._preprocessor(rows, ["env_0"])
        return self.state_space.unflatten({name: array[0] for name, array in found.items()})


def gymnasium_space(space: Space, *, keeps_bools: bool = False) -> GymnasiumSpace:
    """Gymnasium's space of the same values; with ``keeps_bools`` truth values are a Box of bools, not integers."""
    from gymnasium import spaces

    if isinstance(space, Dict):
        return spaces.Dict({key: gymnasium_space(part, keeps_bools=keeps_bools) for key, part in space.items()})
    if isinstance(space, Tuple):
        return spaces.Tuple([gymnasium_space(part, keeps_bools=keeps_bools) for part in space])
    if isinstance(space, IntBox):
        return _integers(space)
    if isinstance(space, BoolBox):
        if keeps_bools:
            return spaces.Box(0, 1, space.shape, np.bool_)
        return spaces.MultiBinary(space.shape) if space.shape else spaces.Discrete(2)
    box = space.flat()[""]
    low, high = (np.broadcast_to(bound, box.shape) for bound in box.bounds)
    return spaces.Box(low, high, dtype=np.float32)


def gymnasium_actions(space: Space) -> GymnasiumSpace:
    """Gymnasium's space of actions, whose bytes are categories, too."""
    boxes = space.flat().items()
    return gymnasium_space(
        with_boxes(space, {n: IntBox(b.low, b.high, b.shape) if b.dtype == np.uint8 else b for n, b in boxes})
    )


def _integers(space: IntBox) -> GymnasiumSpace:
    from gymnasium import spaces

    if space.num_categories and space.dtype != np.uint8:
        if not space.shape:
            return spaces.Discrete(space.num_categories, start=int(space.low))
        start = np.broadcast_to(space.low, space.shape)
        return spaces.MultiDiscrete(np.full(space.shape, space.num_categories), start=start)
    dtype: Any = space.dtype.type
    low, high = (np.broadcast_to(bound, space.shape).astype(dtype) for bound in (space.low, space.high - 1))
    return spaces.Box(low, high, dtype=dtype)


def sendable(where: str, spec: Any) -> Any:
    """A specification that other processes can use, with all dictionaries copied.

    Raises:
        RLGraphError: it contains an environment, or a function that other processes cannot import.
    """
    if isinstance(spec, Mapping):
        return {key: sendable(f"{where}[{key!r}]", value) for key, value in spec.items()}
    if isinstance(spec, list | tuple):
        return type(spec)(sendable(f"{where}[{index}]", value) for index, value in enumerate(spec))
    if hasattr(spec, "step") and hasattr(spec, "reset") and not isinstance(spec, type):
        refuse(
            where, f"is an environment, which cannot be in several processes: give its specification; got {spec}", spec
        )
    if callable(spec) and "<" in getattr(spec, "__qualname__", "<"):
        refuse(where, f"must be a function or class of a module, for other processes to import, got {spec!r}", spec)
    return spec
