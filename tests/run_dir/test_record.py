import json
import math
import os
import platform
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from gymnasium.spaces import Box, Dict, Discrete, MultiDiscrete

from axonrl import Agent, EstimatorSpec, __version__
from axonrl.errors import ArgumentError, CheckpointError
from axonrl.models import dqn
from axonrl.run_dir import provenance, record
from axonrl.tests.damage import damages
from axonrl.tests.estimators.fakes import Counting, agent, linear_model, vector
from axonrl.tests.raising import raised

pytestmark = pytest.mark.usefixtures("unconverted")

SPACE = Dict({"a": Box(-np.inf, 1.0, (2,), np.float32), "b": MultiDiscrete([2, 3])})
WHY = {"actor": {"code": "small", "detail": ""}, "learner": {"code": "large", "detail": "op Conv2D"}}
RUNTIME = {"runtime": {"actor": "litert", "learner": "tensorflow"}, "runtime_why": WHY}


def written(tmp_path: Path, **changes: Any) -> record.RunRecord:
    values = {"seed": 2**63 - 1, "model_fn": None, "params": {"a": [1, 2.5, None]}, "unrecorded": ("f",)}
    rest = {"observation_space": SPACE, "action_space": Discrete(3, start=-1), "num_envs": 4, **RUNTIME}
    rest["made_with"] = {"python": "3.11.7", "threads": 2, "TF_ENABLE_ONEDNN_OPTS": None}
    one = record.RunRecord(**{**values, **rest, **changes})
    one.write(tmp_path)
    return one


def test_what_is_written_is_read(tmp_path: Path) -> None:
    assert record.read(tmp_path) is None
    for changes in ({}, {"params": None, "unrecorded": (), "not_exact": ("why", "and why")}):
        one = written(tmp_path, **changes)
        assert record.read(tmp_path) == one


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", r"is damaged: it is not JSON \(.*\)\. Restore it from a copy, or train the run again in a new folder\."),
        ("[1]", r"is damaged: it holds a list, not a mapping\. Restore it"),
        ('{"format": 2}', r"was written by another version of axonrl \(this one reads format 1\)"),
        ('{"format": 1, "seed": 3}', "is damaged: it is not the record of a run"),
    ],
)
def test_what_is_no_record_is_an_error_that_names_the_file(text: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "run.json").write_text(text)
    raised(CheckpointError, Agent, linear_model, model_dir=tmp_path, match=rf"{tmp_path}/run\.json {message}")


def test_each_damaged_field_is_named(tmp_path: Path) -> None:
    changes: dict[str, Any] = {
        "environment": {"id": "Own-v0", "kwargs": {}, "wrappers": [{"kind": "time_limit"}], "unrecorded": {}},
        "memory": {"kind": "replay"},
        "warm_start": {"from": "weights", "new": ["a"]},
        "schedule": {"first_update": 35},
        "limits": {"steps": 3},
        "initial": {"kernel": "0f"},
        "code": {"model_fn": {"digest": "0f", "unknown": ["x"]}},
    }
    written(tmp_path, **changes)
    path = tmp_path / "run.json"
    free = ["format", "params", "made_with", "environment.kwargs", "initial.kernel", "runtime_why"]
    free += [f"{at}.unheard_of" for at in ("environment.wrappers[0]", "environment.unrecorded", "memory", "warm_start")]
    free += [f"observation_space.spaces{part}" for part in ("[0][0]", "[1][0]", "[0][1].low", "[0][1].high")]
    inside = ["environment.wrappers", "environment.unrecorded", "warm_start.new", "schedule.first_update"]
    optional = [*inside, "limits.steps", "code.model_fn", "code.model_fn.unknown"]
    for field, damaged in damages(json.loads(path.read_text()), free, optional):
        path.write_text(json.dumps(damaged))
        error = str(raised(CheckpointError, record.read, tmp_path, match=r"run\.json is damaged"))
        assert field.removesuffix("[0]") in error  # the shape of nested lists is that of the first


@pytest.mark.parametrize(
    ("value", "is_recorded"),
    [
        *((value, True) for value in (None, 10**30, [1, [2]], (1, 2), {"a": {"b": 1.5}})),
        *((value, False) for value in (math.inf, [math.nan], np.float32(1), {1: 2}, {"a": len})),
    ],
    ids=str,
)
def test_which_params_json_can_hold(value: Any, is_recorded: bool) -> None:
    kept, others = record.recordable({"value": value, "one": 1})
    assert kept == ({"value": value, "one": 1} if is_recorded else {"one": 1})
    assert others == (() if is_recorded else ("value",))
    assert record.recordable(None) == (None, ())


def test_a_run_is_recorded_before_its_first_timestep(tmp_path: Path) -> None:
    envs = Counting(), Counting()

    class Looks:
        def begin(self, session: Any, facts: Any) -> None:
            assert [env.seeds for env in envs] == [[], []]
            found = record.read(tmp_path)
            assert found is not None
            assert (found.seed, found.num_envs, found.model_fn) == (7, 2, "dqn")
            assert (found.observation_space, found.action_space) == (Counting.observation_space, Discrete(2))
            assert (found.params, found.unrecorded) == ({"hidden": [4], "epsilon": 0.5}, ())
            assert found.not_exact == ()

    params = {"hidden": (4,), "epsilon": 0.5}
    agent(tmp_path, model=dqn.model_fn, params=params, seed=7).train(vector(*envs), timesteps=4, hooks=[Looks()])
    assert Agent(None, model_dir=tmp_path).params == {"hidden": [4], "epsilon": 0.5}


