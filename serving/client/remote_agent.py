"""RemoteAgent: an agent hosted by a service."""

from __future__ import annotations

import os
from typing import Any

from . import values
from .experience import Action
from .session import Session, Settings
from .state import EncodedAgentState
from .values import Size


class RemoteAgent(Session):
    """An agent that learns in a service, with its environment here.

    One object is one environment: its calls of ``act`` and ``step`` are made in order, even by several threads; use one
    object per environment. A request whose answer is lost is repeated, and applied only once. Each method documents its
    own errors; every method may raise ``AuthenticationError``, ``NotFound``,
    ``RateLimited`` and ``ServiceUnavailable``.

    A pickled object holds no credentials; unpickled, it takes them from the environment variables.

    Args:
        agent_name: name in the service, unique in the account.
        description: for :meth:`create_agent`.
        access_token: a token of the service.
        username: name to log in with, at construction, and again when the token has expired. Objects of one process
            with the same service, name and password share one login.
        password: password to log in with.
        url: URL of the service; else ``AXONRL_URL``, ``AGENTS_BAR_URL``, ``http://127.0.0.1:8000``.
        timeout: seconds that an attempt may take; :meth:`create_agent` and states may take 120.
        retry_deadline: seconds after which no further attempt begins.
        environment: the stream of experience that steps belong to; a random one by default.
        verify: whether to check the service's certificate; a path gives own authorities.
        hyperparameters: all other keywords, for :meth:`create_agent`; and ``state_size`` (or ``obs_size``),
            ``action_size`` and ``agent_model``, which :meth:`create_agent` then does not need, and which are known
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
            state_size: number of numbers in an observation; a tuple for a shape. It, ``action_size`` and
                ``agent_model`` default to the constructor's arguments.
            action_size: number of actions, or of numbers in an action; a tuple for a shape.
            agent_model: one of ``SUPPORTED_MODELS`` or ``OTHER_MODELS``.
            active: whether it acts and learns at once.
            obs_size: another name of ``state_size``.
            discrete: whether actions are integers, for models that can do either.
            action_low: lower bound of the numbers of an action, or a list with one for each; 0 unless given here or to
                the constructor.
            action_high: upper bound of the numbers of an action, or a list with one for each; 1 unless given.
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
        """Delete the agent and all that it learned, permanently.

        Args:
            agent_name: the agent's name, as a confirmation.
            quite: for another name, warn and return False instead of raising.

        Returns:
        Whether it existed.

        Raises:
            ValueError: another name, and not ``quite``.
        """
        return self._do(self._calls.remove(agent_name, quite))

    @property
    def exists(self) -> bool:
        """Whether the agent exists and is completely created. A refused token raises."""
        return self._do(self._calls.exists())

    @property
    def is_active(self) -> bool:
        """Whether it acts and learns."""
        return self._do(self._calls.is_active())

    def activate(self) -> None:
        """Let it act and learn."""
        self._do(self._calls.set_active(True))

    def deactivate(self) -> None:
        """Deactivate the agent: it takes no memory, and ``act`` and ``step`` raise ``Conflict``."""
        self._do(self._calls.set_active(False))

    @property
    def hparams(self) -> dict[str, int | float | str]:
        """Hyperparameters and sizes, as far as known; asks once if none are."""
        return self._do(self._calls.hparams())

    def info(self) -> dict[str, Any]:
        """The agent object: its configuration, status and counters."""
        return self._do(self._calls.info())

    def sync(self) -> None:
        """Update model, sizes and hyperparameters from the service."""
        self._do(self._calls.sync())

    @property
    def state_size(self) -> Size:
        """Number of numbers in an observation, or its shape; None for a Dict of observations."""
        size: Size = self._do(self._calls.fact("state_size"))
        return size

    obs_size = state_size

    @property
    def action_size(self) -> Size:
        """Number of actions, or of numbers in an action, or their shape."""
        size: Size = self._do(self._calls.fact("action_size"))
        return size

    @property
    def agent_model(self) -> str:
        """Model, such as ``"dqn"``."""
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
        """Download everything that the agent has learned. The service allows this a few times a minute."""
        return self._do(self._calls.get_state())

    def upload_state(self, state: EncodedAgentState) -> bool:
        """Replace the agent's state by another agent's.

        Returns:
            True.

        Raises:
            InvalidRequest: the state is for another model or other sizes, or damaged; nothing changed.
        """
        return self._do(self._calls.upload_state(state))

    def episodes(self, last: int = 100) -> list[dict[str, Any]]:
        """The last finished episodes: return, length, kind of end, environment and time."""
        return self._do(self._calls.episodes(last))

    def _exists_within(self, seconds: float) -> bool:
        """:attr:`exists`, asked once with a limit of seconds."""
        return self._do(self._calls.exists(), timeout=min(seconds, self._settings.timeout), retry_deadline=0.0)

    def _is_active_within(self, seconds: float) -> bool:
        return self._do(self._calls.is_active(), timeout=min(seconds, self._settings.timeout), retry_deadline=0.0)

    # -- experience ---------------------------------------------------------------------------------------------------

    def act(self, state: Any = None, noise: float = 0, *, explore: bool | None = None, obs: Any = None) -> Action:
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
            environments: their environments, one each; by default this object's.
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
        """Report up to 1,000 steps, all or none; equivalent to successive calls of :meth:`step`.

        Returns:
            Number of steps.
        """
        flow = self._calls.step_batch(states, actions, rewards, next_states, dones, truncated, environments, key)
        return self._in_order(flow)

    def end_episode(self) -> None:
        """Report that the environment was reset without ``done``: the last step counts as truncated."""
        self._in_order(self._calls.end_episode())
