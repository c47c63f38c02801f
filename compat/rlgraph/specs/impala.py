"""Requirements shared by parts of IMPALAAgent and SingleIMPALAAgent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from ...common.specs.modules import resolve
from ..spaces import IntBox, Space, space_of
from ..utils.rlgraph_errors import mapping, refuse
from .agent_tables import TABLES
from .agents import AGENTS, FEEDS

KINDS: Final = ("impala", "single_impala")
PREVIOUS_ACTION: Final = "/previous_action"
PREVIOUS_REWARD: Final = "/previous_reward"
"""Among the features, beside those of the state, whose names do not begin so."""
_LSTM_UNITS: Final = 256
"""Of both architectures."""
_ADAPTER: Final = "baseline_action_adapter"


def argument_of(where: str, arguments: Mapping[str, Any], name: str) -> Any:
    """An argument that is needed before the others, checked: ``type`` or ``num_workers``."""
    one = AGENTS["impala"][name]
    assert one.check is not None
    return one.check(f"{where}: {name}", arguments.get(name, one.default))


def require_categories(where: str, actions: Space) -> None:
    """Refuse actions that are not one of so many."""
    if not isinstance(actions, IntBox) or not actions.num_categories:
        problem = f"must be an IntBox with a number of values, such as IntBox(4); got {actions!r}"
        refuse(f"{where}: action_space", problem, actions)


def adapter_spec(place: str, spec: Any) -> dict[str, Any]:
    """The specification of an action adapter as a dictionary."""
    return {} if spec is None else dict(mapping(place, {"type": spec} if isinstance(spec, str) else spec))


def lstm_units(form: Mapping[str, Any]) -> int | None:
    """Units of the layer with memory; None without one."""
    if form["architecture"] is not None:
        return _LSTM_UNITS
    return next((int(layer["units"]) for layer in form["network_spec"] if layer["type"] == "lstm"), None)


def finish_impala(
    where: str,
    form: dict[str, Any],
    arguments: Mapping[str, Any],
    states: Space,
    actions: Space,
    ignored: list[str],
) -> None:
    """Complete the normal form.

    Args:
        where: the agent's class, for messages.
        form: each argument by itself.
        arguments: all of them, as given.
        states: what the model sees.
        actions: what it chooses.
        ignored: names of arguments that were given, and that nothing follows from, are added to it.

    Raises:
        ArgumentError: parts do not fit each other.
    """
    require_categories(where, actions)
    role = form.setdefault("type", "single")
    form["kind"] = "impala"
    form["name"] = form["name"] or f"impala-{role}-agent"
    form["memory_spec"] = _queue(where, role, arguments["fifo_queue_spec"], form["update_spec"]["batch_size"])
    if form["network_spec"] is not None:
        form["architecture"] = None
        _check_memory(f"{where}: network_spec", form["network_spec"])
    else:
        boxes = states.flat()
        if list(boxes) != [""] or len(boxes[""].shape) != 3:
            kind = form["architecture"]
            problem = f"{kind!r} is for images [height, width, channels]: pass a network_spec for {states!r}"
            refuse(f"{where}: architecture", problem, kind)
    _check_internals(f"{where}: internal_states_space", arguments["internal_states_space"], lstm_units(form))
    for name in FEEDS:
        form[name] = form[name] and lstm_units(form) is not None
    place = f"{where}: action_adapter_spec"
    given = {"type": _ADAPTER, **adapter_spec(place, arguments["action_adapter_spec"])}
    form["action_adapter_spec"] = resolve(place, given, "policy_adapter", TABLES, ignored)
    without_effect = {
        "dynamic_batching (acting is batched over environments anyway)": form.pop("dynamic_batching"),
        "batch_apply (networks take every timestep anyway)": form.pop("batch_apply"),
        "batch_apply_action_adapter (likewise)": not form.pop("batch_apply_action_adapter"),
        "fifo_queue_spec (a single agent has a queue of its own)": role == "single" and arguments["fifo_queue_spec"],
        "observe_spec (nothing is observed)": arguments["observe_spec"],
        "update_spec['update_mode'] (updates count unrolls)": form["update_spec"]["update_mode"] != "time_steps",
    }
    ignored += [text for text, is_given in without_effect.items() if is_given]


def _queue(where: str, role: str, spec: Any, batch: int) -> dict[str, Any]:
    """The queue in normal form; one that exists already tells its capacity."""
    place = f"{where}: fifo_queue_spec"
    shared = getattr(spec, "capacity", None) if not isinstance(spec, str | Mapping) else None
    if shared is not None and role == "single":
        refuse(place, "is the queue of another agent, which is for type 'actor' or 'learner'", spec)
    given: Mapping[str, Any] = {"capacity": 1 if role == "actor" else batch}
    if shared is not None:
        given = {"capacity": int(shared)}
    elif spec is not None:
        given = {"capacity": 1, **mapping(place, {"type": spec} if isinstance(spec, str) else spec)}
    queue: dict[str, Any] = resolve(place, given, "queue", TABLES)
    if role == "learner" and queue["capacity"] < batch:
        problem = f"must be at least update_spec['batch_size'], {batch}; got {queue['capacity']}"
        refuse(f"{place}['capacity']", problem, queue["capacity"])
    return queue


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
