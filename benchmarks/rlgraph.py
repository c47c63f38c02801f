"""How well agents of RLgraph's interface learn CartPole, and what acting, observing and updating cost.

    python -m axonrl.benchmarks.rlgraph learning --seeds 100 101 102 --page docs/migrating_from_rlgraph.md
    python -m axonrl.benchmarks.rlgraph speed --page docs/migrating_from_rlgraph.md

A table replaces the one that the page has between its marks.
"""

from __future__ import annotations

import tempfile
import time
from typing import Any, Final

import numpy as np

from .dialects import Programs, main

DQN: Final[dict[str, Any]] = {
    "type": "dqn",
    "discount": 0.99,
    "network_spec": [{"type": "dense", "units": 64, "activation": "relu"}],
    "action_adapter_spec": {"units_state_value_stream": 32, "units_advantage_stream": 32},
    "memory_spec": {"type": "replay", "capacity": 20_000},
    "exploration_spec": {"epsilon_spec": {"decay_spec": {"from": 1.0, "to": 0.05, "num_timesteps": 4000}}},
    "update_spec": {"update_interval": 2, "batch_size": 64, "sync_interval": 500},
    "optimizer_spec": {"type": "adam", "learning_rate": 0.001},
}
"""Program 1's."""
PPO: Final[dict[str, Any]] = {
    "type": "ppo",
    "discount": 0.99,
    "gae_lambda": 0.95,
    "network_spec": [{"type": "dense", "units": 64, "activation": "tanh"}],
    "value_function_spec": [{"type": "dense", "units": 64, "activation": "tanh"}],
    "memory_spec": {"type": "ring_buffer", "capacity": 2000},
    "observe_spec": {"buffer_size": 500},
    "sample_episodes": False,
    "update_spec": {"batch_size": 1000, "num_iterations": 40, "sample_size": 100},
    "optimizer_spec": {"type": "adam", "learning_rate": 3e-4},
}
"""Program 2's."""
IMPALA: Final[dict[str, Any]] = {
    "num_workers": 8,
    "worker_sample_size": 20,
    "reward_clipping": None,
    "network_spec": [{"type": "dense", "units": 64, "activation": "tanh"}],
    "update_spec": {"batch_size": 8},
    "optimizer_spec": {"type": "rmsprop", "learning_rate": 3e-3, "epsilon": 0.01, "clip_grad_norm": 40.0},
}
"""Program 4's."""
CARTPOLE: Final = {"type": "openai", "gym_env": "CartPole-v1"}


def dqn(seed: int, timesteps: int | None = None) -> list[float]:
    """Program 1: a worker."""
    from ..compat.rlgraph import Agent, OpenAIGymEnv
    from ..compat.rlgraph.execution import SingleThreadedWorker

    env = OpenAIGymEnv("CartPole-v1")
    env.seed(seed)
    spec = {**DQN, "execution_spec": {"seed": seed}}
    agent = Agent.from_spec(spec, state_space=env.state_space, action_space=env.action_space)
    returns: list[float] = []
    worker = SingleThreadedWorker(
        agent=agent, env_spec=lambda: env, episode_finish_callback=lambda reward, **_: returns.append(reward)
    )
    worker.execute_timesteps(timesteps or 20_000)
    return returns


