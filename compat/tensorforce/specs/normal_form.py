"""The normal form of an agent: one dictionary in terms of the generic agent, from which everything is built."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from typing import Any, Final

from ....core.checks import shortened
from ...common.value_specs import TYPES, ValueSpec
from ..spaces.errors import number, refuse, refuse_unknown, translate_errors
from ..spaces.specs import Values
from .agent_forms import parts_of
from .agent_tables import TABLES
from .arguments import WHERE, check_arguments
from .modules import kinds
from .table_checks import EPISODE, ParameterCheck

_DQN: Final = ("dqn", "double_dqn", "dueling_dqn")
_COMMON: Final = ("preprocessing", "exploration", "variable_noise", "l2_regularization", "entropy_regularization")
_REGULARIZATIONS: Final = ("l2_regularization", "entropy_regularization")
_TYPE_OF: Final = {"bernoulli": "bool", "categorical": "int", "gaussian": "float", "beta": "float"}
"""Types of actions by distribution."""
_LEARNED: Final = "give a baseline_objective, such as dict(type='value', value='state')"
_CRITIC: Final = "give a baseline_policy, and a baseline_objective with value='action'"


def normal_form(kind: str, arguments: Mapping[str, Any], actions: Values) -> dict[str, Any]:
    """Express an agent in terms of the generic one.

    Args:
        kind: the agent's key; ``random`` and ``constant`` have no normal form.
        arguments: all arguments, as returned by ``bind``.
        actions: specs of the actions.

    Returns:
        ``memory``, ``update``, ``policy``, ``objective``, ``optimizer``, ``baseline``, ``reward_estimation``,
        ``preprocessing``, ``exploration``, ``variable_noise``, ``l2_regularization``, ``entropy_regularization``,
        ``dueling`` and ``double``, with the defaults of all modules. In JSON types, except functions and Keras layers
        of networks, and ``preprocessing``, which is as given.

    Raises:
        TensorforceError: an argument is invalid, or does not fit another one.
    """
    values, ignored = check_arguments(kind, arguments), list[str]()
    with translate_errors():
        parts = parts_of(kind, values, ignored)
    form: dict[str, Any] = {
        **parts,
        **{name: values[name] for name in _COMMON},
        "dueling": kind == "dueling_dqn",
        "double": kind == "double_dqn",
    }
    _check_actions(kind, form, actions)
    _check_values(form)
    _complete_policies(form, actions)
    form["exploration"] = _exploration(form["exploration"], actions)
    _check_episodes(form, values)
    least, capacity = least_capacity(form, values["max_episode_timesteps"]), form["memory"]["capacity"]
    if capacity is not None and capacity < least:
        refuse(f"{WHERE}: memory", f"must hold at least {least} timesteps for this update, got {capacity}", capacity)
    if ignored:
        warnings.warn(f"{WHERE}: {', '.join(ignored)} has no effect in axonrl", UserWarning, stacklevel=2)
    if kind in _DQN and form["exploration"] == 0.0:
        message = "exploration is 0.0, the default, so that actions are always greedy: set it, for example to 0.1"
        warnings.warn(f"{WHERE}: {message}", UserWarning, stacklevel=2)
    return form


def bounds_of_fed(form: Mapping[str, Any]) -> dict[str, dict[str, float]]:
    """Bounds of the numbers fed to an update, by sorted path: ``"optimizer/learning_rate"``."""
    found = [
        *_fed_bounds(form["optimizer"], "optimizer", "optimizer"),
        *_fed_bounds(form["objective"], "objective", "objective"),
    ]
    found += [(name, {"at_least": 0.0}) for name in _REGULARIZATIONS]
    baseline = form["baseline"] or {}
    for name, kind in (("optimizer", "baseline_optimizer"), ("objective", "objective")):
        if baseline.get(name) is not None:
            found += _fed_bounds(baseline[name], kind, f"baseline/{name}")
    if baseline.get("weight") is not None:
        found.append(("baseline/weight", {"at_least": 0.0}))
    return dict(sorted(found))


def at(form: Mapping[str, Any], path: str) -> Any:
    """The value in a normal form at a path such as ``"optimizer/learning_rate"``."""
    value: Any = form
    for key in path.split("/"):
        value = value[key]
    return value


def least_capacity(form: Mapping[str, Any], max_episode_timesteps: int | None) -> int:
    """Least capacity of the memory in timesteps, for a batch and the rewards after it.

    Raises:
        TensorforceError: it depends on the length of episodes, which is not limited.
    """
    update, estimation = form["update"], form["reward_estimation"]
    if update["unit"] == "episodes":
        return int(update["batch_size"]) * _limit("unit 'episodes'", max_episode_timesteps)
    horizon, is_late = _longest(estimation["horizon"], max_episode_timesteps), estimation["estimate_horizon"] == "late"
    return int(update["batch_size"]) + horizon + 1 + int(is_late)


def first_update(form: Mapping[str, Any], max_episode_timesteps: int | None = None, start: int | None = None) -> int:
    """Timesteps or episodes, as ``update`` counts them, before the first update.

    Args:
        form: the normal form.
        max_episode_timesteps: needed if the horizon depends on it.
        start: the current value of ``update/start`` if that is not a number; None counts as 0.
    """
    update = form["update"]
    if start is None:
        start = 0 if isinstance(update["start"], Mapping) else update["start"]
    if update["unit"] == "episodes":
        return max(start, int(update["batch_size"]))
    return max(start, least_capacity(form, max_episode_timesteps))


def distribution_of(policy: Mapping[str, Any], spec: ValueSpec) -> Mapping[str, Any]:
    """A policy's distribution over an action, in normal form: ``type`` and arguments, if any."""
    given = policy["distributions"]
    if spec.name in given or spec.type in given:
        found: Mapping[str, Any] = given[spec.name if spec.name in given else spec.type]
        return found
    beta = spec.bounded and policy["use_beta_distribution"]
    return {"type": {"bool": "bernoulli", "int": "categorical"}.get(spec.type, "beta" if beta else "gaussian")}


