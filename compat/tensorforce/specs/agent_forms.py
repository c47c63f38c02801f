"""Parts of each agent: named agents are presets of the generic agent, whose parts make the normal form."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from ....core.checks import shortened
from ..spaces.errors import refuse
from .arguments import WHERE
from .modules import kinds, resolve
from .table_checks import EPISODE, PARAMETERS, parameter

Values = Mapping[str, Any]
"""The checked arguments of an agent."""
_TARGET: Final = "synchronization"


# -- the named agents -------------------------------------------------------------------------------------------------


def _generic_arguments(kind: str, values: Values, critic: str) -> dict[str, Any]:
    """A named agent's arguments as those of the generic agent; ``critic`` is the name of its baseline."""
    is_episodic, is_dqn, is_dpg = kind in ("ppo", "vpg", "trpo"), kind.endswith("dqn"), kind == "dpg"
    has_critic = not is_dqn and values[f"{critic}_network"] is not None
    estimate = "late" if is_dqn or is_dpg else "early" if has_critic else False
    of_actions = is_dpg or bool(values.get("state_action_value"))
    adam = {"type": "adam", "learning_rate": values["learning_rate"]}
    found: dict[str, Any] = {
        "memory": {"type": "replay" if is_dqn or is_dpg else "recent", "capacity": values["memory"]},
        "update": {
            "unit": "episodes" if is_episodic else "timesteps",
            "batch_size": values["batch_size"],
            "frequency": values["update_frequency"],
            "start": values.get("start_updating") or 0,
        },
        "policy": {"network": values["network"], "use_beta_distribution": values.get("use_beta_distribution", True)},
        "objective": {"type": "policy_gradient"},
        "optimizer": adam,
        "reward_estimation": {
            "horizon": EPISODE if is_episodic else values["horizon"],
            "discount": values["discount"],
            "estimate_terminal": values["estimate_terminal"],
            "estimate_horizon": estimate,
            "estimate_actions": of_actions,
            "estimate_advantage": kind == "a2c" or (is_episodic and has_critic),
        },
        **_critic(values, critic, "action" if of_actions else "state", has_critic=has_critic),
    }
    if kind == "ppo":
        clipping = {"ratio_based": True, "clipping_value": values["likelihood_ratio_clipping"]}
        step = {"type": "subsampling_step", "optimizer": adam, "fraction": values["subsampling_fraction"]}
        found["objective"] |= clipping
        found["optimizer"] = {"type": "multi_step", "optimizer": step, "num_steps": values["optimization_steps"]}
    elif kind == "trpo":  # its learning rate is the KL divergence
        found["objective"]["ratio_based"] = True
        found["optimizer"] = {"type": "optimizing_step", "optimizer": {**adam, "type": "natural_gradient"}}
    elif is_dpg:
        found["objective"] = {"type": "deterministic_policy_gradient"}
    elif is_dqn:
        found["policy"]["infer_state_value"] = "action-values"  # a state's value is its best action's
        found["objective"] = {"type": "value", "value": "action", "huber_loss": values["huber_loss"]}
        names = {"sync_frequency": "target_sync_frequency", "update_weight": "target_update_weight"}
        target = {"type": _TARGET, **{ours: values[theirs] for ours, theirs in names.items()}}
        found |= {"baseline_policy": found["policy"], "baseline_optimizer": target}
    return found


def _critic(values: Values, name: str, value: str, *, has_critic: bool) -> dict[str, Any]:
    """A network that estimates the values of states or actions, with an optimizer or a weight in the policy loss."""
    optimizer, place = values.get(f"{name}_optimizer"), f"{WHERE}: {name}_optimizer"
    if not has_critic:
        if optimizer is not None:
            refuse(place, f"needs {name}_network, which is not given; got {shortened(optimizer)}", optimizer)
        return dict.fromkeys(("baseline_policy", "baseline_objective", "baseline_optimizer"))
    if optimizer is None:
        refuse(place, f"is missing: {name}_network needs an optimizer, or a number, its weight in the loss", None)
    return {
        # No action has a value under a beta distribution.
        "baseline_policy": {"network": values[f"{name}_network"], "use_beta_distribution": False},
        "baseline_objective": {"type": "value", "value": value},
        "baseline_optimizer": optimizer,
    }


# -- the generic agent ------------------------------------------------------------------------------------------------


