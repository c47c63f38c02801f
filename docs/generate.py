"""Generate parts of the pages from the code, and notebooks from the pages.

``python -m axonrl.docs.generate`` does so. A generated part lies between two
comments, ``<!-- generated: name arguments -->`` and ``<!-- end -->``. A test fails
if a page or a notebook is out of date.
"""

from __future__ import annotations

import argparse
import dataclasses
import functools
import importlib
import inspect
import json
import pkgutil
import posixpath
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

from .tables import markdown

DOCS: Final = Path(__file__).resolve().parent
_PART: Final = re.compile(
    r"(<!-- generated: (\w+) ?([^>]*?) -->\n).*?(<!-- end -->)", re.DOTALL
)
NOTEBOOKS: Final = {
    "quickstart": "tutorials/first_agent.md",
    "own_environment": "tutorials/own_environment.md",
    "own_model": "tutorials/own_model.md",
    "many_runs": "tutorials/many_runs.md",
}
"""Notebooks in ``examples/``, and the pages that they are made of."""
_INSTALL: Final = """\
SOURCE = "axonrl"  # or git+https://... of the copy that this notebook is from

try:
    import axonrl
except ModuleNotFoundError:
    %pip install --quiet {SOURCE}
"""
_BLOCK: Final = re.compile(r"^```(python|console|yaml)\n(.*?)^```$", re.M | re.S)
_LINK: Final = re.compile(r"\]\((?!https?:|#)([^)]+)\)")
_ROLE: Final = re.compile(r":[a-z]+:`~?\.*(?:[\w.]+\.)?([^`.]+)`")


def regenerate(text: str) -> str:
    """A page with its generated parts as the code has them now."""

    def generated(part: re.Match[str]) -> str:
        return f"{part[1]}\n{_GENERATORS[part[2]](*part[3].split())}\n\n{part[4]}"

    return _PART.sub(generated, text)


def notebook(page: str) -> str:
    """A page as a Jupyter notebook.

    Its Python, commands and named files are cells of code. Pictures are left out:
    the notebook draws its own.
    """
    cells = []
    for index, (kind, source) in enumerate(_cells(page)):
        cell: dict[str, Any] = {"cell_type": kind, "id": f"cell-{index}"}
        if kind == "code":
            cell |= {"execution_count": None, "outputs": []}
        lines = source.strip().splitlines(keepends=True)
        cells.append({**cell, "metadata": {}, "source": lines})
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    metadata = {"kernelspec": kernel, "language_info": {"name": "python"}}
    made: dict[str, Any] = {"cells": cells, "metadata": metadata}
    made |= {"nbformat": 4, "nbformat_minor": 5}
    return json.dumps(made, indent=1, ensure_ascii=False) + "\n"


def _cells(page: str) -> Iterator[tuple[str, str]]:
    """Kind and source of each cell."""
    folder = posixpath.join("../docs", posixpath.dirname(page))

    def moved(link: re.Match[str]) -> str:
        return f"]({posixpath.normpath(posixpath.join(folder, link[1]))})"

    text = (DOCS / page).read_text(encoding="utf-8")
    head, *rest = _BLOCK.split(re.sub(r"(?m)^!\[.*\n\n?", "", text))
    yield "markdown", _LINK.sub(moved, head)
    yield "code", _INSTALL
    blocks = zip(rest[::3], rest[1::3], rest[2::3], strict=True)
    for language, code, after in blocks:
        if language == "python":
            yield "code", code
        elif language == "console":
            yield "code", re.sub(r"(?m)^(?=.)", "!", code)
        elif named := re.match(r"# (\w+\.yml)\n", code):
            yield "code", f"%%writefile {named[1]}\n{code}"
        else:
            yield "markdown", f"```{language}\n{code}```"
        if after.strip():
            yield "markdown", _LINK.sub(moved, after)


def arguments(name: str) -> str:
    """The arguments of a class or function, with the ``Args`` of its docstring."""
    given: Any = pkgutil.resolve_name(name)
    meanings = _section(given, "Args")
    rows = []
    for parameter in inspect.signature(given).parameters.values():
        stars = "**" if parameter.kind is parameter.VAR_KEYWORD else ""
        written = stars + parameter.name
        if (meaning := meanings.get(written, "tests.")).endswith("tests."):
            continue  # only tests give it
        rows.append((f"`{written}`", "" if stars else _default(parameter), meaning))
    return markdown(("argument", "default", "meaning"), rows)


def fields(name: str) -> str:
    """The fields of a dataclass or a named tuple."""
    given: Any = pkgutil.resolve_name(name)
    if issubclass(given, tuple):
        return ", ".join(f"`{name}`" for name in given._fields)
    return ", ".join(f"`{field.name}`" for field in dataclasses.fields(given))


def events() -> str:
    """The events of a hook, when they come, and the fields of their facts."""
    from ..hooks import Hook
    from ..hooks.events import HOOK_EVENTS

    rows = []
    for event in HOOK_EVENTS:
        method = getattr(Hook, event)
        facts = method.__annotations__["facts"]
        handed = f"`{facts}`: {fields(f'axonrl.hooks.events.{facts}')}"
        rows.append((f"`{event}`", _line(method), handed))
    return markdown(("event", "when", "facts"), rows)


def session() -> str:
    """The part of a session that a hook may use."""
    from ..hooks.events import Session, TrainingSession

    rows = []
    for name, member in {**vars(Session), **vars(TrainingSession)}.items():
        if isinstance(member, property):
            rows.append((f"`{name}`", _line(member)))
        elif inspect.isfunction(member) and not name.startswith("_"):
            _, *taken = inspect.signature(member).parameters
            rows.append((f"`{name}({', '.join(taken)})`", _line(member)))
    return markdown(("name", "what it is"), rows)


