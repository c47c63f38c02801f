"""Time to solution: from the start of a process until 20 greedy episodes return enough, evaluations left out."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from axonrl.hooks import Hook
from axonrl.hooks.events import EndFacts, TimestepFacts, TrainingSession

EVERY, EPISODES = 1_000, 20
ZOO_DQN: Final[dict[str, Any]] = {
    "agent.params.hidden": [256, 256],
    "agent.params.learning_rate": 2.3e-3,
    "agent.params.loss": "huber",
    "agent.params.double": False,
    "agent.params.target_update_rate": None,
    "agent.params.target_update_period": 128,
    "agent.params.max_gradient_norm": 10.0,
    "agent.params.epsilon": {"kind": "linear", "start": 1.0, "stop": 0.04, "duration": 8_000},
    "agent.memory": {"kind": "replay", "size": 100_000, "batch_size": 64, "discount": 0.99},
}
"""RL Baselines3 Zoo's settings, where 128 updates follow 256 timesteps and a copy of the target network: here an update
every 2 timesteps, and a copy every 128 updates."""


class Task(NamedTuple):
    """A task: the experiment that ships, a return that counts as solved, and values instead of the file's."""

    experiment: str
    solved: float
    sets: dict[str, Any]


TASKS: Final = {
    "PPO, CartPole-v1": Task("ppo_cartpole", 475, {}),
    "DQN, CartPole-v1": Task("dqn_cartpole", 475, {}),
    "DQN, CartPole-v1, equal settings": Task("dqn_cartpole", 475, ZOO_DQN),
    "SAC, Pendulum-v1": Task("sac_pendulum", -180, {}),
    "SAC, Pendulum-v1, equal settings": Task("sac_pendulum", -180, {"train.first_update": 256}),
}
"""``ppo_cartpole`` has rl-zoo's settings; a first update needs a full batch."""


class Solution(Hook):
    """Stops a run when its greedy episodes return enough, and prints how long evaluations took."""

    def __init__(self, solved: float) -> None:
        self._solved, self._next, self._seconds = solved, EVERY, 0.0

    def prepare(self, session: TrainingSession) -> None:
        """Make the copy of the environment."""
        session.prepare_evaluation(None, episodes=EPISODES)

    def after_timestep(self, session: TrainingSession, facts: TimestepFacts) -> None:
        """Evaluate at the multiples of 1,000 timesteps."""
        if session.global_timestep < self._next:
            return
        self._next += EVERY
        began = time.perf_counter()
        mean = session.evaluate(None, episodes=EPISODES)["episode_return_mean"]
        self._seconds += time.perf_counter() - began
        if mean >= self._solved:
            self._print(True, session)
            session.request_stop("solved")

    def end(self, session: TrainingSession, facts: EndFacts) -> None:
        """Print that it is not solved; what was printed before counts."""
        self._print(False, session)

    def _print(self, reached: bool, session: TrainingSession) -> None:
        """Print seconds of evaluations, whether it is solved, and timesteps, as JSON."""
        print(json.dumps([self._seconds, reached, session.global_timestep]), flush=True)


def measure_process(command: Sequence[str], env: dict[str, str]) -> tuple[float, bool, int]:
    """Seconds from the start of a process to its line of ``Solution``, without evaluations; solved; timesteps."""
    began = time.perf_counter()
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=env) as process:
        assert process.stdout is not None
        line = next(line for line in process.stdout if line[:1] == "[")
        seconds = time.perf_counter() - began
        process.stdout.read()
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, command)
    evaluating, reached, timesteps = json.loads(line)
    return seconds - evaluating, reached, timesteps


def rows(found: Sequence[tuple[float, bool, int]]) -> dict[str, float]:
    """The medians of seeds; a run that did not solve its task counts as infinite."""
    seconds, timesteps = zip(*[(s, t) if reached else (float("inf"),) * 2 for s, reached, t in found], strict=True)
    return {"s": statistics.median(seconds), "timesteps": statistics.median(timesteps)}


def command_of(task: Task, seed: int, folder: str) -> list[str]:
    """The command line that trains for a task."""
    hooks = [{"kind": f"{__name__}:Solution", "solved": task.solved}]
    sets = {"seed": seed, "evaluate": None, "hooks": hooks, **task.sets}
    words = [word for key, value in sets.items() for word in ("--set", f"{key}={json.dumps(value)}")]
    return [sys.executable, "-m", "axonrl", "run", task.experiment, *words, "--model-dir", folder]
