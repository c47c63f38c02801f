"""Topics, cases, contenders and goals."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, Final

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


@dataclasses.dataclass(frozen=True)
class Case:
    """The measurement of one process per contender.

    Args:
        topic: the function in the contenders' modules, and the section of the results.
        contenders: in the order of measurement.
        arguments: of the function.
        label: added to the names of the rows.
        threads: number of threads for each.
    """

    topic: str
    contenders: tuple[str, ...]
    arguments: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    label: str = ""
    threads: int = 1

    def row(self, quantity: str) -> str:
        """The name of the row of a quantity."""
        return ", ".join(filter(None, [quantity, self.label]))


@dataclasses.dataclass(frozen=True)
class Goal:
    """``ours`` should be ``at_least`` times as good as ``peer``, in the same row or in ``peer_row``."""

    text: str
    topic: str
    row: str
    ours: str
    peer: str
    at_least: float
    peer_row: str | None = None


TOPICS: Final = {
    "dqn": Topic(
        "DQN on CartPole-v1: timesteps per second",
        "`Agent.train` with its default hooks, `DQN.learn` of Stable-Baselines3 and of SBX with their reports switched"
        " off, in one CartPole-v1. Two hidden layers of 64 units, ReLU, batches of 32 from a memory of 50,000, Adam at"
        " 1e-3, Huber loss, a hard update of the target network every 500 timesteps, epsilon 0.05. A first call of"
        " 1,000 timesteps compiles everything and is not timed; the second call is, as a whole: axonrl's ends with"
        " writing a checkpoint. Gradients are clipped to a norm of 10, but for SBX, which does not clip. Compiled:"
        " `torch.compile` of the policy, as Stable-Baselines3's documentation shows, and of both networks in it, since"
        " the policy alone would not reach them.",
        more_is_better=True,
    ),
    "q_learning": Topic(
        "DQN with prioritized replay, C51 and QR-DQN on CartPole-v1: timesteps per second",
        "As for DQN, with its settings. Prioritized: alpha 0.6, beta 0.4, squared loss, which is what Tianshou weights."
        " C51: 51 atoms from 0 to 100, the next action selected by the online network as Tianshou does. QR-DQN: 10"
        " quantiles, which rl-zoo has for CartPole. Tianshou: `run_training` without tests, logs and progress bar, in"
        " one environment; it collects as many timesteps at once as there are for an update, and does not clip"
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
        ' Gymnasium\'s environments in Python but for those named native (`vectorization="native"`) and EnvPool, which'
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
        " Gymnasium's environments, as in the tables above. Settings are those above, but for what rejax cannot set:"
        " its DQN has a squared loss; gradients are clipped number by number instead of by their norm; PPO's actor"
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
        " during a whole call of `Agent.train` with its default hooks. Everything else: the loop, hooks, batching the"
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
        "axonrl loads TensorFlow and a run, with `Agent.predict`; exported is `Policy.load`, without TensorFlow;"
        " Stable-Baselines3 is `MlpPolicy.load`, without TensorFlow either. Memory is the most that was resident"
        " (VmHWM). Files are in the machine's cache.",
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
        "Random actions, with resets: what nobody who steps it can exceed.",
        more_is_better=True,
    ),
    "serving": Topic(
        "Agents over HTTP: requests, transitions or observations per second",
        "`axonrl serve` with one worker and durability `disk`, a DQN of two hidden layers of 64 units with 4 numbers as"
        " observation. The load generator is a process of its own on the same machine; each of its connections waits"
        " for an answer before it sends the next request. The bare endpoint is one of FastAPI under the same uvicorn,"
        " which parses the body and answers a constant. The Stepper stores and learns in a loop of its own process."
        " Each number is the median of three measurements, in turn.",
        more_is_better=True,
    ),
    "serving_costs": Topic(
        "Agents over HTTP: time and memory",
        "As above, with one connection. The client is `RemoteAgent.act`, http.client sends the same bytes."
        " Memory is what is resident of gateway and workers. A TensorFlow process has an `Agent` of the same model that"
        " has learned. Agents asleep have a row in the database and a folder, and nothing in memory. Recovery: after"
        " all processes were killed, all agents are asked to act at once, and each replays its journal with an update"
        " per step. A slow connection sends a byte of a header a second. The rows named at most have the goals.",
    ),
}
"""Function of the contenders' modules to topic, in the order of the results."""

