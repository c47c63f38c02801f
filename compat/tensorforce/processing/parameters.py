"""Parameters: numbers that follow the agent's counts or chance, evaluated on the host in float64."""

from __future__ import annotations

import bisect
import dataclasses
import itertools
import math
from collections.abc import Callable, Mapping
from numbers import Integral
from typing import Any, Final, NamedTuple

import numpy as np

from ....core.protocols import State
from ...common.specs.argument_checks import flag, one_of, real, several, whole
from ...common.specs.modules import read_arguments
from ...common.specs.tables import Argument
from ..spaces.errors import choice, number, refuse, translate_errors
from .decays import DECAYS, Curve, changed


class Counts(NamedTuple):
    """Counts of an agent so far."""

    timesteps: int
    episodes: int
    updates: int


@dataclasses.dataclass(frozen=True)
class _Bounds:
    """Where a parameter has to stay; ``above`` is exclusive."""

    at_least: float = -math.inf
    at_most: float = math.inf
    above: float = -math.inf

    def allow(self, value: float, approached: bool = False) -> bool:
        """Is it finite and inside? What is only ever approached may be equal to ``above``."""
        over = value > self.above or (approached and value == self.above)
        return math.isfinite(value) and over and self.at_least <= value <= self.at_most

    def clip(self, value: float) -> float:
        """The nearest value from ``at_least`` to ``at_most``."""
        return min(max(value, self.at_least), self.at_most)

    def __str__(self) -> str:
        words = {"above": self.above, "of at least": self.at_least, "of at most": self.at_most}
        wanted = " and".join(f" {word} {bound:g}" for word, bound in words.items() if math.isfinite(bound))
        return f"a finite number{wanted}"


class Parameter:
    """A number that may change with the agent's counts, or by chance. Made by :func:`make_parameter`."""

    constant: float | None = None
    """The number, of one that never changes."""

    def __init__(self, where: str, spec: Any, bounds: _Bounds) -> None:
        self._where, self._spec, self._bounds = where, spec, bounds

    @property
    def spec(self) -> Any:
        """A number, or a dictionary of JSON's types with every argument: :func:`make_parameter` takes it again."""
        return self._spec

    def value(self, counts: Counts, rng: np.random.Generator) -> float:
        """The number now; random ones draw a new one at each call.

        Raises:
            TensorforceError: it is outside of its bounds, which could not be told before.
        """
        raise NotImplementedError

    def final(self) -> float:
        """The number at the end of the schedule, or what it approaches; the mean of random ones."""
        raise NotImplementedError

    def state_dict(self) -> State:
        """Random state; empty for most parameters."""
        return {}

    def load_state_dict(self, state: State) -> None:
        """Take over what ``state_dict`` returned; what another kind of parameter returned is left aside."""

    def _checked(self, value: float, what: str, approached: bool = False) -> float:
        if not self._bounds.allow(value, approached):
            problem = f"{what} {value:g}, and must be {self._bounds}; it is {self._spec!r}"
            refuse(self._where, problem, value)
        return value


class _Constant(Parameter):
    """The same number at all times."""

    def __init__(self, where: str, value: Any, bounds: _Bounds) -> None:
        self.constant = self._value = number(where, value, **dataclasses.asdict(bounds))
        super().__init__(where, int(value) if isinstance(value, Integral) else self._value, bounds)

    def value(self, counts: Counts, rng: np.random.Generator) -> float:
        return self._value

    def final(self) -> float:
        return self._value


class _Schedule(Parameter):
    """A curve over one of the counts."""

    def __init__(self, where: str, spec: Mapping[str, Any], bounds: _Bounds, curve: Curve) -> None:
        super().__init__(where, spec, bounds)
        self._unit, self._curve = Counts._fields.index(spec["unit"]), curve
        self._checked(curve.at(0), "begins at")
        self._checked(curve.end, "ends at", not curve.reached)

    def value(self, counts: Counts, rng: np.random.Generator) -> float:
        now = int(counts[self._unit])
        # What is approached may be met in the end: numbers are not exact.
        return self._checked(self._curve.at(now), f"at {now} {Counts._fields[self._unit]} is", not self._curve.reached)

    def final(self) -> float:
        return self._curve.end


