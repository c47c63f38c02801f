"""The command ``axonrl``: its parser. Help and completion load nothing but parsers.

Exit codes: 0 done; 1 failed; 2 the command line, the experiment file or the run folder is invalid; 130 and 143 stopped
by SIGINT and SIGTERM, after saving.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from ...version import __version__
from ..config.shipped import shipped
from ..console import DONE
from . import compare, completion, servers, services
from .arguments import (
    RUNS,
    Command,
    HelpFormatter,
    Parser,
    add_command,
    debug_option,
    experiment_options,
    json_option,
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
_RUN_EXAMPLES = """\
examples:
  axonrl run dqn_cartpole
  axonrl run my.yml --seeds 8 --jobs 2
  axonrl run search.yml --jobs 4               a file with a matrix: a search
  axonrl run my.yml --model-dir runs/second -P learning_rate=1e-3
  axonrl run my.yml --model-dir runs/second --resume --timesteps 2e5
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
  axonrl evaluate runs/dqn_cartpole --checkpoint 12
"""
_ENJOY_EXAMPLES = """\
examples:
  axonrl enjoy runs/dqn_cartpole
  axonrl enjoy runs/dqn_cartpole --video cartpole.mp4 --episodes 1
"""
_RECORD_EXAMPLES = """\
examples:
  axonrl record runs/dqn_cartpole expert.npz --episodes 50
  axonrl record runs/dqn_cartpole mixed.npz --timesteps 20000 --epsilon 0.3

Agents learn from such files without an environment:
  axonrl run bc_cartpole -P data=expert.npz
"""
_EXPORT_EXAMPLES = """\
examples:
  axonrl export runs/dqn_cartpole
  axonrl export runs/dqn_cartpole -o policies/cartpole --policy best
  axonrl export runs/dqn_cartpole --formats litert,onnx

In Python, without TensorFlow:
  policy = axonrl.policies.Policy.load("policies/cartpole")
  action = policy.act(observation)
"""
_COMPILE_EXAMPLES = """\
examples:
  axonrl compile dqn_cartpole -o compiled --seeds 8
  axonrl compile my.yml -o compiled --seeds 100-109 -P learning_rate=1e-3

In Python, without TensorFlow:
  agent = axonrl.Agent(None, memory=..., compiled="compiled")
"""
_NEW_EXAMPLES = """\
examples:
  axonrl new dqn_cartpole
  axonrl new dqn_cartpole experiments/mine.yml
"""
_SCHEMA_EXAMPLES = """\
Editors that support JSON schemas complete and check experiment files with it.
For VS Code's YAML extension:
  axonrl schema > experiment.schema.json
and as the first line of an experiment file:
  # yaml-language-server: $schema=experiment.schema.json
"""
_COMPLETION_EXAMPLES = """\
How to install it:
  bash   eval "$(axonrl completion bash)"        in ~/.bashrc
  zsh    eval "$(axonrl completion zsh)"         in ~/.zshrc, after compinit
  fish   axonrl completion fish | source         in ~/.config/fish/config.fish
