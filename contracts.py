"""The contracts between the rooms of axonrl: array types, ``RunConfig``, ``EstimatorSpec``, and two protocols.

Nothing heavy is imported: neither TensorFlow nor Gymnasium. What hooks are handed is in facts.py.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias, runtime_checkable

import numpy as np
from numpy.typing import DTypeLike, NDArray

from .checks import count, number

if TYPE_CHECKING:
    import gymnasium

Array: TypeAlias = NDArray[Any]
"""A NumPy array of any dtype."""
ArrayTree: TypeAlias = "Array | Mapping[str, Array]"
"""One array, or a flat dictionary of arrays (Dict spaces)."""
State: TypeAlias = "Mapping[str, Any]"
"""What ``state_dict`` returns: strings to arrays, JSON values, or further such mappings. Never a pickled object."""


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
        """Bytes that one item takes."""
        return math.prod(self.shape) * self.dtype.itemsize


SpecTree: TypeAlias = "ArraySpec | Mapping[str, ArraySpec]"
"""The spec of an :data:`ArrayTree`."""


@dataclasses.dataclass(frozen=True)
class RunConfig:
    """How a run is run; everything that is neither the model's nor the memory's.

    Args:
        seed: seed of the whole run, ``0 <= seed < 2**63``. ``None`` draws one, which is stored in ``model_dir``.
        save_checkpoints_secs: seconds between checkpoints; ``None`` for never by time.
        save_checkpoints_steps: updates (``global_step``) between checkpoints.
        save_checkpoints_episodes: finished episodes between checkpoints.
        keep_checkpoint_max: how many checkpoints are kept.
        save_summary_steps: updates between two summaries of loss and metrics.
        runtime: what runs actor and learner: ``"tensorflow"``, ``"litert"`` (refused where that cannot), or ``"auto"``
            (LiteRT for what is small and converts, by a rule on ops and shapes). A run keeps what it was begun with.
        observation_space: set by the Agent before ``model_fn`` sees the config: one environment's space.
        action_space: likewise.

    Raises:
        ValueError: a value is out of range; names the field and the value.
    """

    seed: int | None = None
    save_checkpoints_secs: float | None = 600
    save_checkpoints_steps: int | None = None
    save_checkpoints_episodes: int | None = None
    keep_checkpoint_max: int = 5
    save_summary_steps: int = 100
    runtime: str = "auto"
    observation_space: gymnasium.Space[Any] | None = None
    action_space: gymnasium.Space[Any] | None = None

    def __post_init__(self) -> None:
        seed: Any = self.seed
        if seed is not None and (
            isinstance(seed, bool) or not isinstance(seed, int | np.integer) or not 0 <= seed < 2**63
        ):
            raise ValueError(f"RunConfig.seed must be an integer in 0 .. 2**63 - 1 or None, got {seed!r}")
        if self.save_checkpoints_secs is not None:
            number("RunConfig.save_checkpoints_secs", self.save_checkpoints_secs, above=0)
        for name in ("save_checkpoints_steps", "save_checkpoints_episodes"):
            if getattr(self, name) is not None:
                object.__setattr__(self, name, count(f"RunConfig.{name}", getattr(self, name)))
        for name in ("keep_checkpoint_max", "save_summary_steps"):
            object.__setattr__(self, name, count(f"RunConfig.{name}", getattr(self, name)))
        if self.runtime not in RUNTIMES:
            raise ValueError(f"RunConfig.runtime must be one of {', '.join(RUNTIMES)}; got {self.runtime!r}")


RUNTIMES: Final = ("auto", "tensorflow", "litert")


@runtime_checkable
class Exploration(Protocol):
    """The behaviour policy: turns a model's predictions into the actions that are taken. NumPy, on the host.

    Optional methods, used where present: ``reset(mask)`` (``mask`` bool [N]: environments that start an episode),
    ``level(timestep) -> float`` (how much it explores, for reports: epsilon, a standard deviation), and
    ``state_dict() / load_state_dict(state)``.
    """

    def __call__(
        self, predictions: Mapping[str, Array], timestep: int, rng: np.random.Generator
    ) -> tuple[Array, Mapping[str, Array]]:
        """Choose actions.

        Args:
            predictions: the PREDICT spec's predictions as arrays [N, ...]; ``predictions["action"]`` is greedy.
            timestep: ``global_timestep`` before this step.
            rng: the run's generator for exploration; the only source of randomness allowed.

        Returns:
            actions [N, ...] in the environment's units, and extras: arrays [N, ...] that ``EstimatorSpec.record``
            may name.
        """
        ...


@dataclasses.dataclass(frozen=True)
class EstimatorSpec:
    """What a ``model_fn`` returns.

    Args:
        mode: the mode it was called with.
        predictions: name to tensor [B, ...]; required in PREDICT. ``predictions["action"]`` is the greedy action in
            the environment's units.
        loss: scalar tensor; required in TRAIN and EVAL.
        train_op: operation or tensor to run; may be omitted when the trace assigns variables (a Keras optimizer's
            ``apply`` does).
        metrics: name to scalar tensor, for hooks (entropy, KL, Q values).
        eval_metric_ops: name to scalar tensor, for EVAL.
        exploration: the behaviour policy, read from the PREDICT spec; ``None`` acts greedily.
        record: names of predictions or of exploration extras to store with each transition; from the PREDICT spec.
        td_error: floats [B] (of a rollout [T, N]), one for each transition; goes to ``memory.update_priorities``.
        state: recurrent state, name to tensor [B, ...]. Called without ``features["state"]`` it declares names, shapes
            and dtypes (episodes begin with zeros); called with it, it is the next state.
        export_outputs: known from TensorFlow's Estimators, and not used: an export offers all predictions.
        training_hooks: hooks added to ``train``; from the TRAIN spec.
        evaluation_hooks: hooks added to ``evaluate``; from the PREDICT spec.

    Raises:
        ValueError: what the mode requires is missing; names the field.
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
    export_outputs: Mapping[str, Any] | None = None
    training_hooks: tuple[Any, ...] = ()
    evaluation_hooks: tuple[Any, ...] = ()

    def __post_init__(self) -> None:
        modes = (Modes.TRAIN, Modes.EVAL, Modes.PREDICT)
        if self.mode not in modes:
            raise ValueError(f"EstimatorSpec.mode must be one of {', '.join(modes)}; got {self.mode!r}")
        record: object = self.record  # the mistake most easily made: ("log_prob") is a string
        if isinstance(record, str):
            raise ValueError(f"EstimatorSpec.record must be a tuple of names, got the string {record!r}")
        for name in ("record", "training_hooks", "evaluation_hooks"):
            value = getattr(self, name)
            if not isinstance(value, Sequence):
                raise ValueError(f"EstimatorSpec.{name} must be a tuple, got {value!r}")
            object.__setattr__(self, name, tuple(value))
        exploration: object = self.exploration
        if isinstance(exploration, type):
            name = exploration.__name__
            raise ValueError(f"EstimatorSpec.exploration takes an instance: got the class {name}, expected {name}(...)")
        if exploration is not None and not callable(exploration):
            raise ValueError(f"EstimatorSpec.exploration must be an Exploration, got {exploration!r}")
        if self.training_hooks and self.mode == Modes.PREDICT:
            raise ValueError("EstimatorSpec.training_hooks belong to the TRAIN spec, got some in mode 'predict'")
        if self.evaluation_hooks and self.mode == Modes.TRAIN:
            raise ValueError("EstimatorSpec.evaluation_hooks belong to the PREDICT spec, got some in mode 'train'")
        if self.mode == Modes.PREDICT and not isinstance(self.predictions, Mapping):
            raise ValueError(
                f"EstimatorSpec(mode='predict') needs predictions, a mapping of names to tensors;"
                f" got {type(self.predictions).__name__}"
            )
        if self.mode in (Modes.TRAIN, Modes.EVAL) and self.loss is None:
            raise ValueError(f"EstimatorSpec(mode={self.mode!r}) needs a loss, a scalar tensor; got None")


