"""Stable-Baselines3, on torch."""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

import gymnasium
import numpy as np
import torch
from gymnasium.wrappers import AtariPreprocessing
from stable_baselines3 import DDPG, DQN, PPO, SAC, TD3
from stable_baselines3.common.buffers import ReplayBuffer
from stable_baselines3.common.noise import NormalActionNoise
from stable_baselines3.common.vec_env import DummyVecEnv, VecFrameStack
from stable_baselines3.dqn import CnnPolicy, MlpPolicy

from .. import settings
from ..settings import NETWORKS, Network
from ..solution import EPISODES, EVERY, TASKS, measure_process, rows
from ..timing import microseconds, process, seconds_of, start_of
from ..yardsticks import SETTINGS

torch.set_num_threads(settings.threads())


def arguments(update_frequency: int = 1) -> dict[str, Any]:
    """The settings that everyone has, by the names of Stable-Baselines3 and SBX."""
    return {
        "learning_rate": settings.LEARNING_RATE,
        "buffer_size": settings.MEMORY_SIZE,
        "learning_starts": settings.FIRST_UPDATE,
        "batch_size": settings.BATCH_SIZE,
        "gamma": settings.DISCOUNT,
        "train_freq": update_frequency,
        "gradient_steps": 1,
        "target_update_interval": settings.TARGET_UPDATE_TIMESTEPS,
        "exploration_fraction": settings.EPSILON_TIMESTEPS / settings.WARM_UP_TIMESTEPS,
        "exploration_final_eps": settings.EPSILON,
        "seed": 0,
        "device": "cpu",
    }


def timesteps_per_second(model: Any, timesteps: int) -> float:
    """Speed of ``learn``, with its own reports switched off."""
    model.learn(settings.WARM_UP_TIMESTEPS, log_interval=None)
    return timesteps / seconds_of(lambda: model.learn(timesteps, log_interval=None, reset_num_timesteps=False))


def dqn_model(update_frequency: int) -> Any:
    """DQN with the settings that everyone has."""
    policy = {"net_arch": [64, 64]}
    more = {"max_grad_norm": settings.MAX_GRADIENT_NORM, "policy_kwargs": policy, **arguments(update_frequency)}
    return DQN("MlpPolicy", settings.cartpole(), **more)


def dqn(update_frequency: int, timesteps: int) -> dict[str, float]:
    """Timesteps per second of ``DQN.learn``."""
    return {"": timesteps_per_second(dqn_model(update_frequency), timesteps)}


def atari(timesteps: int) -> dict[str, float]:
    """Timesteps per second of ``DQN.learn`` with a Nature CNN, an update every 4 timesteps."""

    def game() -> Any:
        env = gymnasium.make(f"ale_py:{settings.ATARI}", disable_env_checker=True, **settings.ATARI_OPTIONS)
        return AtariPreprocessing(env, grayscale_newaxis=True)

    more = {**arguments(settings.ATARI_UPDATE_FREQUENCY), "buffer_size": settings.ATARI_MEMORY_SIZE}
    env = VecFrameStack(DummyVecEnv([game]), settings.FRAME_STACK)
    model = DQN("CnnPolicy", env, max_grad_norm=settings.MAX_GRADIENT_NORM, **more)
    return {"": timesteps_per_second(model, timesteps)}


def gymnasium_copies(env_id: str, num_envs: int) -> Any:
    """Copies of an environment, stepped in turn."""
    return DummyVecEnv([partial(gymnasium.make, env_id, disable_env_checker=True)] * num_envs)


def ppo_model(algorithm: Any, layers: Any, env: Any, rollout: int, minibatch: int, policy: str = "MlpPolicy") -> Any:
    """PPO with the settings that everyone has; ``rollout`` timesteps of each environment."""
    given = settings.PPO
    return algorithm(
        policy,
        env,
        learning_rate=given["learning_rate"],
        n_steps=rollout,
        batch_size=minibatch,
        n_epochs=given["epochs"],
        gamma=settings.DISCOUNT,
        gae_lambda=given["gae_lambda"],
        clip_range=given["clip"],
        max_grad_norm=given["max_gradient_norm"],
        policy_kwargs=layers,
        seed=0,
        device="cpu",
    )


def ppo_speed(model: Any, rollouts: int) -> dict[str, float]:
    """Timesteps per second of ``learn``, after a first rollout."""
    size = model.n_steps * model.n_envs
    model.learn(size, log_interval=None)
    learn = partial(model.learn, rollouts * size, log_interval=None, reset_num_timesteps=False)
    return {"": rollouts * size / seconds_of(learn)}


PPO_LAYERS = {"net_arch": {"pi": [64, 64], "vf": [64, 64]}, "activation_fn": torch.nn.Tanh}


