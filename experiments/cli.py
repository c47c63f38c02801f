"""The command ``axonrl``. Its help loads neither TensorFlow nor Gymnasium; each subcommand imports what it needs.

Exit codes: 0 done; 1 failed; 2 the command line, the experiment file or the run folder is not usable; 130 and 143
stopped by SIGINT and SIGTERM, after saving.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path

from ..version import __version__
from .files import ExperimentError
from .terminal import load_tensorflow, messages

DONE, FAILED, USAGE = 0, 1, 2
RUNS = Path("runs")
"""Run folders are made here, in the current directory, unless ``--model-dir`` says otherwise."""


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
    arguments = _parser().parse_args(argv)
    arguments.command_line = ["axonrl", *argv]
    with messages():
        try:
            return int(_COMMANDS[arguments.command](arguments))
        except KeyboardInterrupt:
            _say("stopped")
            return 130
        except BrokenPipeError:  # the reader of our output, say head, has gone
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return FAILED
        except Exception as error:
            return _failed(error, arguments)


def _run(arguments: argparse.Namespace) -> int:
    from . import runner, schema
    from .signals import StopOnSignal

    file = _file(arguments.file)
    experiment, document = schema.load(file, dict(arguments.params), dict(arguments.sets))
    _importable(file.parent)
    folder = arguments.model_dir or RUNS / experiment.name
    with StopOnSignal() as signals:
        try:
            load_tensorflow()
            result = runner.run(
                experiment,
                document,
                folder,
                resume=arguments.resume,
                command=arguments.command_line,
                hooks=[signals],
                stopped=lambda: signals.received is not None,
            )
        except KeyboardInterrupt:
            _say(f"stopped at once by {signals.name}; {_where(folder)}")
            return signals.exit_code
        except ExperimentError:
            raise
        except Exception as error:
            return _failed(error, arguments, f"the run failed; {_where(folder)}")
    if signals.received is not None:
        _say(f"stopped by {signals.name} at timestep {result.timesteps:,}; {_where(folder)}")
        return signals.exit_code
    _report(result)
    return DONE


def _report(result: object) -> None:
    from rich.console import Console

    from .report import CURVE, Result, table

    if isinstance(result, Result):
        Console().print(table(result))
        print(f"run folder:     {result.folder}")
        print(f"learning curve: {result.folder / CURVE}")


def _check(arguments: argparse.Namespace) -> int:
    from . import runner, schema

    file = _file(arguments.file)
    experiment, document = schema.load(file, dict(arguments.params), dict(arguments.sets))
    _importable(file.parent)
    load_tensorflow()
    runner.check(experiment, document)
    print(f"{file}: no errors")
    return DONE


def _evaluate(arguments: argparse.Namespace) -> int:
    from . import folder, runner

    for session in folder.read_sessions(arguments.model_dir):
        _importable(Path(str(session.get("file", ""))).parent)
    _importable(Path())
    load_tensorflow()
    results = runner.evaluate(arguments.model_dir, arguments.episodes, arguments.policy)
    if arguments.json:
        print(json.dumps(results))
        return DONE
    from rich.console import Console

    from .report import evaluation_rows, rows_table

    rows = evaluation_rows(results)
    rows["episode length"] = f"{results['episode_length_mean']:,.1f}"
    Console().print(rows_table(str(arguments.model_dir), rows))
    return DONE


def _list(arguments: argparse.Namespace) -> int:
    from .. import registry
    from . import schema

    sections = {"experiments": {name: schema.load(path)[0].description for name, path in schema.shipped().items()}}
    for title, kind in (("models", "model_fn"), ("memories", "memory"), ("hooks", "hook")):
        sections[title] = {name: registry.summary(kind, name) for name in registry.names(kind)}
    width = 2 + max(len(name) for entries in sections.values() for name in entries)
    for title, entries in sections.items():
        print(f"{title}:")
        for name, line in entries.items():
            print(f"  {name:<{width}}{line.partition(chr(10))[0]}".rstrip())
    return DONE


_COMMANDS = {"run": _run, "check": _check, "evaluate": _evaluate, "list": _list}


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="axonrl", description="An Estimator for reinforcement learning.")
    parser.add_argument("--version", action="version", version=f"axonrl {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument("--debug", action="store_true", help="show where an error comes from")

    experiment = argparse.ArgumentParser(add_help=False)
    experiment.add_argument("file", metavar="FILE", help="a YAML file, or the name of a shipped experiment")
    for options, metavar, destination, text in (
        (["-P"], "NAME=VALUE", "params", "give a param that the file declares another value"),
        (["--set"], "PATH=VALUE", "sets", "override any other value, as in train.max_timesteps=1000"),
    ):
        experiment.add_argument(
            *options, metavar=metavar, dest=destination, action="append", default=[], type=_pair, help=text
        )

    run = commands.add_parser("run", parents=[experiment, common], help="train, evaluate and report")
    run.add_argument("--model-dir", type=Path, metavar="DIR", help=f"the run folder (default: {RUNS}/<name>)")
    run.add_argument(
        "--resume",
        action="store_true",
        help="go on with the run in the run folder; only train.max_* and evaluate may differ",
    )
    commands.add_parser("check", parents=[experiment, common], help="look for errors without running anything")
    evaluate = commands.add_parser("evaluate", parents=[common], help="evaluate the agent in a run folder")
    evaluate.add_argument("model_dir", type=Path, metavar="MODEL_DIR", help="the run folder")
    evaluate.add_argument("--episodes", type=_positive, metavar="N", help="default: what the experiment says")
    evaluate.add_argument("--policy", choices=["best", "last"], help="default: what the experiment says")
    evaluate.add_argument("--json", action="store_true", help="print JSON instead of a table")
    commands.add_parser("list", parents=[common], help="list experiments, models, memories and hooks")
    return parser


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise argparse.ArgumentTypeError(f"must be NAME=VALUE, got {text!r}")
    return name, value


def _positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"must be an integer of at least 1, got {text!r}")
    return int(text)


def _file(text: str) -> Path:
    """The file that the user means: a path, or else the name of an experiment that ships."""
    from ..registry import nearest
    from .schema import shipped

    path, experiments = Path(text), shipped()
    if path.is_file() or text not in experiments:
        if not path.exists() and path.name == text and not path.suffix:
            message = "there is neither such a file nor an experiment of this name that ships with axonrl"
            raise ExperimentError(text, message, nearest=nearest(text, experiments))
        return path
    return experiments[text]


def _importable(folder: Path) -> None:
    """Let modules in a folder be imported by name, after all that is installed; so in the current one."""
    from .schema import SHIPPED

    for path in (folder.absolute(), Path.cwd()):
        if path != SHIPPED and str(path) not in sys.path:
            sys.path.append(str(path))


def _where(folder: Path) -> str:
    """Where a stopped run is kept, and how to go on."""
    from .folder import EXPERIMENT

    if (folder / EXPERIMENT).is_file():
        return f"it is saved in {folder}: go on with --resume"
    return "it had not begun, and nothing is kept"


def _failed(error: Exception, arguments: argparse.Namespace, remark: str = "") -> int:
    if arguments.debug:
        traceback.print_exception(error)
    _say(f"error: {_explained(error)}")
    if remark:
        _say(remark)
    return USAGE if isinstance(error, ExperimentError) else FAILED


def _explained(error: Exception) -> str:
    """One paragraph. Errors that are not meant for users say what they are."""
    from ..contracts import BrokenEnvironmentError, CheckpointError, NonFiniteError

    text = " ".join(str(error).split())
    if len(text) > 2000:  # somebody's value is quoted in it
        text = f"{text[:2000]}..."
    meant = (ValueError, OSError, BrokenEnvironmentError, CheckpointError, NonFiniteError)
    if isinstance(error, meant) and text:
        return text
    return f"{type(error).__name__}: {text}; --debug shows where it comes from"


def _say(text: str) -> None:
    print(f"axonrl: {text}", file=sys.stderr)
