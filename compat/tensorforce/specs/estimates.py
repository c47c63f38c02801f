"""Checks of state-value estimators and their learning."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

from ..spaces.errors import refuse
from .arguments import WHERE
from .modules import kinds

_LEARNED = "give a baseline_objective, such as dict(type='value', value='state')"
_CRITIC = "give a baseline_policy, and a baseline_objective with value='action'"


def check_values(form: Mapping[str, Any]) -> None:
    """Refuse arguments that contradict each other about what they estimate.

    Args:
        form: the normal form.

    Warns:
        UserWarning: an estimate is of values that nothing learns.

    Raises:
        TensorforceError: names the argument.
    """
    estimation, baseline = form["reward_estimation"], form["baseline"] or {}
    objective, optimizer = baseline.get("objective"), baseline.get("optimizer") or {}
    copied = optimizer.get("type") == "synchronization"
    own = None if copied else baseline.get("policy")
    found = kinds(objective) | (set() if own else kinds(form["objective"]))
    values = found & {"state", "action"}
    policy, place = (own, "baseline_policy") if own else (form["policy"], "policy")
    _check_kind(place, policy, values, estimation)
    _check_critic(form["objective"], values if own else set(), has_baseline=bool(baseline))
    through = own and objective is None and estimation["estimate_advantage"]
    if values or through:
        return
    for name in ("estimate_horizon", "estimate_advantage"):
        if estimation[name]:
            problem = f"is {estimation[name]!r}, and nothing learns what states are worth: {_LEARNED}, or make it False"
            warnings.warn(f"{WHERE}: reward_estimation[{name!r}] {problem}", UserWarning, stacklevel=2)


def _check_kind(place: str, policy: Mapping[str, Any], values: set[str], estimation: Mapping[str, Any]) -> None:
    """A state's value is one of its own, or follows from those of actions."""
    if "state" not in values:
        return
    if policy["infer_state_value"]:
        problem = "is for objectives with value='action': with value='state', leave it False"
        refuse(f"{WHERE}: {place}['infer_state_value']", problem, policy["infer_state_value"])
    if estimation["estimate_actions"]:
        problem = "needs an objective with value='action', and not 'state'"
        refuse(f"{WHERE}: reward_estimation['estimate_actions']", problem, True)


def _check_critic(objective: Mapping[str, Any], values: set[str], *, has_baseline: bool) -> None:
    """A deterministic policy gradient learns from a critic of actions; alone it learns nothing, as in Tensorforce."""
    if "deterministic_policy_gradient" not in kinds(objective) or "action" in values:
        return
    place, problem = f"{WHERE}: objective", "deterministic_policy_gradient"
    if has_baseline:
        refuse(place, f"{problem} needs a baseline that values actions: {_CRITIC}", problem)
    warnings.warn(f"{place} {problem} changes nothing without a critic: {_CRITIC}", UserWarning, stacklevel=2)
