"""What type checkers and editors find of an editable install, in a program that is not in the repository."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import axonrl
from axonrl import registry

RIGHT = """
from typing import Any

import gymnasium
from gymnasium.vector import VectorEnv

from axonrl import Agent, RunConfig
from axonrl.environments import make
from axonrl.memories import ReplayMemory
from axonrl.models import dqn

env: gymnasium.Env[Any, Any] = make("CartPole-v1")
copies: VectorEnv[Any, Any, Any] = make("CartPole-v1", num_envs=4)
agent = Agent(dqn.model_fn, ReplayMemory(1_000, 32), config=RunConfig(seed=1))
result: dict[str, float] = agent.train(env, timesteps=100).evaluate(copies, episodes=4)
"""
WRONG = """
from axonrl import RunConfig
from axonrl.environments import make
from axonrl.memories import ReplayMemory

RunConfig(sed=1)
ReplayMemory("1_000", 32)
make("CartPole-v1").num_envs
"""


def check(tool: str, *options: str, folder: Path) -> str:
    """What the type checker ``tool`` prints about the two programs."""
    (folder / "right.py").write_text(RIGHT, encoding="utf-8")
    (folder / "wrong.py").write_text(WRONG, encoding="utf-8")
    command = [sys.executable, "-m", tool, *options, "right.py", "wrong.py"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=240)
    assert done.returncode == 1, done.stderr
    return done.stdout


def test_pyright_finds_what_is_wrong(tmp_path: Path) -> None:
    options = ["--outputjson", "--pythonpath", sys.executable]
    found: list[dict[str, Any]] = json.loads(check("pyright", *options, folder=tmp_path))["generalDiagnostics"]
    places = [(Path(one["file"]).name, one["range"]["start"]["line"], one["rule"]) for one in found]
    assert places == [
        ("wrong.py", 5, "reportCallIssue"),
        ("wrong.py", 6, "reportArgumentType"),
        ("wrong.py", 7, "reportAttributeAccessIssue"),
    ]


def test_mypy_finds_what_is_wrong(tmp_path: Path) -> None:
    lines = check("mypy", "--strict", "--no-error-summary", "--cache-dir", str(tmp_path), folder=tmp_path).splitlines()
    places = [(line.split(":")[:2], line.rpartition("[")[2]) for line in lines if ": error: " in line]
    assert places == [
        (["wrong.py", "6"], "call-arg]"),
        (["wrong.py", "7"], "arg-type]"),
        (["wrong.py", "8"], "attr-defined]"),
    ]


def test_a_module_has_one_path() -> None:
    """Also where the package was found by the link that type checkers follow."""
    root = Path(__file__).resolve().parent.parent
    assert list(axonrl.__path__) == [str(root)]
    assert registry.__file__ == str(root / "registry.py")
