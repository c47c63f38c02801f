"""A run that is killed and resumed ends bit for bit like one that never stopped."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import logging
import os
import random
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from gymnasium.wrappers import NormalizeObservation, NormalizeReward, TransformAction

import axonrl
from axonrl import Agent, EstimatorSpec, Modes, RunConfig
from axonrl.environments import make
from axonrl.errors import CheckpointError
from axonrl.hooks import CheckpointHook, EvaluationHook
from axonrl.memories import ReplayMemory
from axonrl.models import dqn, td3
from axonrl.run_dir.checkpoints import CheckpointStore
from axonrl.tests.estimators import resume_child as child
from axonrl.tests.estimators.fakes import Named, differences, record, snapshot, vector

pytestmark = pytest.mark.usefixtures("traced_once")
TIMESTEPS = 160
BOTH = ["normalize_observation", "normalize_reward"]


class Server:
    """The process that forks a child for each job (see resume_child.py)."""

    def __init__(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, child.__file__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},  # it may fork only while it has one thread
        )
        assert self.read() == "ready"

    def read(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().rstrip("\n")

    def start(self, **job: Any) -> int:
        """Start a child; its process id."""
        assert self.process.stdin is not None
        print(json.dumps(job), file=self.process.stdin, flush=True)
        word, pid = self.read().split()
        assert word == "pid"
        return int(pid)

    def wait(self) -> tuple[int, list[str]]:
        """The child's exit status, and what it had said until then."""
        said = []
        while not (line := self.read()).startswith("exit "):
            assert self.process.poll() is None
            said.append(line)
        return int(line.split()[1]), said


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    server = Server()
    yield server
    server.process.communicate()


def job(model_dir: Path, algorithm: str = "dqn", **changes: Any) -> dict[str, Any]:
    """Of a program in ``changes["compiled"]``."""
    settings = {"seed": 5, "timesteps": TIMESTEPS, "save_every": 6, "evaluate_every": 40}
    return {**settings, "model_dir": str(model_dir), "algorithm": algorithm, **changes}


def journal(model_dir: Path) -> dict[str, str]:
    """What happened in all processes: an event that came twice was the same both times."""
    events: dict[str, str] = {}
    for line in model_dir.with_suffix(".journal").read_text().splitlines():
        name, _, what = line.partition(" ")
        assert events.setdefault(name, what) == what, name
    return events


def assert_same_run(a: Path, b: Path) -> None:
    assert CheckpointStore(a).newest() == CheckpointStore(b).newest()
    assert differences(snapshot(a), snapshot(b)) == []
    assert journal(a) == journal(b)
    assert (a / "best.safetensors").read_bytes() == (b / "best.safetensors").read_bytes()
    assert record(a) == record(b)
    assert record(a)["not_exact"] == []


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], str]:
    """The folder of the compiled program of an algorithm."""
    made: dict[str, str] = {}

    def get(algorithm: str) -> str:
        if algorithm not in made:
            folder = tmp_path_factory.mktemp("programs")
            agent = child.agent_of(algorithm, folder / "run", RunConfig(seed=5))
            with contextlib.closing(child.environment(algorithm)) as env:
                made[algorithm] = str(agent.compile(folder / "compiled", env))
        return made[algorithm]

    return get


@pytest.fixture(scope="module")
def uninterrupted(
    server: Server, program: Callable[[str], str], tmp_path_factory: pytest.TempPathFactory
) -> Callable[[str], Path]:
    """The model directory of a run of an algorithm that nothing disturbs."""
    runs: dict[str, Path] = {}

    def get(algorithm: str) -> Path:
        if algorithm not in runs:
            runs[algorithm] = tmp_path_factory.mktemp("uninterrupted") / "run"
            server.start(**job(runs[algorithm], algorithm, compiled=program(algorithm)))
            assert server.wait() == (0, [])
        return runs[algorithm]

    return get


def kills(rng: random.Random) -> Iterator[tuple[dict[str, Any], float]]:
    """Three ways to be killed, each with the seconds to wait before the test does it."""
    kinds = ["inside a save", "a timestep", "any time"]
    rng.shuffle(kinds)
    places = sorted(rng.randrange(1, TIMESTEPS) for _ in kinds)
    for kind, place in zip(kinds, places, strict=True):
        if kind == "inside a save":
            yield {"at": place, "calls": rng.randrange(1, 30)}, 0.0
        elif kind == "a timestep":
            yield {"at": place, "calls": None}, 0.03 * rng.random()
        else:  # a tenth of a second is about what it takes to get to the first timestep
            yield {"at": TIMESTEPS + 1, "calls": None}, 0.3 * rng.random()


