"""Layout of transitions and batches, determined before training with a copy of the memory."""

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
from ..core.trees import first_row, map_tree
from ..environments import spaces
from ..environments.memory_view import EnvironmentView
from ..explorations import Greedy
from ..explorations.returned_actions import check_returned
from ..policies.compiled import CompiledProgram
from ..policies.executors import action_names, with_parts
from ..policies.modes import PredictMode, TrainMode
from ..run_dir.arrays import DTYPES
from .limits import UpdateSchedule
from .update_schedule import PATIENCE, check_first_update

RESERVED: Final = (
    *("observation", "action", "reward", "terminated", "truncated", "next_observation"),
    *("state", "discount", "weight", "global_step", "global_timestep", "progress"),
    *("demonstration", "n_step_reward", "n_step_discount", "n_step_next_observation"),
)
"""Keys of ``labels`` that ``EstimatorSpec.record`` must not use."""


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
    """Determine the layout that this model and memory give to these spaces.

    Args:
        predict: the acting mode.
        observation: the observation space.
        action: the action space.
        memory: not built; left unchanged.
        lanes: N.
        schedule: its first update, if given, must come when the memory can fill a batch; None to check that later.
        masks: why some rows will not be transitions; None if all rows will be.

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
    """Raise ``ValueError`` if the model's predictions do not match the arrays of the action space."""
    expected = spaces.action_spec(space)
    names = ["action"] if isinstance(expected, ArraySpec) else [f"action/{name}" for name in sorted(expected)]
    found = sorted(action_names(outputs))
    if names != found:
        raise ValueError(f"the action space {space} needs the predictions {', '.join(names)}; got {', '.join(found)}")


def introduce(
    memory: Memory,
    observation: gymnasium.Space[Any],
    action: gymnasium.Space[Any],
    env: Any = None,
    folder: Path | None = None,
) -> None:
    """Show the environment to a memory that asks for it.

    Args:
        memory: the memory.
        observation: observation space.
        action: action space.
        env: the environment; None if there is none.
        folder: base of relative paths of episodes; None for the current folder.
    """
    if hasattr(memory, "use_environment"):
        memory.use_environment(EnvironmentView(observation, action, env, folder))


def check_memory(memory: object) -> None:
    """Raise ``ArgumentError`` for an object that is neither a memory nor None; names what it lacks."""
    if memory is not None and not isinstance(memory, Memory):
        names = [*Memory.__annotations__, *(name for name in vars(Memory) if not name.startswith("_")), "__len__"]
        missing = [name for name in names if not hasattr(memory, name)]
        message = (
            f"memory must be an axonrl Memory (say axonrl.memories.ReplayMemory), got {memory!r}, which lacks"
            f" {', '.join(missing)}"
        )
        raise ArgumentError(message, "memory", memory)


def check_td_error(train: TrainMode, memory: Memory) -> None:
    """Raise ``ValueError`` if the memory samples by TD errors and the model has none."""
    if getattr(memory, "needs_td_error", False) and not train.has_td_error:
        raise ValueError(
            f"this {type(memory).__name__} samples by TD errors, but the TRAIN spec has none: return"
            " EstimatorSpec(..., td_error=...) from model_fn, or use a uniform sampler"
        )


def check_batch(program: CompiledProgram, batch: Mapping[str, SpecTree]) -> None:
    """Raise ``ValueError`` if a program was compiled for other batches."""
    expected = program.train.batch
    differing = [key for key in sorted({*batch, *expected}) if batch.get(key) != expected.get(key)]
    if differing:
        key = differing[0]
        raise ValueError(
            f"{program.directory} was compiled for batches whose {key!r} is {_text(expected.get(key))}, but this memory"
            f" and these environments give {_text(batch.get(key))}: use the original memory and environments, or"
            " compile again"
        )


