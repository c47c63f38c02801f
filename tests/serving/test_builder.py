"""The builder, in a thread of the tests; one small DQN is built for all of them. And how it ends with its gateway."""

import json
import os
import select
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from axonrl.core.protocols import Array
from axonrl.estimators import compilation
from axonrl.estimators.stepper import Stepper
from axonrl.run_dir import programs
from axonrl.serving.catalogue import Recipe, recipe
from axonrl.serving.hosting.programs import ProgramMissingError, open_stepper, program_of
from axonrl.serving.workers.builder import build, serve
from axonrl.serving.workers.messages import encode, read

from .hosted import learn

SMALL = {"state_size": 3, "action_size": 2, "hidden_layers": [4], "batch_size": 4, "buffer_size": 64, "seed": 11}


class Connection:
    """A builder that is running, and the gateway's end of its socket."""

    def __init__(self, programs: Path, **more: float) -> None:
        self.programs = programs
        self.socket, self._theirs = socket.socketpair()
        self.socket.settimeout(120)
        self.thread = threading.Thread(target=serve, args=(self._theirs, programs), kwargs=more)
        self.thread.start()

    def ask(self, value: Any, **head: Any) -> tuple[int, dict[str, Any]]:
        self.socket.sendall(encode({"id": 5, **head}, json.dumps(value).encode()))
        frame = read(self.socket)
        assert frame is not None
        assert frame.head["id"] == 5
        return frame.head["status"], json.loads(frame.body)

    def close(self) -> None:
        self.socket.close()
        self.thread.join(120)
        self._theirs.close()
        assert not self.thread.is_alive()


def small(**config: Any) -> Recipe:
    return recipe("dqn", {**SMALL, **config})


@pytest.fixture(scope="module")
def builder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Connection]:
    connection = Connection(tmp_path_factory.mktemp("service") / "programs")
    try:
        status, body = connection.ask(small().to_json())
        assert (status, body["built"]) == (200, True), body
        yield connection
    finally:
        connection.close()


def test_another_learning_rate_needs_no_other_program(builder: Connection, tmp_path: Path) -> None:
    """What it learns is to the bit what a program of its own learns; another number of layers is another program."""
    other = small(lr=0.01)
    with pytest.raises(ProgramMissingError):
        program_of(small(hidden_layers=[9]), builder.programs)
    with pytest.raises(ProgramMissingError):
        program_of(small(lr=0), builder.programs)  # which may mean that a part is switched off
    status, body = builder.ask(other.to_json())
    assert (status, body["built"], body["digest"]) == (200, False, small().digest)
    assert build(other, tmp_path) == (True, other.digest)
    learned = [
        _learned(open_stepper(recipe, folder))
        for recipe, folder in ((other, builder.programs), (other, tmp_path), (small(), builder.programs))
    ]
    for name, value in learned[0].items():
        np.testing.assert_array_equal(value, learned[1][name])
    assert any((value != learned[2][name]).any() for name, value in learned[0].items())


def test_a_program_of_the_cache_is_taken_without_tensorflow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also by a service with another folder, for any seed; agents learn the same, bit for bit."""
    monkeypatch.setenv(programs.VARIABLE, str(tmp_path / "cache"))
    assert build(small(), tmp_path / "first") == (True, small().digest)
    monkeypatch.setattr(compilation, "load_tensorflow", None)
    first, second = (_learned(open_stepper(small(seed=7), tmp_path / folder)) for folder in ("first", "second"))
    for name, value in first.items():
        np.testing.assert_array_equal(value, second[name])
    assert build(small(seed=8), tmp_path / "second") == (False, small().digest)
    with pytest.raises(ProgramMissingError):
        open_stepper(small(hidden_layers=[5]), tmp_path / "second")
    for file in tmp_path.glob("cache/programs/*/program.tflite"):
        file.write_bytes(b"damaged")
    with pytest.raises(ProgramMissingError):
        open_stepper(small(), tmp_path / "third")


def _learned(stepper: Stepper) -> dict[str, Array]:
    rng = np.random.default_rng(0)
    for _ in range(40):
        row: dict[str, Any] = {"action": np.int32(rng.integers(2)), "reward": 1.0}
        row |= {"terminated": False, "truncated": False}
        row |= {name: rng.normal(size=3).astype(np.float32) for name in ("observation", "next_observation")}
        learn(stepper, row)
    return stepper.weights()


def test_a_damaged_program_is_built_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(programs.VARIABLE, str(tmp_path / "cache"))
    build(small(), tmp_path)
    for name in ("program.json", "program.tflite"):
        (tmp_path / small().digest / name).write_bytes(b"damaged")
        with pytest.raises(ProgramMissingError):  # so the worker asks for it
            open_stepper(small(), tmp_path)
        assert build(small(), tmp_path) == (True, small().digest)
        assert open_stepper(small(), tmp_path).counters.global_step == 0


def test_what_a_model_refuses_is_data(builder: Connection) -> None:
    constant = small(exploration="constant")  # which needs a number as epsilon
    status, body = builder.ask(constant.to_json())
    assert (status, body["code"]) == (422, "invalid_value")
    assert [error["where"] for error in body["errors"]] == ["config.epsilon"]
    assert sorted(path.name for path in builder.programs.glob(f"*{constant.digest}*")) == []
    assert builder.ask({"nosuch": 1})[0] == 422


def test_it_ends_when_it_has_nothing_to_do(tmp_path: Path) -> None:
    idle = Connection(tmp_path, idle_seconds=0.01)
    idle.thread.join(60)
    idle.close()


STUCK = """
import pathlib, socket, sys, time
pathlib.Path("written").touch()
socket.socket(fileno=int(sys.argv[1])).send(b".")
time.sleep(600)
"""
GATEWAY = """
import subprocess, sys, time
command = [sys.executable, "-m", "axonrl.serving.workers.parent_death", sys.argv[1], "stuck"]
child = subprocess.Popen(command, pass_fds=[int(sys.argv[1])])
print(child.pid, flush=True)
time.sleep(600)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the system tells children of a parent's end only there")
def test_a_process_is_killed_with_its_gateway_and_writes_for_nobody_else(tmp_path: Path) -> None:
    """Also in the middle of a conversion, where it looks at no socket: here the socket stays open elsewhere."""
    (tmp_path / "stuck.py").write_text(STUCK)
    ours, theirs = socket.socketpair()
    with ours, theirs:
        number = theirs.fileno()
        command = [sys.executable, "-c", GATEWAY, str(number)]
        path = os.pathsep.join([*sys.path, str(tmp_path)])
        gateway = subprocess.Popen(
            command, cwd=tmp_path, pass_fds=[number], stdout=subprocess.PIPE, env={**os.environ, "PYTHONPATH": path}
        )
        try:
            assert gateway.stdout is not None
            child = int(gateway.stdout.readline())
            descriptor = os.pidfd_open(child)
            ours.settimeout(60)
            assert ours.recv(1) == b"."  # it runs
            assert not select.select([descriptor], [], [], 0)[0]
        finally:
            gateway.kill()
            gateway.communicate()
        assert select.select([descriptor], [], [], 60)[0]
        os.close(descriptor)
    assert (tmp_path / "written").stat().st_mode & 0o777 == 0o600
