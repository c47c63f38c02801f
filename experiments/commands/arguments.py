"""Parsers and options that the commands of ``axonrl`` share."""

from __future__ import annotations

import argparse
import functools
import math
import textwrap
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

RUNS: Final = Path("runs")
"""The default folder of new run folders, in the current directory."""

FORMATS: Final = ("litert", "onnx")
"""Formats of exports; the first is the default."""


class HelpFormatter(argparse.RawDescriptionHelpFormatter):
    """Formats help without a heading for commands, and breaks no line at a hyphen."""

    def _format_action(self, action: argparse.Action) -> str:
        if isinstance(action, argparse._SubParsersAction):
            return "".join(map(self._format_action, action._get_subactions()))
        return super()._format_action(action)

    def _split_lines(self, text: str, width: int) -> list[str]:
        return textwrap.wrap(" ".join(text.split()), width, break_on_hyphens=False, break_long_words=False)


class Parser(argparse.ArgumentParser):
    """Suggests the nearest name for an unknown one. The parsers of commands are of this class, too."""

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is not None and value not in action.choices:
            from ...core.registry import suggestion

            what = "command" if isinstance(action, argparse._SubParsersAction) else "choice"
            raise argparse.ArgumentError(action, f"there is no {what} {value!r}{suggestion(value, action.choices)}")


class Command(NamedTuple):
    """A command of ``axonrl``, which a function of its name carries out: it returns the exit code.

    Args:
        name: the word.
        about: what it does, in one line that begins with a verb.
        takes: make parsers whose options it takes too.
        examples: printed below its options.
        add: adds its own arguments.
    """

    name: str
    about: str
    takes: Sequence[Callable[[], argparse.ArgumentParser]]
    examples: str = ""
    add: Callable[[argparse.ArgumentParser], None] | None = None

    def parser(self, commands: Any, module: str) -> argparse.ArgumentParser:
        """Its parser, added to what ``add_subparsers`` returned; the module of its function is imported when called."""
        parser: argparse.ArgumentParser = commands.add_parser(
            self.name,
            help=self.about,
            description=f"{self.about[0].upper()}{self.about[1:]}.",
            epilog=self.examples,
            parents=[make() for make in self.takes],
            formatter_class=HelpFormatter,
        )
        parser.set_defaults(module=module)
        if self.add is not None:
            self.add(parser)
        return parser


def experiment_options() -> argparse.ArgumentParser:
    """The options of every command that takes an experiment file."""
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("file", metavar="FILE", help="a YAML file or a shipped experiment (see axonrl list)")
    values = parser.add_argument_group("values that replace the file's (repeatable)")
    for option, metavar, destination, text in (
        ("-P", "NAME=VALUE", "params", "set a param that the file declares"),
        ("--set", "PATH=VALUE", "sets", "set any other value, in YAML: train.max_timesteps=1e4"),
    ):
        values.add_argument(
            option, metavar=metavar, dest=destination, action=_UniquePairs, default=[], type=_pair, help=text
        )
    for option, path in (("--seed", "seed"), ("--timesteps", "train.max_timesteps")):
        pairs = functools.partial(_pair_of, path)
        values.add_argument(
            option,
            metavar="N",
            dest="sets",
            action=_UniquePairs,
            default=[],
            type=pairs,
            help=f"short for --set {path}=N",
        )
    values.add_argument(
        "--seeds",
        metavar="SEEDS",
        dest="sets",
        action=_UniquePairs,
        default=[],
        type=_seeds,
        help="many seeds: 8 of them, from the file's seed on, or 100-109, or 3,5,9; short for --set seeds=",
    )
    return parser


def json_option() -> argparse.ArgumentParser:
    """``--json``."""
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    return parser


def debug_option() -> argparse.ArgumentParser:
    """``--debug``."""
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("--debug", action="store_true", help="print the traceback of an error")
    return parser


ALONE: Final = (debug_option,)
WITH_JSON: Final = (json_option, debug_option)
WITH_FILE: Final = (experiment_options, json_option, debug_option)


def run_folder(parser: argparse.ArgumentParser, about: str = "a run folder") -> None:
    """The run folder of a command about an existing run."""
    parser.add_argument("model_dir", type=Path, metavar="RUN", help=about)


def policy_choice(parser: Any) -> None:
    """``--policy``, to a parser or a group."""
    parser.add_argument("--policy", choices=["best", "last"], help="which policy; default: as in the experiment")


def formats_choice(parser: argparse.ArgumentParser) -> None:
    """``--formats`` of an export."""
    about = "what to write, separated by commas: litert, onnx; default: litert"
    parser.add_argument("--formats", type=_formats, default=FORMATS[:1], metavar="FORMATS", help=about)


def positive(text: str) -> int:
    """An integer of at least 1."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"must be an integer of at least 1, got {text!r}")
    return int(text)


def natural(text: str) -> int:
    """An integer of at least 0."""
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"must be an integer of at least 0, got {text!r}")
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
    """A number that is not infinite."""
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


def _pair_of(path: str, text: str) -> tuple[str, str]:
    return path, text


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
