"""The documentation is true: what it shows runs, what it lists is complete, what it quotes is in the code."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from axonrl.docs import generate

ROOT: Final = Path(__file__).resolve().parent.parent
DOCS: Final = ROOT / "docs"
PAGES: Final = {page.relative_to(DOCS).as_posix(): page.read_text(encoding="utf-8") for page in DOCS.rglob("*.md")}


def blocks(text: str, language: str) -> Iterator[tuple[int, str]]:
    """The blocks of a language, each with the number of its first line."""
    for found in re.finditer(rf"^```{language}\n(.*?)^```$", text, re.DOTALL | re.MULTILINE):
        yield text.count("\n", 0, found.start(1)) + 1, found[1]


def pages_with(language: str) -> list[str]:
    return sorted(name for name, text in PAGES.items() if any(blocks(text, language)))


# -- what it shows runs -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("page", pages_with("python"))
def test_python_blocks_run(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In turn and with the names of those before, as somebody would type them who reads the page."""
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {"__name__": "__main__"}
    for line, code in blocks(PAGES[page], "python"):
        exec(compile("\n" * (line - 1) + code, str(DOCS / page), "exec"), names)


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
