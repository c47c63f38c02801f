"""Parts of each agent: named agents are arguments of the generic one, whose parts make its normal form."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from ....core.checks import shortened
from ..spaces.errors import refuse
from .arguments import WHERE
from .modules import kinds, resolve
from .table_checks import EPISODE, PARAMETERS, parameter

Values = Mapping[str, Any]
"""The checked arguments of an agent."""
_TARGET: Final = "synchronization"
_VALUE_OF_BEST: Final = {"infer_state_value": "action-values"}
"""A state's value is that of its best action."""


# -- the named agents -------------------------------------------------------------------------------------------------


def _ppo(values: Values) -> dict[str, Any]:
    """Proximal policy optimisation."""
    inner = {"type": "subsampling_step", "optimizer": _adam(values), "fraction": values["subsampling_fraction"]}
    optimizer = {"type": "multi_step", "optimizer": inner, "num_steps": values["optimization_steps"]}
    return _episodic(values, optimizer, ratio_based=True, clipping_value=values["likelihood_ratio_clipping"])


def _vpg(values: Values) -> dict[str, Any]:
    """Vanilla policy gradient."""
    return _episodic(values, _adam(values))


def _trpo(values: Values) -> dict[str, Any]:
    """Trust region policy optimisation: the learning rate is the KL divergence."""
    inner = {"type": "natural_gradient", "learning_rate": values["learning_rate"]}
    return _episodic(values, {"type": "optimizing_step", "optimizer": inner}, ratio_based=True)


def _a2c(values: Values) -> dict[str, Any]:
    """A critic's value is subtracted from the return."""
    return _ac(values, advantage=True)


def _ac(values: Values, *, advantage: bool = False) -> dict[str, Any]:
    """A critic's value continues the return."""
    of_actions = values["state_action_value"]
    return {
        **_common(values, "timesteps", "recent", "early", estimate_actions=of_actions, estimate_advantage=advantage),
        **_critic(values, "critic", "action" if of_actions else "state"),
        "objective": {"type": "policy_gradient"},
    }


def _dqn(values: Values) -> dict[str, Any]:
    """DQN, with or without dueling heads and the double estimate: a target network follows the policy."""
    common = _common(values, "timesteps", "replay", "late")
    policy = {**common["policy"], **_VALUE_OF_BEST}
    target = {"sync_frequency": values["target_sync_frequency"], "update_weight": values["target_update_weight"]}
    return {
        **common,
        "policy": policy,
        "objective": {"type": "value", "value": "action", "huber_loss": values["huber_loss"]},
        "baseline_policy": policy,
        "baseline_optimizer": {"type": _TARGET, **target},
    }


def _dpg(values: Values) -> dict[str, Any]:
    """Deterministic policy gradient."""
    return {
        **_common(values, "timesteps", "replay", "late", estimate_actions=True),
        **_critic(values, "critic", "action"),
        "objective": {"type": "deterministic_policy_gradient"},
    }


def _episodic(values: Values, optimizer: dict[str, Any], **objective: Any) -> dict[str, Any]:
    """PPO, VPG and TRPO: whole episodes, and a critic if its network is given."""
    name = "critic" if "critic_network" in values else "baseline"
    given = {**values, "horizon": EPISODE}
    has_critic = values[f"{name}_network"] is not None
    if not has_critic and values[f"{name}_optimizer"] is not None:
        value = values[f"{name}_optimizer"]
        refuse(f"{WHERE}: {name}_optimizer", f"needs {name}_network, which is not given; got {shortened(value)}", value)
    return {
        **_common(given, "episodes", "recent", "early" if has_critic else False, estimate_advantage=has_critic),
        **(_critic(values, name, "state") if has_critic else {}),
        "objective": {"type": "policy_gradient", **objective},
        "optimizer": optimizer,
    }


def _common(values: Values, unit: str, memory: str, estimate_horizon: Any, **flags: bool) -> dict[str, Any]:
    start = values.get("start_updating") or 0
    update = {"unit": unit, "batch_size": values["batch_size"], "frequency": values["update_frequency"], "start": start}
    estimation = {name: values[name] for name in ("horizon", "discount", "estimate_terminal")}
    none = dict.fromkeys(("baseline_policy", "baseline_objective", "baseline_optimizer"))
    return {
        **none,
        "memory": {"type": memory, "capacity": values["memory"]},
        "update": update,
        "policy": {"network": values["network"], "use_beta_distribution": values.get("use_beta_distribution", True)},
        "optimizer": _adam(values),
        "reward_estimation": {
            **estimation,
            "estimate_horizon": estimate_horizon,
            "estimate_advantage": False,
            **flags,
        },
    }


