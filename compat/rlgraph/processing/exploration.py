"""Exploration: random actions with a probability that decays, or noise on actions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np

from ....core.protocols import Array, State
from ...common.specs.argument_checks import real
from ...common.specs.modules import resolve
from ...common.specs.tables import Argument, Entry, SpecTable, without_case
from ..spaces import BoolBox, BoxSpace, IntBox
from ..utils.rlgraph_errors import refuse, translate_errors
from .decays import Decay, make_decay
from .per_environment import lanes_of, unpacked


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
        """State to save; empty for most."""
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
            self._actions[name] = (box.shape, box.dtype, _categories(box) or 1, box.low.astype(np.int64))

    def __call__(
        self, greedy: Mapping[str, Array], t: int, rng: np.random.Generator, lanes: Sequence[int] | None = None
    ) -> tuple[dict[str, Array], Array]:
        """See ``Exploration.__call__``; one decision per row."""
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
        """See ``Exploration.to_json``."""
        return {"epsilon_spec": {"decay_spec": self._epsilon.to_json()}}


class NoiseExploration(Exploration):
    """Noise that is added to the actions, which are then clipped to their space.

    It is a process x of each lane and component that begins at mu (Uhlenbeck and Ornstein 1930). In each timestep:
    ``x += theta * (mu - x) + sigma * normal``. It goes on from episode to episode. With a theta of 1 it is independent
    normal noise, and a constant without sigma.

    Args:
        where: its place, for messages.
        given: the type and its arguments.
        boxes: of the actions, by flat name.
    """

    def __init__(self, where: str, given: Mapping[str, Any], boxes: Mapping[str, BoxSpace]) -> None:
        self._where, self._given, self._boxes = where, dict(given), dict(boxes)
        self._theta = given.get("theta", 1.0)
        self._mu = next(given[name] for name in ("mu", "mean", "value") if name in given)
        self._sigma = next((given[name] for name in ("sigma", "stddev") if name in given), 0.0)
        self._goes_on = "theta" in given
        self._lanes: dict[int, dict[str, Array]] = {}

    def __call__(
        self, greedy: Mapping[str, Array], t: int, rng: np.random.Generator, lanes: Sequence[int] | None = None
    ) -> tuple[dict[str, Array], Array]:
        """See ``Exploration.__call__``; in all rows something was done."""
        rows = len(next(iter(greedy.values())))
        remembered = self._lanes if self._goes_on else {}
        of_rows = [remembered.setdefault(lane, {}) for lane in lanes_of(self._where, lanes, rows)]
        actions = {}
        for name, box in self._boxes.items():
            start = np.full(box.shape, self._mu, np.float32)
            noise: Array = np.stack([lane.get(name, start) for lane in of_rows])
            noise = noise + self._theta * (self._mu - noise)
            if self._sigma:
                noise = noise + self._sigma * rng.standard_normal(noise.shape, np.float32)
            for lane, x in zip(of_rows, noise, strict=True):
                lane[name] = x.copy()
            actions[name] = np.clip(greedy[name] + noise, *box.bounds).astype(box.dtype)
        return actions, np.ones(rows, np.bool_)

    def level(self, t: int) -> float:
        """See ``Exploration.level``."""
        return float(self._given.get("value", self._sigma))

    def to_json(self) -> dict[str, Any]:
        """See ``Exploration.to_json``."""
        return {"noise_spec": dict(self._given)}

    def state_dict(self) -> State:
        """The noise of each lane; nothing where it is independent."""
        return {str(lane): dict(noise) for lane, noise in self._lanes.items()} if self._goes_on else {}

    def load_state_dict(self, state: State) -> None:
        """See ``Exploration.load_state_dict``."""
        if self._goes_on:
            self._lanes = unpacked(self._where, state, {name: box.shape for name, box in self._boxes.items()})


_COMPONENT: Final = dict.fromkeys(("scope", "backend"))
"""Arguments of RLgraph's components."""
_TABLES: Final = {
    "exploration": SpecTable(
        "exploration",
        {"exploration": Entry((Argument("epsilon_spec", None), Argument("noise_spec", None)))},
        default="exploration",
        typed=False,
    ),
    "epsilon": SpecTable(
        "epsilon exploration", {"epsilon": Entry((Argument("decay_spec"),))}, default="epsilon", typed=False
    ),
    "noise": SpecTable(
        "noise",
        {
            "constant_noise": Entry((Argument("value", 0.0, real()),)),
            "gaussian_noise": Entry((Argument("stddev", 1.0, real(at_least=0)), Argument("mean", 0.0, real()))),
            "ornstein_uhlenbeck": Entry(
                (
                    Argument("sigma", 0.3, real(at_least=0)),
                    Argument("mu", 0.0, real()),
                    Argument("theta", 0.15, real(at_least=0)),
                )
            ),
        },
        default="gaussian_noise",
        aliases={
            "constant": "constant_noise",
            "gaussian": "gaussian_noise",
            "ornstein_uhlenbeck_noise": "ornstein_uhlenbeck",
        },
        ignored=_COMPONENT,
        normalized=without_case,
        dotted=False,
    ),
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
    given = resolve(where, spec, "exploration", _TABLES)
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
    given = resolve(where, spec, "epsilon", _TABLES)
    for name, space in spaces.items():
        if _categories(space) is None:
            _unfit(where, "actions with categories (an IntBox)", name, space, "noise_spec is for floats")
    return EpsilonExploration(make_decay(f"{where}['decay_spec']", given["decay_spec"], at_least=0, at_most=1), spaces)


def _noise(where: str, spec: Any, spaces: Mapping[str, BoxSpace]) -> Exploration:
    given = resolve(where, spec, "noise", _TABLES)
    for name, space in spaces.items():
        if space.dtype.kind != "f":
            _unfit(where, "actions of floats (a FloatBox)", name, space, "epsilon_spec is for an IntBox")
    return NoiseExploration(where, given, spaces)


def _categories(box: BoxSpace) -> int | None:
    """How many values each number of an action has; None of floats, and where that is not known."""
    return 2 if isinstance(box, BoolBox) else box.num_categories if isinstance(box, IntBox) else None


def _unfit(where: str, needs: str, name: str, action: BoxSpace, instead: str) -> None:
    which = f"action {name!r}" if name else "the action"
    refuse(where, f"needs {needs}; {which} is {action.dtype} {list(action.shape)}: {instead}", action)
