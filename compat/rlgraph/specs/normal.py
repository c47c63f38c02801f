"""The normal form of an agent: every part of its specification with all its defaults, as JSON."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import numpy as np

from ...common.specs.argument_checks import integer, or_none
from ...common.specs.modules import resolve
from ...common.specs.tables import Argument
from ..processing.exploration import make_exploration
from ..spaces import BoolBox, FloatBox, IntBox, Space
from ..utils.rlgraph_errors import RLGraphWarning, mapping, refuse, refuse_unknown, translate_errors
from .agent_tables import TABLES, layers_of
from .agents import AGENTS
from .impala import KINDS, Reading, finish_impala

_EXECUTION: Final = ("seed", "mode", "distributed_spec", "ray_spec")
_IGNORED: Final = (
    *("disable_monitoring", "gpu_spec", "gpus_enabled", "device_strategy", "default_device", "device_map"),
    *("session_config", "monitored_session", "max_usable_gpus", "per_process_gpu_memory_fraction"),
    *("trace_enabled", "torch_num_threads", "OMP_NUM_THREADS"),
)
"""Keys of ``execution_spec`` without effect, besides those with these prefixes:"""
_IGNORED_STARTS: Final = ("profiler", "enable_", "timeline_")
_DEFAULT_OPTIMIZER: Final = {"type": "gradient_descent", "learning_rate": 1e-4}
_STREAMS: Final = ("units_state_value_stream", "units_advantage_stream")


def normal_form(kind: str, where: str, arguments: Mapping[str, Any], states: Space, actions: Space) -> dict[str, Any]:
    """The normal form of an agent's arguments.

    Args:
        kind: the agent's key.
        where: its class, for messages.
        arguments: all arguments, as returned by ``agents.bind``.
        states: the space of preprocessed states.
        actions: the action space.

    Raises:
        RLGraphError: a part is invalid, or parts do not fit each other.
    """
    reading = Reading(where, arguments, states, actions)
    form, ignored = reading.form, reading.ignored
    with translate_errors():
        form["kind"] = kind
        for name, one in AGENTS[kind].items():
            if one.check is not None or one.module is not None:
                form[name] = _read(f"{where}: {name}", one, arguments[name], ignored)
        ignored += [f"policy_spec[{name!r}]" for name in arguments["policy_spec"] or ()]
        if kind != "random":
            _FINISH[kind](reading)
            make_exploration(f"{where}: exploration_spec", form["exploration_spec"], actions.flat())
        if form.get("value_function_optimizer_spec", True) is None:
            form["value_function_optimizer_spec"] = form["optimizer_spec"]
    capacity, batch = form.get("memory_spec", {}).get("capacity"), form["update_spec"]["batch_size"]
    if kind not in ("random", *KINDS) and capacity < batch:
        text = f"{where}: memory_spec['capacity'], {capacity}, is less than a batch of {batch}"
        warnings.warn(f"{text}: updates wait until the memory is full", RLGraphWarning, stacklevel=3)
    if ignored:
        warnings.warn(f"{where}: ignored: {'; '.join(ignored)}", RLGraphWarning, stacklevel=3 + (kind in KINDS))
    return form


@contextlib.contextmanager
def updating(where: str, form: Mapping[str, Any], given: Any) -> Iterator[Mapping[str, Any]]:
    """Context that overrides entries of an agent's ``update_spec``, and yields it.

    If ``update_interval`` changes, ``sync_interval`` becomes a multiple of it, unless it is given too.

    Args:
        where: place of the entries, for messages.
        form: the agent's normal form, whose ``update_spec`` changes.
        given: the entries; None: none.

    Raises:
        RLGraphError: an entry is unknown or invalid.
    """
    own: dict[str, Any] = form["update_spec"]
    before = dict(own)
    if given is not None:
        with translate_errors():
            own.update(_other_update(where, form, dict(mapping(where, given))))
    try:
        yield own
    finally:
        own.update(before)


def _other_update(where: str, form: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    found = resolve(where, {**form["update_spec"], **given}, str(AGENTS[form["kind"]]["update_spec"].module), TABLES)
    if (every := found["sync_interval"]) is not None:
        interval = found["update_interval"]
        if "sync_interval" not in given:
            every = -(-every // interval) * interval
        _check_sync(where, every, interval)
    if given.get("sync_tau") is not None and (tau := form["value_function_sync_spec"]["sync_tau"]) != given["sync_tau"]:
        problem = f"must be {tau}, got {given['sync_tau']}: it is a constant of the model, set when the agent is made"
        refuse(f"{where}['sync_tau']", problem, given["sync_tau"])
    capacity = form.get("memory_spec", {}).get("capacity", found["batch_size"])
    if "batch_size" in given and capacity < found["batch_size"]:
        problem = f"must be at most the memory's capacity, {capacity}; got {found['batch_size']}"
        refuse(f"{where}['batch_size']", problem, found["batch_size"])
    return {**found, "sync_interval": every}


def _read(place: str, one: Argument, value: Any, ignored: list[str]) -> Any:
    """Resolve one argument on its own."""
    if one.module is None:
        return value if one.check is None else one.check(place, value)
    if one.module == "network":
        return None if value is None else layers_of(place, value, ignored)
    if one.module == "execution":
        return _execution(place, value, ignored)
    if one.name == "value_function_optimizer_spec" and value is None:
        return None
    if one.module == "optimizer" and (value is None or (isinstance(value, Mapping) and value.get("type") is None)):
        own = {name: part for name, part in (value or {}).items() if name != "type"}
        value = {**_DEFAULT_OPTIMIZER, **own}
    if one.name == "update_spec" and value is False:
        value = {"do_updates": False}
    return resolve(place, {} if value is None else value, one.module, TABLES, ignored)


def _execution(where: str, spec: Any, ignored: list[str]) -> dict[str, Any]:
    given = {} if spec is None else dict(mapping(where, spec))
    without = [name for name in given if name in _IGNORED or name.startswith(_IGNORED_STARTS)]
    refuse_unknown(where, [name for name in given if name not in without], [*_EXECUTION, *_IGNORED])
    if given.get("mode", "single") != "single" or given.get("distributed_spec") is not None:
        name = "distributed_spec" if given.get("distributed_spec") is not None else "mode"
        problem = "is for distributed TensorFlow: use ApexExecutor, or axonrl's agent.train(env, cluster=...)"
        refuse(f"{where}[{name!r}]", problem, given[name])
    if given.get("device_strategy", "default") not in ("default", None):
        problem = f"must be 'default', got {given['device_strategy']!r}: there is one learner, on one device"
        refuse(f"{where}['device_strategy']", problem, given["device_strategy"])
    ignored += [f"execution_spec[{name!r}]" for name in (*without, *(["mode"] if "mode" in given else []))]
    return {"seed": or_none(integer(0))(f"{where}['seed']", given.get("seed"))}


# -- agreement between parts of an agent -------------------------------------------------------------------------------


def _q_learning(reading: Reading) -> None:
    """Check and complete DQNAgent and ApexAgent."""
    form, spec = reading.form, reading.arguments["action_adapter_spec"]
    reading.require_categories()
    dueling, streams = form["dueling_q"], isinstance(spec, Mapping) and set(_STREAMS) & set(spec)
    adapter = reading.adapter("dueling_action_adapter" if dueling or streams else "action_adapter", "q_adapter")
    units = " and ".join(repr(name) for name in _STREAMS)
    if dueling and not all(adapter.get(name) for name in _STREAMS):
        problem = f"needs {units} because dueling_q is True; pass them, or dueling_q=False"
        reading.refuse("action_adapter_spec", problem, spec)
    if not dueling and adapter["type"] == "dueling_action_adapter":
        problem = f"has {units} or their type, which need dueling_q=True; dueling_q is False"
        reading.refuse("action_adapter_spec", problem, spec)
    update = form["update_spec"]
    if update["sync_interval"] is None:
        update["sync_interval"] = -(-128 // update["update_interval"]) * update["update_interval"]
    _check_sync(f"{reading.where}: update_spec", update["sync_interval"], update["update_interval"])
    _agree_on_steps(reading, form.pop("n_step"))


def _rollouts(reading: Reading) -> None:
    """Check and complete ActorCriticAgent and PPOAgent."""
    form = reading.form
    for name, box in reading.actions.flat().items():
        if not isinstance(box, BoolBox | FloatBox) and not (isinstance(box, IntBox) and box.num_categories):
            problem = "must be a FloatBox, or an IntBox with a number of values, such as IntBox(4)"
            reading.refuse("action_space" + (f"[{name!r}]" if name else ""), f"{problem}; got {box!r}", box)
    if (steps := form["observe_spec"]["n_step"]) != 1:
        problem = f"must be 1, got {steps}: use gae_lambda, which averages returns over all numbers of timesteps"
        reading.refuse("observe_spec['n_step']", problem, steps)
    shares = form["value_function_spec"] is None
    if shares and reading.arguments["value_function_optimizer_spec"] is not None:
        reading.ignored.append("value_function_optimizer_spec (there is no value_function_spec)")
    fitting = "baseline_action_adapter" if shares else "action_adapter"
    adapter = reading.adapter(fitting, "adapter")
    if adapter["type"] != fitting:
        values = "network_spec" if shares else "value_function_spec"
        problem = f"is {adapter['type']!r}, but must be {fitting!r}: state values come from {values}"
        reading.refuse("action_adapter_spec['type']", problem, adapter["type"])


def _soft(reading: Reading) -> None:
    """Check and complete SACAgent."""
    form, actions, arguments = reading.form, reading.actions, reading.arguments
    if not isinstance(actions, FloatBox) or not all(np.isfinite(bound).all() for bound in actions.bounds):
        problem = f"must be a FloatBox with bounds, such as FloatBox(-1.0, 1.0, shape=(2,)); got {actions!r}"
        reading.refuse("action_space", problem, actions)
    if arguments["action_adapter_spec"] is not None:
        reading.refuse("action_adapter_spec", "is not supported by this agent", arguments["action_adapter_spec"])
    update = form["update_spec"]
    if arguments["gumbel_softmax_temperature"] != 1.0:
        reading.ignored.append("gumbel_softmax_temperature (actions are floats)")
    if update["sync_interval"] not in (None, update["update_interval"]):
        reading.ignored.append("update_spec['sync_interval'] (target networks are updated at each update)")
    if update["sync_tau"] is not None:
        form["value_function_sync_spec"]["sync_tau"] = update["sync_tau"]
    if form["target_entropy"] is None:
        form["target_entropy"] = -actions.flat_dim
    if form["value_function_spec"] is None:
        form["value_function_spec"] = form["network_spec"]
    _agree_on_steps(reading, 1)


_FINISH: Final[Mapping[str, Callable[[Reading], None]]] = {
    **dict.fromkeys(("dqn", "apex"), _q_learning),
    **dict.fromkeys(("actor_critic", "ppo"), _rollouts),
    "sac": _soft,
    **dict.fromkeys(KINDS, finish_impala),
}
"""Functions that check and complete an agent's parts, by kind."""


def _check_sync(where: str, sync: int, every: int) -> None:
    if sync % every:
        problem = f"must be a multiple of update_spec['update_interval'], {every}; got {sync}"
        refuse(f"{where}['sync_interval']", problem, sync)


def _agree_on_steps(reading: Reading, own: int) -> None:
    """Set ``n_step`` of ``observe_spec``, which may also be an argument of the agent."""
    observe = reading.form["observe_spec"]
    other = observe["n_step"]
    if own > 1 and other > 1 and own != other:
        reading.refuse("n_step", f"is {own}, but observe_spec['n_step'] is {other}: give only one of them", own)
    observe["n_step"] = steps = max(own, other)
    if steps > 1 and not observe["buffer_enabled"]:
        problem = f"must be True if n_step is above 1; n_step is {steps}"
        reading.refuse("observe_spec['buffer_enabled']", problem, False)
    if steps > 1 and observe["buffer_size"] < 3 * steps:
        problem = f"must be at least 3 times n_step, {3 * steps}; got {observe['buffer_size']}"
        reading.refuse("observe_spec['buffer_size']", problem, observe["buffer_size"])
