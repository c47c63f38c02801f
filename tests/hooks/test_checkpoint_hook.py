from typing import Any

from axonrl.hooks import CheckpointHook
from axonrl.tests.hooks.facts import BEGIN, TIMESTEP, UPDATE, begun


def test_by_steps(session: Any) -> None:
    hook = CheckpointHook(steps=3)
    session.global_step = 4  # resumed: the multiples stay where they were
    hook.begin(session, BEGIN)
    for session.global_step in range(5, 10):
        hook.after_update(session, UPDATE)
    assert session.calls == [("save_checkpoint", 6, 0), ("save_checkpoint", 9, 0)]


def test_by_episodes(session: Any) -> None:
    hook = begun(CheckpointHook(episodes=2), session)
    for _ in range(5):
        hook.after_episode(session, session.episode())
        hook.after_update(session, UPDATE)
    assert session.calls == [("save_checkpoint", 0, 2), ("save_checkpoint", 0, 4)]


def test_by_time_also_where_nothing_is_learned_and_no_episode_ends(session: Any, clock: Any) -> None:
    hook = begun(CheckpointHook(secs=60, clock=clock), session)
    for seconds in (59.0, 1.0, 59.0, 1.5):
        clock.now += seconds
        hook.after_timestep(session, TIMESTEP)
        session.global_step += 1
    assert session.calls == [("save_checkpoint", 1, 0), ("save_checkpoint", 3, 0)]


def test_by_time_where_there_are_no_timesteps(session: Any, clock: Any) -> None:
    hook = begun(CheckpointHook(secs=60, clock=clock), session)
    for session.global_step, seconds in enumerate((59.0, 1.0, 59.0), start=1):
        clock.now += seconds
        hook.after_update(session, UPDATE)
    assert session.calls == [("save_checkpoint", 2, 0)]


def test_the_time_runs_from_the_last_checkpoint(session: Any, clock: Any) -> None:
    hook = begun(CheckpointHook(secs=60, steps=2, clock=clock), session)
    for session.global_step, seconds in enumerate((30.0, 20.0, 59.0), start=1):  # at 2 by steps; 59 s later: not yet
        clock.now += seconds
        hook.after_timestep(session, TIMESTEP)
        hook.after_update(session, UPDATE)
    assert session.calls == [("save_checkpoint", 2, 0)]
