"""The normal form of IMPALAAgent and SingleIMPALAAgent, beside what all agents have."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from ...common.specs.argument_checks import real, whole
from ...common.specs.modules import resolve
from ...common.specs.tables import without_case
from ..spaces import IntBox, Space, space_of
from ..utils.rlgraph_errors import choice, flag, mapping, refuse
from .agent_tables import TABLES, layers_of
from .agents import ROLES

KINDS: Final = ("impala", "single_impala")
ARCHITECTURES: Final = ("small", "large")
CLIPPINGS: Final = ("clamp_one", "soft_asymmetric")
_LSTM_UNITS: Final = 256
"""Of both architectures."""
_WEIGHTS: Final = {"weight_pg": 1.0, "weight_baseline": 0.5, "weight_entropy": 0.00025}
_FEEDS: Final = ("feed_previous_action_through_nn", "feed_previous_reward_through_nn")
_ADAPTER: Final = "baseline_action_adapter"


def role_of(where: str, arguments: Mapping[str, Any]) -> str:
    """What the agent is: ``single``, ``actor`` or ``learner``."""
    given = arguments.get("type", "single")
    return choice(f"{where}: type", without_case(given) if isinstance(given, str) else given, ROLES)


def num_workers_of(where: str, arguments: Mapping[str, Any]) -> int:
    """How many environments it steps."""
    return int(whole(1)(f"{where}: num_workers", arguments["num_workers"]))


def impala_form(
    where: str,
    arguments: Mapping[str, Any],
    update: Mapping[str, Any],
    states: Space,
    actions: Space,
    ignored: list[str],
) -> dict[str, Any]:
    """What the arguments mean that IMPALA has beside other agents.

    Args:
        where: the agent's class, for messages.
        arguments: all of them.
        update: ``update_spec`` in normal form.
        states: what the model sees.
        actions: what it chooses.
        ignored: names of arguments that were given, and that nothing follows from, are added to it.

    Raises:
        ArgumentError: a part is wrong, or parts do not fit each other.
    """
    if not isinstance(actions, IntBox) or not actions.num_categories:
        problem = f"must be an IntBox with a number of values, such as IntBox(4); got {actions!r}"
        refuse(f"{where}: action_space", problem, actions)
    role = role_of(where, arguments)
    form: dict[str, Any] = {
        "kind": "impala",
        "type": role,
        "num_workers": num_workers_of(where, arguments),
        "worker_sample_size": whole(1)(f"{where}: worker_sample_size", arguments["worker_sample_size"]),
        "reward_clipping": _clipping(f"{where}: reward_clipping", arguments["reward_clipping"]),
        "memory_spec": _queue(where, role, arguments["fifo_queue_spec"], update["batch_size"]),
        **_network(where, arguments, states, ignored),
    }
    remembers = lstm_units(form) is not None
    form |= {name: flag(f"{where}: {name}", arguments[name]) and remembers for name in _FEEDS}
    for name, default in _WEIGHTS.items():
        given = arguments[name]
        form[name] = default if given is None else real(at_least=0)(f"{where}: {name}", given)
    spec = arguments["action_adapter_spec"]
    form["action_adapter_spec"] = _adapter(f"{where}: action_adapter_spec", spec, ignored)
    ignored += _without_effect(where, role, arguments)
    return form


def _without_effect(where: str, role: str, arguments: Mapping[str, Any]) -> list[str]:
    """Arguments that were given and that nothing follows from, with the reasons."""
    found = {
        "dynamic_batching (acting is batched over environments anyway)": flag(
            f"{where}: dynamic_batching", arguments["dynamic_batching"]
        ),
        "batch_apply (networks take every timestep anyway)": flag(f"{where}: batch_apply", arguments["batch_apply"]),
        "batch_apply_action_adapter (likewise)": not flag(
            f"{where}: batch_apply_action_adapter", arguments["batch_apply_action_adapter"]
        ),
        "fifo_queue_spec (a single agent has a queue of its own)": role == "single" and arguments["fifo_queue_spec"],
        "observe_spec (nothing is observed)": arguments["observe_spec"],
    }
    return [text for text, is_given in found.items() if is_given]


def lstm_units(form: Mapping[str, Any]) -> int | None:
    """Units of the layer with memory; None without one."""
    if form["architecture"] is not None:
        return _LSTM_UNITS
    return next((int(layer["units"]) for layer in form["network_spec"] if layer["type"] == "lstm"), None)


def _clipping(where: str, given: Any) -> str | None:
    return None if given is None else choice(where, given, CLIPPINGS)


def _queue(where: str, role: str, spec: Any, batch: int) -> dict[str, Any]:
    """The queue in normal form; one that exists already tells its capacity."""
    place = f"{where}: fifo_queue_spec"
    shared = getattr(spec, "capacity", None) if not isinstance(spec, str | Mapping) else None
    if spec is None and role != "actor":
        queue: dict[str, Any] = {"type": "fifo", "capacity": batch}
    elif shared is not None:
        if role == "single":
            refuse(place, "is the queue of another agent, which is for type 'actor' or 'learner'", spec)
        queue = {"type": "fifo", "capacity": int(shared)}
    else:
        given = {} if spec is None else mapping(place, {"type": spec} if isinstance(spec, str) else spec)
        queue = resolve(place, {"type": "fifo", "capacity": 1, **given}, "memory", TABLES)
    if queue["type"] != "fifo":
        refuse(place, f"is {queue['type']!r}; what fits is fifo", spec)
    if role == "learner" and queue["capacity"] < batch:
        problem = f"must be at least update_spec['batch_size'], {batch}; got {queue['capacity']}"
        refuse(f"{place}['capacity']", problem, queue["capacity"])
    return queue


def _network(where: str, arguments: Mapping[str, Any], states: Space, ignored: list[str]) -> dict[str, Any]:
    """``network_spec``, or ``architecture`` in its place; the other one is None."""
    architecture = choice(f"{where}: architecture", arguments["architecture"], ARCHITECTURES)
    if arguments["network_spec"] is not None:
        layers = layers_of(f"{where}: network_spec", arguments["network_spec"], ignored)
        _check_memory(f"{where}: network_spec", layers)
        form: dict[str, Any] = {"architecture": None, "network_spec": layers}
    else:
        boxes = states.flat()
        if list(boxes) != [""] or len(boxes[""].shape) != 3:
            problem = f"{architecture!r} is for images [height, width, channels]: pass a network_spec for {states!r}"
            refuse(f"{where}: architecture", problem, architecture)
        form = {"architecture": architecture, "network_spec": None}
    _check_internals(f"{where}: internal_states_space", arguments["internal_states_space"], lstm_units(form))
    return form


def _check_memory(where: str, layers: Sequence[Mapping[str, Any]]) -> None:
    """A layer with memory comes last, but for dense ones."""
    kinds = [layer["type"] for layer in layers]
    if "lstm" in kinds:
        after = kinds[kinds.index("lstm") + 1 :]
        if other := [kind for kind in after if kind != "dense"]:
            refuse(where, f"has a layer {other[0]} after the lstm, which only dense layers may follow", other[0])


def _check_internals(where: str, given: Any, units: int | None) -> None:
    if given is None or (isinstance(given, list | tuple | dict) and not given and units is None):
        return
    shapes = [box.shape for box in space_of(where, given).flat().values()]
    wanted = [] if units is None else [(units,)] * 2
    if shapes != wanted:
        found = f"the network's internals have the shapes {wanted}" if wanted else "the network has no lstm"
        refuse(where, f"has the shapes {shapes}, but {found}; it may be left out", given)


def _adapter(where: str, spec: Any, ignored: list[str]) -> dict[str, Any]:
    given = {} if spec is None else dict(mapping(where, {"type": spec} if isinstance(spec, str) else spec))
    given.setdefault("type", _ADAPTER)
    adapter = resolve(where, given, "adapter", TABLES, ignored)
    if adapter["type"] == "dueling_action_adapter":
        refuse(where, f"is a dueling_action_adapter, which is for Q-learning; what fits is {_ADAPTER}", spec)
    return adapter
