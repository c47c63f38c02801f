"""Clusters of our own that fail as a whole: nothing stays connected, no process stays, the run folder is intact."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from axonrl.distributed import Cluster
from axonrl.distributed.guardian import descendants
from axonrl.run_dir.checkpoints import CheckpointStore

from .agents import remaining, rollouts

pytestmark = pytest.mark.ray

HERE = Path(__file__).parent
COMMAND = [sys.executable, "-c", "import sys; from axonrl.experiments.commands.cli import main; sys.exit(main())"]


def environment(folder: Path) -> dict[str, str]:
    """Of a user who has no token."""
    env = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
    return env | {"HOME": str(folder), "PYTHONPATH": os.pathsep.join([str(HERE), *sys.path])}


def calling(script: str, *words: str) -> list[str]:
    """A command that calls a function of ``for_clusters``."""
    return [sys.executable, "-c", f"import for_clusters; for_clusters.{script}(*{words!r})"]


def run(script: str, *words: str, folder: Path) -> subprocess.CompletedProcess[str]:
    env, command = environment(folder), calling(script, *words)
    return subprocess.run(command, check=False, env=env, capture_output=True, text=True, timeout=500)


def test_a_run_whose_daemon_is_killed_ends_and_goes_on_elsewhere(tmp_path: Path) -> None:
    ended = run("train_and_kill", str(tmp_path / "run"), folder=tmp_path)
    assert ended.returncode == 1
    assert "Ray's raylet" in ended.stderr
    pids = [int(word) for word in ended.stdout.splitlines()[0].split()]  # Ray may say more
    assert len(pids) >= 6
    assert not remaining(pids)
    again = rollouts(tmp_path / "run")
    before: Any = again.global_step
    assert before >= 3
    settings = Cluster(actors=2, envs_per_actor=2, unroll=10, backend="inline")
    again.train("CartPole-v1", steps=1, cluster=settings)
    assert again.global_step == before + 1


BESIDE = """
import gymnasium
gymnasium.register("Beside-v0", "gymnasium.envs.classic_control:CartPoleEnv")
"""
FILE = """
environment: {id: "beside_the_file:Beside-v0"}
agent: {model_fn: dqn, params: {hidden: [4]}, memory: {kind: replay, size: 2000, batch_size: 8}}
config: {save_checkpoints_secs: 0.1}
distributed: {actors: 2, envs_per_actor: 2, unroll: 10, actor_cpus: 0.5, shard_cpus: 0.5}
train: {first_update: 200, update_frequency: 8, max_timesteps: 10000000}
"""


def test_a_signal_saves_and_leaves_nothing(tmp_path: Path) -> None:
    """As from a terminal: the whole group gets it. The environment is in a module beside the file of the experiment."""
    folder, file = tmp_path / "run", tmp_path / "beside.yml"
    file.write_text(FILE)
    (tmp_path / "beside_the_file.py").write_text(BESIDE)
    command = [*COMMAND, "run", str(file), "--model-dir", str(folder)]
    with subprocess.Popen(
        command, env=environment(tmp_path), start_new_session=True, stderr=subprocess.PIPE, text=True
    ) as process:
        store, until = CheckpointStore(folder), time.monotonic() + 500
        while (store.newest() or 0) < 3 and process.poll() is None and time.monotonic() < until:
            time.sleep(0.1)
        below, before = sorted(descendants(process.pid)), store.newest() or 0
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGTERM)
        _, said = process.communicate(timeout=500)
    assert process.returncode == 143, said
    assert len(below) >= 6
    assert not remaining(below)
    loaded = store.load()
    assert loaded is not None
    assert loaded[0] >= before >= 3
    assert f"at timestep {loaded[1]['counters']['global_timestep']:,}. Saved in" in said
    assert loaded[1]["memory"]["state"]["shards"]["0"]["memory"]["begin"].size == 4  # lanes: what the shard held


def test_neither_errors_between_connecting_and_training_nor_a_killed_driver_leave_a_process(tmp_path: Path) -> None:
    command = calling("fail_to_connect_and_train", str(tmp_path / "run"))
    with subprocess.Popen(command, env=environment(tmp_path), stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for line in ("shards: no False, no processes\n", "store: no False, no processes\n", "learning\n"):
            assert process.stdout.readline() == line
        below = descendants(process.pid)
        assert len(below) >= 6  # the guardian, Ray's daemons, two actors
        process.kill()
    assert not remaining(below)
