"""Cases of each topic, and goals."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, Final

from .solution import TASKS


@dataclasses.dataclass(frozen=True)
class Case:
    """The measurement of one process per contender.

    Args:
        topic: the function in the contenders' modules, and the section of the results.
        contenders: in the order of measurement.
        arguments: the arguments of the function.
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
_ASLEEP, _RECOVERED = "10,000 asleep, 100 woken with 10,000 transitions each", "20 agents, 10,000 records each"
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
    Case("sequences", ("axonrl", "torchrl"), {"length": 20, "seconds": _SECONDS}, "sequences of 20"),
    Case("actor", ("axonrl_agent", "axonrl_policy", "sb3")),
    Case("start", ("axonrl_agent", "sb3"), {"algorithm": "ppo", "times": 3}, "PPO, CartPole-v1"),
    Case("start", ("axonrl_agent", "sb3"), {"algorithm": "dqn", "times": 3}, "DQN, CartPole-v1"),
    Case("start", ("axonrl_agent", "sb3"), {"algorithm": "sac", "times": 3}, "SAC, Pendulum-v1"),
    *(
        Case("solution", ("axonrl_agent", "sb3"), {"task": task, "seeds": list(range(100, 105))}, task)
        for task in TASKS
    ),
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
    **{
        "calls": 100,
        "number": 5,
        "transitions": 200,
        "woken": 3,
        "records": 200,
        "connections": 8,
        "tries": 2,
        "seeds": [100],
    },
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
    *(
        Goal(f"starting {row}, {when}", "start", f"{when}, s, {row}", "axonrl_agent", "sb3", at_least)
        for row in ("PPO, CartPole-v1", "DQN, CartPole-v1", "SAC, Pendulum-v1")
        for when, at_least in (("the first time", 1 / 1.5), ("with a cached program", 1 / 0.35))
    ),
    *(Goal(f"time to solution, {task}", "solution", f"s, {task}", "axonrl_agent", "sb3", 5) for task in TASKS),
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
        for row in ("add, sequences of 20", "sample 32, sequences of 20")
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
