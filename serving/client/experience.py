"""Acting and reporting steps."""

from __future__ import annotations

import urllib.parse
from collections.abc import Sequence
from typing import Any, Final, TypeAlias

from . import values
from .agent_info import Known
from .calls import Calls, new_key
from .errors import ArgumentError
from .messages import Request
from .operations import ordered

Action: TypeAlias = "int | list[float]"
"""An integer, or the numbers of an action: nested lists if ``action_size`` is a shape."""


class Experience(Calls):
    """Acting and reporting steps, the operations of an environment: carried out in order."""

    @ordered
    async def act(self, state: Any = None, noise: float = 0, *, explore: bool | None = None, obs: Any = None) -> Action:
        """Choose an action.

        Args:
            state: an observation: numbers in lists, tuples or arrays.
            noise: 0 .. 1: the probability of a random action, or a standard deviation in half-ranges; ignored where
                actions are drawn from the policy.
            explore: True for the agent's own exploration, False for none, whatever ``noise`` is.
            obs: another name of ``state``.

        Returns:
            An integer for discrete actions, else a list of floats within the bounds; nested lists if ``action_size`` is
            a shape.

        Raises:
            ValueError: another size, a number that is not finite, ``noise`` out of range; nothing was sent.
            Conflict: the agent is inactive.
        """
        state, target = values.either(state, obs, "state", "obs"), self._target(noise, explore)
        known = self._facts.known
        if known.discrete is None or known.state_size is None:
            known = await self._facts.learn()
        body = {"observation": values.state(state, known.state_size), "environment": self._environment}
        request = Request("POST", target, _with_explore(body, explore))
        return await self._session.ask(request, lambda found: _action(found["action"], known), _NO_ACTION)

    @ordered
    async def act_batch(
        self, states: Any, noise: float = 0, *, explore: bool | None = None, environments: Any = None
    ) -> list[Action]:
        """Choose actions for up to 1,000 observations; see :meth:`act`.

        Args:
            states: the observations.
            noise: for all.
            explore: for all.
            environments: their environments, one each; by default this object's.
        """
        target = self._target(noise, explore)
        columns, count, names = self._columns(states=states, environments=environments)
        if not count:
            return []
        known = await self._facts.learn()
        rows = [values.state(row, known.state_size, f"states[{k}]") for k, row in enumerate(columns["states"])]
        body = {"observations": rows, "environments": names}
        request = Request("POST", target, _with_explore(body, explore))

        def actions(found: Any) -> list[Action]:
            given = [_action(action if isinstance(action, list) else [action], known) for action in found["actions"]]
            if len(given) != count:
                raise ValueError
            return given

        return await self._session.ask(request, actions, _NO_ACTION)

    @ordered
    async def step(
        self,
        state: Any = None,
        action: Any = None,
        reward: float | None = None,
        next_state: Any = None,
        done: bool | None = None,
        *,
        truncated: bool = False,
        key: str | None = None,
        obs: Any = None,
        next_obs: Any = None,
    ) -> bool:
        """Report the outcome of an action. When this returns, the service has stored it.

        Args:
            state: the observation before the action.
            action: the action taken.
            reward: its reward.
            next_state: the observation after it.
            done: whether the episode has terminated.
            truncated: whether the episode was cut off.
            key: a name of this step; a step with the same name is applied only once.
            obs: another name of ``state``.
            next_obs: another name of ``next_state``.

        Returns:
            True.

        Raises:
            ValueError: an invalid value; nothing was counted.
            Conflict: the agent is inactive or failed.
        """
        state = values.either(state, obs, "state", "obs")
        next_state = values.either(next_state, next_obs, "next_state", "next_obs")
        key = new_key() if key is None else values.key(key)
        known = self._facts.known
        if known.discrete is None or known.state_size is None:
            known = await self._facts.learn()
        data = _step((state, action, reward, next_state, done, truncated), known, self._environment)
        await self._session.send(Request("POST", f"{self._path}/step", values.encode({"step_data": data}), key=key))
        return True

    @ordered
    async def step_batch(
        self,
        states: Any,
        actions: Any,
        rewards: Any,
        next_states: Any,
        dones: Any,
        *,
        truncated: Any = None,
        environments: Any = None,
        key: str | None = None,
    ) -> int:
        """Report up to 1,000 steps, all or none; equivalent to successive calls of :meth:`step`.

        Returns:
            Number of steps.
        """
        key = new_key() if key is None else values.key(key)
        given = {"states": states, "actions": actions, "rewards": rewards, "next_states": next_states, "dones": dones}
        columns, count, names = self._columns(**given, truncated=truncated, environments=environments)
        if not count:
            return 0
        known = await self._facts.learn()
        columns.setdefault("truncated", [False] * count)
        rows = zip(*(columns[name] for name in _COLUMNS), strict=True)
        steps = [
            _step(row, known, name, [f"{column}[{k}]" for column in _COLUMNS])
            for k, (row, name) in enumerate(zip(rows, names, strict=True))
        ]
        await self._session.send(Request("POST", f"{self._path}/steps", values.encode({"steps": steps}), key=key))
        return count

    @ordered
    async def end_episode(self) -> None:
        """Report that the environment was reset without ``done``: the last step counts as truncated."""
        body = values.encode({"environment": self._environment})
        await self._session.send(Request("POST", f"{self._path}/end_episode", body, key=new_key()))

    def _columns(self, **given: Any) -> tuple[dict[str, Any], int, list[str]]:
        """Columns of a batch, their length, and the name of each row's environment."""
        optional = ("truncated", "environments")
        columns = {k: values.column(value) for k, value in given.items() if value is not None or k not in optional}
        count = values.rows(columns)
        if "environments" not in columns:
            return columns, count, [self._environment] * count
        names = enumerate(columns["environments"])
        return columns, count, [values.environment(name, f"environments[{k}]") for k, name in names]

    def _target(self, noise: Any, explore: Any) -> str:
        if explore is not None and type(explore) is not bool:
            raise ArgumentError(f"explore must be None, True or False, got {explore!r}", "explore")
        level = noise if type(noise) is int and noise == 0 else values.fraction(noise, "noise")
        return f"{self._path}/act?noise={urllib.parse.quote(repr(level))}"


_NO_ACTION: Final = "the answer holds no action"
_ARGUMENTS: Final = ("state", "action", "reward", "next_state", "done", "truncated")
_COLUMNS: Final = ("states", "actions", "rewards", "next_states", "dones", "truncated")


def _step(row: Sequence[Any], known: Known, environment: str, names: Sequence[str] = _ARGUMENTS) -> dict[str, Any]:
    """A transition in JSON form, from the values of :data:`_ARGUMENTS`; ``names`` of these in errors."""
    state, action, reward, next_state, done, truncated = row
    return {
        "state": values.state(state, known.state_size, names[0]),
        "action": values.action(action, known.sent_size, names[1]),
        "reward": values.number(reward, names[2]),
        "next_state": values.state(next_state, known.state_size, names[3]),
        "done": values.flag(done, names[4]),
        "truncated": values.flag(truncated, names[5]),
        "environment": environment,
    }


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


def _with_explore(body: dict[str, Any], explore: bool | None) -> bytes:
    if explore is not None:
        body["explore"] = explore
    return values.encode(body)
