"""Greedy episodes, counted one by one, in one environment or several at once; EVAL on batches; videos."""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import importlib
import logging
import math
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import gymnasium
import numpy as np
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from ..contracts import Array, BeginFacts, EndFacts, EpisodeFacts, EpisodeStats, RunConfig, Timings
from ..environments.batched import AnyEnv, BatchedEnvironment, Step
from ..environments.making import open_environment, similar
from ..hooks.hook import Hooks
from .errors import FAILURES, located
from .seeding import evaluation_seed
from .state import TrainingState, zero_rows

if TYPE_CHECKING:
    from ..runtimes.tracing import Program

Act = Callable[[Any, "dict[str, Array] | None"], "tuple[dict[str, Array], dict[str, Array] | None]"]
"""Observations and recurrent state [N, ...] to predictions and the next recurrent state."""
COPIES = 8
"""Environments that an evaluation during training steps together, at most."""
_EVAL_STREAM = 2
"""Of :func:`~.seeding.evaluation_seed`: 0 and 1 are those of greedy episodes."""
_RENDER_MODE = "rgb_array"
logger = logging.getLogger("axonrl")


@dataclasses.dataclass(frozen=True)
class Watchers:
    """Whom to tell of each episode."""

    before: Callable[[EpisodeFacts], None] = lambda facts: None
    after: Callable[[EpisodeStats], None] = lambda stats: None
    stopped: Callable[[], bool] = lambda: False


def run_episodes(
    act: Act, env: BatchedEnvironment, seeds: Sequence[int], state: dict[str, Array] | None, watch: Watchers
) -> list[EpisodeStats]:
    """Run one greedy episode per seed and return their statistics in the order of the seeds.

    Episodes are given to environments as these become free, and every one is run to its end: keeping those that end
    first would favour short episodes. An environment that is left over plays on without being counted.

    Args:
        act: the greedy actor.
        env: the environments.
        seeds: one per episode.
        state: zeros [N, ...] for each recurrent state, or None.
        watch: whom to tell.

    Raises:
        BrokenEnvironmentError: an environment failed; names it, with seed, episode and timestep.
        NonFiniteError: a reward, an observation or an action is NaN or infinite; likewise.
    """
    played = _Played(env.num_envs, seeds, watch)
    everyone = np.ones(env.num_envs, np.bool_)
    try:
        observation = env.reset(None, played.begin(everyone))
        played.announce(everyone)
        while len(played.stats) < len(seeds) and not watch.stopped():
            predictions, state = act(observation, state)
            step = env.step(predictions["action"])
            observation = step.observation
            ended = played.add(step)
            if ended.any() and len(played.stats) < len(seeds):
                observation = env.reset(ended, played.begin(ended))
                played.announce(ended)
            fresh = ended if step.acted is None else ended | ~step.acted
            if state is not None and fresh.any():
                state = {name: zero_rows(values, fresh) for name, values in state.items()}
    except FAILURES as error:
        where = f"{len(played.stats)} episodes evaluated"
        raise located(error, played.seeds, played.episodes, played.lengths, where) from error
    return [played.stats[k] for k in sorted(played.stats)]


