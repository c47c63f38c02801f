"""episodes.csv and evaluations.csv: every episode once, however often the run is killed."""

import logging
from pathlib import Path
from typing import Any

import pytest

from axonrl.hooks import HistoryHook, Hooks
from axonrl.run_dir.history import (
    EPISODES,
    EVAL,
    EVALUATIONS,
    Episode,
    Evaluation,
    Found,
    evaluations_of_policies,
    every_evaluation,
    last_episode,
    read_episodes,
    read_eval,
    read_evaluations,
)
from axonrl.tests.experiments.fakes import FakeSession
from axonrl.tests.hooks.facts import BEGIN, END


@pytest.fixture
def session(tmp_path: Path) -> FakeSession:
    return FakeSession(tmp_path)


def begin(session: Any) -> tuple[HistoryHook, Hooks]:
    hook = HistoryHook()
    hooks = Hooks([hook])
    hook.begin(session, BEGIN)
    return hook, hooks


def test_the_files(session: Any, tmp_path: Path) -> None:
    hook, hooks = begin(session)
    session.episode(hooks)
    session.evaluated(hooks, 3.5)
    session.episode(hooks)
    assert hook.global_timestep == 0
    hook.end(session, END)
    assert hook.global_timestep == 4
    session.evaluated(hooks, 4.0)  # an evaluation hook may evaluate in its own end, which comes later
    assert (tmp_path / EPISODES).read_text() == (
        "episode,global_timestep,episode_return,length,seconds\n1,2,1.0,2,0.25\n2,4,2.0,2,0.25\n"
    )
    assert (tmp_path / EVALUATIONS).read_text() == (
        "global_timestep,episode_return_mean,episode_return_std,episode_length_mean,episodes,"
        "episode_return_min,episode_return_max,offline_steps,global_step,seed,num_envs,explore,environment\n"
        "2,3.5,0.5,2.0,3,,,0,0,5,2,0,CartPole-v1\n4,4.0,0.5,2.0,3,,,0,0,5,2,0,CartPole-v1\n"
    )
    assert read_episodes(tmp_path) == [Episode(1, 2, 1.0, 2, 0.25), Episode(2, 4, 2.0, 2, 0.25)]
    how = {"global_step": 0, "seed": 5, "num_envs": 2, "explore": 0, "environment": "CartPole-v1"}
    assert read_evaluations(tmp_path) == [
        Evaluation(2, 3.5, 0.5, 2.0, 3, **how),  # type: ignore[arg-type]  # each has a type of its own
        Evaluation(4, 4.0, 0.5, 2.0, 3, **how),  # type: ignore[arg-type]
    ]


def test_a_row_is_there_before_the_file_is_closed(session: Any, tmp_path: Path) -> None:
    hook, hooks = begin(session)
    session.episode(hooks)
    assert len(read_episodes(tmp_path)) == 1
    hook.end(session, END)


def test_a_resumed_run_cuts_what_came_after_the_checkpoint(session: Any, tmp_path: Path) -> None:
    killed, hooks = begin(session)
    for mean in range(5):
        session.episode(hooks)
        session.evaluated(hooks, float(mean))
    with (tmp_path / EPISODES).open("a") as file:
        file.write("6,12,6.0,2,0.2")  # killed while it wrote
    killed.end(session, END)  # only to close the file
    resumed = type(session)(tmp_path, timestep=6, episode=3)
    hook, hooks = begin(resumed)
    assert hook.global_timestep == 6
    assert [row.episode for row in read_episodes(tmp_path)] == [1, 2, 3]
    assert [row.global_timestep for row in read_evaluations(tmp_path)] == [2, 4, 6]
    resumed.episode(hooks)
    resumed.evaluated(hooks, 7.0)
    hook.end(resumed, END)
    assert [row.episode_return for row in read_episodes(tmp_path)] == [1.0, 2.0, 3.0, 4.0]
    assert [row.episode_return_mean for row in read_evaluations(tmp_path)] == [0.0, 1.0, 2.0, 7.0]


def test_what_a_checkpoint_counts_whole_is_not_written_again(session: Any, tmp_path: Path) -> None:
    hook, hooks = begin(session)
    session.episode(hooks)
    hook.end(session, END)
    path = tmp_path / EPISODES
    assert last_episode(tmp_path) == 1
    before = path.stat().st_ino
    resumed = type(session)(tmp_path, timestep=2, episode=1)
    hook, hooks = begin(resumed)
    resumed.episode(hooks)
    hook.end(resumed, END)
    assert path.stat().st_ino == before  # appended to, not replaced
    assert [row.episode for row in read_episodes(tmp_path)] == [1, 2]


@pytest.mark.parametrize("content", ["", "header\n1,2,1.0,2,0.25\n2,4,2.0"])
def test_the_last_episode_cannot_be_told(tmp_path: Path, content: str) -> None:
    assert last_episode(tmp_path) is None
    (tmp_path / EPISODES).write_text(content)
    assert last_episode(tmp_path) is None


def test_an_unfinished_line_does_not_count(tmp_path: Path) -> None:
    (tmp_path / EPISODES).write_text("header\n1,2,1.0,2,0.25\n2,4,2.0,2,0.2")
    assert [row.episode for row in read_episodes(tmp_path)] == [1]
    (tmp_path / EPISODES).write_text("epi")
    assert read_episodes(tmp_path) == []


