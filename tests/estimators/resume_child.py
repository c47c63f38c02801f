"""Trains compiled programs in processes that may be killed: run by test_exact_resume.py.

One process imports what they need, without TensorFlow, and forks a child for every job. That is sound because it has
one thread (checked below): a child finds nothing that another thread held. A job is a line of JSON on stdin; on stdout
come ``pid N``, what the child says, and ``exit N``, as Popen.returncode.
"""

from __future__ import annotations

import hashlib
import importlib
import json
import os
import signal
import sys
import traceback
from pathlib import Path
from typing import Any

import numpy as np

CALLS = ("mkdir", "open", "fsync", "rename", "replace", "unlink", "rmdir")
"""The calls to the file system that a save makes, by their names in ``os``."""
PARAMS = {"hidden": [4], "target_update_period": 10, "epsilon": 0.3}
PPO_PARAMS = {"hidden": [4], "shared": True, "optimizer": "sgd", "epochs": 2, "minibatch_size": 16, "max_kl": 0.1}


def say(*words: object) -> None:
    """One line, at once and whole."""
    os.write(1, (" ".join(map(str, words)) + "\n").encode())


class Journal:
    """Writes down all that happens, each event in a line under a name of its own: the same in every process."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def _write(self, *words: object) -> None:
        os.write(self._file, (" ".join(map(str, words)) + "\n").encode())

    def before_episode(self, session: Any, facts: Any) -> None:
        self._write(f"begin:{facts.environment}:{facts.episode}", facts.seed, session.global_timestep)

    def after_timestep(self, session: Any, facts: Any) -> None:
        values = (facts.observation, facts.action, facts.reward, facts.next_observation)
        arrays = [array for value in values for array in (value.values() if isinstance(value, dict) else [value])]
        digest = hashlib.sha256(b"".join(array.tobytes() for array in arrays)).hexdigest()
        self._write(f"timestep:{session.global_timestep}", digest, session.global_step, session.exploration.hex())

    def after_update(self, session: Any, facts: Any) -> None:
        numbers = [facts.loss.hex(), *(value.hex() for value in facts.metrics.values())]
        self._write(f"update:{session.global_step}", session.global_timestep, *numbers)

    def after_episode(self, session: Any, facts: Any) -> None:
        numbers = (facts.episode_return.hex(), facts.length, facts.terminated, facts.truncated, facts.loss.hex())
        self._write(f"end:{facts.environment}:{facts.episode}", session.global_timestep, *numbers)

    def after_evaluation(self, session: Any, facts: Any) -> None:
        self._write(f"evaluation:{session.position}", *(one.hex() for one in facts.episode_returns))


class Victim:
    """Waits to be killed, or does it itself; never lets the run reach its end.

    Args:
        at: the first timestep, or update without timesteps, at which it may happen; this is said.
        calls: kill the process before its so many-th call to the file system from then on; None leaves it to others.
        last: the run's last timestep.
    """

    def __init__(self, at: int, calls: int | None, last: int) -> None:
        self._at, self._calls, self._last = at, calls, last
        self._reached = False

    def after_timestep(self, session: Any, facts: Any) -> None:
        if session.position >= self._at and not self._reached:
            self._reached = True
            say("reached", session.position)
            if self._calls is not None:
                self._arm(self._calls)
        if session.position >= self._last:
            if self._calls is not None:  # there were fewer
                os.kill(os.getpid(), signal.SIGKILL)
            signal.pause()

    after_update = after_timestep

    def _arm(self, calls: int) -> None:
        left = calls

        def dying(call: Any) -> Any:
            def wrapper(*args: Any, **kwargs: Any) -> Any:
                nonlocal left
                left -= 1
                if left == 0:
                    os.kill(os.getpid(), signal.SIGKILL)
                return call(*args, **kwargs)

            return wrapper

        for name in CALLS:
            setattr(os, name, dying(getattr(os, name)))


def noisy_dqn(features: Any, labels: Any, mode: str, params: Any, config: Any) -> Any:
    """DQN with rewards to which noise of every kind is added at every update."""
    import tensorflow as tf

    from axonrl import noise
    from axonrl.models import dqn

    if mode == "train":
        shape = labels["reward"].shape
        draws = noise.normal(shape) * noise.uniform(shape, 0.1, 0.3)
        labels = {**labels, "reward": labels["reward"] + tf.gather(draws, noise.permutation(shape[0]))}
    return dqn.model_fn(features, labels, mode, params, config)


def episodes() -> list[dict[str, Any]]:
    """Ten of CartPole's shapes, the same in every process."""
    rng, made = np.random.default_rng(0), []
    for _ in range(10):
        rows = rng.normal(size=(21, 4)).astype(np.float32)
        ended = np.arange(20) == 19
        made.append(
            {
                "observation": rows[:-1],
                "action": rng.integers(2, size=20, dtype=np.int32),
                "reward": np.ones(20, np.float32),
                "terminated": ended,
                "truncated": np.zeros(20, np.bool_),
                "next_observation": rows[1:],
            }
        )
    return made


