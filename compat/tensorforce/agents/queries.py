"""Values returned by ``query``, and parameters overridden by a call."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, TypeAlias

import numpy as np

from ..processing.parameters import Counts
from ..spaces.errors import choice, integer, number, refuse, refuse_unknown
from .acting import NOISE, Acting
from .learner import DISCOUNT, FREQUENCY, HORIZON, START, Learner, learning_rate_path

FUNCTIONS: Final = ("act", "observe", "experience", "update")
COUNTS: Final = ("timestep", "episode", "update")
_BATCH_SIZE: Final = "update-batch-size"
_PATHS: Final = {
    "horizon": HORIZON,
    "discount": DISCOUNT,
    "l2-regularization": "l2_regularization",
    "entropy-regularization": "entropy_regularization",
    _BATCH_SIZE: "update/batch_size",
    "update-frequency": FREQUENCY,
    "update-start": START,
}
"""Parameters of an update, and their places in the normal form; the learning rate's depends on the optimizer."""
_WHOLE: Final = {"horizon": 0, "update-start": 0, "update-frequency": 1, _BATCH_SIZE: 1}
"""Parameters that are integers, and their lowest values."""


Asked: TypeAlias = "str | list[str]"
"""A valid query: one name, or a list."""


def _of(asked: Asked, values: Mapping[str, Any]) -> Any:
    return values[asked] if isinstance(asked, str) else [values[name] for name in asked]


class Queries:
    """Names, values and overrides.

    Args:
        acting: the acting part.
        learning: the learning part; None for agents that do not learn.
    """

    def __init__(self, acting: Acting, learning: Learner | None) -> None:
        self._acting, self._learning = acting, learning
        self._paths: dict[str, str] = {}
        if learning is not None:
            self._paths = {**_PATHS, "learning-rate": learning_rate_path(learning.form["optimizer"])}

    def names(self, function: Any) -> list[str]:
        """Query names of a function, sorted.

        Raises:
            TensorforceError: the function is not one of :data:`FUNCTIONS`.
        """
        choice("Agent.get_query_tensors: function", function, FUNCTIONS)
        if function == "act":
            return sorted([*COUNTS, *self._acting.setting_names, *self._acting.chooser.names()])
        return sorted([*COUNTS, *(["loss", *self._paths] if self._learning is not None else [])])

    @staticmethod
    def outputs(function: Any, actions: Iterable[str], internals: Iterable[str]) -> list[str]:
        """Names of a function's outputs in Tensorforce, in order.

        Raises:
            TensorforceError: the function is unknown.
        """
        found = {
            "act": [*actions, "timestep"],
            "independent_act": [*actions, *internals],
            "observe": ["updated", "episode", "update"],
            **{name: list(COUNTS) for name in ("reset", "experience", "update")},
        }
        return found[choice("Agent.get_output_tensors: function", function, found)]

    def check(self, function: str, query: Any) -> Asked | None:
        """The query of a call; None if there is none."""
        if query is None:
            return None
        single = isinstance(query, str)
        if not single and not (isinstance(query, list | tuple) and all(isinstance(name, str) for name in query)):
            refuse(f"Agent.{function}: query", f"must be a name or a list of names, got {query!r}", query)
        refuse_unknown(f"Agent.{function}: query", [query] if single else query, self.names(function), what="name")
        return query if single else list(query)

    def act(self, asked: Asked, counts: Counts, single: bool) -> Any:
        """Queried values after an act; without a batch axis for one parallel index."""
        values: dict[str, Any] = dict(zip(COUNTS, counts, strict=True))
        if (last := self._acting.last) is not None:
            for kind, by_action in zip(("temperature", "exploration"), last.levels, strict=True):
                levels = {name: np.float32(level) for name, level in by_action.items()}
                values |= {kind: next(iter(levels.values())), **{f"{name}-{kind}": x for name, x in levels.items()}}
            shown = self._acting.chooser.parameters(last)
            values |= {name: array[0] if single else array for name, array in shown.items()}
            values[NOISE] = np.float32(last.noise)
        return _of(asked, values)

    def observe(self, asked: Asked, counts: Counts, overrides: Mapping[str, float]) -> Any:
        """Queried values after an observe, an experience or an update."""
        values: dict[str, Any] = dict(zip(COUNTS, counts, strict=True))
        if (learning := self._learning) is not None:
            with learning.undone():
                found = learning.values(counts, overrides)
                values["update-start"], values["update-frequency"] = learning.timing(counts, overrides)
            values |= {name: np.float32(found[path]) for name, path in self._paths.items() if path in found}
            values["loss"] = np.float32(learning.loss)
            values["horizon"] = np.int64(round(found[HORIZON]))
            values[_BATCH_SIZE] = learning.memory.batch_size
        return _of(asked, values)

    def overrides(self, where: str, given: Mapping[str, Any]) -> dict[str, float]:
        """Overriding numbers for one call, by path in the normal form.

        Raises:
            TensorforceError: a name is unknown, or a value invalid.
        """
        if not given:
            return {}
        names = {name.removeprefix("estimator/").replace("_", "-"): value for name, value in given.items()}
        refuse_unknown(where, names, list(self._paths))
        learning = self._learning
        assert learning is not None  # which has the paths
        if _BATCH_SIZE in names:
            size, value = learning.memory.batch_size, names[_BATCH_SIZE]
            if value != size:
                refuse(f"{where}: {_BATCH_SIZE}", f"cannot change: the model is built for {size}", value)
        found = {}
        for name, value in names.items():
            place, path = f"{where}: {name}", self._paths[name]
            if name in _WHOLE:
                found[path] = float(integer(place, value, at_least=_WHOLE[name]))
            else:
                found[path] = number(place, value, **learning.parameters[path].bounds)
        return found
