"""The normal form of agents that learn from what they have just done: ActorCriticAgent and PPOAgent."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...common.specs.argument_checks import or_none, real
from ...common.specs.modules import resolve
from ..spaces import BoolBox, FloatBox, IntBox, Space
from ..utils.rlgraph_errors import flag, mapping, refuse
from .agent_tables import TABLES, layers_of


def on_policy_form(
    kind: str, where: str, arguments: Mapping[str, Any], form: Mapping[str, Any], actions: Space, ignored: list[str]
) -> dict[str, Any]:
    """What the arguments of such an agent mean, beside those that all agents with a model have.

    Args:
        kind: ``"actor_critic"`` or ``"ppo"``.
        where: the agent's class, for messages.
        arguments: all of them.
        form: what is known of them so far.
        actions: what the agent chooses.
        ignored: names of arguments that were given, and that nothing follows from, are added to it.

    Raises:
        ArgumentError: an argument is wrong, or does not fit the actions.
    """
    for name, box in actions.flat().items():
        if not isinstance(box, BoolBox | FloatBox) and not (isinstance(box, IntBox) and box.num_categories):
            place = f"{where}: action_space" + (f"[{name!r}]" if name else "")
            problem = "must be a FloatBox, or an IntBox with a number of values, such as IntBox(4)"
            refuse(place, f"{problem}; got {box!r}", box)
    steps = form["observe_spec"]["n_step"]
    if steps != 1:
        problem = f"must be 1, got {steps}: use gae_lambda, which weighs returns over all numbers of timesteps"
        refuse(f"{where}: observe_spec['n_step']", problem, steps)
    checks: dict[str, Any] = {
        "gae_lambda": real(at_least=0, at_most=1),
        "sample_episodes": flag,
        "weight_entropy": real(at_least=0),
    }
    if kind == "ppo":
        checks |= {
            "clip_ratio": real(above=0),
            "standardize_advantages": flag,
            "value_function_clipping": or_none(real(above=0)),
        }
    own: dict[str, Any] = {name: check(f"{where}: {name}", arguments[name]) for name, check in checks.items()}
    values = arguments["value_function_spec"]
    own["value_function_spec"] = None if values is None else layers_of(f"{where}: value_function_spec", values, ignored)
    if values is None and arguments["value_function_optimizer_spec"] is not None:
        ignored.append("value_function_optimizer_spec (there is no value_function_spec)")
    fitting = "baseline_action_adapter" if values is None else "action_adapter"
    place = f"{where}: action_adapter_spec"
    own["action_adapter_spec"] = _adapter(place, arguments["action_adapter_spec"], fitting, ignored)
    return own


def _adapter(where: str, spec: Any, fitting: str, ignored: list[str]) -> dict[str, Any]:
    given = {} if spec is None else mapping(where, {"type": spec} if isinstance(spec, str) else spec)
    adapter: dict[str, Any] = resolve(where, {"type": fitting, **given}, "adapter", TABLES, ignored)
    if adapter["type"] != fitting:
        values = "network_spec" if fitting == "baseline_action_adapter" else "value_function_spec"
        problem = f"is {adapter['type']!r}; what fits is {fitting!r}: {values} has the values of states"
        refuse(f"{where}['type']", problem, adapter["type"])
    return adapter
