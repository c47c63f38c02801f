"""Puts an agent together from its arguments."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from ..processing.parameters import Parameter, make_parameter
from ..processing.preprocessors import Preprocessing, make_preprocessing
from ..spaces.errors import mapping
from ..spaces.readers import read_actions
from ..spaces.specs import Values
from ..specs.normal_form import distribution_of, normal_form
from .actors import Actor, ModelActing, SimpleActing
from .attachments import Companion
from .learner import Learner

if TYPE_CHECKING:
    from .protocol import ActObserve


class Parts(NamedTuple):
    """What an agent consists of."""

    core: Actor
    learning: Learner | None
    preprocessing: Preprocessing
    companions: list[Companion]
    form: Mapping[str, Any] | None


def build(agent: ActObserve) -> Parts:
    """The parts of an agent.

    Raises:
        TensorforceError: arguments do not fit each other.
    """
    given, where = agent.arguments, str(agent)
    states, actions = agent.states_values, agent.actions_values
    companions = _companions(agent)  # first: what is wrong with them is said before a model is built
    seed = given.get("seed")
    seed = secrets.randbits(32) if seed is None else int(seed)
    if agent.kind in ("random", "constant"):
        constants = None
        if agent.kind == "constant":
            values = given.get("action_values")
            place = f"{where}: action_values"
            constants = {} if values is None else read_actions(place, values, actions, partial=True)
        preprocessing = make_preprocessing(where, None, states.flat)
        return Parts(SimpleActing(actions, constants, seed), None, preprocessing, companions, None)
    form = normal_form(agent.kind, given, states, actions)
    preprocessing = make_preprocessing(where, form["preprocessing"], states.flat)
    learning = Learner(where, form, preprocessing.states, actions, agent.max_episode_timesteps, seed)
    acting = ModelActing(
        learning,
        actions,
        distributions(form, actions),
        _by_action(f"{where}: policy['temperature']", form["policy"]["temperature"], actions),
        _exploration(f"{where}: exploration", form["exploration"], actions),
        make_parameter(f"{where}: variable_noise", form["variable_noise"], at_least=0),
        seed,
    )
    return Parts(acting, learning, preprocessing, companions, form)


def distributions(form: Mapping[str, Any], actions: Values) -> dict[str, str]:
    """The kind of distribution of each action, as :class:`.action_draws.Chooser` takes it."""
    return {name: distribution_of(form["policy"], spec)["type"] for name, spec in actions.flat.items()}


def _by_action(
    where: str, given: Any, actions: Values, at_most: Mapping[str, float] | None = None
) -> dict[str, Parameter]:
    """A parameter for each action, from one for all or a dictionary by name."""
    high = at_most or {}
    names = list(actions.flat)
    if isinstance(given, Mapping) and "type" not in given and set(given) <= set(names):
        given = mapping(where, given)
        return {
            name: make_parameter(
                f"{where}[{name!r}]", given.get(name, 0.0), at_least=0, at_most=high.get(name, float("inf"))
            )
            for name in names
        }
    return {name: make_parameter(where, given, at_least=0, at_most=high.get(name, float("inf"))) for name in names}


def _exploration(where: str, given: Any, actions: Values) -> dict[str, Parameter]:
    """Of ints and bools a probability."""
    return _by_action(where, given, actions, {name: 1.0 for name, spec in actions.flat.items() if spec.type != "float"})


def _companions(agent: ActObserve) -> list[Companion]:
    """Recorder, summarizer and saver, as far as they are asked for."""
    found: list[Companion] = []
    given = agent.arguments
    if given.get("recorder") is not None:
        from .recorder import Recorder

        found.append(Recorder(str(agent), given["recorder"], agent))
    if given.get("summarizer") is not None:
        from .summaries import Summarizer

        found.append(Summarizer(str(agent), given["summarizer"], agent))
    if given.get("saver") is not None:
        from .saver import Saver

        found.append(Saver(str(agent), given["saver"], agent))
    return found
