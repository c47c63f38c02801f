"""The agents: their names, and their arguments in order with defaults."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any, Final

from ....core.errors import ArgumentError
from ...common.specs.argument_checks import as_json, by_name, flag, or_none, text
from ...common.specs.tables import REQUIRED, Argument, Entry
from ..spaces import errors
from ..spaces.errors import TensorforceError, refuse, refuse_unknown, translate_errors
from ..spaces.specs import Values
from .table_checks import EPISODE, frequency, integer, parameter, real

WHERE: Final = "Agent.create"
"""Prefix of messages."""


_RATE: Final = parameter(at_least=0)
_STATES_ACTIONS: Final = (Argument("states"), Argument("actions"))
_LIMIT: Final = Argument("max_episode_timesteps", None, or_none(integer(1)))
_NEEDED_LIMIT: Final = Argument("max_episode_timesteps", check=integer(1))
_BATCH: Final = Argument("batch_size", check=integer(1))
_CAPACITY: Final = Argument("memory", None, or_none(integer(1)))
_NETWORK: Final = Argument("network", "auto")
_BETA: Final = Argument("use_beta_distribution", True, flag)
_FREQUENCY: Final = Argument("update_frequency", None, frequency)
_LEARNING_RATE: Final = Argument("learning_rate", 3e-4, _RATE)
_HORIZON: Final = Argument("horizon", 0, parameter(at_least=0, is_whole=True, words=(EPISODE,)))
_RETURNS: Final = (
    Argument("discount", 0.99, parameter(at_least=0, at_most=1)),
    Argument("estimate_terminal", False, flag),
)
_CRITIC: Final = (Argument("critic_network", "auto"), Argument("critic_optimizer", 1.0))
_NO_CRITIC: Final = (Argument("critic_network", None), Argument("critic_optimizer", None))

_EPISODIC: Final = (*_STATES_ACTIONS, _NEEDED_LIMIT, _BATCH, _NETWORK, _BETA, _CAPACITY, _FREQUENCY)
_ACTOR_CRITIC: Final = (
    *(*_STATES_ACTIONS, _BATCH, _LIMIT, _NETWORK, _BETA, _CAPACITY, _FREQUENCY, _LEARNING_RATE, _HORIZON, _RETURNS[0]),
    *(Argument("state_action_value", False, flag), _RETURNS[1], *_CRITIC),
)
_REPLAY: Final = (*_STATES_ACTIONS, Argument("memory", check=integer(1)), _BATCH, _LIMIT, _NETWORK)
_REPLAY_UPDATE: Final = (_FREQUENCY, Argument("start_updating", None, or_none(parameter(at_least=0, is_whole=True))))
_DQN: Final = (
    *(*_REPLAY, *_REPLAY_UPDATE, _LEARNING_RATE, Argument("huber_loss", 0.0, _RATE), _HORIZON, *_RETURNS),
    Argument("target_sync_frequency", 1, parameter(at_least=1, is_whole=True)),
    Argument("target_update_weight", 1.0, parameter(at_least=0, at_most=1)),
)

_NAME: Final = Argument("name", "agent", text)
_SEED: Final = Argument("seed", None, or_none(integer(0)))
_SIMPLE_TAIL: Final = (
    *(_NAME, Argument("device", None), Argument("parallel_interactions", 1, integer(1)), _SEED),
    *(Argument(name, None) for name in ("summarizer", "recorder", "config")),
)
_LEARNING: Final = (
    Argument("preprocessing", None),
    Argument("exploration", 0.0, by_name(_RATE)),
    Argument("variable_noise", 0.0, _RATE),
    Argument("l2_regularization", 0.0, _RATE),
    Argument("entropy_regularization", 0.0, _RATE),
    _NAME,
    Argument("device", None),
    Argument("parallel_interactions", 1, integer(1)),
)
_BUFFER: Final = Argument("buffer_observe", True)
_FILES: Final = tuple(Argument(name, None) for name in ("execution", "saver", "summarizer", "recorder", "config"))
_TAIL: Final = (*_LEARNING, _SEED, *_FILES)

IGNORED: Final = ("device", "execution", "config", "buffer_observe")
"""Arguments without effect."""

_FROM_06: Final = {
    "reward_preprocessing": "preprocessing",
    "state_preprocessing": "preprocessing",
    "reward_processing": "preprocessing",
    "multi_step": "optimization_steps",
    "predict_terminal_values": "estimate_terminal",
    "predict_horizon_values": "estimate_horizon",
    "predict_action_values": "state_action_value",
    "tracking": "",
    "baseline": "",
    "critic": "",
}
"""Names of Tensorforce 0.6, and those of 0.5.5; empty if it depends on the agent, or there is none."""
_CRITICS: Final = ("critic_network", "baseline_network", "baseline_policy")

AGENTS: Final[Mapping[str, Entry]] = {
    "tensorforce": Entry(
        (
            *(*_STATES_ACTIONS, Argument("update"), Argument("objective"), Argument("reward_estimation"), _LIMIT),
            *(Argument("policy", "default"), Argument("memory", None), Argument("optimizer", "adam")),
            *(Argument(f"baseline_{what}", None) for what in ("policy", "optimizer", "objective")),
            *(*_LEARNING, _BUFFER, _SEED, *_FILES),
        ),
        classes=("default", "TensorforceAgent"),
    ),
    "ppo": Entry(
        (
            *(*_EPISODIC, _LEARNING_RATE, Argument("subsampling_fraction", 0.33, real(above=0, at_most=1))),
            Argument("optimization_steps", 10, integer(1)),
            Argument("likelihood_ratio_clipping", 0.2, _RATE),
            *(*_RETURNS, *_NO_CRITIC, *_TAIL),
        ),
        classes=("PPO", "PPOAgent", "ProximalPolicyOptimization"),
    ),
    "vpg": Entry(
        (
            *(*_EPISODIC, _LEARNING_RATE, *_RETURNS),
            *(Argument("baseline_network", None), Argument("baseline_optimizer", None), *_TAIL),
        ),
        classes=("reinforce", "VPG", "VPGAgent", "REINFORCE", "VanillaPolicyGradient"),
    ),
    "trpo": Entry(
        (*_EPISODIC, Argument("learning_rate", 1e-3, _RATE), *_RETURNS, *_NO_CRITIC, *_TAIL),
        classes=("TRPO", "TRPOAgent", "TrustRegionPolicyOptimization"),
    ),
    "a2c": Entry((*_ACTOR_CRITIC, *_TAIL), classes=("A2C", "A2CAgent", "AdvantageActorCritic")),
    "ac": Entry((*_ACTOR_CRITIC, *_TAIL), classes=("AC", "ACAgent", "ActorCritic")),
    "dqn": Entry((*_DQN, *_TAIL), classes=("DQN", "DQNAgent", "DeepQNetwork")),
    "double_dqn": Entry((*_DQN, *_TAIL), classes=("ddqn", "DDQN", "DoubleDQN", "DoubleDQNAgent")),
    "dueling_dqn": Entry((*_DQN, *_TAIL), classes=("DuelingDQN", "DuelingDQNAgent")),
    "dpg": Entry(
        (*_REPLAY, _BETA, *_REPLAY_UPDATE, _LEARNING_RATE, _HORIZON, *_RETURNS, *_CRITIC, *_TAIL),
        classes=("ddpg", "DPG", "DDPG", "DPGAgent", "DDPGAgent", "DeterministicPolicyGradient"),
    ),
    "constant": Entry(
        (*_STATES_ACTIONS, _LIMIT, Argument("action_values", None), *_SIMPLE_TAIL), classes=("ConstantAgent",)
    ),
    "random": Entry((*_STATES_ACTIONS, _LIMIT, *_SIMPLE_TAIL), classes=("RandomAgent",)),
}
"""Agents by key; ``classes`` are other keys, and names of the agent's class in Tensorforce."""


