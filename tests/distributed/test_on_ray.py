"""Training with actors and replay shards in processes of Ray. One cluster for all tests of this file."""

import importlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from axonrl import Agent, RunConfig
from axonrl.distributed import Cluster, driver, on_ray, parts
from axonrl.distributed.connecting import Connection
from axonrl.distributed.guardian import descendants
from axonrl.distributed.planner import Planner
from axonrl.errors import ArgumentError, ClusterError
from axonrl.hooks import Hook
from axonrl.memories import BatchMemory, Prioritized, ReplayMemory
from axonrl.models import dqn, impala

HERE = Path(__file__).parent
SHARED: dict[str, Any] = {"actors": 2, "envs_per_actor": 2, "fragment": 10, "actor_cpus": 0.5, "shard_cpus": 0.5}
QUICK: dict[str, Any] = {**SHARED, "restart_delay_s": 0.05, "stall_timeout_s": 60}
SMALL: dict[str, Any] = {"hidden": (8,)}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A cluster that this process has joined; yields the folder of the actors' notes."""
    home, notes = tmp_path_factory.mktemp("home"), tmp_path_factory.mktemp("notes")
    with pytest.MonkeyPatch.context() as patch:
        for name in [name for name in os.environ if name.startswith("RAY_")]:
            patch.delenv(name)
        patch.setenv("HOME", str(home))  # where Ray would keep a token
        patch.setenv("AXONRL_TEST_REPORTS", str(notes))
        patch.syspath_prepend(str(HERE))
        before = signal.getsignal(signal.SIGTERM)
        connection = Connection(Cluster(**QUICK), shards=2)
        assert signal.getsignal(signal.SIGTERM) is before  # Ray's would end the driver without a checkpoint
        yield notes
        connection.close()
        assert not (home / ".ray").exists()
        assert "RAY_AUTH_TOKEN" not in os.environ


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The planner and the backend of each training."""
    made: list[Any] = []

    def noting(kind: Callable[..., Any]) -> Callable[..., Any]:
        def make(*args: Any, **kwargs: Any) -> Any:
            made.append(kind(*args, **kwargs))
            return made[-1]

        return make

    monkeypatch.setattr(driver, "Planner", noting(Planner))
    monkeypatch.setattr(on_ray, "OnRay", noting(on_ray.OnRay))
    return made


class Once(Hook):
    """Does something at the third update, and stops when something is true later."""

    def __init__(self, act: Callable[[], None], until: Callable[[], bool]) -> None:
        self._act, self._until = act, until

    def after_update(self, session: Any, facts: Any) -> None:
        if session.global_step == 3:
            self._act()
        elif session.global_step > 3 and self._until():
            session.request_stop("it has happened")


def factory(name: str) -> Any:
    return getattr(importlib.import_module("for_actors"), name)  # as actors import it


def notes_in(folder: Path) -> dict[int, Any]:
    return {int(path.stem): json.loads(path.read_text()) for path in folder.glob("*.json")}


def rollouts(folder: Path) -> Agent:
    return Agent(impala.model_fn, BatchMemory(40), folder, RunConfig(seed=1, progress=False), SMALL)


def replay(folder: Path) -> Agent:
    memory = ReplayMemory(2000, 8, n_step=3, sampler=Prioritized())
    return Agent(dqn.model_fn, memory, folder, RunConfig(seed=1, progress=False), SMALL)


def test_impala_counts_what_actors_without_tensorflow_did(cluster: Path, seen: list[Any], tmp_path: Path) -> None:
    agent = rollouts(tmp_path)
    agent.train(factory("reporting"), cluster=Cluster(**QUICK), max_timesteps=2000)
    assert (agent.global_timestep, agent.global_step) == (2000, 50)
    assert seen[0].counts["accepted"] == 100
    assert agent.global_episode > 20
    notes = notes_in(cluster)
    assert len(notes) == 2
    assert os.getpid() not in notes
    assert not any(note["tensorflow"] for note in notes.values())
    assert all(note["Private_Dirty:"] < 90 * 1024 for note in notes.values()), notes
    assert agent.evaluate("CartPole-v1", 1)["episodes"] == 1  # an ordinary agent again
    agent.train("CartPole-v1", cluster=Cluster(**QUICK), timesteps=200)
    assert (agent.global_timestep, agent.global_step) == (2200, 55)


def test_actors_load_tensorflow_for_a_model_that_litert_does_not_run(cluster: Path, tmp_path: Path) -> None:
    before = set(notes_in(cluster))
    model_fn = importlib.import_module("in_tensorflow").model_fn
    weights = []
    for backend in ("ray", "inline"):
        config = RunConfig(seed=1, progress=False)
        agent = Agent(model_fn, BatchMemory(40), tmp_path / backend, config, SMALL)
        with pytest.raises(ArgumentError) as refused:
            agent.train(factory("reporting"), cluster=Cluster(**QUICK, backend=backend), max_timesteps=80)
        assert refused.value.argument == "Cluster.actor_runtime"
        settings = Cluster(**QUICK, backend=backend, actor_runtime="tensorflow", lockstep=True)
        agent.train(factory("reporting"), cluster=settings, max_timesteps=200)
        assert agent.global_step == 5
        weights.append(agent.get_weights())
    for name, value in weights[0].items():
        np.testing.assert_array_equal(value, weights[1][name])
    notes = [note for pid, note in notes_in(cluster).items() if pid not in before and pid != os.getpid()]
    assert len(notes) == 2
    assert all(note["tensorflow"] for note in notes)


def test_ape_x_learns_from_two_shards_and_saves_them(
    cluster: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parts, "PART_BYTES", 5000)
    agent = replay(tmp_path)
    settings = Cluster(**QUICK, replay_shards=2)
    agent.train("CartPole-v1", 200, 8, cluster=settings, max_timesteps=1000)
    assert agent.global_timestep == 1000
    assert agent.global_step == 101  # from timestep 200 on, each 8
    again = replay(tmp_path)
    again.train("CartPole-v1", 200, 8, cluster=settings, max_timesteps=1200)
    assert again.global_timestep == 1200
    assert again.global_step == 126


def test_lockstep_is_the_same_run_as_in_one_process(cluster: Path, tmp_path: Path) -> None:
    weights = []
    for backend in ("inline", "ray"):
        agent = rollouts(tmp_path / backend)
        agent.train("CartPole-v1", cluster=Cluster(**QUICK, backend=backend, lockstep=True), max_timesteps=800)
        assert agent.global_step == 20
        weights.append(agent.get_weights())
    for name, value in weights[0].items():
        np.testing.assert_array_equal(value, weights[1][name])


@pytest.mark.parametrize(("number", "how"), [(1, signal.SIGKILL), (2, signal.SIGKILL), (1, signal.SIGSTOP)])
def test_a_killed_actor_is_replaced(
    cluster: Path, seen: list[Any], tmp_path: Path, number: int, how: signal.Signals
) -> None:
    """One, or all of them; one that stands still does not answer in time."""
    before = set(notes_in(cluster))

    killed: set[int] = set()

    def replaced() -> bool:
        new = set(notes_in(cluster)) - before
        if not killed and len(new) >= 2:
            killed.update(sorted(new)[:number])
            for pid in killed:
                os.kill(pid, how)
        return len(new) == 2 + number

    agent, settings = rollouts(tmp_path), Cluster(**QUICK, fragment_timeout_s=60 if how == signal.SIGKILL else 3)
    agent.train(factory("reporting"), cluster=settings, hooks=Once(lambda: None, replaced), max_timesteps=10**7)
    counts = seen[0].counts
    assert counts["restarts"] == number
    assert 0 < counts["lost"] <= 2 * number
    assert counts["asked"] == counts["accepted"] + counts["lost"] + seen[0].in_flight()
    assert agent.global_timestep == 40 * agent.global_step
    assert 0 <= 20 * counts["accepted"] - agent.global_timestep <= 20 * 10  # what waited for the learner


def test_a_killed_shard_is_replaced_by_an_empty_one(cluster: Path, seen: list[Any], tmp_path: Path) -> None:
    import ray

    def first() -> Any:
        return seen[1]._shards._shards[0]

    def kill() -> None:
        os.kill(ray.get(first().handle.pid.remote()), signal.SIGKILL)

    def used_again() -> bool:
        return bool(first().incarnation == 1 and first().samples)

    agent = replay(tmp_path)
    settings = Cluster(**QUICK, replay_shards=2)
    agent.train("CartPole-v1", 200, 8, cluster=settings, hooks=Once(kill, used_again), max_timesteps=10**6)
    counts = seen[0].counts
    assert counts["shards_lost"] == 1
    assert counts["restarts"] == 0
    assert 0 <= 20 * counts["accepted"] - agent.global_timestep <= 20 * 4  # what the learner has not counted yet


def test_actors_wait_for_a_slow_learner(cluster: Path, seen: list[Any], tmp_path: Path) -> None:
    settings, waiting = Cluster(**QUICK, queue=1), []

    class Slow(Hook):
        def after_update(self, session: Any, facts: Any) -> None:
            time.sleep(0.1)
            running = vars(settings)["_running"]
            waiting.append((running.planner.in_flight(), running.learning.waiting()))

    rollouts(tmp_path).train("CartPole-v1", cluster=settings, hooks=Slow(), max_steps=30)
    assert max(fragments for fragments, _ in waiting) <= 4  # 2 of each actor
    assert max(20 * fragments + timesteps for fragments, timesteps in waiting) <= 2 * 40  # queue + 1 batches


def test_too_small_clusters_and_other_versions_are_told_before_training(
    cluster: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    large = {**QUICK, "actors": 5, "min_actors": 5}
    with pytest.raises(ArgumentError, match="processors") as small:
        rollouts(tmp_path / "cpus").train("CartPole-v1", cluster=Cluster(**large), timesteps=40)
    assert small.value.argument == "Cluster.min_actors"
    with pytest.raises(ArgumentError, match="object store") as store:
        Connection(Cluster(**QUICK), 0, nbytes=200 * 2**20)
    assert store.value.argument == "Cluster.fragment"
    monkeypatch.setattr(on_ray, "versions", lambda: {"axonrl": "0.0.0", "ai-edge-litert": "9"})
    with pytest.raises(ClusterError, match=r"'axonrl': '0\.0\.0'"):
        rollouts(tmp_path / "versions").train("CartPole-v1", cluster=Cluster(**QUICK), timesteps=40)


def test_actors_come_and_go(cluster: Path, seen: list[Any], tmp_path: Path) -> None:
    """A third one, until it has worked; then one alone."""
    settings = Cluster(**QUICK)

    def three() -> None:
        settings.resize(3)

    def one_left() -> bool:
        planner, backend = seen
        if len(planner.actors) == 3 and planner.actors[2].answered > 2 and planner.rules.actors == 3:
            settings.resize(1)
        return planner.rules.actors == 1 and len(backend._actors) == 1 and planner.actors[0].answered > 20

    agent = rollouts(tmp_path)
    agent.train("CartPole-v1", cluster=settings, hooks=Once(three, one_left), max_timesteps=10**6)
    assert agent.global_timestep < 10**6
    assert (seen[0].counts["restarts"], seen[0].counts["lost"]) == (0, 0)


def test_shards_refuse_what_is_damaged(cluster: Path, seen: list[Any], tmp_path: Path) -> None:
    agent = replay(tmp_path)
    settings = Cluster(**QUICK, replay_shards=2)
    agent.train(factory("damaging"), 200, 8, cluster=settings, max_timesteps=1000)
    counts = seen[0].counts
    assert (counts["damaged"], counts["restarts"]) == (2, 2)
    assert agent.global_timestep == 1000


def test_an_environment_that_always_raises_ends_the_run_with_its_error(cluster: Path, tmp_path: Path) -> None:
    began = time.monotonic()
    with pytest.raises(ClusterError, match="the simulator is gone"):
        rollouts(tmp_path).train(factory("broken"), cluster=Cluster(**QUICK), max_timesteps=80)
    assert time.monotonic() - began < 30


JOINING = """
import sys
from axonrl.distributed import Cluster
from axonrl.distributed.connecting import Connection
from axonrl.errors import ArgumentError
try:
    Connection(Cluster(address=sys.argv[1]), 0).close()
