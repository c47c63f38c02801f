"""Exploration: random actions with a probability that decays, or noise on actions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Final

import numpy as np

from ....core.protocols import Array, ArraySpec, State
from ...common.specs.argument_checks import anything, real
from ...common.specs.argument_table import Argument, Arguments, read_arguments
from ..spaces import BoxSpace
from ..utils.rlgraph_errors import mapping, number, refuse, translate_errors
from .decays import Decay, make_decay
from .per_environment import LaneMemory, lanes_of
from .typed_specs import kind_and_arguments
from .value_specs import num_categories_of, value_spec


class Exploration:
    """How actions differ from the model's own. Made by :func:`make_exploration`."""

    def __call__(
        self, greedy: Mapping[str, Array], t: int, rng: np.random.Generator, lanes: Sequence[int] | None = None
    ) -> tuple[dict[str, Array], Array]:
        """Explore.

        Args:
            greedy: the model's actions [B, ...] by flat name; they stay unchanged.
            t: the agent's timesteps after this call's increment; all rows share it.
            rng: what chance is drawn from.
            lanes: to which environment each row belongs, for noise that goes on; ``0 .. B - 1`` if None.

        Returns:
            actions, and bool [B]: where something random was done.

        Raises:
            RLGraphError: ``lanes`` does not fit the rows.
        """
        raise NotImplementedError

    def level(self, t: int) -> float:
        """How much it explores at a time: epsilon, a standard deviation, or the constant that is added."""
        raise NotImplementedError

    def to_json(self) -> dict[str, Any]:
        """The specification with all arguments, in JSON's types; :func:`make_exploration` takes it."""
        raise NotImplementedError

    def state_dict(self) -> State:
        """What it remembers; empty for most."""
        return {}

    def load_state_dict(self, state: State) -> None:
        """Take over what ``state_dict`` returned.

        Raises:
            RLGraphError: it is of another exploration; nothing has changed then.
        """


class EpsilonExploration(Exploration):
    """With a probability that decays, all parts of a row's action are random, uniformly over all actions.

    A random action may be the greedy one.
    """

    def __init__(self, epsilon: Decay, boxes: Mapping[str, BoxSpace]) -> None:
        self._epsilon = epsilon
        self._actions = {}
        for name, box in boxes.items():
            spec, low = value_spec(box), box.low
            self._actions[name] = (spec.shape, spec.dtype, num_categories_of(box) or 1, low.astype(np.int64))

    def __call__(
        self, greedy: Mapping[str, Array], t: int, rng: np.random.Generator, lanes: Sequence[int] | None = None
    ) -> tuple[dict[str, Array], Array]:
        """As :meth:`Exploration.__call__`; one decision per row."""
        rows = len(next(iter(greedy.values())))
        used = rng.random(rows) < self.level(t)
        if not any(used.tolist()):
            return dict(greedy), used
        actions = {}
        for name, (shape, dtype, categories, low) in self._actions.items():
            # Half the time of Generator.integers; 53 bits: no action is more likely by more than categories / 2**53.
            drawn = ((rng.random((rows, *shape)) * categories).astype(np.int64) + low).astype(dtype)
            actions[name] = drawn if rows == 1 else np.where(used.reshape(-1, *[1] * len(shape)), drawn, greedy[name])
        return actions, used

    def level(self, t: int) -> float:
        """Epsilon."""
        return self._epsilon.value(t)

    def to_json(self) -> dict[str, Any]:
        """As :meth:`Exploration.to_json`."""
        return {"epsilon_spec": {"decay_spec": self._epsilon.to_json()}}


class _Noise(Exploration):
    """Noise that is added to the actions, which are then clipped to their space."""

    kind: ClassVar[str]
    takes: ClassVar[Arguments]

    def __init__(self, where: str, arguments: Mapping[str, Any], boxes: Mapping[str, BoxSpace]) -> None:
        self._where, self._arguments = where, dict(arguments)
        self._specs = {name: value_spec(box) for name, box in boxes.items()}
        self._limits = {name: box.bounds for name, box in boxes.items()}

    def __call__(
        self, greedy: Mapping[str, Array], t: int, rng: np.random.Generator, lanes: Sequence[int] | None = None
    ) -> tuple[dict[str, Array], Array]:
        """As :meth:`Exploration.__call__`; in all rows something was done."""
        rows = len(next(iter(greedy.values())))
        of_rows = lanes_of(self._where, lanes, rows)
        actions = {}
        for name, spec in self._specs.items():
            noisy = greedy[name] + self._noise(name, of_rows, rng)
            low, high = self._limits[name]
            actions[name] = np.clip(noisy, low, high).astype(spec.dtype)
        return actions, np.ones(rows, np.bool_)

    def level(self, t: int) -> float:
        """As :meth:`Exploration.level`: the first argument."""
        return float(self._arguments[next(iter(self.takes))])

    def to_json(self) -> dict[str, Any]:
        """As :meth:`Exploration.to_json`."""
        return {"noise_spec": {"type": self.kind, **self._arguments}}

    def _noise(self, name: str, lanes: list[int], rng: np.random.Generator) -> Array:
        """The noise of a part, [B, ...]."""
        raise NotImplementedError

    def _normal(self, name: str, rows: int, rng: np.random.Generator) -> Array:
        return rng.standard_normal((rows, *self._specs[name].shape), np.float32)


class ConstantNoise(_Noise):
    """Always the same number."""

    kind = "constant_noise"
    takes: ClassVar[Arguments] = {"value": Argument(number, 0.0)}

    def _noise(self, name: str, lanes: list[int], rng: np.random.Generator) -> Array:
        return np.full((len(lanes), *self._specs[name].shape), self._arguments["value"], np.float32)


