"""What a service does when its disk fails or is full, and what it makes of files that were damaged."""

import contextlib
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from axonrl.serving import RemoteAgent
from axonrl.serving.catalogue import Recipe

from .experience import alike, batch, step
from .service import Service, serving, wait_for

Built = Callable[..., Recipe]
SMALL: dict[str, Any] = {"seed": 0, "hidden_layers": [8], "batch_size": 8, "buffer_size": 500}
FAULTY = Path(__file__).parent / "faulty"
JOURNAL_HEAD = 25


@pytest.fixture(scope="module")
def faults(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("faults") / "now"


@pytest.fixture(scope="module")
def service(built: Built, programs: Path, faults: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    built("dqn", {**SMALL, "state_size": 4, "action_size": 2})
    path = os.pathsep.join(filter(None, (str(FAULTY), os.environ.get("PYTHONPATH"))))
    environment = {"PYTHONPATH": path, "FAULTS": str(faults)}
    with serving(tmp_path_factory.mktemp("service") / "data", programs, environment=environment) as started:
        yield started


def created(service: Service, name: str) -> RemoteAgent:
    agent = service.agent(name, **SMALL)
    agent.remove(agent_name=name)
    agent.create_agent(4, 2, "dqn")
    return agent


@pytest.fixture
def a(service: Service) -> RemoteAgent:
    return created(service, "a")


def twin(service: Service, steps: int) -> RemoteAgent:
    """An agent that had these steps undisturbed."""
    agent = created(service, "twin")
    agent.step_batch(*batch(0, steps))
    return agent


def timesteps(agent: RemoteAgent) -> int:
    found: int = agent.info()["counters"]["global_timestep"]
    return found


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
    service: Service, a: RemoteAgent, faults: Path, fault: str, refused: tuple[int, str]
) -> None:
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
    assert alike(a, twin(service, 22))


def fill(path: Path) -> None:
    """Write a file until the disk is full."""
    with contextlib.suppress(OSError), path.open("wb", buffering=0) as file:
        while True:
            file.write(bytes(1 << 12))


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may mount a small disk")
def test_a_disk_that_is_full(built: Built, programs: Path, tmp_path: Path) -> None:
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


# -- damage -----------------------------------------------------------------------------------------------------------


def test_a_damaged_record_fails_the_agent_which_can_go_on_before_it(service: Service, a: RemoteAgent) -> None:
    for k in range(30):
        a.step(*step(k))
    folder = service.folder("a")
    service.kill()
    (file,) = folder.glob("journal/*.log")
    content = bytearray(file.read_bytes())
    each = (len(content) - JOURNAL_HEAD) // 30
    content[JOURNAL_HEAD + 10 * each + each // 2] ^= 1
    file.write_bytes(content[:-1])  # and the last record is torn, which is no damage
    service.start()
    info = a.info()
    assert info["status"] == "failed"
    assert str(file) in info["status_detail"]
    assert f"byte {JOURNAL_HEAD + 10 * each}" in info["status_detail"]
    assert step_status(service, 30) == (409, "agent_failed")
    assert a.act([0.0] * 4) in (0, 1)
    status, _, body = service.ask("PATCH", "/api/v1/agents/a", {"status": "ready"})
    assert (status, body["status"], body["lost"]) == (200, "ready", 19)
    assert timesteps(a) == 10
    assert alike(a, twin(service, 10))
    assert step_status(service, 30) == (200, "")


def test_a_torn_record_was_never_acknowledged(service: Service, a: RemoteAgent) -> None:
    for k in range(10):
        a.step(*step(k))
    folder = service.folder("a")
    service.kill()
    (file,) = folder.glob("journal/*.log")
    os.truncate(file, file.stat().st_size - 7)
    service.start()
    assert (timesteps(a), a.info()["status"]) == (9, "ready")


def test_the_checkpoint_before_a_damaged_one_and_the_journal(service: Service, a: RemoteAgent) -> None:
    for begin in (0, 40, 80):
        a.step_batch(*batch(begin, begin + 40))
        a.deactivate()  # is saved
        a.activate()
    a.step_batch(*batch(120, 150))
    folder = service.folder("a")
    service.kill()
    newest = max(folder.glob("checkpoints/checkpoint-*")) / "arrays.safetensors"
    content = bytearray(newest.read_bytes())
    content[-1] ^= 1
    newest.write_bytes(content)
    service.start()
    assert timesteps(a) == 150
    assert alike(a, twin(service, 150))
    wait_for(lambda: str(newest.parent) in service.log.read_text())


def test_an_agent_without_a_whole_checkpoint_has_failed(service: Service, a: RemoteAgent) -> None:
    a.step(*step(0))
    folder = service.folder("a")
    service.kill()
    for path in folder.glob("checkpoints/checkpoint-*/arrays.safetensors"):
        path.write_bytes(b"")
    service.start()
    info = a.info()
    assert (info["status"], str(folder) in info["status_detail"]) == ("failed", True)
    assert step_status(service, 1) == (409, "agent_failed")
    assert a.remove(agent_name="a") is True
    assert not folder.exists()
