"""Acting and reporting steps, without I/O."""

from __future__ import annotations

import urllib.parse
from typing import Any, Final, TypeAlias

from . import values
from .agent_info import Known
from .calls import Calls, checked_environment, checked_key, new_key
from .errors import ArgumentError
from .messages import Flow, Request, Response, content, unexpected

Action: TypeAlias = "int | list[float]"
"""An integer, or the numbers of an action: nested lists if ``action_size`` is a shape."""


class Experience(Calls):
    """The calls of an environment, to be carried out in order."""

    def act(self, state: Any, noise: Any, explore: bool | None) -> Flow[Action]:
        """One action."""
        target = self._target(noise, explore)
        known = self.known
        if known.discrete is None or known.state_size is None:
            known = yield from self.learn()
        body = {"observation": values.state(state, known.state_size), "environment": self.environment}
        request = Request("POST", target, _with_explore(body, explore))
        answer = yield request
        found = content(request, answer)
        try:
            return _action(found["action"], known)
        except (TypeError, KeyError, IndexError, ValueError):
            raise _no_action(request, answer) from None

    def act_batch(self, states: Any, noise: Any, explore: bool | None, environments: Any) -> Flow[list[Action]]:
        """Actions for several observations."""
        target = self._target(noise, explore)
        columns = {"states": values.column(states)}
        if environments is not None:
            columns["environments"] = values.column(environments)
        count = values.rows(columns)
        names = [self.environment] * count if environments is None else _names(columns["environments"])
        if not count:
            return []
        known = yield from self.learn()
        rows = [values.state(row, known.state_size, f"states[{k}]") for k, row in enumerate(columns["states"])]
        body = {"observations": rows, "environments": names}
        request = Request("POST", target, _with_explore(body, explore))
        answer = yield request
        found = content(request, answer)
        try:
            actions = [_action(action if isinstance(action, list) else [action], known) for action in found["actions"]]
        except (TypeError, KeyError, IndexError, ValueError):
            raise _no_action(request, answer) from None
        if len(actions) != count:
            raise _no_action(request, answer)
        return actions

    def step(
        self, state: Any, action: Any, reward: Any, next_state: Any, done: Any, truncated: Any, key: str | None
    ) -> Flow[bool]:
        """One transition, applied only once however often it is sent."""
        key = new_key() if key is None else checked_key(key)
        known = self.known
        if known.discrete is None or known.state_size is None:
            known = yield from self.learn()
        data = {
            "state": values.state(state, known.state_size),
            "action": values.action(action, known.sent_size),
            "reward": values.number(reward, "reward"),
            "next_state": values.state(next_state, known.state_size, "next_state"),
            "done": values.flag(done, "done"),
            "truncated": values.flag(truncated, "truncated"),
            "environment": self.environment,
        }
        yield Request("POST", f"{self._path}/step", values.encode({"step_data": data}), key=key)
        return True

    def step_batch(
        self,
        states: Any,
        actions: Any,
        rewards: Any,
        next_states: Any,
        dones: Any,
        truncated: Any,
        environments: Any,
        key: str | None,
    ) -> Flow[int]:
        """Several transitions, all or none."""
        key = new_key() if key is None else checked_key(key)
        given = {"states": states, "actions": actions, "rewards": rewards, "next_states": next_states, "dones": dones}
        given |= {"truncated": truncated, "environments": environments}
        columns = {name: values.column(value) for name, value in given.items() if value is not None or name in _NEEDED}
        count = values.rows(columns)
        names = _names(columns["environments"]) if "environments" in columns else [self.environment] * count
        if not count:
            return 0
        known = yield from self.learn()
        ended = columns.get("truncated", [False] * count)
        steps = [
            {
                "state": values.state(columns["states"][k], known.state_size, f"states[{k}]"),
                "action": values.action(columns["actions"][k], known.sent_size, f"actions[{k}]"),
                "reward": values.number(columns["rewards"][k], f"rewards[{k}]"),
                "next_state": values.state(columns["next_states"][k], known.state_size, f"next_states[{k}]"),
                "done": values.flag(columns["dones"][k], f"dones[{k}]"),
                "truncated": values.flag(ended[k], f"truncated[{k}]"),
                "environment": names[k],
            }
            for k in range(count)
        ]
        yield Request("POST", f"{self._path}/steps", values.encode({"steps": steps}), key=key)
        return count

    def end_episode(self) -> Flow[None]:
        """Report a reset: the last step counts as truncated."""
        body = values.encode({"environment": self.environment})
        yield Request("POST", f"{self._path}/end_episode", body, key=new_key())

    def _target(self, noise: Any, explore: Any) -> str:
        if explore is not None and type(explore) is not bool:
            raise ArgumentError(f"explore must be None, True or False, got {explore!r}", "explore")
        level = noise if type(noise) is int and noise == 0 else values.fraction(noise, "noise")
        return f"{self._path}/act?noise={urllib.parse.quote(repr(level))}"


_NEEDED: Final = ("states", "actions", "rewards", "next_states", "dones")


def _action(action: Any, known: Known) -> Action:
    """An action for users. A list of one integer is a discrete action, if nothing else is known."""
    if not isinstance(action, list):
        raise TypeError
    discrete = known.discrete
    if discrete is None:
        discrete = len(action) == 1 and type(action[0]) is int
    return int(action[0]) if discrete else _floats(action)


def _floats(action: list[Any]) -> list[Any]:
    return [_floats(item) if isinstance(item, list) else float(item) for item in action]


def _names(names: Any) -> list[str]:
    return [checked_environment(name, f"environments[{k}]") for k, name in enumerate(names)]


def _with_explore(body: dict[str, Any], explore: bool | None) -> bytes:
    if explore is not None:
        body["explore"] = explore
    return values.encode(body)


def _no_action(request: Request, answer: Response) -> Exception:
    return unexpected(request, answer, "the answer holds no action")