class GaussianNoise(_Noise):
    """Normal noise, independent in all components, rows and timesteps."""

    kind = "gaussian_noise"
    takes: ClassVar[Arguments] = {"stddev": Argument(real(at_least=0), 1.0), "mean": Argument(number, 0.0)}

    def _noise(self, name: str, lanes: list[int], rng: np.random.Generator) -> Array:
        noise: Array = self._arguments["mean"] + self._arguments["stddev"] * self._normal(name, len(lanes), rng)
        return noise


class OrnsteinUhlenbeckNoise(_Noise):
    """Noise x of each lane and component that is drawn back to mu, where it begins (Uhlenbeck and Ornstein 1930).

    In each timestep: ``x += theta * (mu - x) + sigma * normal``. It goes on from episode to episode.
    """

    kind = "ornstein_uhlenbeck"
    takes: ClassVar[Arguments] = {
        "sigma": Argument(real(at_least=0), 0.3),
        "mu": Argument(number, 0.0),
        "theta": Argument(real(at_least=0), 0.15),
    }

    def __init__(self, where: str, arguments: Mapping[str, Any], boxes: Mapping[str, BoxSpace]) -> None:
        super().__init__(where, arguments, boxes)
        self._memory = LaneMemory(where, {name: ArraySpec(s.shape, np.float32) for name, s in self._specs.items()})

    def state_dict(self) -> State:
        """The noise of each lane."""
        return self._memory.state_dict()

    def load_state_dict(self, state: State) -> None:
        """As :meth:`Exploration.load_state_dict`."""
        self._memory.restore(self._memory.read(state))

    def _noise(self, name: str, lanes: list[int], rng: np.random.Generator) -> Array:
        sigma, mu, theta = (self._arguments[key] for key in ("sigma", "mu", "theta"))
        start = np.full(self._specs[name].shape, mu, np.float32)
        before = [self._memory.get(lane, name) for lane in lanes]
        noise: Array = np.stack([start if x is None else x for x in before])
        noise = noise + theta * (mu - noise) + sigma * self._normal(name, len(lanes), rng)
        for lane, x in zip(lanes, noise, strict=True):
            self._memory.set(lane, name, x.copy())
        return noise


_NOISES: Final = {noise.kind: noise for noise in (ConstantNoise, GaussianNoise, OrnsteinUhlenbeckNoise)}
_ALIASES: Final = {
    "constant": ConstantNoise.kind,
    "gaussian": GaussianNoise.kind,
    "ornsteinuhlenbecknoise": OrnsteinUhlenbeckNoise.kind,
}


@translate_errors()
def make_exploration(where: str, spec: Any, spaces: Mapping[str, BoxSpace]) -> Exploration | None:
    """Exploration from what a user wrote; None where there is none.

    Args:
        where: its place, for messages: ``"DQNAgent: exploration_spec"``.
        spec: None, or a dictionary with one of ``epsilon_spec`` (a dictionary with a ``decay_spec``, see
            :func:`decays.make_decay`) and ``noise_spec`` (a dictionary with ``type``, ``gaussian_noise`` if there is
            none: ``constant_noise`` with ``value`` = 0.0, ``gaussian_noise`` with ``mean`` = 0.0 and ``stddev`` = 1.0,
            ``ornstein_uhlenbeck`` with ``sigma`` = 0.3, ``mu`` = 0.0 and ``theta`` = 0.15).
        spaces: of the actions, by flat name.

    Raises:
        RLGraphError: a key is unknown, an argument invalid, or it does not fit the actions; names it.
    """
    if spec is None:
        return None
    takes = {name: Argument(anything, None) for name in ("epsilon_spec", "noise_spec")}
    given = read_arguments(where, mapping(where, spec), takes, "exploration")
    if given["epsilon_spec"] is not None and given["noise_spec"] is not None:
        refuse(where, "takes epsilon_spec or noise_spec, not both", spec)
    if given["epsilon_spec"] is not None:
        return _epsilon(f"{where}['epsilon_spec']", given["epsilon_spec"], spaces)
    if given["noise_spec"] is not None:
        return _noise(f"{where}['noise_spec']", given["noise_spec"], spaces)
    return None


def epsilon_of(exploration: Exploration | None, t: int) -> float | None:
    """The probability of random actions at a time; None where there is no epsilon."""
    return exploration.level(t) if isinstance(exploration, EpsilonExploration) else None


def _epsilon(where: str, spec: Any, spaces: Mapping[str, BoxSpace]) -> Exploration:
    given = read_arguments(where, mapping(where, spec), {"decay_spec": Argument(anything)}, "epsilon exploration")
    for name, space in spaces.items():
        if num_categories_of(space) is None:
            _unfit(where, "actions with categories (an IntBox)", name, space, "noise_spec is for floats")
    return EpsilonExploration(make_decay(f"{where}['decay_spec']", given["decay_spec"], at_least=0, at_most=1), spaces)


def _noise(where: str, spec: Any, spaces: Mapping[str, BoxSpace]) -> Exploration:
    kind, given = kind_and_arguments(where, spec, _NOISES, default=GaussianNoise.kind, aliases=_ALIASES)
    for name, space in spaces.items():
        if np.dtype(space.dtype).kind != "f":
            _unfit(where, "actions of floats (a FloatBox)", name, space, "epsilon_spec is for an IntBox")
    return _NOISES[kind](where, read_arguments(where, given, _NOISES[kind].takes, kind), spaces)


def _unfit(where: str, needs: str, name: str, action: BoxSpace, instead: str) -> None:
    which = f"action {name!r}" if name else "the action"
    refuse(where, f"needs {needs}; {which} is {np.dtype(action.dtype)} {list(action.shape)}: {instead}", action)
