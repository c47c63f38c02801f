"""Converted programs, kept and found again or made again; and digests of a user's code."""

import importlib
import logging
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from axonrl import Agent
from axonrl.errors import CheckpointError
from axonrl.estimators import program_cache
from axonrl.memories import ReplayMemory
from axonrl.models import dqn
from axonrl.run_dir import programs
from axonrl.run_dir.programs import shared_content
from axonrl.run_dir.sources import digest_of, source_digests
from axonrl.runtimes import executor_choice
from axonrl.runtimes.litert.conversion import convert
from axonrl.tests.estimators.dying import DYING, run_dying
from axonrl.tests.estimators.fakes import Counting, agent, differences, snapshot
from axonrl.tests.run_dir.states import truncate

CONTENT = bytes(range(200))


def never() -> bytes:
    raise AssertionError("it was made again")


def returning(content: bytes) -> Callable[[], bytes]:
    return lambda: content


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The shared folder: nothing that other tests converted is found."""
    monkeypatch.setenv(programs.VARIABLE, str(tmp_path / "shared"))
    return tmp_path / "shared"


def said(caplog: pytest.LogCaptureFixture, level: int) -> list[str]:
    return [one.getMessage() for one in caplog.records if one.levelno >= level]


def test_what_was_made_is_found_again_by_name_and_key(folder: Path) -> None:
    assert shared_content("actor", "k", returning(CONTENT)) == CONTENT
    assert shared_content("actor", "k", never) == CONTENT
    assert shared_content("learner", "k", returning(b"other")) == b"other"
    assert shared_content("actor", "l", returning(b"another")) == b"another"
    assert shared_content("actor", "k", never) == CONTENT
    assert len([*folder.iterdir()]) == 3
    truncate(folder / "actor-k.safetensors")
    assert shared_content("actor", "k", returning(CONTENT)) == CONTENT
    assert shared_content("actor", "k", never) == CONTENT  # it was replaced


def test_no_flipped_bit_gives_another_program(
    folder: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """What is read is what was written; whatever else there is made again, and said."""
    caplog.set_level(logging.INFO, "axonrl")
    path = folder / "actor-k.safetensors"
    shared_content("actor", "k", returning(CONTENT))
    whole = path.read_bytes()
    monkeypatch.setattr(programs, "save_arrays", lambda *args: None)  # waiting for the disk would take seconds
    for place in range(0, 8 * len(whole), 11):
        caplog.clear()
        damaged = bytearray(whole)
        damaged[place // 8] ^= 1 << place % 8
        path.write_bytes(damaged)
        made: list[int] = []

        def make(made: list[int] = made) -> bytes:
            made.append(1)
            return b"made again"

        found = shared_content("actor", "k", make)
        assert found == (b"made again" if made else CONTENT)
        assert len(caplog.messages) == len(made)
        if place // 8 >= len(whole) - len(CONTENT):
            assert caplog.messages == [f"{path} is damaged and will be converted again: its content has changed"]


@pytest.mark.parametrize("obstacle", ["a file for the folder", "a folder for the file", "disk full"])
def test_a_cache_that_cannot_be_written_costs_only_time(
    obstacle: str, folder: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "axonrl")
    if obstacle == "a file for the folder":
        folder.write_text("mine")
    elif obstacle == "a folder for the file":
        (folder / "actor-k.safetensors" / "mine").mkdir(parents=True)
    else:
        monkeypatch.setattr(programs, "save_arrays", raising(CheckpointError("the disk is full")))
    for _ in range(2):
        caplog.clear()
        assert shared_content("actor", "k", returning(CONTENT)) == CONTENT
        assert said(caplog, logging.INFO)[-1].startswith("the converted program cannot be cached in ")


def raising(error: Exception) -> Any:
    def call(*args: Any) -> None:
        raise error

    return call


CRASHING = (
    DYING
    + """