_SB3 = ("sb3", "sb3_compiled", "sbx")
_DQN = ("axonrl_agent", *_SB3)
_Q_LEARNING = {
    "prioritized DQN": ("axonrl_agent", "tianshou"),
    "C51": ("axonrl_agent", "tianshou"),
    "QR-DQN": ("axonrl_agent", "tianshou", "sb3_contrib"),
}
"""Algorithms, and who has them."""
_WHOLE = ("axonrl_agent", "rejax")
_PRODUCTS = ("axonrl_agent", "numpy", "torch")
_ACT = ("axonrl_agent", "axonrl_policy", "torch", "jax", "sb3")
_UPDATE = ("axonrl_agent", "torch", "jax", "sb3", "sbx")
_CARTPOLE, _CHEETAH, _CHEETAH_2 = "CartPole-v1", "HalfCheetah-v5", "HalfCheetah-v5, two threads"
_EVERY_TIMESTEP = {"update_frequency": 1, "timesteps": 10_000}
_EVERY_4 = {"update_frequency": 4, "timesteps": 20_000}
_PPO_CARTPOLE = {"env_id": _CARTPOLE, "num_envs": 8, "rollout": 256, "minibatch": 256, "rollouts": 20}
_PPO_CHEETAH = {"env_id": _CHEETAH, "num_envs": 4, "rollout": 512, "minibatch": 64, "rollouts": 8}
_SAC_64 = {"hidden": [64, 64], "batch": 64, "timesteps": 3_000}
_SAC_256 = {"hidden": [256, 256], "batch": 256, "timesteps": 1_000}
_TRPO = {"num_envs": 8, "rollout": 256, "minibatch": 256, "rollouts": 20}
_RECURRENT = {"num_envs": 8, "rollout": 128, "minibatch": 128, "rollouts": 8}
_SHORT, _LONG = "sequences of 16", "sequences of 128"
_PRODUCTS_256 = "2x256, batch 256: 546 MFLOP"
_SECONDS, _BATCHES, _CNN, _SMALL, _LARGE = 0.5, [1, 8, 64], "Nature CNN", "2x64", "2x256"
UPDATES: Final = [[_SMALL, 32], [_LARGE, 256], [_CNN, 32]]
"""Networks and batch sizes."""
_SERVING = ("axonrl_serving",)
_CLIENTS = {"seconds": 2.0, "connections": 32}
_CLIENTS_32, _LOADED = "32 connections", "500 agents"
_ASLEEP, _RECOVERED = "10,000 asleep, 10,000 transitions each", "20 agents, 10,000 records each"
CASES: Final = (
    Case("dqn", _DQN, _EVERY_TIMESTEP, "one update per timestep"),
    Case("dqn", _DQN, _EVERY_4, "one update per 4"),
    Case("dqn", _DQN, {"update_frequency": 10, "timesteps": 20_000}, "one update per 10"),
    *(
        Case("q_learning", contenders, {"algorithm": name, **updates}, f"{name}, {label}")
        for name, contenders in _Q_LEARNING.items()
        for label, updates in (("one update per timestep", _EVERY_TIMESTEP), ("one update per 4", _EVERY_4))
    ),
    Case("atari", ("axonrl_agent", "sb3"), {"timesteps": 4_000}, "two threads", threads=2),
    Case("ppo", ("axonrl_agent", "axonrl_native", *_SB3, "sb3_envpool", "sbx_envpool"), _PPO_CARTPOLE, _CARTPOLE),
    Case("ppo", ("axonrl_agent", *_SB3, "sb3_envpool", "sbx_envpool", "rltools"), _PPO_CHEETAH, _CHEETAH),
    Case("ppo", ("axonrl_agent", "axonrl_envpool", "sb3_envpool", "sbx_envpool"), _PPO_CHEETAH, _CHEETAH_2, threads=2),
    Case("sac", (*_DQN, "rltools"), _SAC_64, "2x64, batch 64"),
    Case("sac", (*_DQN, "rltools"), _SAC_256, "2x256, batch 256"),
    *(
        Case(
            "deterministic", ("axonrl_agent", "sb3", "sbx"), {"algorithm": name, **_SAC_64}, f"{title}, 2x64, batch 64"
        )
        for name, title in (("td3", "TD3"), ("ddpg", "DDPG"))
    ),
    Case("trpo", ("axonrl_agent", "sb3_contrib"), _TRPO),
    *(
        Case("recurrent_ppo", ("axonrl_agent", "sb3_contrib"), {**_RECURRENT, "sequence": length}, label)
        for length, label in ((16, _SHORT), (128, _LONG))
    ),
    Case("whole", _WHOLE, {"algorithm": "dqn", "arguments": _EVERY_TIMESTEP}, "DQN, CartPole-v1"),
    Case("whole", _WHOLE, {"algorithm": "ppo", "arguments": _PPO_CARTPOLE}, "PPO, CartPole-v1"),
    Case("whole", _WHOLE, {"algorithm": "sac", "arguments": _SAC_64}, "SAC, Pendulum-v1, 2x64, batch 64"),
    Case("whole", _WHOLE, {"algorithm": "sac", "arguments": _SAC_256}, "SAC, Pendulum-v1, 2x256, batch 256"),
    Case("products", _PRODUCTS, {"hidden": [64, 64], "batch": 64, "seconds": _SECONDS}, "2x64, batch 64: 9.0 MFLOP"),
    Case("products", _PRODUCTS, {"hidden": [256, 256], "batch": 256, "seconds": _SECONDS}, _PRODUCTS_256),
    Case("shares", ("axonrl_shares",), {"algorithm": "dqn", "timesteps": 10_000}, "DQN, CartPole-v1"),
    Case("shares", ("axonrl_shares",), {"algorithm": "ppo", "timesteps": 40_960}, "PPO, 8 times CartPole-v1"),
    Case("shares", ("axonrl_shares",), {"algorithm": "ppo_native", "timesteps": 40_960}, "PPO, 8 native CartPole-v1"),
    Case("shares", ("axonrl_shares",), {"algorithm": "sac", "timesteps": 3_000}, "SAC, Pendulum-v1, 2x64, batch 64"),
    Case("loop", ("axonrl_loop",), {"timesteps": 50_000}),
    Case("act", _ACT, {"networks": [_SMALL, _LARGE, _CNN], "batches": _BATCHES, "seconds": _SECONDS}),
    Case("act", _ACT, {"networks": [_CNN], "batches": _BATCHES, "seconds": _SECONDS}, "two threads", threads=2),
    Case("update", _UPDATE, {"networks": UPDATES, "seconds": _SECONDS}),
    Case("update", _UPDATE, {"networks": [[_LARGE, 256], [_CNN, 32]], "seconds": _SECONDS}, "two threads", threads=2),
    Case("memory", ("axonrl", "sb3", "cpprb", "torchrl"), {"seconds": _SECONDS}),
    Case("prioritized", ("axonrl", "cpprb", "torchrl"), {"seconds": _SECONDS}),
    Case("sequences", ("axonrl", "torchrl"), {"length": 20, "seconds": _SECONDS}, "20 timesteps"),
    Case("actor", ("axonrl_agent", "axonrl_policy", "sb3")),
    Case("cli", ("axonrl",), {"times": 5}),
    Case("vector", ("axonrl", "gymnasium"), {"copies": [8, 64], "seconds": _SECONDS}),
    Case("environment", ("gymnasium",), {"timesteps": 100_000}),
    *(
        Case(topic, _SERVING, {"row": row, "sizes": sizes}, label)
        for topic, row, sizes, label in (
            ("serving", "act", _CLIENTS, _CLIENTS_32),
            ("serving", "step", _CLIENTS, _CLIENTS_32),
            ("serving", "step_batch", {"seconds": 2.0}, ""),
            ("serving", "act_batch", {"seconds": 2.0}, ""),
            ("serving_costs", "latency", {"seconds": 2.0}, ""),
            ("serving_costs", "client", {"calls": 4_000}, ""),
            ("serving_costs", "agents", {"number": 500}, _LOADED),
            ("serving_costs", "asleep", {"number": 10_000, "transitions": 10_000, "woken": 100}, _ASLEEP),
            ("serving_costs", "fairness", {"seconds": 3.0}, ""),
            ("serving_costs", "slow_clients", {"seconds": 3.0, "connections": 500}, ""),
            ("serving_costs", "logins", {"tries": 50}, ""),
            ("serving_costs", "recovery", {"number": 20, "records": 10_000}, _RECOVERED),
        )
    ),
)
QUICK: Final = {
    **{"timesteps": 2_048, "rollouts": 1, "seconds": 0.05, "times": 1},
    **{"calls": 100, "number": 5, "transitions": 200, "woken": 3, "records": 200, "connections": 8, "tries": 2},
}
"""Arguments of a quick run, which only shows that everything works."""

