"""``python -m axonrl.compat.tensorforce.run``: runs an agent in an environment."""

from __future__ import annotations

import argparse
import importlib
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from .execution.runner import Runner
from .spaces.errors import TensorforceError, integer, refuse

_LISTS: Final = ("rewards", "timesteps", "seconds", "agent_seconds")
"""Values of each episode written to ``--path``."""
_OF_RUN: Final = (
    *("num_episodes", "num_timesteps", "num_updates", "batch_agent_calls", "sync_timesteps", "sync_episodes"),
    *("mean_horizon", "save_best_agent"),
)
"""Arguments of ``Runner.run``."""
_USAGE: Final = 2


def parser() -> argparse.ArgumentParser:
    """The command line."""
    made = argparse.ArgumentParser(prog="python -m axonrl.compat.tensorforce.run", description=__doc__)
    made.add_argument("-a", "--agent", required=True, help="name, JSON file or module.Class of the agent")
    made.add_argument("-n", "--network", help="name, JSON file or module.Class of its network")
    made.add_argument("-e", "--environment", help="name, JSON file or module.Class of the environment")
    made.add_argument("-l", "--level", help="level of the environment, such as CartPole-v1")
    made.add_argument("-m", "--max-episode-timesteps", type=int, help="time limit of an episode")
    made.add_argument("--visualize", action="store_true", help="show the environment")
    made.add_argument("--visualize-directory", metavar="DIRECTORY", help="where to write a video of each episode")
    made.add_argument("-p", "--episodes", dest="num_episodes", type=int, help="number of episodes")
    made.add_argument("-t", "--timesteps", dest="num_timesteps", type=int, help="number of timesteps")
    made.add_argument("-u", "--updates", dest="num_updates", type=int, help="number of updates")
    made.add_argument("-v", "--evaluation", action="store_true", help="the last environment evaluates")
    made.add_argument("--num-parallel", type=int, help="number of environments, each in a process")
    made.add_argument("--remote", help="multiprocessing: also a single environment in a process")
    made.add_argument("--blocking", action="store_true", help="wait for an environment in a process before others step")
    made.add_argument("--batch-agent-calls", action="store_true", help="act and observe for all of them at once")
    made.add_argument("--sync-timesteps", action="store_true", help="environments wait for each other at each timestep")
    made.add_argument("--sync-episodes", action="store_true", help="new episodes begin when all have ended")
    made.add_argument("--mean-horizon", type=int, default=1, help="episodes over which means are taken")
    made.add_argument("--save-best-agent", metavar="DIRECTORY", help="where to save the best agent of the evaluation")
    made.add_argument("-r", "--repeat", type=int, default=1, help="number of runs, each with a new agent")
    made.add_argument("--path", help="where to write each run's episodes, as <path>.json")
    made.add_argument("--import-modules", default="", help="modules to import first, separated by commas")
    return made


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line.

    Returns:
        The exit code: 0, or 2 for an invalid argument, which is named on standard error.
    """
    given = parser().parse_args(arguments)
    try:
        integer("--repeat", given.repeat, at_least=1)
        path = _writable(given.path)
        for module in filter(None, given.import_modules.split(",")):
            importlib.import_module(module.strip())
        results = [_run_once(given) for _ in range(given.repeat)]
    except (TensorforceError, ImportError) as error:
        print(f"error: {error}", file=sys.stderr)
        return _USAGE
    if path is not None:
        path.write_text(json.dumps({name: [result[name] for result in results] for name in _LISTS}), encoding="utf-8")
    return 0


def _writable(given: str | None) -> Path | None:
    """File for the results; its folder is created now, so that an error comes before the run."""
    if given is None:
        return None
    path = Path(f"{given}.json")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        refuse("--path", f"cannot be written to the folder {path.parent}: {error.strerror}", given)
    return path


def _run_once(given: argparse.Namespace) -> dict[str, Any]:
    agent = given.agent if given.network is None else {"agent": given.agent, "network": given.network}
    optional = {name: getattr(given, name) for name in ("level", "visualize", "visualize_directory")}
    environment = {"environment": given.environment, **{name: value for name, value in optional.items() if value}}
    with Runner(
        agent=agent,
        environment=environment,
        max_episode_timesteps=given.max_episode_timesteps,
        evaluation=given.evaluation,
        num_parallel=given.num_parallel,
        remote="multiprocessing" if given.remote is None and given.num_parallel is not None else given.remote,
        blocking=given.blocking,
    ) as runner:
        runner.run(**{name: getattr(given, name) for name in _OF_RUN})
        return {name: getattr(runner, f"episode_{name}") for name in _LISTS}


if __name__ == "__main__":
    sys.exit(main())