from axonrl.run_dir.programs import shared_content
for k in range(1, 100):
    child = os.fork()
    if child == 0:
        die_before_call(k)
        shared_content("actor", str(k), lambda: bytes([k]) * 1000)
        os._exit(0)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    def make():
        print("made", flush=True)
        return bytes([k]) * 1000
    assert shared_content("actor", str(k), make) == bytes([k]) * 1000
    print(status, flush=True)
    if status == 0:
        break
"""
)


def test_killed_before_each_call_to_the_file_system_it_is_whole_or_made_again(folder: Path) -> None:
    lines = run_dying(CRASHING)
    assert lines[0] == "made"  # killed before anything was there
    assert lines[-2:] == ["9", "0"]  # killed after it was in place; not killed
    assert len([*folder.glob("[!.]*")]) == len([line for line in lines if line != "made"])


def test_the_programs_used_longest_ago_are_removed(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for second, key in enumerate("abc"):
        shared_content("actor", key, returning(CONTENT))
        os.utime(folder / f"actor-{key}.safetensors", (second, second))
    size = (folder / "actor-a.safetensors").stat().st_size
    monkeypatch.setattr(programs, "MAX_BYTES", 3 * size)
    shared_content("actor", "a", never)  # used now
    shared_content("actor", "d", returning(CONTENT))
    assert sorted(path.stem for path in folder.iterdir()) == ["actor-a", "actor-c", "actor-d"]


def test_without_a_folder_that_can_be_written_nothing_is_shared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv(programs.VARIABLE, str(tmp_path / "file"))
    assert shared_content("actor", "k", returning(CONTENT)) == CONTENT
    assert said(caplog, logging.WARNING) == []


def test_where_the_shared_folder_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(programs.VARIABLE, "")
    assert programs.shared_folder() is None
    monkeypatch.setenv(programs.VARIABLE, "/x/programs")
    assert programs.shared_folder() == Path("/x/programs")
    monkeypatch.delenv(programs.VARIABLE)
    monkeypatch.setenv("XDG_CACHE_HOME", "/x/cache")
    assert programs.shared_folder() == Path("/x/cache/axonrl")
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert programs.shared_folder() == Path.home() / ".cache/axonrl"


@pytest.fixture
def conversions(monkeypatch: pytest.MonkeyPatch, folder: Path) -> list[tuple[str, ...]]:
    """The functions of each conversion; none are shared to begin with."""
    found: list[tuple[str, ...]] = []

    def noting(functions: Any, variables: Any) -> bytes:
        found.append(tuple(functions))
        return convert(functions, variables)

    monkeypatch.setattr(executor_choice, "convert", noting)
    monkeypatch.setattr(program_cache, "program_folder", lambda: None)  # whole training programs would leave none
    return found


def test_a_new_agent_goes_on_without_converting(conversions: list[tuple[str, ...]], tmp_path: Path) -> None:
    """For training, for evaluation and for predictions; and to the same weights."""

    def train(name: str, timesteps: int, **model: Any) -> Agent:
        one = agent(tmp_path / name, ReplayMemory(100, 4), **model)
        return one.train(Counting(), 8, 2, max_timesteps=timesteps)

    def acts() -> tuple[Any, list[Any]]:
        one = Agent(None, model_dir=tmp_path / "parts")
        predictions = one.predict(np.ones((2, 2), np.float32))
        return one.evaluate(Counting(5), 3), [value.tolist() for value in predictions.values()]

    for name, timesteps in (("whole", 60), ("parts", 30)):
        train(name, timesteps, model=dqn.model_fn, params={"hidden": [4], "epsilon": 0.5})
    expected = acts()
    # Equal models convert once; acting alone is another program.
    assert conversions == [("act", "train"), ("act",)]
    assert acts() == expected
    train("parts", 60, model=None)
    assert len(conversions) == 2
    assert differences(snapshot(tmp_path / "whole"), snapshot(tmp_path / "parts")) == []


def test_an_untrained_model_leaves_nothing_behind(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    one = agent(folder)
    with pytest.raises(ValueError, match="predict needs a trained run"):
        one.predict(np.zeros((1, 2), np.float32))
    assert one.evaluate(Counting(), 1)["episodes"] == 1
    assert one.predict(np.zeros((1, 2), np.float32))["action"].shape == (1,)
    assert not folder.exists()


PROGRAM = """\
import logging
import numpy as np
import users_helper

