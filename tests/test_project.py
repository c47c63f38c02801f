"""README, CHANGELOG and Makefile are true."""

import configparser
import os
import re
import shlex
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Final

import pytest

import axonrl
from axonrl.tests.conftest import empty_files

ROOT: Final = Path(__file__).resolve().parent.parent
README: Final = (ROOT / "README.md").read_text(encoding="utf-8")


def blocks(language: str, text: str = README) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)


def run(*command: str | Path, folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "PYTEST_"))}
    return subprocess.run(
        command, cwd=folder, env=inherited | environment, capture_output=True, text=True, check=False, timeout=240
    )


@pytest.mark.docs
def test_examples_run(tmp_path: Path) -> None:
    """Those that load TensorFlow in one process, each with names of its own; the exported policy without TensorFlow."""
    *train, exports, acts = blocks("python")
    counts = [(60_000, 234), (500, 201), (500, 201)]
    checked = [
        f"{example}\nassert (agent.global_timestep, agent.global_step) == {count}"
        for example, count in zip(train, counts, strict=True)
    ]
    in_turn = f"for example in {[*checked, exports]!r}:\n    exec(example, {{'__name__': '__main__'}})"
    acting = f"import sys\nsys.modules['tensorflow'] = None\n{acts}\nassert terminated or truncated"
    for code, printed in ((in_turn, "500.0\n"), (acting, "")):
        done = run(sys.executable, "-W", "error", "-c", code, folder=tmp_path, TMPDIR=str(tmp_path))
        assert done.returncode == 0, done.stderr
        assert done.stdout.startswith(printed)


def test_the_examples_are_five_and_the_first_is_short() -> None:
    first, *others = blocks("python")
    assert len(others) == 4
    assert len([line for line in first.splitlines() if line.strip()]) <= 15


def commands() -> list[str]:
    return [line for block in blocks("console") for line in block.splitlines()]


@cache
def cli_help(*words: str) -> str:
    code = "import sys; from axonrl.experiments.commands.cli import main; sys.exit(main())"
    done = run(sys.executable, "-c", code, *words, "--help", folder=ROOT)
    assert done.returncode == 0, done.stderr
    return done.stdout


def extras_of_setup() -> set[str]:
    setup = configparser.ConfigParser()
    setup.read(ROOT / "setup.cfg")
    return set(setup["options.extras_require"])


def test_commands_exist() -> None:
    assert len(commands()) > 10
    for command in commands():
        check_command(command)


def check_command(command: str) -> None:
    program, name, *rest = shlex.split(command)
    variables = dict(word.split("=", 1) for word in (name, *rest) if re.match(r"[A-Z_]+=", word))
    if program == "export":
        sources = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "experiments").rglob("*.py"))
        assert variables
        assert all(f'"{variable}"' in sources for variable in variables)
        return
    if program == "pip":
        extras = re.findall(r"\[([\w,-]+)\]", command)
        assert set(",".join(extras).split(",")) - {""} <= extras_of_setup()
        return
    if program == "make":
        makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
        assert re.search(rf"^{name}:", makefile, re.MULTILINE)
        assert all(re.search(rf"^{variable} \?=", makefile, re.MULTILINE) for variable in variables)
        rest = [variables.get("EXPERIMENT", ""), *shlex.split(variables.get("ARGS", ""))]
    else:
        assert program == "axonrl"
    words = cli_help(name) if program == "axonrl" else cli_help("run")
    options = [word for word in rest if word.startswith("-")]
    assert [option for option in options if not re.search(rf"(?<!\S){option}(?![\w-])", words)] == []
    made = [shlex.split(other)[3] for other in commands() if other.startswith("axonrl new ")]
    assert [word for word in rest if word.endswith(".yml") and not (word in made or (ROOT / word).is_file())] == []


def test_links_lead_somewhere() -> None:
    missing = []
    for page in [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")]:
        links = re.findall(r"\]\(([^)\s]+)\)", page.read_text(encoding="utf-8"))
        files = [link.split("#")[0] for link in links if "://" not in link]
        missing += [(page.name, file) for file in files if not (page.parent / file).exists()]
    assert missing == []


def test_the_map_names_every_room() -> None:
    rooms = {f"{path.parent.name}/" for path in ROOT.glob("*/__init__.py") if not path.parent.name.startswith(".")}
    assert rooms <= set(re.findall(r"^\| `([^`]+)`", README, re.MULTILINE))


def test_the_changelog_begins_with_this_version() -> None:
    headings = re.findall(r"^## \[(.+?)\]", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert headings[0] == axonrl.__version__


def test_no_file_names_a_path_of_a_machine() -> None:
    machine = re.compile(r"(?<![\w.}])/(?:home|root|Users|work|opt|tmp)/\w")
    suffixes = {".py", ".md", ".yml", ".yaml", ".toml", ".cfg", ".txt", ".json", ""}
    generated = {".git", ".build", "build", "__pycache__"}
    found = []
    for folder, folders, files in os.walk(ROOT):
        kept = [name for name in folders if name not in generated and not name.startswith(".venv")]
        folders[:] = [name for name in kept if not name.endswith(("_cache", ".egg-info"))]
        if Path(folder) == ROOT / "runs":
            folders.clear()  # folders of runs: the room itself has none
        for path in (Path(folder, name) for name in files if name != ".git"):  # a file where it is a worktree
            if path.suffix in suffixes and path.stat().st_size < 1_000_000:
                lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
                found += [f"{path}:{number}" for number, line in enumerate(lines, 1) if machine.search(line)]
    assert found == []


def test_without_a_python_that_suits_make_says_which_do(tmp_path: Path) -> None:
    shutil.copy(ROOT / "Makefile", tmp_path)
    done = run("make", "run", "PYTHON=false", folder=tmp_path)
    assert done.returncode == 2
    assert "needs Python 3.10, 3.11, 3.12 or 3.13 with its venv module; tried: false" in done.stderr
    assert not (tmp_path / ".venv").exists()


def test_an_empty_test_file_is_found(tmp_path: Path) -> None:
    full, empty = tmp_path / "test_full.py", tmp_path / "room" / "test_empty.py"
    empty.parent.mkdir()
    for path in (full, empty, tmp_path / "fakes.py"):
        path.touch()
    assert empty_files(tmp_path, {full}) == ["room/test_empty.py"]
