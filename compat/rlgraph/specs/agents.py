"""The agents: their names, and their arguments with defaults."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import Any, Final

from ....core.checks import did_you_mean
from ...common.specs.argument_checks import anything, flag, integer, one_of, or_none, real, text
from ...common.specs.files import is_file_name, read_file
from ...common.specs.tables import REQUIRED, Argument, Check, without_case
from ..utils.rlgraph_errors import RLGraphError, choice, mapping, refuse, refuse_unknown, translate_errors
from .agent_tables import SUFFIXES

ROLES: Final = ("single", "actor", "learner")
"""Roles of IMPALAAgent: its ``type``, which a specification may have instead of the agent's key."""
FEEDS: Final = ("feed_previous_action_through_nn", "feed_previous_reward_through_nn")
"""Arguments that feed IMPALA's networks more than states."""
_SHARE: Final = real(at_least=0, at_most=1)
_WEIGHT: Final = real(at_least=0)


def _or(default: float, check: Check) -> Check:
    """A check that turns None into a default."""
    return lambda where, value: default if value is None else check(where, value)


def _role(where: str, value: Any) -> str:
    return choice(where, without_case(value) if isinstance(value, str) else value, ROLES)


_SHARED: Final = (
    *(Argument("state_space"), Argument("action_space"), Argument("discount", 0.98, _SHARE)),
    Argument("preprocessing_spec", None, anything),
    Argument("network_spec", module="network"),
    *(Argument(name, None) for name in ("internal_states_space", "action_adapter_spec", "policy_spec")),
    Argument("exploration_spec", None, anything),
    *(Argument(f"{name}_spec", None, module=name) for name in ("execution", "optimizer", "observe", "update")),
    *(Argument(f"{name}_spec", None, module=name) for name in ("summary", "saver")),
    Argument("auto_build", True, flag),
)
"""Arguments of all agents; those with neither check nor module are read together with the rest of the agent."""


def _agent(name: str | None, own: tuple[Argument, ...], *other: Argument) -> dict[str, Argument]:
    """Arguments in order: the kind's own, then those of all agents, some replaced by ``other`` ones."""
    shared = {one.name: one for one in (*_SHARED, *other, Argument("name", name, or_none(text)))}
    first = {one.name: one for one in own}
    return {**first, **{key: one for key, one in shared.items() if key not in first}}


def _q_learning(huber: bool) -> tuple[Argument, ...]:
    return (
        *(Argument("double_q", True, flag), Argument("dueling_q", True, flag), Argument("huber_loss", huber, flag)),
        Argument("n_step", 1, integer(1)),
        Argument("memory_spec", None, module="apex_memory" if huber else "replay_memory"),
        *(Argument(name, False, flag) for name in ("store_last_memory_batch", "store_last_q_table")),
    )


_ROLLOUTS: Final = Argument("memory_spec", None, module="rollout_memory")
_VALUE_OPTIMIZER: Final = Argument("value_function_optimizer_spec", None, module="optimizer")
_WORKERS: Final = (Argument("num_workers", 1, integer(1)), Argument("worker_sample_size", 100, integer(1)))
_IMPALA: Final = (
    *(Argument("batch_apply", False, flag), Argument("batch_apply_action_adapter", True, flag)),
    Argument("fifo_queue_spec", None),
    Argument("architecture", "large", one_of("small", "large")),
    Argument("environment_spec", None),
    Argument("weight_pg", None, _or(1.0, _WEIGHT)),
    Argument("weight_baseline", None, _or(0.5, _WEIGHT)),
    Argument("weight_entropy", None, _or(0.00025, _WEIGHT)),
    *(_WORKERS[1], Argument("dynamic_batching", False, flag), _WORKERS[0]),
    *(Argument(name, True, flag) for name in FEEDS),
    Argument("reward_clipping", "clamp_one", or_none(one_of("clamp_one", "soft_asymmetric"))),
)
_FREE: Final = (
    *(Argument("state_space", None), Argument("action_space", None), Argument("network_spec", None, module="network")),
    Argument("update_spec", None, module="impala_update"),
)
"""Shared arguments that differ for IMPALA: its environments have spaces, and ``architecture`` is a network."""
_DISCOUNT: Final = Argument("discount", 0.99, _SHARE)