class _Played:
    """Which episode each environment plays, and how it stands; those beyond the last seed do not count."""

    def __init__(self, num_envs: int, seeds: Sequence[int], watch: Watchers) -> None:
        self.stats: dict[int, EpisodeStats] = {}
        self.seeds = [0] * num_envs
        self.episodes = [0] * num_envs
        self.lengths = np.zeros(num_envs, np.int64)
        self._returns = np.zeros(num_envs)
        self._started = [0.0] * num_envs
        self._all_seeds = seeds
        self._next = 0
        self._watch = watch

    def begin(self, mask: Array) -> Sequence[int]:
        """The next episodes begin where ``mask`` [N]; returns the seeds [N] to reset with."""
        for i in np.flatnonzero(mask).tolist():
            self.episodes[i] = episode = self._next
            self._next += 1
            self.seeds[i] = self._all_seeds[episode % len(self._all_seeds)]
            self._returns[i], self.lengths[i], self._started[i] = 0.0, 0, time.perf_counter()
        return self.seeds

    def announce(self, mask: Array) -> None:
        """Tell of the episodes that have begun where ``mask`` [N]."""
        for i in np.flatnonzero(mask).tolist():
            if self.episodes[i] < len(self._all_seeds):
                self._watch.before(EpisodeFacts(i, self.episodes[i], self.seeds[i]))

    def add(self, step: Step) -> Array:
        """One step of every environment; returns where episodes ended [N]."""
        acted = 1 if step.acted is None else step.acted
        self._returns += step.reward * acted
        self.lengths += acted
        ended: Array = step.terminated | step.truncated
        for i in np.flatnonzero(ended).tolist():
            if self.episodes[i] < len(self._all_seeds):
                stats = EpisodeStats(
                    episode_return=float(self._returns[i]),
                    length=int(self.lengths[i]),
                    terminated=bool(step.terminated[i]),
                    truncated=bool(step.truncated[i]),
                    loss=math.nan,
                    exploration=math.nan,
                    seconds=time.perf_counter() - self._started[i],
                    environment=i,
                    episode=self.episodes[i],
                )
                self.stats[self.episodes[i]] = stats
                self._watch.after(stats)
        return ended


def summarize(stats: Sequence[EpisodeStats]) -> dict[str, float]:
    """Mean and standard deviation (of the episodes, not of the mean) of the returns, and lengths."""
    returns = np.array([s.episode_return for s in stats])
    return {
        "episode_return_mean": float(returns.mean()),
        "episode_return_std": float(returns.std()),
        "episode_return_min": float(returns.min()),
        "episode_return_max": float(returns.max()),
        "episode_length_mean": float(np.mean([s.length for s in stats])),
        "episodes": len(stats),
    }


class EvalMode:
    """The EVAL of a ``model_fn`` on batches of the training's memory; what the training follows from stays as it is.

    Batches and noise are drawn from generators of their own, made from the run's seed and ``global_timestep``.

    Args:
        program: the traced ``model_fn``, TRAIN included; its EVAL is traced now.
        seed: the run's.

    Raises:
        ValueError: EVAL breaks the contract.
    """

    def __init__(self, program: Program, seed: int) -> None:
        from ..runtimes.tensorflow import TensorFlowEval

        self._traced = program.trace_eval()
        self._run = TensorFlowEval(program, self._traced)
        self._seed = seed
        self._said_cannot_sample = False

    def __call__(self, state: TrainingState, batches: int) -> dict[str, float]:
        """Means over ``batches`` batches: ``eval_loss``, and ``eval/<name>`` for each of the ``eval_metric_ops``.

        Nothing, and said once, where the memory cannot be sampled.
        """
        counters = dataclasses.asdict(state.counters)
        if not state.memory.can_sample():
            self._say_cannot_sample(state)
            return {}
        seed = evaluation_seed(self._seed, _EVAL_STREAM, counters["global_timestep"])
        sampling, noise = np.random.default_rng(seed).spawn(2)
        memory = copy.copy(state.memory)  # what sampling notes on the memory is noted on the copy
        self._run.set_weights(state.executor.get_weights())
        scalars = []
        with _drawing_like(state.generators["memory"], sampling):
            for _ in range(batches):
                draws = [request.draw(noise) for request in self._traced.noise]
                scalars.append(self._run(memory.sample(), counters, draws))
        means: list[float] = np.array(scalars, np.float64).mean(axis=0).tolist()
        return dict(zip(("eval_loss", *(f"eval/{name}" for name in self._traced.metrics)), means, strict=True))

    def _say_cannot_sample(self, state: TrainingState) -> None:
        if not self._said_cannot_sample:
            self._said_cannot_sample = True
            logger.warning(
                "EVAL is left out of the evaluation at timestep %d: the memory cannot be sampled then%s",
                state.counters.global_timestep,
                " (it is full at multiples of its size only)" if state.memory.fills_and_empties else "",
            )


