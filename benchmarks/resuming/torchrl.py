"""TorchRL: DQNTrainer with a Checkpoint that holds the generators too, rotated; load_from_file."""

from __future__ import annotations

import random
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import torch
from tensordict.nn import TensorDictSequential
from torchrl.checkpoint import Checkpoint, CheckpointRotation, GlobalRNGState
from torchrl.collectors import Collector
from torchrl.data import LazyTensorStorage, ReplayBuffer
from torchrl.envs import GymWrapper
from torchrl.modules import MLP, EGreedyModule, QValueActor
from torchrl.objectives import DQNLoss, HardUpdate
from torchrl.trainers.algorithms import DQNTrainer

from .. import settings
from . import child
from .child import Parts, as_numpy, write

torch.set_num_threads(1)
warnings.filterwarnings("ignore")


def parts(trainer: Any, env: Any, folder: Path) -> Parts:
    """The parts of a run."""
    buffer = trainer.replay_buffer
    stored: Any = buffer[:]
    memory = {str(key): value for key, value in stored.items(True, True)}
    weights = {
        "loss": dict(trainer.loss_module.state_dict()),
        "optimizer": trainer.optimizer.state_dict(),
    }
    return {
        "weights": as_numpy({name: _arrays_only(tree) for name, tree in weights.items()}),
        "memory": {"written": buffer.write_count, **as_numpy(memory)},
        "counters": {
            "timestep": trainer.collected_frames,
            "step": trainer._optim_count,
            "epsilon": float(trainer.greedy_module.eps),
        },
        "generators": {
            "numpy": np.random.get_state(),  # noqa: NPY002 - what the library draws from
            "python": random.getstate(),
            "torch": torch.get_rng_state().numpy(),
        },
        "environment": child.standing(env),
        "curve": [episode_return for _, episode_return in child.curve_in(folder)],
    }


def _arrays_only(tree: Any) -> Any:
    if isinstance(tree, dict):
        return {key: _arrays_only(one) for key, one in tree.items() if not str(key).startswith("__")}
    return tree


def policies(actions: Any) -> tuple[QValueActor, EGreedyModule]:
    """The greedy policy, and the module that adds epsilon-greedy exploration to it."""
    network = MLP(in_features=4, out_features=2, num_cells=[64, 64], activation_class=torch.nn.ReLU)
    actor = QValueActor(network, in_keys=["observation"], spec=actions)
    epsilon = {"eps_init": 1.0, "eps_end": settings.EPSILON, "annealing_num_steps": child.EPSILON_TIMESTEPS}
    return actor, EGreedyModule(actions, **epsilon)


def trainer_for(env: Any, folder: Path, rotation: CheckpointRotation) -> Any:
    """A DQNTrainer, as a program makes it, new or to be continued."""
    torch.manual_seed(child.SEED)
    random.seed(child.SEED)  # the trainer seeds the other two
    wrapped = GymWrapper(env, categorical_action_encoding=True)
    actor, greedy = policies(wrapped.action_spec)
    collector = Collector(
        wrapped,
        TensorDictSequential(actor, greedy),
        frames_per_batch=child.UPDATE_FREQUENCY,
        total_frames=child.TIMESTEPS,
        init_random_frames=settings.FIRST_UPDATE,
    )
    loss = DQNLoss(actor, loss_function="smooth_l1", delay_value=True, action_space=wrapped.action_spec)
    loss.make_value_estimator(gamma=settings.DISCOUNT)
    updates = settings.TARGET_UPDATE_TIMESTEPS // child.UPDATE_FREQUENCY
    trainer: Any = None

    def note(_: Any) -> dict[str, Any]:
        write(folder / f"saved-{trainer.collected_frames}.npz", parts(trainer, env, folder))
        return {}

    trainer = DQNTrainer(
        collector=collector,
        total_frames=child.TIMESTEPS,
        frame_skip=1,
        optim_steps_per_batch=1,
        loss_module=loss,
        optimizer=torch.optim.Adam(loss.parameters(), lr=settings.LEARNING_RATE),
        clip_norm=settings.MAX_GRADIENT_NORM,
        progress_bar=False,
        seed=child.SEED,
        save_trainer_interval=child.EVERY - 1,  # it saves where more have passed
        checkpoint=Checkpoint(rng=GlobalRNGState()),
        checkpoint_rotation=rotation,
        checkpoint_metadata=note,
        replay_buffer=ReplayBuffer(
            storage=LazyTensorStorage(child.MEMORY_SIZE),
            batch_size=settings.BATCH_SIZE,
        ),
        target_net_updater=HardUpdate(loss, value_network_update_interval=updates),
        greedy_module=greedy,
        enable_logging=False,
    )
    return trainer


def run(folder: Path, checkpoints: Path, fatal: int | None) -> dict[str, Any]:
    """A run in ``folder``, begun or continued from its newest checkpoint."""
    rotation = CheckpointRotation(checkpoints, keep_last=5)
    newest = rotation.latest()
    first = 0 if newest is None else int(newest.name.rpartition("-")[2])
    env = child.environment(folder, first, fatal)
    trainer = trainer_for(env, folder, rotation)
    if newest is not None:
        trainer.load_from_file(newest)
        write(folder / "loaded.npz", parts(trainer, env, folder))
    trainer.train()
    write(folder / "end.npz", parts(trainer, env, folder))
    return {"from": first}
