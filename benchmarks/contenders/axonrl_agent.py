"""axonrl's Agent with its default hooks."""

from __future__ import annotations

import json
import os
import statistics
import tempfile
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final
from unittest import mock

from axonrl import Agent, RunConfig
from axonrl.environments import make
from axonrl.memories import BatchMemory, ReplayMemory
from axonrl.models import c51, ddpg, qr_dqn, td3
from axonrl.models import dqn as model
from axonrl.models import ppo as ppo_model
from axonrl.models import sac as sac_model
from axonrl.models import trpo as trpo_model

from .. import settings
from ..settings import NETWORKS, Network
from ..solution import TASKS, command_of, measure_process, rows
from ..timing import microseconds, process, seconds_of, start_of

PRIORITIZED = {"sampler": {"kind": "prioritized", "alpha": settings.ALPHA, "beta": settings.BETA}}
VARIANTS: dict[str, tuple[Callable[..., Any], dict[str, Any], dict[str, Any]]] = {
    "DQN": (model.model_fn, {}, {}),
    "prioritized DQN": (model.model_fn, {"loss": "squared"}, PRIORITIZED),
    "C51": (c51.model_fn, {**settings.C51, "double": True}, {}),
    "QR-DQN": (qr_dqn.model_fn, {"quantiles": settings.QUANTILES}, {}),
}
"""The algorithms, what differs from DQN in their parameters, and in the memory."""


def agent_for(
    network: Network,
    folder: str,
    batch: int = 32,
    memory: int = 1_000,
    update_frequency: int = 1,
    algorithm: str = "DQN",
    frame_stack: int | None = None,
) -> Agent:
    """An agent with the settings of all contenders."""
    model_fn, more, options = VARIANTS[algorithm]
    params = {
        "network": "nature_cnn" if network.has_frames else "mlp",
        "hidden": network.hidden,
        "double": False,
        "learning_rate": settings.LEARNING_RATE,
        "target_update_period": settings.TARGET_UPDATE_TIMESTEPS // update_frequency,
        "max_gradient_norm": settings.MAX_GRADIENT_NORM,
        "epsilon": {"kind": "linear", "start": 1.0, "stop": settings.EPSILON, "duration": settings.EPSILON_TIMESTEPS},
        **more,
    }
    replay = ReplayMemory(memory, batch, discount=settings.DISCOUNT, frame_stack=frame_stack, **options)
    return Agent(model_fn, replay, Path(folder, "run"), RunConfig(seed=0), params)


def trained(network: Network, folder: str, batch: int = 32) -> Agent:
    """An agent after ``batch`` timesteps and one update."""
    agent = agent_for(network, folder, batch)
    return agent.train(settings.environment_for(network), first_update=batch, timesteps=batch)


def executors(networks: Sequence[tuple[str, int]]) -> dict[str, str]:
    """The executors of actor and learner for each network and batch size, from ``run.json``."""
    found = {}
    for name, batch in networks:
        with tempfile.TemporaryDirectory() as folder:
            trained(NETWORKS[name], folder, batch)
            runtime = json.loads(Path(folder, "run", "run.json").read_text())["runtime"]
            found[f"{name}, batch {batch}"] = f"{runtime['actor']} acts, {runtime['learner']} learns"
    return found


def dqn(update_frequency: int, timesteps: int) -> dict[str, float]:
    """Timesteps per second of a whole call of ``Agent.train``, including the final checkpoint."""
    return q_learning("DQN", update_frequency, timesteps)


def q_learning(algorithm: str, update_frequency: int, timesteps: int) -> dict[str, float]:
    """The same of another algorithm."""
    with tempfile.TemporaryDirectory() as folder:
        network, batch, memory = NETWORKS["2x64"], settings.BATCH_SIZE, settings.MEMORY_SIZE
        agent = agent_for(network, folder, batch, memory, update_frequency, algorithm)
        return timesteps_per_second(agent, settings.cartpole(), update_frequency, timesteps)


def timesteps_per_second(agent: Agent, env: Any, update_frequency: int, timesteps: int) -> dict[str, float]:
    """Speed of a whole call of ``train``, after a first one."""

    def train(count: int) -> None:
        agent.train(env, settings.FIRST_UPDATE, update_frequency, timesteps=count)

    train(settings.WARM_UP_TIMESTEPS)
    return {"": timesteps / seconds_of(lambda: train(timesteps))}


def atari(timesteps: int) -> dict[str, float]:
    """Timesteps per second of ``Agent.train`` with a Nature CNN, an update every 4 timesteps."""
    frequency, stack = settings.ATARI_UPDATE_FREQUENCY, settings.FRAME_STACK
    wrappers: list[Any] = ["atari", {"kind": "frame_stack", "stack_size": stack}, "channels_last"]
    env = make(settings.ATARI, wrappers=wrappers, **settings.ATARI_OPTIONS)
    with tempfile.TemporaryDirectory() as folder:
        network, memory = NETWORKS["Nature CNN"], settings.ATARI_MEMORY_SIZE
        agent = agent_for(network, folder, settings.BATCH_SIZE, memory, frequency, frame_stack=stack)
        return timesteps_per_second(agent, env, frequency, timesteps)


