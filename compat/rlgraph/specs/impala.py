"""Reads an agent's arguments, and checks and completes those of IMPALAAgent and SingleIMPALAAgent."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, Final, NoReturn

from ...common.specs.modules import resolve
from ..spaces import IntBox, Space, space_of
from ..utils.rlgraph_errors import mapping, refuse
from .agent_tables import TABLES
from .agents import AGENTS, FEEDS

KINDS: Final = ("impala", "single_impala")
PREVIOUS_ACTION: Final = "/previous_action"
PREVIOUS_REWARD: Final = "/previous_reward"
"""Names of features besides states, whose names never begin with a slash."""
_LSTM_UNITS: Final = 256
"""Units of the LSTM of both architectures."""


@dataclasses.dataclass(frozen=True)
class Reading:
    """An agent's arguments, and its normal form so far.

    Args:
        where: the agent's class, for messages.
        arguments: all arguments, as given.
        states: the space of preprocessed states.
        actions: the action space.
        form: the arguments, each resolved on its own.
        ignored: names of given arguments without effect.
    """

    where: str
    arguments: Mapping[str, Any]
    states: Space
    actions: Space
    form: dict[str, Any] = dataclasses.field(default_factory=dict)
    ignored: list[str] = dataclasses.field(default_factory=list)

    def refuse(self, argument: str, problem: str, value: Any) -> NoReturn:
        """Refuse an argument."""
        refuse(f"{self.where}: {argument}", problem, value)

    def adapter(self, default: str, table: str) -> dict[str, Any]:
        """Complete the action adapter; ``default`` is its default type."""
        place, spec = f"{self.where}: action_adapter_spec", self.arguments["action_adapter_spec"]
        given = {} if spec is None else mapping(place, {"type": spec} if isinstance(spec, str) else spec)
        found = resolve(place, {"type": default, **given}, table, TABLES, self.ignored)
        self.form["action_adapter_spec"] = found
        return found

    def require_categories(self) -> None:
        """Refuse actions without a fixed number of values."""
        if not isinstance(self.actions, IntBox) or not self.actions.num_categories:
            problem = f"must be an IntBox with a number of values, such as IntBox(4); got {self.actions!r}"
            self.refuse("action_space", problem, self.actions)


def argument_of(where: str, arguments: Mapping[str, Any], name: str) -> Any:
    """Check an argument that is needed before the others: ``type`` or ``num_workers``."""
    one = AGENTS["impala"][name]
    assert one.check is not None
    return one.check(f"{where}: {name}", arguments.get(name, one.default))


def lstm_units(form: Mapping[str, Any]) -> int | None:
    """Units of the LSTM; None without one."""
    if form["architecture"] is not None:
        return _LSTM_UNITS
    return next((int(layer["units"]) for layer in form["network_spec"] if layer["type"] == "lstm"), None)


def finish_impala(reading: Reading) -> None:
    """Complete the normal form.

    Raises:
        ArgumentError: parts do not fit each other.
    """
    form, arguments = reading.form, reading.arguments
    reading.require_categories()
    role = form.setdefault("type", "single")
    form["kind"] = "impala"
    form["name"] = form["name"] or f"impala-{role}-agent"
    form["memory_spec"] = _queue(reading, role)
    if form["network_spec"] is not None:
        form["architecture"] = None
        kinds = [layer["type"] for layer in form["network_spec"]]
        after = kinds[kinds.index("lstm") + 1 :] if "lstm" in kinds else []
        if other := [kind for kind in after if kind != "dense"]:
            problem = f"has a layer {other[0]} after the lstm, where only dense layers are allowed"
            reading.refuse("network_spec", problem, other[0])
    elif {name: len(box.shape) for name, box in reading.states.flat().items()} != {"": 3}:
        kind = form["architecture"]
        problem = f"{kind!r} is for images [height, width, channels]: pass a network_spec for {reading.states!r}"
        reading.refuse("architecture", problem, kind)
    units = lstm_units(form)
    _check_internals(reading, units)
    for name in FEEDS:
        form[name] = form[name] and units is not None
    reading.adapter("baseline_action_adapter", "policy_adapter")
    without_effect = {
        "dynamic_batching (acting is batched over environments anyway)": form.pop("dynamic_batching"),
        "batch_apply (networks take every timestep anyway)": form.pop("batch_apply"),
        "batch_apply_action_adapter (networks take every timestep anyway)": not form.pop("batch_apply_action_adapter"),
        "fifo_queue_spec (a single agent has its own queue)": role == "single" and arguments["fifo_queue_spec"],
        "observe_spec (nothing is observed)": arguments["observe_spec"],
        "update_spec['update_mode'] (updates count unrolls)": form["update_spec"]["update_mode"] != "time_steps",
    }
    reading.ignored.extend(text for text, is_given in without_effect.items() if is_given)


def _queue(reading: Reading, role: str) -> dict[str, Any]:
    """The queue in normal form; an existing queue determines the capacity."""
    place, spec = f"{reading.where}: fifo_queue_spec", reading.arguments["fifo_queue_spec"]
    batch = reading.form["update_spec"]["batch_size"]
    given: Mapping[str, Any] = {"capacity": 1 if role == "actor" else batch}
    if isinstance(spec, str | Mapping):
        given = {**given, **mapping(place, {"type": spec} if isinstance(spec, str) else spec)}
    elif spec is not None and role == "single":
        refuse(place, "is the queue of another agent, which needs type 'actor' or 'learner'", spec)
    elif spec is not None:
        given = {"capacity": int(spec.capacity)}
    queue: dict[str, Any] = resolve(place, given, "queue", TABLES)
    if role == "learner" and queue["capacity"] < batch:
        problem = f"must be at least update_spec['batch_size'], {batch}; got {queue['capacity']}"
        refuse(f"{place}['capacity']", problem, queue["capacity"])
    return queue


def _check_internals(reading: Reading, units: int | None) -> None:
    given = reading.arguments["internal_states_space"]
    if given is None or (isinstance(given, list | tuple | dict) and not given and units is None):
        return
    shapes = [box.shape for box in space_of(f"{reading.where}: internal_states_space", given).flat().values()]
    wanted = [] if units is None else [(units,)] * 2
    if shapes != wanted:
        found = f"the network's internals have the shapes {wanted}" if wanted else "the network has no lstm"
        reading.refuse("internal_states_space", f"has the shapes {shapes}, but {found}; it may be omitted", given)
