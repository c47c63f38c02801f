"""What a service does when its disk fails or is full."""

import contextlib
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from axonrl.serving import RemoteAgent
from axonrl.serving.catalogue import Recipe

from .experience import alike, batch, step
from .service import SMALL, Service, serving, timesteps

pytestmark = pytest.mark.server


@pytest.fixture
def a(service: Service) -> RemoteAgent:
    return created(service, "a")


def created(service: Service, name: str) -> RemoteAgent:
    agent = service.agent(name, **SMALL)
    agent.remove(agent_name=name)
    agent.create_agent(4, 2, "dqn")
    return agent


def step_status(service: Service, k: int) -> tuple[int, str]:
    """A step that is sent once: status, and the code of a failure, or ``replayed``."""
    state, action, reward, after, done = step(k)
    data = {"state": state, "action": [action], "reward": reward, "next_state": after, "done": done}
    status, head, body = service.ask("POST", "/api/v1/agents/a/step", {"step_data": data}, f"key-{k}")
    return status, body.get("code", "replayed" if "idempotent-replayed" in head else "")


@pytest.mark.parametrize(
    ("fault", "refused"), [("fdatasync EIO", (503, "unavailable")), ("write ENOSPC", (507, "storage_full"))]
)
def test_what_cannot_be_kept_is_not_acknowledged(
    service: Service, a: RemoteAgent, fault: str, refused: tuple[int, str]
) -> None:
    faults = service.data.with_name("faults")
    for k in range(20):
        a.step(*step(k))
    faults.write_text(fault)
    try:
        assert [step_status(service, k) for k in (20, 20)] == [refused] * 2
        assert a.act([0.0] * 4) in (0, 1)
        assert timesteps(a) == 20
    finally:
        faults.unlink()
    # Not a repetition: what may not be on the disk was forgotten.
    assert [step_status(service, k) for k in (20, 21, 21)] == [(200, ""), (200, ""), (200, "replayed")]
    service.kill()
    service.start()
    assert timesteps(a) == 22
    twin = created(service, "twin")
    twin.step_batch(*batch(0, 22))
    assert alike(a, twin)


def fill(path: Path) -> None:
    """Write a file until the disk is full."""
    with contextlib.suppress(OSError), path.open("wb", buffering=0) as file:
        while True:
            file.write(bytes(1 << 12))


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may mount a small disk")
def test_a_disk_that_is_full(built: Callable[..., Recipe], programs: Path, tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=24m", "none", disk], capture_output=True, check=False)
    if mounted.returncode:
        pytest.skip("a small disk cannot be mounted here")
    try:
        built("dqn", {**SMALL, "state_size": 4, "action_size": 2})
        with serving(disk / "data", programs) as service:
            agent = created(service, "a")
            agent.step(*step(0))
            fill(disk / "filling")
            refused = [step_status(service, k) for k in range(1, 100)]
            assert refused[-1] == (507, "storage_full")
            kept = [k for k, answer in enumerate(refused, 1) if answer[0] == 200]  # what fitted into the last page
            assert {answer for answer in refused if answer[0] != 200} == {(507, "storage_full")}
            assert agent.act([0.0] * 4) in (0, 1)
            assert service.ready() == 503
            (disk / "filling").unlink()
            assert step_status(service, 100) == (200, "")
            assert service.ready() == 200
            service.kill()
            service.start()
            assert timesteps(agent) == len(kept) + 2
            service.end()
    finally:
        subprocess.run(["umount", "-l", disk], check=True)
