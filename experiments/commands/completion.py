"""Completion of the command line in bash, zsh and fish: argcomplete asks the parser when needed.

So not only commands and options are completed, but also shipped experiments and the params that a file declares.
"""

from __future__ import annotations

import argparse
from typing import Any, Final

from ..config.shipped import experiment_file, shipped

SHELLS: Final = ("bash", "zsh", "fish")
VARIABLE: Final = "_ARGCOMPLETE"
"""Environment variable of a shell that asks for completions."""


def script(shell: str) -> str:
    """The code that a shell runs to complete ``axonrl``."""
    from argcomplete.shell_integration import shellcode

    return str(shellcode(["axonrl"], shell=shell))


def complete(parser: argparse.ArgumentParser) -> None:
    """Answer the shell, and end the process."""
    import argcomplete

    for action in _actions(parser):
        name = "--set" if "--set" in action.option_strings else action.metavar if action.metavar == "N" else action.dest
        if name in _COMPLETERS:
            action.completer = _COMPLETERS[name]  # type: ignore[attr-defined]
    argcomplete.autocomplete(parser, always_complete_options=False)


def _actions(parser: argparse.ArgumentParser) -> list[argparse.Action]:
    found = []
    for action in parser._actions:
        found.append(action)
        if isinstance(action, argparse._SubParsersAction):
            found += [inner for command in action.choices.values() for inner in _actions(command)]
    return found


def _experiments(prefix: str, **_: Any) -> list[str]:
    from argcomplete.completers import FilesCompleter

    return [*shipped(), *FilesCompleter(("yml", "yaml"))(prefix)]


def _folders(prefix: str, **_: Any) -> list[str]:
    from argcomplete.completers import DirectoriesCompleter

    return list(DirectoriesCompleter()(prefix))


def _params(parsed_args: argparse.Namespace, **_: Any) -> list[str]:
    from ..config.files import read
    from ..config.includes import with_includes

    try:
        declared = with_includes(read(experiment_file(parsed_args.file))).values.get("params")
    except (TypeError, ValueError):  # no file yet, or an invalid one
        return []
    return [f"{name}=" for name in declared] if isinstance(declared, dict) else []


def _keys(parsed_args: argparse.Namespace, **_: Any) -> list[str]:
    """The keys of the schema, and those set by the file on the command line."""
    from ...core.yaml_text import flat
    from ..config.files import read
    from ..config.includes import with_includes
    from ..config.schema import ExperimentFile
    from ..config.sections import keys_of

    keys = dict.fromkeys(key for key in keys_of(ExperimentFile) if key not in ("params", "include"))
    try:
        values = with_includes(read(experiment_file(parsed_args.file))).values
    except (TypeError, ValueError):  # no file yet, or an invalid one
        values = {}
    keys |= dict.fromkeys(key for key, _ in flat(dict(values)) if not key.startswith("params"))
    return [f"{key}=" for key in keys]


_COMPLETERS: Final = {
    "file": _experiments,
    "model_dir": _folders,
    "runs": _folders,
    "params": _params,
    "--set": _keys,
    "N": lambda **_: [],
}
