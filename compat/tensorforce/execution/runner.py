"""Training and evaluation of an agent in its environments."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from ..environments.environment import Environment
from ..spaces.errors import flag, integer, refuse
from ..spaces.specs import read_values
from .lane import Lane
from .loop import Loop, Record, Settings

Callback: TypeAlias = "Callable[[Runner, int], Any]"
"""Function of the Runner and an environment's index; False ends the run."""


class Runner(Record):
    """Runs an agent in one environment or in several.

    Attributes, reset by each run: ``timesteps``, ``episodes``, ``updates``, and their limits ``num_timesteps`` and so
    on (infinite by default); ``episode_rewards``, ``episode_timesteps``, ``episode_seconds``,
    ``episode_agent_seconds``, ``episode_env_seconds``, with one entry per episode; the same with ``evaluation_``, which
    are the same lists unless some environments train and one evaluates.

    Args:
        agent: the specification of an agent, see ``Agent.create``, or an Agent, which ``close`` leaves open.
        environment: the specification of an environment, see ``Environment.create``, or an environment, which
            ``close`` leaves open.
        max_episode_timesteps: the environments' time limit.
        evaluation: the last environment, or the only one, evaluates in all runs.
        num_parallel: number of environments to create from the specification.
        environments: environments or their specifications, instead of ``environment``.
        remote: see ``Environment.create``.
        blocking: see ``Environment.create``.
        host: not supported.
        port: not supported.

    Raises:
        TensorforceError: an argument is invalid, or agent and environments do not fit.
    """

    def __init__(
        self,
        agent: Any,
        environment: Any = None,
        max_episode_timesteps: int | None = None,
        evaluation: bool = False,
        num_parallel: int | None = None,
        environments: Sequence[Any] | None = None,
        remote: str | None = None,
        blocking: bool = False,
        host: Any = None,
        port: Any = None,
    ) -> None:
        super().__init__()
        from ..agents import Agent
        from ..environments.environment_specs import is_object

        self.evaluation = flag("Runner: evaluation", evaluation)
        self.num_episodes = self.num_timesteps = self.num_updates = math.inf
        self.save_best_agent: str | None = None
        given = _specifications(environment, num_parallel, environments)
        self._lanes: list[Lane] = []
        self.environments: list[Environment] = []
        self.agent: Any = None
        self._owned: list[Any] = []
        with contextlib.ExitStack() as stack:
            stack.callback(self.close)
            for one in given:
                self.environments.append(Environment.create(one, max_episode_timesteps, remote, blocking, host, port))
                if not is_object(one):
                    self._owned.append(self.environments[-1])
            _check_equal(self.environments)
            training = self.environments[: len(given) - 1 if evaluation and len(given) > 1 else len(given)]
            longest = max(training, key=lambda one: one.max_episode_timesteps() or math.inf)
            limit = longest.max_episode_timesteps()
            self.agent = Agent.create(
                agent=agent,
                environment=longest,
                parallel_interactions=len(training),
                **({} if limit is None else {"max_episode_timesteps": limit}),  # else the specification's own
            )
            if self.agent is not agent:
                self._owned.append(self.agent)
            stack.pop_all()

    @property
    def episode_reward(self) -> list[float]:
        """Sum of rewards in each environment's running episode; 0 if none runs."""
        return [lane.reward for lane in self._lanes]

    @property
    def episode_timestep(self) -> list[int]:
        """Number of timesteps in each environment's running episode; 0 if none runs."""
        return [lane.timestep for lane in self._lanes]

    def run(
        self,
        num_episodes: int | None = None,
        num_timesteps: int | None = None,
        num_updates: int | None = None,
        batch_agent_calls: bool = False,
        sync_timesteps: bool = False,
        sync_episodes: bool = False,
        num_sleep_secs: float = 0.001,
        callback: Callback | Sequence[Callback] | None = None,
        callback_episode_frequency: int | None = None,
        callback_timestep_frequency: int | None = None,
        use_tqdm: bool = True,
        mean_horizon: int = 1,
        evaluation: bool = False,
        save_best_agent: str | None = None,
        evaluation_callback: Callable[[Runner], Any] | None = None,
    ) -> None:
        """Run episodes until one of the limits is reached, or a callback returns False.

        Args:
            num_episodes: number of episodes; unfinished episodes in other environments are dropped.
            num_timesteps: exact number of timesteps: the last episodes are cut off (terminal 2), and count.
            num_updates: number of updates; unfinished episodes are dropped.
            batch_agent_calls: the agent acts and observes for all environments at once.
            sync_timesteps: all environments wait for each other at each timestep.
            sync_episodes: new episodes begin when all have ended.
            num_sleep_secs: seconds to sleep while all remote environments are busy.
            callback: a function of the Runner and an environment's index, or a list of such functions.
            callback_episode_frequency: episodes between calls of the callback; 1 by default.
            callback_timestep_frequency: timesteps of an episode between calls, instead of episodes.
            use_tqdm: show a progress bar on a terminal.
            mean_horizon: number of episodes to average over.
            evaluation: all environments evaluate in this run: the agent does not learn, its counters do not change.
            save_best_agent: directory for ``best-model``, saved at each new best mean of ``mean_horizon`` evaluations.
            evaluation_callback: called with the Runner after each evaluation episode; its result, unless None, replaces
                the mean.

        Raises:
            TensorforceError: an argument is invalid.
        """
        self._run(Settings(**{name: value for name, value in locals().items() if name != "self"}))

    def close(self) -> None:
        """Close the agent and the environments that the Runner created from specifications."""
        with contextlib.ExitStack() as stack:
            for one in self._owned:
                stack.callback(one.close)
            self._owned = []

    def __enter__(self) -> Runner:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def _new_lanes(self, evaluation: bool) -> list[Lane]:
        last = len(self.environments) - 1
        evaluated = [evaluation or (self.evaluation and index == last) for index in range(last + 1)]
        return [
            Lane(one, index, evaluated=evaluated[index], counted=not evaluated[index] or all(evaluated))
            for index, one in enumerate(self.environments)
        ]

    def _run(self, settings: Settings) -> None:
        from .bar import bar

        lanes = self._new_lanes(settings.evaluation)
        if settings.num_updates < math.inf and all(lane.evaluated for lane in lanes):
            problem = "is for training: an evaluation has no updates"
            refuse("Runner.run: num_updates", problem, settings.num_updates)
        self.num_episodes, self.num_timesteps = settings.num_episodes, settings.num_timesteps
        self.num_updates, self.save_best_agent = settings.num_updates, settings.save_best_agent
        self._lanes = lanes
        self.clear(separate=not all(lane.counted for lane in lanes))
        limits = {"episodes": self.num_episodes, "timesteps": self.num_timesteps, "updates": self.num_updates}
        with bar(self, limits, settings.mean_horizon, wanted=settings.use_tqdm) as show:
            Loop(self.agent, lanes, settings, self, show).run()


