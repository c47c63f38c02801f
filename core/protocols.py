"""The contracts between the rooms of axonrl: array types, ``RunConfig``, ``EstimatorSpec``, and two protocols.

Imports neither TensorFlow nor Gymnasium. The arguments of hooks are in hooks/events.py.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NoReturn, Protocol, TypeAlias, runtime_checkable

import numpy as np
from numpy.typing import DTypeLike, NDArray

from .checks import choice, count, flag, number
from .errors import ArgumentError

if TYPE_CHECKING:
    import gymnasium

Array: TypeAlias = NDArray[Any]
"""A NumPy array of any dtype."""
ArrayTree: TypeAlias = "Array | Mapping[str, Array]"
"""One array, or a flat dictionary of arrays (Dict spaces)."""
ACTION_MASK: Final = "action_mask"
"""The prediction, bool [N, A], that tells explorations which actions are legal."""
NO_LEGAL_ACTION: Final = -(2**31)
"""Placeholder for the action of a row whose mask allows none; environments refuse it."""
MOST_LANES: Final = 65_536
"""Maximum number of a run's environments, or of a caller's lanes; each has its own seeds, episodes and states."""
ACHIEVED_GOAL: Final = "achieved_goal"
DESIRED_GOAL: Final = "desired_goal"
"""The parts of observations of goal environments that hindsight replaces, by their names in Gymnasium-Robotics."""
State: TypeAlias = "Mapping[str, Any]"
"""Result of ``state_dict``: strings to arrays, JSON values or further such mappings, never pickled objects."""


class Modes:
    """The modes in which a ``model_fn`` is called."""

    TRAIN: Final = "train"
    EVAL: Final = "eval"
    PREDICT: Final = "predict"


@dataclasses.dataclass(frozen=True)
class ArraySpec:
    """Shape (without the batch axis) and dtype of one array."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]

    def __init__(self, shape: tuple[int, ...], dtype: DTypeLike) -> None:
        object.__setattr__(self, "shape", tuple(int(n) for n in shape))
        object.__setattr__(self, "dtype", np.dtype(dtype))

    @property
    def nbytes(self) -> int:
        """Bytes of one item."""
        return math.prod(self.shape) * self.dtype.itemsize


SpecTree: TypeAlias = "ArraySpec | Mapping[str, ArraySpec]"
"""The spec of an :data:`ArrayTree`."""


@dataclasses.dataclass(frozen=True)
class RunConfig:
    """Settings of a run that belong neither to the model nor to the memory.

    Args:
        seed: seed of the whole run, ``0 <= seed < 2**63``. ``None`` draws one, which is stored in ``model_dir``.
        save_checkpoints_secs: seconds between checkpoints; ``None`` disables checkpoints by time.
        save_checkpoints_steps: updates (``global_step``) between checkpoints.
        save_checkpoints_episodes: finished episodes between checkpoints.
        save_checkpoints_at_evaluations: also write a checkpoint at each evaluation during training, with the policy
            that was evaluated; not if the caller owns the loop (``Agent.interact``), as that would cut its episodes.
        keep_checkpoint_max: number of the newest checkpoints to keep.
        keep_checkpoint_every_n_hours: hours between checkpoints that are kept permanently, in addition to the newest
            ones; ``None`` keeps none.
        save_summary_steps: updates between summaries of loss and metrics.
        progress: show the progress of a training: a bar on a terminal, a line every few seconds elsewhere.
        runtime: executor of actor and learner: ``"tensorflow"``, ``"litert"`` (an error if unsupported), or ``"auto"``
            (LiteRT for small programs that convert, by a rule on ops and shapes). Fixed when a run starts.
        cache: which programs are cached, so that later runs load no TensorFlow: those of ``"built-in"`` models; with
            ``"source"`` also those of your own code, where edits of the functions and constants that it uses are
            detected, but not of files that it reads or packages that it imports; or none, ``"off"``.
        observation_space: one environment's observation space; set by the Agent before it calls ``model_fn``.
        action_space: one environment's action space; also set by the Agent.

    Raises:
        ArgumentError: a value is invalid.
    """

    seed: int | None = None
    save_checkpoints_secs: float | None = 600
    save_checkpoints_steps: int | None = None
    save_checkpoints_episodes: int | None = None
    save_checkpoints_at_evaluations: bool = True
    keep_checkpoint_max: int = 5
    keep_checkpoint_every_n_hours: float | None = None
    save_summary_steps: int = 100
    progress: bool = True
    runtime: str = "auto"
    cache: str = "built-in"
    observation_space: gymnasium.Space[Any] | None = None
    action_space: gymnasium.Space[Any] | None = None

    def __post_init__(self) -> None:
        seed: Any = self.seed
        if seed is not None and (
            isinstance(seed, bool) or not isinstance(seed, int | np.integer) or not 0 <= seed < 2**63
        ):
            message = f"RunConfig.seed must be an integer in 0 .. 2**63 - 1 or None, got {seed!r}"
            raise ArgumentError(message, "RunConfig.seed", seed)
        for name in ("save_checkpoints_secs", "keep_checkpoint_every_n_hours"):
            if getattr(self, name) is not None:
                number(f"RunConfig.{name}", getattr(self, name), above=0)
        for name in ("save_checkpoints_steps", "save_checkpoints_episodes"):
            if getattr(self, name) is not None:
                object.__setattr__(self, name, count(f"RunConfig.{name}", getattr(self, name)))
        for name in ("keep_checkpoint_max", "save_summary_steps"):
            object.__setattr__(self, name, count(f"RunConfig.{name}", getattr(self, name)))
        for name in ("save_checkpoints_at_evaluations", "progress"):
            object.__setattr__(self, name, flag(f"RunConfig.{name}", getattr(self, name)))
        choice("RunConfig.runtime", self.runtime, RUNTIMES)
        choice("RunConfig.cache", self.cache, CACHES)


