"""Memory: the base of every memory. It stores transitions; a kind of memory decides what a batch of them is."""

from __future__ import annotations

import abc
import copy
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from ..checks import count, number
from ..contracts import Array, ArrayTree, SpecTree, State
from . import columns
from .frames import FrameRing, Stack
from .ring import Ring

_ONE = np.ones((), np.float32)  # an array is half the work of a Python number for arithmetic on a small batch


class Memory(abc.ABC):
    """A ring of the newest ``size`` transitions, in contiguous arrays of the spaces' dtypes.

    A memory of your own inherits all of the storing, counting and saving, and says what a batch is::

        class NewestMemory(Memory):
            '''The newest transitions, oldest first.'''

            def sample(self):
                return self.gather(np.arange(len(self) - self.batch_size, len(self)))

    Every observation is stored once, not again as the next observation of the transition before. An episode that
    begins, in any of the environments, takes a place more in all of them. Should that happen so often, and observations
    be so large, that an eighth more places than timesteps are not enough, the oldest timesteps go before ``size`` is
    reached.

    A transition that is not followed by its next observation, although its episode did not end, counts as truncated:
    nobody knows how its episode went on.

    With ``frame_stack`` = k every *frame* is stored once, in about a k-th of the memory, where observations are stacks
    of the last k frames (of the wrapper ``frame_stack``, say). A stack that does not go on from the one before, such
    as the first of an episode, is stored whole. So batches are the same bit for bit, and frames that are not stacked
    in this way only need more memory. With frames too large to have many to spare (64 MiB of them), the oldest
    timesteps go before ``size`` is reached if episodes are shorter than 8 k timesteps on average.

    Args:
        size: transitions kept; a multiple of the number of environments.
        batch_size: transitions in a batch.
        discount: gamma, in 0 .. 1.
        frame_stack: frames in an observation, along its first or last axis: the one that has this size. Where both
            have, it is the last of an image's three axes (channels), else the first. None: observations are stored
            whole.

    Raises:
        ValueError: an argument is out of range.
    """

    fills_and_empties = False
    """Is the memory to be sampled when it is full, and then cleared?"""
    _settings: ClassVar[tuple[str, ...]] = ("size", "num_envs", "batch_size", "discount", "frame_stack")
    """What a saved memory must have in common with the one that goes on with it."""

    def __init__(self, size: int, batch_size: int, *, discount: float = 0.99, frame_stack: int | None = None) -> None:
        self.size = count("size", size)
        self.batch_size = count("batch_size", batch_size)
        if self.batch_size > self.size:
            raise ValueError(f"batch_size must be at most size, got batch_size={batch_size} and size={size}")
        self.discount = number("discount", discount, at_least=0, at_most=1)
        self.frame_stack = None if frame_stack is None else count("frame_stack", frame_stack)
        self._gamma = np.array(self.discount, np.float32)
        self.num_envs = 0  # not built

    def build(self, specs: Mapping[str, SpecTree], num_envs: int, rng: np.random.Generator) -> None:
        """Allocate the arrays. Runs once; memory is taken from the machine only as transitions come.

        Args:
            specs: key to spec of one environment's value, without a batch axis: ``observation``, ``action``,
                ``reward``, ``terminated``, ``truncated``, ``next_observation``, and what else is recorded.
            num_envs: environments that step together, N.
            rng: the generator that sampling draws from. It belongs to the caller, and is not in the state.

        Raises:
            ValueError: the specs cannot be stored, ``size`` is not a multiple of ``num_envs``, observations are no
                stacks of ``frame_stack`` frames, or the machine has less memory than this needs.
            RuntimeError: the memory is built already.
        """
        if self.num_envs:
            raise RuntimeError("this memory is built already; every Agent needs a memory of its own")
        stored = columns.checked_specs(specs)
        self._check_num_envs(num_envs)
        self._ring = self._allocate(stored, self.size // num_envs, num_envs)
        self.rng = rng
        self.num_envs = num_envs

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        """Only before it is built: of arrays that are views of one another, copies would not be."""
        if self.num_envs:
            raise TypeError("it is built already")
        copied = memo[id(self)] = copy.copy(self)
        vars(copied).update(copy.deepcopy(vars(self), memo))
        return copied

    def step(self, **transition: Any) -> None:
        """Store one transition of the only environment.

        Args:
            **transition: a value for each key of the specs, without a batch axis.

        Raises:
            KeyError: a key is missing or not expected.
            ValueError: a value has the wrong shape, or there are several environments.
        """
        if self.num_envs != 1:
            self._require_built()
            raise ValueError(f"step stores the transition of one environment; with {self.num_envs} use extend")
        self._ring.step(transition)

    def extend(self, mask: Array | None = None, /, **batch: Any) -> None:
        """Store one vector step.

        Args:
            mask: bool [N]; where it is False the row is not a transition: it is neither sampled nor counted.
            **batch: for each key of the specs an array [N, ...]; row i is environment i.

        Raises:
            KeyError: a key is missing or not expected.
            ValueError: an array or the mask has the wrong shape.
        """
        self._require_built()
        self._ring.extend(batch, mask)

    def can_sample(self, count: int | None = None) -> bool:
        """Would ``count`` stored timesteps fill a batch? ``None``: do those that are stored now?"""
        return (len(self) if count is None else count) >= self.batch_size

    @abc.abstractmethod
    def sample(self) -> Mapping[str, ArrayTree]:
        """A batch: the keys of the specs, and ``discount`` (gamma; 0 on termination)."""

    def update_priorities(self, td_error: Array) -> None:  # noqa: B027 - not abstract: most memories have none
        """Take the absolute TD errors [B] of the batch sampled last. Here: do nothing."""

    def gather(self, index: Array) -> dict[str, ArrayTree]:
        """The transitions with the given indices.

        Args:
            index: integers of any shape [...]; 0 is the oldest transition, ``len(self) - 1`` the newest.

        Returns:
            for every key of the specs, and ``discount``, an array [..., ...] of its own; reward, terminated,
            truncated and discount are float32, everything else has the dtype of its spec.

        Raises:
            IndexError: there is no such transition.
        """
        self._require_built()
        index = np.asarray(index, np.intp)
        if index.size and (index.min() < 0 or index.max() >= len(self)):
            raise IndexError(f"index must be in 0 .. {len(self) - 1}, got {index.min()} .. {index.max()}")
        ring = self._ring
        places = ring.oldest * ring.num_envs + index
        if ring.num_skipped:
            places = ring.places()[index]
        return self._with_discount(ring.gather(places, places))

    def get_by_index(self, index: int) -> dict[str, ArrayTree]:
        """One transition, with the keys and dtypes of a batch: 0 is the oldest, -1 the newest.

        Raises:
            IndexError: there is no such transition.
        """
        if not -len(self) <= index < len(self):
            raise IndexError(f"index must be in {-len(self)} .. {len(self) - 1}, got {index}")
        one = self.gather(np.array([index % len(self)]))
        return {key: columns.map_tree(lambda values: values[0], value) for key, value in one.items()}

    def clear(self) -> None:
        """Forget every transition."""
        self._require_built()
        self._ring.clear()

    def __len__(self) -> int:
        return len(self._ring) if self.num_envs else 0

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays. The machine provides them only as transitions come."""
        return self._ring.nbytes if self.num_envs else 0

    def state_dict(self) -> State:
        """Copies of what is stored, and nothing of the places that are not used. The generator is not in it."""
        self._require_built()
        return {**{name: getattr(self, name) for name in self._settings}, **self._ring.state_dict()}

    def load_state_dict(self, state: State) -> None:
        """Hold what the memory held that ``state`` was saved from; from here on both do the same.

        Raises:
            ValueError: settings (size, discount, ...), keys, shapes or dtypes differ; names both.
        """
        self._require_built()
        for name in self._settings:
            saved, mine = state.get(name), getattr(self, name)  # states were saved before there was a frame_stack
            if saved != mine:
                raise ValueError(f"the saved memory has {name}={saved}, this one has {name}={mine}")
        self._ring.load_state_dict(state)

    def _allocate(self, specs: Mapping[str, SpecTree], timesteps: int, num_envs: int) -> Ring:
        if self.frame_stack is not None:
            stack = Stack.of(specs["observation"], self.frame_stack)
            self._refuse_if_too_large(FrameRing.bytes_for(specs, stack, timesteps, num_envs))
            return FrameRing(specs, stack, timesteps, num_envs)
        num_rows = timesteps + self._spare_rows(timesteps, num_envs * columns.nbytes(specs["observation"]))
        self._refuse_if_too_large(Ring.needed_bytes(specs, timesteps, num_envs, num_rows))
        return Ring(specs, timesteps, num_envs, num_rows)

    def _spare_rows(self, timesteps: int, row_bytes: int) -> int:
        """Rows of observations beyond one for every timestep."""
        return Ring.spare_rows(timesteps, row_bytes)

    def _with_discount(self, batch: dict[str, ArrayTree]) -> dict[str, ArrayTree]:
        batch["discount"] = self._gamma * (_ONE - batch["terminated"])  # type: ignore[operator] # an array, never a dict
        return batch

    def _check_num_envs(self, num_envs: int) -> None:
        count("num_envs", num_envs)
        if self.size % num_envs:
            below = self.size // num_envs * num_envs
            nearest = f"{below} and {below + num_envs} are" if below else f"{num_envs} is"
            raise ValueError(
                f"size must be a multiple of the number of environments, got size={self.size} with {num_envs}"
                f" environments; {nearest}"
            )

    def _refuse_if_too_large(self, needed: int) -> None:
        available = columns.physical_memory()
        if available is not None and needed > available:
            raise ValueError(
                f"{type(self).__name__}(size={self.size}) needs {needed:,} bytes, this machine has {available:,};"
                f" choose a size below {int(self.size * available / needed):,}, or smaller observations"
            )

    def _require_built(self) -> None:
        if not self.num_envs:
            raise RuntimeError("this memory is not built yet: build(specs, num_envs, rng) comes first")
