"""The programs in examples/ run, do what they say, and are short."""

import ast
import re
import runpy
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import gymnasium
import numpy as np
import pytest

from axonrl.core.protocols import ArraySpec
from axonrl.environments import make

ROOT: Final = Path(__file__).resolve().parent.parent
EXAMPLES: Final = {path.stem: path for path in sorted((ROOT / "examples").glob("*.py"))}
SHORT: Final = {
    "own_environment": ["--timesteps", "1000"],
    "own_model_fn": ["--timesteps", "1000"],
    "own_memory": ["--timesteps", "600"],
    "own_hook": ["--timesteps", "1000"],
    "own_curriculum": ["--timesteps", "600"],
    "many_seeds": ["--timesteps", "640", "--seeds", "2"],
    "offline_then_online": ["--timesteps", "700", "--updates", "50"],
    "without_tensorflow": ["--timesteps", "600"],
    "driven_from_outside": ["--timesteps", "400"],
}
NUMBER: Final = r"(-?\d+\.\d+)"
PRINTED: Final = {
    "own_environment": rf"a day earns {NUMBER}; an idle battery, nothing",
    "own_model_fn": NUMBER,
    "own_memory": rf"ReplayMemory: {NUMBER}\nCombinedReplay: {NUMBER}",
    "own_hook": rf"starting in .*own_hook\n(?: +[\d,]+ timesteps: {NUMBER} m\n)+",
    "own_curriculum": rf"with a curriculum: {NUMBER}\nwithout a curriculum: {NUMBER}",
    "many_seeds": rf"0\.0003: {NUMBER} \({NUMBER} to {NUMBER}\)\n0\.001: {NUMBER} \({NUMBER} to {NUMBER}\)",
    "offline_then_online": rf"file: {NUMBER}\noffline, after 50 .*: {NUMBER}\nonline, after 700 .*: {NUMBER}",
    "without_tensorflow": rf"TensorFlow: True\nseed 0: {NUMBER}, .*: False\nseed 1: {NUMBER}, .*: False",
    "driven_from_outside": rf"at first: {NUMBER}\n.*at last: {NUMBER}",
}
LEFT: Final = {
    "own_hook": ["runs/own_hook/episodes.csv"],
    "many_seeds": ["many_seeds.png", "runs/many_seeds/0.0003/seed-0/run.json", "runs/many_seeds/0.001/seed-1/run.json"],
    "offline_then_online": ["episodes.npz"],
    "without_tensorflow": ["compiled/cartpole/weights/seed-1.safetensors"],
}


def names_of(example: str) -> dict[str, Any]:
    """What a program defines, without running it."""
    gymnasium.registry.pop("Battery-v0", None)  # registered by an earlier test, which would be a warning
    return runpy.run_path(str(EXAMPLES[example]), run_name="example")


def run(example: str, words: Sequence[str], folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As its reader starts it, in a folder of its own."""
    monkeypatch.chdir(folder)
    monkeypatch.setattr(sys, "argv", [f"{example}.py", *words])
    runpy.run_path(str(EXAMPLES[example]), run_name="__main__")


@pytest.mark.docs
@pytest.mark.parametrize("example", EXAMPLES)
def test_it_runs(
    example: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    run(example, SHORT[example], tmp_path, monkeypatch)
    lines = [line for line in capfd.readouterr().out.splitlines() if not line.startswith(("no model_dir", "timestep "))]
    assert re.search(PRINTED[example], "\n".join(lines) + "\n"), lines
    assert [path for path in LEFT.get(example, []) if not (tmp_path / path).is_file()] == []


@pytest.mark.docs
def test_the_hook_goes_on_with_what_it_remembers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    run("own_hook", ["--timesteps", "300"], tmp_path, monkeypatch)
    run("own_hook", ["--timesteps", "500"], tmp_path, monkeypatch)
    apart = re.findall(r"timesteps: [\d.]+ m", capfd.readouterr().out)
    (tmp_path / "whole").mkdir()
    run("own_hook", ["--timesteps", "500"], tmp_path / "whole", monkeypatch)
    assert apart == re.findall(r"timesteps: [\d.]+ m", capfd.readouterr().out) != []


def test_the_battery_pays_what_it_trades() -> None:
    names_of("own_environment")
    env: Any = make("Battery-v0").unwrapped
    env.reset(seed=0)
    env.cheapest = 0  # the price of an hour is 1 - cos(2 pi hour / 24)
    sell, wait, buy = range(3)
    rewards = [env.step(action)[1] for action in (sell, buy, *[wait] * 10, sell)]
    assert rewards == pytest.approx([0, -(1 - np.cos(np.pi / 12)), *[0] * 10, 2])


def test_the_memory_has_the_newest_transition_in_every_batch() -> None:
    memory = names_of("own_memory")["CombinedReplay"](100, batch_size=4)
    number = ArraySpec((), np.float32)
    memory.build(
        {
            **dict.fromkeys(("observation", "reward", "next_observation"), number),
            "action": ArraySpec((), np.int32),
            **dict.fromkeys(("terminated", "truncated"), ArraySpec((), np.bool_)),
        },
        1,
        np.random.default_rng(0),
    )
    for value in range(10):
        memory.step(
            observation=value, action=0, reward=value, terminated=False, truncated=False, next_observation=value + 1
        )
        assert memory.sample()["reward"][0] == value


@pytest.mark.parametrize("example", EXAMPLES)
def test_it_is_short_and_says_how_to_start_it(example: str) -> None:
    text = EXAMPLES[example].read_text(encoding="utf-8")
    started = re.findall(
        r"^    python (\S+) (.*)$", ast.get_docstring(ast.parse(text), clean=False) or "", re.MULTILINE
    )
    assert [(name, set(words.split()) >= set(SHORT[example][::2])) for name, words in started] == [
        (f"examples/{example}.py", True)
    ]
    assert len(text.splitlines()) <= 60


def test_the_page_shows_every_example() -> None:
    page = (ROOT / "docs" / "examples.md").read_text(encoding="utf-8")
    assert sorted(re.findall(r"<!-- generated: example (\w+) -->", page)) == sorted(EXAMPLES)
