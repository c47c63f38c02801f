"""What each agent is made of, in the terms of the generic one: the parts of its normal form."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from ....core.checks import shortened
from ..spaces.errors import refuse
from .arguments import WHERE
from .modules import resolve
from .table_checks import EPISODE, PARAMETERS, parameter

Values = Mapping[str, Any]
"""The checked arguments of an agent."""


def generic(values: Values, ignored: list[str]) -> dict[str, Any]:
    """The parts of the agent whose arguments are the parts."""

    def part(name: str) -> Any:
        return resolve(f"{WHERE}: {name}", values[name], name, ignored)

    objective = part("objective")
    policy = policy_of("policy", values["policy"], objective, ignored)
    parts = {
        "memory": _capacity("replay", None) if values["memory"] is None else part("memory"),
        "update": part("update"),
        "policy": policy,
        "objective": objective,
        "optimizer": part("optimizer"),
        "baseline": _generic_baseline(values, objective, ignored),
        "reward_estimation": part("reward_estimation"),
    }
    estimation, baseline = parts["reward_estimation"], parts["baseline"]
    if estimation["estimate_horizon"] is None:
        estimation["estimate_horizon"] = "late" if baseline is not None else False
    if estimation["estimate_advantage"] is None:  # a baseline without a loss learns through the advantage
        estimation["estimate_advantage"] = baseline is not None and not (baseline["objective"] or baseline["optimizer"])
    return parts


def ppo(values: Values, ignored: list[str]) -> dict[str, Any]:
    """Proximal policy optimisation."""
    fraction, steps = values["subsampling_fraction"], values["optimization_steps"]
    inner = {"type": "subsampling_step", "optimizer": _adam(values), "fraction": fraction}
    objective = {"ratio_based": True, "clipping_value": values["likelihood_ratio_clipping"]}
    return _episodic(values, {"type": "multi_step", "optimizer": inner, "num_steps": steps}, objective, ignored)


def vpg(values: Values, ignored: list[str]) -> dict[str, Any]:
    """Vanilla policy gradient."""
    return _episodic(values, _adam(values), {}, ignored)


def trpo(values: Values, ignored: list[str]) -> dict[str, Any]:
    """Trust region policy optimisation: the learning rate is the KL divergence."""
    inner = {"type": "natural_gradient", "learning_rate": values["learning_rate"]}
    return _episodic(values, {"type": "optimizing_step", "optimizer": inner}, {"ratio_based": True}, ignored)


def actor_critic(values: Values, ignored: list[str], *, advantage: bool) -> dict[str, Any]:
    """A2C, whose critic's value is subtracted from the return, and AC, whose critic continues it."""
    of_actions = values["state_action_value"]
    objective = _resolved({"type": "policy_gradient"}, "objective")
    return {
        "memory": _capacity("recent", values["memory"]),
        "update": _update("timesteps", values),
        "policy": _policy(values, objective, ignored),
        "objective": objective,
        "optimizer": _resolved(_adam(values), "optimizer"),
        "baseline": _critic(values, "critic", "action" if of_actions else "state", ignored),
        "reward_estimation": _estimation(values, "early", estimate_actions=of_actions, estimate_advantage=advantage),
    }


def dqn(values: Values, ignored: list[str]) -> dict[str, Any]:
    """DQN, with or without dueling heads and the double estimate: a target network follows the policy."""
    huber = values["huber_loss"]
    objective = _resolved({"type": "value", "value": "action", "huber_loss": huber}, "objective")
    synchronization = {
        "type": "synchronization",
        "sync_frequency": values["target_sync_frequency"],
        "update_weight": values["target_update_weight"],
    }

    def policy(noted: list[str]) -> dict[str, Any]:  # a state's value is that of its best action
        return {**_policy(values, objective, noted), "infer_state_value": "action-values"}

    return {
        "memory": _capacity("replay", values["memory"]),
        "update": _update("timesteps", values),
        "policy": policy(ignored),
        "objective": objective,
        "optimizer": _resolved(_adam(values), "optimizer"),
        "baseline": _baseline(policy([]), None, _resolved(synchronization, "baseline_optimizer"), None),
        "reward_estimation": _estimation(values, "late"),
    }


