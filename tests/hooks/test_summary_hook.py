import itertools
import math
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tensorboard.backend.event_processing.event_file_loader import RawEventFileLoader
from tensorboard.backend.event_processing.plugin_event_accumulator import EventAccumulator
from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.plugins.hparams import metadata as hparams
from tensorboard.util.tensor_util import make_ndarray

from axonrl.hooks import EvaluationHook, Hooks, SummaryHook
from axonrl.hooks.events import BeginFacts, EvaluationFacts, Timings, UpdateFacts
from axonrl.hooks.summary import QUEUE_SIZE
from axonrl.tests.hooks.facts import BEGIN, END, TIMESTEP, begun


def events(model_dir: Path) -> list[Any]:
    """Of every file, in order, without the ones that open a file."""
    files = sorted((model_dir / "events").iterdir())
    found = [Event.FromString(record) for path in files for record in RawEventFileLoader(str(path)).Load()]
    return [event for event in found if event.summary.value]


def read(model_dir: Path) -> list[tuple[int, dict[str, float]]]:
    return [
        (event.step, {value.tag: value.simple_value for value in event.summary.value}) for event in events(model_dir)
    ]


def accumulated(model_dir: Path) -> Any:
    accumulator = EventAccumulator(str(model_dir / "events"))
    accumulator.Reload()
    return accumulator


def shown(model_dir: Path, tag: str) -> list[tuple[int, float]]:
    return [(event.step, float(make_ndarray(event.tensor_proto))) for event in accumulated(model_dir).Tensors(tag)]


def test_updates_are_written_every_so_many_steps(session: Any, clock: Any) -> None:
    hook = begun(SummaryHook(every_steps=2, weights_every_steps=None, clock=clock), session)
    clock.now += 10
    session.global_episode = 3
    session.timings = Timings(environment=5.0, acting=2.5, learning=1.25)
    for session.global_step in (1, 2, 3):
        session.global_timestep = 5 * session.global_step
        hook.after_update(session, UpdateFacts(session.global_step / 4, {"learning_rate": 0.125}))
    hook.end(session, END)
    speed = {"timesteps_per_second": 1.0, "updates_per_second": 0.2, "episodes": 3.0}
    shares = {"environment_share": 0.5, "acting_share": 0.25, "learning_share": 0.125}
    [(timestep, values)] = read(session.model_dir)
    assert timestep == 10
    time = {f"time/{name}": value for name, value in {**speed, **shares}.items()}
    assert values == pytest.approx({"train/loss": 0.5, "train/learning_rate": 0.125, "train/updates": 2.0, **time})


def test_updates_of_rollouts_are_written_by_timesteps(session: Any) -> None:
    """Every 100 updates, or 1,000 timesteps after the last that were written; also by a session that resumes."""
    hook = begun(SummaryHook(every_steps=100), session)
    for session.global_step in range(1, 6):
        session.global_timestep = 400 * session.global_step  # 400, ..., 2000
        hook.after_update(session, UpdateFacts(0.5, {}))
    state = hook.state_dict()
    hook.end(session, END)
    resumed = begun(SummaryHook(every_steps=100), session, state)
    for session.global_step, session.global_timestep in [(6, 2400), (7, 2800), (100, 2900), (101, 3800), (102, 3900)]:
        resumed.after_update(session, UpdateFacts(0.5, {}))
    resumed.end(session, END)
    assert [timestep for timestep, _ in read(session.model_dir)] == [1600, 2800, 2900, 3900]


def test_norms_of_floating_weights(session: Any) -> None:
    hook = begun(SummaryHook(every_steps=100, weights_every_steps=2), session)
    for session.global_step in range(1, 5):
        session.global_timestep = 20 * session.global_step
        hook.after_update(session, UpdateFacts(0.5, {}))
    hook.end(session, END)
    norm = {"weights_norm/dense/kernel": 5.0}
    assert read(session.model_dir) == [(40, norm), (80, norm)]