def ppo_in(env: Any, num_envs: int, rollout: int, minibatch: int, rollouts: int) -> dict[str, float]:
    """Timesteps per second of ``Agent.train`` with PPO; ``rollout`` timesteps of each environment."""
    return on_policy(ppo_model.model_fn, ppo_params(minibatch), env, rollout * num_envs, rollouts)


def on_policy(
    model_fn: Callable[..., Any], params: dict[str, Any], env: Any, size: int, rollouts: int
) -> dict[str, float]:
    """Timesteps per second of ``Agent.train``, in rollouts of ``size`` timesteps, after a first one."""
    with tempfile.TemporaryDirectory() as folder:
        agent = on_policy_agent(model_fn, params, size, folder)
        agent.train(env, timesteps=size)
        return {"": rollouts * size / seconds_of(lambda: agent.train(env, timesteps=rollouts * size))}


def ppo_params(minibatch: int) -> dict[str, Any]:
    """PPO's settings, as all contenders have them."""
    return {"hidden": [64, 64], "minibatch_size": minibatch, **settings.PPO}


def on_policy_agent(model_fn: Callable[..., Any], params: dict[str, Any], size: int, folder: str) -> Agent:
    """An agent with rollouts of ``size`` timesteps."""
    memory = BatchMemory(size, discount=settings.DISCOUNT)
    return Agent(model_fn, memory, Path(folder, "run"), RunConfig(seed=0), params)


def ppo(env_id: str, num_envs: int, rollout: int, minibatch: int, rollouts: int) -> dict[str, float]:
    """Timesteps per second, stepping Gymnasium's environments."""
    return ppo_in(make(env_id, num_envs), num_envs, rollout, minibatch, rollouts)


def pendulum_agent(
    hidden: Sequence[int], batch: int, folder: str, model_fn: Callable[..., Any] = sac_model.model_fn, **more: Any
) -> Agent:
    """SAC, or another algorithm with ``more`` parameters, with the settings of all contenders."""
    memory = ReplayMemory(settings.MEMORY_SIZE, batch, discount=settings.DISCOUNT)
    params = {"hidden": hidden, **settings.SAC, **more}
    return Agent(model_fn, memory, Path(folder, "run"), RunConfig(seed=0), params)


def sac(hidden: Sequence[int], batch: int, timesteps: int) -> dict[str, float]:
    """Timesteps per second of ``Agent.train`` with SAC, one update per timestep."""
    with tempfile.TemporaryDirectory() as folder:
        return every_timestep(pendulum_agent(hidden, batch, folder), timesteps)


def every_timestep(agent: Agent, timesteps: int) -> dict[str, float]:
    """Timesteps per second of ``Agent.train`` on Pendulum, one update per timestep, after a first call."""
    env = make("Pendulum-v1")

    def train(count: int) -> None:
        agent.train(env, settings.SAC_FIRST_UPDATE, 1, timesteps=count)

    train(settings.SAC_WARM_UP)
    return {"": timesteps / seconds_of(lambda: train(timesteps))}


def deterministic(algorithm: str, hidden: Sequence[int], batch: int, timesteps: int) -> dict[str, float]:
    """The same with TD3 or DDPG."""
    model_fn = {"td3": td3.model_fn, "ddpg": ddpg.model_fn}[algorithm]
    with tempfile.TemporaryDirectory() as folder:
        agent = pendulum_agent(hidden, batch, folder, model_fn, exploration="gaussian", sigma=settings.NOISE)
        return every_timestep(agent, timesteps)


def trpo(num_envs: int, rollout: int, minibatch: int, rollouts: int) -> dict[str, float]:
    """Timesteps per second of ``Agent.train`` with TRPO."""
    params = {"hidden": [64, 64], "minibatch_size": minibatch, **settings.TRPO}
    return on_policy(trpo_model.model_fn, params, make("CartPole-v1", num_envs), rollout * num_envs, rollouts)


def recurrent_ppo(num_envs: int, rollout: int, minibatch: int, rollouts: int, sequence: int) -> dict[str, float]:
    """Timesteps per second of ``Agent.train`` with PPO and an LSTM, in sequences of so many timesteps."""
    params = {"hidden": [64], "lstm": settings.LSTM, "sequence_length": sequence, "minibatch_size": minibatch}
    env = make("CartPole-v1", num_envs)
    return on_policy(ppo_model.model_fn, {**params, **settings.PPO}, env, rollout * num_envs, rollouts)


ALGORITHMS: dict[str, Callable[..., dict[str, float]]] = {"dqn": dqn, "ppo": ppo, "sac": sac}


def whole(algorithm: str, arguments: dict[str, Any]) -> dict[str, float]:
    """Timesteps per second of an algorithm, stepping environments in Python."""
    return ALGORITHMS[algorithm](**arguments)