def ppo(env_id: str, num_envs: int, rollout: int, minibatch: int, rollouts: int) -> dict[str, float]:
    """Timesteps per second of ``PPO.learn``."""
    env = gymnasium_copies(env_id, num_envs)
    return ppo_speed(ppo_model(PPO, PPO_LAYERS, env, rollout, minibatch), rollouts)


def sac_model(algorithm: Any, hidden: Sequence[int], batch: int, **more: Any) -> Any:
    """SAC with the settings that everyone has, and one update per timestep."""
    return algorithm(
        "MlpPolicy",
        gymnasium.make("Pendulum-v1", disable_env_checker=True),
        learning_rate=settings.SAC["learning_rate"],
        buffer_size=settings.MEMORY_SIZE,
        learning_starts=settings.SAC_FIRST_UPDATE,
        batch_size=batch,
        tau=settings.SAC["target_update_rate"],
        gamma=settings.DISCOUNT,
        train_freq=1,
        gradient_steps=1,
        policy_kwargs={"net_arch": list(hidden)},
        seed=0,
        device="cpu",
        **more,
    )


def sac_speed(model: Any, timesteps: int) -> dict[str, float]:
    """Timesteps per second of ``learn``."""
    model.learn(settings.SAC_WARM_UP, log_interval=None)
    learn = partial(model.learn, timesteps, log_interval=None, reset_num_timesteps=False)
    return {"": timesteps / seconds_of(learn)}


def sac(hidden: Sequence[int], batch: int, timesteps: int) -> dict[str, float]:
    """Timesteps per second of ``SAC.learn``."""
    return sac_speed(sac_model(SAC, hidden, batch), timesteps)


def deterministic_with(algorithm: Any, hidden: Sequence[int], batch: int, timesteps: int) -> dict[str, float]:
    """Timesteps per second of ``learn`` with TD3 or DDPG, whose settings are SAC's but for the noise."""
    noise = NormalActionNoise(np.zeros(1), np.full(1, settings.NOISE))
    return sac_speed(sac_model(algorithm, hidden, batch, action_noise=noise), timesteps)


def deterministic(algorithm: str, hidden: Sequence[int], batch: int, timesteps: int) -> dict[str, float]:
    """Timesteps per second of ``TD3.learn`` or ``DDPG.learn``."""
    return deterministic_with({"td3": TD3, "ddpg": DDPG}[algorithm], hidden, batch, timesteps)


def policy_for(network: Network) -> Any:
    """A policy as DQN makes it; for frames with channels first, which are this library's own."""
    actions = gymnasium.spaces.Discrete(network.actions)
    if network.has_frames:
        height, width, channels = network.shape
        frames = gymnasium.spaces.Box(0, 255, (channels, height, width), np.uint8)
        return CnnPolicy(frames, actions, lambda _: settings.LEARNING_RATE, net_arch=[])
    space = gymnasium.spaces.Box(-np.inf, np.inf, network.shape)
    return MlpPolicy(space, actions, lambda _: settings.LEARNING_RATE, net_arch=list(network.hidden))


def act(networks: Sequence[str], batches: Sequence[int], seconds: float) -> dict[str, float]:
    """Microseconds of ``policy.predict``."""
    found = {}
    for name in networks:
        network = NETWORKS[name]
        policy = policy_for(network)
        policy.set_training_mode(False)
        for batch in batches:
            observation = settings.observations(network, batch)
            if network.has_frames:
                observation = np.ascontiguousarray(observation.transpose(0, 3, 1, 2))
            call = partial(policy.predict, observation, deterministic=True)
            found[f"{name}, batch {batch}"] = microseconds(call, seconds)
    return found


def update_with(algorithm: Any, policies: Any, networks: Sequence[Sequence[Any]], seconds: float) -> dict[str, float]:
    """Microseconds of ``train(gradient_steps=1)``, which draws its batch from the buffer."""
    found = {}
    for name, batch in networks:
        network = NETWORKS[name]
        more = {**arguments(), "buffer_size": 1_000, "learning_starts": 10_000, "batch_size": batch}
        kind, layers = ("CnnPolicy", []) if network.has_frames else ("MlpPolicy", list(network.hidden))
        model = algorithm(kind, settings.environment_for(network), policy_kwargs=policies(layers), **more)
        model.learn(2 * batch, log_interval=None)
        call = partial(model.train, gradient_steps=1, batch_size=batch)
        found[f"{name}, batch {batch}"] = microseconds(call, seconds)
    return found


def update(networks: Sequence[Sequence[Any]], seconds: float) -> dict[str, float]:
    """Microseconds of ``DQN.train``."""
    return update_with(DQN, lambda layers: {"net_arch": layers}, networks, seconds)