_EVERY, _CONVOLUTIONS = "one update per timestep", "Nature CNN, batch 1"
_LIMITED: Final = {
    _LOADED: ("create, first of its kind, s", "create, next of its kind, s", "gateway and workers, MiB"),
    _ASLEEP: ("memory of each, KiB", "a page of the list, ms", "waking one, p99, ms"),
    _RECOVERED: ("ready after a crash, s", "the first agent acts, s", "all act, s"),
}
"""Rows beside which there is one of what they should not exceed."""
GOALS: Final = (
    *(
        Goal(f"DQN on CartPole, {row}", "dqn", row, "axonrl_agent", "sb3", at_least)
        for row, at_least in ((_EVERY, 15), ("one update per 4", 12), ("one update per 10", 10))
    ),
    Goal(f"DQN on CartPole, {_EVERY}", "dqn", _EVERY, "axonrl_agent", "sb3_compiled", 8),
    *(
        Goal(f"{name} on CartPole, {_EVERY}", "q_learning", f"{name}, {_EVERY}", "axonrl_agent", peer, 8)
        for name, (_, *peers) in _Q_LEARNING.items()
        for peer in peers
    ),
    Goal("DQN on Atari's Pong, two threads", "atari", "two threads", "axonrl_agent", "sb3", 1.5),
    *(Goal(f"PPO on {_CARTPOLE}", "ppo", _CARTPOLE, "axonrl_native", *goal) for goal in (("sb3", 7), ("sbx", 4.7))),
    Goal(f"PPO on {_CARTPOLE}", "ppo", _CARTPOLE, "axonrl_agent", "sb3_compiled", 4),
    Goal(f"PPO on {_CHEETAH}", "ppo", _CHEETAH, "axonrl_agent", "sb3", 3),
    Goal(f"PPO on {_CHEETAH_2}", "ppo", _CHEETAH_2, "axonrl_envpool", "axonrl_agent", 1.4),
    *(
        Goal("SAC, 2x64, batch 64", "sac", "2x64, batch 64", "axonrl_agent", *goal)
        for goal in (("sb3", 12), ("sbx", 3.5), ("rltools", 1.0))
    ),
    *(
        Goal(row, "deterministic", row, "axonrl_agent", *goal)
        for row in ("TD3, 2x64, batch 64", "DDPG, 2x64, batch 64")
        for goal in (("sb3", 10), ("sbx", 3))
    ),
    Goal("TRPO on CartPole-v1", "trpo", "", "axonrl_agent", "sb3_contrib", 5),
    *(
        Goal(f"PPO with an LSTM, {row}", "recurrent_ppo", row, "axonrl_agent", "sb3_contrib", 4)
        for row in (_SHORT, _LONG)
    ),
    *(
        Goal(
            "SAC, 2x256, batch 256: matrix products alone",
            "products",
            f"one update, {_PRODUCTS_256}",
            "axonrl_agent",
            peer,
            0.8,
        )
        for peer in ("numpy", "torch")
    ),
    Goal(
        "a timestep, at most 1.5 times its parts",
        "loop",
        "a timestep, episodes of 500",
        "axonrl_loop",
        "axonrl_loop",
        1 / 1.5,
        peer_row="the parts together",
    ),
    Goal(
        "an episode, at most two timesteps",
        "loop",
        "an episode",
        "axonrl_loop",
        "axonrl_loop",
        1 / 2,
        peer_row="a timestep, episodes of 500",
    ),
    Goal("acting, 2x64, batch 1", "act", "2x64, batch 1", "axonrl_agent", "torch", 5),
    Goal("DQN update, 2x64, batch 32", "update", "2x64, batch 32", "axonrl_agent", "sb3", 10),
    Goal(
        "DQN update, Nature CNN, batch 32, two threads",
        "update",
        "Nature CNN, batch 32, two threads",
        "axonrl_agent",
        "torch",
        1.2,
    ),
    *(
        Goal(f"acting, {row}", "act", row, ours, "torch", at_least)
        for ours, at_least in (("axonrl_policy", 2), ("axonrl_agent", 1))
        for row in (_CONVOLUTIONS, f"{_CONVOLUTIONS}, two threads")
    ),
    *(
        Goal(f"prioritized memory, {row}", "prioritized", row, "axonrl", *goal)
        for row in ("add", "sample 32", "update 32", "add, sample 32 and update 32")
        for goal in (("cpprb", 1), ("torchrl", 3))
    ),
    *(
        Goal(f"sequences, {row}", "sequences", row, "axonrl", "torchrl", 3)
        for row in ("add, 20 timesteps", "sample 32, 20 timesteps")
    ),
    *(
        Goal(
            text,
            topic,
            f"{row}, {label}".removesuffix(", "),
            *_SERVING,
            *_SERVING,
            at_least,
            f"{peer}, {label}".removesuffix(", "),
        )
        for text, topic, row, label, at_least, peer in (
            ("act, 32 connections", "serving", "act", _CLIENTS_32, 0.6, "act, bare endpoint"),
            ("step, 32 connections", "serving", "step, one update per 4", _CLIENTS_32, 0.4, "step, bare endpoint"),
            ("step_batch of 256", "serving", "step_batch of 256", "", 0.5, "a Stepper in a loop"),
            ("act_batch of 256", "serving", "act_batch of 256", "", 20, "single acts"),
            ("act, p50: at most 0.15 ms more", "serving_costs", "act, p50, ms", "", 1, "act, p50, ms, at most"),
            ("act, p99: at most 3 times", "serving_costs", "act, p99, ms", "", 1 / 3, "act, p99, ms, bare endpoint"),
            ("client: at most 2 times", "serving_costs", "client, act, us", "", 1 / 2, "client, http.client, us"),
            ("an agent's memory", "serving_costs", "for each agent, MiB", _LOADED, 50, "a TensorFlow process, MiB"),
            (
                *("fairness: at most 3 times", "serving_costs", "act, p99, ms, beside a large one that learns", ""),
                *(1 / 3, "act, p99, ms, alone"),
            ),
            (
                *("slow clients: at most 3 times", "serving_costs"),
                *("act, p99, ms, beside 500 connections that never finish", "", 1 / 3),
                "act, p99, ms, without them",
            ),
            (
                *("login, unknown name: at most 10 % more", "serving_costs", "a refused login, unknown name, ms", ""),
                *(1 / 1.1, "a refused login, wrong password, ms"),
            ),
            (
                *("login, known name: at most 10 % more", "serving_costs", "a refused login, wrong password, ms", ""),
                *(1 / 1.1, "a refused login, unknown name, ms"),
            ),
            *(
                (row, "serving_costs", row, label, 1, f"{row}, at most")
                for label, rows in _LIMITED.items()
                for row in rows
            ),
        )
    ),
    Goal("a step of 8 native CartPoles", "vector", "8 copies", "axonrl", "gymnasium", 3),
    Goal("a step of 64 native CartPoles", "vector", "64 copies", "axonrl", "gymnasium", 10),
    Goal("memory, sample 32", "memory", "sample 32", "axonrl", "sb3", 3),
    Goal("memory, sample 32", "memory", "sample 32", "axonrl", "cpprb", 1),
)
