"""Estimate an agent's memory use from its specs, before anything is created."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

import gymnasium
import numpy as np
from gymnasium.spaces import Box

from ...core import registry
from ...core.errors import ArgumentError
from ...core.protocols import ArraySpec
from ...estimators.batch_layout import transition_specs
from . import hosted, sizes

MAX_BYTES: Final = 512 * 2**20
"""Maximum of an agent: transitions of a full memory, and variables."""
_FLOAT: Final = 4
_SCALAR: Final = ArraySpec((), np.float32)


def check(
    model: str,
    memory: Mapping[str, Any],
    params: Mapping[str, Any],
    observation: gymnasium.Space[Any],
    action: gymnasium.Space[Any],
    documented: Mapping[str, str],
) -> None:
    """Refuse an agent that is too large.

    Raises:
        ArgumentError: its memory or its network is too large; ``argument`` is the value to lower.
    """
    network = _FLOAT * variables(model, params, observation, action)
    if network > MAX_BYTES:
        own = max(("hidden", "critic_hidden"), key=lambda one: sum(params.get(one) or ()))
        name = documented[own]
        message = f"{name}: the network of this {model} would take about {_mib(network)} of {_mib(MAX_BYTES)}: "
        raise ArgumentError(f"{message}make layers or observations smaller", name, params[own])
    stored = transitions(memory, observation, action)
    if stored + network > MAX_BYTES:
        name, size = documented["size"], memory["size"]
        fits = int(size * (MAX_BYTES - network) / stored)
        message = f"{name}={size:,} would take {_mib(stored)}, above the limit of {_mib(MAX_BYTES)}"
        raise ArgumentError(f"{message}: choose at most {fits:,}, or smaller observations", name, size)


def transitions(memory: Mapping[str, Any], observation: gymnasium.Space[Any], action: gymnasium.Space[Any]) -> int:
    """Bytes of a full memory."""
    arguments = dict(memory)
    kind = arguments.pop("kind")
    recorded = {"log_prob": _SCALAR, "value": _SCALAR} if kind == hosted.BATCH_MEMORY else {}
    specs = transition_specs(observation, action, None, recorded)
    return int(registry.find("memory", kind)(**arguments).nbytes_for(specs, 1))


def variables(
    model: str, params: Mapping[str, Any], observation: gymnasium.Space[Any], action: gymnasium.Space[Any]
) -> int:
    """Approximate count of numbers in a model's variables, with targets and the optimizer's two moments of each."""
    width = math.prod(action.shape or ()) if isinstance(action, Box) else sizes.inputs(action)
    outputs = width * max(params.get(name, 1) for name in ("atoms", "quantiles"))
    is_critic_of_both = isinstance(action, Box) and hosted.MODELS[model].memory == hosted.REPLAY
    given = sizes.inputs(observation) + (width if is_critic_of_both else 0)
    layers = [given, *(params["hidden"] or (64, 64)), width if "cosines" in params else outputs]
    one = _dense(layers) + (_dense([params["cosines"], layers[-2]]) if "cosines" in params else 0)
    if params.get("noisy"):
        one *= 2
    if model == "naf":
        one += layers[-2] * width * (width + 1) // 2
    critics = 0 if model in ("dqn", "rainbow", "c51", "qr_dqn", "iqn", "naf") else int(params.get("critics", 2))
    critic = _dense([given, *params["critic_hidden"], outputs]) if "critic_hidden" in params else one
    found = 4 * (one + critics * critic)
    if params.get("intrinsic_coefficient") is not None:  # target and predictor: models/blocks/rnd.py
        found += 4 * _dense([sizes.inputs(observation), *[params["rnd_units"]] * 4])
    return found


def _dense(layers: Sequence[int]) -> int:
    return sum((inner + 1) * outer for inner, outer in itertools.pairwise(layers))


def _mib(count: int) -> str:
    return f"{count / 2**20:,.0f} MiB"
