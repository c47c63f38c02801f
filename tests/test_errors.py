"""Where an error is told that nobody sees the traceback of: its text, and the place in a user's own code."""

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from axonrl.core.errors import ArgumentError, ClusterError, message_of, place_of
from axonrl.distributed import roles
from axonrl.environments import open_environment
from axonrl.experiments.commands import terminal
from axonrl.experiments.searches import runs, worker
from axonrl.experiments.tracking import follower
from axonrl.tests.raising import raised, users_module

OWN = """
import gymnasium
import numpy as np
from axonrl.schedules import Linear

def raises():
    raise KeyError("q")

def calls_a_library():
    np.linalg.inv(np.zeros((2, 2)))

def calls_axonrl():
    Linear(1.0, 0.0, duration=0)

def raises_from_another():
    try:
        {}["nothing"]
    except KeyError as error:
        raise TypeError("no such arm") from error

class Arm(gymnasium.Env):
    observation_space, action_space = gymnasium.spaces.Box(-1, 1, (1,)), gymnasium.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        raise ValueError("the arm is broken")
"""


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The module of a user, in the current folder."""
    monkeypatch.chdir(tmp_path)
    return users_module(tmp_path, OWN)


@pytest.mark.parametrize(
    ("fails", "place"),
    [
        (lambda own: own.raises(), "own.py:7, in raises"),
        (lambda own: own.calls_a_library(), "own.py:10, in calls_a_library"),
        (lambda own: own.calls_axonrl(), "own.py:13, in calls_axonrl"),
        (lambda own: own.raises_from_another(), "own.py:19, in raises_from_another"),
        (lambda own: open_environment(own.Arm()).reset(None, [0]), "own.py:25, in reset"),  # whose error is wrapped
    ],
)
def test_the_place_is_the_innermost_frame_of_a_users_code(
    fails: Callable[[Any], object], place: str, own: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    error = raised(Exception, fails, own)
    assert place_of(error) == place
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert place_of(error) == f"{tmp_path}/{place}"


def test_there_is_no_place_in_what_is_not_a_users() -> None:
    assert place_of(raised(ArgumentError, open_environment, 3)) is None
    assert place_of(ValueError("never raised")) is None
    assert place_of(raised(yaml.YAMLError, yaml.load, "a:\n\tb: 1", yaml.CSafeLoader)) is None  # compiled by Cython


def test_an_error_in_a_paragraph() -> None:
    assert message_of(ValueError("the environment\n  is \x1b[1mbroken\x1b[0m")) == "the environment is broken"
    assert message_of(ClusterError("nothing moves:\nactor 0  waits")) == "nothing moves:\nactor 0  waits"
    assert message_of(KeyError("q")) == "KeyError: 'q'"
    assert message_of(ValueError()) == "ValueError: "
    assert len(message_of(ValueError("x" * 10**6))) == 2003


def by_the_command_line(fails: Callable[[], object], capsys: pytest.CaptureFixture[str]) -> str:
    terminal.report_error(raised(Exception, fails), argparse.Namespace(debug=False))
    return capsys.readouterr().err


def by_the_worker_of_a_run(fails: Callable[[], object], capsys: pytest.CaptureFixture[str]) -> str:
    signals: Any = None

    def attempt() -> runs.Outcome:
        fails()
        return runs.Outcome(runs.FINISHED)

    return worker.outcome_of(attempt, signals).message


def by_an_actor(fails: Callable[[], object], capsys: pytest.CaptureFixture[str]) -> str:
    message = roles._result_or_raised(lambda _: fails(), None)
    assert isinstance(message, roles.Raised)
    return message.message


def by_the_follower_of_a_tracker(fails: Callable[[], object], capsys: pytest.CaptureFixture[str]) -> str:
    return follower.explain("mine", raised(Exception, fails))


@pytest.mark.parametrize(
    "say", [by_the_command_line, by_the_worker_of_a_run, by_an_actor, by_the_follower_of_a_tracker]
)
def test_the_place_is_told_and_travels(say: Callable[..., str], own: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert "KeyError: 'q' (own.py:7, in raises)" in say(own.raises, capsys)
