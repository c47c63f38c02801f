"""Estimator: a model in a directory, for prediction and evaluation. The subclass Agent trains it."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NoReturn

import gymnasium

from ..core.checks import count, flag, number
from ..core.errors import ArgumentError
from ..core.protocols import Array, ModelFn, RunConfig
from ..environments.episodes import check_target, write_episodes
from ..hooks.hook import Hooks
from ..run_dir.history import REPEAT, Evaluation
from .evaluator import Evaluator
from .model import Model
from .recorder import summarize
from .run import Run
from .run_summary import Table, table_of

if TYPE_CHECKING:
    from ..run_dir.learning_curve import Picture
    from .policy_actor import PolicyActor


class Estimator:
    """A ``model_fn``, and the directory with what it has learned.

    Args:
        model_fn: ``model_fn(features, labels, mode[, params[, config[, model_dir]]])`` returning an EstimatorSpec;
            or its name (``"dqn"``, ``"package.module:function"``); or None for the one recorded in ``model_dir``.
        model_dir: the run's directory; None for a fresh temporary folder, which is logged.
        config: settings of the run.
        params: hyperparameters for ``model_fn``: a mapping, or the dataclass of a built-in algorithm
            (``DQNParams(...)``); None for those recorded in ``model_dir``, if any.
        compiled: a directory written by ``Agent.compile``, instead of ``model_fn``; TensorFlow is not loaded.

    Raises:
        ValueError: the function is invalid, or contradicts the record in ``model_dir``.
        CheckpointError: ``model_dir`` cannot be read.
    """

    def __init__(
        self,
        model_fn: ModelFn | str | None,
        model_dir: str | Path | None = None,
        config: RunConfig | None = None,
        params: Mapping[str, Any] | Any = None,
        *,
        compiled: str | Path | None = None,
    ) -> None:
        self._run = Run(model_fn, model_dir, config, params, compiled)
        self._model = Model(self._run)
        self._evaluator = Evaluator(self._run, self._model)
        owner = next(kind for kind in type(self).__mro__ if "evaluate" in vars(kind))
        if owner.__module__.rpartition(".")[0] != __name__.rpartition(".")[0]:  # of a user's class
            self._evaluator.overridden_by = type(self).__name__
        self._acting: PolicyActor | None = None

    def __reduce__(self) -> NoReturn:
        """``TypeError``: a copy would write into the same run folder."""
        name = type(self).__name__
        raise TypeError(
            f"{name} cannot be pickled or copied: two of them would write into {self.model_dir}. To act elsewhere, use"
            " the Policy of an export, which can be pickled; to train a copy, Agent.load(..., into=...)"
        )

    @property
    def model_dir(self) -> Path:
        """The run's directory."""
        return self._run.model_dir

    @property
    def config(self) -> RunConfig:
        """The run's configuration, with its seed, and its spaces once known."""
        return self._run.config

    @property
    def params(self) -> dict[str, Any] | None:
        """The hyperparameters for ``model_fn``."""
        return self._run.params

    def __repr__(self) -> str:
        kind, model = type(self).__name__, self._run.describe_model()
        return f"{kind}({model}, model_dir={str(self.model_dir)!r}, seed={self._run.seed})"

    def get_weights(self, *, policy: str | int = "last") -> dict[str, Array]:
        """Copy the acting weights, by name.

        Args:
            policy: ``"last"`` for the newest, the name of a kept policy (``"best"``), or a checkpoint's number.

        Raises:
            ValueError: ``model_dir`` holds no trained weights, and nothing was evaluated from here.
        """
        self._run.refresh()
        if self._run.config.observation_space is None:
            raise ValueError(f"get_weights needs a trained run, but {self.model_dir} holds none")
        with self._model.lock:
            weights = self._model.predict_weights(self._evaluator.policy(policy))
        return {name: array.copy() for name, array in weights.items()}

    def summary(self) -> Table:
        """Tabulate the model's variables, like Keras: name, shape, number of values, and whether acting uses them.

        Returns:
            Text to print; a notebook shows it as a table.

        Raises:
            ValueError: the spaces are not known yet: train, check or evaluate first.
        """
        self._run.refresh()
        if self._run.config.observation_space is None:
            raise ValueError(f"summary needs the spaces: train, check or evaluate first. {self.model_dir} holds no run")
        with self._model.lock:
            program = self._model.program
        return table_of(program.variables(), program.predict_variables())

    def predict(self, observations: Any, *, policy: str | int = "last") -> dict[str, Array]:
        """Compute PREDICT's predictions for a batch of observations.

        Args:
            observations: as the model sees them, so already normalised if the training's wrappers normalise: an array
                [B, ...], or a dict of such arrays for Dict and Tuple spaces, with the keys of nested spaces joined by
                ``/``; or one observation, which is a batch of one.
            policy: ``"last"`` for the newest weights, the name of a kept policy (``"best"``), or a checkpoint's number.

        Returns:
            Name to array [B, ...]; ``"action"`` is the greedy action in the environment's units.

        Raises:
            ValueError: wrong shape or dtype; ``model_dir`` holds no trained weights, and nothing was evaluated from
                here.
        """
        self._run.refresh()
        if self._run.config.observation_space is None:
            raise ValueError(f"predict needs a trained run, but {self.model_dir} holds none")
        with self._model.lock:
            return self._evaluator.predict(self._evaluator.policy(policy), observations)

    def act(self, observation: Any, explore: bool = False, *, first: Any = False, policy: str | int = "last") -> Any:
        """Choose the action for an observation, or the actions for a batch.

        Example::

            observation, _ = env.reset()
            observation, reward, *_ = env.step(agent.act(observation))

        Args:
            observation: one as returned by the environment, or a batch [B, ...]. If the training normalised
                observations, they are normalised here: pass raw ones.
            explore: use the behaviour policy at its current level of exploration, rather than the greedy action. Random
                numbers come from a separate generator.
            first: for a recurrent model, whether an episode begins: a bool, or bool [B]. Elsewhere the state of the
                previous call is continued.
            policy: ``"last"`` for the newest weights, the name of a kept policy (``"best"``), or a checkpoint's number.

        Returns:
            Actions for ``env.step``: an integer scalar for a Discrete space, else an array; for a batch, an array
            [B, ...]. Actions of a Box are clipped to its bounds.

        Raises:
            ValueError: the observation has a wrong shape or dtype, or contains NaN or infinity; ``model_dir`` holds no
                trained weights, and nothing was evaluated from here.
        """
        run = self._run
        run.refresh()
        observation_space, action_space = run.config.observation_space, run.config.action_space
        if observation_space is None or action_space is None:
            raise ValueError(f"act needs a trained run, but {self.model_dir} holds none")
        with self._model.lock:
            if self._acting is None:
                from .policy_actor import PolicyActor

                self._acting = PolicyActor(self._model, observation_space, action_space, run.seed)
            return self._acting(self._evaluator.policy(policy), observation, explore, first)

    def learning_curve(self) -> Picture:
        """Draw the run's returns over its timesteps, from ``episodes.csv`` and ``evaluations.csv`` in its folder.

        Returns:
            The image's path, ``learning_curve.png`` in ``model_dir``, which a notebook shows; the SVG is next to it.

        Raises:
            ValueError: there is no run, or a file is damaged.
            CheckpointError: the image cannot be written, for example into a read-only folder.
        """
        from ..run_dir.learning_curve import learning_curve

        self._run.refresh()
        if self._run.record is None:
            raise ValueError(f"learning_curve needs a run, but {self.model_dir} holds none")
        return learning_curve(self.model_dir)

    def evaluate(
        self,
        env: gymnasium.Env[Any, Any] | gymnasium.vector.VectorEnv[Any, Any, Any] | str,
        episodes: int | Literal["repeat"] | None = None,
        *,
        seed: int | None = None,
        hooks: Any = None,
        policy: str | int = "last",
        explore: bool = False,
    ) -> dict[str, float]:
        """Run greedy episodes in an environment that normalises as in training.

        Args:
            env: environment, vector environment or id. It needs the wrappers that normalised observations in training,
                and uses the statistics learned there; wrappers that normalise rewards may be omitted.
            episodes: number of episodes; or ``"repeat"`` to repeat the training's own evaluation of this policy
                exactly: the same seeds, in as many copies of ``env``, for bit-identical results. None means
                ``"repeat"`` if ``policy`` is a checkpoint's number, the training evaluated that policy and no seed is
                given; otherwise 10.
            seed: seeds the episodes; None uses the run's seed. The same seed gives the same episodes.
            hooks: ``prepare``, ``begin``, ``before_episode``, ``after_episode`` and ``end`` are called, of hooks in
                their initial state; hooks that write the files of a training are refused.
            policy: ``"last"`` for the newest weights, the name of a kept policy (``"best"``), or a checkpoint's number.
            explore: act with the behaviour policy instead, at the policy's ``global_timestep``, with draws determined
                by the seed: partially observed tasks may need it. ``"repeat"`` acts as the training's evaluation did.

        Returns:
            ``episode_return_mean, episode_return_std, episode_return_min, episode_return_max, episode_length_mean,
            episodes``.

        Raises:
            ValueError: an argument is out of range, or the spaces differ from the training's.
            ArgumentError: ``env`` lacks a normalising wrapper of the training's environment (names it); there is no
                such checkpoint; the training did not evaluate this policy.
        """
        episodes = episodes if episodes in (None, REPEAT) else count("episodes", episodes)
        given = Hooks(hooks)
        self._run.refresh()
        with self._model.lock:
            return self._evaluator.evaluate(policy, env, episodes, seed, flag("explore", explore), given)

    def recorded_evaluation(self, policy: str | int = "last") -> Evaluation | None:
        """Return the training's own evaluation of a policy, from ``evaluations.csv``; None if there was none.

        Args:
            policy: ``"last"`` for the newest weights, the name of a kept policy (``"best"``), or a checkpoint's number.

        Raises:
            ValueError: there is no such policy or checkpoint.
        """
        self._run.refresh()
        return self._evaluator.recorded_evaluation(policy)

    def record(
        self,
        path: str | Path,
        env: gymnasium.Env[Any, Any] | gymnasium.vector.VectorEnv[Any, Any, Any] | str,
        episodes: int | None = None,
        *,
        timesteps: int | None = None,
        epsilon: float = 0.0,
        seed: int | None = None,
        policy: str | int = "last",
    ) -> dict[str, float]:
        """Write episodes of the greedy policy to a file, for ``Agent.learn`` or a DemonstrationMemory.

        Example::

            agent.record("expert.npz", "CartPole-v1", episodes=50)
            agent.record("mixed.npz", "CartPole-v1", timesteps=20_000, epsilon=0.3)

        Args:
            path: a file name ending in ``.npz``; an existing file is replaced.
            env: one environment, or its id. Actions are recorded as taken: those of a Box are clipped.
            episodes: number of episodes; or give ``timesteps``.
            timesteps: total; the last episode is truncated if necessary.
            epsilon: probability of a random action at each timestep, 0 .. 1.
            seed: seeds the episodes; None uses the run's seed. The same seed gives the same episodes.
            policy: ``"last"`` for the newest weights, the name of a kept policy (``"best"``), or a checkpoint's number.

        Returns:
            The statistics of ``evaluate``, and ``timesteps``.

        Raises:
            ValueError: an argument is out of range, the spaces differ from the training's, wrappers of the environment
                or of the training normalise, the action space cannot be sampled, or the file cannot be written.
        """
        if (episodes is None) == (timesteps is None):
            message = f"give either episodes or timesteps; got {episodes!r} and {timesteps!r}"
            raise ArgumentError(message, "episodes", episodes)
        episodes = None if episodes is None else count("episodes", episodes)
        timesteps = None if timesteps is None else count("timesteps", timesteps)
        epsilon = number("epsilon", epsilon, at_least=0, at_most=1)
        path = check_target(path)
        self._run.refresh()
        with self._model.lock:
            played = self._evaluator.record(policy, env, episodes, timesteps, epsilon, seed)
        write_episodes(path, played)
        return summarize(played)

    def export(
        self, directory: str | Path, *, policy: str | int = "last", formats: str | Iterable[str] = ("litert",)
    ) -> Path:
        """Export the greedy policy to a directory that acts without TensorFlow; see ``axonrl.policies.Policy``.

        It holds the model as a LiteRT file, the weights, ``policy.json`` (spaces, preprocessing of observations,
        current exploration, versions, and a digest of each file), and ``README.md``, a model card. If the training
        normalised observations, the policy normalises its inputs. Each format is compared with this Agent:
        ``parity.json`` has the results, and nothing is written if they differ.

        Args:
            directory: a new or empty one, or that of an export, which is replaced atomically.
            policy: ``"last"`` for the newest weights, the name of a kept policy (``"best"``), or a checkpoint's number.
            formats: ``"litert"``, ``"onnx"``, or both.

        Returns:
            The directory.

        Raises:
            ValueError: ``model_dir`` holds no trained weights, ``directory`` holds something else, LiteRT or ONNX
                cannot run the model (names the op), the policy could not normalise observations as in training (says
                why), or the exported policy does not act like this Agent.
            ArgumentError: an unknown format, or packages for ``"onnx"`` are missing (``axonrl[onnx]``).
            CheckpointError: the directory cannot be written.
        """
        from .export import LITERT, ONNX, checked_formats, export
        from .parity import compare_with_agent

        chosen = checked_formats(formats)
        self._run.refresh()
        record = self._run.record
        if record is None:
            raise ValueError(f"export needs a trained run, but {self.model_dir} holds none")
        model, snapshot = self._model, self._evaluator.policy(policy)
        exported = dataclasses.replace(snapshot, name=str(policy), weights=model.predict_weights(snapshot))
        onnx = None
        if ONNX in chosen:
            from .onnx_export import write_onnx

            onnx = functools.partial(write_onnx, model, exported)
        compare = functools.partial(compare_with_agent, model, self.config, exported, chosen, record.environment)
        run, litert = self.model_dir, LITERT in chosen
        return export(model, self.config, exported, directory, litert=litert, write_onnx=onnx, compare=compare, run=run)