def transition_specs(
    observation: gymnasium.Space[Any],
    action: gymnasium.Space[Any],
    state: Mapping[str, ArraySpec] | None,
    recorded: Mapping[str, ArraySpec],
) -> dict[str, SpecTree]:
    """Keys, shapes and dtypes of one transition; ``state`` is the model's recurrent state, or None."""
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
    """Specs of ``EstimatorSpec.record``: predictions, or extras of the exploration (found by a trial copy on zeros).

    Raises:
        ValueError: a name is neither, or is a key of the labels; the exploration returns an invalid value, or a dtype
            cannot be saved.
    """
    if not names:
        return {}
    zeros: dict[str, Any] = {name: np.zeros((num_envs, *spec.shape), spec.dtype) for name, spec in outputs.items()}
    predictions = with_parts(zeros)
    returned = copy.deepcopy(exploration)(predictions, 0, np.random.default_rng(0))
    _, extras = check_returned(exploration, returned, predictions, ())
    for name in names:
        if name in RESERVED:
            raise ValueError(
                f"EstimatorSpec.record names {name!r}, which is already a key of labels; choose another name"
            )
        if extras.get(name, zeros.get(name)) is None:
            raise ValueError(
                f"EstimatorSpec.record names {name!r}, which is neither a prediction ({', '.join(outputs)}) nor an"
                f" extra of the exploration ({', '.join(extras) or 'none'})"
            )
    check_returned(exploration, returned, predictions, names)
    arrays = {name: extras[name] if name in extras else zeros[name] for name in names}
    for name, array in arrays.items():
        if array.dtype.name not in DTYPES:
            raise ValueError(
                f"EstimatorSpec.record names {name!r} of dtype {array.dtype}, which a checkpoint cannot hold; return"
                f" one of {', '.join(DTYPES)}"
            )
    return {name: ArraySpec(array.shape[1:], array.dtype) for name, array in arrays.items()}


def trial_of(memory: Memory, specs: Mapping[str, SpecTree], num_envs: int) -> Memory:
    """Copy and build a memory, to try it.

    Raises:
        ValueError: it cannot be copied, or is too large for the machine.
    """
    try:
        trial: Memory = memory.trial_copy() if hasattr(memory, "trial_copy") else copy.deepcopy(memory)
    except Exception as error:  # a user's memory, or one in use, may hold anything
        raise ValueError(
            f"the {type(memory).__name__} cannot be copied ({error}) for a trial batch: every Agent needs its own new"
            " memory, which copy.deepcopy can copy"
        ) from error
    trial.build(specs, num_envs, np.random.default_rng(0))
    return trial


def batch_specs(trial: Memory, specs: Mapping[str, SpecTree], lanes: int, masks: str | None) -> dict[str, SpecTree]:
    """Layout of this memory's batches, batch axes included; the memory is filled with zeros and sampled once.

    Raises:
        ValueError: the memory never fills a batch, or cannot store lanes that are out of step, as they will be.
    """
    # The first lane falls behind by a timestep, then all lanes advance.
    mask: tuple[Array, ...] = () if masks is None else (np.arange(lanes) > 0,)
    zeros = {key: _zeros(spec, lanes) for key, spec in specs.items()}
    row = first_row(zeros)
    if trial.is_rollout and (each := int(getattr(trial, "size", 0)) // lanes) > PATIENCE:
        message = f"size of a {type(trial).__name__} must be at most {PATIENCE:,} for each environment, got {each:,}"
        raise ArgumentError(message, "size", each * lanes)
    timesteps = max(PATIENCE, 2 * int(getattr(trial, "size", 0)))
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
    raise ValueError(f"{type(trial).__name__} cannot fill a batch after {timesteps} timesteps")


def _zeros(spec: SpecTree, num_envs: int) -> ArrayTree:
    zeros: ArrayTree = map_tree(lambda leaf: np.zeros((num_envs, *leaf.shape), leaf.dtype), spec)
    return zeros


def check_sampled(memory: Memory, batch: Any) -> None:
    """Raise ``ValueError`` for an invalid batch: it must map names to arrays, or to mappings of arrays."""
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