def _specifications(environment: Any, num_parallel: Any, environments: Any) -> list[Any]:
    from ..environments.environment_specs import is_object

    if environments is None:
        if environment is None:
            refuse("Runner: environment", "is missing", None)
        if num_parallel is None:
            return [environment]
        count = integer("Runner: num_parallel", num_parallel, at_least=1)
        if is_object(environment):
            refuse("Runner: num_parallel", "needs the specification of an environment, not an object", num_parallel)
        return [environment] * count
    if environment is not None:
        refuse("Runner: environments", "and environment exclude each other", environments)
    if not isinstance(environments, list | tuple) or not environments:
        refuse("Runner: environments", f"must be a list of environments, got {environments!r}", environments)
    if num_parallel is not None and num_parallel != len(environments):
        refuse("Runner: num_parallel", f"must be the number of environments, {len(environments)}", num_parallel)
    objects = [id(one) for one in environments if is_object(one)]
    if len(set(objects)) < len(objects):
        refuse("Runner: environments", "has the same environment twice", environments)
    return list(environments)


def _check_equal(environments: Sequence[Environment]) -> None:
    first = environments[0]
    for index, other in enumerate(environments):
        for kind, one, wanted in (
            ("states", other.states(), first.states()),
            ("actions", other.actions(), first.actions()),
        ):
            if read_values(str(other), one, kind).nest != read_values(str(first), wanted, kind).nest:
                refuse(f"Runner: environments[{index}]", f"has the {kind} {one}; the first has {wanted}", one)
