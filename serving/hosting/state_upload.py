"""Read a client's state, check it field by field, and load it into a new agent."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from ...core.checks import FLOAT32_MAX, shortened
from ...core.errors import ArgumentError, NonFiniteError
from ...core.protocols import Array, ArraySpec, SpecTree
from ...estimators.stepper import Stepper
from ...memories.replay import PRIORITY
from ..catalogue.recipes import Recipe
from ..catalogue.sizes import MAX_NUMBERS
from ..refusals import RefusedError, invalid
from .accepted_steps import AcceptedSteps
from .pending_actions import recorded_for
from .requests import environment_name, parsed, values_in
from .snapshots import CONFIG, COUNTERS, ENVIRONMENT, FIELDS, GENERATORS, MEMORY, WAITING, Received
from .state_trial import try_updates
from .streams import MOST, UNROLL, Stream
from .transitions import Columns, column_of, flat, nested, rows_of, select
from .values import Where, fields, place

_MOST: Final = 1 << 48
"""Maximum of any counter: at 1,000 a second, it takes 8,900 years."""
_NOT_NEGATIVE: Final = ("velocity", "accumulator", "_norm", "accumulated_grad", "accumulated_delta_var")
"""Suffixes of Keras' optimizer variables that sum squares or sizes, and whose root is taken."""
_MOST_MEAN: Final = 8.0
"""Maximum of mean over root mean square in Adam and its like: 7.3 by Cauchy-Schwarz for betas 0.9 and 0.999."""
_ROUNDED: Final = 1e-15
"""Size below which the square of a gradient may be 0 in float32."""
_MOST_RECORDED: Final = 1e18
"""Maximum of values recorded with an action: float32 holds its square."""
_LOG_PROB: Final = "log_prob"
_AT_ONCE: Final = 1000
_APART: Final = 40.0
"""Maximum distance of a log-probability below the current policy's: float32 holds the square of the ratio."""
_MOST_METRICS: Final = 100

_MOST_VALUES: Final = 2 * MAX_NUMBERS + 200 * MOST + 10_000
"""Maximum of JSON values: bounds of a space as lists, and the data of each environment, with commas in names."""


