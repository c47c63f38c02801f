"""What a transition and a batch look like, found out before anything is trained: with a copy of the memory."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import gymnasium
import numpy as np

from ..core.checks import shortened
from ..core.errors import ArgumentError
from ..core.protocols import Array, ArraySpec, ArrayTree, Exploration, Memory, SpecTree
from ..environments import spaces
from ..environments.memory_view import EnvironmentView
from ..explorations import Greedy
from ..explorations.returned_actions import checked
from ..policies.compiled import CompiledProgram
from ..policies.executors import action_names, with_parts
from ..policies.modes import PredictMode, TrainMode
from .limits import UpdateSchedule
from .update_schedule import check_first_update

RESERVED: Final = (
    *("observation", "action", "reward", "terminated", "truncated", "next_observation"),
    *("state", "discount", "weight", "global_step", "global_timestep", "progress"),
    *("demonstration", "n_step_reward", "n_step_discount", "n_step_next_observation"),
)
"""Keys of ``labels`` that ``EstimatorSpec.record`` must leave alone."""
_PATIENCE: Final = 1_000_000
"""Timesteps after which a memory that holds no more than these, and still cannot be sampled, never will be.

Of a memory that fills and empties, the most that it may take until it is full.
"""


@dataclasses.dataclass(frozen=True)
class Shapes:
    """Specs of one lane's transition, and of a batch with its batch axes."""

    transition: Mapping[str, SpecTree]
    batch: Mapping[str, SpecTree]


def shapes_of(
    predict: PredictMode,
    observation: gymnasium.Space[Any],
    action: gymnasium.Space[Any],
    memory: Memory,
    lanes: int,
    schedule: UpdateSchedule | None,
    masks: str | None = None,
) -> Shapes:
    """What this model and this memory make of these spaces.

    Args:
        predict: what acts.
        observation: the observation space.
        action: the action space.
        memory: not built; it is left as it is.
        lanes: N.
        schedule: a first update that was given must find enough in the memory; None to check that later.
        masks: why there will be rows that are not transitions; None if there will be none.

    Raises:
        ValueError: the memory does not fit.
    """
    _check_action(predict.outputs, action)
    exploration = Greedy() if predict.exploration is None else predict.exploration
    recorded = recorded_specs(predict.record, predict.outputs, exploration, lanes)
    transition = transition_specs(observation, action, predict.state, recorded)
    trial = trial_of(memory, transition, lanes)
    if schedule is not None:
        check_first_update(schedule, trial)
    return Shapes(transition, batch_specs(trial, transition, lanes, masks))


def _check_action(outputs: Mapping[str, ArraySpec], space: gymnasium.Space[Any]) -> None:
    """Raise ``ValueError`` if the model predicts one array where the space has several, or others than these."""
    expected = spaces.action_spec(space)
    names = ["action"] if isinstance(expected, ArraySpec) else [f"action/{name}" for name in sorted(expected)]
    found = sorted(action_names(outputs))
    if names != found:
        raise ValueError(
            f"the action space {space} needs the predictions {', '.join(names)}; there is {', '.join(found)}"
        )


def introduce(
    memory: Memory,
    observation: gymnasium.Space[Any],
    action: gymnasium.Space[Any],
    env: Any = None,
    folder: Path | None = None,
) -> None:
    """Let a memory that wants to know the environment look at it.

    Args:
        memory: the memory.
        observation: the space of observations.
        action: the space of actions.
        env: the environment; None where there is none.
        folder: which relative paths of episodes are below; None for the current one.
    """
    if hasattr(memory, "use_environment"):
        memory.use_environment(EnvironmentView(observation, action, env, folder))


def check_td_error(train: TrainMode, memory: Memory) -> None:
    """Raise ``ValueError`` if the memory draws by TD errors and the model has none."""
    if getattr(memory, "needs_td_error", False) and not train.has_td_error:
        raise ValueError(
            f"this {type(memory).__name__} draws by TD errors, and the TRAIN spec has none: return"
            " EstimatorSpec(..., td_error=...) from model_fn, or use a uniform sampler"
        )


def check_batch(program: CompiledProgram, batch: Mapping[str, SpecTree]) -> None:
    """Raise ``ValueError`` if a program was compiled for other batches than these."""
    expected = program.train.batch
    differing = [key for key in sorted({*batch, *expected}) if batch.get(key) != expected.get(key)]
    if differing:
        key = differing[0]
        raise ValueError(
            f"{program.directory} was compiled for batches whose {key!r} is {_text(expected.get(key))}, and this memory"
            f" and these environments give {_text(batch.get(key))}: use those of then, or compile again"
        )


def transition_specs(
    observation: gymnasium.Space[Any],
    action: gymnasium.Space[Any],
    state: Mapping[str, ArraySpec] | None,
    recorded: Mapping[str, ArraySpec],
) -> dict[str, SpecTree]:
    """Keys, shapes and dtypes of one transition; ``state`` is the model's recurrent one, or None."""
    observed = spaces.observation_spec(observation)
    specs: dict[str, SpecTree] = {
        "observation": observed,
        "action": spaces.action_spec(action),
        "reward": ArraySpec((), np.float32),
        "terminated": ArraySpec((), np.bool_),
        "truncated": ArraySpec((), np.bool_),
        "next_observation": observed,
        **recorded,
    }
    if state is not None:
        specs["state"] = state
    return specs


