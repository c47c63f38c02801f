"""Builds an agent from its arguments."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from typing import Any

from ..processing.parameters import Parameter, make_parameter
from ..processing.preprocessors import Preprocessing, make_preprocessing
from ..spaces.readers import read_actions
from ..specs.normal_form import distribution_of, normal_form
from .acting import NOISE, Acting, Chooser
from .companions import AgentCore, Companion
from .learner import Learner
from .recorder import Recorder
from .saver import Saver
from .summaries import Summarizer


def build(
    agent: AgentCore,
) -> tuple[Acting, Learner | None, Preprocessing, list[Companion], Mapping[str, Any] | None]:
    """Build an agent's parts and its normal form.

    Raises:
        TensorforceError: arguments do not fit each other.
    """
    given, where = agent.arguments, str(agent)
    states, actions = agent.states_values, agent.actions_values
    companions: list[Companion] = [
        made(where, given[name], agent)
        for name, made in (("recorder", Recorder), ("summarizer", Summarizer), ("saver", Saver))
        if given.get(name) is not None
    ]  # first, so that errors in them come before a model is built
    seed = given.get("seed")
    seed = secrets.randbits(32) if seed is None else int(seed)
    if agent.kind in ("random", "constant"):
        values = given.get("action_values")
        constants = {} if values is None else read_actions(f"{where}: action_values", values, actions, partial=True)
        chooser = Chooser(actions, dict.fromkeys(actions.flat, agent.kind), constants)
        return Acting(actions, chooser, seed), None, make_preprocessing(where, None, states.flat), companions, None
    form = normal_form(agent.kind, given, actions)
    preprocessing = make_preprocessing(f"{where}: preprocessing", form["preprocessing"], states.flat)
    parameters: dict[str, Parameter] = {}
    for name, spec in actions.flat.items():
        for kind, one in (("temperature", form["policy"]["temperature"]), ("exploration", form["exploration"])):
            by_name = isinstance(one, Mapping) and "type" not in one
            place = f"{where}: {kind}" + (f"[{name!r}]" if by_name else "")
            most = 1.0 if kind == "exploration" and spec.type != "float" else float("inf")
            found = one.get(name, 0.0) if by_name else one
            parameters[f"{name}-{kind}"] = make_parameter(place, found, at_least=0, at_most=most)
    parameters[NOISE] = make_parameter(f"{where}: variable_noise", form["variable_noise"], at_least=0)
    learning = Learner(where, form, preprocessing.states, actions, agent.max_episode_timesteps, seed)
    distributions = {name: distribution_of(form["policy"], spec)["type"] for name, spec in actions.flat.items()}
    acting = Acting(actions, Chooser(actions, distributions), seed, learning, parameters)
    return acting, learning, preprocessing, companions, form