def test_numbers_of_variables_are_left_out_where_names_differ_without_them(session: Any) -> None:
    names = ("0000.dense/kernel", "0001.dense/bias", "0002.dense/bias")
    session.variables = {name: np.ones(1, np.float32) for name in names}
    hook = begun(SummaryHook(weights_every_steps=1), session)
    session.global_step = 1
    hook.after_update(session, UpdateFacts(0.5, {}))
    hook.end(session, END)
    assert list(read(session.model_dir)[0][1]) == [
        "weights_norm/dense/kernel",
        "weights_norm/0001.dense/bias",
        "weights_norm/0002.dense/bias",
    ]


def test_episodes_and_evaluations_are_written_at_their_timestep(session: Any) -> None:
    hook = begun(SummaryHook(), session)
    session.global_timestep, session.global_step = 30, 4
    hook.after_episode(session, session.episode(21.0, length=9, exploration=0.5))
    session.global_timestep = 40
    hook.after_episode(session, session.episode(-2.5, length=10))  # an exploration without a level
    results = {"episode_return_mean": 12.0, "episode_length_mean": 8.0, "episodes": 10, "eval_loss": 1.5, "eval/td": 2}
    hook.after_evaluation(session, EvaluationFacts(results, (12.0,) * 10))
    hook.end(session, END)
    first = {"return": 21.0, "length": 9.0, "return_mean": 21.0, "length_mean": 9.0, "exploration_rate": 0.5}
    second = {"return": -2.5, "length": 10.0, "return_mean": 9.25, "length_mean": 9.5}
    first |= {"return_min": 21.0, "return_max": 21.0}
    second |= {"return_min": -2.5, "return_max": 21.0}
    assert read(session.model_dir) == [
        (30, {f"rollout/{name}": value for name, value in first.items()}),
        (40, {f"rollout/{name}": value for name, value in second.items()}),
        (40, {"eval/return_mean": 12.0, "eval/length_mean": 8.0, "eval/loss": 1.5, "eval/td": 2.0}),
    ]


def test_statistics_are_those_of_the_last_hundred_episodes_also_after_a_resume(session: Any) -> None:
    first, resumed = SummaryHook(), SummaryHook()
    first.begin(session, BEGIN)
    for number in range(100):  # of which the first one drops out
        first.after_episode(session, session.episode(float(number), length=2 * number))
    resumed.load_state_dict(first.state_dict())
    first.end(session, END)
    resumed.begin(session, BEGIN)
    resumed.after_episode(session, session.episode(100.0, length=200))
    resumed.end(session, END)
    assert read(session.model_dir)[-1][1] == {
        **{"rollout/return": 100.0, "rollout/return_mean": 50.5},  # the mean of 1, ..., 100
        **{"rollout/return_min": 1.0, "rollout/return_max": 100.0},
        **{"rollout/length": 200.0, "rollout/length_mean": 101.0},
    }


@pytest.mark.parametrize(
    ("resumed", "values", "expected"),
    [
        # What was written until timestep 10 precedes the checkpoint, and is shown.
        (10, {15: 4.0, 25: 5.0}, [(5, 1.0), (10, 2.0), (15, 4.0), (25, 5.0)]),
        (0, {5: 6.0}, [(5, 6.0)]),  # without a checkpoint
    ],
)
def test_tensorboard_drops_what_a_killed_session_wrote_after_its_checkpoint(
    session: Any, resumed: int, values: dict[int, float], expected: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "axonrl.hooks.event_files._FILES", itertools.count(9)
    )  # of one second, as a rule: ordered by 9 and 10
    for timestep, written in ((0, {5: 1.0, 10: 2.0, 20: 3.0}), (resumed, values)):
        session.global_timestep = timestep
        hook = begun(SummaryHook(), session, facts=BeginFacts(1, timestep > 0, {}))
        for session.global_timestep, value in written.items():
            hook.after_episode(session, session.episode(value))
        hook.end(session, END)
    assert len(list((session.model_dir / "events").iterdir())) == 2
    assert shown(session.model_dir, "rollout/return") == expected


