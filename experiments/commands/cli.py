"""The command ``axonrl``: what it takes, and what it returns to the shell. What it does stands in commands.py.

Exit codes: 0 done; 1 failed; 2 the command line, the experiment file or the run folder is not usable; 130 and 143
stopped by SIGINT and SIGTERM, after saving. Help and completion load nothing but this file.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, TypeAlias

from ...version import __version__
from ..polyaxon import commands as remote
from . import completion
from . import tracking as tracking_commands
from .subcommands import add_command

RUNS: Final = Path("runs")
"""Run folders are made here, in the current directory, unless ``--model-dir`` says otherwise."""
Command: TypeAlias = "Callable[[argparse.Namespace], int]"
_EXAMPLES = """\
examples:
  axonrl list                                           what there is
  axonrl run dqn_cartpole                               train, evaluate and report
  axonrl run my.yml -P learning_rate=1e-3 --set seed=7  the same with other values
  axonrl run my.yml --resume                            go on with a run that was stopped
  axonrl evaluate runs/dqn_cartpole                     evaluate what was trained

exit codes:
  0 done   1 failed   2 the command line, the file or the folder is not usable
  130, 143 stopped by SIGINT or SIGTERM, after saving
"""
_RUN_EXAMPLES = """\
examples:
  axonrl run dqn_cartpole
  axonrl run my.yml --model-dir runs/second -P learning_rate=1e-3
  axonrl run my.yml --model-dir runs/second --resume --set train.max_timesteps=200000
"""
_CHECK_EXAMPLES = """\
examples:
  axonrl check my.yml
  axonrl check dqn_cartpole --set environment.num_envs=8
"""
_EVALUATE_EXAMPLES = """\
examples:
  axonrl evaluate runs/dqn_cartpole
  axonrl evaluate runs/dqn_cartpole --policy last --episodes 10 --json
"""
_SCHEMA_EXAMPLES = """\
An editor that knows JSON schemas completes and validates experiment files with it.
For VS Code's YAML extension:
  axonrl schema > experiment.schema.json
and as the first line of an experiment file:
  # yaml-language-server: $schema=experiment.schema.json
"""
_COMPLETION_EXAMPLES = """\
Where to put it:
  bash   eval "$(axonrl completion bash)"        in ~/.bashrc
  zsh    eval "$(axonrl completion zsh)"         in ~/.zshrc, after compinit
  fish   axonrl completion fish | source         in ~/.config/fish/config.fish
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line.

    Args:
        argv: the arguments; None for those of the process.

    Returns:
        The exit code.

    Raises:
        SystemExit: from argparse, for ``--help`` and for arguments that it refuses.
    """
    argv = sys.argv[1:] if argv is None else list(argv)
    parser, others = command_line()
    if completion.VARIABLE in os.environ:
        completion.complete(parser)
    arguments = parser.parse_args(argv)
    arguments.command_line = ["axonrl", *argv]

    from .work import COMMANDS, carry_out

    return carry_out({**COMMANDS, **others}[arguments.command], arguments)


def command_line() -> tuple[argparse.ArgumentParser, Mapping[str, Command]]:
    """The parser; and for commands whose work is not in commands.py, the functions that do it."""
    parser = argparse.ArgumentParser(
        prog="axonrl",
        description="An Estimator for reinforcement learning: trains what an experiment file describes.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"axonrl {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND", title="commands")
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument("--debug", action="store_true", help="show where an error comes from")
    experiment, as_json = _experiment(), _as_json()
    _add_run(add_command(commands, "run", "train, evaluate and report", _RUN_EXAMPLES, [experiment, as_json, common]))
    about = "say what a file will do, and what is wrong with it, without training"
    add_command(commands, "check", about, _CHECK_EXAMPLES, [experiment, as_json, common])
    about = "evaluate the agent in a run folder"
    _add_evaluate(add_command(commands, "evaluate", about, _EVALUATE_EXAMPLES, [as_json, common]))
    about = "list experiments, models, memories, hooks, wrappers and trackers"
    add_command(commands, "list", about, "", [as_json, common])
    add_command(commands, "schema", "print the JSON schema of experiment files", _SCHEMA_EXAMPLES, [common])
    about = "print what makes a shell complete axonrl"
    shells = add_command(commands, "completion", about, _COMPLETION_EXAMPLES, [common])
    shells.add_argument("shell", choices=completion.SHELLS, help="the shell")
    return parser, {
        **remote.add_commands(commands, experiment, common),
        **tracking_commands.add_commands(commands, common),
    }


def _experiment() -> argparse.ArgumentParser:
    """What every command takes that is about an experiment file."""
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("file", metavar="FILE", help="a YAML file, or the name of an experiment that axonrl list lists")
    values = parser.add_argument_group("other values than the file's, as often as needed")
    for option, metavar, destination, text in (
        ("-P", "NAME=VALUE", "params", "the value of a param that the file declares"),
        ("--set", "PATH=VALUE", "sets", "any other value, in YAML, as in train.max_timesteps=1000"),
    ):
        values.add_argument(
            option, metavar=metavar, dest=destination, action=_EachOnce, default=[], type=_pair, help=text
        )
    return parser


def _as_json() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    return parser


def _add_run(parser: argparse.ArgumentParser) -> None:
    folder = parser.add_argument_group("run folder")
    folder.add_argument("--model-dir", type=Path, metavar="DIR", help=f"where the run is kept (default: {RUNS}/<name>)")
    there = folder.add_mutually_exclusive_group()
    there.add_argument(
        "--resume",
        action="store_true",
        help="go on with the run that is there; of the file only train.max_*, evaluate, tracker and submit may differ",
    )
    there.add_argument(
        "--auto-resume",
        action="store_true",
        help="the same if there is one, else begin one: for jobs that a scheduler may start again",
    )


def _add_evaluate(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model_dir", type=Path, metavar="MODEL_DIR", help="the run folder")
    parser.add_argument("--episodes", type=_positive, metavar="N", help="how many (default: as the experiment says)")
    parser.add_argument("--policy", choices=["best", "last"], help="which weights (default: as the experiment says)")


class _EachOnce(argparse.Action):
    """Collects pairs; a name that is given twice is a mistake, which would otherwise go unseen."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: Any,
        option_string: str | None = None,
    ) -> None:
        pairs = getattr(namespace, self.dest)
        if values[0] in dict(pairs):
            parser.error(f"{option_string} {values[0]} is given twice")
        setattr(namespace, self.dest, [*pairs, values])


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise argparse.ArgumentTypeError(f"must be NAME=VALUE, got {text!r}")
    return name, value


def _positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"must be an integer of at least 1, got {text!r}")
    return int(text)
