"""Commands of ``axonrl`` and their arguments, as data; and arguments that several commands share."""

from __future__ import annotations

import argparse
import math
import operator
import sys
import textwrap
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeAlias

RUNS: Final = Path("runs")
"""The default folder of new run folders, in the current directory."""

FORMATS: Final = ("litert", "onnx")
"""Formats of exports; the first is the default."""


class HelpFormatter(argparse.RawDescriptionHelpFormatter):
    """Formats help without a heading for commands, and without line breaks at hyphens."""

    def _format_action(self, action: argparse.Action) -> str:
        if isinstance(action, argparse._SubParsersAction):
            return "".join(map(self._format_action, action._get_subactions()))
        return super()._format_action(action)

    def _split_lines(self, text: str, width: int) -> list[str]:
        return textwrap.wrap(" ".join(text.split()), width, break_on_hyphens=False, break_long_words=False)


class Parser(argparse.ArgumentParser):
    """Suggests the nearest name for an unknown one. The parsers of commands are also of this class."""

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is not None and value not in action.choices:
            from ...core.registry import suggestion

            what = "command" if isinstance(action, argparse._SubParsersAction) else "choice"
            raise argparse.ArgumentError(action, f"there is no {what} {value!r}{suggestion(value, action.choices)}")


Declared: TypeAlias = "Callable[[Any], object]"
"""A declared argument or group of arguments: a function that adds it to a parser or a group."""


def argument(*names: str, **options: Any) -> Declared:
    """Declare an argument, as ``add_argument`` takes it."""
    return operator.methodcaller("add_argument", *names, **options)


def group(title: str, *members: Declared) -> Declared:
    """Declare a titled group of arguments."""
    return lambda parser: _add_all(members, parser.add_argument_group(title))


def exclusive(*members: Declared, required: bool = False) -> Declared:
    """Declare arguments of which at most one may be given."""
    return lambda parser: _add_all(members, parser.add_mutually_exclusive_group(required=required))


def _add_all(members: Iterable[Declared], parser: Any) -> None:
    for add in members:
        add(parser)


class Command(NamedTuple):
    """A command of ``axonrl``. The function of its name runs it and returns the exit code.

    Args:
        name: its name on the command line.
        about: what it does, in one line that begins with a verb.
        takes: its arguments.
        examples: printed below its options.
    """

    name: str
    about: str
    takes: Sequence[Declared]
    examples: str = ""

    def parser(self, commands: Any, module: str) -> argparse.ArgumentParser:
        """Add its parser to the result of ``add_subparsers``; the module of its function is imported on use."""
        parser: argparse.ArgumentParser = commands.add_parser(
            self.name,
            help=self.about,
            description=f"{self.about[0].upper()}{self.about[1:]}.",
            epilog=self.examples,
            formatter_class=HelpFormatter,
        )
        parser.set_defaults(module=module)
        _add_all(self.takes, parser)
        return parser


def positive(text: str) -> int:
    """An integer of at least 1."""
    return _integer(text, 1)


def natural(text: str) -> int:
    """An integer of at least 0."""
    return _integer(text, 0)


def _integer(text: str, least: int) -> int:
    if not text.isdecimal() or not least <= int(text) <= sys.maxsize:
        raise argparse.ArgumentTypeError(f"must be an integer of at least {least}, below 2^63, got {text!r}")
    return int(text)


def share(text: str) -> float:
    """A number in 0 .. 1."""
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value <= 1:
        raise argparse.ArgumentTypeError(f"must be a number in 0 .. 1, got {text!r}")
    return value


def finite(text: str) -> float:
    """A finite number."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise argparse.ArgumentTypeError(f"must be a finite number, got {text!r}")
    return value


def _formats(text: str) -> tuple[str, ...]:
    found = tuple(part.strip() for part in text.split(","))
    if not {*found} <= {*FORMATS}:
        raise argparse.ArgumentTypeError(f"must be some of litert, onnx, separated by commas; got {text!r}")
    return found


class _UniquePairs(argparse.Action):
    """Collects pairs, and refuses a duplicate name."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: Any,
        option_string: str | None = None,
    ) -> None:
        """Take a pair."""
        pairs = getattr(namespace, self.dest)
        if values[0] in dict(pairs):
            parser.error(f"duplicate {option_string}: {values[0]} is set already")
        setattr(namespace, self.dest, [*pairs, values])


def _seeds(text: str) -> tuple[str, str]:
    from ..config.seeds import as_yaml

    try:
        return "seeds", as_yaml(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise argparse.ArgumentTypeError(f"must be NAME=VALUE, got {text!r}")
    return name, value


def _replacing(option: str, dest: str, kind: Callable[[str], tuple[str, str]], metavar: str, about: str) -> Declared:
    """Declare an option that takes pairs, each name once."""
    return argument(option, metavar=metavar, dest=dest, action=_UniquePairs, default=[], type=kind, help=about)


def _short_for(option: str, path: str) -> Declared:
    return _replacing(option, "sets", lambda text: (path, text), "N", f"short for --set {path}=N")


JSON: Final = argument("--json", action="store_true", help="print JSON instead of a table")
DEBUG: Final = argument("--debug", action="store_true", help="print the traceback of an error")
EXPERIMENT: Final = (
    argument("file", metavar="FILE", help="a YAML file, or the name of a shipped experiment (see axonrl list)"),
    group(
        "values that replace the file's (repeatable)",
        _replacing("-P", "params", _pair, "NAME=VALUE", "set a param that the file declares"),
        _replacing("--set", "sets", _pair, "PATH=VALUE", "set any other value, in YAML: train.max_timesteps=1e4"),
        _short_for("--seed", "seed"),
        _short_for("--timesteps", "train.max_timesteps"),
        _replacing(
            "--seeds",
            "sets",
            _seeds,
            "SEEDS",
            "many seeds: 100-109, or 3,5,9, or 8 for eight seeds starting at the file's (reproduce: at 100); short for"
            " --set seeds=",
        ),
    ),
)
"""Arguments of every command that takes an experiment file."""
ALONE: Final = (DEBUG,)
WITH_JSON: Final = (JSON, DEBUG)
WITH_FILE: Final = (*EXPERIMENT, JSON, DEBUG)
RUN: Final = argument("model_dir", type=Path, metavar="RUN", help="a run folder")
POLICY: Final = argument("--policy", choices=["best", "last"], help="the policy to use; default: as in the experiment")
FORMATS_OF_EXPORT: Final = argument(
    "--formats",
    type=_formats,
    default=FORMATS[:1],
    metavar="FORMATS",
    help="formats to write, separated by commas: litert, onnx; default: litert",
)