def memory(seconds: float) -> dict[str, float]:
    """Microseconds of storing a transition, and of drawing a batch, as torch tensors."""
    observation = gymnasium.spaces.Box(-np.inf, np.inf, (4,))
    buffer = ReplayBuffer(settings.MEMORY_SIZE, observation, gymnasium.spaces.Discrete(2), device="cpu")
    observations = list(settings.observations(NETWORKS["2x64"], 200)[:, None])
    action, reward, infos = np.array([1]), np.array([1.0], np.float32), list[dict[str, Any]]([{}])
    done = [np.array([False]), np.array([True])]
    timestep = 0

    def add() -> None:
        nonlocal timestep
        here = timestep % 199
        timestep += 1
        buffer.add(observations[here], observations[here + 1], action, reward, done[here == 198], infos)

    for _ in range(settings.MEMORY_SIZE):
        add()
    sample = partial(buffer.sample, settings.BATCH_SIZE)
    return {"add": microseconds(add, seconds), "sample 32": microseconds(sample, seconds)}


ACT = """
import sys
import gymnasium
from stable_baselines3.dqn import MlpPolicy
policy = MlpPolicy.load(sys.argv[1], device="cpu")
env = gymnasium.make("CartPole-v1")
observation, _ = env.reset(seed=0)
env.step(policy.predict(observation, deterministic=True)[0])
"""


def actor() -> dict[str, float]:
    """The start of a process that acts with a saved policy."""
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder, "policy.zip"))
        policy_for(NETWORKS["2x64"]).save(path)
        return start_of(ACT, path)


TRAIN = """
import sys
from stable_baselines3 import DQN, PPO, SAC
from stable_baselines3.common.env_util import make_vec_env
import torch
torch.set_num_threads(1)
net, replay = {"net_arch": [64, 64]}, {"batch_size": 64, "learning_starts": 100, "train_freq": 1, "gradient_steps": 1}
if sys.argv[1] == "ppo":
    settings = {"n_steps": 32, "batch_size": 256, "n_epochs": 20, "gae_lambda": 0.8, "gamma": 0.98}
    model = PPO("MlpPolicy", make_vec_env("CartPole-v1", 8), policy_kwargs=net, device="cpu", **settings)
elif sys.argv[1] == "dqn":
    model = DQN("MlpPolicy", "CartPole-v1", policy_kwargs=net, device="cpu", **replay)
else:
    model = SAC("MlpPolicy", "Pendulum-v1", policy_kwargs=net, device="cpu", **replay)
model.learn(int(sys.argv[2]), log_interval=None)
"""


def start(algorithm: str, times: int) -> dict[str, float]:
    """A process that trains for a moment; the first time is like any other."""
    process(TRAIN, algorithm, "100")
    seconds, megabytes = process(TRAIN, algorithm, "256" if algorithm == "ppo" else "200", times=times)
    rows = ("the first time", "with a cached program")
    return {f"{row}, {unit}": value for row in rows for unit, value in (("s", seconds), ("MB", megabytes))}


SOLVE: Final = """
import json, sys, time
from stable_baselines3 import DQN, PPO, SAC
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.evaluation import evaluate_policy
import torch
torch.set_num_threads(1)
task, seed, every, episodes, solved, zoo_dqn = json.loads(sys.argv[1])
class Solution(BaseCallback):
    next, seconds, reached = every, 0.0, False
    def _on_step(self):
        if self.num_timesteps < self.next:
            return True
        self.next += every
        began = time.perf_counter()
        self.reached = evaluate_policy(self.model, copy, episodes)[0] >= solved
        self.seconds += time.perf_counter() - began
        return not self.reached
copy = make_vec_env("Pendulum-v1" if task == "sac" else "CartPole-v1", seed=seed + 1_000)
if task == "ppo":
    settings = {"n_steps": 32, "batch_size": 256, "n_epochs": 20, "gae_lambda": 0.8, "gamma": 0.98}
    schedules = {"learning_rate": lambda left: 1e-3 * left, "clip_range": lambda left: 0.2 * left}
    model, timesteps = PPO("MlpPolicy", make_vec_env("CartPole-v1", 8, seed=seed), **settings, **schedules), 100_000
elif task == "dqn":
    model, timesteps = DQN("MlpPolicy", "CartPole-v1", seed=seed, **zoo_dqn), 50_000
else:
    model, timesteps = SAC("MlpPolicy", "Pendulum-v1", seed=seed, learning_rate=1e-3), 20_000
watch = Solution()
model.learn(timesteps, callback=watch, log_interval=None)
print(json.dumps([watch.seconds, bool(watch.reached), model.num_timesteps]), flush=True)
"""
"""RL Baselines3 Zoo's settings."""


def solution(task: str, seeds: Sequence[int]) -> dict[str, float]:
    """Runs until a task is solved."""
    zoo_dqn = SETTINGS["dqn"]["CartPole-v1"]
    given = [[task[:3].lower(), seed, EVERY, EPISODES, TASKS[task].solved, zoo_dqn] for seed in seeds]
    commands = [[sys.executable, "-c", SOLVE, json.dumps(each)] for each in given]
    return rows([measure_process(command, dict(os.environ)) for command in commands])
