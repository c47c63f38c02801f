"""Training with actors and replay shards in processes of Ray. One cluster for all tests of this file."""

import dataclasses
import importlib
import os
import signal
import subprocess
import sys
import time
from collections import deque
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from axonrl import Agent, RunConfig
from axonrl.distributed import Cluster, message_chunks, on_ray
from axonrl.distributed.on_ray_shards import RayShards
from axonrl.distributed.ray_connection import Connection
from axonrl.distributed.unrolls import UnrollId
from axonrl.errors import ArgumentError, ClusterError
from axonrl.hooks import Hook
from axonrl.memories import BatchMemory, Prioritized, ReplayMemory
from axonrl.models import dqn, impala
from axonrl.run_dir import programs

from .agents import CONFIG, QUICK, SMALL, Once, factory, notes_in, replay, rollouts, there

pytestmark = pytest.mark.ray


def test_impala_counts_what_actors_without_tensorflow_did(cluster: Path, seen: list[Any], tmp_path: Path) -> None:
    agent = rollouts(tmp_path)
    agent.train(factory("reporting"), cluster=Cluster(**QUICK, lockstep=True), max_timesteps=2000)
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


CACHED = """
import os
from pathlib import Path
from axonrl.distributed import Cluster
from axonrl.hooks import Hook
from axonrl.tests.distributed.agents import QUICK, replay, rollouts

def processes():
    parents, found = {}, [os.getpid()]
    for path in Path("/proc").glob("[0-9]*/stat"):
        parents.setdefault(int(path.read_text().rpartition(")")[2].split()[1]), []).append(int(path.parent.name))
    for pid in found:
        found += parents.get(pid, [])
    return found

class Look(Hook):
    def after_update(self, session, facts):
        if session.global_step == 10:  # in lockstep: both actors have acted
            maps = [Path(f"/proc/{pid}/maps").read_text() for pid in processes()]
            print("mapped", sum("ai_edge_litert" in one for one in maps), sum("tensorflow" in one for one in maps))

for make in (rollouts, replay):
    agent = make(make.__name__)
    agent.train("CartPole-v1", 60, 8, cluster=Cluster(**QUICK, lockstep=True), max_timesteps=400, hooks=Look())
"""


def test_no_process_loads_tensorflow_for_a_program_of_the_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(programs.VARIABLE, str(tmp_path / "cache"))
    for make in (rollouts, replay):
        inline = Cluster(**QUICK, backend="inline")
        make(tmp_path / make.__name__).train("CartPole-v1", 60, 8, cluster=inline, max_timesteps=80)
    command = [sys.executable, "-c", CACHED]
    (tmp_path / "child").mkdir()
    ran = subprocess.run(command, cwd=tmp_path / "child", capture_output=True, text=True, timeout=240, check=False)
    assert ran.returncode == 0, ran.stderr
    mapped = [[*map(int, line.split()[1:])] for line in ran.stdout.splitlines() if line.startswith("mapped")]
    assert [tensorflow for _, tensorflow in mapped] == [0, 0]  # of IMPALA, and of Ape-X
    assert all(litert >= 3 for litert, _ in mapped)  # at least the learner and two actors


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
    monkeypatch.setattr(message_chunks, "PART_BYTES", 5000)
    agent = replay(tmp_path)
    settings = Cluster(**QUICK, replay_shards=2)
    agent.train("CartPole-v1", 200, 8, cluster=settings, max_timesteps=1000)
    assert agent.global_timestep == 1000
    assert agent.global_step == 101  # from timestep 200 on, each 8
    again = replay(tmp_path)
    again.train("CartPole-v1", 200, 8, cluster=settings, max_timesteps=1200)
    assert again.global_timestep == 1200
    assert again.global_step == 126


FOUR: dict[str, Any] = {"actors": 4, "envs_per_actor": 1, "actor_cpus": 0.25, "replay_shards": 2}