ALGORITHMS = ["dqn", "ppo", "offline"]


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_a_run_killed_three_times_ends_as_if_it_had_not_been(
    algorithm: str, server: Server, program: Callable[[str], str], uninterrupted: Callable[[str], Path], tmp_path: Path
) -> None:
    victim_dir, compiled = tmp_path / "run", program(algorithm)
    for victim, delay in kills(random.Random(algorithm)):
        pid = server.start(**job(victim_dir, algorithm, compiled=compiled, victim=victim))
        if victim["calls"] is None:
            if victim["at"] <= TIMESTEPS:
                assert server.read().startswith("reached ")
            time.sleep(delay)
            os.kill(pid, signal.SIGKILL)
        assert server.wait()[0] == -signal.SIGKILL
    server.start(**job(victim_dir, algorithm, compiled=compiled))
    assert server.wait() == (0, [])

    assert_same_run(uninterrupted(algorithm), victim_dir)  # and the same record


# -- in one process: a new Agent on the same directory has nothing but what is there ----------------------------------


class CrashAfter:
    """Has a checkpoint written after the first timestep that reaches ``at``, and fails in the next; 0: in the first."""

    def __init__(self, at: int) -> None:
        self._at = at
        self._asked = at == 0

    def after_timestep(self, session: Any, facts: Any) -> None:
        if self._asked:
            raise RuntimeError("crash")
        if session.global_timestep >= self._at:
            session.save_checkpoint()
            self._asked = True


@dataclasses.dataclass(frozen=True)
class Case:
    """What is trained, how long, and the timesteps after which it crashes and is resumed."""

    env: Callable[[], Any]
    crashes: tuple[int, ...]
    model_fn: Any = dqn.model_fn
    params: Mapping[str, Any] | None = dataclasses.field(default_factory=lambda: child.PARAMS)
    n_step: int = 1
    timesteps: int = 200
    hooks: Callable[[], list[Any]] = list
    runtime: str = "auto"
    runs_in: tuple[str, str] = ("litert", "litert")
    """What the actor and the learner then run in."""

    def agent(self, model_dir: Path, seed: int = 5) -> Agent:
        memory = ReplayMemory(96, 8, n_step=self.n_step)  # so small that it goes round
        config = RunConfig(seed=seed, save_checkpoints_secs=None, runtime=self.runtime)
        return Agent(self.model_fn, memory, model_dir, config, self.params)

    def train(self, model_dir: Path, crash: int | None = None, seed: int = 5) -> Agent:
        """Train to the end, or until the crash."""
        agent, env = self.agent(model_dir, seed), self.env()
        hooks = [child.Journal(model_dir.with_suffix(".journal")), *self.hooks()]
        with contextlib.closing(env):
            if crash is None:
                return agent.train(env, 24, 3, max_timesteps=self.timesteps, hooks=hooks)
            with pytest.raises(RuntimeError, match="crash"):
                agent.train(env, 24, 3, max_timesteps=self.timesteps, hooks=[*hooks, CrashAfter(crash)])
        return agent

    def check(self, folder: Path) -> None:
        """One run without a crash, one that crashes again and again."""
        self.train(folder / "whole")
        for crash in self.crashes:
            self.train(folder / "resumed", crash)
        self.train(folder / "resumed")
        assert differences(snapshot(folder / "whole"), snapshot(folder / "resumed")) == []
        assert journal(folder / "whole") == journal(folder / "resumed")
        assert record(folder / "resumed") == record(folder / "whole")
        assert record(folder / "resumed")["not_exact"] == []
        assert record(folder / "resumed")["runtime"] == dict(zip(("actor", "learner"), self.runs_in, strict=True))


def cart() -> Any:
    return make("CartPole-v1")


def normalised() -> Any:
    """Two whose wrappers learn."""

    def one() -> Any:
        return NormalizeReward(NormalizeObservation(cart()))

    return SyncVectorEnv([one, one], autoreset_mode=AutoresetMode.DISABLED)


def recurrent_model_fn(features: Any, labels: Any, mode: str, params: Any, config: RunConfig) -> EstimatorSpec:
    """Acts on what it remembers of the episode; learns something of no use, with noise."""
    import keras
    import tensorflow as tf

    from axonrl import noise
    from axonrl.explorations import GaussianNoise, OrnsteinUhlenbeck

    known = isinstance(features, dict)
    observation = features["observation"] if known else features
    hidden = features["state"]["hidden"] if known else tf.zeros([tf.shape(features)[0], 3])
    layer, head = keras.layers.Dense(3, "tanh"), keras.layers.Dense(1)
    following = layer(tf.concat([observation, hidden], axis=-1))
    action = 2.0 * tf.tanh(head(following))
    if mode == Modes.PREDICT:
        kind: Any = OrnsteinUhlenbeck if params["drifts"] else GaussianNoise
        state = {"hidden": following if known else hidden}
        return EstimatorSpec(mode, {"action": action}, exploration=kind(0.2, config.action_space), state=state)
    wanted = labels["reward"][:, None] + noise.normal(action.shape)
    if params.get("limit"):
        wanted = tf.minimum(wanted, np.inf)  # LiteRT has no such constant
    loss = tf.reduce_mean((action - wanted) ** 2)
    variables = [*layer.trainable_variables, *head.trainable_variables]
    keras.optimizers.SGD(1e-2).apply(tf.gradients(loss, [v.value for v in variables]), variables)
    return EstimatorSpec(mode, loss=loss)


