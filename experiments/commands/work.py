"""What the commands of ``axonrl`` do. Each imports what it needs; cli.py says what they take."""

from __future__ import annotations

import argparse
import errno
import io
import json
import math
import os
import sys
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ..errors import ExperimentError
from ..language.shipped import SHIPPED, experiment_file, shipped
from .terminal import load_tensorflow, messages, tell

if TYPE_CHECKING:
    from ..language.files import Document
    from ..language.schema import Experiment
    from ..running.report import Result

DONE, FAILED, USAGE, INTERRUPTED, TERMINATED = 0, 1, 2, 130, 143


def carry_out(command: Callable[[argparse.Namespace], int], arguments: argparse.Namespace) -> int:
    """Run a command, and say what went wrong in one line.

    Args:
        command: what to run.
        arguments: its arguments.

    Returns:
        The exit code.
    """
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # a terminal without the sign ± is no reason to fail after a training
    with messages():
        try:
            return command(arguments)
        except KeyboardInterrupt:
            say("stopped")
            return INTERRUPTED
        except BrokenPipeError:  # the reader of our output, say head, has gone
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return FAILED
        except Exception as error:
            return _failed(error, arguments)
        finally:
            try:
                sys.stderr.flush()
            except OSError:  # Python would try again at its end, and return 120
                os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stderr.fileno())


def _run(arguments: argparse.Namespace) -> int:
    from ..running import runner
    from ..running.folder import EXPERIMENT
    from ..running.signals import StopOnSignal

    experiment, document = _loaded(arguments)
    folder = arguments.model_dir or _folder(experiment)
    resume = arguments.resume or (arguments.auto_resume and (folder / EXPERIMENT).is_file())
    with StopOnSignal() as signals:
        try:
            load_tensorflow()
            result = runner.run(
                experiment,
                document,
                folder,
                resume=resume,
                command=arguments.command_line,
                hooks=[signals],
                stopped=lambda: "" if signals.received is None else f"{signals.name} came",
            )
        except KeyboardInterrupt:
            say(f"stopped at once by {signals.name}; {_where(folder, signals.began)}")
            return signals.exit_code
        except ExperimentError:
            raise
        except Exception as error:
            return _failed(error, arguments, f"the run failed; {_where(folder, signals.began)}")
    if result.stopped:
        how = f"{result.stopped}," if signals.received is None else f"stopped by {signals.name}"
        say(f"{how} at timestep {result.timesteps:,}; {_where(folder, signals.began)}")
        return TERMINATED if signals.received is None else signals.exit_code
    _report(result, arguments.json)
    return DONE


def _report(result: Result, as_json: bool) -> None:
    from ..running.report import CURVE, table

    curve = result.folder / CURVE
    if as_json:
        print_json({**{name: value for name, value in vars(result).items() if value != ""}, "learning_curve": curve})
        return
    print_table(table(result))
    print(f"run folder:     {result.folder}")
    print(f"learning curve: {curve}")


def _check(arguments: argparse.Namespace) -> int:
    from ..running import runner
    from ..running.explain import rows
    from ..running.report import rows_table

    experiment, document = _loaded(arguments)
    load_tensorflow()
    found = runner.check(experiment, document, _folder(experiment))
    if arguments.json:
        print_json(found)
        return DONE
    print_table(rows_table(experiment.name, rows(found), justify="left"))
    print(f"{document.file}: no errors")
    return DONE


def _evaluate(arguments: argparse.Namespace) -> int:
    from ..running import folder, runner
    from ..running.report import evaluation_rows, rows_table

    folder.read_experiment(arguments.model_dir)
    importable_for(arguments.model_dir)
    load_tensorflow()
    results = runner.evaluate(arguments.model_dir, arguments.episodes, arguments.policy)
    if arguments.json:
        print_json(results)
        return DONE
    rows = evaluation_rows(results)
    rows["episode length"] = f"{results['episode_length_mean']:,.1f}"
    print_table(rows_table(str(arguments.model_dir), rows))
    return DONE


def _list(arguments: argparse.Namespace) -> int:
    sections = _known()
    if arguments.json:
        print_json(sections)
        return DONE
    width = 2 + max(len(name) for entries in sections.values() for name in entries)
    for title, entries in sections.items():
        print(f"{title}:")
        for name, line in entries.items():
            print(f"  {name:<{width}}{line}".rstrip())
    return DONE


