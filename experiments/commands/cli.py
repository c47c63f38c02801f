"""The command ``axonrl``: its parser. Help and completion load only parsers.

Exit codes: 0 done; 1 failed; 2 the command line, the experiment file or the run folder is invalid; 130 and 143 stopped
by SIGINT and SIGTERM, after saving.
"""

from __future__ import annotations

import argparse
import importlib
import os
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from ...version import __version__
from ..config.shipped import shipped
from ..console import DONE
from . import compare, completion, servers, services
from .arguments import (
    ALONE,
    FORMATS_OF_EXPORT,
    POLICY,
    RUN,
    RUNS,
    WITH_FILE,
    WITH_JSON,
    Command,
    HelpFormatter,
    Parser,
    argument,
    exclusive,
    group,
    natural,
    positive,
    share,
)

_EXAMPLES = """\
examples:
  axonrl list                                  what is available
  axonrl run dqn_cartpole                      train, evaluate and report
  axonrl enjoy runs/dqn_cartpole               watch the trained agent
  axonrl ls                                    list runs, with results
  axonrl new dqn_cartpole my.yml               copy a shipped experiment
  axonrl run my.yml -P learning_rate=1e-3      train with another value
  axonrl run my.yml --resume                   continue a run that was stopped

exit codes:
  0 done   1 failed   2 invalid command line, experiment file or run folder
  130, 143 stopped by SIGINT (Ctrl-C) or SIGTERM, after saving
"""
_RUN = """\
examples:
  axonrl run dqn_cartpole
  axonrl run my.yml --seeds 8 --jobs 2
  axonrl run search.yml --jobs 4               a file with a matrix: a search
  axonrl run my.yml --model-dir runs/second -P learning_rate=1e-3
  axonrl run my.yml --model-dir runs/second --resume --timesteps 2e5
"""
_CHECK = """\
examples:
  axonrl check my.yml
  axonrl check dqn_cartpole --set environment.num_envs=8
"""
_CHECK_ENV = """\
examples:
  axonrl check-env CartPole-v1
  axonrl check-env my_package.grid:Grid --episodes 20
  axonrl check-env sisl/pursuit-v5
"""
_EVALUATE = """\
examples:
  axonrl evaluate runs/dqn_cartpole
  axonrl evaluate runs/dqn_cartpole --policy last --episodes 10 --json
  axonrl evaluate runs/dqn_cartpole --checkpoint 12
"""
_ENJOY = """\
examples:
  axonrl enjoy runs/dqn_cartpole
  axonrl enjoy runs/dqn_cartpole --video cartpole.mp4 --episodes 1
"""
_RECORD = """\
examples:
  axonrl record runs/dqn_cartpole expert.npz --episodes 50
  axonrl record runs/dqn_cartpole mixed.npz --timesteps 20000 --epsilon 0.3

Agents learn from such files without an environment:
  axonrl run bc_cartpole -P data=expert.npz
"""
_EXPORT = """\
examples:
  axonrl export runs/dqn_cartpole
  axonrl export runs/dqn_cartpole -o policies/cartpole --policy best
  axonrl export runs/dqn_cartpole --formats litert,onnx

In Python, without TensorFlow:
  policy = axonrl.policies.Policy.load("policies/cartpole")
  action = policy.act(observation)
"""
_COMPILE = """\
examples:
  axonrl compile dqn_cartpole
  axonrl compile dqn_cartpole -o compiled --seeds 8
  axonrl compile my.yml -o compiled --seeds 100-109 -P learning_rate=1e-3

In Python, without TensorFlow:
  agent = axonrl.Agent(None, memory=..., compiled="compiled")
"""
_NEW = """\
examples:
  axonrl new dqn_cartpole
  axonrl new dqn_cartpole experiments/mine.yml
"""
_SCHEMA = """\
Editors that support JSON schemas use it to complete and check experiment files.
For VS Code's YAML extension:
  axonrl schema > experiment.schema.json
and as the first line of an experiment file:
  # yaml-language-server: $schema=experiment.schema.json
"""
_COMPLETION = """\
How to install it:
  bash   eval "$(axonrl completion bash)"        in ~/.bashrc
  zsh    eval "$(axonrl completion zsh)"         in ~/.zshrc, after compinit
  fish   axonrl completion fish | source         in ~/.config/fish/config.fish
"""
_REPRODUCE = """\
examples:
  axonrl reproduce ppo_hopper                  seeds 100 to 109; skips seeds that have a result
  axonrl reproduce ppo_hopper --seeds 100-102 --jobs 2 --timesteps 3e6 --set name=ppo_hopper_3m
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line.

    Args:
        argv: the arguments; None for those of the process.

    Returns:
        The exit code.

    Raises:
        SystemExit: from argparse, for ``--help`` and for invalid arguments.
    """
    argv = sys.argv[1:] if argv is None else list(argv)
    parser, parsers = command_line()
    if completion.VARIABLE in os.environ:
        completion.complete(parser)
    if not argv:
        parser.print_help()
        return DONE
    arguments = _parse_arguments(parser, parsers, argv)
    arguments.command_line = ["axonrl", *argv]

    from .terminal import carry_out

    return carry_out(_call, arguments)