class _Random(Parameter):
    """A draw from a distribution, independent of all others; one outside of the bounds is the nearest inside."""

    def __init__(self, where: str, spec: Mapping[str, Any], bounds: _Bounds) -> None:
        super().__init__(where, spec, bounds)
        if spec["distribution"] == "uniform":
            if spec["minval"] > spec["maxval"]:
                refuse(f"{where}['minval']", f"must be at most maxval, got {spec['minval']:g}", spec["minval"])
            self._checked(spec["minval"], "can be")
            self._checked(spec["maxval"], "can be")
        self._checked(self.final(), "has a mean of")

    def value(self, counts: Counts, rng: np.random.Generator) -> float:
        if self._spec["distribution"] == "uniform":
            return float(rng.uniform(self._spec["minval"], self._spec["maxval"]))
        draw = float(rng.normal(self._spec["mean"], self._spec["stddev"]))
        return self._checked(self._bounds.clip(draw), "is")

    def final(self) -> float:
        spec = self._spec
        return float(spec["mean"] if spec["distribution"] == "normal" else (spec["minval"] + spec["maxval"]) / 2)


class _OrnsteinUhlenbeck(Parameter):
    """A random walk that is drawn back to ``mu``, where it begins (Uhlenbeck and Ornstein 1930).

    It goes on outside of the bounds, where its value is the nearest inside.
    """

    def __init__(self, where: str, spec: Mapping[str, Any], bounds: _Bounds) -> None:
        super().__init__(where, spec, bounds)
        self._process = float(spec["mu"])
        self._checked(self.final(), "has a mean of")

    def value(self, counts: Counts, rng: np.random.Generator) -> float:
        pull = self._spec["theta"] * (self._spec["mu"] - self._process)
        process = self._process + pull + self._spec["sigma"] * float(rng.standard_normal())
        value = self._bounds.clip(abs(process) if self._spec["absolute"] else process)
        self._checked(value, "is")
        self._process = process  # not if it was refused
        return value

    def final(self) -> float:
        """The mean in the long run; with ``absolute`` that of a folded normal distribution."""
        mean, theta = float(self._spec["mu"]), float(self._spec["theta"])
        deviation = float(self._spec["sigma"]) / math.sqrt(1 - (1 - theta) ** 2)
        if not self._spec["absolute"] or deviation == 0:
            return abs(mean) if self._spec["absolute"] else mean
        ratio = mean / deviation
        return deviation * math.sqrt(2 / math.pi) * math.exp(-(ratio**2) / 2) + mean * math.erf(ratio / math.sqrt(2))

    def state_dict(self) -> State:
        return {"process": self._process}

    def load_state_dict(self, state: State) -> None:
        if "process" in state:
            self._process = number(f"{self._where}: process", state["process"])


@translate_errors()
def make_parameter(
    where: str, spec: Any, *, at_least: float = -math.inf, at_most: float = math.inf, above: float = -math.inf
) -> Parameter:
    """A parameter from what a user wrote.

    Args:
        where: its place, for messages and the error's ``argument``: ``"Agent.create: exploration"``.
        spec: a number; a dictionary with a ``type`` (``constant`` if there is none) and the arguments of that type;
            or a Parameter, of whose spec a new one is made, with a state of its own.
        at_least: smallest allowed value.
        at_most: largest allowed value.
        above: what all values must be above.

    Raises:
        TensorforceError: the specification is invalid, or is known to leave the bounds; names the key.
    """
    bounds = _Bounds(at_least, at_most, above)
    if isinstance(spec, Parameter):
        spec = spec.spec
    if not isinstance(spec, Mapping):
        if isinstance(spec, str | list | tuple) or spec is None:
            refuse(where, f"must be a number or a dictionary such as {_EXAMPLE}; got {spec!r}", spec)
        return _Constant(where, spec, bounds)
    given = {key: value for key, value in spec.items() if key not in ("type", "dtype")}
    kind = spec.get("type", "constant")
    if isinstance(kind, str) and kind in DECAYS:
        refuse(f"{where}['type']", f"is {kind!r}, a decay: write type='decaying', decay={kind!r}", kind)
    return _KINDS[choice(f"{where}['type']", kind, _KINDS)](where, given, bounds)


_EXAMPLE: Final = "dict(type='decaying', unit='timesteps', decay='linear', ...)"