@contextlib.contextmanager
def _drawing_like(generator: np.random.Generator, other: np.random.Generator) -> Iterator[None]:
    """Inside, ``generator`` draws what ``other`` would; afterwards it goes on where it was."""
    kept = generator.bit_generator.state
    generator.bit_generator.state = other.bit_generator.state
    try:
        yield
    finally:
        generator.bit_generator.state = kept


class EvaluationEnvironments:
    """The environments of evaluations during training: opened when they are first asked for, closed together.

    Args:
        source: the training's environment, of which copies are made.
        closing: closes them.
    """

    def __init__(self, source: Any, closing: contextlib.ExitStack) -> None:
        self._source = source
        self._closing = closing
        self._opened: dict[Any, BatchedEnvironment] = {}
        self._rendering: dict[Any, AnyEnv] = {}

    def get(self, env: Any, episodes: int) -> BatchedEnvironment:
        """``env`` behind the batched interface; for None as many copies of the training's as are of use.

        Raises:
            ValueError: no copies can be made.
        """
        copies = min(episodes, COPIES)
        key = ("copies", copies) if env is None else env if isinstance(env, str) else id(env)
        if key not in self._opened:
            if env is None:
                env = SyncVectorEnv([lambda: similar(self._source)] * copies, autoreset_mode=AutoresetMode.DISABLED)
                self._closing.callback(env.close)
            opened = self._opened[key] = open_environment(env)
            self._closing.callback(opened.close)
        return self._opened[key]

    def rendering(self, env: Any = None) -> AnyEnv:
        """``env``, or for None one like the training's, that has shown to render images; for :func:`recorded`.

        Raises:
            ValueError: it does not render images, none can be made, or what writes videos is not installed.
        """
        key = env if env is None or isinstance(env, str) else id(env)
        if key not in self._rendering:
            if env is None or isinstance(env, str):
                env = _made_rendering(self._source if env is None else env)
                self._closing.callback(env.close)
            _check_rendering(env)
            _need_moviepy()
            self._rendering[key] = env
        return self._rendering[key]


