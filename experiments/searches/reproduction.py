"""Results of finished runs in small files, which a repository can keep without the run folders.

For each seed of an experiment NAME there are two files in a folder of results:

``NAME/seed_N.json``
    What was run (``experiment``, ``environment``, ``seed``, digest of the ``settings``), with what (``made_with``:
    versions, commit, machine), how far (``timesteps``, ``updates``, ``seconds``), and what it reached: the results of
    the policies ``best`` and ``last``, each in ``episodes`` new episodes, the mean return of ``random`` actions in the
    same number of episodes, and the digest of the last ``weights``.
``NAME/seed_N.csv``
    The evaluations during training, and the mean return of the training episodes since the previous evaluation. The
    column ``timesteps`` counts updates without timesteps, too.
"""

from __future__ import annotations

import csv
import dataclasses
import hashlib
import io
import itertools
import json
import math
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

from ...core import fields
from ...core.checks import counted
from ...core.protocols import Array, ArrayTree
from ...core.text_columns import Column
from ...environments.batched import BatchedEnvironment
from ...explorations.policies import Random, parts_of
from ...run_dir.files import make_folders, write_atomically
from ...run_dir.history import read_columns, read_evaluations
from ...run_dir.initial_values import digests
from ...run_dir.provenance import version_of
from ...run_dir.starts import read_starts
from ...run_dir.statistics import are_few, interquartile_mean, interval
from ..config.schema import ExperimentFile
from ..console import Table
from ..running.components import environment_of
from ..running.folder import read_record
from ..tracking.journal import RUNNING, TrackedRun

_TIANSHOU: Final = "Tianshou, v3, peak of the mean"
_MINATAR: Final = "MinAtar's authors, better of two agents"
_ZOO: Final = "RL Baselines3 Zoo, one agent"
_YARDSTICK: Final = "Stable-Baselines3, mean of the last policies"
_DATA: Final = "mean of the data"
REFERENCES: Final[Mapping[str, Sequence[tuple[float, str]]]] = {
    "bc_cartpole": [(500.0, _DATA)],
    "cql_cartpole": [(183.5, _DATA)],
    "cql_sac_pendulum": [(-580.9, _DATA)],
    "iql_pendulum": [(-580.9, _DATA)],
    "td3_bc_pendulum": [(-580.9, _DATA)],
    "dqn_cartpole": [(385.3, _YARDSTICK)],
    "dqn_mountaincar": [(-100.8, _ZOO)],
    "ppo_lunarlander": [(242.1, _ZOO)],
    "ppo_halfcheetah": [(5783.9, _TIANSHOU), (5979.5, _YARDSTICK)],
    "ppo_hopper": [(2609.3, _TIANSHOU), (658.7, _YARDSTICK)],
    "ppo_walker2d": [(3588.5, _TIANSHOU), (3255.3, _YARDSTICK)],
    "ppo_ant": [(3258.4, _TIANSHOU), (296.5, _YARDSTICK)],
    "ppo_humanoid": [(787.1, _TIANSHOU), (621.1, _YARDSTICK)],
    "sac_halfcheetah": [(7943.5, _YARDSTICK)],
    "sac_hopper": [(2156.4, _YARDSTICK)],
    "ppo_halfcheetah_3m": [(7337, _TIANSHOU)],
    "ppo_hopper_3m": [(3128, _TIANSHOU)],
    "ppo_walker2d_3m": [(4896, _TIANSHOU)],
    "ppo_ant_3m": [(4079, _TIANSHOU)],
    "ppo_humanoid_3m": [(1360, _TIANSHOU)],
    "pqn_minatar_asterix": [(20.5, _MINATAR)],
    "pqn_minatar_breakout": [(17.5, _MINATAR)],
    "pqn_minatar_freeway": [(50, _MINATAR)],
    "pqn_minatar_seaquest": [(20, _MINATAR)],
    "pqn_minatar_space_invaders": [(185, _MINATAR)],
}
"""Returns to compare with: source, version of the environment and statistic.

Tianshou's (https://github.com/thu-ml/tianshou/tree/master/examples/mujoco) are the maximum, within 1M or 3M timesteps,
of the mean over 10 seeds of evaluations every 30,720 timesteps (10 episodes each, in runs of 3M): more than the mean
return of the last policies, less than that of the best ones. MinAtar's are read off the curves of Young and Tian 2019,
https://arxiv.org/abs/1903.03176, at 5M frames: the better of DQN and actor-critic, in training. RL Baselines3 Zoo's
(https://github.com/DLR-RM/rl-baselines3-zoo/blob/master/benchmark.md) are of its published agents, LunarLander's of v2.
Stable-Baselines3's are ``benchmarks/yardsticks.py``'s, on the same seeds. Those of the data are mean returns of the
recorded episodes that an experiment learns from.
"""
_SIMULATORS: Final = ("mujoco", "box2d", "minatar", "ale-py")
_NOT_SETTINGS: Final = {"name", "description", "seed", "seeds", "params", "tracker", "submit", "matrix"}
"""Keys of an experiment that do not distinguish runs; params are already substituted."""
_RESULT: Final = fields.fields(
    {
        "experiment": fields.text,
        "environment": fields.text,
        "seed": fields.integer(),
        "settings": fields.text,
        "made_with": fields.each(fields.optional(fields.scalar)),
        **dict.fromkeys(("timesteps", "updates"), fields.integer()),
        "seconds": fields.number,
        **dict.fromkeys(("best", "last"), fields.each(fields.number)),
        "random": fields.number,
        "weights": fields.text,
    }
)