def dpg(values: Values, ignored: list[str]) -> dict[str, Any]:
    """Deterministic policy gradient."""
    objective = _resolved({"type": "deterministic_policy_gradient"}, "objective")
    return {
        "memory": _capacity("replay", values["memory"]),
        "update": _update("timesteps", values),
        "policy": _policy(values, objective, ignored),
        "objective": objective,
        "optimizer": _resolved(_adam(values), "optimizer"),
        "baseline": _critic(values, "critic", "action", ignored),
        "reward_estimation": _estimation(values, "late", estimate_actions=True),
    }


PARTS: Final[Mapping[str, Callable[[Values, list[str]], dict[str, Any]]]] = {
    "tensorforce": generic,
    "ppo": ppo,
    "vpg": vpg,
    "trpo": trpo,
    "a2c": lambda values, ignored: actor_critic(values, ignored, advantage=True),
    "ac": lambda values, ignored: actor_critic(values, ignored, advantage=False),
    "dqn": dqn,
    "double_dqn": dqn,
    "dueling_dqn": dqn,
    "dpg": dpg,
}
"""By the agent's key: from its checked arguments, and a list for those without meaning, to its parts."""


def has_policy_gradient(objective: Mapping[str, Any] | None) -> bool:
    """Whether a likelihood is part of the objective, which needs actions that are sampled."""
    if objective is None or objective["type"] != "plus":
        return objective is not None and objective["type"] == "policy_gradient"
    return has_policy_gradient(objective["objective1"]) or has_policy_gradient(objective["objective2"])


def policy_of(name: str, spec: Any, objective: Mapping[str, Any] | None, ignored: list[str]) -> dict[str, Any]:
    """A policy; where no temperature is given, it is 1 under policy gradients and else 0."""
    policy = resolve(f"{WHERE}: {name}", spec, "policy", ignored)
    if policy["temperature"] is None:
        policy["temperature"] = 1.0 if has_policy_gradient(objective) else 0.0
    return {key: value for key, value in policy.items() if key != "type"}


def _generic_baseline(values: Values, objective: dict[str, Any], ignored: list[str]) -> dict[str, Any] | None:
    """The combinations that have a meaning: section "baseline" of Tensorforce's module specifications."""
    given = {name: values[f"baseline_{name}"] for name in ("policy", "objective", "optimizer")}
    own, weight = _optimizer_or_weight("baseline_optimizer", given["optimizer"], ignored)
    place = f"{WHERE}: baseline_optimizer"
    if all(value is None for value in given.values()):
        return None
    if given["objective"] is None and weight is not None:
        refuse(place, f"is the weight {shortened(weight)} of an objective: give baseline_objective too", weight)
    if given["objective"] is None and given["policy"] is None:
        refuse(place, "stands alone: give baseline_policy or baseline_objective too", given["optimizer"])
    target = own is not None and own["type"] == "synchronization"
    if target and (given["policy"] is None or given["objective"] is not None):
        refuse(place, "copies the policy: it needs a baseline_policy, and no baseline_objective", given["optimizer"])
    if target:
        _check_copy(values)
    loss = None
    if given["objective"] is not None:
        loss = resolve(f"{WHERE}: baseline_objective", given["objective"], "objective", ignored)
        weight = 1.0 if own is None and weight is None else weight
    elif own is not None and not target:
        loss = objective
    policy = None
    if given["policy"] is not None:
        policy = policy_of("baseline_policy", given["policy"], loss, ignored)
    return _baseline(policy, loss, own, weight)


def _check_copy(values: Values) -> None:
    """What copies the policy has its network and distributions."""
    policy, copy = (resolve(f"{WHERE}: {name}", values[name], "policy", []) for name in ("policy", "baseline_policy"))
    for name in ("network", "distributions", "use_beta_distribution"):
        if policy[name] != copy[name]:
            problem = f"must be the policy's, {shortened(policy[name])}, because synchronization copies that"
            refuse(f"{WHERE}: baseline_policy[{name!r}]", problem, copy[name])


