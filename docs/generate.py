"""Write the parts of the pages that follow from the code: ``python -m axonrl.docs.generate``.

Such a part lies between two comments, ``<!-- generated: name arguments -->`` and ``<!-- end -->``. A test fails where a
page has other text there than the code says.
"""

from __future__ import annotations

import argparse
import dataclasses
import inspect
import pkgutil
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Final

DOCS: Final = Path(__file__).resolve().parent
_PART: Final = re.compile(r"(<!-- generated: (\w+) ?([^>]*?) -->\n).*?(<!-- end -->)", re.DOTALL)
_ROLE: Final = re.compile(r":[a-z]+:`~?\.*(?:[\w.]+\.)?([^`.]+)`")


def regenerated(text: str) -> str:
    """A page with its generated parts as the code has them now."""
    return _PART.sub(lambda part: f"{part[1]}\n{_GENERATORS[part[2]](*part[3].split())}\n\n{part[4]}", text)


def arguments(name: str) -> str:
    """The arguments of a class or function, from its signature and the ``Args`` of its docstring."""
    given: Any = pkgutil.resolve_name(name)
    meanings = _section(given, "Args")
    rows = []
    for parameter in inspect.signature(given).parameters.values():
        written = f"{'**' if parameter.kind is parameter.VAR_KEYWORD else ''}{parameter.name}"
        if (meaning := meanings.get(written, "tests.")).endswith("tests."):
            continue  # only tests give it
        default = "required" if parameter.default is parameter.empty else f"`{_default(parameter.default)}`"
        rows.append((f"`{written}`", "" if written.startswith("*") else default, meaning))
    return _table(("argument", "default", "meaning"), rows)


def fields(name: str) -> str:
    """The fields of a dataclass or a named tuple, with their types."""
    given: Any = pkgutil.resolve_name(name)
    names = given._fields if issubclass(given, tuple) else [field.name for field in dataclasses.fields(given)]
    return ", ".join(f"`{field}`" for field in names)


def events() -> str:
    """The events of a hook, when they come, and the fields of the facts that they are handed."""
    from ..facts import HOOK_EVENTS
    from ..hooks import Hook

    rows = []
    for event in HOOK_EVENTS:
        method = getattr(Hook, event)
        facts = method.__annotations__["facts"]
        rows.append((f"`{event}`", _line(method), f"`{facts}`: {fields('axonrl.facts.' + facts)}"))
    return _table(("event", "when", "facts"), rows)


def session() -> str:
    """What a hook may use of the session of a training."""
    from ..facts import Session, TrainingSession

    rows = []
    for name, member in {**vars(Session), **vars(TrainingSession)}.items():
        if isinstance(member, property):
            rows.append((f"`{name}`", _line(member)))
        elif inspect.isfunction(member) and not name.startswith("_"):
            taken = [parameter for parameter in inspect.signature(member).parameters if parameter != "self"]
            rows.append((f"`{name}({', '.join(taken)})`", _line(member)))
    return _table(("name", "what it is"), rows)


def names(kind: str) -> str:
    """The registered names of a kind of object, and what they are."""
    from .. import registry

    rows = [(f"`{name}`", _plain(registry.summary(kind, name)).partition("\n")[0]) for name in registry.names(kind)]
    return _table(("name", "what it is"), rows)


def kinds() -> str:
    """The kinds of schedules, with their fields."""
    from ..schedules import KINDS

    rows = [(f"`{kind}`", fields(f"axonrl.schedules.{cls.__name__}"), _line(cls)) for kind, cls in KINDS.items()]
    return _table(("kind", "fields", "value"), rows)


def commands() -> str:
    """Every command of ``axonrl`` with its arguments, from the parser."""
    from ..experiments.commands.cli import command_line

    _, _, parsers = command_line()
    parts = []
    for name, parser in parsers.items():
        given = [action for action in parser._actions if not isinstance(action, argparse._HelpAction)]
        given.sort(key=lambda action: bool(action.option_strings))  # what must be given comes first
        usage = [_written(action) for action in given if not action.option_strings]
        rows = [(f"`{_written(action)}`", _help(action)) for action in given]
        parts.append(f"## axonrl {name}\n\n{parser.description}\n\n")
        parts.append(f"```text\n{' '.join(['axonrl', name, *usage, '[options]'])}\n```\n\n")
        parts.append(_table(("argument", "meaning"), rows) + "\n\n")
    return "".join(parts).rstrip()


_GENERATORS: Final[dict[str, Callable[..., str]]] = {
    f.__name__: f for f in (arguments, commands, events, fields, kinds, names, session)
}


def _section(given: Any, title: str) -> dict[str, str]:
    """A section of a docstring in Google's style, name to text."""
    document = f"{inspect.getdoc(given)}\n"
    match = re.search(rf"^{title}:\n((?:[ ]+.*\n|\n)+)", document, re.MULTILINE)
    entries = re.split(r"^ {4}(\*{0,2}\w+): ", match[1], flags=re.MULTILINE)[1:] if match else []
    texts = (_plain(" ".join(text.split())) for text in entries[1::2])
    return dict(zip(entries[::2], texts, strict=True))


def _line(given: Any) -> str:
    """The first line of a docstring, as Markdown."""
    return _plain((inspect.getdoc(given) or "").partition("\n")[0])


def _plain(text: str) -> str:
    return _ROLE.sub(r"`\1`", text).replace("``", "`").replace("|", "\\|")


def _default(value: Any) -> str:
    return value.__name__ if isinstance(value, type) else repr(value)


def _written(action: argparse.Action) -> str:
    """An argument as a user writes it."""
    value = action.metavar or ("|".join(map(str, action.choices)) if action.choices else action.dest.upper())
    if not action.option_strings:
        return f"{value} ..." if action.nargs == "+" else f"[{value}]" if action.nargs == "?" else str(value)
    taken = "" if action.nargs == 0 else f" {value}"
    return ", ".join(f"{option}{taken}" for option in action.option_strings)


def _help(action: argparse.Action) -> str:
    return (action.help or "").replace("|", "\\|").replace("<", "&lt;")


def _table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    head = list(head)
    return "\n".join(f"| {' | '.join(row)} |" for row in (head, ["---"] * len(head), *rows))


if __name__ == "__main__":
    for page in sorted(DOCS.rglob("*.md")):
        text = page.read_text(encoding="utf-8")
        if (new := regenerated(text)) != text:
            page.write_text(new, encoding="utf-8")
            print(page.relative_to(DOCS))