@dataclasses.dataclass(frozen=True)
class Result:
    """The result of one seed: the content of its JSON file. ``seconds`` are of training, with evaluations."""

    experiment: str
    environment: str
    seed: int
    settings: str
    made_with: Mapping[str, Any]
    timesteps: int
    updates: int
    seconds: float
    best: Mapping[str, float]
    last: Mapping[str, float]
    random: float
    weights: str

    @property
    def kept(self) -> float | None:
        """Share of the gain from training that the last policy kept: (last - random) / (best - random).

        None where the best policy is no better than random actions, and after offline learning, which has no best one.
        """
        if not self.timesteps:
            return None
        best, last = (each["episode_return_mean"] - self.random for each in (self.best, self.last))
        return last / best if best > 0 else None


def digest_of_settings(experiment: ExperimentFile) -> str:
    """A digest of everything in an experiment that its results depend on, except the seed.

    Defaults are left out, so that a key added to experiment files later does not change the digests of existing ones.
    """
    return _digest(experiment.model_dump(mode="json", exclude=_NOT_SETTINGS, exclude_defaults=True))


def digest_of_weights(weights: Mapping[str, Array]) -> str:
    """A digest of weights by name."""
    return _digest(digests(weights))


def _digest(values: Any) -> str:
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()[:16]


def result_of(
    folder: Path, experiment: ExperimentFile, agent: Any, best: Mapping[str, float], last: Mapping[str, float]
) -> Result:
    """The result of a finished run.

    Args:
        folder: the run folder.
        experiment: the experiment of all seeds.
        agent: the Agent of the run folder.
        best: results of ``Agent.evaluate`` for the best policy kept.
        last: the same for the last policy.

    Raises:
        RunFolderError: the folder has no record of a run, or a damaged one.
    """
    found = read_record(folder)
    simulators = {name: version for name in _SIMULATORS if (version := version_of(name))}
    commits = [start["git_commit"] for start in read_starts(folder)]
    made_with = {**found.made_with, **simulators, "git_commit": commits[0] if commits else None}
    return Result(
        experiment=experiment.name,
        environment=experiment.environment.id,
        seed=found.seed,
        settings=digest_of_settings(experiment),
        made_with=made_with,
        timesteps=agent.global_timestep,
        updates=agent.global_step,
        seconds=round(_seconds_of_training(folder), 1),
        best=best,
        last=last,
        random=random_return(experiment, int(last["episodes"]), found.seed),
        weights=digest_of_weights(agent.get_weights()),
    )


