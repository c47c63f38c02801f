"""The normal form of an agent: every part of its specification with all its defaults, as JSON."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from ...common.specs.argument_checks import or_none, whole
from ...common.specs.modules import resolve
from ..processing.exploration import make_exploration
from ..spaces import FloatBox, IntBox, Space
from ..utils.rlgraph_errors import RLGraphWarning, flag, known, mapping, number, refuse, translate_errors
from .agent_tables import TABLES, layers_of
from .impala import KINDS, impala_form, role_of
from .on_policy import on_policy_form

_EXECUTION: Final = ("seed", "mode", "distributed_spec", "ray_spec")
_IGNORED: Final = (
    *("disable_monitoring", "gpu_spec", "gpus_enabled", "device_strategy", "default_device", "device_map"),
    *("session_config", "monitored_session", "max_usable_gpus", "per_process_gpu_memory_fraction"),
    *("trace_enabled", "torch_num_threads", "OMP_NUM_THREADS"),
)
"""Keys of ``execution_spec`` without effect, beside those that begin so:"""
_IGNORED_STARTS: Final = ("profiler", "enable_", "timeline_")
_DEFAULT_OPTIMIZER: Final = {"type": "gradient_descent", "learning_rate": 1e-4}
_MEMORIES: Final = {
    "dqn": ("replay", "prioritized_replay"),
    "apex": ("prioritized_replay",),
    "sac": ("replay", "prioritized_replay"),
    "ppo": ("ring_buffer",),
    "actor_critic": ("ring_buffer",),
}
"""That fit, by agent: the first is the default."""
_UPDATES: Final = {"ppo": "ppo_update", "sac": "sac_update", **dict.fromkeys(KINDS, "impala_update")}
"""Rooms of ``update_spec`` that are not everyone's."""
_STREAMS: Final = ("units_state_value_stream", "units_advantage_stream")


def normal_form(kind: str, where: str, arguments: Mapping[str, Any], states: Space, actions: Space) -> dict[str, Any]:
    """What the arguments of an agent mean.

    Args:
        kind: of the agent.
        where: its class, for messages.
        arguments: all of them, as ``agents.bind`` returns them.
        states: what the model sees.
        actions: what it chooses.

    Raises:
        RLGraphError: a part is wrong, or parts do not fit each other.
    """
    ignored: list[str] = []
    with translate_errors():
        form = _common(kind, where, arguments, ignored)
        ignored += [f"policy_spec[{name!r}]" for name in arguments["policy_spec"] or ()]
        if kind != "random":
            form |= _learning(kind, where, arguments, form, states, actions, ignored)
        if kind in ("dqn", "apex"):
            form |= _q_learning(where, arguments, form, actions, ignored)
        if kind in ("actor_critic", "ppo"):
            form |= on_policy_form(kind, where, arguments, form, actions, ignored)
        if kind == "sac":
            form |= _soft(where, arguments, form, actions, ignored)
        if kind != "random":
            make_exploration(f"{where}: exploration_spec", arguments["exploration_spec"], actions.flat())
    if ignored:
        warnings.warn(f"{where}: no effect have {'; '.join(ignored)}", RLGraphWarning, stacklevel=3 + (kind in KINDS))
    return form