def recorded_specs(
    names: Sequence[str], outputs: Mapping[str, ArraySpec], exploration: Exploration, num_envs: int
) -> dict[str, ArraySpec]:
    """What ``EstimatorSpec.record`` names: extras of the exploration (a copy of it is tried on zeros) or predictions.

    Raises:
        ValueError: a name is neither, or one of the labels' own; the exploration returns something else than it should.
    """
    if not names:
        return {}
    zeros: dict[str, Any] = {name: np.zeros((num_envs, *spec.shape), spec.dtype) for name, spec in outputs.items()}
    predictions = with_parts(zeros)
    returned = copy.deepcopy(exploration)(predictions, 0, np.random.default_rng(0))
    _, extras = checked(exploration, returned, predictions, ())
    for name in names:
        if name in RESERVED:
            raise ValueError(f"EstimatorSpec.record names {name!r}, which labels have anyway; choose another name")
        if extras.get(name, zeros.get(name)) is None:
            raise ValueError(
                f"EstimatorSpec.record names {name!r}, which is neither a prediction ({', '.join(outputs)}) nor an"
                f" extra of the exploration ({', '.join(extras) or 'none'})"
            )
    checked(exploration, returned, predictions, names)
    arrays = {name: extras[name] if name in extras else zeros[name] for name in names}
    return {name: ArraySpec(array.shape[1:], array.dtype) for name, array in arrays.items()}


def trial_of(memory: Memory, specs: Mapping[str, SpecTree], num_envs: int) -> Memory:
    """A copy of a memory, built, to look at what it would do.

    Raises:
        ValueError: it cannot be copied, or is too large for the machine.
    """
    try:
        trial: Memory = memory.trial_copy() if hasattr(memory, "trial_copy") else copy.deepcopy(memory)
    except Exception as error:  # whatever a user's memory, or one that is in use, holds
        raise ValueError(
            f"the {type(memory).__name__} cannot be copied ({error}), to look at a batch of it: every Agent needs a"
            " memory of its own, a new one that copy.deepcopy can copy"
        ) from error
    trial.build(specs, num_envs, np.random.default_rng(0))
    return trial


def batch_specs(trial: Memory, specs: Mapping[str, SpecTree], lanes: int, masks: str | None) -> dict[str, SpecTree]:
    """What a batch of this memory looks like, batch axes included: it is filled with zeros and sampled once.

    Raises:
        ValueError: the memory never has a batch, or cannot store lanes that are out of step, which there will be.
    """
    # The first lane falls behind, then all advance.
    mask: tuple[Array, ...] = () if masks is None else (np.arange(lanes) > 0,)
    zeros = {key: _zeros(spec, lanes) for key, spec in specs.items()}
    row = first_row(zeros)
    if trial.is_rollout and (each := int(getattr(trial, "size", 0)) // lanes) > _PATIENCE:
        message = f"size of a {type(trial).__name__} must be at most {_PATIENCE:,} for each environment, got {each:,}"
        raise ArgumentError(message, "size", each * lanes)
    timesteps = max(_PATIENCE, 2 * int(getattr(trial, "size", 0)))
    for _ in range(timesteps // lanes):
        if trial.can_sample():
            batch = trial.sample()
            check_sampled(trial, batch)
            return {key: _spec_of(value) for key, value in batch.items()}
        if lanes == 1 and not mask:
            trial.step(**row)
            continue
        try:
            trial.extend(*mask, **zeros)
        except (ValueError, RuntimeError) as error:
            if masks is None:
                raise
            raise ValueError(f"{masks}; {error}") from error
        mask = tuple(np.ones_like(one) for one in mask)
    raise ValueError(f"{type(trial).__name__} has no batch after {timesteps} timesteps")


def first_row(values: Any) -> Any:
    """The values of the only lane, without a batch axis: of an array, or of dictionaries of them."""
    return {name: first_row(value) for name, value in values.items()} if isinstance(values, dict) else values[0]


def _zeros(spec: SpecTree, num_envs: int) -> ArrayTree:
    if isinstance(spec, Mapping):
        return {key: np.zeros((num_envs, *leaf.shape), leaf.dtype) for key, leaf in spec.items()}
    return np.zeros((num_envs, *spec.shape), spec.dtype)


def check_sampled(memory: Memory, batch: Any) -> None:
    """Raise ``ValueError`` if this is no batch: a mapping of names to arrays, or to mappings of arrays."""
    name = f"{type(memory).__name__}.sample"
    if not isinstance(batch, Mapping):
        raise ValueError(f"{name} must return a mapping of names to arrays, got {shortened(batch)}")
    for key, value in batch.items():
        parts = value if isinstance(value, Mapping) else {"": value}
        for part, array in parts.items():
            if not isinstance(array, np.ndarray):
                where = f"[{key!r}]" + (f"[{part!r}]" if part else "")
                raise ValueError(f"{name} must return arrays; {where} is {shortened(array)}")


def _spec_of(value: ArrayTree) -> SpecTree:
    if isinstance(value, Mapping):
        return {key: ArraySpec(leaf.shape, leaf.dtype) for key, leaf in value.items()}
    return ArraySpec(value.shape, value.dtype)


def _text(spec: SpecTree | None) -> str:
    if spec is None:
        return "missing"
    if isinstance(spec, ArraySpec):
        return f"{spec.dtype}{list(spec.shape)}"
    return "{" + ", ".join(f"{key}: {_text(value)}" for key, value in spec.items()) + "}"