def _critic(values: Values, name: str, value: str) -> dict[str, Any]:
    """A network that estimates the values of states or actions, with an optimizer or a share in the policy's loss."""
    optimizer = values[f"{name}_optimizer"]
    if optimizer is None:
        problem = f"is missing: {name}_network needs an optimizer, or a number, its weight in the loss"
        refuse(f"{WHERE}: {name}_optimizer", problem, None)
    return {
        # No action has a value under a beta distribution.
        "baseline_policy": {"network": values[f"{name}_network"], "use_beta_distribution": False},
        "baseline_objective": {"type": "value", "value": value},
        "baseline_optimizer": optimizer,
    }


def _adam(values: Values) -> dict[str, Any]:
    return {"type": "adam", "learning_rate": values["learning_rate"]}


_NAMED: Final[Mapping[str, Callable[[Values], dict[str, Any]]]] = {
    "ppo": _ppo,
    "vpg": _vpg,
    "trpo": _trpo,
    "a2c": _a2c,
    "ac": _ac,
    "dqn": _dqn,
    "double_dqn": _dqn,
    "dueling_dqn": _dqn,
    "dpg": _dpg,
}
"""By key: from an agent's checked arguments to those of the generic one."""


# -- the generic agent ------------------------------------------------------------------------------------------------


def parts_of(kind: str, values: Values, ignored: list[str]) -> dict[str, Any]:
    """The parts of an agent's normal form.

    Args:
        kind: the agent's key.
        values: its checked arguments.
        ignored: takes the arguments without meaning.

    Raises:
        TensorforceError: an argument is invalid, or does not go together with another one.
    """

    def part(name: str, table: str = "") -> Any:
        return resolve(f"{WHERE}: {name}", values[name], table or name, ignored)

    critic = "critic" if "critic_network" in values else "baseline"
    if kind != "tensorforce":
        values = {**values, "network": part("network", "network")}
        if values.get(f"{critic}_network") is not None or kind in ("a2c", "ac", "dpg"):
            values[f"{critic}_network"] = part(f"{critic}_network", "network")
        values = _NAMED[kind](values)
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
    """A policy; where no temperature is given, it is 1 under policy gradients and else 0."""
    policy = resolve(f"{WHERE}: {name}", spec, "policy", ignored)
    if policy["temperature"] is None:
        policy["temperature"] = 1.0 if "policy_gradient" in kinds(objective) else 0.0
    return {key: value for key, value in policy.items() if key != "type"}


def _baseline(values: Values, objective: dict[str, Any], ignored: list[str], critic: str) -> dict[str, Any] | None:
    """The combinations that have a meaning: section "baseline" of Tensorforce's module specifications."""
    policy, loss, optimizer = (values[f"baseline_{name}"] for name in ("policy", "objective", "optimizer"))
    place = f"{WHERE}: {critic}_optimizer"
    own, weight = _optimizer_or_weight(place, optimizer, ignored)
    if policy is None and loss is None and optimizer is None:
        return None
    if loss is None and weight is not None:
        refuse(place, f"is the weight {shortened(weight)} of an objective: give baseline_objective too", weight)
    if loss is None and policy is None:
        refuse(place, "stands alone: give baseline_policy or baseline_objective too", optimizer)
    target = own is not None and own["type"] == _TARGET
    if target and (policy is None or loss is not None):
        refuse(place, "copies the policy: it needs a baseline_policy, and no baseline_objective", optimizer)
    if target:
        copy = resolve(f"{WHERE}: baseline_policy", policy, "policy", [])
        own_policy = resolve(f"{WHERE}: policy", values["policy"], "policy", [])
        for name in ("network", "distributions", "use_beta_distribution"):
            if own_policy[name] != copy[name]:
                problem = f"must be the policy's, {shortened(own_policy[name])}, because synchronization copies that"
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
    """An optimizer of its own, or the weight in the policy's loss, a number or a parameter."""
    if value is None:
        return None, None
    is_parameter = isinstance(value, Mapping) and PARAMETERS.find(str(value.get("type"))) is not None
    if is_parameter or not (isinstance(value, str | Mapping) or callable(value)):
        return None, parameter(at_least=0)(place, value)
    return resolve(place, value, "baseline_optimizer", ignored), None
