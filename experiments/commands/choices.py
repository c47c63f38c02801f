"""``axonrl list``, ``new``, ``schema``, ``cache`` and ``completion``: what there is, for people, editors and shells."""

from __future__ import annotations

import argparse
import datetime
import textwrap
from pathlib import Path

from ...core.checks import counted
from ...run_dir import programs
from ..config.shipped import SHIPPED, shipped
from ..console import DONE, output_console, print_json
from ..errors import ExperimentError
from .completion import script


def list(arguments: argparse.Namespace) -> int:
    """Print all names, each with a line about it."""
    sections = _names()
    if arguments.json:
        print_json(sections)
        return DONE
    from rich.text import Text

    console = output_console(highlight=False, markup=False)  # colours only on a terminal
    for title, entries in sections.items():
        console.print(Text(f"{title}:", style="bold"))
        indent = min(4 + max(map(len, entries), default=0), console.width // 2)
        for name, line in entries.items():
            first, *rest = textwrap.wrap(line, max(console.width - indent, 20), break_on_hyphens=False) or [""]
            if len(name) > indent - 4:  # a line of its own
                first, rest = "", [first, *rest]
            console.print(Text.assemble("  ", (name.ljust(indent - 2), "cyan"), first), soft_wrap=True)
            for more in rest:
                console.print(Text(" " * indent + more), soft_wrap=True)
    console.print("\nCopy an experiment to a file of your own: axonrl new NAME")
    console.print(f"The files are in {SHIPPED}", soft_wrap=True)
    return DONE


def new(arguments: argparse.Namespace) -> int:
    """Copy a shipped experiment to a file that does not exist yet."""
    file = arguments.file or Path(f"{arguments.name}.yml")
    try:
        with file.open("xb") as copy:
            copy.write(shipped()[arguments.name].read_bytes())
    except FileExistsError:
        raise ExperimentError(str(file), "already exists; choose another file: axonrl new NAME FILE") from None
    print(f"Created {file}. Train it with: axonrl run {file}")
    return DONE


def _names() -> dict[str, dict[str, str]]:
    from ...core import registry
    from ...environments import wrappers, wrapping
    from ..config import schema

    sections = {"experiments": {name: schema.load(path)[0].description for name, path in shipped().items()}}
    kinds = {"models": "model_fn", "memories": "memory", "hooks": "hook", "trackers": "tracker"}
    for title, kind in kinds.items():
        sections[title] = {name: registry.summary(kind, name) for name in registry.names(kind)}
    sections["wrappers"] = {name: getattr(wrappers, name).__doc__ for name in sorted(wrapping.NAMES)}
    return {
        title: {name: line.partition("\n")[0].replace("``", "'") for name, line in entries.items()}
        for title, entries in sections.items()
    }


def schema(arguments: argparse.Namespace) -> int:
    """Print the JSON schema of experiment files."""
    from ..config.json_schema import experiment_schema

    print_json(experiment_schema())
    return DONE


def completion(arguments: argparse.Namespace) -> int:
    """Print the code with which a shell completes ``axonrl``."""
    print(script(arguments.shell), end="")
    return DONE


def cache(arguments: argparse.Namespace) -> int:
    """List the programs in the cache, most recently used first, or remove all."""
    found = programs.entries()
    if arguments.clear:
        for entry in found:
            programs.remove(entry.path)
    listed = [{**entry.summary(), "bytes": entry.size, "used": entry.used / 1e9} for entry in found]
    if arguments.json:
        print_json({"folder": programs.shared_folder(), "max_bytes": programs.max_bytes(), "entries": listed})
        return DONE
    for one in listed:
        used = datetime.datetime.fromtimestamp(one["used"]).astimezone()
        print(f"{used:%Y-%m-%d %H:%M}  {one['bytes'] / 2**10:8,.0f} KiB  {one['what']}")
    size, largest = sum(entry.size for entry in found) / 2**20, programs.max_bytes() / 2**20
    done = "removed" if arguments.clear else f"of at most {largest:,g} MiB"
    print(f"{counted(len(found), 'program')} in {programs.shared_folder()}: {size:,.1f} MiB {done}")
    return DONE