def environment(algorithm: str) -> Any:
    """What is trained in."""
    from axonrl.environments import make

    if algorithm == "ppo":
        return make("CartPole-v1", 4, wrappers=["normalize_observation", "normalize_reward"])
    return make("CartPole-v1")


def agent_of(algorithm: str, model_dir: Path, config: Any, compiled: str | None = None) -> Any:
    """An Agent, of its function or of what was compiled of that."""
    from axonrl import Agent
    from axonrl.memories import BatchMemory, ReplayMemory

    memory: Any = BatchMemory(32) if algorithm == "ppo" else ReplayMemory(100, 16)
    if algorithm == "offline":
        memory = ReplayMemory(200, 16, n_step=2, sampler="prioritized")
    if compiled is not None:
        return Agent(None, memory, model_dir, config, compiled=compiled)
    if algorithm == "ppo":
        return Agent("ppo", memory, model_dir, config, PPO_PARAMS)
    return Agent(noisy_dqn, memory, model_dir, config, PARAMS)


def run(job: dict[str, Any]) -> None:
    """Do what a job says."""
    from axonrl import RunConfig
    from axonrl.hooks import EvaluationHook

    model_dir = Path(job["model_dir"])
    every = {"every_steps" if job["algorithm"] == "offline" else "every_timesteps": job["evaluate_every"]}
    hooks: list[Any] = [Journal(model_dir.with_suffix(".journal")), EvaluationHook(**every, episodes=3)]
    if "victim" in job:
        hooks.append(Victim(**job["victim"], last=job["timesteps"]))
    config = RunConfig(seed=job["seed"], save_checkpoints_steps=job["save_every"], save_summary_steps=20)
    agent, env = agent_of(job["algorithm"], model_dir, config, job["compiled"]), environment(job["algorithm"])
    if job["algorithm"] == "offline":
        agent.learn(episodes(), env, max_steps=job["timesteps"], hooks=hooks)
    else:
        agent.train(env, first_update=40, update_frequency=4, max_timesteps=job["timesteps"], hooks=hooks)


def child(job: dict[str, Any]) -> int:
    """Run a job; the exit status."""
    signal.alarm(240)  # nobody would end a victim whose tests have died
    try:
        run(job)
    except BaseException:
        traceback.print_exc()
        return 1
    return 0


def serve() -> None:
    """Import everything, then fork a child for every job."""
    for module in ("environments", "estimators.agent", "estimators.compiled", "memories", "hooks"):
        importlib.import_module(f"axonrl.{module}")
    importlib.import_module("tensorboard.summary.writer.event_file_writer")
    status = Path("/proc/self/status")
    if status.exists() and "\nThreads:\t1\n" not in status.read_text():
        raise RuntimeError("this process has several threads, so it must not fork")
    say("ready")
    for line in sys.stdin:
        pid = os.fork()
        if pid == 0:
            os._exit(child(json.loads(line)))
        say("pid", pid)
        say("exit", os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))


if __name__ == "__main__":
    serve()
