"""Build the documentation as a site, in ``.build/site``: ``make docs``.

Zensical builds it from three things that are put together in ``.build/docs``:
``zensical.toml``, the pages, and a copy of the package's sources, which the API
reference reads without importing them. A broken link, or a heading or name of the
API that does not exist, is an error.
"""

from __future__ import annotations

import configparser
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parent.parent
FROM_ROOT: Final = {
    "README.md": "index.md",
    "ARCHITECTURE.md": "how_it_works.md",
    "benchmarks/RESULTS.md": "benchmarks.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "LICENSE": "license.txt",
}
"""Files outside of docs/ to their pages; the first page stands for README."""

_LINK: Final = re.compile(r"(?<=\]\()(?![a-z]+:)([^)\s#]+)(?=[)#])")
_ROLE: Final = re.compile(r":[a-z]+:`~?\.*([^`]+)`")
_TABLE: Final = re.compile(
    r"^ *=+(?: +=+)+\n(?:.*\n)+? *=+(?: +=+)+\n(?:.*\n)+? *=+(?: +=+)+\n",
    re.MULTILINE,
)


def build(root: Path, output: Path) -> str:
    """Build the site of a repository.

    Args:
        root: the repository.
        output: a folder; Zensical reads ``docs/`` in it, and the site is ``site/``.

    Returns:
        What Zensical complains about; empty if the site was built.

    Raises:
        ValueError: a link leads to nothing on the site.
    """
    work = output / "docs"
    for folder in (work, output / "site"):
        shutil.rmtree(folder, ignore_errors=True)
    work.mkdir(parents=True)
    shutil.copy(root / "docs" / "zensical.toml", work)
    _copy_pages(root, work / "pages")
    _copy_sources(root, work / "sources")
    zensical = [
        sys.executable,
        "-m",
        "zensical",
        "build",
        "--strict",
        "--config-file",
        str(work / "zensical.toml"),
    ]
    done = subprocess.run(
        zensical, cwd=work, capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        return done.stdout + done.stderr
    (work / "site").rename(
        output / "site"
    )  # Zensical writes only below its configuration
    return ""


def _copy_pages(root: Path, pages: Path) -> None:
    """The pages, with links between them as they lie side by side there."""
    shutil.copytree(
        root / "docs",
        pages,
        ignore=shutil.ignore_patterns("*.py", "*.toml", "__pycache__"),
    )
    where = {
        root / "docs" / page.relative_to(pages): page
        for page in pages.rglob("*")
        if page.is_file()
    }
    where |= {
        root / name: pages / page
        for name, page in FROM_ROOT.items()
        if (root / name).exists()
    }
    for source, page in where.items():
        if source.suffix == ".md" and source.name != "README.md":
            page.write_text(_with_links(source, page, where), encoding="utf-8")
        elif not page.exists():
            shutil.copy(source, page)


def _with_links(source: Path, page: Path, where: dict[Path, Path]) -> str:
    """The text of a file, with its links as the site needs them.

    Raises:
        ValueError: a link leads to nothing; Zensical only looks at links to pages.
    """

    def moved(link: re.Match[str]) -> str:
        target = where.get((source.parent / link[1]).resolve())
        if target is None:
            raise ValueError(
                f"{source}: the link {link[1]} leads to nothing on the site"
            )
        return os.path.relpath(target, page.parent).replace(os.sep, "/")

    return _LINK.sub(moved, source.read_text(encoding="utf-8"))


def _copy_sources(root: Path, sources: Path) -> None:
    """The modules of the package, in a folder of its name.

    In the repository's root, .venv would be read with them, which takes a minute.
    """
    setup = configparser.ConfigParser()
    setup.read(root / "setup.cfg")
    for package in setup["options"]["packages"].split():
        folder = Path(*package.split(".")[1:])
        target = sources / "axonrl" / folder
        target.mkdir(parents=True)
        for module in (root / folder).glob("*.py"):
            (target / module.name).write_text(
                _as_markdown(module.read_text(encoding="utf-8")), encoding="utf-8"
            )


def _as_markdown(text: str) -> str:
    """A module whose docstrings have no reStructuredText, which a page would show.

    Roles become code, literal blocks and tables become indented blocks.
    """
    text = re.sub(r"(?<=\w)::$", ":", _ROLE.sub(r"`\1`", text), flags=re.MULTILINE)
    return _TABLE.sub(lambda table: re.sub(r"(?m)^(?=.)", "    ", table[0]), text)


if __name__ == "__main__":
    if complaints := build(ROOT, ROOT / ".build"):
        sys.exit(complaints)
    print("Built the documentation: .build/site/index.html")