except ArgumentError as error:
    sys.exit(f"{error.argument}: {error}")
"""


def test_a_cluster_is_joined_with_its_token_alone_and_left_running(cluster: Path) -> None:
    import ray

    command = [sys.executable, "-c", JOINING, ray.get_runtime_context().gcs_address]
    without = {name: value for name, value in os.environ.items() if name != "RAY_AUTH_TOKEN"}
    refused = subprocess.run(command, check=False, env=without, capture_output=True, text=True, timeout=60)
    assert refused.returncode == 1
    assert "Cluster.address" in refused.stderr
    assert "RAY_AUTH_TOKEN" in refused.stderr
    joined = subprocess.run(command, check=False, capture_output=True, text=True, timeout=60)
    assert joined.returncode == 0, joined.stderr
    resources: Any = ray.cluster_resources  # without types
    assert resources()["CPU"] == 2


def test_an_address_where_nobody_answers_is_refused_at_once() -> None:
    command = [sys.executable, "-c", JOINING, "127.0.0.1:9"]
    refused = subprocess.run(command, check=False, capture_output=True, text=True, timeout=60)
    assert refused.returncode == 1
    assert "Cluster.address" in refused.stderr


DYING = """
import sys
from axonrl import Agent, RunConfig
from axonrl.distributed import Cluster
from axonrl.hooks import Hook
from axonrl.memories import BatchMemory
from axonrl.models import impala

class Saying(Hook):
    def after_update(self, session, facts):
        if session.global_step == 3:
            print("learning", flush=True)

agent = Agent(impala.model_fn, BatchMemory(40), sys.argv[1], RunConfig(seed=1, progress=False), {"hidden": (8,)})
settings = Cluster(actors=2, envs_per_actor=2, fragment=10, actor_cpus=0.5)
agent.train("CartPole-v1", cluster=settings, hooks=Saying(), max_timesteps=10**7)
"""


def test_a_killed_driver_leaves_no_process(cluster: Path, tmp_path: Path) -> None:
    env = {name: value for name, value in os.environ.items() if name != "RAY_AUTH_TOKEN"}
    command = [sys.executable, "-c", DYING, str(tmp_path)]
    with subprocess.Popen(command, env=env, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "learning\n"
        below = descendants(process.pid)
        assert len(below) >= 6  # the guardian, Ray's daemons, two actors
        process.kill()
    until = time.monotonic() + 30
    while (left := {pid for pid in below if Path(f"/proc/{pid}").exists()}) and time.monotonic() < until:
        time.sleep(0.1)
    assert not left
