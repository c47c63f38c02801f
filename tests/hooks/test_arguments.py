"""What the hooks' arguments may not be: one wrong value of each, which the error names."""

import math
from collections.abc import Callable
from typing import Any

import pytest

from axonrl.errors import ArgumentError
from axonrl.hooks import (
    CheckpointHook,
    CounterHook,
    CurriculumHook,
    EvaluationHook,
    FinalValuesHook,
    LoggingHook,
    ProgressHook,
    StopAfterNoImprovement,
    StopAtEpisode,
    StopAtReturn,
    StopAtStep,
    StopAtTimestep,
    SummaryHook,
    VideoHook,
)
from axonrl.tests.raising import raised

COUNT = "must be an integer of at least 1, got"

# The hook, its arguments, the name of the wrong one, and what is said of it.
WRONG: list[tuple[Callable[..., Any], dict[str, Any], str, str]] = [
    (CheckpointHook, {"secs": 0}, "secs", "must be a finite number above 0, got 0"),
    (CheckpointHook, {"steps": 0}, "steps", f"{COUNT} 0"),
    (CheckpointHook, {"episodes": 1.5}, "episodes", f"{COUNT} 1.5"),
    (CounterHook, {"every_secs": -1}, "every_secs", "must be a finite number above 0, got -1"),
    (CurriculumHook, {"levels": [1], "at_return": 1}, "levels", "must be a list of at least two difficulties, got"),
    (CurriculumHook, {"levels": [1, 2], "at_return": math.inf}, "at_return", "must be a finite number, got inf"),
    (CurriculumHook, {"levels": [1, 2], "at_timesteps": [3, 4]}, "at_timesteps", "must have 1 values for 2 levels"),
    (CurriculumHook, {"levels": [1, 2, 3], "at_timesteps": [4, 4]}, "at_timesteps", "must have 2 values .* increasing"),
    (CurriculumHook, {"levels": [1, 2], "at_return": 1, "episodes": 0}, "episodes", f"{COUNT} 0"),
    (EvaluationHook, {"every_timesteps": 0}, "every_timesteps", f"{COUNT} 0"),
    (EvaluationHook, {"every_steps": 2.5}, "every_steps", f"{COUNT} 2.5"),
    (EvaluationHook, {"every_steps": 1, "episodes": 0}, "episodes", f"{COUNT} 0"),
    (EvaluationHook, {"every_steps": 1, "eval_batches": True}, "eval_batches", f"{COUNT} True"),
    (EvaluationHook, {"every_steps": 1, "stop_at": math.nan}, "stop_at", "must be a finite number, got nan"),
    (LoggingHook, {"every_secs": 0}, "every_secs", "must be a finite number above 0, got 0"),
    (LoggingHook, {"every_episodes": 0}, "every_episodes", f"{COUNT} 0"),
    (ProgressHook, {"every_secs": 0}, "every_secs", "must be a finite number above 0, got 0"),
    (StopAfterNoImprovement, {"evaluations": 0}, "evaluations", f"{COUNT} 0"),
    (StopAfterNoImprovement, {"evaluations": 3, "min_delta": -0.5}, "min_delta", "must be .* at least 0, got -0.5"),
    (StopAtEpisode, {"episode": 0}, "episode", f"{COUNT} 0"),
    (StopAtReturn, {"threshold": math.nan}, "threshold", "must be a finite number, got nan"),
    (StopAtReturn, {"threshold": 1.0, "episodes": 0}, "episodes", f"{COUNT} 0"),
    (StopAtStep, {"step": 0}, "step", f"{COUNT} 0"),
    (StopAtTimestep, {"timestep": 0}, "timestep", f"{COUNT} 0"),
    (SummaryHook, {"every_steps": 0}, "every_steps", f"{COUNT} 0"),
    (SummaryHook, {"weights_every_steps": 0}, "weights_every_steps", f"{COUNT} 0"),
    (SummaryHook, {"weights_histograms": 1}, "weights_histograms", "must be true or false, got 1"),
    (VideoHook, {"every_timesteps": 0}, "every_timesteps", f"{COUNT} 0"),
]


@pytest.mark.parametrize(("hook", "arguments", "name", "message"), WRONG)
def test_a_wrong_argument_is_named(hook: Any, arguments: dict[str, Any], name: str, message: str) -> None:
    caught = raised(ArgumentError, hook, **arguments, match=rf"^{hook.__name__}\({name}\) {message}")
    assert (caught.argument, caught.value) == (f"{hook.__name__}({name})", arguments[name])


@pytest.mark.parametrize(
    ("hook", "arguments", "message"),
    [
        (CheckpointHook, {}, "CheckpointHook needs at least one of secs, steps and episodes"),
        (EvaluationHook, {"every_timesteps": 1, "every_steps": 1}, "either every_timesteps or every_steps; got 1"),
        (LoggingHook, {"every_secs": None}, "LoggingHook needs every_secs or every_episodes, got neither"),
        (SummaryHook, {"weights_histograms": True}, r"\(weights_histograms\) needs weights_every_steps, got None"),
        (EvaluationHook, {"every_steps": 1, "keep_best": "yes"}, r"\(keep_best\) must be true or false, got 'yes'"),
        (EvaluationHook, {"every_steps": 1, "name": "../best"}, r"\(name\) must be a plain file name, got '../best'"),
        (EvaluationHook, {"every_steps": 1, "name": "last"}, r"\(name\) must not be 'last', .* got 'last'"),
        (FinalValuesHook, {"names": "train/loss"}, r"\(names\) must be a sequence of names, got 'train/loss'"),
        (FinalValuesHook, {"names": []}, r"\(names\) must name at least one value"),
        (FinalValuesHook, {"names": ["global_steps"]}, r"got 'global_steps' \(did you mean 'global_step'\?\)"),
        (FinalValuesHook, {"names": ["train/"]}, "train/..., eval/... or weights/...; got 'train/'"),
        (FinalValuesHook, {"names": ["rollout/returns"]}, r"got 'rollout/returns' \(did you mean 'rollout/return'"),
    ],
)
def test_arguments_that_do_not_fit_are_refused(hook: Any, arguments: dict[str, Any], message: str) -> None:
    assert raised(ArgumentError, hook, **arguments, match=message).argument.startswith(hook.__name__)
