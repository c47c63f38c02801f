"""Run folders as trainings leave them, without a training."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import yaml

from axonrl.run_dir.history import Evaluation, rewrite
from axonrl.run_dir.record import RunRecord
from axonrl.tests.made_start import made_start

EPISODES = "episode,global_timestep,episode_return,length,seconds\n"


def make_run(
    folder: Path,
    seed: int,
    returns: Sequence[float],
    *,
    evaluations: Mapping[int, float] | None = None,
    final: tuple[int, float] | None = None,
    status: str = "succeeded",
    environment: str = "CartPole-v1",
    model_fn: str = "dqn",
    python: bool = False,
    **params: Any,
) -> Path:
    """A run whose episodes took ten timesteps and a tenth of a second each, in two copies of the environment.

    ``evaluations`` have five episodes each; ``final`` is the number of episodes of the one at its end, and their mean.
    """
    folder.mkdir(parents=True)
    memory = {"kind": "replay", "size": 100}
    agent = {"model_fn": model_fn, "params": params, "memory": memory}
    box = gymnasium.spaces.Box(-1, 1, (2,), np.float32)
    RunRecord(
        seed=seed,
        model_fn=model_fn,
        params=params,
        unrecorded=(),
        observation_space=box,
        action_space=gymnasium.spaces.Discrete(2),
        num_envs=2,
        runtime={"actor": "litert", "learner": "litert"},
        runtime_why={},
        made_with={},
        environment={"id": environment, "kwargs": {}, "wrappers": []},
        memory=memory,
    ).write(folder)
    rows = "".join(f"{n},{n * 10},{value},10,0.1\n" for n, value in enumerate(returns, 1))
    (folder / "episodes.csv").write_text(EPISODES + rows)
    found = [Evaluation(at, value, 0, 10, 5) for at, value in (evaluations or {}).items()]
    rewrite(folder / "evaluations.csv", Evaluation._fields, found)
    (folder / "starts.json").write_text(json.dumps([made_start(started="2026-01-02T03:04:05+00:00")]))
    if not python:
        experiment = {"name": folder.name, "seed": seed, "environment": {"id": environment}, "agent": agent}
        (folder / "experiment.yml").write_text(yaml.safe_dump(experiment))
        results = {} if final is None else {"final_episodes": final[0], "final_episode_return_mean": final[1]}
        outputs = {"outputs": {"timesteps": 10 * len(returns), "updates": 7, **results}}
        entries: list[dict[str, Any]] = [{"status": "running", "message": ""}, outputs]
        entries += [{"status": status, "message": ""}]
        (folder / "journal.jsonl").write_text("".join(f"{json.dumps({'time': 1.0, **entry})}\n" for entry in entries))
    return folder
