"""A session and an Agent that only count, for hooks, the runner and commands."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from gymnasium import spaces

from axonrl.core.protocols import RunConfig
from axonrl.estimators.limits import Goal, UpdateSchedule
from axonrl.estimators.run_summary import Part, RunSummary
from axonrl.hooks import Hooks
from axonrl.hooks.events import BeginFacts, EndFacts, EpisodeStats, EvaluationFacts, TimestepFacts
from axonrl.run_dir.snapshot import Counters
from axonrl.tests.hooks.conftest import FakeSession as OfHooks

EXPERIMENT = """
name: pole
seed: 3
environment: {id: CartPole-v1}
agent: {model_fn: dqn, params: {hidden: [8]}, memory: {kind: replay, size: 1000, batch_size: 8}}
train: {first_update: 20, max_timesteps: 60}
evaluate: {episodes: 1}
"""
"""A file that trains for 60 timesteps."""


class FakeSession(OfHooks):
    """Every episode has two timesteps and a return of its own number."""

    def __init__(self, model_dir: Path, timestep: int = 0, episode: int = 0) -> None:
        super().__init__(model_dir)
        self.global_timestep, self.global_episode = timestep, episode
        self.pause = 0.0
        """Seconds that an episode takes."""

    def episode(self, hooks: Hooks) -> None:  # type: ignore[override]
        """Two timesteps, then an episode is finished."""
        for _ in range(2):
            self.global_timestep += 1
            zeros = np.zeros(1)
            for call in hooks.after_timestep:
                call(self, TimestepFacts(zeros, zeros, zeros, zeros > 0, zeros > 0, zeros))
        self.global_episode += 1
        time.sleep(self.pause)
        stats = EpisodeStats(float(self.global_episode), 2, True, False, math.nan, math.nan, 0.25)
        for call in hooks.after_episode:
            call(self, stats)

    def evaluated(self, hooks: Hooks, mean: float, **more: float) -> None:
        results = {
            "episode_return_mean": mean,
            "episode_return_std": 0.5,
            "episode_length_mean": 2.0,
            "episodes": 3,
            **more,
        }
        for call in hooks.after_evaluation:
            call(self, EvaluationFacts(results, (mean, mean, mean), seed=5, num_envs=2, environment="CartPole-v1"))


class FakeAgent:
    """Writes down what the runner calls; ``train`` runs a :class:`FakeSession`."""

    def __init__(
        self, model_fn: Any, memory: Any, model_dir: Path, config: RunConfig, params: Any, failures: list[Exception]
    ) -> None:
        self.failures = failures
        self.given = (model_fn, memory, model_dir, config, params)
        self.memory = memory
        self.session = FakeSession(model_dir)
        self.evaluations: list[dict[str, Any]] = []
        self.envs: list[Any] = []
        self.train_arguments: dict[str, Any] = {}
        self.learn_arguments: dict[str, Any] = {}

    @property
    def global_step(self) -> int:
        return 7

    @property
    def global_timestep(self) -> int:
        return self.session.global_timestep

    @property
    def global_episode(self) -> int:
        return self.session.global_episode

    def check(
        self, env: Any, first_update: int = 35, update_frequency: int = 10, *, hooks: Sequence[Any], **data: Any
    ) -> RunSummary:
        self.checked = (env, first_update, update_frequency, tuple(hooks), data)
        self.given[2].rmdir()  # it is there, and empty
        self.given[2].mkdir()
        space, parts = spaces.Discrete(2), {"q": Part(1_234, 1_234, True), "slots": Part(2_468, 0, False)}
        runtimes = {"actor": "litert", "learner": "tensorflow"}
        why = {"actor": "it is small, and converts", "learner": "it is large"}
        return RunSummary(
            space, space, 1, parts, 2_600_000, UpdateSchedule(first_update, update_frequency), runtimes, why
        )

    def learn(self, data: str, env: Any, *, max_steps: int, hooks: Sequence[Any]) -> FakeAgent:
        """Count the wanted updates without calling hooks for them."""
        self.envs.append(env)
        self.learn_arguments = {"data": data, "max_steps": max_steps}
        checked, session = Hooks(hooks), self.session
        for call in checked.begin:
            call(session, BeginFacts(1, False, {"steps": max_steps}))
        session.offline_steps = max_steps
        checked.end(session, EndFacts("done", None, 2.0))
        return self

    def train(self, env: Any, *, hooks: Sequence[Any], cluster: Any = None, **given: Any) -> FakeAgent:
        self.envs.append(env)
        goal = Goal(**{name: given.pop(name, None) for name in vars(Goal())})
        self.train_arguments = {**given, **goal.limits(Counters(global_timestep=self.global_timestep)).by_kind()}
        max_timesteps = goal.max_timesteps or 0
        if self.failures:
            raise self.failures.pop()
        checked, session = Hooks(hooks), self.session
        try:
            for call in checked.begin:
                call(session, BeginFacts(1, False, {"timesteps": max_timesteps}))
            while session.stop_reason is None and session.global_timestep < max_timesteps:
                session.episode(checked)
        except BaseException as error:
            checked.end(session, EndFacts("failed", error, 1.0))
            raise
        checked.end(session, EndFacts("done", None, 1.0))
        return self

    def evaluate(self, env: Any, *, episodes: int, policy: str) -> dict[str, float]:
        self.envs.append(env)
        self.evaluations.append({"episodes": episodes, "policy": policy})
        return {"episode_return_mean": 9.0, "episode_return_std": 1.5, "episode_length_mean": 2.0, "episodes": episodes}


def main_with_pauses(arguments: list[str]) -> int:
    """The command line with an Agent that trains slowly, for a process of its own."""
    from axonrl.experiments.commands import cli
    from axonrl.experiments.running import runner

    def make(experiment: Any, parts: Any, folder: Path) -> FakeAgent:
        agent = FakeAgent(parts.model_fn, parts.memory, folder, RunConfig(seed=experiment.seed), {}, [])
        agent.session.pause = 0.02
        return agent

    runner.agent_of = make
    return cli.main(arguments)


SLOW = (
    sys.executable,
    "-c",
    f"import sys; from {__name__} import main_with_pauses as main; sys.exit(main(sys.argv[1:]))",
)
"""The command line in a process of its own, with an Agent that only counts, slowly."""

TROUBLE = '''
"""A hook of a user's, beside the experiment file; who imports it needs no TensorFlow."""

import json
import os
import signal
import time
from pathlib import Path

from axonrl.hooks import Hook


class Trouble(Hook):
    """Does what plan.json has for the run's seed, when it is time."""

    def begin(self, session, facts):
        path = Path("plan.json")
        self.what, self.when = json.loads(path.read_text() if path.exists() else "{}").get(
            str(session.config.seed), (None, 0)
        )

    def wait(self, session):
        """In the middle of the run, until it is to stop; "deaf" ends at once only."""
        Path(f"begun-{session.config.seed}").touch()
        until = time.monotonic() + 60
        while self.what == "deaf" or not session._stop_reason:
            if time.monotonic() > until:
                raise TimeoutError("nobody has stopped this run")
            time.sleep(0.01)

    def after_timestep(self, session, facts):
        if session.global_timestep == self.when:
            print("trouble at", self.when)
            if self.what in ("wait", "deaf"):
                self.wait(session)
            elif self.what == "kill":
                session.save_checkpoint()
            elif self.what == "raise":
                raise OSError("the disk is on fire")
        elif session.global_timestep == self.when + 7 and self.what == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
'''
