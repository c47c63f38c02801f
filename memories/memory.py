"""Memory: the base of every memory. It stores transitions; a subclass decides what a batch of them is."""

from __future__ import annotations

import abc
import copy
import math
import operator
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from ..core import checks
from ..core.checks import count, number
from ..core.errors import ArgumentError
from ..core.protocols import Array, ArrayTree, SpecTree, State
from ..core.trees import map_tree
from . import columns
from .frames import FrameRing, Stack
from .mapped import checked_path, files_in, sparse
from .ring import Ring

_ONE = np.ones((), np.float32)  # an array takes half the time of a Python number in arithmetic on a small batch


class Memory(abc.ABC):
    """A ring of the newest ``size`` transitions, in contiguous arrays with the spaces' dtypes.

    A subclass inherits storage, counts and checkpoints, and defines a batch::

        class NewestMemory(Memory):
            '''The newest transitions, oldest first.'''

            def sample(self):
                return self.gather(np.arange(len(self) - self.batch_size, len(self)))

    Each environment is a *lane*, a stream of experience with its own ``size`` / N places. Lanes may be written at
    different rates (see the mask of :meth:`extend`), and nothing that spans several timesteps mixes them.

    Every observation is stored once, and is also the next observation of the previous transition. The start of an
    episode takes one more place, in all lanes that have always been written together. If large observations and short
    episodes need more than an eighth of additional places, the oldest timesteps are dropped before ``size`` is reached.

    A transition whose episode did not end, but whose next observation does not follow, becomes truncated: how its
    episode continued is unknown. Observations are compared byte for byte; see :meth:`trust_identity`.

    With ``frame_stack`` = k observations are stacks of the last k frames (for example from the wrapper
    ``frame_stack``), and every *frame* is stored once, in about a k-th of the memory. A stack that does not continue
    the previous one, such as the first of an episode, is stored whole: batches are the same bit for bit, and frames
    stacked in another way only need more memory. If 64 MiB do not hold enough spare frames, and episodes are shorter
    than 8 k timesteps on average, the oldest timesteps are dropped before ``size`` is reached.

    Args:
        size: transitions kept; a multiple of the number of environments.
        batch_size: transitions in a batch.
        discount: discount factor gamma, in 0 .. 1.
        frame_stack: frames in an observation, along its first or last axis, whichever has this size. If both have it:
            the last axis (channels) of an image with three axes, otherwise the first. None: observations are stored
            whole.
        path: a folder for the arrays, in files mapped into the process, for memories larger than the RAM. A relative
            path is below the run folder of the Agent that trains with the memory, else below the current folder. None:
            the arrays are in RAM.

    Raises:
        ArgumentError: an argument is out of range.
    """

    is_rollout = False
    """Whether a batch is the whole memory, sampled when it is full and then cleared."""
    _settings: ClassVar[tuple[str, ...]] = ("size", "num_envs", "batch_size", "discount", "frame_stack")
    """Attributes in which a saved memory must equal the one that loads it."""

    def __init__(
        self,
        size: int,
        batch_size: int,
        *,
        discount: float = 0.99,
        frame_stack: int | None = None,
        path: str | os.PathLike[str] | None = None,
    ) -> None:
        self.size = count("size", size)
        self.batch_size = count("batch_size", batch_size)
        if self.batch_size > self.size:
            message = f"batch_size must be at most size, got batch_size={batch_size} and size={size}"
            raise ArgumentError(message, "batch_size", batch_size)
        self.discount = number("discount", discount, at_least=0, at_most=1)
        self.frame_stack = None if frame_stack is None else count("frame_stack", frame_stack)
        self.path = None if path is None else checked_path(path)
        self._folder, self._is_trial = Path(), False
        self._gamma = np.array(self.discount, np.float32)
        self.num_envs = 0  # not built

    def build(self, specs: Mapping[str, SpecTree], num_envs: int, rng: np.random.Generator) -> None:
        """Allocate the arrays. Called once; physical memory is used only as transitions are stored.

        Args:
            specs: key to spec of one environment's value, without a batch axis: ``observation``, ``action``,
                ``reward``, ``terminated``, ``truncated``, ``next_observation``, and other recorded keys.
            num_envs: environments, N.
            rng: the generator that sampling draws from. It belongs to the caller, and is not in the state.

        Raises:
            ArgumentError: the specs cannot be stored, ``size`` is not a multiple of ``num_envs``, observations are not
                stacks of ``frame_stack`` frames, the machine has less memory (or the disk less space) than this needs,
                or the folder ``path`` cannot be used.
            RuntimeError: the memory is already built.
        """
        if self.num_envs:
            raise RuntimeError("this memory is already built; every Agent needs its own memory")
        needed, plan = self.nbytes_for(specs, num_envs), self._plan(specs, num_envs)
        needed -= 0 if self.path is None else plan.nbytes
        if (available := checks.physical_memory()) is not None and needed > available:
            raise self._too_large(
                f"needs {needed:,} bytes, this machine has {available:,}; choose a size below"
                f" {self.size * available // needed:,}, or smaller observations"
            )
        zeros: columns.Zeros = columns.in_memory
        if self.path is not None:
            zeros = sparse if self._is_trial else files_in((self._folder / self.path).absolute(), plan.nbytes)
        self._ring = self._allocate(columns.checked_specs(specs), self.size // num_envs, num_envs, zeros)
        self.rng = rng
        self.num_envs = num_envs

    def nbytes_for(self, specs: Mapping[str, SpecTree], num_envs: int) -> int:
        """``nbytes`` after :meth:`build` with these arguments; nothing is allocated.

        Raises:
            ArgumentError: as for :meth:`build`, but not for too little memory or space, or the folder.
        """
        return self._plan(specs, num_envs).nbytes

    def place_in(self, folder: str | os.PathLike[str]) -> None:
        """Set the folder of a relative ``path``; call before :meth:`build`."""
        self._folder = Path(folder)

    def trial_copy(self) -> Memory:
        """A memory with the same settings that is not built and does not touch ``path``, to inspect a batch."""
        copied = copy.deepcopy(self)
        vars(copied).update(_is_trial=True)
        return copied

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        """Copy an unbuilt memory; in a built one, arrays that are views of one another would become independent."""
        if self.num_envs:
            raise TypeError("it is already built")
        copied = memo[id(self)] = copy.copy(self)
        vars(copied).update(copy.deepcopy(vars(self), memo))
        return copied

    def step(self, **transition: Any) -> None:
        """Store one transition of the only environment.

        Args:
            **transition: a value for each key of the specs, without a batch axis.

        Raises:
            KeyError: a key is missing or unexpected.
            ArgumentError: a value has the wrong shape or cannot be held by the dtype of its spec (1.5 in an int32).
            ValueError: there are several environments.
            RuntimeError: the memory is not built.
        """
        if self.num_envs != 1:
            self._require_built()
            raise ValueError(f"step stores the transition of one environment; with {self.num_envs} use extend")
        self._ring.step(transition)

    def extend(self, mask: Array | None = None, /, **batch: Any) -> None:
        """Store one timestep of several lanes.

        Args:
            mask: bool [N]; lanes with False do not change. None: all are True.
            **batch: for each key of the specs an array [N, ...]; row i is environment i.

        Raises:
            KeyError: a key is missing or unexpected.
            ArgumentError: as for :meth:`step`, or the mask has the wrong shape or dtype.
            RuntimeError: the memory is not built.
        """
        self._require_built()
        self._ring.extend(batch, mask)

    def cut(self, mask: Array | None = None) -> None:
        """End episodes: the newest timestep of each lane in ``mask`` (None: all) becomes truncated, if not terminated.

        Needed only where another episode may begin with the very same observation; one that differs from the last
        ``next_observation`` ends the episode anyway.
        """
        self._require_built()
        self._ring.cut(mask)

    def trust_identity(self) -> None:
        """Assume in future that an ``observation`` that is the last ``next_observation`` object is unchanged.

        This saves the comparison within an episode. Only for a caller that never writes into an array after storing it,
        except when an episode has ended.
        """
        self._require_built()
        self._ring.trusts_identity = True

    def can_sample(self, count: int | None = None) -> bool:
        """Whether ``count`` stored timesteps would fill a batch; ``None`` for those stored now."""
        if count is None:
            self._require_built()
        return (len(self) if count is None else count) >= self.batch_size

    @abc.abstractmethod
    def sample(self) -> Mapping[str, ArrayTree]:
        """A batch: the keys of the specs, and ``discount`` (gamma; 0 on termination)."""

    def update_priorities(self, td_error: Array) -> None:  # noqa: B027 - not abstract: most memories have none
        """Take the TD errors [B] of the batch sampled last. Does nothing here."""

    def gather(self, index: Array) -> dict[str, ArrayTree]:
        """The transitions with the given indices.

        Args:
            index: integers of any shape [...]; 0 is the oldest transition, ``len(self) - 1`` the newest. First come
                the oldest of all lanes, then the second oldest, and so on; within each, shorter lanes first.

        Returns:
            for every key of the specs, and ``discount``, a new array [..., ...]; reward, terminated, truncated and
            discount are float32, everything else has the dtype of its spec.

        Raises:
            IndexError: there is no such transition.
            RuntimeError: the memory is not built.
        """
        self._require_built()
        index = np.asarray(index, np.intp)
        if index.size and (index.min() < 0 or index.max() >= len(self)):
            raise IndexError(f"index must be in 0 .. {len(self) - 1}, got {index.min()} .. {index.max()}")
        places = self._ring.places(index, 0)
        return self._with_discount(self._ring.gather(places, places))

    def get_by_index(self, index: int) -> dict[str, ArrayTree]:
        """One transition, with the keys and dtypes of a batch: 0 is the oldest, -1 the newest.

        Raises:
            IndexError: there is no such transition.
        """
        self._require_built()
        if not -len(self) <= index < len(self):
            raise IndexError(f"index must be in {-len(self)} .. {len(self) - 1}, got {index}")
        one = self.gather(np.array([index % len(self)]))
        found: dict[str, ArrayTree] = map_tree(lambda values: values[0], one)
        return found

    def contents(self) -> tuple[dict[str, ArrayTree], dict[str, Any]]:
        """All transitions of the only lane, for :meth:`fill` of another memory.

        Returns:
            The keys of the specs, [T, ...], the oldest first; and as JSON values other state that draws depend on.
        """
        found = self.gather(np.arange(len(self)))
        del found["discount"]
        return {**found, **{flag: np.asarray(found[flag]) > 0 for flag in columns.FLAGS}}, {}

    def fill(self, transitions: Mapping[str, ArrayTree], drawing: Mapping[str, Any]) -> None:
        """Store :meth:`contents` of another memory with the same settings in this empty one.

        Raises:
            ArgumentError: a value cannot be stored.
        """
        for k in range(len(np.asarray(transitions["reward"]))):
            self.step(**map_tree(operator.itemgetter(k), transitions))

    def clear(self) -> None:
        """Forget every transition."""
        self._require_built()
        self._ring.clear()

    def __len__(self) -> int:
        return self._ring.stored if self.num_envs else 0

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays. Physical memory is used only as transitions are stored."""
        return self._ring.nbytes if self.num_envs else 0

    def state_dict(self) -> State:
        """Copies of what is stored, without unused places and without the generator.

        For a checkpoint (inside :func:`~axonrl.core.chunked_arrays.as_views`) streams, valid until the memory changes.
        """
        self._require_built()
        return {**{name: getattr(self, name) for name in self._settings}, **self._ring.state_dict()}

    def load_state_dict(self, state: State) -> None:
        """Restore the memory that ``state`` was saved from; both then behave identically.

        Raises:
            ValueError: settings (size, discount, ...), keys, shapes or dtypes differ.
        """
        self._require_built()
        for name in self._settings:
            saved, mine = state.get(name, "nothing"), getattr(self, name)
            if saved != mine:
                raise ValueError(f"the saved memory has {name}={saved}, this one has {name}={mine}")
        self._ring.load_state_dict(state)

    def _plan(self, specs: Mapping[str, SpecTree], num_envs: int) -> Ring:
        """The ring that :meth:`build` would make, without allocating it."""
        stored = columns.checked_specs(specs)
        self._check_num_envs(num_envs)

        def nowhere(name: str, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
            if (nbytes := math.prod(shape) * dtype.itemsize) > checks.INT64_MAX:
                raise self._too_large(f"needs {nbytes:,} bytes for its {name} alone: choose a smaller size")
            return np.broadcast_to(np.zeros((), dtype), shape)

        return self._allocate(stored, self.size // num_envs, num_envs, nowhere)

    def _allocate(self, specs: Mapping[str, SpecTree], timesteps: int, num_envs: int, zeros: columns.Zeros) -> Ring:
        if self.frame_stack is not None:
            stack = Stack.of(specs["observation"], self.frame_stack)
            return FrameRing(specs, stack, timesteps, num_envs, zeros)
        num_rows = timesteps + self._spare_rows(timesteps, num_envs * columns.nbytes(specs["observation"]))
        return Ring(specs, timesteps, num_envs, num_rows, zeros)

    def _spare_rows(self, timesteps: int, row_bytes: int) -> int:
        """Number of rows of observations in addition to one per timestep."""
        return Ring.spare_rows(timesteps, row_bytes)

    def _with_discount(self, batch: dict[str, ArrayTree]) -> dict[str, ArrayTree]:
        """Add ``discount``: gamma, and 0 on termination; where an episode was truncated it stays gamma."""
        batch["discount"] = self._gamma * (_ONE - batch["terminated"])  # type: ignore[operator] # an array, never a dict
        return batch

    def _check_num_envs(self, num_envs: int) -> None:
        if self.size % count("num_envs", num_envs):
            below = self.size // num_envs * num_envs
            nearest = f"{below} and {below + num_envs} are" if below else f"{num_envs} is"
            message = f"size must be a multiple of the number of environments, got size={self.size} with {num_envs}"
            raise ArgumentError(f"{message} environments; {nearest}", "size", self.size)

    def _too_large(self, message: str) -> ArgumentError:
        return ArgumentError(f"{type(self).__name__}(size={self.size}) {message}", "size", self.size)

    def _require_built(self) -> None:
        if not self.num_envs:
            raise RuntimeError("this memory is not built: call build(specs, num_envs, rng) first")