def _fed_bounds(module: Mapping[str, Any], kind: str, path: str) -> Iterator[tuple[str, dict[str, float]]]:
    for argument in TABLES[kind].entries[module["type"]].arguments:
        place, check = f"{path}/{argument.name}", argument.check
        if argument.fed and isinstance(check, ParameterCheck):
            yield place, check.bounds
        elif argument.module is not None:
            yield from _fed_bounds(module[argument.name], argument.module, place)


def _longest(horizon: Any, max_episode_timesteps: int | None) -> int:
    """The longest possible horizon: sums of rewards end with the episode."""
    if horizon == EPISODE:
        return _limit("horizon 'episode'", max_episode_timesteps)
    if not isinstance(horizon, Mapping):
        return int(horizon)
    if horizon["type"] == "piecewise_constant" and isinstance(horizon.get("values"), list) and horizon["values"]:
        return max(round(number(f"{WHERE}: horizon['values']", one, at_least=0)) for one in horizon["values"])
    return _limit("a horizon that changes", max_episode_timesteps)


def _limit(reason: str, max_episode_timesteps: int | None) -> int:
    if max_episode_timesteps is None:
        refuse(f"{WHERE}: max_episode_timesteps", f"is missing: {reason} needs it", None)
    return max_episode_timesteps


def _check_actions(kind: str, form: Mapping[str, Any], actions: Values) -> None:
    """Check that the agent supports the types of the actions."""
    place = f"{WHERE}: actions"
    for name, spec in actions.flat.items():
        if kind in _DQN and spec.type != "int":
            refuse(place, f"must all be of type int for {kind}; {name!r} is {spec.type}", spec)
        if form["objective"]["type"] == "deterministic_policy_gradient" and spec.type != "float":
            refuse(place, f"must be of type float for a deterministic policy gradient; {name!r} is {spec.type}", spec)
    if kind == "dpg" and len(actions.flat) != 1:
        names = ", ".join(actions.flat)
        refuse(place, f"must be one float action for {kind}, got {len(actions.flat)}: {names}", list(actions.flat))


def _complete_policies(form: Mapping[str, Any], actions: Values) -> None:
    """Check policies' settings of single actions, and complete temperatures if some actions have one."""
    baseline = form["baseline"] or {"policy": None, "objective": None}
    for place, policy, objective in (
        ("policy", form["policy"], form["objective"]),
        ("baseline_policy", baseline["policy"], baseline["objective"]),
    ):
        if policy is None:
            continue
        _check_distributions(f"{WHERE}: {place}['distributions']", policy["distributions"], actions)
        if isinstance(policy["temperature"], Mapping) and "type" not in policy["temperature"]:
            refuse_unknown(f"{WHERE}: {place}['temperature']", policy["temperature"], actions.flat, what="action")
            rest = 1.0 if "policy_gradient" in kinds(objective) else 0.0
            policy["temperature"] = {name: policy["temperature"].get(name, rest) for name in actions.flat}