@contextlib.contextmanager
def recorded(env: AnyEnv, path: Path) -> Iterator[BatchedEnvironment]:
    """``env`` behind the batched interface; the one episode played inside becomes the video ``path``.

    Gymnasium's recorder writes it, at the frame rate of the environment. It is there whole or not at all.

    Args:
        env: what :meth:`EvaluationEnvironments.rendering` returned.
        path: ``.mp4``; its folder is made.

    Raises:
        OSError: it cannot be written.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".", dir=path.parent) as folder:
        made = Path(folder) / "video"  # the recorder warns of a folder that is there already
        recorder: Any = gymnasium.wrappers.RecordVideo(env, str(made), episode_trigger=lambda episode: True)
        try:
            yield open_environment(recorder)
            recorder.stop_recording()
            next(made.glob("*.mp4")).replace(path)
        finally:
            recorder.recorded_frames = []  # of an episode that failed: it would warn of them


def _need_moviepy() -> None:
    try:
        importlib.import_module("moviepy")
    except ImportError as error:
        raise ValueError(
            f"a video needs the package moviepy, which cannot be imported ({error}): pip install 'axonrl[video]'"
        ) from error


def _made_rendering(source: Any) -> AnyEnv:
    """A fresh single environment like ``source`` that renders images."""
    env = similar(source)
    if env.render_mode == _RENDER_MODE:
        return env
    env.close()
    spec, modes = env.spec, env.metadata.get("render_modes") or []
    if _RENDER_MODE not in modes:
        raise ValueError(f"{_name(env)} cannot render {_RENDER_MODE}, only {modes}: there is no video of it")
    if spec is None:
        raise ValueError(
            f"{_name(env)} has render_mode={env.render_mode!r}, and no id from which to make one that renders images:"
            f" pass env with render_mode={_RENDER_MODE!r}"
        )
    try:
        return gymnasium.make(spec, render_mode=_RENDER_MODE, disable_env_checker=True)
    except Exception as error:  # whatever an environment does that is made
        raise ValueError(f"{_name(env)} cannot be made with render_mode={_RENDER_MODE!r}: {error}") from error


def _check_rendering(env: Any) -> None:
    """Render one image: what is wrong with that shows now."""
    if not isinstance(env, gymnasium.Env):
        raise ValueError(f"a video is taken of one environment, a gymnasium.Env or an id, got {env!r}")
    if env.render_mode != _RENDER_MODE:
        raise ValueError(f"{_name(env)} has render_mode={env.render_mode!r}: a video needs {_RENDER_MODE!r}")
    try:
        env.reset(seed=0)
        image: Any = env.render()
    except Exception as error:  # whatever an environment does; a package that it draws with may be missing
        raise ValueError(f"{_name(env)} cannot render {_RENDER_MODE}: {type(error).__name__}: {error}") from error
    if not (isinstance(image, np.ndarray) and image.ndim == 3 and image.shape[2] == 3 and image.dtype == np.uint8):
        what = f"{image.dtype}{list(image.shape)}" if isinstance(image, np.ndarray) else type(image).__name__
        raise ValueError(f"{_name(env)} renders {what}, where an image uint8 [height, width, 3] is expected")


def _name(env: AnyEnv) -> str:
    return env.spec.id if env.spec is not None else type(env.unwrapped).__name__


class EvaluationSession:
    """What hooks see of ``evaluate``: counters of the evaluation itself, and a way to stop it.

    Args:
        model_dir: the run's directory.
        config: the run's configuration.
        weights: gives every variable by name.
    """

    def __init__(self, model_dir: Path, config: RunConfig, weights: Callable[[], Mapping[str, Array]]) -> None:
        self.model_dir = model_dir
        self.config = config
        self.weights = weights
        self.timings = Timings()
        self.exploration = math.nan
        self.global_step = 0
        self.global_timestep = 0
        self.global_episode = 0
        self.stop_reason: str | None = None

    def request_stop(self, reason: str) -> None:
        """Stop after this timestep; episodes that have not finished do not count."""
        self.stop_reason = self.stop_reason or reason

    def save_checkpoint(self) -> NoReturn:
        """Nothing to save."""
        raise ValueError("a hook asked for a checkpoint during evaluate, which does not train")

    def prepare_evaluation(self, env: Any = None, episodes: int = 10, eval_batches: int = 0) -> NoReturn:
        """Not within an evaluation."""
        raise ValueError("a hook asked for an evaluation during evaluate")

    def evaluate(self, env: Any = None, episodes: int = 10, seed: int | None = None, eval_batches: int = 0) -> NoReturn:
        """Not within an evaluation."""
        raise ValueError("a hook asked for an evaluation during evaluate")

    def prepare_video(self, env: Any = None) -> NoReturn:
        """Not within an evaluation."""
        raise ValueError("a hook asked for a video during evaluate")

    def record_video(self, path: Path, env: Any = None) -> NoReturn:
        """Not within an evaluation."""
        raise ValueError("a hook asked for a video during evaluate")

    def save_policy(self, name: str, info: Mapping[str, Any]) -> NoReturn:
        """Nothing to save."""
        raise ValueError("a hook asked to save a policy during evaluate, which does not train")

    @contextlib.contextmanager
    def watched(self, hooks: Hooks, num_envs: int, episodes: int) -> Iterator[Watchers]:
        """``begin``, then what the episodes report, then ``end`` in any case."""
        began = time.perf_counter()
        error: BaseException | None = None

        def before(facts: EpisodeFacts) -> None:
            for call in hooks.before_episode:
                call(self, facts)

        def after(stats: EpisodeStats) -> None:
            self.global_episode += 1
            self.global_timestep += stats.length
            for call in hooks.after_episode:
                call(self, stats)

        try:
            for call in hooks.begin:
                call(self, BeginFacts(num_envs, False, {"episodes": episodes}))
            yield Watchers(before, after, lambda: self.stop_reason is not None)
        except BaseException as caught:
            error = caught
            raise
        finally:
            done = self.stop_reason or f"{self.global_episode} episodes evaluated"
            reason = done if error is None else f"{type(error).__name__}: {error}"
            hooks.end(self, EndFacts(reason, error, time.perf_counter() - began, self.stop_reason is not None))