def _call(arguments: argparse.Namespace) -> int:
    module = importlib.import_module(arguments.module, __package__)
    code: int = getattr(module, arguments.command.replace("-", "_"))(arguments)
    return code


def _parse_arguments(
    parser: argparse.ArgumentParser, parsers: Mapping[str, argparse.ArgumentParser], argv: Sequence[str]
) -> argparse.Namespace:
    """The arguments; an unknown option is refused with the nearest one."""
    arguments, unknown = parser.parse_known_args(argv)
    if unknown:
        command = parsers[" ".join([arguments.command, *filter(None, [getattr(arguments, "service_command", None)])])]
        options = re.findall(r"--[a-z][a-z-]*", command.format_help())
        from ...core.checks import did_you_mean

        command.error(f"unknown argument: {unknown[0]}{did_you_mean(unknown[0].partition('=')[0], options)}")
    return arguments


def command_line() -> tuple[argparse.ArgumentParser, Mapping[str, argparse.ArgumentParser]]:
    """Build the parser; returns it, and the parser of each command."""
    parser = Parser(
        prog="axonrl",
        description="Train reinforcement learning agents. A YAML file describes each experiment.",
        epilog=_EXAMPLES,
        formatter_class=HelpFormatter,
    )
    version = f"axonrl {__version__}"
    parser.add_argument("--version", action="version", version=version, help="show the version and exit")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND", title="commands")
    parsers = {one.name: one.parser(commands, module) for module, several in COMMANDS.items() for one in several}
    return parser, parsers | services.add_commands(commands)


def _checkpoint(text: str) -> int | str:
    return text if text == "best" else positive(text)


