"""Clusters of our own that fail as a whole: nothing stays connected, no process stays, the run folder is intact."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from axonrl import Agent, RunConfig
from axonrl.distributed import Cluster
from axonrl.distributed.guardian import descendants
from axonrl.memories import BatchMemory
from axonrl.models import impala
from axonrl.runs.checkpoints import CheckpointStore

HERE = Path(__file__).parent


def environment(folder: Path) -> dict[str, str]:
    """Of a user who has no token."""
    env = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
    return env | {"HOME": str(folder), "PYTHONPATH": os.pathsep.join([str(HERE), *sys.path])}


def run(script: str, *words: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """A function of ``for_clusters``, in a process of its own."""
    env = environment(folder)
    command = [sys.executable, "-c", f"import for_clusters; for_clusters.{script}(*{words!r})"]
    return subprocess.run(command, check=False, env=env, capture_output=True, text=True, timeout=120)


def remaining(pids: list[int]) -> set[int]:
    """Those that are there after 30 s."""
    until = time.monotonic() + 30
    while (left := {pid for pid in pids if Path(f"/proc/{pid}").exists()}) and time.monotonic() < until:
        time.sleep(0.1)
    return left


def agent(folder: Path) -> Agent:
    return Agent(impala.model_fn, BatchMemory(40), folder, RunConfig(seed=1, progress=False), {"hidden": (8,)})


@pytest.mark.parametrize("daemon", ["raylet", "gcs_server"])
def test_a_run_whose_daemon_is_killed_ends_and_goes_on_elsewhere(daemon: str, tmp_path: Path) -> None:
    ended = run("train_and_kill", daemon, str(tmp_path / "run"), folder=tmp_path)
    assert ended.returncode == 1
    assert f"Ray's {daemon}" in ended.stderr
    killed_at, *pids = (int(word) for word in ended.stdout.splitlines()[0].split())  # Ray may say more
    assert len(pids) >= 6
    assert not remaining(pids)
    again = agent(tmp_path / "run")
    assert again.global_step >= (3 if daemon == "raylet" else killed_at)  # where Ray leaves the time for it, a last one
    before: Any = again.global_step
    settings = Cluster(actors=2, envs_per_actor=2, fragment=10, backend="inline")
    again.train("CartPole-v1", steps=1, cluster=settings)
    assert again.global_step == before + 1


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_signal_saves_and_leaves_nothing(number: signal.Signals, code: int, tmp_path: Path) -> None:
    """As from a terminal: the whole group gets it."""
    folder = tmp_path / "run"
    command = [sys.executable, "-c", "import sys; from axonrl.experiments.commands.cli import main; sys.exit(main())"]
    command += ["run", "apex_cartpole", "--model-dir", str(folder)]
    for setting in (
        "config.save_checkpoints_secs=0.1",
        "train.max_timesteps=10000000",
        "hooks=[]",
        "evaluate.policy=last",
    ):
        command += ["--set", setting]
    with subprocess.Popen(
        command, env=environment(tmp_path), start_new_session=True, stderr=subprocess.PIPE, text=True
    ) as process:
        store, until = CheckpointStore(folder), time.monotonic() + 90
        while (store.newest() or 0) < 3 and process.poll() is None and time.monotonic() < until:
            time.sleep(0.1)
        below, before = sorted(descendants(process.pid)), store.newest() or 0
        if process.poll() is None:
            os.killpg(process.pid, number)
        _, said = process.communicate(timeout=60)
    assert process.returncode == code, said
    assert len(below) >= 6
    assert not remaining(below)
    loaded = store.load()
    assert loaded is not None
    assert loaded[0] >= before >= 3
    assert f"at timestep {loaded[1]['counters']['global_timestep']:,}. Saved in" in said
    assert (
        loaded[1]["memory"]["state"]["shards"]["0"]["memory"]["begin"].size == 16
    )  # lanes: what the shard held is there


def test_an_error_between_connecting_and_training_leaves_nothing(tmp_path: Path) -> None:
    ended = run("fail_to_connect", str(tmp_path / "run"), folder=tmp_path)
    assert (ended.returncode, ended.stdout) == (0, "shards: no False, no processes\nstore: no False, no processes\n")
