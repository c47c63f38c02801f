"""Actors, shards and environments on Ray that fail, and such as are slow. One cluster for all tests of this file."""

import os
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from axonrl.distributed import Cluster
from axonrl.distributed.planner import ABSENT
from axonrl.errors import ClusterError
from axonrl.hooks import Hook

from .agents import QUICK, Once, factory, notes_in, replay, rollouts


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


@pytest.mark.parametrize("number", [1, 2])
def test_killed_shards_are_replaced_by_empty_ones(cluster: Path, seen: list[Any], tmp_path: Path, number: int) -> None:
    """One, or both at the same time: then nothing can be drawn until they have been filled again."""
    import ray

    def killed() -> Any:
        return seen[1]._shards._shards[:number]

    def kill() -> None:
        for pid in ray.get([shard.pid for shard in killed()]):
            os.kill(pid, signal.SIGKILL)

    def used_again() -> bool:
        return all(shard.incarnation == 1 and shard.samples for shard in killed())

    agent = replay(tmp_path)
    settings = Cluster(**QUICK, replay_shards=2)
    agent.train("CartPole-v1", 200, 8, cluster=settings, hooks=Once(kill, used_again), max_timesteps=10**6)
    counts = seen[0].counts
    assert (counts["shards_lost"], counts["restarts"]) == (number, 0)
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
    assert max(fragments for fragments, _ in waiting) <= 4  # 2 of each actor
    assert max(20 * fragments + timesteps for fragments, timesteps in waiting) <= 2 * 40  # queue + 1 batches


@pytest.mark.parametrize(("make_agent", "updates"), [(rollouts, 100), (replay, 1 + (4000 - 200) // 8)])
def test_nobody_waits_for_a_slow_actor(
    cluster: Path, seen: list[Any], tmp_path: Path, make_agent: Any, updates: int
) -> None:
    """A fragment takes it 0.2 s, and the other one some ms. There are no more updates than are due."""
    (cluster / "slow").unlink(missing_ok=True)
    agent = make_agent(tmp_path)
    agent.train(factory("slow"), 200, 8, cluster=Cluster(**QUICK), max_timesteps=4000)
    slow, fast = sorted(actor.answered for actor in seen[0].actors)
    assert slow + fast == seen[0].counts["accepted"] == 200
    assert 1 <= slow <= fast / 5
    assert seen[0].counts["restarts"] == 0
    assert (agent.global_timestep, agent.global_step) == (4000, updates)


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


@pytest.mark.parametrize(("make_agent", "updates"), [(rollouts, 25), (replay, 1 + (1000 - 200) // 8)])
def test_an_environment_that_raises_at_random_is_made_anew(
    cluster: Path, seen: list[Any], tmp_path: Path, make_agent: Any, updates: int
) -> None:
    """At least once in 400 timesteps of an actor; what was asked for is accepted once, or lost."""
    before = len(list(cluster.glob("*.raised")))
    agent = make_agent(tmp_path)
    agent.train(factory("fragile"), 200, 8, cluster=Cluster(**QUICK), max_timesteps=1000)
    planner, counts = seen[0], seen[0].counts
    assert (agent.global_timestep, agent.global_step) == (1000, updates)
    assert counts["asked"] == counts["accepted"] + counts["lost"] + planner.in_flight()
    assert 0 <= 20 * counts["accepted"] - 1000 <= 20 * 4  # what was on its way at the end
    assert counts["restarts"] == sum(one.incarnation + (one.status == ABSENT) for one in planner.actors)
    assert counts["restarts"] <= counts["lost"] <= 2 * counts["restarts"]
    raised = len(list(cluster.glob("*.raised"))) - before
    assert 1 <= counts["restarts"] <= raised <= counts["restarts"] + 2  # the last ones are not heard any more