def ppo(seed: int, timesteps: int | None = None) -> list[float]:
    """Program 2: two environments by hand."""
    from ..compat.rlgraph import Agent, OpenAIGymEnv

    envs = [OpenAIGymEnv("CartPole-v1") for _ in range(2)]
    for index, env in enumerate(envs):
        env.seed(seed + 1000 * index)
    spec = {**PPO, "execution_spec": {"seed": seed}}
    agent = Agent.from_spec(spec, state_space=envs[0].state_space, action_space=envs[0].action_space)
    states = np.stack([env.reset() for env in envs])
    sums, returns = [0.0] * len(envs), []
    for _ in range((timesteps or 30_000) // 1000):
        for _ in range(500):
            actions = agent.get_action(states)
            for i, env in enumerate(envs):
                after, reward, terminal, _ = env.step(actions[i])
                agent.observe(states[i], actions[i], [], reward, after, terminal, env_id=f"env_{i}")
                sums[i] += float(reward)
                if terminal:
                    returns.append(sums[i])
                    sums[i] = 0.0
                states[i] = env.reset() if terminal else after
        agent.update()
    return returns


def impala(seed: int, timesteps: int | None = None) -> list[float]:
    """Program 4: an agent that steps eight environments itself."""
    from ..compat.rlgraph import SingleIMPALAAgent

    agent = SingleIMPALAAgent(environment_spec=CARTPOLE, execution_spec={"seed": seed}, **IMPALA)
    while agent.timesteps < (timesteps or 64_000):
        agent.update()
    return list(agent.episode_returns)  # the last 100


def of_core(timesteps: int) -> float:
    """Seconds of a timestep of ``Agent.train``: DQN of the same memory and updates, one layer of 32 for two streams."""
    from .. import Agent, RunConfig
    from ..memories import ReplayMemory
    from ..models import dqn as model

    params = {
        "hidden": [64, 32],
        "activation": "relu",
        "dueling": "mean",
        "learning_rate": 0.001,
        "loss": "squared",
        "max_gradient_norm": None,
        "target_update_period": 250,
    }
    with tempfile.TemporaryDirectory() as folder:
        config = RunConfig(seed=0, progress=False, save_checkpoints_secs=None)
        agent = Agent(model.model_fn, ReplayMemory(20_000, batch_size=64, discount=0.99), folder, config, params)
        agent.train("CartPole-v1", timesteps=WARM_UP, first_update=100, update_frequency=2, hooks=[])
        began = time.perf_counter()
        agent.train("CartPole-v1", timesteps=timesteps, first_update=100, update_frequency=2, hooks=[])
        return (time.perf_counter() - began) / timesteps


def loop(timesteps: int) -> float:
    """Seconds of a timestep of program 1's agent in a loop of its caller's, which updates every second timestep."""
    from ..compat.rlgraph import Agent, OpenAIGymEnv

    env = OpenAIGymEnv("CartPole-v1")
    env.seed(0)
    spec = {**DQN, "execution_spec": {"seed": 0}}
    agent = Agent.from_spec(spec, state_space=env.state_space, action_space=env.action_space)
    state = env.reset()

    def run(count: int) -> None:
        nonlocal state
        for t in range(count):
            action = agent.get_action(state)
            after, reward, terminal, _ = env.step(action)
            agent.observe(state, action, [], reward, after, terminal)
            state = env.reset() if terminal else after
            if t % 2 and agent.core.can_update():
                agent.update()

    run(WARM_UP)
    began = time.perf_counter()
    run(timesteps)
    return (time.perf_counter() - began) / timesteps


def calls(timesteps: int) -> float:
    """Seconds of what that loop calls the agent for, without an environment."""
    from ..compat.rlgraph import Agent, FloatBox, IntBox

    spec = {**DQN, "execution_spec": {"seed": 0}}
    agent = Agent.from_spec(spec, state_space=FloatBox(shape=(4,)), action_space=IntBox(2))
    states = np.random.default_rng(0).normal(size=(1000, 4)).astype(np.float32)

    def run(count: int) -> None:
        for t in range(count):
            state, after = states[t % 1000], states[(t + 1) % 1000]
            action = agent.get_action(state)
            agent.observe(state, action, [], 1.0, after, t % 200 == 199)
            if t % 2 and agent.core.can_update():
                agent.update()

    run(WARM_UP)
    began = time.perf_counter()
    run(timesteps)
    return (time.perf_counter() - began) / timesteps


WARM_UP: Final = 2_000
PROGRAMS: Final = Programs(
    learn={"1: DQNAgent": dqn, "2: PPOAgent": ppo, "4: SingleIMPALAAgent": impala},
    timesteps={"1: DQNAgent": 20_000, "2: PPOAgent": 30_000, "4: SingleIMPALAAgent": 64_000},
    measured={
        "`Agent.train`, DQN of the same updates, one layer of 32 for two streams": of_core,
        "`get_action`, `observe` and `update`, without an environment": calls,
        "program 1's agent in a loop": loop,
    },
    wanted=100.0,
)


if __name__ == "__main__":
    main("rlgraph", __doc__, PROGRAMS, None)