def test_evaluations_before_and_after_the_updates_of_a_timestep_are_two(session: Any, tmp_path: Path) -> None:
    written = "5,1.0,0,2,3,,,,10,0,2,,\n5,1.5,0,2,3,,,,10,0,2,,\n5,2.0,0,2,3,,,0,11,0,2,,given\n"
    (tmp_path / EVALUATIONS).write_text(f"header\n{written}")
    session.global_timestep = 5
    hook, _ = begin(session)  # it keeps both of them
    hook.end(session, END)
    rows = evaluations_of_policies(tmp_path)
    assert [(row.global_step, row.episode_return_mean, row.environment) for row in rows] == [
        (10, 1.5, None),
        (11, 2.0, "given"),
    ]
    assert [row.episode_return_mean for row in read_evaluations(tmp_path)] == [2.0]


def test_a_resumed_run_keeps_the_evaluations_of_every_hook(session: Any, tmp_path: Path) -> None:
    rows = [
        f"{at},{mean},0,2,3,,,0,{at},0,2,{explore},given\n" for at in (5, 9) for mean, explore in ((1.5, 0), (1.0, 1))
    ]
    (tmp_path / EVALUATIONS).write_text("header\n" + "".join([*rows, rows[2]]))  # the last was repeated after a kill
    values = [f"{at},eval_loss,{value},0\n" for at in (5, 9) for value in (0.5, 0.25)]
    (tmp_path / EVAL).write_text("header\n" + "".join(values))
    session.global_timestep = 9
    hook, _ = begin(session)
    hook.end(session, END)
    found = [(row.global_timestep, row.episode_return_mean, row.explore) for row in every_evaluation(tmp_path)]
    assert found == [(5, 1.5, 0), (5, 1.0, 1), (9, 1.5, 0), (9, 1.0, 1)]
    assert (tmp_path / EVALUATIONS).read_text().count("\n") == 5
    assert (tmp_path / EVAL).read_text().splitlines()[1:] == [line.strip() for line in values]


def test_lost_rows_are_told(session: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    session.global_episode = 4
    with caplog.at_level(logging.WARNING, "axonrl"):
        hook, _ = begin(session)
    hook.end(session, END)
    assert caplog.messages == [f"{tmp_path / EPISODES} lacks 4 episodes before this point; the curve has a gap"]


@pytest.mark.parametrize("line", ["1,2,3", "1,2,x,2,0.1"])
def test_a_damaged_file_is_an_error(tmp_path: Path, line: str) -> None:
    (tmp_path / EPISODES).write_text(f"header\n1,2,1.0,2,0.25\n{line}\n2,4,2.0,2,0.2\n")
    with pytest.raises(ValueError, match=rf"{EPISODES}:3 is damaged"):
        read_episodes(tmp_path)


def test_what_eval_found_has_a_file_of_its_own(session: Any, tmp_path: Path) -> None:
    hook, hooks = begin(session)
    session.episode(hooks)
    session.evaluated(hooks, 1.0)
    assert read_eval(tmp_path) == []
    for timestep, loss in ((4, 0.5), (6, 0.25)):
        session.global_timestep = timestep
        session.evaluated(hooks, 2.0, **{"eval_loss": loss, "eval/q, mean": 3.0})
    hook.end(session, END)
    assert (tmp_path / EVAL).read_text() == (
        "global_timestep,name,value,offline_steps\n"
        '4,eval_loss,0.5,0\n4,"eval/q, mean",3.0,0\n6,eval_loss,0.25,0\n6,"eval/q, mean",3.0,0\n'
    )
    resumed = type(session)(tmp_path, timestep=4, episode=1)
    hook, _ = begin(resumed)
    hook.end(resumed, END)
    assert read_eval(tmp_path) == [Found(4, "eval_loss", 0.5), Found(4, "eval/q, mean", 3.0)]


def test_evaluations_of_updates_without_timesteps_are_told_apart(session: Any, tmp_path: Path) -> None:
    hook, hooks = begin(session)
    for session.offline_steps in (10, 20, 30):
        session.evaluated(hooks, float(session.offline_steps), eval_loss=0.5)
    hook.end(session, END)
    resumed = type(session)(tmp_path)
    resumed.offline_steps = 20
    hook, hooks = begin(resumed)
    resumed.global_timestep = 5
    resumed.evaluated(hooks, 1.0, eval_loss=0.25)
    hook.end(resumed, END)
    rows = [(row.global_timestep, row.offline_steps, row.position) for row in read_evaluations(tmp_path)]
    assert rows == [(0, 10, 10), (0, 20, 20), (5, 20, 25)]
    assert [row[2:] for row in read_eval(tmp_path)] == [(0.5, 10), (0.5, 20), (0.25, 20)]


def test_empty_columns_and_names_with_commas(tmp_path: Path) -> None:
    (tmp_path / EVALUATIONS).write_text('header\n4,4.0,0.5,2.0,3,1.0,,,,,,,"a,b"\n')
    assert read_evaluations(tmp_path) == [Evaluation(4, 4.0, 0.5, 2.0, 3, 1.0, environment="a,b")]
    (tmp_path / EVAL).write_text('header\n4,"eval/q, 7",3.0,0\n6,eval_loss,nan,9\n')
    first, second = read_eval(tmp_path)
    assert first == Found(4, "eval/q, 7", 3.0)
    assert (*second[:2], second.offline_steps) == (6, "eval_loss", 9)