def names(kind: str) -> str:
    """The registered names of a kind of object, and what they are."""
    from ..core import registry

    found = {name: registry.summary(kind, name) for name in registry.names(kind)}
    rows = [
        (f"`{name}`", _plain(text).partition("\n")[0])
        for name, text in found.items()
    ]
    return markdown(("name", "what it is"), rows)


def kinds() -> str:
    """The kinds of schedules, with their fields."""
    from ..core.schedules import KINDS

    rows = []
    for kind, cls in KINDS.items():
        rows.append(
            (
                f"`{kind}`",
                fields(f"axonrl.schedules.{cls.__name__}"),
                _line(cls),
            )
        )
    return markdown(("kind", "fields", "value"), rows)


def parameters(algorithm: str) -> str:
    """The parameters of a built-in algorithm."""
    from ..models.blocks.params import params_of, table

    return table(params_of(algorithm))


def interface(name: str, table: str, *given: str) -> str:
    """A table of an interface's arguments, of agents over HTTP or of a library."""
    tables = importlib.import_module(f".{name}_tables", __package__).TABLES
    return markdown(*tables[table](*given))


def results(*names: str) -> str:
    """The results of experiments in ``docs/results``; without names, of all."""
    from . import result_tables

    return result_tables.table(names) if names else result_tables.everything()


def compared(*names: str) -> str:
    """The results of experiments beside Stable-Baselines3's."""
    from .result_tables import compared

    return compared(names)


def standard_tasks() -> str:
    """The results of each algorithm on MuJoCo's tasks."""
    from .result_tables import standard_tasks

    return standard_tasks()


def http(part: str) -> str:
    """A part of the page of the HTTP interface."""
    from .http_parts import PARTS

    return PARTS[part]()


def example(name: str) -> str:
    """A program of ``examples/``, which its own test runs: so it is ``py`` here."""
    text = (DOCS.parent / "examples" / f"{name}.py").read_text(encoding="utf-8")
    return f"```py\n{text}```"


def commands() -> str:
    """Every command of ``axonrl`` with its arguments, from the parser."""
    from ..experiments.commands.cli import command_line

    _, parsers = command_line()
    return "\n\n".join(_command(name, parser) for name, parser in parsers.items())


def ops() -> str:
    """The ops that LiteRT runs, by type."""
    from ..runtimes.litert.op_allowlist import as_markdown

    return as_markdown()


def _command(name: str, parser: argparse.ArgumentParser) -> str:
    given = [a for a in parser._actions if not isinstance(a, argparse._HelpAction)]
    required = [action for action in given if not action.option_strings]
    options = [action for action in given if action.option_strings]
    usage = " ".join(["axonrl", name, *map(_argument_text, required), "[options]"])
    rows = [
        (f"`{_argument_text(action)}`", _help(action))
        for action in required + options
    ]
    head = f"## axonrl {name}\n\n{parser.description}\n\n```text\n{usage}\n```\n\n"
    return head + markdown(("argument", "meaning"), rows)


_GENERATORS: Final[dict[str, Callable[..., str]]] = {
    f.__name__: f
    for f in (
        *(arguments, commands, compared, events, example, http, kinds, names),
        *(ops, parameters, results, session, standard_tasks),
    )
} | {
    name: functools.partial(interface, name)
    for name in ("rlgraph", "serving", "tensorforce")
}


def _section(given: Any, title: str) -> dict[str, str]:
    """A section of a docstring in Google's style, name to text."""
    document = f"{inspect.getdoc(given)}\n"
    match = re.search(rf"^{title}:\n((?:[ ]+.*\n|\n)+)", document, re.MULTILINE)
    _, *entries = re.split(r"(?m)^ {4}(\*{0,2}\w+): ", match[1] if match else "")
    texts = (_plain(" ".join(text.split())) for text in entries[1::2])
    return dict(zip(entries[::2], texts, strict=True))


def _line(given: Any) -> str:
    """The first line of a docstring, as Markdown."""
    return _plain((inspect.getdoc(given) or "").partition("\n")[0])


def _plain(text: str) -> str:
    return _ROLE.sub(r"`\1`", text).replace("``", "`").replace("|", "\\|")


def _default(parameter: inspect.Parameter) -> str:
    return (
        "required"
        if parameter.default is parameter.empty
        else f"`{parameter.default!r}`"
    )


def _argument_text(action: argparse.Action) -> str:
    """An argument as a user writes it."""
    choices = "|".join(map(str, action.choices or ()))
    value = str(action.metavar or choices or action.dest.upper())
    if not action.option_strings:
        return {"+": f"{value} ...", "*": f"[{value} ...]", "?": f"[{value}]"}.get(
            str(action.nargs), value
        )
    taken = "" if action.nargs == 0 else f" {value}"
    return ", ".join(f"{option}{taken}" for option in action.option_strings)


def _help(action: argparse.Action) -> str:
    return (action.help or "").replace("|", "\\|").replace("<", "&lt;")


def _write(path: Path, text: str) -> None:
    """Write a file unless it is so already, and print its name."""
    if not path.exists() or path.read_text(encoding="utf-8") != text:
        path.write_text(text, encoding="utf-8")
        print(path.relative_to(DOCS.parent))


if __name__ == "__main__":
    for page in (DOCS.parent / "README.md", *sorted(DOCS.rglob("*.md"))):
        _write(page, regenerate(page.read_text(encoding="utf-8")))
    for name, page_name in NOTEBOOKS.items():
        _write(DOCS.parent / "examples" / f"{name}.ipynb", notebook(page_name))