def _episodic(
    values: Values, optimizer: dict[str, Any], objective: dict[str, Any], ignored: list[str]
) -> dict[str, Any]:
    """PPO, VPG and TRPO: whole episodes, and a critic if its network is given."""
    name = "critic" if "critic_network" in values else "baseline"
    loss = _resolved({"type": "policy_gradient", **objective}, "objective")
    if values[f"{name}_network"] is None and values[f"{name}_optimizer"] is not None:
        value = values[f"{name}_optimizer"]
        refuse(f"{WHERE}: {name}_optimizer", f"needs {name}_network, which is not given; got {shortened(value)}", value)
    critic = None if values[f"{name}_network"] is None else _critic(values, name, "state", ignored)
    return {
        "memory": _capacity("recent", values["memory"]),
        "update": _update("episodes", values),
        "policy": _policy(values, loss, ignored),
        "objective": loss,
        "optimizer": _resolved(optimizer, "optimizer"),
        "baseline": critic,
        "reward_estimation": _estimation(
            {**values, "horizon": EPISODE}, False if critic is None else "early", estimate_advantage=critic is not None
        ),
    }


def _critic(values: Values, name: str, value: str, ignored: list[str]) -> dict[str, Any]:
    """A network that estimates the values of states or actions, with an optimizer or a share in the policy's loss."""
    network = resolve(f"{WHERE}: {name}_network", values[f"{name}_network"], "network", ignored)
    if values[f"{name}_optimizer"] is None:
        problem = f"is missing: {name}_network needs an optimizer, or a number, its weight in the loss"
        refuse(f"{WHERE}: {name}_optimizer", problem, None)
    optimizer, weight = _optimizer_or_weight(f"{name}_optimizer", values[f"{name}_optimizer"], ignored)
    if optimizer is not None and optimizer["type"] == "synchronization":
        refuse(
            f"{WHERE}: {name}_optimizer", "cannot be synchronization: the critic is no copy of the policy", optimizer
        )
    policy = {
        "network": network,
        "distributions": {},
        "temperature": 0.0,
        "use_beta_distribution": False,  # no action has a value under it
        "infer_state_value": False,
    }
    return _baseline(policy, _resolved({"type": "value", "value": value}, "objective"), optimizer, weight)


def _baseline(policy: Any, objective: Any, optimizer: Any, weight: Any) -> dict[str, Any]:
    return {"policy": policy, "objective": objective, "optimizer": optimizer, "weight": weight}


def _optimizer_or_weight(name: str, value: Any, ignored: list[str]) -> tuple[dict[str, Any] | None, Any]:
    """An optimizer of its own, or the weight in the policy's loss, a number or a parameter."""
    if value is None:
        return None, None
    place = f"{WHERE}: {name}"
    is_parameter = isinstance(value, Mapping) and PARAMETERS.find(str(value.get("type"))) is not None
    if is_parameter or not (isinstance(value, str | Mapping) or callable(value)):
        return None, parameter(at_least=0)(place, value)
    return resolve(place, value, "baseline_optimizer", ignored), None


def _policy(values: Values, objective: Mapping[str, Any], ignored: list[str]) -> dict[str, Any]:
    network = resolve(f"{WHERE}: network", values["network"], "network", ignored)
    use_beta = values.get("use_beta_distribution", True)
    return policy_of("policy", {"network": network, "use_beta_distribution": use_beta}, objective, ignored)


def _adam(values: Values) -> dict[str, Any]:
    return {"type": "adam", "learning_rate": values["learning_rate"]}


def _resolved(spec: dict[str, Any], kind: str) -> dict[str, Any]:
    """A module of which every part is checked already."""
    return resolve(WHERE, spec, kind)


def _capacity(kind: str, capacity: int | None) -> dict[str, Any]:
    return {"type": kind, "capacity": capacity}


def _update(unit: str, values: Values) -> dict[str, Any]:
    start = values.get("start_updating")
    spec = {"unit": unit, "batch_size": values["batch_size"], "frequency": values["update_frequency"]}
    return _resolved({**spec, "start": 0 if start is None else start}, "update")


def _estimation(values: Values, estimate_horizon: Any, **flags: bool) -> dict[str, Any]:
    shared = {name: values[name] for name in ("horizon", "discount", "estimate_terminal")}
    spec = {**shared, "estimate_horizon": estimate_horizon, "estimate_advantage": False, **flags}
    return _resolved(spec, "reward_estimation")