def products(hidden: Sequence[int], batch: int, seconds: float) -> dict[str, float]:
    """Microseconds of one update of SAC, on one batch."""
    env = make("Pendulum-v1")
    with tempfile.TemporaryDirectory() as folder:
        agent = pendulum_agent(hidden, batch, folder)
        agent.train(env, settings.SAC_FIRST_UPDATE, 1, timesteps=settings.SAC_FIRST_UPDATE)
        stepper = agent._trainer.state().stepper
        executor, sample = stepper.executor, stepper.memory.sample()
        counters = {"global_step": 1, "global_timestep": settings.SAC_FIRST_UPDATE, "progress": 0.0}
        draws = [request.draw(stepper.generators["noise"]) for request in stepper._noise]
        return {"one update": microseconds(partial(executor.train, sample, counters, draws), seconds)}


def act(networks: Sequence[str], batches: Sequence[int], seconds: float) -> dict[str, float]:
    """Microseconds of the training agent's actor."""
    found = {}
    for name in networks:
        with tempfile.TemporaryDirectory() as folder:
            executor = trained(NETWORKS[name], folder)._model.executor
            for batch in batches:
                observation = settings.observations(NETWORKS[name], batch)
                found[f"{name}, batch {batch}"] = microseconds(partial(executor.act, observation), seconds)
    return found


def update(networks: Sequence[Sequence[Any]], seconds: float) -> dict[str, float]:
    """Microseconds of a training step, on one batch."""
    found = {}
    for name, batch in networks:
        with tempfile.TemporaryDirectory() as folder:
            agent = trained(NETWORKS[name], folder, batch)
            executor, sample = agent._model.executor, agent._trainer.needed_memory().sample()
            counters = {"global_step": 1, "global_timestep": batch, "progress": 0.0}
            found[f"{name}, batch {batch}"] = microseconds(partial(executor.train, sample, counters, []), seconds)
    return found


PREDICT = """
import sys
import gymnasium
from axonrl import Agent
agent = Agent(None, model_dir=sys.argv[1])
env = gymnasium.make("CartPole-v1")
observation, _ = env.reset(seed=0)
env.step(agent.predict(observation[None])["action"][0])
"""


def actor() -> dict[str, float]:
    """The start of a process that acts with ``Agent.predict``."""
    with tempfile.TemporaryDirectory() as folder:
        return start_of(PREDICT, str(trained(NETWORKS["2x64"], folder).model_dir))


TRAIN = """
import json, sys
from axonrl import Agent, RunConfig, memories
from axonrl.environments import make
model, env, copies, memory, arguments, params, timesteps = json.loads(sys.argv[1])
memory = getattr(memories, memory)(**arguments)
agent = Agent(model, memory, sys.argv[2], RunConfig(seed=0, progress=False), params)
agent.train(make(env, copies), 100, 1, max_timesteps=timesteps)
"""
_REPLAY: Final = {"size": settings.MEMORY_SIZE, "batch_size": 64, "discount": settings.DISCOUNT}
_PPO: Final = {"hidden": [64, 64], "minibatch_size": 256, "epochs": 20, "gae_lambda": 0.8}
STARTS: Final[dict[str, list[Any]]] = {
    "ppo": ["ppo", "CartPole-v1", 8, "BatchMemory", {"size": 256, "discount": 0.98}, _PPO, 256],
    "dqn": ["dqn", "CartPole-v1", None, "ReplayMemory", _REPLAY, {"hidden": [64, 64]}, 200],
    "sac": ["sac", "Pendulum-v1", None, "ReplayMemory", _REPLAY, {"hidden": [64, 64]}, 200],
}
"""The arguments of ``TRAIN``."""


def start(algorithm: str, times: int) -> dict[str, float]:
    """A process that trains for a moment, with an empty cache and with its program in the cache."""
    task, first = json.dumps(STARTS[algorithm]), list[tuple[float, float]]()
    with tempfile.TemporaryDirectory() as folder, mock.patch.dict(os.environ):
        for number in range(times + 1):
            os.environ["AXONRL_CACHE"] = str(Path(folder, f"cache-{number}"))
            first.append(process(TRAIN, task, f"{folder}/run-{number}"))
        again = [process(TRAIN, task, f"{folder}/again-{number}") for number in range(times + 1)]
    found = {}
    for when, runs in (("the first time", first), ("with a cached program", again)):
        seconds, megabytes = zip(*runs[1:], strict=True)  # the first one fills the machine's cache of files
        found[f"{when}, s"], found[f"{when}, MB"] = statistics.median(seconds), statistics.median(megabytes)
    return found


def solution(task: str, seeds: Sequence[int]) -> dict[str, float]:
    """Runs of an experiment until its task is solved, with the program in the cache."""
    with tempfile.TemporaryDirectory() as folder:
        env = {**os.environ, "AXONRL_CACHE": str(Path(folder, "cache"))}
        commands = [command_of(TASKS[task], seed, f"{folder}/run-{seed}") for seed in (0, *seeds)]
        return rows([measure_process(command, env) for command in commands][1:])  # the first fills the cache