_JOBS: Final = "maximum of concurrent runs; default: the number of processors"
_RUN_ARGUMENTS: Final = (
    *WITH_FILE,
    group(
        "run folder",
        argument(
            "--model-dir",
            type=Path,
            metavar="DIR",
            help=f"the run folder; default: {RUNS}/NAME, then {RUNS}/NAME-2, ...; with --resume the newest of these",
        ),
        exclusive(
            argument(
                "--resume",
                action="store_true",
                help="continue the existing run; in the file, only seeds, train.max_*, learn.max_steps, distributed,"
                " evaluate, tracker and submit may have changed",
            ),
            argument(
                "--auto-resume",
                action="store_true",
                help="continue the existing run, or start a new one if there is none: for jobs that a scheduler may"
                " restart",
            ),
        ),
    ),
    argument("--jobs", type=positive, metavar="N", help=f"for many seeds or trials: {_JOBS}"),
)
_REPRODUCE_ARGUMENTS: Final = (
    *WITH_FILE,
    argument("--jobs", type=positive, metavar="N", help=_JOBS),
    argument(
        "--results",
        type=Path,
        metavar="DIR",
        default=Path("docs", "results"),
        help="the folder for NAME/seed_N.json and NAME/seed_N.csv; default: docs/results",
    ),
)
_OUTPUT: Final = "the folder to write; default: the cache, where runs of built-in models find it"
_COMPILE_ARGUMENTS: Final = (*WITH_FILE, argument("-o", "--output", type=Path, metavar="DIR", help=_OUTPUT))
_CHECK_ENV_ARGUMENTS: Final = (
    *WITH_JSON,
    argument("id", metavar="ID", help="a Gymnasium id, module:Class, or module:parallel_env for PettingZoo"),
    argument("--episodes", type=positive, metavar="N", default=5, help="number of random episodes; default: 5"),
    argument("--seed", type=natural, metavar="N", default=0, help="seed of episodes and actions; default: 0"),
)
_SEED: Final = argument("--seed", type=natural, metavar="N", help="seed of the episodes; default: the run's")
_EVALUATE_ARGUMENTS: Final = (
    *(*WITH_JSON, RUN),
    argument("--episodes", type=positive, metavar="N", help="number of episodes; default: as in the experiment"),
    argument(
        "--explore",
        action=argparse.BooleanOptionalAction,
        default=None,
        help="act as in training, or greedily; default: as in the experiment",
    ),
    exclusive(
        POLICY,
        argument(
            "--checkpoint",
            type=_checkpoint,
            metavar="N|best",
            help="repeat the evaluation that training made of this checkpoint, or of the best policy: same episodes,"
            " same numbers",
        ),
    ),
)
_ENJOY_ARGUMENTS: Final = (
    *(*ALONE, RUN),
    argument("--episodes", type=positive, metavar="N", default=3, help="number of episodes; default: 3"),
    *(POLICY, _SEED),
    argument("--video", type=Path, metavar="PATH", help="write videos instead: an .mp4 file, or a folder for several"),
)
_RECORD_ARGUMENTS: Final = (
    *(*WITH_JSON, RUN),
    argument("output", type=Path, metavar="FILE", help="the file to write, *.npz; an existing one is replaced"),
    exclusive(
        argument("--episodes", type=positive, metavar="N", help="number of episodes"),
        argument("--timesteps", type=positive, metavar="N", help="number of timesteps; the last episode is truncated"),
        required=True,
    ),
    argument(
        "--epsilon",
        type=share,
        metavar="P",
        default=0.0,
        help="probability of a random action, in 0 .. 1; default: 0, the greedy policy",
    ),
    *(POLICY, _SEED),
)
_EXPORT_ARGUMENTS: Final = (
    *(*ALONE, RUN),
    argument("-o", "--output", type=Path, metavar="DIR", help="the folder to write; default: RUN/exported"),
    *(POLICY, FORMATS_OF_EXPORT),
)
_NEW_ARGUMENTS: Final = (
    *ALONE,
    argument("name", metavar="NAME", choices=shipped(), help="a shipped experiment (see axonrl list)"),
    argument("file", metavar="FILE", nargs="?", type=Path, help="the file to create; default: NAME.yml"),
)
_CACHE_ARGUMENTS: Final = (*WITH_JSON, argument("--clear", action="store_true", help="remove all programs"))
_COMPLETION_ARGUMENTS: Final = (*ALONE, argument("shell", choices=completion.SHELLS, help="the shell"))

COMMANDS: Final = {
    ".single_run": (
        Command("run", "train, evaluate and report", _RUN_ARGUMENTS, _RUN),
        Command("check", "check an experiment file and explain what it does", WITH_FILE, _CHECK),
        Command("evaluate", "evaluate the agent in a run folder", _EVALUATE_ARGUMENTS, _EVALUATE),
        Command("enjoy", "watch the agent in a run folder, in a window or as videos", _ENJOY_ARGUMENTS, _ENJOY),
        Command(
            "record", "record episodes of the agent in a run folder, for offline learning", _RECORD_ARGUMENTS, _RECORD
        ),
        Command("export", "export a trained policy that acts without TensorFlow", _EXPORT_ARGUMENTS, _EXPORT),
        Command(
            "compile",
            "compile an experiment's training program, which runs without TensorFlow",
            _COMPILE_ARGUMENTS,
            _COMPILE,
        ),
    ),
    ".environment": (
        Command("check-env", "check an environment with random actions", _CHECK_ENV_ARGUMENTS, _CHECK_ENV),
    ),
    ".reproduce": (
        Command("reproduce", "run ten seeds, and write their results to files", _REPRODUCE_ARGUMENTS, _REPRODUCE),
    ),
    ".compare": compare.COMMANDS,
    ".choices": (
        Command("list", "list experiments, models, memories, hooks, wrappers and trackers", WITH_JSON),
        Command("new", "copy a shipped experiment to a file of your own", _NEW_ARGUMENTS, _NEW),
        Command("schema", "print the JSON schema of experiment files", ALONE, _SCHEMA),
        Command("cache", "list the programs in the cache, or remove them", _CACHE_ARGUMENTS),
        Command("completion", "print a shell-completion script", _COMPLETION_ARGUMENTS, _COMPLETION),
    ),
    **servers.COMMANDS,
}
"""Commands by the module whose functions run them."""
