"""Programs of built-in models in the cache: found without TensorFlow, the same bits, and never another's."""

import dataclasses
import functools
import json
import logging
import os
import random
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete

from axonrl import Agent, EstimatorSpec, RunConfig, memories
from axonrl.core import initializers
from axonrl.errors import ArgumentError
from axonrl.estimators import compilation, live_code, program_cache
from axonrl.estimators.traced import TracedModel
from axonrl.hooks import EvaluationHook, Hook
from axonrl.memories import ReplayMemory
from axonrl.models import dqn
from axonrl.models.blocks import losses, networks
from axonrl.policies import Policy, compiled
from axonrl.run_dir import programs
from axonrl.run_dir.provenance import provenance
from axonrl.tests.estimators import compiled_child as child
from axonrl.tests.estimators.fakes import agent as fake_agent
from axonrl.tests.estimators.test_compiled import CASES, SMALL, Case, mixed

BUILT_IN = ("dqn", "ppo", "sac")
NONE = os.environ[programs.VARIABLE]
"""A cache that has converted programs only, of all tests: what is looked for is traced."""


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A cache with the programs of all cases, stored by runs of other seeds."""
    folder = tmp_path_factory.mktemp("cache")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(programs.VARIABLE, str(folder))
        for name in BUILT_IN:
            case = CASES[name]
            child.train(case.agent(folder / f"run-{name}", 77), case.env, case.stages[0], case.schedule)
        yield folder


@pytest.fixture
def cache(filled: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The filled cache, in use."""
    monkeypatch.setenv(programs.VARIABLE, str(filled))
    return filled


def entry(cache: Path, name: str = "dqn") -> Path:
    described = {path.parent: json.loads(path.read_text()) for path in cache.glob("programs/*/program.json")}
    (found,) = (path for path, one in described.items() if one["model_fn"] == name)
    return found