RATE = 1e-3
LIMIT, WIDTH, FACTOR = 10, 20, 30
TABLE = np.zeros(3)
logger = logging.getLogger()
seed = 0

class Base:
    size = 1

class Model(Base):
    width = WIDTH
    def call(self, x):
        return x * RATE
    @property
    def limit(self):
        return LIMIT

def times(n):
    return lambda x: n * x
first, second = times(4), times(5)

class Options:
    width = 5
OPTIONS = Options()

def helped(x, factor=FACTOR):
    return Model().call(x) + users_helper.SCALE + users_helper.rate() + first(second(x)) * factor

def made(gamma, state):
    def model_fn(features):
        seed = 1
        logger.info("traced")
        return helped(features) * gamma + TABLE.sum() + np.sum(state or 0)
    return model_fn
"""
HELPER = """\
SCALE = 2
RATE = 7
def rate():
    return RATE
"""


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Imports the program, with some of its text replaced."""
    monkeypatch.syspath_prepend(tmp_path)

    def imported(old: str = "", new: str = "", helper: str = HELPER) -> ModuleType:
        for name, text in (("users_program", PROGRAM.replace(old, new) if old else PROGRAM), ("users_helper", helper)):
            (tmp_path / f"{name}.py").write_text(text)
            sys.modules.pop(name, None)
        importlib.invalidate_caches()
        return importlib.import_module("users_program")

    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    yield imported
    for name in ("users_program", "users_helper"):
        sys.modules.pop(name, None)


def test_an_edit_that_can_matter_makes_another_digest(program: Any) -> None:
    first = digest_of(program().made(0.9, None))
    assert set(first) == {"digest"}
    edits = [
        *(("RATE = 1e-3", "RATE = 1e-4"), ("size = 1", "size = 2"), ("x * RATE", "x + RATE")),
        *(("zeros(3)", "ones(3)"), ("def call(self, x)", "def call(self, x, y=1)")),
        *(("= 10,", "= 11,"), (" 20,", " 21,"), (" 30\n", " 31\n")),  # of a property, an attribute, a default
        *(("times(4)", "times(3)"), ("times(5)", "times(6)")),  # in closures of one function
    ]
    digests = [digest_of(program(*edit).made(0.9, None))["digest"] for edit in edits]
    digests += [digest_of(program().made(0.8, None))["digest"]]  # in a closure
    for edit in (("SCALE = 2", "SCALE = 3"), ("RATE = 7", "RATE = 8")):  # in another module of the user's
        digests += [digest_of(program(helper=HELPER.replace(*edit)).made(0.9, None))["digest"]]
    assert first["digest"] not in digests
    assert len(set(digests)) == len(digests)


def test_what_cannot_matter_makes_the_same_digest(program: Any) -> None:
    first = digest_of(program().made(0.9, None))
    comment = ("RATE = 1e-3", "RATE = 1e-3  # as in the paper\n")
    unused = ("\nseed = 0", "\nseed = 1")  # a local variable has the name of a global one
    for edit in (comment, unused):
        assert digest_of(program(*edit).made(0.9, None)) == first


def test_what_cannot_be_seen_is_named(program: Any) -> None:
    assert digest_of(program().made(0.9, iter([])))["unknown"] == ["state"]
    default = "def model_fn(features, options=OPTIONS):"
    made = program("def model_fn(features):", default).made(0.9, None)
    assert digest_of(made)["unknown"] == ["model_fn(options)"]


def test_only_code_of_the_users_own_is_recorded(program: Any) -> None:
    assert list(source_digests(program().helped, None)) == ["model_fn"]
    assert (
        source_digests(len, None)
        == source_digests(importlib.import_module, None)
        == source_digests(digest_of, None)
        == {}
    )