def bind(kind: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """All arguments of an agent in order, as given or with their defaults.

    Args:
        kind: the agent's key in :data:`AGENTS`.
        args: positional arguments.
        kwargs: keyword arguments.

    Raises:
        TensorforceError: an argument is unknown, missing, or given twice.
    """
    arguments = AGENTS[kind].arguments
    names = [argument.name for argument in arguments]
    if len(args) > len(names):
        refuse(WHERE, f"of {kind} takes {len(names)} arguments, got {len(args)} by position", args[len(names)])
    given = dict(zip(names, args, strict=False))
    for name in kwargs:
        if name in given:
            refuse(f"{WHERE}: {name}", "is given twice, by position and by name", kwargs[name])
    for name in (one for one in kwargs if one in _FROM_06 and one not in names):
        wanted = _FROM_06[name]
        if name in {"baseline", "critic"}:
            wanted = next((critic for critic in _CRITICS if critic in names), "")
        what = f"here it is {wanted}" if wanted in names else f"{kind} has no equivalent"
        problem = f"{WHERE} of {kind} takes no argument {name!r}, which is Tensorforce 0.6's: {what}"
        raise TensorforceError(problem, name, kwargs[name])
    refuse_unknown(f"{WHERE} of {kind}", kwargs, names)
    given |= kwargs
    values = {argument.name: given.get(argument.name, argument.default) for argument in arguments}
    for argument in arguments:
        if argument.default is REQUIRED and (values[argument.name] is REQUIRED or values[argument.name] is None):
            refuse(f"{WHERE}: {argument.name}", f"is missing: {kind} needs it", None)
    buffered = values.get("buffer_observe", True)
    if not isinstance(buffered, bool):
        buffered = errors.integer(f"{WHERE}: buffer_observe", buffered, at_least=1)
        if values["parallel_interactions"] != 1:
            problem = f"must be True or False with several parallel interactions, got {buffered}"
            refuse(f"{WHERE}: buffer_observe", problem, buffered)
    defaults = {argument.name: argument.default for argument in arguments}
    found = [name for name in IGNORED if name in values and values[name] is not defaults[name]]
    if found:
        warnings.warn(f"{WHERE}: {', '.join(found)} has no effect in axonrl", UserWarning, stacklevel=2)
    return values


def check_arguments(kind: str, values: Mapping[str, Any]) -> dict[str, Any]:
    """Bound arguments with their final values; modules, states and actions stay as given.

    Raises:
        TensorforceError: an argument is invalid.
    """
    with translate_errors():
        return {
            argument.name: values[argument.name]
            if argument.check is None
            else argument.check(f"{WHERE}: {argument.name}", values[argument.name])
            for argument in AGENTS[kind].arguments
        }


def to_json_or_none(arguments: Mapping[str, Any]) -> dict[str, Any] | None:
    """The arguments in JSON types, or None if they contain functions or classes."""
    values = {key: value.to_json() if isinstance(value, Values) else value for key, value in arguments.items()}
    try:
        return {key: as_json(key, value) for key, value in values.items()}
    except ArgumentError:
        return None
