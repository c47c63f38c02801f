"""The planner with a fake clock: what is asked for, what may be used, and when it gives up."""

import numpy as np
import pytest

from axonrl.distributed import Cluster
from axonrl.distributed.planner import DAMAGED, DIED, FAILED, RAISED, READY, SILENT, Death, Planner, Window
from axonrl.distributed.unrolls import UnrollId


def ready(cluster: Cluster, now: float = 0.0) -> Planner:
    planner = Planner(cluster, now)
    for actor in planner.to_start(now):
        assert planner.started(actor.index, actor.incarnation, now)
    return planner


def test_the_window_grows_while_the_learner_lacks_a_batch_and_shrinks_while_too_many_wait() -> None:
    """Batches of 2, two of which may wait: 6 unrolls, as long as nobody lacks any."""
    window = Window(batch=2, queue=2)
    assert window.room(waiting=0, in_flight=0, most=7) == 6
    assert window.room(waiting=0, in_flight=6, most=7) == 0  # none has come yet
    assert window.room(waiting=2, in_flight=4, most=7) == 0
    assert window.room(waiting=0, in_flight=4, most=7) == 3  # two were learned from, and no batch waits: 7
    assert window.room(waiting=1, in_flight=6, most=7) == 1  # 8
    assert window.room(waiting=0, in_flight=8, most=7) == 1  # 9, what all actors may have and a batch
    assert window.room(waiting=0, in_flight=9, most=7) == 0
    while window.size == 9:  # until all of it has come and gone twice: the first time there was too little
        assert window.room(waiting=6, in_flight=3, most=7) == 0
    assert window.size == 7  # six waited all the time, which is two more than two batches
    for _ in range(7):
        window.room(waiting=7, in_flight=0, most=7)
    assert window.size == 6  # not less


def test_requests_go_to_those_with_the_fewest_in_flight() -> None:
    planner = ready(Cluster(actors=2, in_flight=2))
    first = planner.requests(3, 0.0)
    assert first == [UnrollId(0, 0, 0), UnrollId(1, 0, 0), UnrollId(0, 0, 1)]
    assert planner.answered(UnrollId(0, 0, 0), 1.0)
    assert planner.requests(9, 1.0) == [UnrollId(0, 0, 2), UnrollId(1, 0, 1)]  # one in flight each
    assert planner.requests(9, 1.0) == []
    assert planner.in_flight() == 4


def test_an_actor_comes_back_later_and_later_until_it_works_again() -> None:
    planner = ready(Cluster(actors=1, restart_delay_s=15.0))
    waits, now = [], 0.0
    for incarnation in range(5):
        planner.ended(0, incarnation, Death(DIED, "killed", now))
        assert not planner.to_start(now)
        waits.append(planner.actors[0].start_at - now)
        now = planner.actors[0].start_at
        (actor,) = planner.to_start(now)
        assert actor.incarnation == incarnation + 1
        planner.started(0, actor.incarnation, now)
    assert waits == [15, 30, 60, 60, 60]
    (unroll,) = planner.requests(1, now)
    planner.answered(unroll, now)
    planner.ended(0, 5, Death(DIED, "killed", now))
    assert planner.actors[0].start_at - now == 15


def test_what_comes_of_an_incarnation_that_was_given_up_is_ignored() -> None:
    planner = Planner(Cluster(actors=1), 0.0)
    planner.to_start(0.0)
    assert planner.ended(0, 0, Death(SILENT, "late", 61.0))
    assert not planner.started(0, 0, 61.5)
    assert not planner.ended(0, 0, Death(DIED, "killed", 62.0))
    assert planner.counts["restarts"] == 1


@pytest.mark.parametrize("kind", [RAISED, DAMAGED])
def test_three_in_a_row_are_too_many(kind: str) -> None:
    planner = ready(Cluster(actors=2))
    for n, fine in enumerate((False, False, True, False, False, False)):
        now = float(100 * n)
        for actor in planner.to_start(now):
            planner.started(actor.index, actor.incarnation, now)
        if fine:
            asked = [one for one in planner.requests(4, now) if one.actor == 0]
            planner.answered(asked[0], now)
        else:
            planner.ended(0, planner.actors[0].incarnation, Death(kind, "oh", now))
    assert [actor.status for actor in planner.actors] == [FAILED, READY]
    assert planner.hopeless(500.0 + 1) is None  # one is enough


def test_an_error_that_all_have_before_any_unroll_ends_the_run() -> None:
    planner = ready(Cluster(actors=2))
    planner.ended(0, 0, Death(RAISED, "CartPole-v1.step raised ValueError: no", 1.0))
    assert planner.hopeless(1.0) is None
    planner.ended(1, 0, Death(RAISED, "CartPole-v1.step raised ValueError: no", 1.0))
    assert planner.hopeless(1.0) == "CartPole-v1.step raised ValueError: no"


def test_a_silent_actor_is_overdue_by_its_own_measure() -> None:
    planner = ready(Cluster(actors=1, in_flight=2, unroll_timeout_s=10.0))
    now = 0.0
    for _ in range(3):  # each takes 4 s
        asked = planner.requests(2, now)
        now += 4.0
        planner.answered(planner.actors[0].asked[0][0], now)
        assert asked
    assert planner.overdue(now + 22.0) == []  # 10 + 3 * 4
    assert planner.overdue(now + 22.1) == [(0, 0)]


