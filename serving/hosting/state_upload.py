"""Read a client's state, check it field by field, and load it into a new agent."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any, Final

import numpy as np
from pydantic_core import SchemaValidator, core_schema

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
from .requests import parse_body, values_in
from .snapshots import COUNTERS, FIELDS, GENERATORS, MEMORY, NETWORK, WAITING, State
from .state_trial import try_updates
from .streams import MOST, UNROLL, Stream
from .tensors import Group, check_groups, mismatch
from .transitions import Columns, column_of, flat, rows_of, select, unflatten
from .values import FLAG, NAME, NUMBER, check, lists, objects

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
_COUNT: Final = core_schema.int_schema(strict=True, ge=0, lt=_MOST)
_OBJECT: Final = core_schema.dict_schema(strict=True)
_CONFIG: Final = SchemaValidator(
    objects(
        {
            "hyperparameters": _OBJECT,
            "counters": objects(dict.fromkeys(COUNTERS, _COUNT)),
            "pending_updates": core_schema.int_schema(strict=True, ge=0, le=0),  # a state is given out when none is due
            "generators": objects(dict.fromkeys(GENERATORS, _OBJECT)),
            "sampler": objects(
                {}, {"num_batches": _COUNT, "maximum": core_schema.float_schema(strict=True, ge=1, le=2 * FLOAT32_MAX)}
            ),
            "environments": lists(
                objects(
                    {
                        "environment": NAME,
                        "running": FLAG,
                        "episode_return": core_schema.float_schema(strict=True, allow_inf_nan=False),
                        "length": _COUNT,
                        "waiting": core_schema.int_schema(strict=True, ge=0, lt=UNROLL),
                    }
                ),
                0,
                MOST,
            ),
            "learning": core_schema.nullable_schema(
                core_schema.dict_schema(
                    NAME, core_schema.nullable_schema(NUMBER), max_length=_MOST_METRICS, strict=True, fail_fast=True
                )
            ),
        }
    )
)

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

    def __init__(self, state: State, recipe: Recipe) -> None:
        own = recipe.model, recipe.config.get("state_size"), recipe.config["action_size"]
        for name, given, size in zip(FIELDS[:3], state.sizes, own, strict=True):
            if given != size or type(given) is not type(size):
                raise mismatch(name, f"is {shortened(given)}, this agent's is {size!r}")
        self.config = _config(state.config)
        self._arrays = state.arrays

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
        weights, transitions, waiting = self._compare(stepper, specs, limits, learning.gathers)
        _check_weights(weights)
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
        for name, given in config["generators"].items():
            _restore_generator(stepper.generators[name].bit_generator, given, f"encoded_config.generators.{name}")
        self._restore_streams(learning, rows_of(waiting))
        return int(counters["global_timestep"])

    def _compare(
        self, stepper: Stepper, specs: Mapping[str, SpecTree], limits: Mapping[str, tuple[Any, Any]], gathers: bool
    ) -> tuple[dict[str, Array], dict[str, Any], dict[str, Any]]:
        """Weights, and columns of the memory's content and of the waiting steps."""
        memory: Any = stepper.memory
        size = int(memory.size) - bool(memory.is_rollout)  # a full rollout is consumed at once
        stored = dict(specs)
        _, sampler = memory.contents()
        if set(self.config["sampler"]) != set(sampler):
            raise invalid("encoded_config.sampler", f"must have {sorted(sampler)}")
        if sampler:
            stored[PRIORITY] = ArraySpec((), np.float64)
        own = {name: ArraySpec(array.shape, array.dtype) for name, array in stepper.weights().items()}
        weights, *found = check_groups(
            self._arrays,
            Group(NETWORK, FIELDS[4], own),
            Group(MEMORY, FIELDS[5], flat(stored), size),
            Group(WAITING, FIELDS[5], flat(specs), MOST * (UNROLL - 1) * gathers),
        )
        memory, waiting = map(unflatten, found)
        for columns in (memory, waiting):
            for name, (low, high) in limits.items():
                column = column_of(columns, name)
                if bool(((column < low) | (column > high)).any()):
                    raise invalid("encoded_buffer", f"{name} must be in {low} .. {high}")
        if sampler:
            highest = self.config["sampler"]["maximum"] ** stepper.memory.sampler.alpha  # type: ignore[attr-defined]
            if bool((memory[PRIORITY] > highest * (1 + 1e-9)).any()):
                raise invalid("encoded_buffer", f"{PRIORITY} must be at most {highest:g}, by the sampler's maximum")
        return weights, memory, waiting

    def _restore_streams(self, learning: AcceptedSteps, waiting: list[dict[str, Any]]) -> None:
        streams, config = learning.streams, self.config
        if sum(one["waiting"] for one in config["environments"]) != len(waiting):
            raise invalid("encoded_config.environments", "do not match the waiting steps in encoded_buffer")
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
        what = f"may have {_MOST_VALUES:,} values (counted by commas and brackets)"
        raise RefusedError("unsafe_state", f"{where} {what}", [(where, what)])
    try:
        value = parse_body(content)
    except RefusedError as error:
        raise RefusedError("unsafe_state", f"{where}: {error.detail}", [(where, error.detail)]) from None
    config: dict[str, Any] = check(_CONFIG, value, (where,))
    counters, environments = config["counters"], config["environments"]
    timesteps = counters["global_timestep"]
    if counters["global_episode"] > timesteps:
        raise invalid(f"{where}.counters.global_episode", f"must be at most global_timestep, {timesteps:,}")
    for k, one in enumerate(environments):
        at = f"{where}.environments[{k}]"
        if bool(one["length"]) is not one["running"]:
            raise invalid(f"{at}.length", "must be above 0 where an episode is running, else 0")
        if abs(one["episode_return"]) > one["length"] * FLOAT32_MAX:
            raise invalid(f"{at}.episode_return", "is more than any sum of float32 rewards")
        if one["waiting"] > one["length"]:
            raise invalid(f"{at}.waiting", f"must be at most the episode's length, {one['length']}")
    if sum(one["length"] for one in environments) > timesteps:
        raise invalid(f"{where}.environments", f"have more steps than global_timestep, {timesteps:,}")
    if len({one["environment"] for one in environments}) < len(environments):
        raise invalid(f"{where}.environments", "has a name twice")
    if "loss" not in (config["learning"] or {"loss": None}):
        raise invalid(f"{where}.learning", "must have a loss")
    return config


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
            raise invalid("encoded_network", f"{name} has numbers that do not fit those of {following}")


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
                raise invalid("encoded_buffer", f"{name} has a value that this agent's policy cannot have recorded")


def _restore_generator(generator: Any, given: Any, where: str) -> None:
    try:
        generator.state = given
        whole = generator.state == given and given["state"]["inc"] % 2 == 1 and given["has_uint32"] in (0, 1)
    except (KeyError, TypeError, ValueError, OverflowError):
        whole = False
    if not whole:
        raise invalid(where, f"must be the state of a {type(generator).__name__}, got {shortened(given)}")