class Arrived:
    """A client's state, read and checked, except for comparisons with the agent's arrays.

    Args:
        state: the state received.
        recipe: recipe of the agent that it is for.

    Raises:
        RefusedError: the state is for another model or other sizes, or its configuration is invalid.
    """

    def __init__(self, state: Received, recipe: Recipe) -> None:
        own = recipe.model, recipe.config.get("state_size"), recipe.config["action_size"]
        for name, given, expected in zip(FIELDS[:3], state.sizes, own, strict=True):
            if given != expected or type(given) is not type(expected):
                raise _mismatch(name, f"is {shortened(given)}, this agent's is {expected!r}")
        self.config = _config(state.config)
        self._network, self._buffer = state.network, state.buffer

    @property
    def hyperparameters(self) -> dict[str, Any]:
        """Hyperparameters of the state's agent."""
        found: dict[str, Any] = self.config["hyperparameters"]
        return found

    def load(
        self, learning: AcceptedSteps, specs: Mapping[str, SpecTree], limits: Mapping[str, tuple[Any, Any]]
    ) -> int:
        """Load the state into a new agent, which is discarded if this is refused.

        Args:
            learning: learning with a new stepper.
            specs: specs of a transition.
            limits: lowest and highest values of integer columns.

        Returns:
            Number of steps that the state's agent had accepted.

        Raises:
            RefusedError: an array does not fit, or a value is not allowed.
        """
        stepper, config = learning.stepper, self.config
        memory: Any = stepper.memory
        own = {name: ArraySpec(array.shape, array.dtype) for name, array in stepper.weights().items()}
        weights = self._network.arrays([(own, None)])
        _check_weights(weights)
        transitions, waiting = self._transitions(stepper, specs, limits, learning.gathers)
        stepper.set_weights(weights)
        counters, left = config["counters"], len(waiting["reward"])
        stepper.counters.global_timestep = counters["global_timestep"] - left
        stepper.counters.global_step = counters["global_step"]
        for columns in (transitions, waiting):
            _check_recorded(stepper, columns)
        try_updates(stepper, (transitions, waiting), limits)
        try:
            memory.fill(transitions, config["sampler"])
        except (ArgumentError, KeyError, TypeError, ValueError, OverflowError) as error:
            raise invalid("encoded_buffer", f"does not fit: {error}") from None
        generators = fields(config["generators"], ("encoded_config", "generators"), GENERATORS)
        for name, given in generators.items():
            _restore_generator(stepper.generators[name].bit_generator, given, f"encoded_config.generators.{name}")
        self._restore_streams(learning, rows_of(waiting))
        return int(counters["global_timestep"])

    def _transitions(
        self, stepper: Stepper, specs: Mapping[str, SpecTree], limits: Mapping[str, tuple[Any, Any]], gathers: bool
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """Columns of the memory's content, and of the waiting steps."""
        memory: Any = stepper.memory
        size = int(memory.size) - bool(memory.is_rollout)  # a full rollout is consumed at once
        stored = dict(specs)
        _, sampler = memory.contents()
        if set(self.config["sampler"]) != set(sampler):
            raise invalid("encoded_config.sampler", f"must have {sorted(sampler)}")
        if sampler:
            stored[PRIORITY] = ArraySpec((), np.float64)
            _check_sampler(self.config["sampler"])
        parts = {}
        for prefix, columns in ((MEMORY, stored), (WAITING, dict(specs))):
            parts[prefix] = {prefix + name: spec for name, spec in flat(columns).items()}
        groups = [(parts[MEMORY], size), (parts[WAITING], MOST * (UNROLL - 1) * gathers)]
        arrays = self._buffer.arrays(groups)
        memory, waiting = (nested({n.removeprefix(p): a for n, a in arrays.items() if n.startswith(p)}) for p in parts)
        for columns in (memory, waiting):
            for name, (low, high) in limits.items():
                column = column_of(columns, name)
                if bool(((column < low) | (column > high)).any()):
                    raise invalid("encoded_buffer", f"{name} must be in {low} .. {high}")
        if sampler:
            highest = self.config["sampler"]["maximum"] ** stepper.memory.sampler.alpha  # type: ignore[attr-defined]
            if bool((memory[PRIORITY] > highest * (1 + 1e-9)).any()):
                raise invalid("encoded_buffer", f"{PRIORITY} must be at most {highest:g}, by the sampler's maximum")
        return memory, waiting

    def _restore_streams(self, learning: AcceptedSteps, waiting: list[dict[str, Any]]) -> None:
        streams, config = learning.streams, self.config
        if sum(one["waiting"] for one in config["environments"]) != len(waiting):
            raise invalid("encoded_config.environments", "count other waiting steps than encoded_buffer has")
        at = 0
        for one in config["environments"]:
            rows = waiting[at : at + one["waiting"]]
            at += one["waiting"]
            stream = Stream(one["environment"], one["running"], one["episode_return"], one["length"], rows)
            streams.by_name[one["environment"]] = stream
        streams.finished = config["counters"]["global_episode"]
        streams.steps = config["counters"]["global_timestep"]
        if (last := config["learning"]) is not None:
            last = {name: np.nan if number is None else number for name, number in last.items()}
        learning.last_update = last


def _config(content: bytes) -> dict[str, Any]:
    """Parse the JSON of a state, with every value of its type."""
    where = "encoded_config"
    if values_in(content) > _MOST_VALUES:
        what = f"may have {_MOST_VALUES:,} values, by its commas and brackets"
        raise RefusedError("unsafe_state", f"{where} {what}", [(where, what)])
    try:
        value = fields(parsed(content), (where,), CONFIG)
    except RefusedError as error:
        if error.code == "invalid_json":
            raise RefusedError("unsafe_state", f"{where}: {error.detail}", [(where, error.detail)]) from None
        raise
    counters = fields(value["counters"], (where, "counters"), COUNTERS)
    for name, number in counters.items():
        _count(number, f"{where}.counters.{name}")
    timesteps = counters["global_timestep"]
    _count(counters["global_episode"], f"{where}.counters.global_episode", timesteps + 1)
    pending = value["pending_updates"]
    if type(pending) is not int or pending != 0:
        what = f"must be 0, since a state is given out when no update is due, got {shortened(pending)}"
        raise invalid(f"{where}.pending_updates", what)
    for name, kind in (("hyperparameters", dict), ("sampler", dict), ("environments", list)):
        if type(value[name]) is not kind:
            called = "an object" if kind is dict else "a list"
            raise invalid(f"{where}.{name}", f"must be {called}, got {shortened(value[name])}")
    if len(value["environments"]) > MOST:
        raise invalid(f"{where}.environments", f"must be at most {MOST}")
    for k, environment in enumerate(value["environments"]):
        _check_environment(environment, (where, "environments", k))
    if sum(one["length"] for one in value["environments"]) > timesteps:
        raise invalid(f"{where}.environments", f"have more steps than global_timestep, {timesteps}")
    if len({one["environment"] for one in value["environments"]}) < len(value["environments"]):
        raise invalid(f"{where}.environments", "has a name twice")
    if value["learning"] is not None:
        _check_learning(value["learning"], f"{where}.learning")
    return dict(value)


def _check_learning(last: Any, where: str) -> None:
    if type(last) is not dict or "loss" not in last or len(last) > _MOST_METRICS:
        raise invalid(where, f"must be an object with a loss, and at most {_MOST_METRICS} numbers, or null")
    for name, number in last.items():
        environment_name(name, (where, "name"))
        if number is not None:
            _float(number, f"{where}.{name}", FLOAT32_MAX)


def _check_environment(value: Any, where: Where) -> None:
    one = fields(value, where, ENVIRONMENT)
    environment_name(one["environment"], (*where, "environment"))
    if type(one["running"]) is not bool:
        raise invalid(place((*where, "running")), f"must be true or false, got {shortened(one['running'])}")
    _count(one["length"], place((*where, "length")))
    if bool(one["length"]) is not one["running"]:
        raise invalid(place((*where, "length")), "must be above 0 where an episode is running, else 0")
    _float(one["episode_return"], place((*where, "episode_return")), one["length"] * FLOAT32_MAX)
    _count(one["waiting"], place((*where, "waiting")), min(UNROLL, one["length"] + 1))


def _check_sampler(value: Mapping[str, Any]) -> None:
    where = "encoded_config.sampler"
    _count(value["num_batches"], f"{where}.num_batches")
    _float(value["maximum"], f"{where}.maximum", 2 * FLOAT32_MAX, least=1.0)


def _check_weights(weights: Mapping[str, Array]) -> None:
    """Refuse negative counts and sums of squares, and means of gradients far from the root of the mean of squares."""
    for name, array in weights.items():
        counts = array.dtype.kind in "iu"
        if (counts or name.endswith(_NOT_NEGATIVE) or "adafactor/" in name) and bool((array < 0).any()):
            raise invalid("encoded_network", f"{name} must be at least 0")
        if counts and bool((array >= _MOST).any()):
            raise invalid("encoded_network", f"{name} must be below {_MOST:,}")
    for (name, mean), (following, squares) in itertools.pairwise(weights.items()):
        prefix = name.partition(".")[2].removesuffix("momentum")  # without its number
        together = name.endswith("momentum") and following.partition(".")[2] == f"{prefix}velocity"
        if together and bool((np.abs(mean) > _MOST_MEAN * np.sqrt(squares) + _ROUNDED).any()):
            raise invalid("encoded_network", f"{name} has numbers that do not go with those of {following}")


def _check_recorded(stepper: Stepper, columns: Columns) -> None:
    """Check the values recorded with actions of the policy, which learns from them unchanged."""
    if not stepper.behaviour.recorded:
        return
    for begin in range(0, len(columns["reward"]), _AT_ONCE):
        some = select(columns, slice(begin, begin + _AT_ONCE))
        try:
            found = recorded_for(stepper, some["observation"], some["action"])
        except (ValueError, NonFiniteError) as error:
            raise invalid("encoded_buffer", f"action: {error}") from None
        for name, value in found.items():
            given = np.asarray(some[name], np.float64)
            if bool((np.abs(given) > _MOST_RECORDED).any() or (name == _LOG_PROB and (value - given > _APART).any())):
                raise invalid("encoded_buffer", f"{name} is none that this agent's policy could have recorded")


def _restore_generator(generator: Any, given: Any, where: str) -> None:
    try:
        generator.state = given
        whole = generator.state == given and given["state"]["inc"] % 2 == 1 and given["has_uint32"] in (0, 1)
    except (KeyError, TypeError, ValueError, OverflowError):
        whole = False
    if not whole:
        raise invalid(where, f"must be the state of a {type(generator).__name__}, got {shortened(given)}")


def _float(value: Any, where: str, most: float, least: float | None = None) -> None:
    low = -most if least is None else least
    if type(value) is not float or not low <= value <= most:
        raise invalid(where, f"must be a number with a point in {low:g} .. {most:g}, got {shortened(value)}")


def _count(value: Any, where: str, below: int = _MOST) -> None:
    if type(value) is not int or not 0 <= value < below:
        raise invalid(where, f"must be an integer of at least 0 and below {below:,}, got {shortened(value)}")


def _mismatch(where: str, what: str) -> RefusedError:
    return RefusedError("state_mismatch", f"{where} {what}", [(where, what)])
