"""How a command of ``axonrl`` is added to its parser: what those in cli.py, remote.py and tracking/ have in common."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any


def add_command(
    commands: Any, name: str, about: str, examples: str, parents: Sequence[argparse.ArgumentParser]
) -> argparse.ArgumentParser:
    """Add a command.

    Args:
        commands: what ``add_subparsers`` returned.
        name: the command.
        about: what it does, in a line that begins with a verb.
        examples: shown below its options as they stand.
        parents: parsers whose options it has, too.

    Returns:
        Its parser.
    """
    parser: argparse.ArgumentParser = commands.add_parser(
        name,
        help=about,
        description=f"{about[0].upper()}{about[1:]}.",
        epilog=examples,
        parents=parents,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    return parser