def test_the_runs_of_a_folder_are_a_table_of_settings_and_metrics(session: Any, tmp_path: Path) -> None:
    """As TensorBoard's own plugins read them: HParams with its metrics, and the experiment file as text."""
    (tmp_path / "experiment.yml").write_text("seed: 3\n")
    facts = BeginFacts(1, False, {}, {"seed": 3, "model_fn": "dqn", "params.learning_rate": 1e-3, "double": True})
    for _ in range(2):  # the second session describes nothing again
        hook = begun(SummaryHook(), session, facts=facts)
        hook.after_episode(session, session.episode(1.0))
        hook.after_evaluation(session, EvaluationFacts({"episode_return_mean": 2.0}, (2.0,)))
        hook.end(session, END)
    accumulator = accumulated(tmp_path)
    text = [make_ndarray(event.tensor_proto).item() for event in accumulator.Tensors("experiment")]
    assert text == [b"```yaml\nseed: 3\n\n```"]
    content = accumulator.SummaryMetadata(hparams.SESSION_START_INFO_TAG).plugin_data.content
    started = hparams.parse_session_start_info_plugin_data(content)
    values = {
        name: value.string_value or value.number_value or value.bool_value for name, value in started.hparams.items()
    }
    assert values == facts.settings
    scalars = accumulator.PluginTagToContent("scalars")
    assert {"eval/return_mean", "rollout/return_mean"} <= set(scalars)  # what HParams takes for metrics
    assert len(accumulator.Tensors(hparams.SESSION_START_INFO_TAG)) == 1


def test_what_was_written_before_a_checkpoint_is_on_disk(session: Any) -> None:
    hooks = Hooks([SummaryHook()])
    for call in hooks.begin:
        call(session, BEGIN)
    for call in hooks.after_episode:
        call(session, session.episode(1.0))
    assert list(hooks.state_dict()) == ["SummaryHook:0"]
    assert len(read(session.model_dir)) == 1
    hooks.end(session, END)


def test_what_has_waited_long_enough_is_handed_to_the_writer(session: Any, clock: Any) -> None:
    hook = begun(SummaryHook(clock=clock), session)
    written: list[int] = []
    hook._writer.add_scalars = lambda step, *_: written.append(step)
    for session.global_timestep in (10, 20):
        hook.after_episode(session, session.episode(1.0))
        clock.now += 5.0
    hook.after_timestep(session, TIMESTEP)  # FLUSH_SECS after the first of them
    assert written == [10, 20]
    clock.now += 100.0
    hook.after_timestep(session, TIMESTEP)
    hook.after_episode(session, session.episode(1.0))
    assert written == [10, 20]
    for session.global_timestep in range(21, 20 + QUEUE_SIZE):
        hook.after_episode(session, session.episode(1.0))
    assert written == [10, 20, 20, *range(21, 20 + QUEUE_SIZE)]
    hook.end(session, END)


def test_importing_the_hooks_loads_nothing_heavy_and_writing_no_tensorflow(tmp_path: Path) -> None:
    code = """
import sys, types, pathlib
from axonrl.hooks.events import BeginFacts, Timings
from axonrl.hooks import SummaryHook
print(sorted({"tensorflow", "tensorboard", "rich"} & set(sys.modules)))
counters = dict.fromkeys(("global_step", "global_timestep", "global_episode", "position"), 0)
session = types.SimpleNamespace(model_dir=pathlib.Path(sys.argv[1]), timings=Timings(), **counters)
hook = SummaryHook()
hook.begin(session, BeginFacts(1, False, {}, {"params.learning_rate": 1e-3}))
hook.end(session, None)
hook.end(session, None)  # without harm
print(sorted({"tensorflow", "keras", "pandas"} & set(sys.modules)))
"""
    ran = subprocess.run([sys.executable, "-c", code, tmp_path], capture_output=True, text=True, check=True)
    assert ran.stdout == "[]\n[]\n"
    [event] = (tmp_path / "events").iterdir()
    assert event.stat().st_size > 0