@pytest.mark.parametrize("name", BUILT_IN)
def test_the_same_bits_and_resume_in_both_directions(
    name: str, cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = CASES[name]

    def train(folder: str, stage: int, cached: bool) -> str:
        with monkeypatch.context() as patch:
            if cached:
                patch.setattr(TracedModel, "__init__", None)
            else:
                patch.setenv(programs.VARIABLE, NONE)
            return child.train(case.agent(tmp_path / folder, 5), case.env, case.stages[stage], case.schedule)

    first, last = (train("traced", stage, cached=False) for stage in (0, 1))
    assert first != last
    assert train("here", 0, cached=True) == train("there", 0, cached=False) == first
    assert train("here", 1, cached=False) == train("there", 1, cached=True) == last
    assert (tmp_path / "here/run.json").read_text() == (tmp_path / "traced/run.json").read_text()


def test_a_process_that_cannot_import_tensorflow(cache: Path, tmp_path: Path) -> None:
    """It trains, resumes, evaluates, acts and exports; Keras' settings are those of a process that has loaded it."""
    case = CASES["dqn"]
    job = {**dataclasses.asdict(case), "model_fn": "dqn", "seed": 5, "compiled": None}
    job["model_dir"] = str(tmp_path / "run")
    ran = subprocess.run(
        [sys.executable, child.__file__], input=json.dumps(job), capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stderr
    result = json.loads(ran.stdout)
    assert result["loaded"] == []
    traced = case.agent(tmp_path / "traced", 5)
    assert result["digests"] == [child.train(traced, case.env, stage, case.schedule) for stage in case.stages]


def test_evaluating_acting_and_exporting(cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    case, observations = CASES["ppo"], np.linspace(-1, 1, 20, dtype=np.float32).reshape(5, 4)
    child.train(case.agent(tmp_path / "run", 5), case.env, 70, case.schedule)
    found: list[Any] = []
    for cached in (True, False):
        with monkeypatch.context() as patch:
            if cached:
                patch.setattr(TracedModel, "__init__", None)
            else:
                patch.setenv(programs.VARIABLE, NONE)
            one = Agent(None, model_dir=tmp_path / "run")
            exported = Policy.load(one.export(tmp_path / f"exported-{cached}")).act(observations).tolist()
            acted = one.predict(observations)["value"].tolist(), one.act(observations).tolist()
            found.append((one.evaluate("CartPole-v1", 2), acted, exported))
    assert found[0] == found[1]


class Results(Hook):
    """Of the evaluations."""

    def __init__(self) -> None:
        self.found: list[dict[str, float]] = []

    def after_evaluation(self, session: Any, facts: Any) -> None:
        self.found.append(dict(facts.results))


def test_what_only_tensorflow_can_do_traces(cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found: list[list[dict[str, float]]] = []
    for variable in (str(cache), NONE):
        monkeypatch.setenv(programs.VARIABLE, variable)
        hooks = [results := Results(), EvaluationHook(50, episodes=1, eval_batches=2)]
        CASES["dqn"].agent(tmp_path / f"run{len(found)}", 5).train("CartPole-v1", 40, 2, max_timesteps=100, hooks=hooks)
        found.append(results.found)
    assert found[0] == found[1]
    assert "eval_loss" in found[0][-1]


def test_an_evaluation_of_the_loss_leaves_the_initial_weights_to_the_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found: list[Any] = []
    for hooks in ([], [EvaluationHook(50, episodes=1, eval_batches=2)]):
        folder = tmp_path / f"cache{len(found)}"
        monkeypatch.setenv(programs.VARIABLE, str(folder))
        one = CASES["dqn"].agent(tmp_path / f"run{len(found)}", 5)
        one.train("CartPole-v1", 40, 2, max_timesteps=100, hooks=hooks)
        found.append(compiled.read(entry(folder)).weights(5))
    assert {name: array.tobytes() for name, array in found[0].items()} == {
        name: array.tobytes() for name, array in found[1].items()
    }


def test_a_damaged_entry_is_a_miss_with_one_line_and_made_again(
    cache: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    case, place = CASES["dqn"], entry(cache)
    names = ("program.json", "program.tflite", "policy.tflite", "weights/seed-77.safetensors")
    whole = {name: (place / name).read_bytes() for name in names}
    for name, content in whole.items():
        caplog.clear()
        (place / name).write_bytes(content[:-9])
        assert not found_for(case, tmp_path / "before")
        (line,) = (one.getMessage() for one in caplog.records if one.levelno == logging.WARNING)
        assert "the program in the cache cannot be used" in line
        assert name in line
        assert not program_cache._is_sound(place)
        (place / name).write_bytes(content)
    (place / "program.json").unlink()
    assert not found_for(case, tmp_path / "before")
    for name in names[1:]:
        (place / name).write_bytes(b"")
    child.train(case.agent(tmp_path / "run", 77), case.env, 60, case.schedule)
    assert {name: (place / name).read_bytes() for name in names} == whole
    assert found_for(case, tmp_path / "after")


def found_for(case: Case, folder: Path, **config: Any) -> bool:
    """Is the program of such a run in the cache?"""
    agent = case.agent(folder)
    settings = RunConfig(seed=1, progress=False, **config)
    agent = Agent(case.model_fn, agent.memory, folder, settings, case.params)
    env = case.opened()
    prefix = "single_" if case.env[1] else ""
    agent._run.take_spaces(*(getattr(env, f"{prefix}{kind}_space") for kind in ("observation", "action")))
    env.close()
    memory = agent.memory
    assert memory is not None
    key = program_cache.key_of(agent._run, program_cache.Experience.of(memory, case.env[1] or 1))
    return program_cache.find(agent._run, key) is not None


def test_what_a_program_depends_on_and_what_it_leaves_open(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    case, change = CASES["ppo"], dataclasses.replace
    assert found_for(case, tmp_path)
    assert found_for(change(case, params={**case.params, "learning_rate": 7e-4}), tmp_path)
    assert not found_for(change(case, params={**case.params, "learning_rate": -7e-4}), tmp_path)
    assert not found_for(change(case, params={**case.params, "gae_lambda": 0.8}), tmp_path)
    assert not found_for(change(case, params={**case.params, "hidden": [5]}), tmp_path)
    assert not found_for(change(case, params={**case.params, "learning_rate": lambda t, ops: 1e-3}), tmp_path)
    assert not found_for(change(case, memory_arguments={"size": 64, "batch_size": 64}), tmp_path)
    assert not found_for(change(case, env=("CartPole-v1", 2)), tmp_path)
    assert not found_for(change(case, env=("Acrobot-v1", 4)), tmp_path)
    assert not found_for(change(case, params={**case.params, "shared": 1}), tmp_path)
    assert not found_for(case, tmp_path, runtime="litert")
    assert not found_for(case, tmp_path, runtime="tensorflow")
    assert not found_for(change(case, model_fn="axonrl.models.a2c:model_fn"), tmp_path)
    for name, value in (("_code", lambda: "edited"), ("_code", lambda: None), ("_globals_of_keras", dict)):
        with monkeypatch.context() as patch:
            patch.setattr(program_cache, name, value)
            assert not found_for(case, tmp_path)
    made = provenance()
    for other in ({**made, "numpy": "9.9"}, {**made, "tensorflow": None}, {**made, "processor": "another"}):
        with monkeypatch.context() as patch:
            patch.setattr(program_cache, "provenance", lambda other=other: other)
            assert not found_for(case, tmp_path)


def test_keras_settings_before_keras_is_loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Read as Keras reads them, from a relative home and one that begins with a tilde, or without any."""
    (tmp_path / "keras.json").write_text(json.dumps({"floatx": "float64"}))
    monkeypatch.delitem(sys.modules, "keras")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    for home in ("~", ""):
        monkeypatch.setenv("KERAS_HOME", home)
        assert program_cache._globals_of_keras()["floatx"] == "float64"
    monkeypatch.delenv("KERAS_HOME")
    assert program_cache._globals_of_keras()["floatx"] == "float32"


def test_another_function_in_the_place_of_a_built_in_one_is_traced(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = dqn.model_fn

    def model_fn(features: Any, labels: Any, mode: str, params: Any, config: RunConfig) -> Any:
        return original(features, labels, mode, params, config)

    model_fn.__module__, model_fn.__qualname__ = original.__module__, original.__qualname__
    with monkeypatch.context() as patch:
        patch.setattr(dqn, "model_fn", model_fn)
        assert not found_for(dataclasses.replace(CASES["dqn"], model_fn=model_fn), tmp_path)
    assert found_for(CASES["dqn"], tmp_path)


@functools.wraps(losses.large_margin)
def wrapped(*given: Any) -> Any:
    """Looks like axonrl's own."""
    return 2 * losses.half_square_sum(given)


@pytest.mark.parametrize(
    ("where", "name", "value"),
    [
        (losses, "large_margin", wrapped),
        (losses, "large_margin", losses.half_square_sum),
        (losses, "large_margin", mock.DEFAULT),
        (losses, "LOSSES", {**losses.LOSSES, "huber": losses.squared}),
        (networks.Network, "__init__", wrapped),
        (initializers, "_SIZE", 0.06),
        (dqn.DQNParams.__dataclass_fields__["loss"], "default", "squared"),
    ],
)
def test_what_somebody_put_into_the_code_of_a_built_in_model_is_traced(
    where: Any, name: str, value: Any, cache: Path, tmp_path: Path
) -> None:
    with mock.patch.object(where, name, value):
        assert not found_for(CASES["dqn"], tmp_path)
    assert found_for(CASES["dqn"], tmp_path)


def test_numpys_numbers_in_the_code_of_a_built_in_model_count_by_their_values(monkeypatch: pytest.MonkeyPatch) -> None:
    digests = set()
    for value in (np.float32(0.25), np.float32(0.5), np.array([0.25, 0.5]), np.array([0.5, 0.25])):
        monkeypatch.setattr(initializers, "_SIZE", value)
        digests.add(live_code.digest_of(dqn.model_fn))
    assert len(digests - {None}) == 4


def test_an_edit_between_the_imports_of_a_model_and_of_the_agent_is_one(tmp_path: Path) -> None:
    """What runs is what was there before."""
    lines = (
        "import os, time; from pathlib import Path; from axonrl import EstimatorSpec",
        f"path, now = Path({str(tmp_path / 'own.py')!r}), time.time(); path.touch(); os.utime(path, (now, now))",
        "from axonrl.estimators import program_cache; print(program_cache._is_edited(path))",
    )
    assert subprocess.check_output([sys.executable, "-c", "\n".join(lines)], text=True) == "True\n"


def with_defaults(features: Any, labels: Any, mode: str, params: Any = {"hidden": 4}) -> EstimatorSpec:  # noqa: B006
    """A user's own: without params given, it has its own."""
    raise NotImplementedError


def test_no_params_are_not_empty_ones(tmp_path: Path) -> None:
    def key(params: Any) -> Any:
        one = Agent(with_defaults, ReplayMemory(500, 8), tmp_path, RunConfig(seed=1, cache="source"), params)
        one._run.take_spaces(Box(-1, 1, (2,)), Discrete(2))
        return program_cache.key_of(one._run, program_cache.Experience.of(ReplayMemory(500, 8), 1))

    assert None not in (key(None), key({}))
    assert key(None) == key(None) != key({}) == key({})


def test_a_program_removed_after_it_was_found_is_traced(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = CASES["dqn"]
    child.train(case.agent(tmp_path / "run", 5), case.env, 60, case.schedule)
    monkeypatch.setenv(programs.VARIABLE, str(shutil.copytree(cache, tmp_path / "cache")))
    one = case.agent(tmp_path / "run", 5)
    one.act(np.zeros((1, 4), np.float32))
    programs.remove(entry(tmp_path / "cache"))
    monkeypatch.setenv(programs.VARIABLE, NONE)
    copy = Path(shutil.copytree(tmp_path / "run", tmp_path / "copy"))
    expected = child.train(case.agent(copy, 5), case.env, 100, case.schedule)
    assert child.train(one, case.env, 100, case.schedule) == expected


def test_tracing_leaves_pythons_generator_to_the_environment() -> None:
    """TensorFlow's import draws from it."""
    program = "import random; from axonrl.core.tensorflow_import import load_tensorflow as load; random.seed(1); load()"
    ran = subprocess.check_output([sys.executable, "-c", f"{program}; print(random.random())"], text=True)
    assert float(ran) == random.Random(1).random()


@pytest.mark.parametrize("place", ["file", "x" * 300])
def test_a_cache_that_cannot_be_written_is_a_miss(place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv(programs.VARIABLE, str(tmp_path / place))
    one = Agent(dqn.model_fn, ReplayMemory(500, 8), tmp_path / "run", RunConfig(seed=1, progress=False), SMALL)
    one.train("CartPole-v1", max_timesteps=50)
    assert one.global_step > 0


def test_the_entries_used_longest_ago_are_removed(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for second, name in enumerate(("sac", "dqn", "ppo"), start=1):
        os.utime(entry(cache, name) / "program.json", (second, second))
    ours = [one for one in programs.entries() if one.path.parent.name == "programs"]
    assert [one.path for one in ours] == [entry(cache, name) for name in ("ppo", "dqn", "sac")]
    monkeypatch.setattr(programs, "entries", lambda: ours)
    monkeypatch.setattr(programs, "MAX_BYTES", ours[0].size + ours[1].size)
    left = [cache / f"programs/.{name}.tmp" for name in ("old", "new")]
    for path in left:
        path.mkdir()
    os.utime(left[0], (1, 1))
    programs.remove_oldest()
    assert not ours[2].path.exists()
    assert ours[1].path.exists()
    assert [path.exists() for path in left] == [False, True]


def test_the_maximum_size_is_read_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for given, found in (("", 256 * 2**20), ("0.5", 2**19), ("3", 3 * 2**20)):
        monkeypatch.setenv(programs.SIZE, given)
        assert programs.max_bytes() == found
    for given, shown in (("abc", "'abc'"), ("-1", "-1.0"), ("inf", "inf")):
        monkeypatch.setenv(programs.SIZE, given)
        with pytest.raises(ArgumentError) as caught:
            programs.max_bytes()
        assert str(caught.value) == f"AXONRL_CACHE_MB must be a finite number of at least 0, got {shown}"


def test_compiling_takes_the_program_of_the_cache_and_fills_it(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With other seeds, and other values of open params, than those of the run that stored it."""
    case = CASES["ppo"]
    other = dataclasses.replace(case, params={**case.params, "learning_rate": 7e-4})
    with monkeypatch.context() as patch:
        patch.setattr(compilation, "load_tensorflow", None)
        env = case.opened()
        directory = other.agent(tmp_path / "run", 5).compile(tmp_path / "compiled", env, seeds=[5, 6])
        env.close()
    memory = getattr(memories, case.memory)(**case.memory_arguments)
    here = Agent(None, memory, tmp_path / "here", RunConfig(seed=6, progress=False), compiled=directory)
    monkeypatch.setenv(programs.VARIABLE, NONE)
    there = other.agent(tmp_path / "there", 6)
    assert child.train(here, case.env, 70, case.schedule) == child.train(there, case.env, 70, case.schedule)
    monkeypatch.setenv(programs.VARIABLE, str(tmp_path / "empty"))
    env = case.opened()
    stored = case.agent(tmp_path / "run", 5).compile(None, env)
    assert stored.parent == tmp_path / "empty" / "programs"
    monkeypatch.setattr(compilation, "load_tensorflow", None)
    assert case.agent(tmp_path / "run", 8).compile(None, env) == stored
    monkeypatch.undo()
    monkeypatch.setenv(programs.VARIABLE, str(tmp_path / "small"))
    monkeypatch.setenv(programs.SIZE, "0")
    assert case.agent(tmp_path / "run", 5).compile(tmp_path / "second", env).is_dir()
    env.close()
    with pytest.raises(
        ArgumentError, match=r"it cannot tell when axonrl\.tests\.estimators\.fakes\.linear_model changes"
    ):
        fake_agent(tmp_path / "own").compile(None, "CartPole-v1")


FACTOR = 1.0


def own(features: Any, labels: Any, mode: str) -> EstimatorSpec:
    """A user's own, with a layer of Keras."""
    return mixed(FACTOR * features, labels, mode)


def test_a_users_own_function_is_cached_on_request(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """By its source and what that uses; the initial weights of a further seed are added."""
    monkeypatch.setenv(programs.VARIABLE, str(tmp_path / "cache"))

    def digest(seed: int, cache: str = "source", model: Any = own) -> str:
        folder = tmp_path / f"run-{len(list(tmp_path.iterdir()))}"
        config = RunConfig(seed=seed, progress=False, cache=cache)
        return child.train(Agent(model, ReplayMemory(500, 8), folder, config), ("CartPole-v1", None), 60, (2, 40))

    def stored() -> list[str]:
        return sorted(path.name for path in tmp_path.glob("cache/programs/*/weights/seed-*"))

    expected = {seed: digest(seed, "built-in") for seed in (3, 4)}
    assert stored() == []
    assert {seed: digest(seed) for seed in (3, 4)} == expected
    assert stored() == ["seed-3.safetensors", "seed-4.safetensors"]
    with monkeypatch.context() as patch:
        patch.setattr(TracedModel, "__init__", None)
        assert {seed: digest(seed) for seed in (3, 4)} == expected
    monkeypatch.setitem(globals(), "FACTOR", 2.0)
    assert digest(3) != expected[3]
    assert len(stored()) == 3
    unseen = object()

    def closed(features: Any, labels: Any, mode: str) -> EstimatorSpec:
        assert unseen
        return own(features, labels, mode)

    monkeypatch.setattr(program_cache, "_is_edited", lambda path: path == Path(__file__))
    digest(3)  # what runs may be what was there before
    assert len(stored()) == 3
    digest(3, model=closed)
    assert "is not cached: edits of unseen cannot be detected" in caplog.text
    assert len(stored()) == 3
