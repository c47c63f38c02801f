"""Stable-Baselines3 on tasks of our experiments, with the settings of RL Baselines3 Zoo: what these are compared with.

``.venv-bench/bin/python -m axonrl.benchmarks.yardsticks dqn CartPole-v1 --timesteps 50000`` adds a line for each seed
to ``benchmarks/yardsticks.jsonl``; a seed that has one is not run again. ``make VENV=.venv-bench
.venv-bench/installed-bench`` installs what it needs.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from axonrl.run_dir.provenance import version_of

FILE: Final = Path(__file__).with_name("yardsticks.jsonl")
_WIDE: Final = {"log_std_init": -2, "ortho_init": False, "activation_fn": "ReLU", "net_arch": [256, 256]}
SETTINGS: Final[dict[str, dict[str, dict[str, Any]]]] = {
    "ppo": {
        "Ant-v5": {},
        "Humanoid-v5": {
            **{"batch_size": 256, "n_steps": 512, "gamma": 0.95, "learning_rate": 3.56987e-05, "ent_coef": 0.00238306},
            **{"clip_range": 0.3, "n_epochs": 5, "gae_lambda": 0.9, "max_grad_norm": 2, "vf_coef": 0.431892},
            "policy_kwargs": _WIDE,
        },
        "HalfCheetah-v5": {
            **{"batch_size": 64, "n_steps": 512, "gamma": 0.98, "learning_rate": 2.0633e-05, "ent_coef": 0.000401762},
            **{"clip_range": 0.1, "n_epochs": 20, "gae_lambda": 0.92, "max_grad_norm": 0.8, "vf_coef": 0.58096},
            "policy_kwargs": _WIDE,
        },
        "Hopper-v5": {
            **{"batch_size": 32, "n_steps": 512, "gamma": 0.999, "learning_rate": 9.80828e-05, "ent_coef": 0.00229519},
            **{"clip_range": 0.2, "n_epochs": 5, "gae_lambda": 0.99, "max_grad_norm": 0.7, "vf_coef": 0.835671},
            "policy_kwargs": _WIDE,
        },
        "Walker2d-v5": {
            **{"batch_size": 32, "n_steps": 512, "gamma": 0.99, "learning_rate": 5.05041e-05, "ent_coef": 0.000585045},
            **{"clip_range": 0.1, "n_epochs": 20, "gae_lambda": 0.95, "max_grad_norm": 1, "vf_coef": 0.871923},
        },
    },
    "dqn": {
        "CartPole-v1": {
            **{"learning_rate": 2.3e-3, "batch_size": 64, "buffer_size": 100_000, "learning_starts": 1_000},
            **{"gamma": 0.99, "target_update_interval": 10, "train_freq": 256, "gradient_steps": 128},
            **{"exploration_fraction": 0.16, "exploration_final_eps": 0.04, "policy_kwargs": {"net_arch": [256, 256]}},
        }
    },
    "sac": {task: {"learning_starts": 10_000} for task in ("HalfCheetah-v5", "Hopper-v5", "Walker2d-v5", "Ant-v5")},
}
"""RL Baselines3 Zoo's, of the environments' versions v4; those of PPO with normalised observations and rewards."""
_EPISODES: Final = 100
_EVALUATIONS: Final = 30
"""Evaluations of 10 episodes during training, whose spread says what one of them is worth."""


def run(algorithm: str, task: str, seed: int, timesteps: int) -> dict[str, Any]:
    """Train with a seed; returns what was run, the mean returns during training, and the last policy's over 100."""
    import stable_baselines3 as sb3
    import torch
    from stable_baselines3.common.callbacks import EvalCallback
    from stable_baselines3.common.env_util import make_vec_env
    from stable_baselines3.common.evaluation import evaluate_policy
    from stable_baselines3.common.vec_env import VecNormalize

    torch.set_num_threads(1)
    settings = dict(SETTINGS[algorithm][task])
    if "activation_fn" in (policy := settings.get("policy_kwargs", {})):
        settings["policy_kwargs"] = {**policy, "activation_fn": getattr(torch.nn, policy["activation_fn"])}
    env, copy = make_vec_env(task, seed=seed), make_vec_env(task, seed=seed + 1_000)
    if algorithm == "ppo":
        env = VecNormalize(env, gamma=settings.get("gamma", 0.99))
        copy = VecNormalize(copy, training=False, norm_reward=False)
    began = time.perf_counter()
    model = getattr(sb3, algorithm.upper())("MlpPolicy", env, seed=seed, device="cpu", **settings)
    with tempfile.TemporaryDirectory() as folder:  # without one, the callback keeps no results
        every = timesteps // _EVALUATIONS
        looks = EvalCallback(copy, n_eval_episodes=10, eval_freq=every, log_path=folder, verbose=0)
        model.learn(timesteps, log_interval=None, callback=looks)
    seconds = time.perf_counter() - began
    if isinstance(env, VecNormalize):
        copy.obs_rms = env.obs_rms
    returns, _ = evaluate_policy(model, copy, _EPISODES, return_episode_rewards=True)
    return {
        **{"algorithm": algorithm, "task": task, "seed": seed, "timesteps": timesteps, "seconds": round(seconds, 1)},
        "last": round(sum(returns) / _EPISODES, 2),
        "evaluations": [round(float(sum(of_one) / len(of_one)), 1) for of_one in looks.evaluations_results],
        **{name: version_of(name) for name in ("stable-baselines3", "torch", "gymnasium", "mujoco")},
    }


def runs_of(algorithm: str, task: str, timesteps: int) -> list[dict[str, Any]]:
    """The runs so far of an algorithm on a task, with this number of timesteps."""
    runs = [json.loads(line) for line in FILE.read_text(encoding="utf-8").splitlines()] if FILE.exists() else []
    return [one for one in runs if (one["algorithm"], one["task"], one["timesteps"]) == (algorithm, task, timesteps)]


def main(arguments: Sequence[str]) -> int:
    """Run the seeds without a line, and print the mean of all."""
    parser = argparse.ArgumentParser(description="Train Stable-Baselines3 with RL Baselines3 Zoo's settings.")
    parser.add_argument("algorithm", choices=SETTINGS)
    parser.add_argument("task")
    parser.add_argument("--seeds", type=int, nargs="+", default=list(range(100, 110)))
    parser.add_argument("--timesteps", type=int, default=1_000_000)
    given = parser.parse_args(arguments)
    if given.task not in SETTINGS[given.algorithm]:
        parser.error(f"{given.task!r} has no settings; there are {', '.join(SETTINGS[given.algorithm])}")
    of_task = runs_of(given.algorithm, given.task, given.timesteps)
    for seed in given.seeds:
        if seed in {one["seed"] for one in of_task}:
            continue
        of_task.append(run(given.algorithm, given.task, seed, given.timesteps))
        with FILE.open("a", encoding="utf-8") as file:
            file.write(json.dumps(of_task[-1]) + "\n")
        print(json.dumps(of_task[-1]), flush=True)
    last = [one["last"] for one in of_task if one["seed"] in given.seeds]
    print(f"{given.task}: {sum(last) / len(last):,.1f}, the mean of {', '.join(map(str, last))}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