def parts_of(kind: str, values: Values, ignored: list[str]) -> dict[str, Any]:
    """The parts of an agent's normal form.

    Args:
        kind: the agent's key.
        values: its checked arguments.
        ignored: collects given arguments without effect.

    Raises:
        TensorforceError: an argument is invalid, or does not fit another one.
    """

    def part(name: str, table: str = "") -> Any:
        return resolve(f"{WHERE}: {name}", values[name], table or name, ignored)

    critic = "critic" if "critic_network" in values else "baseline"
    if kind != "tensorforce":
        values = {**values, "network": part("network", "network")}
        if values.get(f"{critic}_network") is not None or kind in ("a2c", "ac", "dpg"):
            values[f"{critic}_network"] = part(f"{critic}_network", "network")
        values = _generic_arguments(kind, values, critic)
    objective, estimation = part("objective"), part("reward_estimation")
    baseline = _baseline(values, objective, ignored, critic)
    if estimation["estimate_horizon"] is None:
        estimation["estimate_horizon"] = "late" if baseline is not None else False
    if estimation["estimate_advantage"] is None:  # a baseline without a loss learns through the advantage
        estimation["estimate_advantage"] = baseline is not None and not (baseline["objective"] or baseline["optimizer"])
    return {
        "memory": {"type": "replay", "capacity": None} if values["memory"] is None else part("memory"),
        "update": part("update"),
        "policy": _policy("policy", values["policy"], objective, ignored),
        "objective": objective,
        "optimizer": part("optimizer"),
        "baseline": baseline,
        "reward_estimation": estimation,
    }


def _policy(name: str, spec: Any, objective: Mapping[str, Any] | None, ignored: list[str]) -> dict[str, Any]:
    """A policy; its default temperature is 1 with policy gradients, else 0."""
    policy = resolve(f"{WHERE}: {name}", spec, "policy", ignored)
    if policy["temperature"] is None:
        policy["temperature"] = 1.0 if "policy_gradient" in kinds(objective) else 0.0
    return {key: value for key, value in policy.items() if key != "type"}


def _baseline(values: Values, objective: dict[str, Any], ignored: list[str], critic: str) -> dict[str, Any] | None:
    """Check combinations of baseline arguments: section "baseline" of Tensorforce's module specifications."""
    policy, loss, optimizer = (values[f"baseline_{name}"] for name in ("policy", "objective", "optimizer"))
    place = f"{WHERE}: {critic}_optimizer"
    own, weight = _optimizer_or_weight(place, optimizer, ignored)
    if policy is None and loss is None and optimizer is None:
        return None
    if loss is None and weight is not None:
        refuse(place, f"is the weight of an objective, {shortened(weight)}: give baseline_objective too", weight)
    if loss is None and policy is None:
        refuse(place, "needs a baseline_policy or a baseline_objective", optimizer)
    target = own is not None and own["type"] == _TARGET
    if target and (policy is None or loss is not None):
        refuse(place, "copies the policy: it needs a baseline_policy, and no baseline_objective", optimizer)
    if target:
        copy = resolve(f"{WHERE}: baseline_policy", policy, "policy", [])
        own_policy = resolve(f"{WHERE}: policy", values["policy"], "policy", [])
        for name in ("network", "distributions", "use_beta_distribution"):
            if own_policy[name] != copy[name]:
                problem = f"must be the policy's, {shortened(own_policy[name])}, because synchronization copies it"
                refuse(f"{WHERE}: baseline_policy[{name!r}]", problem, copy[name])
    if loss is not None:
        loss = resolve(f"{WHERE}: baseline_objective", loss, "objective", ignored)
        weight = 1.0 if own is None and weight is None else weight
    elif own is not None and not target:
        loss = objective
    if policy is not None:
        policy = _policy("baseline_policy", policy, loss, ignored)
    return {"policy": policy, "objective": loss, "optimizer": own, "weight": weight}


def _optimizer_or_weight(place: str, value: Any, ignored: list[str]) -> tuple[dict[str, Any] | None, Any]:
    """The baseline's own optimizer, or its weight in the policy loss, a number or a parameter."""
    if value is None:
        return None, None
    is_parameter = isinstance(value, Mapping) and PARAMETERS.find(str(value.get("type"))) is not None
    if is_parameter or not (isinstance(value, str | Mapping) or callable(value)):
        return None, parameter(at_least=0)(place, value)
    return resolve(place, value, "baseline_optimizer", ignored), None
