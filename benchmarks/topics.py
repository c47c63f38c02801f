"""Sections of the results, and who is in them."""

from __future__ import annotations

import dataclasses
from typing import Final

CONTENDERS: Final = {
    "axonrl": "axonrl",
    "axonrl_agent": "axonrl",
    "axonrl_native": "axonrl, native",
    "axonrl_envpool": "axonrl, EnvPool",
    "axonrl_loop": "axonrl",
    "axonrl_shares": "axonrl",
    "axonrl_policy": "axonrl, exported",
    "axonrl_serving": "axonrl",
    "gymnasium": "Gymnasium",
    "sb3": "Stable-Baselines3",
    "sb3_compiled": "Stable-Baselines3, compiled",
    "sb3_envpool": "Stable-Baselines3, EnvPool",
    "sb3_contrib": "SB3-Contrib",
    "sbx": "SBX",
    "sbx_envpool": "SBX, EnvPool",
    "tianshou": "Tianshou",
    "rltools": "RLtools",
    "rejax": "rejax",
    "torch": "torch",
    "jax": "JAX",
    "numpy": "NumPy's OpenBLAS",
    "cpprb": "cpprb",
    "torchrl": "TorchRL",
}
"""The modules of ``contenders/``, and their names in the results."""
OURS: Final = frozenset(name for name in CONTENDERS if name.startswith("axonrl"))
ENVIRONMENTS: Final = {
    ".venv-bench": ("sb3", "sb3_compiled", "sb3_contrib", "sbx", "torch", "jax", "cpprb"),
    ".venv-bench-envpool": ("sb3_envpool", "sbx_envpool"),
    ".venv-bench-rejax": ("rejax",),
    ".venv-bench-rltools": ("rltools",),
    ".venv-bench-tianshou": ("tianshou",),
    ".venv-bench-torchrl": ("torchrl",),
}
"""The peers' environments, and who runs there. All others run in axonrl's."""


@dataclasses.dataclass(frozen=True)
class Topic:
    """A section of the results: quantities in the same unit.

    Args:
        title: its heading.
        text: what is measured, and how.
        more_is_better: true for rates, false for times and sizes.
    """

    title: str
    text: str
    more_is_better: bool = False