def _known() -> dict[str, dict[str, str]]:
    """Everything that has a name, with a line about each."""
    from ... import registry
    from ...environments import wrapping
    from ..language import schema

    sections = {"experiments": {name: schema.load(path)[0].description for name, path in shipped().items()}}
    kinds = {"models": "model_fn", "memories": "memory", "hooks": "hook", "trackers": "tracker"}
    for title, kind in kinds.items():
        sections[title] = {name: registry.summary(kind, name) for name in registry.names(kind)}
    sections["wrappers"] = {name: getattr(wrapping, name).__doc__ for name in sorted(wrapping.NAMES)}
    return {
        title: {name: line.partition("\n")[0] for name, line in entries.items()} for title, entries in sections.items()
    }


def _schema(arguments: argparse.Namespace) -> int:
    from ..language.json_schema import experiment_schema

    print_json(experiment_schema())
    return DONE


def _completion(arguments: argparse.Namespace) -> int:
    from .completion import script

    print(script(arguments.shell), end="")
    return DONE


COMMANDS: Final[Mapping[str, Callable[[argparse.Namespace], int]]] = {
    "run": _run,
    "check": _check,
    "evaluate": _evaluate,
    "list": _list,
    "schema": _schema,
    "completion": _completion,
}
"""What carries out the commands whose work is here."""


def _loaded(arguments: argparse.Namespace) -> tuple[Experiment, Document]:
    """The experiment of a command that takes a file; modules beside the file can be imported from here on."""
    from ..language import schema

    file = experiment_file(arguments.file)
    loaded = schema.load(file, dict(arguments.params), dict(arguments.sets))
    _importable(file.parent)
    return loaded


def _folder(experiment: Experiment) -> Path:
    from .cli import RUNS

    return RUNS / experiment.name


def importable_for(folder: Path) -> None:
    """Let modules be imported by name that lay beside the experiment file of the run in a folder."""
    from ..running.folder import read_sessions

    for session in read_sessions(folder):
        _importable(Path(str(session.get("file", ""))).parent)
    _importable(Path())


def _importable(folder: Path) -> None:
    """Let modules in a folder be imported by name, after all that is installed; so in the current one."""
    for path in (folder.absolute(), Path.cwd()):
        if path != SHIPPED and str(path) not in sys.path:
            sys.path.append(str(path))


def print_table(table: Any) -> None:
    """Show a table of rich's on the terminal."""
    from rich.console import Console

    Console().print(table)


def print_json(values: Mapping[str, Any]) -> None:
    """Print what a script reads: null for what is not finite."""
    print(json.dumps(_finite(values), indent=2, default=str))


def _finite(value: Any) -> Any:
    """JSON has neither NaN nor infinity."""
    if isinstance(value, Mapping):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _where(folder: Path, began: bool) -> str:
    """Where a stopped run is kept, and how to go on."""
    from ..running.folder import EXPERIMENT

    if (folder / EXPERIMENT).is_file():
        return f"it is saved in {folder}: go on with --resume"
    return f"its folder {folder} is not there any more" if began else "it had not begun, and nothing is kept"


def _failed(error: Exception, arguments: argparse.Namespace, remark: str = "") -> int:
    if arguments.debug:
        traceback.print_exception(error)
    say(f"error: {_explained(error)}")
    if remark:
        say(remark)
    return USAGE if isinstance(error, ExperimentError) else FAILED


def _explained(error: Exception) -> str:
    """One paragraph. Errors that are not meant for users say what they are."""
    from ...errors import BrokenEnvironmentError, CheckpointError, NonFiniteError

    text = " ".join(str(error).split())
    if isinstance(error, OSError) and error.strerror:  # without its number
        text = ": ".join(str(part) for part in (error.filename, error.strerror) if part)
    if len(text) > 2000:  # somebody's value is quoted in it
        text = f"{text[:2000]}..."
    meant = (ValueError, OSError, BrokenEnvironmentError, CheckpointError, NonFiniteError)
    if text and (isinstance(error, meant) or os.strerror(errno.ENOSPC) in text):  # TensorFlow has its own full disk
        return text
    return f"{type(error).__name__}: {text}; --debug shows where it comes from"


def say(text: str) -> None:
    """Tell the user something that is not the command's output."""
    tell(f"axonrl: {text}")
