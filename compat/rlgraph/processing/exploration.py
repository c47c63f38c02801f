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


class EpsilonExploration:
    """Epsilon-greedy: with a decaying probability, all parts of a row's action are drawn uniformly.

    A random action may be the greedy one.

    Args:
        epsilon: schedule of the probability.
        boxes: boxes of the actions, by flat name.
    """

    def __init__(self, epsilon: Decay, boxes: Mapping[str, BoxSpace]) -> None:
        self.epsilon = epsilon
        self._boxes = {name: (box, _categories(box) or 1, box.low.astype(np.int64)) for name, box in boxes.items()}

    def __call__(
        self, greedy: Mapping[str, Array], t: int, rng: np.random.Generator, lanes: Sequence[str]
    ) -> tuple[dict[str, Array], Array]:
        """Explore, with one decision per row.

        Args:
            greedy: the model's actions [B, ...] by flat name; they are not changed.
            t: the agent's timesteps, including those of this call; shared by all rows.
            rng: random generator.
            lanes: the environment of each row.

        Returns:
            Actions, and bool [B]: which rows explored.
        """
        used = rng.random(len(lanes)) < self.level(t)
        if not any(used.tolist()):
            return dict(greedy), used
        actions = {}
        for name, (box, categories, low) in self._boxes.items():
            # Half the time of Generator.integers; 53 bits: no action is more likely by more than categories / 2**53.
            drawn = (rng.random((len(lanes), *box.shape)) * categories).astype(np.int64) + low
            mask = used.reshape(-1, *[1] * len(box.shape))
            actions[name] = (drawn if len(lanes) == 1 else np.where(mask, drawn, greedy[name])).astype(box.dtype)
        return actions, used

    def level(self, t: int) -> float:
        """Epsilon at a timestep."""
        return float(self.epsilon(t))


class NoiseExploration:
    """Noise added to the actions, which are then clipped to their space.

    An Ornstein-Uhlenbeck process x per lane and component, starting at mu (Uhlenbeck and Ornstein 1930). In each
    timestep ``x += theta * (mu - x) + sigma * normal``. It continues across episodes. A theta of 1 gives independent
    Gaussian noise, or a constant if sigma is 0.

    Args:
        given: the type and its arguments.
        boxes: boxes of the actions, by flat name.
    """

    def __init__(self, given: Mapping[str, Any], boxes: Mapping[str, BoxSpace]) -> None:
        self._boxes, self._value = dict(boxes), given.get("value")
        self._goes_on, self._theta = "theta" in given, given.get("theta", 1.0)
        self._mu = next(given[name] for name in ("mu", "mean", "value") if name in given)
        self._sigma = next((given[name] for name in ("sigma", "stddev") if name in given), 0.0)
        self._lanes: dict[str, dict[str, Array]] = {}

    def __call__(
        self, greedy: Mapping[str, Array], t: int, rng: np.random.Generator, lanes: Sequence[str]
    ) -> tuple[dict[str, Array], Array]:
        """See ``EpsilonExploration.__call__``; all rows explore."""
        of_rows = [self._lanes.setdefault(lane, {}) if self._goes_on else {} for lane in lanes]
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
        return actions, np.ones(len(lanes), np.bool_)

    def level(self, t: int) -> float:
        """The standard deviation, or the constant that is added."""
        return float(self._sigma if self._value is None else self._value)

    def state_dict(self) -> State:
        """The noise of each lane; empty for independent noise."""
        return {lane: dict(noise) for lane, noise in self._lanes.items()}

    def load_state_dict(self, state: State) -> None:
        """Restore what ``state_dict`` returned."""
        self._lanes = {lane: {name: np.array(x) for name, x in noise.items()} for lane, noise in state.items()}


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
        ignored=dict.fromkeys(("scope", "backend")),
        normalized=without_case,
        dotted=False,
    ),
}


@translate_errors()
def make_exploration(
    where: str, spec: Any, spaces: Mapping[str, BoxSpace]
) -> EpsilonExploration | NoiseExploration | None:
    """Exploration from a user's specification; None without one.

    Args:
        where: its place, for messages: ``"DQNAgent: exploration_spec"``.
        spec: None, or a dictionary with either ``epsilon_spec`` (a dictionary with a ``decay_spec``, see
            :func:`decays.make_decay`) or ``noise_spec`` (a dictionary with ``type``, ``gaussian_noise`` by default:
            ``constant_noise`` with ``value`` = 0.0, ``gaussian_noise`` with ``mean`` = 0.0 and ``stddev`` = 1.0,
            ``ornstein_uhlenbeck`` with ``sigma`` = 0.3, ``mu`` = 0.0 and ``theta`` = 0.15).
        spaces: spaces of the actions, by flat name.

    Raises:
        RLGraphError: a key is unknown, or an argument is invalid or does not fit the actions; names the key.
    """
    if spec is None:
        return None
    epsilon, noise = resolve(where, spec, "exploration", _TABLES).values()
    if epsilon is not None and noise is not None:
        refuse(where, "takes epsilon_spec or noise_spec, not both", spec)
    if epsilon is not None:
        place = f"{where}['epsilon_spec']"
        given = resolve(place, epsilon, "epsilon", _TABLES)
        _check(place, spaces, _categories, "actions with categories (an IntBox)", "noise_spec is for floats")
        return EpsilonExploration(
            make_decay(f"{place}['decay_spec']", given["decay_spec"], at_least=0, at_most=1), spaces
        )
    if noise is None:
        return None
    place = f"{where}['noise_spec']"
    given = resolve(place, noise, "noise", _TABLES)
    _check(place, spaces, _is_float, "actions of floats (a FloatBox)", "epsilon_spec is for an IntBox")
    return NoiseExploration(given, spaces)


def _categories(box: BoxSpace) -> int | None:
    """Number of values of each component of an action; None for floats, and if unknown."""
    return 2 if isinstance(box, BoolBox) else box.num_categories if isinstance(box, IntBox) else None


def _is_float(box: BoxSpace) -> bool:
    return bool(box.dtype.kind == "f")


def _check(where: str, spaces: Mapping[str, BoxSpace], fits: Any, needs: str, instead: str) -> None:
    for name, box in spaces.items():
        if not fits(box):
            which = f"action {name!r}" if name else "the action"
            refuse(where, f"needs {needs}; {which} is {box.dtype} {list(box.shape)}: {instead}", box)