def test_params_that_json_cannot_hold_are_passed_again(tmp_path: Path) -> None:
    params = {"epsilon": 0.25, "activation": len}
    agent(tmp_path, params=params).train(Counting(), timesteps=4)
    raised(ValueError, agent, tmp_path, match="could not record the params activation as JSON: pass params again")
    assert agent(tmp_path, params=params).evaluate(Counting(), 1)["episodes"] == 1


def test_params_of_numpy_are_recorded_and_given_as_plain_values(tmp_path: Path) -> None:
    params = {"epsilon": np.float32(0.25), "sizes": np.array([[1, 2]]), "flags": [np.True_, {"low": np.array(0.5)}]}
    plain = {"epsilon": 0.25, "sizes": [[1, 2]], "flags": [True, {"low": 0.5}]}
    one = agent(tmp_path, params=params).train(Counting(), timesteps=4)
    assert one.params == plain
    assert repr(json.loads((tmp_path / "run.json").read_text())["params"]) == repr(plain)
    assert agent(tmp_path).params == plain
    for given in ({"a": 10**400}, {"a": [{"b": 10**5000}]}):
        where = raised(ArgumentError, agent, tmp_path / "new", params=given).argument
        assert where == ("params['a'][0]['b']" if isinstance(given["a"], list) else "params['a']")


def test_a_model_without_an_importable_name_is_passed_again(tmp_path: Path) -> None:
    def nested(features: Any, labels: Any, mode: str) -> EstimatorSpec:
        return linear_model(features, labels, mode)

    agent(tmp_path, model=nested).train(Counting(), timesteps=4)
    raised(ValueError, Agent, None, model_dir=tmp_path, match="has no importable name: pass it again")
    assert agent(tmp_path, model=nested).evaluate(Counting(), 1)["episodes"] == 1


def test_a_model_of_a_module_is_found_by_its_recorded_name(tmp_path: Path) -> None:
    agent(tmp_path, model="axonrl.tests.estimators.fakes:linear_model").train(Counting(), timesteps=4)
    assert json.loads((tmp_path / "run.json").read_text())["model_fn"] == "axonrl.tests.estimators.fakes:linear_model"
    assert Agent(None, model_dir=tmp_path).evaluate(Counting(), 1)["episodes"] == 1


def test_stateful_random_ops_mark_the_run_not_exact(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    def model(features: Any, labels: Any, mode: str) -> EstimatorSpec:
        spec = linear_model(features, labels, mode)
        if labels is None:
            return spec
        return EstimatorSpec(mode, loss=spec.loss + 0 * tf.random.normal(()), train_op=spec.train_op)

    one = agent(tmp_path, model=model).train(Counting(), 8, timesteps=8)
    assert one.global_step == 1
    (why,) = json.loads((tmp_path / "run.json").read_text())["not_exact"]
    assert "RandomStandardNormal" in why
    assert caplog.messages[0] == f"this run will not resume exactly: {why}"


def test_versions_machine_and_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(provenance, "PACKAGES", ("numpy", "surely-not-installed"))
    monkeypatch.setenv("TF_ENABLE_ONEDNN_OPTS", "0")
    monkeypatch.delenv("TF_NUM_INTRAOP_THREADS", raising=False)
    found = provenance.provenance()
    assert found.pop("processor")
    assert found == {
        "python": platform.python_version(),
        "axonrl": __version__,
        "numpy": np.__version__,
        "surely-not-installed": None,
        "machine": platform.machine(),
        "threads": len(os.sched_getaffinity(0)),
        "TF_ENABLE_ONEDNN_OPTS": "0",
        "TF_NUM_INTRAOP_THREADS": None,
    }


@pytest.mark.parametrize(
    ("installed", "expected"),
    [
        ({"tensorflow": "2.21.0", "tensorflow-cpu": "2.21.1"}, "2.21.0"),
        ({"tensorflow-cpu": "2.21.1"}, "2.21.1 (tensorflow-cpu)"),
        ({}, None),
    ],
)
def test_tensorflow_has_two_builds(
    installed: dict[str, str], expected: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    def version(package: str) -> str:
        if package not in installed:
            raise metadata.PackageNotFoundError(package)
        return installed[package]

    monkeypatch.setattr(metadata, "version", version)
    assert provenance.version_of("tensorflow") == expected


def test_a_run_that_goes_on_with_other_versions_is_not_exact_and_says_so(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    agent(tmp_path).train(Counting(), timesteps=4)
    path = tmp_path / "run.json"
    written = json.loads(path.read_text())
    threads = written["made_with"]["threads"]
    assert written["not_exact"] == []
    written["made_with"].update(tensorflow="2.0.0", threads=threads + 1)
    path.write_text(json.dumps(written))
    caplog.clear()
    agent(tmp_path).train(Counting(), timesteps=4)
    now = provenance.provenance()
    why = f"resumed with tensorflow 2.0.0 -> {now['tensorflow']}, threads {threads + 1} -> {threads}"
    assert f"this run will not resume exactly: {why}" in caplog.messages
    again = json.loads(path.read_text())
    assert (again["not_exact"], again["made_with"]) == ([why], now)
    caplog.clear()
    agent(tmp_path).train(Counting(), timesteps=4)
    assert not any("exactly" in message for message in caplog.messages)


def test_a_run_whose_checkpoints_are_gone_begins_at_zero_and_says_so(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    agent(tmp_path).train(Counting(), timesteps=4)
    (tmp_path / "checkpoints").rename(tmp_path / "elsewhere")
    caplog.clear()
    assert agent(tmp_path).train(Counting(), timesteps=4).global_timestep == 4
    assert f"{tmp_path} has a record of a run but no checkpoint: starting at zero" in caplog.messages