AGENTS: Final[Mapping[str, Mapping[str, Argument]]] = {
    "dqn": _agent("dqn-agent", _q_learning(False)),
    "apex": _agent("apex-agent", _q_learning(True)),
    "actor_critic": _agent(
        "actor-critic-agent",
        (
            *(Argument("gae_lambda", 1.0, _SHARE), Argument("sample_episodes", True, flag), _ROLLOUTS),
            *(Argument("value_function_spec", None, module="network"), _VALUE_OPTIMIZER),
            Argument("weight_entropy", 0.01, _WEIGHT),
        ),
    ),
    "ppo": _agent(
        "ppo-agent",
        (
            Argument("value_function_spec", module="network"),
            *(Argument("clip_ratio", 0.2, real(above=0)), Argument("gae_lambda", 1.0, _SHARE)),
            *(Argument("standardize_advantages", False, flag), Argument("sample_episodes", True, flag), _ROLLOUTS),
            Argument("weight_entropy", 0.0, _WEIGHT),
            *(Argument("value_function_clipping", None, or_none(real(above=0))), _VALUE_OPTIMIZER),
        ),
        Argument("update_spec", None, module="ppo_update"),
    ),
    "sac": _agent(
        "sac-agent",
        (
            *(Argument("double_q", True, flag), Argument("initial_alpha", 1.0, real(above=0))),
            Argument("target_entropy", None, or_none(real())),
            Argument("value_function_spec", None, module="network"),
            Argument("value_function_sync_spec", None, module="sync"),
            *(Argument("memory_spec", None, module="replay_memory"), _VALUE_OPTIMIZER),
            Argument("gumbel_softmax_temperature", 1.0),
        ),
        Argument("update_spec", None, module="sac_update"),
    ),
    "impala": _agent(None, (_DISCOUNT, *_IMPALA, Argument("type", "single", _role)), *_FREE),
    "single_impala": _agent(None, (*_WORKERS, _DISCOUNT, *_IMPALA), *_FREE),
    "random": _agent("random-agent", (), Argument("network_spec", None), Argument("optimizer_spec", None)),
}
"""Arguments by key of the agent, in order, with their defaults and checks."""

_ALIASES: Final = {"num_actors": "num_workers"}

_REFUSED: Final = {"dqfd": "it is not supported: use DQNAgent, and import_observations for demonstrations"}


def _plain(name: str) -> str:
    plain = without_case(name)
    return plain.removesuffix("agent") or plain


_KEYS: Final = {_plain(key): key for key in AGENTS}


def is_file(spec: str) -> bool:
    """Does it name a file of arguments? The key of an agent never does."""
    return _plain(spec) not in _KEYS and is_file_name(spec, SUFFIXES)


def kind_of(where: str, name: str) -> str:
    """The key of the agent with this name; case, ``-``, ``_`` and a final ``agent`` do not matter.

    Raises:
        RLGraphError: there is no such agent; the message has the nearest name.
    """
    plain = _plain(name)
    if plain in _KEYS:
        return _KEYS[plain]
    if plain in _REFUSED:
        refuse(where, f"is {name!r}: {_REFUSED[plain]}", name)
    near = did_you_mean(name, AGENTS)
    agents, files = ", ".join(AGENTS), " or ".join(SUFFIXES)
    raise RLGraphError(
        f"{where} must be one of {agents}, or the name of a {files} file; got {name!r}{near}", where, name
    )


def is_role(kind: str, name: Any) -> bool:
    """Is the value of ``type`` a role of this kind of agent, rather than an agent's key?"""
    return kind == "impala" and isinstance(name, str) and without_case(name) in ROLES


def read_spec(where: str, spec: Any) -> dict[str, Any]:
    """The arguments in a dictionary or a file; the dictionary is not changed.

    Raises:
        RLGraphError: it is neither, or the file cannot be read.
    """
    if isinstance(spec, str) and is_file_name(spec, SUFFIXES):
        with translate_errors():
            spec = read_file(where, spec, SUFFIXES)
    return dict(mapping(where, spec))


