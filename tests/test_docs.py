"""The documentation is true: what it shows runs, what it lists is complete, what it quotes is in the code."""

import ast
import functools
import re
import shlex
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from axonrl import Agent
from axonrl.docs import generate
from axonrl.experiments.commands.cli import command_line, main
from axonrl.experiments.language.shipped import shipped

ROOT: Final = Path(__file__).resolve().parent.parent
DOCS: Final = ROOT / "docs"
PAGES: Final = {page.relative_to(DOCS).as_posix(): page.read_text(encoding="utf-8") for page in DOCS.rglob("*.md")}


REMOTE: Final = ("logs", "status", "stop", "submit", "sync")
"""Commands that need a server: they are parsed, not run."""
INSTALLATION: Final = ("cd", "docker", "export", "git", "haupt", "pip", "polyaxon", "source", "tensorboard")
"""Programs that install something, or that start or ask another program: they are not run."""


def blocks(text: str) -> Iterator[tuple[str, int, str]]:
    """The blocks of code, each with its language and the number of its first line."""
    for found in re.finditer(r"^```(\w+)\n(.*?)^```$", text, re.DOTALL | re.MULTILINE):
        yield found[1], text.count("\n", 0, found.start(2)) + 1, found[2]


# -- what it shows runs -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("page", [name for name in sorted(PAGES) if re.search("^```(python|console)$", PAGES[name], re.M)])
def test_what_a_page_shows_runs(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In turn, as a reader types it: Python with the names of the blocks before, commands, files of YAML."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(Agent, "train", functools.partialmethod(capped, Agent.train))
    monkeypatch.setattr(Agent, "evaluate", functools.partialmethod(capped, Agent.evaluate))
    names: dict[str, Any] = {"__name__": "__main__"}
    for language, line, code in blocks(PAGES[page]):
        if language == "python":
            exec(compile("\n" * (line - 1) + code, str(DOCS / page), "exec"), names)
        elif language == "yaml" and (file := re.match(r"# (\w+\.yml)\n", code)):
            Path(file[1]).write_text(code, encoding="utf-8")
        elif language == "console":
            for command in code.splitlines():
                run_command(shlex.split(command, comments=True))


def capped(agent: Agent, method: Callable[..., Any], *arguments: Any, **limits: Any) -> Any:
    """Call ``train`` or ``evaluate`` with what a page says, but not for as long."""
    caps = {"timesteps": 600, "max_timesteps": 600, "episodes": 5}
    return method(agent, *arguments, **{name: min(value, caps[name]) if name in caps else value for name, value in limits.items()})


def run_command(words: list[str]) -> None:
    """Run a command of ``axonrl``, short where it trains; of other programs, check that what they name exists."""
    while "=" in words[0]:
        del words[0]  # a variable of the environment
    program, *words = words
    if program == "axonrl" and words[0] in REMOTE:
        command_line()[0].parse_args(words)
    elif program == "axonrl":
        assert main([*words, *shortened(words)]) == 0, words
    elif program == "make":
        assert re.search(rf"^{words[0]}:", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE), words
    elif (program, words[0]) == ("python", "benchmarks/learning.py"):
        assert {word for word in words[1:] if word[0].isalpha()} <= {*shipped()}, words
    else:
        assert program in INSTALLATION, program


def shortened(words: list[str]) -> Iterator[str]:
    """What keeps a command short, where it does not say so itself."""
    if words[0] == "run":
        hooks = "hooks=[{kind: evaluation, every_timesteps: 300, episodes: 1}]"
        yield from ("--set", "evaluate.episodes=1", "--set", "train.first_update=100", "--set", hooks)
    limits = {"run": ("--timesteps", "300"), "evaluate": ("--episodes", "1")}.get(words[0])
    if limits and limits[0] not in words:
        yield from limits


# -- what it says follows from the code -------------------------------------------------------------------------------


@pytest.mark.parametrize("page", sorted(PAGES))
def test_generated_parts_are_as_the_code_has_them(page: str) -> None:
    """If this fails: ``python -m axonrl.docs.generate``."""
    assert generate.regenerated(PAGES[page]) == PAGES[page]


def messages(text: str) -> list[str]:
    """What a page quotes of messages, in the first column of tables with that heading; ``…`` is what differs."""
    tables = re.findall(r"^\| message \|.*\n\|[-| ]+\n((?:\|.*\n)+)", text, re.MULTILINE)
    return [cell for table in tables for cell in re.findall(r"^\| `([^`]+)` \|", table, re.MULTILINE)]


def written() -> Iterator[str]:
    """Every text in the package's code, with ``…`` for what is filled in."""
    for path in ROOT.rglob("*.py"):
        parts = path.relative_to(ROOT).parts
        if parts[0].startswith(".") or parts[0] in ("tests", "benchmarks", "docs", "runs"):
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.JoinedStr):
                parts_of_it = (str(part.value) if isinstance(part, ast.Constant) else "…" for part in node.values)
                yield re.sub("…+", "…", "".join(parts_of_it))
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield re.sub(r"%[sdr]", "…", node.value)


@pytest.mark.parametrize("page", [name for name in PAGES if messages(PAGES[name])])
def test_messages_are_those_of_the_code(page: str) -> None:
    texts = list(written())
    assert [quoted for quoted in messages(PAGES[page]) if not any(quoted in text for text in texts)] == []