ModelFn: TypeAlias = Callable[..., EstimatorSpec]


@runtime_checkable
class Memory(Protocol):
    """Where transitions are stored. The Agent uses these methods and attributes and no others.

    A *lane* is one stream of experience: an environment, or a caller's own. ``step`` and ``extend`` get observations
    that nobody changes afterwards. In a lane, a transition continues the episode of the one before if its
    ``observation`` equals that one's ``next_observation``, which neither terminated nor was truncated; anything else
    begins another episode, and n-step returns and rollouts do not go across. A single environment hands over the same
    array object then, which saves the comparison. Where the rows of ``mask`` are False nothing happens in these lanes:
    they advance at rates of their own.

    ``specs`` maps each transition key (``observation, action, reward, terminated, truncated, next_observation`` and
    the recorded ones) to the :data:`SpecTree` of one environment's value. For a Dict observation the value is a
    dictionary of arrays.
    """

    batch_size: int
    fills_and_empties: bool

    def build(self, specs: Mapping[str, SpecTree], num_envs: int, rng: np.random.Generator) -> None:
        """Allocate; once, before training. ``ValueError`` with the number of bytes if it cannot fit."""

    def step(self, **transition: Any) -> None:
        """Store one transition of the only environment; values without a batch axis."""

    def extend(self, mask: Array | None = None, /, **batch: Any) -> None:
        """Store one vector step; row i is environment i. Where ``mask`` [N] is False the row is not a transition."""

    def can_sample(self, count: int | None = None) -> bool:
        """Would ``count`` stored timesteps fill a batch? ``None``: do those that are stored now?"""

    def sample(self) -> Mapping[str, ArrayTree]:
        """A batch: the transition keys and ``discount`` (gamma to the n; 0 on termination)."""

    def update_priorities(self, td_error: Array) -> None:
        """The absolute TD errors [B] of the batch sampled last."""

    def clear(self) -> None:
        """Forget every transition."""

    def __len__(self) -> int: ...

    def state_dict(self) -> State:
        """Everything needed to go on exactly, without the generator (the Agent saves that)."""

    def load_state_dict(self, state: State) -> None:
        """Take over what ``state_dict`` returned."""