def _seconds_of_training(folder: Path) -> float:
    """From the beginning of each start to its last measurement that was not made again."""
    run = TrackedRun(folder)
    run.read()
    begins = [one.time for one in run.statuses if one.status == RUNNING]
    times = [point.time for point in run.points]
    starts = itertools.pairwise([*begins, math.inf])
    return sum(max((at for at in times if begin <= at < end), default=begin) - begin for begin, end in starts)


def random_return(experiment: ExperimentFile, episodes: int, seed: int) -> float:
    """The mean return of random actions in this number of episodes, without the wrappers that normalise."""
    from ...environments import open_environment
    from ...estimators.evaluation import Watchers, run_episodes

    wrappers = [one for one in experiment.environment.wrappers if not one.kind.startswith("normalize_")]
    plain = experiment.environment.model_copy(update={"wrappers": wrappers})
    seeds = np.random.SeedSequence(seed).generate_state(episodes).tolist()
    with environment_of(plain, 1) as env:
        opened = open_environment(env)
        acting: Any = _RandomActions(opened, seed)
        played = run_episodes(acting, opened, seeds, 0, Watchers())
    return round(statistics.fmean(one.episode_return for one in played), 2)


class _RandomActions:
    """A behaviour policy with random actions in all lanes of an environment."""

    def __init__(self, env: BatchedEnvironment, seed: int) -> None:
        parts = {name: np.zeros((env.num_envs, *space.shape)) for name, space in parts_of(env.action_space)}
        is_plain = not hasattr(env.action_space, "spaces")
        self._predictions = {"action": next(iter(parts.values())) if is_plain else parts}
        self._random, self._rng = Random(env.action_space), np.random.default_rng(seed)

    def act(self, observation: ArrayTree, timestep: int) -> tuple[ArrayTree, Any]:
        """Actions [N, ...], uniform in their space."""
        return self._random(self._predictions, timestep, self._rng)

    def begin(self, mask: Array) -> None:
        """Do nothing: no state is kept between timesteps."""


def write(results: Path, result: Result, run: Path) -> Path:
    """Write the two files of a seed; returns the JSON file.

    Args:
        results: the folder of results.
        result: the result of the seed.
        run: its run folder.
    """
    path = _path(results, result.experiment, result.seed)
    make_folders(path.parent)
    write_atomically(path.with_suffix(".csv"), _curve(run).encode())
    write_atomically(path, (json.dumps(dataclasses.asdict(result), indent=1) + "\n").encode())
    return path


def read_all(results: Path, name: str) -> list[Result]:
    """Read the results of an experiment, in the order of their seeds; ``ValueError`` as :func:`read`."""
    seeds = sorted(int(path.stem.removeprefix("seed_")) for path in (results / name).glob("seed_*.json"))
    return [found for seed in seeds if (found := read(results, name, seed)) is not None]


def read(results: Path, name: str, seed: int) -> Result | None:
    """Read the result of a seed; None if there is none.

    Raises:
        ValueError: the file is damaged; names it.
    """
    path = _path(results, name, seed)
    try:
        value: Any = json.loads(path.read_text(encoding="utf-8"))
        fields.check("", value, _RESULT)
        return Result(**value)
    except FileNotFoundError:
        return None
    except ValueError as error:
        raise ValueError(f"{path} is damaged: {error}. Remove it to evaluate the run again.") from None


def _path(results: Path, name: str, seed: int) -> Path:
    return results / name / f"seed_{seed}.json"


def _curve(run: Path) -> str:
    """The CSV file of a run: one row for each evaluation during training."""
    episodes, text = read_columns(run), io.StringIO()
    rows = csv.writer(text, lineterminator="\n")
    rows.writerow(("timesteps", "return_mean", "return_std", "training_return"))
    before = 0
    for one in read_evaluations(run):
        now = one.global_timestep
        inside = (episodes.global_timestep > before) & (episodes.global_timestep <= now)
        training = f"{episodes.episode_return[inside].mean():.2f}" if inside.any() else ""
        rows.writerow((one.position, f"{one.episode_return_mean:.2f}", f"{one.episode_return_std:.2f}", training))
        before = now
    return text.getvalue()


