"""Acting and reporting steps."""

from __future__ import annotations

import urllib.parse
from collections.abc import Sequence
from typing import Any, Final, TypeAlias

from . import values
from .calls import Calls, new_key
from .messages import Request
from .operations import ordered

Action: TypeAlias = "int | list[float]"
"""An integer, or the numbers of an action: nested lists if ``action_size`` is a shape."""


class Experience(Calls):
    """Acting and reporting steps, the operations of an environment: carried out one at a time."""

    @ordered
    async def act(self, state: Any = None, noise: float = 0, *, explore: bool | None = None, obs: Any = None) -> Action:
        """Choose an action.

        Args:
            state: an observation: numbers in lists, tuples or arrays.
            noise: 0 .. 1: the probability of a random action, or a standard deviation in units of half the range;
                ignored if actions are drawn from the policy.
            explore: True for the agent's own exploration, False for none, whatever ``noise`` is.
            obs: another name of ``state``.

        Returns:
            An integer for discrete actions, else a list of floats within the bounds; nested lists if ``action_size`` is
            a shape.

        Raises:
            ValueError: another size, a number that is not finite, ``noise`` out of range.
            Conflict: the agent is inactive.
        """
        body = {"observation": values.plain(values.either(state, obs, "state", "obs"), "state")}
        body["environment"] = self._environment
        request = Request("POST", self._target(noise), _with_explore(body, explore))
        return await self._session.ask(request, lambda found: _action(found["action"]), _NO_ACTION)

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
        columns, count = self._columns(states=states, environments=environments)
        if not count:
            return []
        rows = [values.plain(row, f"states[{k}]") for k, row in enumerate(columns["states"])]
        body = {"observations": rows, "environments": columns["environments"]}
        request = Request("POST", self._target(noise), _with_explore(body, explore))

        def actions(found: Any) -> list[Action]:
            given = [_action(action if isinstance(action, list) else [action]) for action in found["actions"]]
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
            key: a name of this step, in ASCII; a step with the same name is applied only once.
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
        data = _step((state, action, reward, next_state, done, truncated, self._environment), _ARGUMENTS)
        await self._report("step", {"step_data": data}, key)
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
        given = {"states": states, "actions": actions, "rewards": rewards, "next_states": next_states, "dones": dones}
        columns, count = self._columns(**given, truncated=truncated, environments=environments)
        if not count:
            return 0
        rows = zip(*(columns[name] for name in _COLUMNS), strict=True)
        steps = [_step(row, [f"{column}[{k}]" for column in _COLUMNS]) for k, row in enumerate(rows)]
        await self._report("steps", {"steps": steps}, key)
        return count

    @ordered
    async def end_episode(self) -> None:
        """Report that the environment was reset without ``done``: the last step counts as truncated."""
        await self._report("end_episode", {"environment": self._environment}, None)

    async def _report(self, do: str, body: dict[str, Any], key: str | None) -> None:
        key = new_key() if key is None else values.key(key)
        await self._session.send(Request("POST", f"{self._path}/{do}", values.encode(body), key=key))

    def _columns(self, **given: Any) -> tuple[dict[str, Any], int]:
        """Columns of a batch, and their length."""
        defaults = {"truncated": False, "environments": self._environment}
        columns = {k: values.column(value) for k, value in given.items() if value is not None or k not in defaults}
        count = values.rows(columns)
        return {**{name: [value] * count for name, value in defaults.items()}, **columns}, count

    def _target(self, noise: Any) -> str:
        return f"{self._path}/act?noise={urllib.parse.quote(repr(values.number(noise, 'noise')))}"


_NO_ACTION: Final = "the answer holds no action"
_ARGUMENTS: Final = ("state", "action", "reward", "next_state", "done", "truncated", "environment")
_COLUMNS: Final = ("states", "actions", "rewards", "next_states", "dones", "truncated", "environments")


def _step(row: Sequence[Any], names: Sequence[str]) -> dict[str, Any]:
    """A transition in JSON form, from the values of :data:`_ARGUMENTS`; ``names`` of these in errors."""
    state, action, reward, next_state, done, truncated, environment = row
    return {
        "state": values.plain(state, names[0]),
        "action": values.action(action, names[1]),
        "reward": values.number(reward, names[2]),
        "next_state": values.plain(next_state, names[3]),
        "done": values.flag(done, names[4]),
        "truncated": values.flag(truncated, names[5]),
        "environment": environment,
    }


def _action(action: Any) -> Action:
    """An action for users: an integer, if it is a list of one."""
    if not isinstance(action, list):
        raise TypeError
    return action[0] if len(action) == 1 and type(action[0]) is int else _floats(action)


def _floats(action: list[Any]) -> list[Any]:
    return [_floats(item) if isinstance(item, list) else float(item) for item in action]


def _with_explore(body: dict[str, Any], explore: bool | None) -> bytes:
    return values.encode(body if explore is None else {**body, "explore": values.flag(explore, "explore")})