RUNTIMES: Final = ("auto", "tensorflow", "litert")
CACHES: Final = ("built-in", "source", "off")


class ClusterLike(Protocol):
    """Runs a training on several processes for ``Agent.train``."""

    def train(self, trainer: Any, model: Any, env: Any, hooks: Any, schedule: Any, goal: Any) -> None:
        """Train; the arguments are the Agent's trainer and model, and what ``Agent.train`` was given."""


@runtime_checkable
class Exploration(Protocol):
    """The behaviour policy: turns a model's predictions into actions. NumPy, on the host.

    Optional methods: ``reset(mask)`` (``mask`` bool [N]: environments that start an episode), ``level(timestep) ->
    float`` (amount of exploration, for reports: epsilon, a standard deviation), ``state_dict()`` with
    ``load_state_dict(state)``, ``act_for(predictions, timestep, rng, lanes)`` (a call for some of the environments, of
    policies with ``reset``: row k of the predictions and of the result belongs to ``lanes[k]``), and, with an
    attribute ``over = "run"``, ``follow(progress)`` (called before each action with the run's progress, in 0 .. 1).
    """

    def __call__(
        self, predictions: Mapping[str, Any], timestep: int, rng: np.random.Generator
    ) -> tuple[Any, Mapping[str, Array]]:
        """Choose actions.

        Args:
            predictions: the PREDICT spec's predictions as arrays [N, ...]; ``predictions["action"]`` is greedy, and a
                dictionary of arrays for a Dict or a Tuple action space.
            timestep: ``global_timestep`` before this step.
            rng: the run's generator for exploration, the only permitted source of randomness.

        Returns:
            actions [N, ...] in the environment's units, laid out as ``predictions["action"]``, and extras: arrays
            [N, ...] that ``EstimatorSpec.record`` may name.
        """
        ...


def check_exploration(argument: str, exploration: object) -> None:
    """Raise ``ArgumentError`` for an object that is no behaviour policy; names the argument."""
    kind = exploration.__name__ if isinstance(exploration, type) else type(exploration).__name__
    if isinstance(exploration, type):
        problem = f"takes an instance: got the class {kind}, expected {kind}(...)"
    elif not callable(exploration):
        problem = f"must be an Exploration, got {exploration!r}"
    elif hasattr(exploration, "state_dict") != hasattr(exploration, "load_state_dict"):
        problem = f"must have both state_dict() and load_state_dict(state), or neither; {kind} has one of them"
    else:
        return
    raise ArgumentError(f"{argument} {problem}", argument, exploration)