def summary(name: str, found: Sequence[Result]) -> dict[str, Any]:
    """Statistics over seeds of an experiment's results (at least one), as plain data."""
    policies = {}
    for policy in ("best", "last"):
        returns = [getattr(one, policy)["episode_return_mean"] for one in found]
        middle = interval(returns, interquartile_mean)
        policies[policy] = {
            "returns": returns,
            "mean": statistics.fmean(returns),
            "interquartile_mean": middle.value,
            "interval": [middle.low, middle.high],
        }
    kept = sorted(one.kept for one in found if one.kept is not None)
    return {
        "experiment": name,
        "seeds": [one.seed for one in found],
        "timesteps": max(one.timesteps for one in found),
        "updates": max(one.updates for one in found),
        "seconds": sum(one.seconds for one in found),
        "references": [{"return": value, "source": source} for value, source in REFERENCES.get(name, ())],
        "kept": {"median": statistics.median(kept), "lowest": kept[0]} if kept else None,
        **policies,
    }


def policies_of(found: Mapping[str, Any]) -> Sequence[str]:
    """The policies of a :func:`summary`: offline learning has no environment to find the best one in."""
    return ("best", "last") if found["timesteps"] else ("last",)


def length_text(found: Mapping[str, Any]) -> str:
    """The length of the runs of a :func:`summary` in timesteps, or in updates, such as ``"3,000 updates"``."""
    return f"{found['timesteps']:,}" if found["timesteps"] else f"{found['updates']:,} updates"


def references_text(found: Mapping[str, Any]) -> str:
    """The references of a :func:`summary`, such as ``"20.5 (its authors)"``; ``"-"`` if there is none."""
    return "; ".join(f"{one['return']:,g} ({one['source']})" for one in found["references"]) or "-"


def interval_text(found: Mapping[str, Any], policy: str) -> str:
    """A policy's interval in a :func:`summary`, such as ``"2.0 to 3.5"``; ``"-"`` of too few seeds for one."""
    return "-" if are_few(len(found["seeds"])) else "{:,.1f} to {:,.1f}".format(*found[policy]["interval"])


def kept_text(found: Mapping[str, Any]) -> str:
    """The shares that last policies kept in a :func:`summary`: median and lowest, such as ``"1.00 (0.98)"``."""
    return "{median:.2f} ({lowest:.2f})".format(**found["kept"]) if found["kept"] else "-"


def table(found: Mapping[str, Any]) -> Table:
    """A :func:`summary` for the terminal, a row for each policy."""
    policies = policies_of(found)
    rows = len(policies)

    def texts(name: str) -> list[str]:
        return [f"{found[policy][name]:,.1f}" for policy in policies]

    bounds = [interval_text(found, policy) for policy in policies]
    kept = [kept_text(found) if policy == "last" else "-" for policy in policies]
    each = [", ".join(f"{value:,.0f}" for value in found[policy]["returns"]) for policy in policies]
    return Table(
        [
            Column("policy", policies, whole=True),
            Column("mean", texts("mean"), right=True, whole=True),
            Column("interquartile mean", texts("interquartile_mean"), right=True, whole=True),
            Column("95 % interval", bounds, right=True, whole=True),
            Column("kept", kept, right=True, whole=True),
            Column("reference", [references_text(found)] * rows, right=True, whole=True),
            Column("minutes", [f"{found['seconds'] / 60:,.0f}"] * rows, right=True, whole=True),
            Column("timesteps", [length_text(found)] * rows, right=True, whole=True),
            Column("of each seed", each),
        ],
        f"{found['experiment']}, {counted(len(found['seeds']), 'seed')}",
    )