def other_update(where: str, form: Mapping[str, Any], given: Any) -> dict[str, Any]:
    """An agent's ``update_spec`` with other entries.

    ``sync_interval``, unless it is among them, becomes a multiple of another ``update_interval``.

    Args:
        where: their place, for messages.
        form: the agent's normal form.
        given: the entries; None: none.

    Raises:
        RLGraphError: an entry is unknown or wrong.
    """
    own: dict[str, Any] = dict(form["update_spec"])
    if given is None:
        return own
    with translate_errors():
        given = dict(mapping(where, given))
        found = resolve(where, {**own, **given}, _UPDATES.get(form["kind"], "update"), TABLES)
        if (every := found["sync_interval"]) is not None:
            interval = found["update_interval"]
            if "sync_interval" not in given:
                every = -(-every // interval) * interval
            _check_sync(where, every, interval)
        capacity = form.get("memory_spec", {}).get("capacity", found["batch_size"])
        if "batch_size" in given and capacity < found["batch_size"]:
            problem = f"must be at most the memory's capacity, {capacity}; got {found['batch_size']}"
            refuse(f"{where}['batch_size']", problem, found["batch_size"])
    return {**found, "sync_interval": every}


def _common(kind: str, where: str, arguments: Mapping[str, Any], ignored: list[str]) -> dict[str, Any]:
    """What all agents have."""
    place = f"{where}: name"
    name = arguments["name"]
    if name is None and kind in KINDS:
        name = f"impala-{role_of(where, arguments)}-agent"
    if not isinstance(name, str) or not name:
        refuse(place, f"must be a name, got {name!r}", name)
    form = {
        "kind": kind,
        "discount": number(f"{where}: discount", arguments["discount"], at_least=0, at_most=1),
        "auto_build": flag(f"{where}: auto_build", arguments["auto_build"]),
        "name": name,
        "execution_spec": _execution(f"{where}: execution_spec", arguments["execution_spec"], ignored),
        "exploration_spec": arguments["exploration_spec"],
        "preprocessing_spec": arguments["preprocessing_spec"],
    }
    for part in ("observe", "summary", "saver"):
        form[f"{part}_spec"] = _settings(where, f"{part}_spec", arguments, part)
    update = {"do_updates": False} if arguments["update_spec"] is False else arguments["update_spec"]
    form["update_spec"] = _settings(where, "update_spec", {"update_spec": update}, _UPDATES.get(kind, "update"))
    return form


def _learning(
    kind: str,
    where: str,
    arguments: Mapping[str, Any],
    form: Mapping[str, Any],
    states: Space,
    actions: Space,
    ignored: list[str],
) -> dict[str, Any]:
    """What agents with a model have."""
    own = {"optimizer_spec": _optimizer(f"{where}: optimizer_spec", arguments["optimizer_spec"])}
    if "value_function_optimizer_spec" in arguments:
        spec, place = arguments["value_function_optimizer_spec"], f"{where}: value_function_optimizer_spec"
        own["value_function_optimizer_spec"] = own["optimizer_spec"] if spec is None else _optimizer(place, spec)
    if kind in KINDS:
        return own | impala_form(where, arguments, form["update_spec"], states, actions, ignored)
    fitting = _MEMORIES[kind]
    spec = arguments["memory_spec"]
    memory = resolve(f"{where}: memory_spec", fitting[0] if spec is None else spec, "memory", TABLES)
    if memory["type"] not in fitting:
        refuse(f"{where}: memory_spec", f"is {memory['type']!r}; what fits is {' or '.join(fitting)}", spec)
    batch = form["update_spec"]["batch_size"]
    if memory["capacity"] < batch:
        text = f"{where}: memory_spec['capacity'], {memory['capacity']}, is less than a batch of {batch}"
        warnings.warn(f"{text}: updates draw from a memory that is full", RLGraphWarning, stacklevel=4)
    network = layers_of(f"{where}: network_spec", arguments["network_spec"], ignored)
    return {**own, "memory_spec": memory, "network_spec": network}


def _optimizer(where: str, spec: Any) -> dict[str, Any]:
    """An optimizer; without ``type`` it is gradient descent, whose learning rate has a default."""
    given = {} if spec is None else spec
    if isinstance(given, Mapping) and given.get("type") is None:
        given = {**_DEFAULT_OPTIMIZER, **{name: value for name, value in given.items() if name != "type"}}
    found: dict[str, Any] = resolve(where, given, "optimizer", TABLES)
    return found


def _q_learning(
    where: str, arguments: Mapping[str, Any], form: Mapping[str, Any], actions: Space, ignored: list[str]
) -> dict[str, Any]:
    """What DQNAgent and ApexAgent have."""
    if not isinstance(actions, IntBox) or not actions.num_categories:
        refuse(
            f"{where}: action_space",
            f"must be an IntBox with a number of values, such as IntBox(4); got {actions!r}",
            actions,
        )
    flags = ("double_q", "dueling_q", "huber_loss", "store_last_memory_batch", "store_last_q_table")
    own: dict[str, Any] = {name: flag(f"{where}: {name}", arguments[name]) for name in flags}
    own["action_adapter_spec"] = _adapter(where, arguments["action_adapter_spec"], own["dueling_q"], ignored)
    own["update_spec"] = _with_sync(where, form["update_spec"])
    own["observe_spec"] = _with_steps(where, arguments["n_step"], form["observe_spec"])
    return own


def _soft(
    where: str, arguments: Mapping[str, Any], form: Mapping[str, Any], actions: Space, ignored: list[str]
) -> dict[str, Any]:
    """What SACAgent has."""
    if not isinstance(actions, FloatBox) or not all(np.isfinite(bound).all() for bound in actions.bounds):
        problem = f"must be a FloatBox with bounds, such as FloatBox(-1.0, 1.0, shape=(2,)); got {actions!r}"
        refuse(f"{where}: action_space", problem, actions)
    if arguments["action_adapter_spec"] is not None:
        refuse(f"{where}: action_adapter_spec", "is not for this agent", arguments["action_adapter_spec"])
    target, spec = arguments["target_entropy"], arguments["value_function_spec"]
    update = form["update_spec"]
    if arguments["gumbel_softmax_temperature"] != 1.0:
        ignored.append("gumbel_softmax_temperature (actions are floats)")
    if update["sync_interval"] not in (None, update["update_interval"]):
        ignored.append("update_spec['sync_interval'] (targets follow at each update)")
    sync = _settings(where, "value_function_sync_spec", arguments, "sync")
    if update["sync_tau"] is not None:
        sync = {**sync, "sync_tau": update["sync_tau"]}
    return {
        "double_q": flag(f"{where}: double_q", arguments["double_q"]),
        "initial_alpha": number(f"{where}: initial_alpha", arguments["initial_alpha"], above=0),
        "target_entropy": -actions.flat_dim if target is None else number(f"{where}: target_entropy", target),
        "value_function_spec": form["network_spec"]
        if spec is None
        else layers_of(f"{where}: value_function_spec", spec, ignored),
        "value_function_sync_spec": sync,
        "observe_spec": _with_steps(where, 1, form["observe_spec"]),
    }


def _adapter(where: str, spec: Any, dueling: bool, ignored: list[str]) -> dict[str, Any]:
    place = f"{where}: action_adapter_spec"
    given = {} if spec is None else dict(mapping(place, {"type": spec} if isinstance(spec, str) else spec))
    given.setdefault("type", "dueling_action_adapter" if dueling or set(_STREAMS) & set(given) else "action_adapter")
    adapter = resolve(place, given, "adapter", TABLES, ignored)
    units = " and ".join(repr(name) for name in _STREAMS)
    if dueling and not all(adapter.get(name) for name in _STREAMS):
        refuse(place, f"needs {units} where dueling_q is True; pass them, or dueling_q=False", spec)
    if not dueling and adapter["type"] == "dueling_action_adapter":
        refuse(place, f"has {units} or their type, which are for dueling_q=True; dueling_q is False", spec)
    return adapter


def _with_sync(where: str, update: Mapping[str, Any]) -> dict[str, Any]:
    """``update_spec`` with the interval at which the target network is copied, a multiple of that of updates."""
    every, sync = update["update_interval"], update["sync_interval"]
    if sync is None:
        sync = -(-128 // every) * every
    _check_sync(f"{where}: update_spec", sync, every)
    return {**update, "sync_interval": sync}


def _check_sync(where: str, sync: int, every: int) -> None:
    if sync % every:
        problem = f"must be a multiple of update_spec['update_interval'], {every}; got {sync}"
        refuse(f"{where}['sync_interval']", problem, sync)


def _with_steps(where: str, n_step: Any, observe: Mapping[str, Any]) -> dict[str, Any]:
    """``observe_spec`` with the timesteps of a record, which the agent may say too."""
    own, other = whole(1)(f"{where}: n_step", n_step), observe["n_step"]
    if own > 1 and other > 1 and own != other:
        refuse(f"{where}: n_step", f"is {own}, and observe_spec['n_step'] is {other}: give one of them", own)
    steps, size = max(own, other), observe["buffer_size"]
    if steps > 1 and not observe["buffer_enabled"]:
        refuse(f"{where}: observe_spec['buffer_enabled']", f"must be True where n_step is more than 1, {steps}", False)
    if steps > 1 and size < 3 * steps:
        problem = f"must be at least 3 times n_step, {3 * steps}; got {size}"
        refuse(f"{where}: observe_spec['buffer_size']", problem, size)
    return {**observe, "n_step": steps}


def _settings(where: str, name: str, arguments: Mapping[str, Any], kind: str) -> dict[str, Any]:
    spec = arguments[name]
    return resolve(f"{where}: {name}", {} if spec is None else spec, kind, TABLES)


def _execution(where: str, spec: Any, ignored: list[str]) -> dict[str, Any]:
    given = {} if spec is None else dict(mapping(where, spec))
    without = [name for name in given if name in _IGNORED or name.startswith(_IGNORED_STARTS)]
    known(where, [name for name in given if name not in without], [*_EXECUTION, *_IGNORED])
    if given.get("mode", "single") != "single" or given.get("distributed_spec") is not None:
        name = "distributed_spec" if given.get("distributed_spec") is not None else "mode"
        problem = "is for several processes of TensorFlow: use ApexExecutor, or agent.train(env, cluster=...) of axonrl"
        refuse(f"{where}[{name!r}]", problem, given[name])
    if given.get("device_strategy", "default") not in ("default", None):
        problem = f"must be 'default', got {given['device_strategy']!r}: there is one learner, on one device"
        refuse(f"{where}['device_strategy']", problem, given["device_strategy"])
    ignored += [f"execution_spec[{name!r}]" for name in (*without, *(["mode"] if "mode" in given else []))]
    return {"seed": or_none(whole(0))(f"{where}['seed']", given.get("seed"))}
