"""RemoteAgent: an agent that a service hosts."""

from __future__ import annotations

import os
from typing import Any

from . import values
from .experience import Action
from .session import Session, Settings
from .state import EncodedAgentState
from .values import Size


class RemoteAgent(Session):
    """An agent that learns in a service, while its environment is here.

    One object is one environment: its calls of ``act`` and ``step`` are made in order, also by several threads; use an
    object for each environment. A request whose answer is lost is repeated, and applied once. The documentation of a
    method names the errors that are its own; every method may raise ``AuthenticationError``, ``NotFound``,
    ``RateLimited`` and ``ServiceUnavailable``.

    A pickled object holds no credentials; unpickled, it takes them from the environment variables.

    Args:
        agent_name: in the service, one of the account's own.
        description: for :meth:`create_agent`.
        access_token: a token of the service.
        username: to get a token with, at construction, and another one when it has expired. Objects of one process
            with the same service, name and password have one login together.
        password: the same.
        url: of the service; else ``AXONRL_URL``, ``AGENTS_BAR_URL``, ``http://127.0.0.1:8000``.
        timeout: seconds that an attempt may take; :meth:`create_agent` and states may take 120.
        retry_deadline: seconds after which no further attempt begins.
        environment: the stream of experience that steps belong to; a random one by default.
        verify: check the service's certificate; a path for authorities of one's own.
        hyperparameters: all other keywords, for :meth:`create_agent`; and ``state_size`` (or ``obs_size``),
            ``action_size`` and ``agent_model``, which :meth:`create_agent` need not be told then, and which are known
            without asking.

    Raises:
        ValueError: no credentials, an invalid argument, or a keyword that looks like a credential.
        AuthenticationError: username and password were refused.
        ServiceUnavailable: the service could not be reached to log in.
    """

    def __init__(
        self,
        agent_name: str,
        description: str | None = "",
        *,
        access_token: str | None = None,
        username: str | None = None,
        password: str | None = None,
        url: str | None = None,
        timeout: float = 10.0,
        retry_deadline: float = 30.0,
        environment: str | None = None,
        verify: bool | str | os.PathLike[str] = True,
        **hyperparameters: Any,
    ) -> None:
        settings = Settings(agent_name, description, url, timeout, retry_deadline, environment, verify, hyperparameters)
        super().__init__(settings, access_token, username, password)

    # -- the agent -----------------------------------------------------------------------------------------------------

    def create_agent(
        self,
        state_size: Size | None = None,
        action_size: Size | None = None,
        agent_model: str | None = None,
        active: bool = True,
        *,
        obs_size: Size | None = None,
        discrete: bool | None = None,
        action_low: Any = None,
        action_high: Any = None,
        observation_space: dict[str, Any] | None = None,
    ) -> dict[str, Any]:
        """Create the agent; when this returns, it acts.

        Args:
            state_size: how many numbers an observation has; a tuple for a shape. It, ``action_size`` and
                ``agent_model`` are what the constructor was told where they are left out.
            action_size: how many actions there are, or how many numbers an action has; a tuple for a shape.
            agent_model: one of ``SUPPORTED_MODELS`` or ``OTHER_MODELS``.
            active: whether it acts and learns at once.
            obs_size: another name of ``state_size``.
            discrete: whether actions are integers, for models that can do either.
            action_low: bound of the numbers of an action, or a list with one for each; 0 unless it is given, here or
                to the constructor.
            action_high: likewise; 1.
            observation_space: in axonrl's JSON form of a space, instead of ``state_size``.

        Returns:
            The agent object.

        Raises:
            ValueError: an unknown model or invalid sizes; nothing was sent.
            Conflict: the name is taken, or the quota used up.
            InvalidRequest: a hyperparameter is invalid.
        """
        state_size = values.either(state_size, obs_size, "state_size", "obs_size")
        settings = {"discrete": discrete, "observation_space": observation_space}
        settings |= {"action_low": action_low, "action_high": action_high}
        return self._do(self._calls.create(state_size, action_size, agent_model, active, settings))

    def remove(self, *, agent_name: str, quite: bool = True) -> bool:
        """Delete the agent and all that it learned, for good.

        Args:
            agent_name: its name once more.
            quite: for another name warn and return False rather than raise.

        Returns:
            Whether there was one.

        Raises:
            ValueError: another name, and not ``quite``.
        """
        return self._do(self._calls.remove(agent_name, quite))

    @property
    def exists(self) -> bool:
        """Whether the agent is there, and created whole. A refused token raises."""
        return self._do(self._calls.exists())

    @property
    def is_active(self) -> bool:
        """Whether it acts and learns."""
        return self._do(self._calls.is_active())

    def activate(self) -> None:
        """Let it act and learn."""
        self._do(self._calls.set_active(True))

    def deactivate(self) -> None:
        """Let it rest: it takes no memory, and ``act`` and ``step`` raise ``Conflict``."""
        self._do(self._calls.set_active(False))

    @property
    def hparams(self) -> dict[str, int | float | str]:
        """Hyperparameters and sizes, as far as they are known; asks once if none are."""
        return self._do(self._calls.hparams())

    def info(self) -> dict[str, Any]:
        """The agent object: its configuration, status and counters."""
        return self._do(self._calls.info())

    def sync(self) -> None:
        """Take over model, sizes and hyperparameters as the service has them."""
        self._do(self._calls.sync())

    @property
    def state_size(self) -> Size:
        """How many numbers an observation has, or its shape; None for a Dict of observations."""
        size: Size = self._do(self._calls.fact("state_size"))
        return size

    obs_size = state_size

    @property
    def action_size(self) -> Size:
        """How many actions there are, or how many numbers an action has, or their shape."""
        size: Size = self._do(self._calls.fact("action_size"))
        return size

    @property
    def agent_model(self) -> str:
        """Such as ``"dqn"``."""
        model: str = self._do(self._calls.fact("model"))
        return model

    @property
    def discrete(self) -> bool:
        """Whether actions are integers."""
        discrete: bool = self._do(self._calls.fact("discrete"))
        return discrete

    @property
    def loss(self) -> dict[str, Any]:
        """Loss and metrics of the last update, None where not finite; empty before the first."""
        return self._do(self._calls.loss())

    def get_state(self) -> EncodedAgentState:
        """Everything it has learned. The service allows this a few times a minute."""
        return self._do(self._calls.get_state())

    def upload_state(self, state: EncodedAgentState) -> bool:
        """Put what another agent has learned in the place of what this one has.

        Returns:
            True.

        Raises:
            InvalidRequest: another model or other sizes, or damaged; nothing changed.
        """
        return self._do(self._calls.upload_state(state))

    def episodes(self, last: int = 100) -> list[dict[str, Any]]:
        """The last finished episodes: return, length, how they ended, environment and time."""
        return self._do(self._calls.episodes(last))

    def _exists_within(self, seconds: float) -> bool:
        """Asked once, in at most so many seconds."""
        return self._do(self._calls.exists(), timeout=min(seconds, self._settings.timeout), retry_deadline=0.0)

    def _is_active_within(self, seconds: float) -> bool:
        return self._do(self._calls.is_active(), timeout=min(seconds, self._settings.timeout), retry_deadline=0.0)

    # -- experience ---------------------------------------------------------------------------------------------------

    def act(self, state: Any = None, noise: float = 0, *, explore: bool | None = None, obs: Any = None) -> Action:
        """Choose an action.

        Args:
            state: an observation: numbers in lists, tuples or arrays.
            noise: 0 .. 1: the probability of a random action, or a standard deviation in half-ranges; no effect where
                actions are drawn from the policy.
            explore: True for the agent's own exploration, False for none, whatever ``noise`` is.
            obs: another name of ``state``.

        Returns:
            An integer for discrete actions, else a list of floats within the bounds; lists of lists of them where
            ``action_size`` is a shape.

        Raises:
            ValueError: another size, a number that is not finite, ``noise`` out of range; nothing was sent.
            Conflict: the agent is inactive.
        """
        return self._in_order(self._calls.act(values.either(state, obs, "state", "obs"), noise, explore))

    def step(
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
        """Report what came of an action. When this returns, the service keeps it.

        Args:
            state: the observation that was acted on.
            action: what was done.
            reward: for it.
            next_state: the observation after it.
            done: the episode has ended for good.
            truncated: it was cut off.
            key: a name of this step; with the same one it is applied only once.
            obs: another name of ``state``.
            next_obs: another name of ``next_state``.

        Returns:
            True.

        Raises:
            ValueError: an invalid value; nothing was counted.
            Conflict: the agent is inactive or failed.
        """
        before = values.either(state, obs, "state", "obs")
        after = values.either(next_state, next_obs, "next_state", "next_obs")
        return self._in_order(self._calls.step(before, action, reward, after, done, truncated, key))

    def act_batch(
        self, states: Any, noise: float = 0, *, explore: bool | None = None, environments: Any = None
    ) -> list[Action]:
        """Choose actions for up to 1,000 observations; see :meth:`act`.

        Args:
            states: the observations.
            noise: for all.
            explore: for all.
            environments: whose they are, one each; by default this object's.
        """
        return self._in_order(self._calls.act_batch(states, noise, explore, environments))

    def step_batch(
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
        """Report up to 1,000 steps, all or none; otherwise as one :meth:`step` after another.

        Returns:
            How many.
        """
        flow = self._calls.step_batch(states, actions, rewards, next_states, dones, truncated, environments, key)
        return self._in_order(flow)

    def end_episode(self) -> None:
        """Say that the environment was reset without ``done``: the last step counts as truncated."""
        self._in_order(self._calls.end_episode())
