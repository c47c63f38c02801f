"""axonrl: the same call again, with the same model_dir."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from axonrl import Agent, RunConfig
from axonrl.hooks import Hook
from axonrl.memories import ReplayMemory
from axonrl.models import dqn

from .. import settings
from . import child
from .child import Parts, write

STATES = {"weights": ("weights",), "memory": ("memory",), "generators": ("generators", "exploration")}


class Watching(Hook):
    """Writes what the run holds after loading a checkpoint, and at each checkpoint."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.first = folder, 0
        self.agent: Any = None

    def parts(self) -> Parts:
        state = self.agent._trainer.state()
        held = state.state_dict()
        found: Parts = {name: {key: held[key] for key in keys if key in held} for name, keys in STATES.items()}
        curve = (self.folder / "episodes.csv").read_text(encoding="utf-8").splitlines()[1:]
        counters = state.counters
        epsilon = state.stepper.exploration._schedule(counters.global_timestep)
        found["counters"] = {"timestep": counters.global_timestep, "step": counters.global_step, "epsilon": epsilon}
        found["curve"] = [float(line.split(",")[2]) for line in curve]
        found["environment"] = child.standing(state.env.env)
        return found

    def begin(self, session: Any, facts: Any) -> None:
        self.first = session.global_timestep
        if self.first:
            write(self.folder / "loaded.npz", self.parts())

    def after_update(self, session: Any, facts: Any) -> None:
        timestep = session.global_timestep
        if timestep % child.EVERY == 0:  # one update is due at each of these
            session.save_checkpoint()
            write(self.folder / f"saved-{timestep}.npz", self.parts())


def run(folder: Path, checkpoints: Path, fatal: int | None) -> dict[str, Any]:
    """A run in ``folder``, begun or continued."""
    params = {
        "hidden": (64, 64),
        "double": False,
        "learning_rate": settings.LEARNING_RATE,
        "target_update_period": settings.TARGET_UPDATE_TIMESTEPS // child.UPDATE_FREQUENCY,
        "max_gradient_norm": settings.MAX_GRADIENT_NORM,
        "epsilon": {"kind": "linear", "start": 1.0, "stop": settings.EPSILON, "duration": child.EPSILON_TIMESTEPS},
    }
    memory = ReplayMemory(child.MEMORY_SIZE, settings.BATCH_SIZE, discount=settings.DISCOUNT)
    config = RunConfig(seed=child.SEED, save_checkpoints_secs=None, progress=False)
    agent = Agent(dqn.model_fn, memory, folder, config, params)
    watching = Watching(folder)
    watching.agent = agent
    env = child.environment(folder, 0, fatal)
    agent.train(env, settings.FIRST_UPDATE, child.UPDATE_FREQUENCY, hooks=[watching], max_timesteps=child.TIMESTEPS)
    saved = folder / f"saved-{child.TIMESTEPS}.npz"
    saved.replace(folder / "end.npz")
    return {"from": watching.first}