def _check_distributions(place: str, distributions: Mapping[str, Any], actions: Values) -> None:
    refuse_unknown(place, distributions, [*TYPES, *actions.flat], what="action or type")
    for key, distribution in distributions.items():
        wanted = _TYPE_OF[distribution["type"]]
        type_ = key if key in TYPES else actions.flat[key].type
        if type_ != wanted:
            problem = f"is {distribution['type']}, which is for actions of type {wanted}, not {type_}"
            refuse(f"{place}[{key!r}]", problem, distribution["type"])
        for name, spec in actions.flat.items():
            if distribution["type"] == "beta" and key in {name, spec.type} and not spec.bounded:
                refuse(f"{place}[{key!r}]", f"is beta, which needs bounds; action {name!r} has none", name)


def _exploration(exploration: Any, actions: Values) -> Any:
    """The exploration, by action if there are several: actions without an entry do not explore."""
    place = f"{WHERE}: exploration"
    by_action = isinstance(exploration, Mapping) and "type" not in exploration
    if by_action:
        refuse_unknown(place, exploration, actions.flat, what="action")
        exploration = {name: exploration.get(name, 0.0) for name in actions.flat}
    for name, spec in actions.flat.items():
        value = exploration[name] if by_action else exploration
        if spec.type != "float" and not isinstance(value, Mapping) and value > 1:
            problem = f"is the probability of a random action for {name!r}: at most 1, got {shortened(value)}"
            refuse(f"{place}[{name!r}]" if by_action else place, problem, value)
    return exploration


def _check_episodes(form: Mapping[str, Any], values: Mapping[str, Any]) -> None:
    """Check the settings that need whole episodes of limited length."""
    limit, lanes = values["max_episode_timesteps"], values["parallel_interactions"]
    if form["reward_estimation"]["horizon"] == EPISODE:
        _limit("horizon 'episode'", limit)
    if lanes > 1 and form["update"]["unit"] != "episodes":
        problem = f"can be more than 1 only with updates in unit 'episodes', got {lanes}"
        refuse(f"{WHERE}: parallel_interactions", problem, lanes)
    if lanes > 1:
        _limit("parallel_interactions above 1", limit)


# -- estimates ---------------------------------------------------------------------------------------------------------


def _check_values(form: Mapping[str, Any]) -> None:
    """Refuse contradictory arguments about estimates; warn of estimates that nothing learns."""
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
            problem = f"is {estimation[name]!r}, and nothing learns state values: {_LEARNED}, or make it False"
            warnings.warn(f"{WHERE}: reward_estimation[{name!r}] {problem}", UserWarning, stacklevel=2)


def _check_kind(place: str, policy: Mapping[str, Any], values: set[str], estimation: Mapping[str, Any]) -> None:
    """Refuse to infer a state's value from action values if it is learnt on its own."""
    if "state" not in values:
        return
    if policy["infer_state_value"]:
        problem = "needs objectives with value='action': leave it False with value='state'"
        refuse(f"{WHERE}: {place}['infer_state_value']", problem, policy["infer_state_value"])
    if estimation["estimate_actions"]:
        problem = "needs an objective with value='action', and not 'state'"
        refuse(f"{WHERE}: reward_estimation['estimate_actions']", problem, True)


def _check_critic(objective: Mapping[str, Any], values: set[str], *, has_baseline: bool) -> None:
    """Refuse a deterministic policy gradient with a baseline without action values; warn if it has no baseline."""
    if "deterministic_policy_gradient" not in kinds(objective) or "action" in values:
        return
    place, problem = f"{WHERE}: objective", "deterministic_policy_gradient"
    if has_baseline:
        refuse(place, f"{problem} needs a baseline that values actions: {_CRITIC}", problem)
    warnings.warn(f"{place} {problem} changes nothing without a critic: {_CRITIC}", UserWarning, stacklevel=2)