TOPICS: Final = {
    "dqn": Topic(
        "DQN on CartPole-v1: timesteps per second",
        "`Agent.train` with its default hooks, `DQN.learn` of Stable-Baselines3 and of SBX with their reports switched"
        " off, in one CartPole-v1. Two hidden layers of 64 units, ReLU, batches of 32 from a memory of 50,000, Adam at"
        " 1e-3, Huber loss, a hard update of the target network every 500 timesteps, epsilon 0.05. A first call of"
        " 1,000 timesteps compiles everything and is not timed. The second call is timed as a whole; axonrl's ends with"
        " a checkpoint. Gradients are clipped to a norm of 10, except by SBX, which does not clip. Compiled:"
        " `torch.compile` of the policy, as Stable-Baselines3's documentation shows, and of both networks in it, since"
        " the policy alone would not reach them.",
        more_is_better=True,
    ),
    "q_learning": Topic(
        "DQN with prioritized replay, C51 and QR-DQN on CartPole-v1: timesteps per second",
        "As for DQN, with its settings. Prioritized: alpha 0.6, beta 0.4, squared loss, which is what Tianshou weights."
        " C51: 51 atoms from 0 to 100, the next action selected by the online network as Tianshou does. QR-DQN: 10"
        " quantiles, which rl-zoo has for CartPole; Tianshou alone selects the next action by the online network, which"
        " is one more forward pass. Tianshou: `run_training` without tests, logs and progress bar, in one"
        " environment; it collects as many timesteps at once as there are for an update, and does not clip"
        " gradients. SB3-Contrib: `QRDQN.learn`. The peers' first 1,000 timesteps are not timed either.",
        more_is_better=True,
    ),
    "atari": Topic(
        "DQN on Atari's Pong: timesteps per second",
        "`Agent.train` with its default hooks and `DQN.learn` with its reports switched off, in one ALE/Pong-v5 with"
        " Gymnasium's AtariPreprocessing and stacks of 4 frames: by Gymnasium's wrapper, and by VecFrameStack of"
        " Stable-Baselines3. Nature CNN, batches of 32 from a memory of 10,000, an update every 4 timesteps, other"
        " settings as above.",
        more_is_better=True,
    ),
    "ppo": Topic(
        "PPO: timesteps per second",
        "`Agent.train` with its default hooks, `PPO.learn` of Stable-Baselines3 and of SBX with their reports switched"
        " off. Policy and value have two hidden layers of 64 units each, tanh; 10 epochs, Adam at 3e-4. CartPole-v1:"
        " 8 environments, rollouts of 256 timesteps of each, minibatches of 256. HalfCheetah-v5: 4 environments, 512"
        " timesteps of each, minibatches of 64. A first rollout compiles everything and is not timed. All step"
        ' Gymnasium\'s environments in Python, except those named native (`vectorization="native"`) and EnvPool, which'
        " has a thread for each of ours. Compiled: `torch.compile` of the policy, as Stable-Baselines3's documentation"
        " shows, which reaches acting, and of `evaluate_actions`, which learns. RLtools is C++, compiled for these very"
        " sizes with `-march=native -ffast-math` and MKL; it clips no gradients, and acts in actions from -1 to 1.",
        more_is_better=True,
    ),
    "sac": Topic(
        "SAC on Pendulum-v1, one update per timestep: timesteps per second",
        "As for DQN, with `SAC.learn`: actor and twin critics with two hidden layers, automatic temperature, soft"
        " targets. 400 timesteps, 300 of them without updates, compile everything and are not timed. Compiled:"
        " `torch.compile` of the actor and of both pairs of critics. RLtools as for PPO.",
        more_is_better=True,
    ),
    "deterministic": Topic(
        "TD3 and DDPG on Pendulum-v1, one update per timestep: timesteps per second",
        "As for SAC, with its settings, and Gaussian noise of 0.1 of half the range of actions. TD3's actor and targets"
        " learn in every second update.",
        more_is_better=True,
    ),
    "trpo": Topic(
        "TRPO on CartPole-v1: timesteps per second",
        "`Agent.train` with its default hooks and `TRPO.learn` of SB3-Contrib with its reports switched off, in 8"
        " environments of Gymnasium, rollouts of 256 timesteps of each. Policy and value have two hidden layers of 64"
        " units each, tanh; 15 iterations of conjugate gradient, at most 10 of the line search, and 10 epochs of the"
        " value in minibatches of 256. A first rollout compiles everything and is not timed.",
        more_is_better=True,
    ),
    "recurrent_ppo": Topic(
        "PPO with an LSTM on CartPole-v1: timesteps per second",
        "As PPO, in rollouts of 128 timesteps of each of 8 environments, with minibatches of 128 and an LSTM of 64"
        " units for the policy and one for the value. axonrl has a layer of 64 units before them, and learns from"
        " sequences of the length in the row's name. `RecurrentPPO` of SB3-Contrib has the layer behind them; its"
        " sequences are in both rows the episodes, as far as a rollout and a minibatch have them.",
        more_is_better=True,
    ),
    "whole": Topic(
        "Loop and environment in one program: timesteps per second",
        "rejax with gymnax compiles learning, acting, exploring and its own copy of the environment into one program of"
        " JAX, which returns when all timesteps are done: no checkpoints, no hooks, no environment in Python. It is"
        " made for many runs at once on an accelerator; this is one run on one thread of a processor. axonrl steps"
        " Gymnasium's environments, as in the tables above. Settings are those above, except what rejax cannot set:"
        " its DQN has a squared loss; gradients are clipped elementwise instead of by their norm; PPO's actor"
        " and critic have an optimizer each, and the value is clipped; SAC's target entropy is its own; an episode that"
        " is truncated counts as terminated.",
        more_is_better=True,
    ),
    "products": Topic(
        "SAC: microseconds of one update, and of its matrix products alone",
        "axonrl: one run of the training step on one batch. The others: every matrix product of such an update, one"
        " after the other, in the same shapes and with the same matrices transposed, and nothing else: `numpy.matmul`"
        " and `torch.mm` with one thread. The operations of all products are in the row's name.",
    ),
    "shares": Topic(
        "Where axonrl's own time goes",
        "Clocks around the methods of the environment (`step` and `reset` of each of Gymnasium's copies), the stepper"
        " (`act`, which also explores, and `learn`, which also draws the batch) and the memory (`step` or `extend`),"
        " during a whole call of `Agent.train` with its default hooks. The rest is the loop, hooks, batching the"
        " copies, the checkpoint at the end and the clocks themselves.",
    ),
    "loop": Topic(
        "The loop without updates: CPU microseconds",
        "`Agent.train` with its default hooks in an environment that does nothing, with a DQN of two hidden layers of"
        " 64 units in LiteRT that never learns. CPU time of all threads of the process, from the difference between a"
        " long and a short call. The cost of an episode follows from those of timesteps in long and in short episodes."
        " Acting, storing and exploring are the actor, `ReplayMemory.step` and `EpsilonGreedy`, called alone.",
    ),
    "act": Topic(
        "Acting: microseconds from a NumPy observation to a NumPy action",
        "axonrl is the actor of an Agent that trains, whose weights may change at any time; exported is what"
        " `Agent.export` wrote, with `Policy.act`. torch is a bare `nn.Sequential` in inference mode and an argmax, JAX"
        " a jitted function, Stable-Baselines3 `policy.predict`. The perceptrons take 4 numbers, the CNN uint8 frames"
        " of 84 x 84 x 4. torch's convolutions are timed in both of its memory formats, and the faster counts.",
    ),
    "update": Topic(
        "Learning: microseconds of one DQN update",
        "axonrl, torch and JAX: forward, Huber loss, backward, clipping and Adam on one batch of NumPy arrays. torch"
        " runs eagerly with fused Adam, JAX jitted with donated buffers. Stable-Baselines3 and SBX: their"
        " `DQN.train(gradient_steps=1)`, which also draws the batch from the buffer.",
    ),
    "memory": Topic(
        "Memory: microseconds, with CartPole's observations and 50,000 transitions stored",
        "axonrl's ReplayMemory and cpprb give NumPy arrays, Stable-Baselines3's ReplayBuffer and TorchRL's, with a"
        " LazyTensorStorage, torch tensors. What TorchRL stores are TensorDicts made beforehand.",
    ),
    "prioritized": Topic(
        "Prioritized memory: microseconds, with CartPole's observations and 50,000 transitions stored",
        "axonrl's ReplayMemory with `Prioritized` (NumPy), cpprb's PrioritizedReplayBuffer (C++) and TorchRL's"
        " TensorDictPrioritizedReplayBuffer (C++ sum trees): alpha 0.6, beta"
        " 0.4, importance weights, batches of 32. axonrl computes its sums of priorities when it draws, so the row of"
        " all three calls is the one to compare.",
    ),
    "sequences": Topic(
        "Sequences: microseconds, with CartPole's observations and 50,000 timesteps stored",
        "axonrl's SequenceMemory and TorchRL's ReplayBuffer with a SliceSampler that finds the episodes by their ends:"
        " batches of 32 sequences of 20 timesteps each.",
    ),
    "actor": Topic(
        "Starting an actor: a process from its start to its first action in CartPole-v1",
        "axonrl loads a run, whose program is in the cache, with `Agent.predict`; exported is `Policy.load`, without"
        " TensorFlow; Stable-Baselines3 is `MlpPolicy.load`, without TensorFlow either. Memory is the most that was"
        " resident (VmHWM). Files are in the machine's cache.",
    ),
    "start": Topic(
        "Starting a training: from the start of a process to the end of its training",
        "PPO on 8 copies of CartPole-v1 for 256 timesteps, one rollout; DQN on CartPole-v1 and SAC on Pendulum-v1 for"
        " 100 updates after 100 timesteps. `Agent.train` with its default hooks, in a new run folder: with an empty"
        " cache, which includes storing the program, and with the program in the cache; `learn` of Stable-Baselines3,"
        " for which both are the same. Two hidden layers of 64 units. Memory is the most that was resident (VmHWM).",
    ),
    "solution": Topic(
        "Time to solution: from the start of a process until 20 greedy episodes return enough",
        "475 in CartPole-v1, -180 in Pendulum-v1; evaluated every 1,000 timesteps, which is not timed. `axonrl run`"
        " has the program in the cache, and settings that ship or those of Stable-Baselines3, which are RL Baselines3"
        " Zoo's; with equal settings SAC's first update is at timestep 256 here, at 100 there."
        " Medians of seeds 100 to 104; a run that ends unsolved counts as endless.",
    ),
    "cli": Topic("`axonrl --help`: seconds", "From the start of the process to its end."),
    "vector": Topic(
        "CartPole-v1, several copies: microseconds of a step of all",
        "axonrl's native copies, behind the interface that a run has them, and Gymnasium's own environments in a"
        " SyncVectorEnv with autoreset disabled. Random actions; episodes that ended are reset by mask, each with a"
        " seed of its own. Steps alone, and with the resets that they take.",
    ),
    "environment": Topic(
        "CartPole-v1 alone: timesteps per second",
        "Random actions, with resets: an upper bound for everyone who steps it.",
        more_is_better=True,
    ),
    "serving": Topic(
        "Agents over HTTP: requests, transitions or observations per second",
        "`axonrl serve` with one worker and durability `disk`, a DQN of two hidden layers of 64 units with 4 numbers as"
        " observation. The load generator is a process of its own on the same machine; each of its connections waits"
        " for an answer before it sends the next request. The bare endpoint is FastAPI's under the same uvicorn:"
        " it parses the body and answers a constant. The Stepper stores and learns in a loop of its own process."
        " Each number is the median of three measurements, in turn.",
        more_is_better=True,
    ),
    "serving_costs": Topic(
        "Agents over HTTP: time and memory",
        "As above, with one connection. The client is `RemoteAgent.act`, http.client sends the same bytes."
        " Memory is what is resident of gateway and workers. A TensorFlow process has an `Agent` of the same model that"
        " has learned. Agents asleep have a row in the database and, if they are woken, a folder, and nothing in"
        " memory. Recovery: after all processes were killed, all agents are asked to act at once, and each replays its"
        " journal with an update per step. A slow connection sends one byte of a header per second. The rows *at most*"
        " are the limits.",
    ),
}
"""Function of the contenders' modules to topic, in the order of the results."""
