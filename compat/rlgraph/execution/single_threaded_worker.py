"""The worker that steps an agent's environments one after another."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from ..agents.acting import Perception
from ..agents.agent import Agent
from ..agents.rows import rows_of
from ..environments import Environment, SequentialVectorEnv
from ..environments.environment import step_environment
from ..processing.preprocessors import Preprocessor
from ..spaces import stacked
from ..spaces.space_specs import with_boxes
from ..utils.rlgraph_errors import RLGraphWarning, flag, integer, number, refuse, refuse_unknown
from .run import Episode, Run, due, marks, summary
from .worker import Worker

_NAME: Final = "SingleThreadedWorker"


@dataclasses.dataclass
class _Lane:
    """An environment, and its running episode."""

    environment: Environment
    env_id: str
    seen: Any = None
    """The current state, preprocessed."""
    reward: float = 0.0
    timesteps: int = 0
    started: float = 0.0


class SingleThreadedWorker(Worker):
    """Runs an agent in one environment or in several: it acts, observes and updates.

    The agent knows the environments as ``env_0``, ``env_1``, ... At the end of an episode the next state is that
    episode's last one; a time limit is not a terminal. Each state is preprocessed once, per environment: ``sequence``
    starts over with each episode.

    Args:
        agent: a built Agent.
        env_spec: a specification for ``Environment.from_spec``: a dictionary, a callable that makes an environment, or
            an Environment.
        num_envs: number of environments; also called ``num_environments``.
        frameskip: how often each action is repeated; rewards are summed.
        render: render the first environment at each step.
        preprocessing_spec: preprocessing by the worker instead of the agent.
        worker_executes_preprocessing: None: True if there is a ``preprocessing_spec``. False: the agent preprocesses,
            and a ``preprocessing_spec`` has no effect, with a warning.
        worker_executes_exploration: no effect: ``use_exploration`` decides, and the agent explores.
        exploration_epsilon: no effect.
        episode_finish_callback: called after each episode with the keywords ``reward`` (the episode's return, float),
            ``duration`` (in seconds, float), ``timesteps`` and ``env_num``; functions that take ``episode_return``, the
            later name of ``reward``, get it, too.

    Attributes:
        agent: the agent.
        vector_env: holds the environments, in ``environments``.
        env_ids: names of the environments.
        num_environments: number of environments.
        finished_episode_rewards: for each environment, returns of the episodes that ended since the last reset.
        finished_episode_durations: their durations in seconds.
        finished_episode_steps: their lengths in timesteps.

    Raises:
        RLGraphError: an argument is invalid, or agent and environments do not fit.
    """

    def __init__(
        self,
        agent: Any = None,
        env_spec: Any = None,
        num_envs: int | None = None,
        frameskip: int = 1,
        render: bool = False,
        preprocessing_spec: Any = None,
        worker_executes_preprocessing: bool | None = None,
        worker_executes_exploration: bool = True,
        exploration_epsilon: float = 0.1,
        episode_finish_callback: Callable[..., Any] | None = None,
        **aliases: Any,
    ) -> None:
        names = inspect.signature(SingleThreadedWorker).parameters
        refuse_unknown(_NAME, aliases, [*(name for name in names if name != "aliases"), "num_environments"])
        if not isinstance(agent, Agent):
            refuse(f"{_NAME}: agent", f"must be an Agent, got {agent!r:.200}", agent)
        self.agent: Agent = agent
        self.frameskip = integer(f"{_NAME}: frameskip", frameskip, at_least=1)
        self.render = flag(f"{_NAME}: render", render)
        flag(f"{_NAME}: worker_executes_exploration", worker_executes_exploration)
        number(f"{_NAME}: exploration_epsilon", exploration_epsilon, at_least=0, at_most=1)
        if episode_finish_callback is not None and not callable(episode_finish_callback):
            refuse(f"{_NAME}: episode_finish_callback", "must be a function", episode_finish_callback)
        self._callback = episode_finish_callback
        self._more = ("episode_return",) if _takes(episode_finish_callback, "episode_return") else ()
        preprocesses = _preprocesses(preprocessing_spec, worker_executes_preprocessing)
        self.vector_env = _environments(env_spec, num_envs, aliases.get("num_environments"))
        self._perception = self._fitting(preprocessing_spec if preprocesses else None)
        self._lanes = [_Lane(one, f"env_{index}") for index, one in enumerate(self.vector_env.environments)]
        self.num_environments = len(self._lanes)
        self.env_ids = [lane.env_id for lane in self._lanes]
        self._forget_episodes()
        self._episodes = 0
        """Episodes that ended in all calls."""
        self._stopped: float | None = None
        """End time of the last call; None before the first."""

    def execute_timesteps(
        self,
        num_timesteps: int,
        max_timesteps_per_episode: int | None = 0,
        update_spec: Mapping[str, Any] | None = None,
        use_exploration: bool = True,
        frameskip: int | None = None,
        reset: bool = True,
    ) -> dict[str, Any]:
        """Run for a number of timesteps, summed over all environments.

        Args:
            num_timesteps: least number of actions; the call ends after the vector step that reaches it.
            max_timesteps_per_episode: cuts an episode after this many timesteps, without a terminal; 0 or None: never.
            update_spec: overrides entries of the agent's ``update_spec`` during this call, such as
                ``{"do_updates": False}``.
            use_exploration: False: greedy actions.
            frameskip: overrides the worker's; None: the worker's.
            reset: False: continue the episodes that were running when the last call ended.

        Returns:
            Results of this call: ``runtime`` (seconds), ``timesteps_executed``, ``ops_per_second``, ``env_frames``
            (``frameskip`` per timestep, fewer where an episode ends in between), ``env_frames_per_second``,
            ``episodes_executed``, ``episodes_per_minute``, ``mean_episode_runtime`` (seconds), and
            ``mean_episode_reward``, ``max_episode_reward`` and ``final_episode_reward`` of finished episodes; without
            finished episodes the rewards of the running ones, and a runtime of 0.

        Raises:
            RLGraphError: an argument is invalid.
        """
        given = (max_timesteps_per_episode, update_spec, use_exploration, frameskip, reset)
        return self._execute("timesteps", num_timesteps, *given)

    def execute_episodes(
        self,
        num_episodes: int,
        max_timesteps_per_episode: int | None = 0,
        update_spec: Mapping[str, Any] | None = None,
        use_exploration: bool = True,
        frameskip: int | None = None,
        reset: bool = True,
    ) -> dict[str, Any]:
        """Run until a number of episodes have ended, to the end of the vector step that ends the last of them.

        Arguments, result and errors are those of :meth:`execute_timesteps`.
        """
        given = (max_timesteps_per_episode, update_spec, use_exploration, frameskip, reset)
        return self._execute("episodes", num_episodes, *given)

    def _execute(
        self,
        unit: str,
        count: Any,
        longest: Any,
        update_spec: Any,
        use_exploration: Any,
        frameskip: Any,
        reset: Any,
    ) -> dict[str, Any]:
        where = f"{_NAME}.execute_{unit}"
        goal = integer(f"{where}: num_{unit}", count, at_least=1)
        longest = integer(f"{where}: max_timesteps_per_episode", longest or 0, at_least=0)
        explores = flag(f"{where}: use_exploration", use_exploration)
        skip = self.frameskip if frameskip is None else integer(f"{where}: frameskip", frameskip, at_least=1)
        begins = flag(f"{where}: reset", reset) or self._stopped is None
        with self.agent.updating(f"{where}: update_spec", update_spec) as update:
            run = Run(goal, unit == "episodes", longest, explores, skip, update)
            started = time.perf_counter()
            if begins:
                self._begin()
            for lane in self._lanes if not begins else ():  # exclude the time between two calls
                lane.started += started - (self._stopped or started)
            try:
                while not run.is_over:
                    self._step(run)
            finally:
                self._stopped = now = time.perf_counter()
        return summary(now - started, run, self.episode_returns)

    @property
    def episode_returns(self) -> list[float]:
        """Sum of rewards of each environment's running episode."""
        return [lane.reward for lane in self._lanes]

    def _begin(self) -> None:
        """Begin new episodes in all environments; the agent's records of running episodes are cut there.

        If one of them cannot begin, ``reset=False`` has nothing to continue.
        """
        self._stopped = None
        self._forget_episodes()
        self.agent.reset()
        for lane in self._lanes:
            self.agent.flush_env_buffers(lane.env_id)
            self._start(lane)

    def _forget_episodes(self) -> None:
        self.finished_episode_rewards: list[list[float]] = [[] for _ in self._lanes]
        self.finished_episode_durations: list[list[float]] = [[] for _ in self._lanes]
        self.finished_episode_steps: list[list[int]] = [[] for _ in self._lanes]

    def _start(self, lane: _Lane) -> None:
        state = lane.environment.reset()
        lane.reward, lane.timesteps, lane.started = 0.0, 0, time.perf_counter()
        self.agent.reset(lane.env_id)
        if self._perception is not None:
            self._perception.forget(lane.env_id)
        lane.seen = self._see(lane, state)

    def _fitting(self, spec: Any) -> Perception | None:
        """Preprocessing of a worker that preprocesses itself; RLGraphError if agent and environments do not fit."""
        agent, states, actions = self.agent, self.vector_env.state_space, self.vector_env.action_space
        found, wanted, what, look = states, agent.state_space, "state_space", None
        if spec is not None:
            preprocessor = Preprocessor(f"{_NAME}: preprocessing_spec", spec, states.flat())
            found, wanted, what = (
                with_boxes(states, preprocessor.outputs),
                agent.preprocessed_state_space,
                "model's states",
            )
            look = Perception(_NAME, states, wanted, preprocessor)
        if marks(found) != marks(wanted):
            refuse(f"{_NAME}: env_spec", f"has states {found}; the agent's {what} is {wanted}", found)
        if marks(agent.action_space) != marks(actions):
            problem = f"takes actions {actions}; the agent's action_space is {agent.action_space}"
            refuse(f"{_NAME}: env_spec", problem, actions)
        return look

    def _see(self, lane: _Lane, state: Any) -> Any:
        """Preprocess a state: each once, in order, since a next state is the one acted on next."""
        state = copy.deepcopy(state)  # the environment may reuse its array
        if (look := self._perception) is None:
            return self.agent.preprocess_states(state, env_ids=lane.env_id) if self.agent.preprocessor.spec else state
        return look.out(look.see(look.read("env_spec", state, True)[0], [lane.env_id]), True)

    def _step(self, run: Run) -> None:
        """Step all environments once, then run the updates that are due."""
        if self.render:
            self.vector_env.render()
        before, known = self.agent.timesteps, len(run.episodes)
        for index, action in enumerate(self._actions(run.use_exploration)):
            self._move(index, action, run)
        ended = run.episodes[known:]
        self._episodes += len(ended)
        for episode in ended:
            self.finished_episode_rewards[episode.env_num].append(episode.reward)
            self.finished_episode_durations[episode.env_num].append(episode.duration)
            self.finished_episode_steps[episode.env_num].append(episode.timesteps)
            if self._callback is not None:
                self._callback(**episode._asdict(), **dict.fromkeys(self._more, episode.reward))
        now, observe = self.agent.timesteps, self.agent.observe_spec
        if run.update["update_mode"] == "episodes":
            before, now, observe = self._episodes - len(ended), self._episodes, {"buffer_enabled": False}
        for _ in range(due(before, now, run.update, observe)):
            if not self.agent.can_update:
                break
            self.agent.update()

    def _actions(self, explores: bool) -> Sequence[Any]:
        """One for each environment."""
        if len(self._lanes) == 1:
            seen = self._lanes[0].seen
            return [self.agent.get_action(seen, use_exploration=explores, apply_preprocessing=False)]
        space = self.agent.action_space
        states = stacked(self.agent.preprocessed_state_space, [lane.seen for lane in self._lanes])
        chosen = self.agent.get_action(states, use_exploration=explores, apply_preprocessing=False)
        return [space.unflatten(row) for row in rows_of(space.flatten(chosen))]

    def _move(self, index: int, action: Any, run: Run) -> None:
        """Act in one environment, repeating the action ``frameskip`` times or until its episode ends, and observe."""
        lane = self._lanes[index]
        told = step_environment(lane.environment, action, run.frameskip)
        run.frames += told.frames
        run.timesteps += 1
        lane.reward += told.reward
        lane.timesteps += 1
        terminal, seen = told.terminal and not told.truncated, self._see(lane, told.state)
        self.agent.observe(
            preprocessed_states=lane.seen,
            actions=action,
            internals=None,
            rewards=told.reward,
            next_states=seen,
            terminals=terminal,
            env_id=lane.env_id,
        )
        lane.seen = seen
        if not told.terminal and not 0 < run.longest <= lane.timesteps:
            return
        if not terminal:
            self.agent.flush_env_buffers(lane.env_id)
        run.episodes.append(Episode(lane.reward, time.perf_counter() - lane.started, lane.timesteps, index))
        self._start(lane)


def _takes(function: Any, name: str) -> bool:
    try:
        found = inspect.signature(function).parameters
    except (TypeError, ValueError):  # of some built-in functions
        return False
    return name in found or any(one.kind is inspect.Parameter.VAR_KEYWORD for one in found.values())


def _preprocesses(spec: Any, given: Any) -> bool:
    """Does the worker preprocess?"""
    if given is None:
        return spec is not None
    if flag(f"{_NAME}: worker_executes_preprocessing", given) and spec is None:
        problem = "is True without a preprocessing_spec: pass one, or False to let the agent preprocess"
        refuse(f"{_NAME}: worker_executes_preprocessing", problem, given)
    if spec and not given:
        text = f"{_NAME}: preprocessing_spec is ignored: worker_executes_preprocessing is False"
        warnings.warn(text, RLGraphWarning, stacklevel=3)
    return bool(given)


def _environments(spec: Any, num_envs: Any, num_environments: Any) -> SequentialVectorEnv:
    if spec is None:
        refuse(f"{_NAME}: env_spec", "is missing: a dictionary, a callable or an Environment", None)
    if num_envs is not None and num_environments is not None and num_envs != num_environments:
        refuse(f"{_NAME}: num_environments", f"is another name of num_envs, which is {num_envs}", num_environments)
    given = num_envs if num_envs is not None else num_environments
    count = 1 if given is None else integer(f"{_NAME}: num_envs", given, at_least=1)
    if isinstance(spec, Environment) and count > 1:
        refuse(f"{_NAME}: num_envs", f"must be 1 for an Environment, got {count}: pass a specification", count)
    vector = spec if isinstance(spec, SequentialVectorEnv) else SequentialVectorEnv(count, spec)
    first = vector.environments[0]
    return first if count == 1 and isinstance(first, SequentialVectorEnv) else vector