def pendulums() -> Any:
    """Three whose episodes are short, and of float64 actions."""

    def one() -> Any:
        env: Any = make("Pendulum-v1", max_episode_steps=17)
        return TransformAction(env, lambda action: action, Box(-2.0, 2.0, (1,), np.float64))

    return SyncVectorEnv([one] * 3, autoreset_mode=AutoresetMode.DISABLED)


CASES = {
    "n_step": Case(lambda: make("CartPole-v1", 3), (33, 60, 150), n_step=3),
    "dict": Case(lambda: vector(Named(5), Named(7)), (50, 120)),
    "wrappers that learn": Case(normalised, (50, 120, 160)),
    "normalising": Case(lambda: make("CartPole-v1", 4, wrappers=BOTH), (50, 120)),
    "masks": Case(lambda: make("Taxi-v4", 2, wrappers=["mask_from_info"]), (90,)),
    "minatar": Case(lambda: make("MinAtar/Breakout-v1", 2), (50, 160)),
    "lunarlander": Case(lambda: make("LunarLander-v3", 2), (75, 220), timesteps=260),
    # Crashes between a step of the actor's and the next, whose loss is reported in between.
    "delayed policy": Case(
        pendulums,
        (30, 84, 140),
        td3.model_fn,
        {"hidden": (4,), "policy_delay": 3, "optimizer": "sgd", "random_timesteps": 60},
    ),
}
WITH_A_STATE = {
    "random decay": Case(
        lambda: make("CartPole-v1", 3), (60,), dqn.model_fn, {**child.PARAMS, "exploration": "random_decay"}
    ),
    "stateful exploration": Case(pendulums, (30, 140), recurrent_model_fn, {"drifts": True}),
    "tensorflow": Case(
        pendulums,
        (130,),
        recurrent_model_fn,
        {"drifts": False},
        runtime="tensorflow",
        runs_in=("tensorflow", "tensorflow"),
    ),
    "apart": Case(
        pendulums,
        (130,),
        recurrent_model_fn,
        {"drifts": True, "limit": True},
        runs_in=("litert", "tensorflow"),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_a_crashed_run_ends_as_if_nothing_had_happened(name: str, tmp_path: Path) -> None:
    CASES[name].check(tmp_path)


@pytest.mark.usefixtures("traced_anew")
@pytest.mark.parametrize("name", WITH_A_STATE)
def test_a_crashed_run_with_an_exploration_s_state_or_tensorflow_likewise(name: str, tmp_path: Path) -> None:
    """That is: what belongs to a trace, and to one agent alone."""
    WITH_A_STATE[name].check(tmp_path)


def test_it_may_stop_at_any_place_of_an_episode(tmp_path: Path) -> None:
    hooks: list[EvaluationHook] = []

    def evaluation() -> list[Any]:
        hooks.append(EvaluationHook(60, episodes=2))
        return hooks[-1:]

    case = Case(lambda: make("CartPole-v1", 4), (), timesteps=240, hooks=evaluation)
    case.train(tmp_path / "whole")
    what = journal(tmp_path / "whole")
    ends = sorted({int(value.split()[0]) for name, value in what.items() if name.startswith("end:")})
    first, later = ends[0], next(end for end in ends if end > 100)
    lengths = snapshot(tmp_path / "whole")["episodes"]["lengths"].tolist()
    assert len(set(lengths)) > 1  # the environments are at different places of their episodes

    for crash in (0, 12, first - 4, first, later - 4, later):  # the first update comes after 24, an end after an action
        case.train(tmp_path / "resumed", crash)
    case.train(tmp_path / "resumed")
    resumed = snapshot(tmp_path / "resumed")
    assert differences(snapshot(tmp_path / "whole"), resumed) == []
    assert journal(tmp_path / "resumed") == what
    returns = [value.split() for name, value in what.items() if name.startswith("evaluation:")]
    best = max(np.mean([float.fromhex(one) for one in values]) for values in returns)
    assert hooks[0].best == hooks[-1].best == resumed["hooks"]["EvaluationHook:0"]["best"] == best
    assert (tmp_path / "resumed/best.safetensors").read_bytes() == (tmp_path / "whole/best.safetensors").read_bytes()


# -- what cannot be exact says so -------------------------------------------------------------------------------------


class Unseeded(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Draws from a generator that no seed reaches."""

    def __init__(self) -> None:
        super().__init__(cart())
        self._random = np.random.default_rng()

    def step(self, action: Any) -> Any:
        observation, reward, *rest = self.env.step(action)
        return observation + np.float32(1e-3 * self._random.normal()), reward, *rest


@pytest.mark.parametrize(
    ("env", "why", "at_once"),
    [
        (Unseeded, "CartPole-v1: it does not repeat an episode from its seed and", False),
        (
            lambda: gymnasium.make_vec("CartPole-v1", 2),
            "CartPole-v1: it resets itself (autoreset_mode NEXT_STEP)",
            True,
        ),
    ],
    ids=["observations", "resets itself"],
)
def test_what_does_not_repeat_is_marked_and_trains_on(
    env: Any, why: str, at_once: bool, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    case, model_dir = Case(env, (), timesteps=100), tmp_path / "run"
    case.train(model_dir, crash=50)
    assert bool(record(model_dir)["not_exact"]) == at_once
    assert ("will not resume exactly" in caplog.text) == at_once
    caplog.clear()

    agent = case.train(model_dir)

    assert agent.global_timestep in (100, 101)  # a step in which one of both is reset is one timestep
    [reason] = record(model_dir)["not_exact"]
    assert reason.startswith(why)
    warnings = [one.getMessage() for one in caplog.records if one.levelno >= logging.WARNING]
    assert warnings == [f"this run will not resume exactly: {reason}"]


# -- damage -----------------------------------------------------------------------------------------------------------


def _damage(checkpoint: Path) -> None:
    """Turn one bit in the middle of the arrays."""
    path = checkpoint / "arrays.safetensors"
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def _checkpoints(model_dir: Path) -> list[Path]:
    return sorted((model_dir / "checkpoints").glob("checkpoint-*"))


def test_the_checkpoint_before_a_damaged_one_leads_to_the_same_end(tmp_path: Path) -> None:
    case = Case(lambda: make("CartPole-v1", 2), (), hooks=lambda: [CheckpointHook(steps=7)])
    case.train(tmp_path / "whole")
    case.train(tmp_path / "run", crash=150)
    *_, before, last = _checkpoints(tmp_path / "run")
    _damage(last)

    with pytest.warns(UserWarning, match=f"{last.name} is damaged: .*; using {before.name} instead"):
        case.train(tmp_path / "run")

    assert differences(snapshot(tmp_path / "whole"), snapshot(tmp_path / "run")) == []
    assert journal(tmp_path / "whole") == journal(tmp_path / "run")


def test_with_all_checkpoints_damaged_nothing_begins_anew(tmp_path: Path) -> None:
    case, model_dir = Case(cart, ()), tmp_path / "run"
    case.train(model_dir, crash=40)
    events = journal(model_dir)
    for checkpoint in _checkpoints(model_dir):
        _damage(checkpoint)
    files = {path: path.read_bytes() for path in model_dir.rglob("*") if path.is_file()}

    for _ in range(2):
        with pytest.raises(CheckpointError, match=r"every checkpoint in .* is damaged"):
            case.agent(model_dir).train(case.env(), 24, 3, max_timesteps=200)
    with pytest.raises(CheckpointError, match=r"every checkpoint in .* is damaged"):
        case.agent(model_dir).evaluate(case.env())

    assert journal(model_dir) == events
    assert {path: path.read_bytes() for path in model_dir.rglob("*") if path.is_file()} == files


PAGE = Path(axonrl.__file__).parent / "docs" / "memories.md"


def shown() -> Any:
    block = re.search(
        r"```python\n(class ReservoirMemory:.*?)\n\n\nagent = ", PAGE.read_text(encoding="utf-8"), re.DOTALL
    )
    assert block is not None
    names: dict[str, Any] = {"np": np}
    exec(block[1], names)
    return names["ReservoirMemory"]


def test_the_memory_of_the_documentation_resumes_exactly(tmp_path: Path) -> None:
    own = shown()
    trained = []
    for name, stops in [("whole", (300,)), ("parts", (170, 300))]:
        for stop in stops:  # the memory is full from timestep 128 on
            agent = Agent(
                dqn.model_fn, own(128, 32), tmp_path / name, RunConfig(seed=3), {"hidden": (4,), "optimizer": "sgd"}
            )
            agent.train("CartPole-v1", first_update=50, update_frequency=5, max_timesteps=stop)
        trained.append(agent.predict(np.linspace(-1, 1, 8, dtype=np.float32).reshape(2, 4))["q_values"])
    np.testing.assert_array_equal(trained[0], trained[1])
    assert agent.global_step == 51
