"""Trains a compiled program in a process where importing TensorFlow fails; started by test_compiled.py.

Reads from standard input, as JSON, a job: the fields of a Case, and where its program and its run are.
"""

import hashlib
import importlib.abc
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any


class Refusing(importlib.abc.MetaPathFinder):
    """No module of TensorFlow or Keras can be found."""

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> None:
        if fullname.partition(".")[0] in ("tensorflow", "keras"):
            raise ImportError(f"{fullname} is not here")


def digest(agent: Any) -> str:
    """Of every variable in the newest checkpoint: network, target network, optimizer."""
    from axonrl.run_dir.checkpoints import CheckpointStore

    loaded = CheckpointStore(agent.model_dir).load()
    assert loaded is not None
    weights = loaded[1]["weights"]
    return hashlib.sha256(b"".join(weights[name].tobytes() for name in sorted(weights))).hexdigest()


def opened(env: Sequence[Any]) -> Any:
    """The environment of an id, or copies of it."""
    from axonrl.environments import make

    name, copies = env
    return make(name, copies)


def train(agent: Any, env: Sequence[Any], timesteps: int, schedule: Sequence[int]) -> str:
    """Train to a number of timesteps in all; returns a digest of all weights."""
    frequency, first = schedule
    where = opened(env)
    try:
        agent.train(where, first, frequency, max_timesteps=timesteps)
    finally:
        where.close()
    return digest(agent)


def agent_of(job: dict[str, Any]) -> Any:
    """An Agent of a compiled program, or of a built-in model by name."""
    from axonrl import Agent, RunConfig, memories

    memory = getattr(memories, job["memory"])(**job["memory_arguments"])
    config = RunConfig(seed=job["seed"], progress=False, save_checkpoints_secs=None)
    params = job["params"] if job["model_fn"] else None
    return Agent(job["model_fn"], memory, job["model_dir"], config, params, compiled=job["compiled"])


def main() -> None:
    sys.meta_path.insert(0, Refusing())
    job = json.load(sys.stdin)
    digests = [train(agent_of(job), job["env"], timesteps, job["schedule"]) for timesteps in job["stages"]]
    exported = agent_of(job).export(Path(job["model_dir"], "exported"))
    refused = ""
    try:
        if job["compiled"]:
            agent_of(job).compile(Path(job["model_dir"], "compiled"), "CartPole-v1")
        else:
            agent_of(job).evaluate(job["env"][0], episodes=1)
    except ValueError as error:
        refused = str(error)
    names = sorted(path.name for path in exported.iterdir())
    loaded = sorted({"tensorflow", "keras", "pandas", "matplotlib"} & set(sys.modules))
    json.dump({"digests": digests, "exported": names, "compiling_again": refused, "loaded": loaded}, sys.stdout)


if __name__ == "__main__":
    main()