"""
_FORMATS = frozenset({"litert", "onnx"})
"""Formats of exports."""


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
    parser, commands, parsers = command_line()
    if completion.VARIABLE in os.environ:
        completion.complete(parser)
    if not argv:
        parser.print_help()
        return DONE
    arguments = _parsed(parser, parsers, argv)
    arguments.command_line = ["axonrl", *argv]

    from .failures import carry_out

    return carry_out(commands[arguments.command], arguments)


def _parsed(
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


def command_line() -> tuple[argparse.ArgumentParser, Mapping[str, Command], Mapping[str, argparse.ArgumentParser]]:
    """Build the parser; returns it, the function of each command, and the parser of each command."""
    parser = Parser(
        prog="axonrl",
        description="Train reinforcement learning agents. A YAML file describes each experiment.",
        epilog=_EXAMPLES,
        formatter_class=HelpFormatter,
    )
    version = f"axonrl {__version__}"
    parser.add_argument("--version", action="version", version=version, help="show the version and exit")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND", title="commands")
    experiment, as_json, debug = experiment_options(), json_option(), debug_option()
    _add_run(add_command(commands, "run", "train, evaluate and report", _RUN_EXAMPLES, [experiment, as_json, debug]))
    about = "check an experiment file and explain what it does"
    add_command(commands, "check", about, _CHECK_EXAMPLES, [experiment, as_json, debug])
    about = "evaluate the agent in a run folder"
    _add_evaluate(add_command(commands, "evaluate", about, _EVALUATE_EXAMPLES, [as_json, debug]))
    about = "watch the agent in a run folder, in a window or as videos"
    _add_enjoy(add_command(commands, "enjoy", about, _ENJOY_EXAMPLES, [debug]))
    about = "write episodes of the agent in a run folder to a file, to learn from"
    _add_record(add_command(commands, "record", about, _RECORD_EXAMPLES, [as_json, debug]))
    about = "export a trained policy, which acts without TensorFlow"
    export = add_command(commands, "export", about, _EXPORT_EXAMPLES, [debug])
    export.add_argument("model_dir", type=Path, metavar="RUN", help="a run folder")
    export.add_argument("-o", "--output", type=Path, metavar="DIR", help="the folder to write; default: RUN/exported")
    export.add_argument("--policy", choices=["best", "last"], help="which policy; default: as in the experiment")
    formats = "what to write, separated by commas: litert, onnx; default: litert"
    export.add_argument("--formats", type=_formats, default=("litert",), metavar="FORMATS", help=formats)
    about = "write an experiment's training program, which trains without TensorFlow"
    _add_compile(add_command(commands, "compile", about, _COMPILE_EXAMPLES, [experiment, as_json, debug]))
    compared = compare.add_commands(commands, as_json, debug)
    about = "list experiments, models, memories, hooks, wrappers and trackers"
    add_command(commands, "list", about, "", [as_json, debug])
    new = add_command(commands, "new", "copy a shipped experiment to a file of your own", _NEW_EXAMPLES, [debug])
    new.add_argument("name", metavar="NAME", choices=shipped(), help="a shipped experiment (see axonrl list)")
    new.add_argument("file", metavar="FILE", nargs="?", type=Path, help="the file to create; default: NAME.yml")
    add_command(commands, "schema", "print the JSON schema of experiment files", _SCHEMA_EXAMPLES, [debug])
    about = "print a shell-completion script"
    shells = add_command(commands, "completion", about, _COMPLETION_EXAMPLES, [debug])
    shells.add_argument("shell", choices=completion.SHELLS, help="the shell")
    local = dict.fromkeys(("run", "check", "evaluate", "enjoy", "record", "export", "compile"), _training)
    info = dict.fromkeys(("list", "new", "schema", "completion"), _listing)
    remote = servers.add_commands(commands, experiment, as_json, debug)
    service, inner = services.add_service(commands, as_json, debug)
    parsers = {**commands.choices, **{f"service {name}": parser for name, parser in inner.items()}}
    serve = services.add_serve(commands, debug)
    parsers["serve"] = commands.choices["serve"]
    return parser, {**local, **compared, **info, **remote, **service, **serve}, parsers


def _formats(text: str) -> tuple[str, ...]:
    found = tuple(part.strip() for part in text.split(","))
    if not {*found} <= _FORMATS:
        raise argparse.ArgumentTypeError(f"must be some of litert, onnx, separated by commas; got {text!r}")
    return found


def _training(arguments: argparse.Namespace) -> int:
    from . import single_run

    with single_run.where_the_run_began(arguments):
        return single_run.COMMANDS[arguments.command](arguments)


def _listing(arguments: argparse.Namespace) -> int:
    from . import choices

    return choices.COMMANDS[arguments.command](arguments)


def _add_run(parser: argparse.ArgumentParser) -> None:
    folder = parser.add_argument_group("run folder")
    folder.add_argument(
        "--model-dir",
        type=Path,
        metavar="DIR",
        help=f"the run folder; default: {RUNS}/NAME, then {RUNS}/NAME-2, ...; with --resume the newest of these",
    )
    existing = folder.add_mutually_exclusive_group()
    existing.add_argument(
        "--resume",
        action="store_true",
        help="continue the existing run; in the file, only train.max_*, learn.max_steps, distributed, evaluate, tracker"
        " and submit may have changed",
    )
    existing.add_argument(
        "--auto-resume",
        action="store_true",
        help="continue the existing run, or start a new one if there is none: for jobs that a scheduler may restart",
    )
    about = "of many seeds or trials, how many run at the same time; default: the number of processors"
    parser.add_argument("--jobs", type=positive, metavar="N", help=about)


def _add_compile(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("-o", "--output", type=Path, metavar="DIR", required=True, help="the folder to write")


def _add_evaluate(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model_dir", type=Path, metavar="RUN", help="a run folder")
    parser.add_argument("--episodes", type=positive, metavar="N", help="how many; default: as in the experiment")
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--policy", choices=["best", "last"], help="which policy; default: as in the experiment")
    which.add_argument(
        "--checkpoint",
        type=_checkpoint,
        metavar="N|best",
        help="the policy of this checkpoint, or the best one, in the episodes in which the training evaluated it: the"
        " numbers are the recorded ones",
    )


def _checkpoint(text: str) -> int | str:
    return text if text == "best" else positive(text)


def _add_enjoy(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model_dir", type=Path, metavar="RUN", help="a run folder")
    parser.add_argument("--episodes", type=positive, metavar="N", default=3, help="how many; default: 3")
    parser.add_argument("--policy", choices=["best", "last"], help="which policy; default: as in the experiment")
    parser.add_argument("--seed", type=natural, metavar="N", help="seed of the episodes; default: the run's")
    parser.add_argument(
        "--video", type=Path, metavar="PATH", help="write videos instead: an .mp4 file, or a folder for several"
    )


def _add_record(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model_dir", type=Path, metavar="RUN", help="a run folder")
    parser.add_argument(
        "output", type=Path, metavar="FILE", help="the file to write, *.npz; one that exists is replaced"
    )
    many = parser.add_mutually_exclusive_group(required=True)
    many.add_argument("--episodes", type=positive, metavar="N", help="how many")
    many.add_argument("--timesteps", type=positive, metavar="N", help="how many; the last episode is cut")
    about = "probability of a random action, in 0 .. 1; default: 0, the greedy policy"
    parser.add_argument("--epsilon", type=share, metavar="P", default=0.0, help=about)
    parser.add_argument("--policy", choices=["best", "last"], help="which policy; default: as in the experiment")
    parser.add_argument("--seed", type=natural, metavar="N", help="seed of the episodes; default: the run's")
