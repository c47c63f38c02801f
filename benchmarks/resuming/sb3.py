"""Stable-Baselines3: CheckpointCallback with the replay buffer; load, load_replay_buffer, learn."""

from __future__ import annotations

import random
import re
from pathlib import Path
from typing import Any

import numpy as np
import torch
from stable_baselines3 import DQN
from stable_baselines3.common.callbacks import BaseCallback, CheckpointCallback

from .. import settings
from . import child
from .child import Parts, as_numpy, write

torch.set_num_threads(1)


def parts(model: Any, env: Any, folder: Path) -> Parts:
    """The parts of a run."""
    buffer = model.replay_buffer
    columns = ("observations", "next_observations", "actions", "rewards", "dones", "timeouts")
    memory = {name: getattr(buffer, name) for name in columns}
    return {
        "weights": as_numpy({"policy": model.policy.state_dict(), "optimizer": model.policy.optimizer.state_dict()}),
        "memory": {"position": buffer.pos, "full": buffer.full, **memory},
        "counters": {"timestep": model.num_timesteps, "step": model._n_updates, "epsilon": model.exploration_rate},
        "generators": {
            "numpy": np.random.get_state(),  # noqa: NPY002 - what the library draws from
            "python": random.getstate(),
            "torch": torch.get_rng_state().numpy(),
            "actions": model.action_space.np_random.bit_generator.state,
        },
        "environment": child.standing(env),
        "curve": [episode_return for _, episode_return in child.curve_in(folder)],
    }


class Watching(BaseCallback):  # type: ignore[misc]
    """Writes what the run holds at each checkpoint."""

    def __init__(self, env: Any, folder: Path) -> None:
        super().__init__()
        self.watched, self.folder = env, folder

    def _on_step(self) -> bool:
        if self.num_timesteps % child.EVERY == 0:
            write(self.folder / f"saved-{self.num_timesteps}.npz", parts(self.model, self.watched, self.folder))
        return True


def newest(checkpoints: Path) -> list[int]:
    """Timesteps of the checkpoints of which both files are there, newest first."""
    names = [path.name for path in checkpoints.glob("*")]
    found = [int(match[1]) for name in names if (match := re.fullmatch(r"dqn_(\d+)_steps\.zip", name))]
    return sorted((one for one in found if f"dqn_replay_buffer_{one}_steps.pkl" in names), reverse=True)


def run(folder: Path, checkpoints: Path, fatal: int | None) -> dict[str, Any]:
    """A run in ``folder``, begun or continued from its newest checkpoint that can be read."""
    unreadable = 0
    for timestep in newest(checkpoints):
        env = child.environment(folder, timestep, fatal)
        try:
            model = DQN.load(checkpoints / f"dqn_{timestep}_steps", env=env, device="cpu")
            model.load_replay_buffer(checkpoints / f"dqn_replay_buffer_{timestep}_steps")
        except Exception:
            unreadable += 1
            continue
        write(folder / "loaded.npz", parts(model, env, folder))
        break
    else:
        timestep = 0
        env = child.environment(folder, 0, fatal)
        model = DQN(
            "MlpPolicy",
            env,
            learning_rate=settings.LEARNING_RATE,
            buffer_size=child.MEMORY_SIZE,
            learning_starts=settings.FIRST_UPDATE,
            batch_size=settings.BATCH_SIZE,
            gamma=settings.DISCOUNT,
            train_freq=child.UPDATE_FREQUENCY,
            gradient_steps=1,
            target_update_interval=settings.TARGET_UPDATE_TIMESTEPS,
            exploration_fraction=child.EPSILON_TIMESTEPS / child.TIMESTEPS,
            exploration_final_eps=settings.EPSILON,
            max_grad_norm=settings.MAX_GRADIENT_NORM,
            policy_kwargs={"net_arch": [64, 64]},
            seed=child.SEED,
            device="cpu",
        )
    saving = CheckpointCallback(child.EVERY, str(checkpoints), name_prefix="dqn", save_replay_buffer=True)
    left = child.TIMESTEPS - timestep
    watching = Watching(env, folder)
    model.learn(left, callback=[saving, watching], log_interval=None, reset_num_timesteps=timestep == 0)
    write(folder / "end.npz", parts(model, env, folder))
    return {"from": timestep, "unreadable": unreadable}