def test_time_in_which_the_learner_does_not_look_counts_for_nobody() -> None:
    """It evaluates from 10 s to 410 s. The answer that was asked for at 5 s has 60 s beside these."""
    planner = ready(Cluster(actors=1, unroll_timeout_s=60, stall_timeout_s=300))
    planner.requests(1, 5.0)
    planner.paused(400.0)
    assert planner.hopeless(410.0) is None
    assert planner.overdue(464.0) == []
    assert planner.overdue(466.0) == [(0, 0)]
    assert planner.hopeless(701.0) is not None


def test_an_actor_that_was_given_up_has_twice_the_time_until_it_answers() -> None:
    """Else none would ever start on a machine where starting takes a minute."""
    planner, now = Planner(Cluster(actors=1, restart_delay_s=1.0), 0.0), 0.0
    for seconds in (60.0, 120.0, 240.0):
        (actor,) = planner.to_start(now)
        assert planner.overdue(now + seconds) == []
        assert planner.overdue(now + seconds + 0.1) == [(0, actor.incarnation)]
        now += seconds + 0.1
        planner.ended(0, actor.incarnation, Death(SILENT, "late", now))
        now += actor.delay


def test_a_stall_and_too_few_actors_say_who_waits() -> None:
    planner = ready(Cluster(actors=2, min_actors=2, max_restarts=0, stall_timeout_s=30.0))
    planner.requests(1, 5.0)
    assert planner.hopeless(30.0) is None
    why = planner.hopeless(31.0)
    assert why is not None
    assert why.splitlines()[1:] == [
        "  actor 0, incarnation 0: asked 26 s ago",
        "  actor 1, incarnation 0: waits for a request",
    ]
    planner.ended(1, 0, Death(DIED, "killed", 31.0))
    why = planner.hopeless(31.0)
    assert why is not None
    assert "last end: died: killed" in why.splitlines()[2]


def test_in_lockstep_nothing_is_waited_for_once_an_actor_is_given_up() -> None:
    planner = ready(Cluster(actors=2, max_restarts=0, lockstep=True))
    assert planner.ended(1, 0, Death(DIED, "killed", 1.0))
    why = planner.hopeless(1.0)
    assert why is not None
    assert why.splitlines()[0] == "only 1 of 2 actors are left; a round of lockstep needs all:"


@pytest.mark.parametrize("seed", range(2))
def test_whatever_happens_no_promise_is_broken(seed: int) -> None:
    """Answers in any order, deaths, silence: never too many in flight, nothing twice, and what was asked adds up."""
    rng = np.random.default_rng(seed)
    cluster = Cluster(actors=3, in_flight=2, max_restarts=10_000, unroll_timeout_s=20.0)
    planner, now, asked, used = Planner(cluster, 0.0), 0.0, 0, set()
    flying: list[UnrollId] = []
    for _ in range(2_000):
        now += float(rng.exponential(0.5))
        for actor in planner.to_start(now):
            if rng.random() < 0.9:
                planner.started(actor.index, actor.incarnation, now)
            else:
                planner.ended(actor.index, actor.incarnation, Death(DIED, "at once", now))
        if rng.random() < 0.02:
            planner.resize(int(rng.integers(1, 6)), now)
        assert all(not actor.asked for actor in planner.to_end(now))
        room = int(rng.integers(0, 5))
        new = planner.requests(room, now)
        assert len(new) <= room
        asked += len(new)
        flying += new
        assert all(len(actor.asked) <= 2 for actor in planner.actors)
        assert all(one.actor < planner.wanted for one in new)
        if flying and rng.random() < 0.7:
            one = flying.pop(int(rng.integers(len(flying)))) if rng.random() < 0.8 else flying[0]
            if planner.answered(one, now):
                assert one not in used
                used.add(one)
        if rng.random() < 0.05:
            victim = planner.actors[int(rng.integers(len(planner.actors)))]
            planner.ended(victim.index, victim.incarnation, Death(DIED, "killed", now))
        for index, incarnation in planner.overdue(now):
            assert planner.ended(index, incarnation, Death(SILENT, "late", now))
    assert len(used) == planner.counts["accepted"] > 100
    assert asked == planner.counts["asked"] == planner.counts["accepted"] + planner.counts["lost"] + planner.in_flight()
    for which in {one[:2] for one in used}:  # of each incarnation the first so many, without a gap
        numbers = sorted(one.sequence for one in used if one[:2] == which)
        assert numbers == list(range(len(numbers)))


def test_an_actor_that_comes_back_in_a_later_session_begins_with_a_new_incarnation() -> None:
    """Else it would draw what it has drawn before: three actors, then two, and three again."""
    planner = Planner(Cluster(actors=2), 0.0, (0, 4, 1))
    assert [actor.incarnation for actor in planner.to_start(0.0)] == [1, 5]
    assert planner.incarnations() == [1, 5, 1]
    planner.resize(3, 0.0)
    assert [actor.incarnation for actor in planner.to_start(0.0)] == [2]
    assert planner.incarnations() == [1, 5, 2]