@pytest.mark.parametrize(
    ("make_agent", "settings", "updates"), [(rollouts, {}, 20), (replay, FOUR, 1 + (800 - 200) // 8)]
)
def test_lockstep_is_the_same_run_as_in_one_process(
    cluster: Path, tmp_path: Path, make_agent: Any, settings: dict[str, Any], updates: int
) -> None:
    """Of actors that send to the driver, and of such that share shards."""
    weights = []
    for backend in ("inline", "ray"):
        agent = make_agent(tmp_path / backend)
        lockstep = Cluster(**{**QUICK, **settings}, backend=backend, lockstep=True)
        agent.train("CartPole-v1", 200, 8, cluster=lockstep, max_timesteps=800)
        assert agent.global_step == updates
        weights.append(agent.get_weights())
    for name, value in weights[0].items():
        np.testing.assert_array_equal(value, weights[1][name])


def test_too_small_clusters_and_other_versions_are_told_before_training(
    cluster: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    large = {**QUICK, "actors": 5, "min_actors": 5}
    with pytest.raises(ArgumentError, match="processors") as small:
        rollouts(tmp_path / "cpus").train("CartPole-v1", cluster=Cluster(**large), timesteps=40)
    assert small.value.argument == "Cluster.min_actors"
    with pytest.raises(ArgumentError, match="object store") as store:
        Connection(Cluster(**QUICK), 0, nbytes=200 * 2**20)
    assert store.value.argument == "Cluster.unroll"
    monkeypatch.setattr(on_ray, "versions", lambda: {"axonrl": "0.0.0", "ai-edge-litert": "9"})
    with pytest.raises(ClusterError, match=r"'axonrl': '0\.0\.0'"):
        rollouts(tmp_path / "versions").train("CartPole-v1", cluster=Cluster(**QUICK), timesteps=40)


class Holder:
    def there(self) -> bool:
        return True


@pytest.mark.parametrize(("make_agent", "role"), [(rollouts, "actor 0 and actor 1"), (replay, "shard 0")])
def test_a_full_cluster_is_told_of(
    cluster: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    make_agent: Any,
    role: str,
) -> None:
    """Another one has both processors. Shards wait before the others: they take over what was saved."""
    import ray

    monkeypatch.setattr(on_ray, "_PLACED_S", 0.5)
    monkeypatch.setattr(on_ray, "_LOOK_S", 0.1)
    agent, settings = make_agent(tmp_path), Cluster(**{**QUICK, "stall_timeout_s": 2})
    if make_agent is replay:
        agent.train("CartPole-v1", 60, 8, cluster=dataclasses.replace(settings, backend="inline"), timesteps=80)
    holder: Any = ray.remote(Holder).options(num_cpus=2).remote()
    try:
        assert ray.get(holder.there.remote(), timeout=240)
        with pytest.raises(ClusterError, match=r"no progress|did not start"):
            agent.train("CartPole-v1", cluster=settings, timesteps=80)
    finally:
        ray.kill(holder)
    [told] = [text for text in caplog.messages if text.startswith("no processor of the Ray cluster is free")]
    assert f"free: {role} have not started" in told
    assert "0 of 2 are free" in told


def test_actors_come_and_go(cluster: Path, seen: list[Any], tmp_path: Path) -> None:
    """A third one, until it has worked; then one alone."""
    settings = Cluster(**QUICK)

    def three() -> None:
        settings.resize(3)

    def one_left() -> bool:
        planner, backend = seen
        if len(planner.actors) == 3 and planner.actors[2].answered > 2 and planner.wanted == 3:
            settings.resize(1)
        return planner.wanted == 1 and len(backend._actors) == 1 and planner.actors[0].answered > 20

    agent = rollouts(tmp_path)
    agent.train("CartPole-v1", cluster=settings, hooks=Once(three, one_left), max_timesteps=10**6)
    assert agent.global_timestep < 10**6
    assert (seen[0].counts["restarts"], seen[0].counts["lost"]) == (0, 0)


class Reaches(Hook):
    """Stops when the mean return of the newest 20 episodes of some environments is above 150."""

    def __init__(self, environments: set[int]) -> None:
        self._environments = environments
        self._returns: deque[float] = deque(maxlen=20)
        self.mean = 0.0

    def after_episode(self, session: Any, facts: Any) -> None:
        if facts.environment in self._environments:
            self._returns.append(facts.episode_return)
            if len(self._returns) == 20 and (mean := sum(self._returns) / 20) > 150:
                self.mean = mean
                session.request_stop("it has learned")


@pytest.mark.learning
def test_impala_learns_cartpole(cluster: Path, tmp_path: Path) -> None:
    reaches, params = Reaches(set(range(32))), {"hidden": (64, 64), "learning_rate": 1e-3}
    agent = Agent(impala.model_fn, BatchMemory(320), tmp_path, CONFIG, params)
    settings = Cluster(**{**QUICK, "envs_per_actor": 16, "unroll": 20})
    agent.train("CartPole-v1", cluster=settings, hooks=reaches, max_timesteps=150_000)
    assert reaches.mean > 150


@pytest.mark.learning
def test_ape_x_learns_cartpole(cluster: Path, tmp_path: Path) -> None:
    """By the environments that explore least: a third of the rungs."""
    reaches = Reaches(set(range(10, 16)))
    learns = {"learning_rate": 1e-3, "double": True, "dueling": "mean", "target_update_rate": 0.01}
    memory = ReplayMemory(32_000, 64, n_step=3, sampler=Prioritized())
    agent = Agent(dqn.model_fn, memory, tmp_path, CONFIG, {"hidden": (64, 64), **learns})
    settings = Cluster(**{**QUICK, "envs_per_actor": 8, "unroll": 25})
    agent.train("CartPole-v1", 1000, 8, cluster=settings, hooks=reaches, max_timesteps=150_000)
    assert reaches.mean > 150


class Beside(Hook):
    """Kills another training when it is in its second one, and goes on until all processes of that are gone."""

    def __init__(self, other: subprocess.Popen[bytes], said: Path) -> None:
        self._other, self._said = other, said
        self._until = time.monotonic() + 500
        self.lines: list[str] = []
        self.pids: list[int] = []

    def after_update(self, session: Any, facts: Any) -> None:
        if not self.pids:
            self.lines = self._said.read_text().split("\n")[:-1]
            if len(self.lines) == 2:
                self.pids = [int(word) for word in self.lines[1].split()]
                self._other.kill()
        elif not there(self.pids):
            session.request_stop("only this one is left")
        if time.monotonic() > self._until:
            session.request_stop("it takes too long")


def test_two_trainings_in_one_cluster_do_not_disturb_each_other(cluster: Path, seen: list[Any], tmp_path: Path) -> None:
    """The other one joins and ends, joins again and is killed; its actors end, and those of this one go on."""
    import ray

    said = tmp_path / "said"
    command = [sys.executable, "-c", "import sys, for_clusters; for_clusters.train_beside(*sys.argv[1:])"]
    command += [ray.get_runtime_context().gcs_address, str(tmp_path / "other")]
    env = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    with said.open("wb") as output, subprocess.Popen(command, stdout=output, env=env) as other:
        beside = Beside(other, said)
        try:
            agent = rollouts(tmp_path / "own")
            agent.train("CartPole-v1", cluster=Cluster(**QUICK), hooks=beside, max_timesteps=10**7)
        finally:
            other.kill()
    assert beside.lines[0] == "1000 101"
    assert len(beside.pids) == 2  # an actor and a shard
    assert not there(beside.pids)
    counts = seen[0].counts
    assert (counts["restarts"], counts["lost"], counts["dead"]) == (0, 0, 0)
    assert agent.global_timestep == 40 * agent.global_step > 0


JOINING = """
import sys
from axonrl.distributed import Cluster
from axonrl.distributed.ray_connection import Connection
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
    refused = subprocess.run(command, check=False, env=without, capture_output=True, text=True, timeout=500)
    assert refused.returncode == 1
    assert "Cluster.address" in refused.stderr
    assert "RAY_AUTH_TOKEN" in refused.stderr
    here = {name: value for name, value in os.environ.items() if name != "RAY_AUTH_MODE"}  # Ray sends none then
    joined = subprocess.run(command, check=False, env=here, capture_output=True, text=True, timeout=500)
    assert joined.returncode == 0, joined.stderr
    resources: Any = ray.cluster_resources  # without types
    assert resources()["CPU"] == 2


@pytest.mark.parametrize("address", ["127.0.0.1:9", "auto"])
def test_an_address_where_nobody_answers_is_refused_at_once(address: str) -> None:
    command, env = [sys.executable, "-c", JOINING, address], {**os.environ, "RAY_ADDRESS": "127.0.0.1:9"}
    refused = subprocess.run(command, check=False, env=env, capture_output=True, text=True, timeout=500)
    assert refused.returncode == 1
    assert "Cluster.address" in refused.stderr


# -- what fails, and what is slow --------------------------------------------------------------------------------------


def test_a_shard_that_cannot_be_made_ends_the_run_with_its_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another one would not begin either; also where it should take over what was saved, as one that is killed."""
    import ray

    class Handle:
        def __getattr__(self, name: str) -> Any:
            return SimpleNamespace(remote=lambda *_: name)

    error = ray.exceptions.RayActorError("0", "In its creation task\n  File\nArgumentError: needs 9 bytes", True)

    def fail(*_: Any, **__: Any) -> None:
        raise error

    def launch(_: Any, incarnation: int) -> Handle:
        made.append(incarnation)
        return Handle()

    made: list[int] = []
    monkeypatch.setattr(ray, "get", fail)
    plans: Any = [None]
    shards = RayShards(plans, launch, lambda: None, 0, 1.0)
    shards.insert(UnrollId(0, 0, 0), None)
    with pytest.raises(ClusterError, match="shard 0 cannot be made: ArgumentError: needs 9 bytes"):
        shards.arrived({"insert"})
    assert made == [0]
    error = ray.exceptions.RayActorError("0", "The actor died\n more", False)
    with pytest.raises(ClusterError, match=r"shard 0 cannot be restored: The actor died$"):
        shards.load([{}])


@pytest.mark.parametrize(("number", "how"), [(2, signal.SIGKILL), (1, signal.SIGSTOP)])
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

    agent, settings = rollouts(tmp_path), Cluster(**QUICK | {"unroll_timeout_s": 240 if how == signal.SIGKILL else 3})
    agent.train(factory("reporting"), cluster=settings, hooks=Once(lambda: None, replaced), max_timesteps=10**7)
    counts = seen[0].counts
    assert counts["restarts"] == number
    assert 0 < counts["lost"] <= 2 * number
    assert counts["asked"] == counts["accepted"] + counts["lost"] + seen[0].in_flight()
    assert agent.global_timestep == 40 * agent.global_step
    assert 0 <= 20 * counts["accepted"] - agent.global_timestep <= 20 * 10  # what waited for the learner


def test_killed_shards_are_replaced_by_empty_ones(cluster: Path, seen: list[Any], tmp_path: Path) -> None:
    """Both at the same time: then nothing can be drawn until they have been filled again."""
    import ray

    def killed() -> Any:
        return seen[1].shards._shards

    def kill() -> None:
        for pid in ray.get([shard.pid for shard in killed()]):
            os.kill(pid, signal.SIGKILL)

    def used_again() -> bool:
        return all(shard.incarnation == 1 and shard.samples for shard in killed())

    agent = replay(tmp_path)
    settings = Cluster(**QUICK, replay_shards=2)
    agent.train("CartPole-v1", 200, 8, cluster=settings, hooks=Once(kill, used_again), max_timesteps=10**6)
    counts = seen[0].counts
    assert (counts["shards_lost"], counts["restarts"]) == (2, 0)
    assert counts["lost"] <= 4
    assert counts["asked"] == counts["accepted"] + counts["lost"] + seen[0].in_flight()
    assert 0 <= 20 * counts["accepted"] - agent.global_timestep <= 20 * 4  # what the learner has not counted yet
    assert 3 < agent.global_step <= 1 + (agent.global_timestep - 200) // 8


def test_actors_wait_for_a_slow_learner(cluster: Path, seen: list[Any], tmp_path: Path) -> None:
    settings, waiting = Cluster(**QUICK, queue=1), []

    class Slow(Hook):
        def after_update(self, session: Any, facts: Any) -> None:
            time.sleep(0.1)
            running = vars(settings)["_running"]
            waiting.append((running.planner.in_flight(), running.learning.waiting()))

    rollouts(tmp_path).train("CartPole-v1", cluster=settings, hooks=Slow(), max_steps=30)
    assert max(unrolls for unrolls, _ in waiting) <= 4  # 2 of each actor
    assert max(20 * unrolls + timesteps for unrolls, timesteps in waiting) <= 2 * 40  # queue + 1 batches


def test_nobody_waits_for_a_slow_actor(cluster: Path, seen: list[Any], tmp_path: Path) -> None:
    """Its first unroll comes after 100 of the other one's. There are no more updates than are due."""
    for name in ("slow", "fast"):
        (cluster / name).unlink(missing_ok=True)
    agent = replay(tmp_path)
    agent.train(factory("slow"), 200, 8, cluster=Cluster(**QUICK), max_timesteps=4000)
    slow, fast = sorted(actor.answered for actor in seen[0].actors)
    assert slow + fast == seen[0].counts["accepted"] == 200
    assert slow <= 100 <= fast
    assert seen[0].counts["restarts"] == 0
    assert (agent.global_timestep, agent.global_step) == (4000, 1 + (4000 - 200) // 8)


def test_shards_refuse_what_is_damaged(cluster: Path, seen: list[Any], tmp_path: Path) -> None:
    agent = replay(tmp_path)
    settings = Cluster(**QUICK, replay_shards=2)
    agent.train(factory("damaging"), 200, 8, cluster=settings, max_timesteps=1000)
    counts = seen[0].counts
    assert (counts["damaged"], counts["restarts"]) == (2, 2)
    assert agent.global_timestep == 1000


def test_an_environment_that_always_raises_ends_the_run_with_its_error(cluster: Path, tmp_path: Path) -> None:
    with pytest.raises(ClusterError, match="the simulator is gone"):
        rollouts(tmp_path).train(factory("broken"), cluster=Cluster(**QUICK), max_timesteps=80)