def test_an_evaluation_in_the_end_of_a_later_hook_is_written(session: Any) -> None:
    hooks = Hooks([SummaryHook(), EvaluationHook(every_timesteps=100)])
    session.listeners = hooks.after_evaluation
    session.evaluations = [12.0]
    for call in hooks.begin:
        call(session, BEGIN)
    session.global_timestep = 50
    hooks.end(session, END)
    [(step, values)] = read(session.model_dir)
    assert step == 50
    assert values["eval/return_mean"] == 12.0


def histograms(model_dir: Path) -> list[tuple[int, str, Any]]:
    """Step, tag and [bins, 3] (left, right, count) of every histogram."""
    found = [(event.step, value) for event in events(model_dir) for value in event.summary.value]
    found = [(step, value) for step, value in found if value.metadata.plugin_data.plugin_name == "histograms"]
    return [(step, value.tag, make_ndarray(value.tensor)) for step, value in found]


def test_histograms_of_floating_weights(session: Any) -> None:
    """30 bins from the smallest value to the largest; those that are not finite are in none."""
    values = np.array([-1.0, 2.0, 2.0, 0.45, np.nan, np.inf], np.float32)
    session.variables |= {"dense/bias": values, "rate": np.float32(0.5)}
    hook = begun(SummaryHook(every_steps=100, weights_every_steps=2, weights_histograms=True), session)
    for session.global_step in range(1, 4):
        session.global_timestep = 10 * session.global_step
        hook.after_update(session, UpdateFacts(0.5, {}))
    session.variables["dense/bias"][:] = 0  # what was written is what was there then
    hook.end(session, END)
    found = histograms(session.model_dir)
    tags = ["weights/dense/kernel", "weights/dense/bias", "weights/rate"]
    assert [(step, tag) for step, tag, _ in found] == [(20, tag) for tag in tags]
    kernel, bias, rate = (bins for _, _, bins in found)
    assert kernel.shape == bias.shape == (30, 3)
    assert {i: n for i, n in enumerate(kernel[:, 2]) if n} == {0: 2, 22: 1, 29: 1}  # 0, 0; 3 of 4 is 22.5 of 30; 4
    assert {i: n for i, n in enumerate(bias[:, 2]) if n} == {0: 1, 14: 1, 29: 2}  # 0.45 is 14.5 widths above -1
    assert bias[:, 0] == pytest.approx(np.linspace(-1, 2, 31)[:-1])
    assert bias[:, 1] == pytest.approx(np.linspace(-1, 2, 31)[1:])
    assert rate[-1].tolist() == [0.5, 0.5, 1]
    norms = {"weights_norm/dense/kernel": 5.0, "weights_norm/dense/bias": math.nan, "weights_norm/rate": 0.5}
    timestep, written = read(session.model_dir)[0]
    assert timestep == 20
    assert written == pytest.approx(norms, nan_ok=True)


def test_updates_without_timesteps_have_places_of_their_own(session: Any, clock: Any) -> None:
    hook = begun(SummaryHook(every_steps=2, clock=clock), session)
    for session.global_step in range(1, 5):
        session.offline_steps = session.global_step
        clock.now += 30  # there is no timestep at which they would be handed over
        hook.after_update(session, UpdateFacts(0.5, {}))
    assert [at for at, _ in read(session.model_dir)] == [2, 4]
    session.global_timestep = 1
    hook.after_evaluation(session, EvaluationFacts({"episode_return_mean": 7.0, "episodes": 1.0}, (7.0,)))
    hook.end(session, END)
    assert [at for at, _ in read(session.model_dir)] == [2, 4, 5]