def bind(kind: str, where: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """All arguments of an agent in order, as given or with their defaults.

    Args:
        kind: a key of :data:`AGENTS`.
        where: the agent's class, for messages.
        args: positional arguments; the first may be a dictionary or the name of a file, whose arguments ``kwargs``
            override.
        kwargs: keyword arguments.

    Raises:
        RLGraphError: an argument is unknown, missing, or given twice.
    """
    defaults = {name: one.default for name, one in AGENTS[kind].items()}
    names, given = list(defaults), dict(kwargs)
    if args and _is_specification(args[0], defaults):
        spec = read_spec(where, args[0])
        own = spec.pop("type", kind)
        if is_role(kind, own):
            spec, own = {**spec, "type": own}, kind
        if not isinstance(own, str) or kind_of(f"{where}: type", own) != kind:
            refuse(f"{where}: type", f"is {own!r}, which is a different agent", own)
        args, given = args[1:], {**spec, **given}
    if len(args) > len(names):
        refuse(where, f"takes {len(names)} arguments, got {len(args)} by position", args[len(names)])
    for name, value in zip(names, args, strict=False):
        if name in given:
            refuse(f"{where}: {name}", "is given twice, by position and by name", value)
        given[name] = value
    for alias, name in _ALIASES.items():
        if alias in given and name in defaults:
            if name in given:
                refuse(f"{where}: {alias}", f"and {name} are two names of one argument", given[alias])
            given[name] = given.pop(alias)
    refuse_unknown(where, given, names)
    _open_policy(where, given)
    values = {name: given.get(name, default) for name, default in defaults.items()}
    for name, default in defaults.items():
        if default is REQUIRED and (values[name] is REQUIRED or values[name] is None):
            refuse(f"{where}: {name}", f"is missing: {where} needs it", None)
    return values


def signature(kind: str) -> inspect.Signature:
    """The arguments of this kind of agent, then those of all agents, as RLgraph names them."""
    defaults = {name: one.default for name, one in AGENTS[kind or "random"].items()}
    own = list(defaults)[: list(defaults).index("state_space")] if kind and kind != "random" else list(defaults)
    empty, usual = inspect.Parameter.empty, inspect.Parameter.POSITIONAL_OR_KEYWORD
    values = {name: empty if defaults[name] is REQUIRED else defaults[name] for name in own}
    found = [inspect.Parameter(name, usual, default=value) for name, value in values.items()]
    rest = [] if len(own) == len(defaults) else [inspect.Parameter("kwargs", inspect.Parameter.VAR_KEYWORD)]
    return inspect.Signature([*found, *rest])


def _open_policy(where: str, given: dict[str, Any]) -> None:
    """Move ``network_spec`` and ``action_adapter_spec`` of ``policy_spec`` to the agent's arguments.

    A ``dueling-policy`` of RLgraph 0.2 and later also has the units of its streams there; the advantage stream's are
    those of the one dense layer before the action adapter.
    """
    place = f"{where}: policy_spec"
    if (spec := given.get("policy_spec")) is None:
        return
    parts = dict(mapping(place, spec))
    refuse_unknown(place, parts, (*_POLICY_PARTS, *_STREAM, *_POLICY_IGNORED, "type", "scope"), what="key")
    streams = {name: parts[name] for name in _STREAM if name in parts}
    adapter = parts.get("action_adapter_spec")
    if streams:
        adapter = {**_dueling(f"{place}['action_adapter_spec']", adapter), **streams}
    for name, value in (("network_spec", parts.get("network_spec")), ("action_adapter_spec", adapter)):
        if value is not None:
            if given.get(name) is not None:
                refuse(f"{place}[{name!r}]", f"and {name} of the agent are one argument: give one of them", value)
            given[name] = value
    given["policy_spec"] = {name: parts[name] for name in _POLICY_IGNORED if name in parts} or None


_POLICY_PARTS: Final = ("network_spec", "action_adapter_spec")
_POLICY_IGNORED: Final = ("deterministic", "batch_apply", "batch_apply_action_adapter")
_STREAM: Final = ("units_state_value_stream", "activation_state_value_stream")
"""Keys of a dueling policy's value stream in ``policy_spec``."""


def _dueling(where: str, spec: Any) -> dict[str, Any]:
    adapter = dict(mapping(where, spec or {}))
    layers = adapter.pop("pre_network_spec", None)
    if not isinstance(layers, list | tuple) or len(layers) != 1 or "units" not in mapping(where, layers[0]):
        problem = "must have one dense layer under 'pre_network_spec', the advantage stream"
        refuse(where, f"{problem}; got {spec!r:.200}", spec)
    stream = {"activation_advantage_stream": "activation", "units_advantage_stream": "units"}
    stream |= {"weights_spec_advantage_stream": "weights_spec", "biases_spec_advantage_stream": "biases_spec"}
    return {"type": "dueling_action_adapter", **{name: layers[0].get(key) for name, key in stream.items()}, **adapter}


def _is_specification(given: Any, names: Mapping[str, Any]) -> bool:
    """Is it an agent's arguments, rather than the specification of a space?"""
    if isinstance(given, Mapping):
        return any(name in given for name in names)
    return isinstance(given, str) and is_file_name(given, SUFFIXES)