def _constant(where: str, given: Mapping[str, Any], bounds: _Bounds) -> Parameter:
    value = read_arguments(where, "a constant", (Argument("value"),), given)["value"]
    return _Constant(f"{where}['value']", value, bounds)


def _decaying(where: str, given: Mapping[str, Any], bounds: _Bounds) -> Parameter:
    decay = DECAYS[_name(where, given, "decay", DECAYS)]
    values = read_arguments(where, f"{given['decay']} decay", (*_DECAYING, *decay.takes), given)
    own = {one.name: values[one.name] for one in decay.takes}
    curve = decay.curve(values["initial_value"], values["decay_steps"], own)
    curve = changed(curve, values["increasing"], values["inverse"], values["scale"])
    return _Schedule(where, {"type": "decaying", **values}, bounds, curve)


def _piecewise(where: str, given: Mapping[str, Any], bounds: _Bounds) -> Parameter:
    spec = read_arguments(where, "piecewise_constant", _PIECEWISE, given)
    boundaries, values = spec["boundaries"], spec["values"]
    if any(after <= before for before, after in itertools.pairwise(boundaries)):
        refuse(f"{where}['boundaries']", f"must increase, got {boundaries!r}", boundaries)
    if len(values) != len(boundaries) + 1:
        wanted = f"must have {len(boundaries) + 1} numbers, one more than boundaries"
        refuse(f"{where}['values']", f"{wanted}; got {values!r}", values)
    for index, value in enumerate(values):
        number(f"{where}['values'][{index}]", value, **dataclasses.asdict(bounds))
    # At a boundary the value to its left holds.
    curve = Curve(lambda t: values[bisect.bisect_left(boundaries, t)], values[-1])
    return _Schedule(where, {"type": "piecewise_constant", **spec}, bounds, curve)


def _random(where: str, given: Mapping[str, Any], bounds: _Bounds) -> Parameter:
    name = _name(where, given, "distribution", _DISTRIBUTIONS)
    values = read_arguments(where, name, (Argument("distribution"), *_DISTRIBUTIONS[name]), given)
    return _Random(where, {"type": "random", **values}, bounds)


def _ornstein_uhlenbeck(where: str, given: Mapping[str, Any], bounds: _Bounds) -> Parameter:
    values = read_arguments(where, "ornstein_uhlenbeck", _PROCESS, given)
    return _OrnsteinUhlenbeck(where, {"type": "ornstein_uhlenbeck", **values}, bounds)


def _name(where: str, given: Mapping[str, Any], key: str, names: Mapping[str, Any]) -> str:
    if key not in given:
        refuse(f"{where}[{key!r}]", f"is missing: it is one of {', '.join(names)}", None)
    return choice(f"{where}[{key!r}]", given[key], names)


_KINDS: Final[dict[str, Callable[[str, Mapping[str, Any], _Bounds], Parameter]]] = {
    "constant": _constant,
    "decaying": _decaying,
    "piecewise_constant": _piecewise,
    "random": _random,
    "ornstein_uhlenbeck": _ornstein_uhlenbeck,
}


_NUMBER: Final = real()
_UNIT: Final = Argument("unit", check=one_of(*Counts._fields))
_DECAYING: Final = (
    _UNIT,
    Argument("decay"),
    Argument("initial_value", check=_NUMBER),
    Argument("decay_steps", check=whole(1)),
    Argument("increasing", False, flag),
    Argument("inverse", False, flag),
    Argument("scale", 1.0, _NUMBER),
)
_PIECEWISE: Final = (
    _UNIT,
    Argument("boundaries", check=several(whole(0), "integers")),
    Argument("values", check=several(_NUMBER, "numbers")),
)
_DISTRIBUTIONS: Final = {
    "normal": (Argument("mean", 0.0, _NUMBER), Argument("stddev", 1.0, real(at_least=0))),
    "uniform": (Argument("minval", 0.0, _NUMBER), Argument("maxval", 1.0, _NUMBER)),
}
_PROCESS: Final = (
    Argument("theta", 0.15, real(above=0, at_most=1)),
    Argument("sigma", 0.3, real(at_least=0)),
    Argument("mu", 0.0, _NUMBER),
    Argument("absolute", False, flag),
)