@dataclasses.dataclass(frozen=True)
class EstimatorSpec:
    """The result of a ``model_fn``.

    Args:
        mode: the mode in which the function was called.
        predictions: name to tensor [B, ...]; required in PREDICT. ``predictions["action"]`` is the greedy action in
            the environment's units. For a Dict or a Tuple space it is a mapping: the keys of nested spaces are joined
            by ``/``, the items of a Tuple are called ``"0"``, ``"1"``, ...
        loss: scalar tensor; required in TRAIN and EVAL.
        train_op: operation or tensor to run; may be omitted when the trace assigns variables (a Keras optimizer's
            ``apply`` does).
        metrics: name to scalar tensor, for hooks (entropy, KL, Q values).
        eval_metric_ops: name to scalar tensor, for EVAL.
        exploration: the behaviour policy, read from the PREDICT spec; ``None`` acts greedily.
        record: names of predictions or exploration extras to store with each transition; from the PREDICT spec.
        td_error: float [B] (rollouts [T, N]), one per transition; passed to ``memory.update_priorities``.
        state: recurrent state, name to tensor [B, ...]. Without ``features["state"]`` it declares names, shapes and
            dtypes (episodes start with zeros); otherwise it is the next state.
        training_hooks: hooks added to ``train``; from the TRAIN spec.
        evaluation_hooks: hooks added to ``evaluate``; from the PREDICT spec.

    Raises:
        ArgumentError: a field is invalid, or missing in this mode.
    """

    mode: str
    predictions: Mapping[str, Any] | None = None
    loss: Any = None
    train_op: Any = None
    metrics: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    eval_metric_ops: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    exploration: Exploration | None = None
    record: tuple[str, ...] = ()
    td_error: Any = None
    state: Mapping[str, Any] | None = None
    training_hooks: tuple[Any, ...] = ()
    evaluation_hooks: tuple[Any, ...] = ()
    export_outputs: dataclasses.InitVar[Any] = dataclasses.field(default=None, kw_only=True)

    def __post_init__(self, export_outputs: Any) -> None:
        if export_outputs is not None:  # of TensorFlow's Estimators
            message = "EstimatorSpec takes no export_outputs: use Agent.export(directory), which offers all predictions"
            raise ArgumentError(message, "EstimatorSpec.export_outputs", export_outputs)
        choice("EstimatorSpec.mode", self.mode, (Modes.TRAIN, Modes.EVAL, Modes.PREDICT))
        record: object = self.record
        if isinstance(record, str):  # an easy mistake: ("log_prob") is a string
            self._refuse("record", f"must be a tuple of names, got the string {record!r}")
        for name in ("record", "training_hooks", "evaluation_hooks"):
            value = getattr(self, name)
            if not isinstance(value, Sequence):
                self._refuse(name, f"must be a tuple, got {value!r}")
            object.__setattr__(self, name, tuple(value))
        if self.exploration is not None:
            check_exploration("EstimatorSpec.exploration", self.exploration)
        if self.training_hooks and self.mode == Modes.PREDICT:
            self._refuse("training_hooks", "belong to the TRAIN spec, got some in mode 'predict'")
        if self.evaluation_hooks and self.mode == Modes.TRAIN:
            self._refuse("evaluation_hooks", "belong to the PREDICT spec, got some in mode 'train'")
        if self.mode == Modes.PREDICT and not isinstance(self.predictions, Mapping):
            given = type(self.predictions).__name__
            message = f"EstimatorSpec(mode='predict') needs predictions, a mapping of names to tensors; got {given}"
            raise ArgumentError(message, "EstimatorSpec.predictions", self.predictions)
        if self.mode in (Modes.TRAIN, Modes.EVAL) and self.loss is None:
            message = f"EstimatorSpec(mode={self.mode!r}) needs a loss, a scalar tensor; got None"
            raise ArgumentError(message, "EstimatorSpec.loss", None)

    def _refuse(self, field: str, problem: str) -> NoReturn:
        raise ArgumentError(f"EstimatorSpec.{field} {problem}", f"EstimatorSpec.{field}", getattr(self, field))


ModelFn: TypeAlias = Callable[..., EstimatorSpec]
Episode: TypeAlias = Mapping[str, ArrayTree]
"""The transitions of one episode: ``observation, action, reward, terminated, truncated, next_observation`` [T, ...]."""


