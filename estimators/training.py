"""What training needs to be built: what a transition and a batch look like, and the state that a run begins with."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np

from ..contracts import Array, ArraySpec, ArrayTree, Exploration, Memory, SpecTree
from ..environments import spaces
from ..environments.batched import BatchedEnvironment
from .loop import first_row

RESERVED: Final = (
    *("observation", "action", "reward", "terminated", "truncated", "next_observation"),
    *("state", "discount", "weight", "global_step", "global_timestep"),
)
"""Keys of ``labels`` that ``EstimatorSpec.record`` must leave alone."""
_PATIENCE = 1_000_000
"""Timesteps after which a memory that holds no more than these, and still cannot be sampled, never will be."""


def transition_specs(
    env: BatchedEnvironment, state: Mapping[str, ArraySpec] | None, recorded: Mapping[str, ArraySpec]
) -> dict[str, SpecTree]:
    """What one transition looks like: its keys, shapes and dtypes.

    Args:
        env: gives the spaces.
        state: the model's recurrent state, or None.
        recorded: what the spec asks to record.
    """
    observation = spaces.observation_spec(env.observation_space)
    specs: dict[str, SpecTree] = {
        "observation": observation,
        "action": spaces.action_spec(env.action_space),
        "reward": ArraySpec((), np.float32),
        "terminated": ArraySpec((), np.bool_),
        "truncated": ArraySpec((), np.bool_),
        "next_observation": observation,
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
        ValueError: a name is neither, or one of the labels' own.
    """
    if not names:
        return {}
    zeros: dict[str, Array] = {name: np.zeros((num_envs, *spec.shape), spec.dtype) for name, spec in outputs.items()}
    _, extras = copy.deepcopy(exploration)(zeros, 0, np.random.default_rng(0))
    found: dict[str, ArraySpec] = {}
    for name in names:
        if name in RESERVED:
            raise ValueError(f"EstimatorSpec.record names {name!r}, which labels have anyway; choose another name")
        value = extras.get(name, zeros.get(name))
        if value is None:
            raise ValueError(
                f"EstimatorSpec.record names {name!r}, which is neither a prediction ({', '.join(outputs)}) nor an"
                f" extra of the exploration ({', '.join(extras) or 'none'})"
            )
        found[name] = ArraySpec(value.shape[1:], value.dtype)
    return found


def trial_of(memory: Memory, specs: Mapping[str, SpecTree], num_envs: int) -> Memory:
    """A copy of a memory, built, to look at what it would do.

    Raises:
        ValueError: it cannot be copied, or is too large for the machine.
    """
    try:
        trial = copy.deepcopy(memory)
    except Exception as error:  # whatever a user's memory, or one that is in use, holds
        raise ValueError(
            f"the {type(memory).__name__} cannot be copied ({error}), to look at a batch of it: every Agent needs a"
            " memory of its own, a new one that copy.deepcopy can copy"
        ) from error
    trial.build(specs, num_envs, np.random.default_rng(0))
    return trial


def batch_specs(trial: Memory, specs: Mapping[str, SpecTree], env: BatchedEnvironment) -> dict[str, SpecTree]:
    """What a batch of this memory looks like, batch axes included: it is filled with zeros and sampled once.

    Raises:
        ValueError: the memory never has a batch, or cannot store environments that are out of step, as ``env`` will be.
    """
    num_envs = env.num_envs
    # Where environments skip rows, the first one falls behind, then all go on.
    mask: tuple[Array, ...] = (np.arange(num_envs) > 0,) if env.skips_rows else ()
    zeros = {key: _zeros(spec, num_envs) for key, spec in specs.items()}
    row = first_row(zeros)
    timesteps = max(_PATIENCE, 2 * int(getattr(trial, "size", 0)))
    for _ in range(timesteps // num_envs):
        if trial.can_sample():
            return {key: _spec_of(value) for key, value in trial.sample().items()}
        if num_envs == 1 and not mask:
            trial.step(**row)
            continue
        try:
            trial.extend(*mask, **zeros)
        except (ValueError, RuntimeError) as error:
            if not mask:
                raise
            raise ValueError(f"{env.name}: {env.not_exact}; {error}") from error
        mask = tuple(np.ones_like(one) for one in mask)
    raise ValueError(f"{type(trial).__name__} has no batch after {timesteps} timesteps")


def _zeros(spec: SpecTree, num_envs: int) -> ArrayTree:
    if isinstance(spec, Mapping):
        return {key: np.zeros((num_envs, *leaf.shape), leaf.dtype) for key, leaf in spec.items()}
    return np.zeros((num_envs, *spec.shape), spec.dtype)


def _spec_of(value: ArrayTree) -> SpecTree:
    if isinstance(value, Mapping):
        return {key: ArraySpec(leaf.shape, leaf.dtype) for key, leaf in value.items()}
    return ArraySpec(value.shape, value.dtype)
