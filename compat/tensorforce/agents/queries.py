"""What can be asked for with ``query``, and parameters that a call overrides."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from ..processing.parameters import Counts
from ..spaces.errors import choice, integer, known, number, refuse
from .actors import Actor
from .learner import bounds

if TYPE_CHECKING:
    from .learner import Learner

FUNCTIONS: Final = ("act", "observe", "experience", "update")
COUNTS: Final = ("timestep", "episode", "update")
_UPDATES: Final = {
    "horizon": "reward_estimation/horizon",
    "discount": "reward_estimation/discount",
    "l2-regularization": "l2_regularization",
    "entropy-regularization": "entropy_regularization",
}
"""Parameters of an update, and their places in the normal form; the learning rate's depends on the optimizer."""
_WHOLE: Final = {"horizon": 0, "update-start": 0, "update-frequency": 1, "update-batch-size": 1}
"""Those that are integers, and the least."""
_FIXED: Final = {
    "update-batch-size": "update/batch_size",
    "update-frequency": "update/frequency",
    "update-start": "update/start",
}


class Asked(NamedTuple):
    """A query that is valid."""

    names: list[str]
    single: bool
    """Was it one name, and not a list?"""


class Queries:
    """Names, values and overrides.

    Args:
        acting: what acts.
        learning: what learns; None for agents that do not.
    """

    def __init__(self, acting: Actor, learning: Learner | None) -> None:
        self._acting, self._learning = acting, learning
        self._paths = {} if learning is None else {**_UPDATES, "learning-rate": learning.learning_rate_path}

    def names(self, function: Any) -> list[str]:
        """What can be asked for of a function.

        Raises:
            TensorforceError: the function is none of :data:`FUNCTIONS`.
        """
        choice("Agent.get_query_tensors: function", function, FUNCTIONS)
        if function == "act":
            return sorted([*COUNTS, *self._acting.setting_names(), *self._acting.query_names()])
        return sorted([*COUNTS, *(["loss", *self._paths, *_FIXED] if self._learning is not None else [])])

    def checked(self, function: str, query: Any) -> Asked | None:
        """The query of a call; None if there is none."""
        if query is None:
            return None
        single = isinstance(query, str)
        if not single and not (isinstance(query, list | tuple) and all(isinstance(name, str) for name in query)):
            refuse(f"Agent.{function}: query", f"must be a name or a list of names, got {query!r}", query)
        names = [query] if single else list(query)
        known(f"Agent.{function}: query", names, self.names(function), what="name")
        return Asked(names, single)

    def act(self, asked: Asked, counts: Counts, single: bool) -> Any:
        """The values after an act; of one parallel index without a batch axis."""
        last = self._acting.last
        values: dict[str, Any] = dict(zip(COUNTS, counts, strict=True))
        if last is not None:
            levels = last.levels
            explorations = list(levels.exploration.values())
            values["exploration"] = np.float32(explorations[0])
            values["temperature"] = np.float32(next(iter(levels.temperature.values())))
            values |= {f"{name}-exploration": np.float32(x) for name, x in levels.exploration.items()}
            values |= {name: array[0] if single else array for name, array in self._acting.described().items()}
            values["variable-noise"] = np.float32(last.noise)
        return _picked(asked, values)

    def observe(self, asked: Asked, counts: Counts, overrides: Mapping[str, float]) -> Any:
        """The values after an observe, an experience or an update."""
        values: dict[str, Any] = dict(zip(COUNTS, counts, strict=True))
        learning = self._learning
        if learning is not None:
            with learning.unchanged():
                found = learning.values(counts, overrides)
                values["update-start"] = learning.start_at(counts, overrides)
                values["update-frequency"] = learning.frequency_at(counts, overrides)
            values["loss"] = np.float32(learning.loss)
            values |= {name: np.float32(found[path]) for name, path in self._paths.items() if path in found}
            values["horizon"] = np.int64(round(found["reward_estimation/horizon"]))
            values["update-batch-size"] = learning.memory.batch_size
        return _picked(asked, values)

    def overrides(self, where: str, given: Mapping[str, Any]) -> dict[str, float]:
        """Numbers for one call, by their places in the normal form.

        Raises:
            TensorforceError: a name is unknown, or a value invalid.
        """
        if not given:
            return {}
        names = {name.removeprefix("estimator/").replace("_", "-"): value for name, value in given.items()}
        paths = {**self._paths, **(_FIXED if self._paths else {})}
        known(where, names, list(paths))
        learning = self._learning
        if (
            learning is not None
            and names.get("update-batch-size", learning.memory.batch_size) != learning.memory.batch_size
        ):
            size = learning.memory.batch_size
            refuse(
                f"{where}: update-batch-size",
                f"cannot change: the model is built for {size}",
                names["update-batch-size"],
            )
        found = {}
        for name, value in names.items():
            place = f"{where}: {name}"
            if name in _WHOLE:
                found[paths[name]] = float(integer(place, value, at_least=_WHOLE[name]))
            else:
                found[paths[name]] = number(place, value, **bounds(paths[name]))
        return found


def _picked(asked: Asked, values: Mapping[str, Any]) -> Any:
    found = [values[name] for name in asked.names]
    return found[0] if asked.single else found
