"""Completions that a shell gets when the user presses TAB."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from axonrl.experiments.commands.completion import SHELLS, script
from axonrl.experiments.config.shipped import shipped

MAIN = "import sys; from axonrl.experiments.commands.cli import main; sys.exit(main())"


def completions(line: str, folder: Path, shell: str = "fish") -> set[str]:
    """Completions by argcomplete for a line, in the protocol that its scripts speak."""
    answer = folder / ".answer"
    environment = {
        **os.environ,
        **{"_ARGCOMPLETE": "1", "_ARGCOMPLETE_IFS": "\n", "_ARGCOMPLETE_SHELL": shell, "COMP_LINE": line},
        **{"COMP_POINT": str(len(line)), "_ARGCOMPLETE_STDOUT_FILENAME": str(answer), "_ARGCOMPLETE_DFS": "\t"},
    }
    command = [sys.executable, "-c", MAIN]
    subprocess.run(command, env=environment, cwd=folder, check=True, capture_output=True, timeout=240)
    # In fish every candidate comes with its help, after a tab.
    return {word.partition("\t")[0].strip() for word in answer.read_text().split("\n") if word}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "runs" / "one").mkdir(parents=True)
    (tmp_path / "mine.yml").write_text("include: base.yml\nparams: {rate: 1e-3}\n")
    (tmp_path / "base.yml").write_text("params: {size: 64}\n")
    (tmp_path / "notes.txt").touch()
    return tmp_path


def test_commands_options_choices_and_folders(folder: Path) -> None:
    assert completions("axonrl ch", folder) == {"check", "check-env"}
    assert completions("axonrl run --mo", folder) == {"--model-dir"}
    assert completions("axonrl evaluate runs/one --policy ", folder) == {"best", "last"}
    assert {word.rstrip("/") for word in completions("axonrl evaluate ru", folder)} == {"runs"}
    assert completions("axonrl run mine.yml --seed ", folder) == set()  # no file names


def test_experiments_are_files_and_the_shipped_ones(folder: Path) -> None:
    found = completions("axonrl run ", folder)
    assert found >= {*shipped(), "mine.yml", "base.yml"}
    assert "notes.txt" not in found


def test_the_params_of_the_file_and_the_keys_that_set_takes(folder: Path) -> None:
    assert completions("axonrl run mine.yml -P ", folder) == {"rate=", "size="}
    assert completions("axonrl run none.yml -P ", folder) == set()
    keys = completions("axonrl run mine.yml --set ", folder)
    assert keys >= {"seed=", "environment.id=", "agent.memory.kind=", "train.max_timesteps=", "evaluate.policy="}
    assert not any(key.startswith(("params.", "mine.yml", "include")) for key in keys)


@pytest.mark.parametrize("shell", [shell for shell in SHELLS if shell != "bash"])
def test_there_is_a_script_for(shell: str) -> None:
    assert "axonrl" in script(shell)
    assert "_ARGCOMPLETE" in script(shell)


def test_bash_completes(folder: Path) -> None:
    """The script in the shell itself: a command ``axonrl`` on the path, and the words that a TAB would offer."""
    program = folder / "axonrl"
    program.write_text(f"#!{sys.executable}\n{MAIN}\n")
    program.chmod(0o755)
    (folder / "completion.sh").write_text(script("bash"))
    lines = """
. ./completion.sh
complete -p axonrl
COMP_WORDS=(axonrl evaluate runs/one --pol) COMP_CWORD=3 COMP_LINE="axonrl evaluate runs/one --pol"
COMP_POINT=${#COMP_LINE} COMP_TYPE=9 COMP_KEY=9
_python_argcomplete axonrl
echo "offered: ${COMPREPLY[*]}"
"""
    environment = {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}"}
    command = ["bash", "--norc", "-c", lines]
    done = subprocess.run(command, env=environment, cwd=folder, capture_output=True, text=True, check=True, timeout=240)
    registered, offered = done.stdout.splitlines()
    assert registered.endswith("_python_argcomplete axonrl")
    assert offered.split() == ["offered:", "--policy"]