class EnvironmentView(Protocol):
    """The view that a memory has of the environment that fills it."""

    observation_space: gymnasium.Space[Any]
    action_space: gymnasium.Space[Any]

    def method(self, name: str) -> Callable[..., Any] | None:
        """The environment's method of that name; None if it has none, or if a caller owns the loop."""

    def episodes(self, data: str | Iterable[Episode], name: str = "episodes") -> Iterator[Episode]:
        """Episodes from a file, or a caller's called ``name``, checked against the spaces; ArgumentError if unfit."""


@runtime_checkable
class Memory(Protocol):
    """Storage of transitions. The Agent uses only these methods and attributes.

    A *lane* is one stream of experience: an environment, or a caller's own. Observations given to ``step`` and
    ``extend`` are not changed afterwards. A transition continues the episode of the previous one in its lane if its
    ``observation`` equals that one's ``next_observation``, and that one neither terminated nor was truncated; otherwise
    it begins a new episode, and n-step returns and rollouts do not cross this boundary. A single environment passes the
    same array object if the episode continues, which saves the comparison. Lanes whose row of ``mask`` is False do not
    change: lanes may advance at different rates.

    ``specs`` maps each transition key (``observation, action, reward, terminated, truncated, next_observation`` and
    the recorded ones) to the :data:`SpecTree` of one environment's value. For a Dict observation the value is a
    dictionary of arrays. Nothing that spans several timesteps mixes lanes.

    An optional method, used where present: ``trust_identity()``, called once after ``build`` by a caller that does not
    change an array after storing it, except when an episode has ended. Within an episode, an ``observation`` that is
    the very object of the last ``next_observation`` is then unchanged. Without this call nothing follows from identity.

    Further optional methods, used where present. ``place_in(folder)`` is called before ``build`` and names the run
    folder, for files of the memory's own. ``trial_copy()`` returns a memory with the same settings that is not built
    and has no such files, to inspect a batch; without it, ``copy.deepcopy`` makes that memory. ``cut()`` ends all
    episodes: the next transition of each lane begins one, even if its observation is the last ``next_observation``.

    A checkpoint is written before the memory changes again. For a checkpoint, inside
    :func:`axonrl.core.chunked_arrays.as_views`, ``state_dict`` may return views of arrays, and a
    :class:`axonrl.core.chunked_arrays.Stream` for items that never change once stored: the checkpoint writes only the
    new ones. :func:`axonrl.core.chunked_arrays.kept` returns a view there and a copy elsewhere. ``load_state_dict``
    then gets streams that read from the checkpoint's files.

    Another optional method: ``use_environment(view)``, called before ``build``, and again for each further environment,
    with an :class:`EnvironmentView`. For memories that query the environment, for instance for the rewards of other
    goals.

    An optional attribute: ``needs_td_error``. If true, a model whose TRAIN spec has no ``td_error`` is refused.
    """

    batch_size: int
    is_rollout: bool

    def build(self, specs: Mapping[str, SpecTree], num_envs: int, rng: np.random.Generator) -> None:
        """Allocate; called once, before training. ``ValueError`` with the number of bytes if it does not fit."""

    def step(self, **transition: Any) -> None:
        """Store one transition of the only environment; values without a batch axis, which may change afterwards."""

    def extend(self, mask: Array | None = None, /, **batch: Any) -> None:
        """Store one vector step; row i is environment i. Where ``mask`` [N] is False nothing is stored in that lane."""

    def can_sample(self, count: int | None = None) -> bool:
        """Whether ``count`` stored timesteps would fill a batch; ``None`` for those stored now."""

    def sample(self) -> Mapping[str, ArrayTree]:
        """A batch: the transition keys, ``discount`` (gamma to the n; 0 on termination), and perhaps ``weight``."""

    def update_priorities(self, td_error: Array) -> None:
        """Take the TD errors [B] of the batch sampled last; they may be negative."""

    def clear(self) -> None:
        """Forget every transition."""

    def __len__(self) -> int: ...

    def state_dict(self) -> State:
        """Everything needed to continue exactly, without the generator (the Agent saves that)."""

    def load_state_dict(self, state: State) -> None:
        """Restore what ``state_dict`` returned."""
