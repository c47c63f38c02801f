"""One process of a run that may be killed: ``python -m axonrl.benchmarks.resuming.child sb3 FOLDER [KIND NUMBER]``.

It begins a run in ``FOLDER``, or continues the one that is there, and writes what it holds to ``loaded.npz`` (after
loading a checkpoint), ``saved-<timestep>.npz`` (at each checkpoint) and ``end.npz``. With ``timestep NUMBER`` it ends
itself by SIGKILL in that call of the environment's ``step``. With ``write NUMBER`` it ends while it writes a
checkpoint: counting each file or folder there that it opens for writing, makes, renames or removes, in the middle of
that file (by SIGXFSZ, the system's limit of file sizes) or before the next change (by SIGKILL).
"""

from __future__ import annotations

import importlib
import json
import os
import resource
import signal
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import gymnasium
import numpy as np

from .. import settings
from ..settings import Array

TIMESTEPS: Final = 3_000
EVERY: Final = 500
"""Timesteps between two checkpoints."""
UPDATE_FREQUENCY: Final = 4
EPSILON_TIMESTEPS: Final = TIMESTEPS // 2
MEMORY_SIZE: Final = 2_000
"""The oldest transitions are overwritten before the end."""
SEED: Final = 0
CURVE: Final = "curve.csv"
CUT_BYTES: Final = 1_000
"""Bytes of a file that was cut in the middle."""
CHANGES: Final = frozenset({"os.mkdir", "os.rename", "os.remove", "os.rmdir"})
"""Audit events of changes of files and folders, beside opening a file for writing."""

Parts = dict[str, Any]
"""Parts of a run: weights, memory, counters, generators, environment, curve; each a tree of arrays and JSON."""


def flat(tree: Any, name: str = "") -> dict[str, Array]:
    """A tree of arrays and JSON values as arrays by path; other values become their JSON, as bytes."""
    if isinstance(tree, Mapping):
        children = [(str(key), value) for key, value in tree.items()]
    elif isinstance(tree, list | tuple) and any(isinstance(one, Mapping | list | tuple | np.ndarray) for one in tree):
        children = [(str(index), value) for index, value in enumerate(tree)]
    else:
        array = np.asarray(tree) if not isinstance(tree, str) and tree is not None else None
        if array is None or array.dtype == object:
            array = np.frombuffer(json.dumps(tree, default=str).encode(), np.uint8)
        return {name: array}
    found: dict[str, Array] = {}
    for key, value in children:
        found |= flat(value, f"{name}/{key}" if name else key)
    return found


def as_numpy(tree: Any) -> Any:
    """A tree with copies of torch's tensors as arrays."""
    if hasattr(tree, "detach") and hasattr(tree, "numpy"):
        return tree.detach().cpu().numpy().copy()
    if isinstance(tree, Mapping):
        return {key: as_numpy(value) for key, value in tree.items()}
    return [as_numpy(value) for value in tree] if isinstance(tree, list) else tree


def write(path: Path, parts: Parts) -> None:
    """Write the parts of a run."""
    arrays: dict[str, Any] = flat(parts)
    with path.open("wb") as file:
        np.savez(file, **arrays)


class Watched(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Notes the return of every episode, and kills the process in a given timestep.

    Args:
        env: the environment.
        folder: where the returns go, one line each with the timestep of the run.
        first: timesteps of the run before this process.
        fatal: the timestep in which to kill; None for never.
    """

    def __init__(self, env: Any, folder: Path, first: int, fatal: int | None) -> None:
        super().__init__(env)
        lines = [line for line in curve_in(folder) if line[0] <= first]
        self._curve = (folder / CURVE).open("w", encoding="utf-8")
        self._timestep, self._return, self._fatal = first, 0.0, fatal
        for timestep, episode_return in lines:
            self._note(timestep, episode_return)

    def _note(self, timestep: float, episode_return: float) -> None:
        print(int(timestep), episode_return, sep=",", file=self._curve, flush=True)

    def reset(self, **given: Any) -> Any:
        self._return = 0.0
        return self.env.reset(**given)

    def step(self, action: Any) -> Any:
        self._timestep += 1
        if self._timestep == self._fatal:
            kill()
        found = self.env.step(action)
        self._return += float(found[1])
        if found[2] or found[3]:
            self._note(self._timestep, self._return)
        return found

    def close(self) -> None:
        self._curve.close()
        self.env.close()


def curve_in(folder: Path) -> list[tuple[float, float]]:
    """Timestep and return of each finished episode that was noted."""
    path = folder / CURVE
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    return [(float(line.split(",")[0]), float(line.split(",")[1])) for line in lines]


def environment(folder: Path, first: int, fatal: int | None) -> Any:
    """CartPole, watched."""
    return Watched(settings.cartpole(), folder, first, fatal)


def standing(env: Any) -> Parts:
    """State of an environment: its physics, its timesteps, its generator."""
    state = env.unwrapped.state
    elapsed = env.get_wrapper_attr("_elapsed_steps")
    generator = env.unwrapped.np_random.bit_generator.state
    return {
        "physics": None if state is None else np.asarray(state),
        "timestep": 0 if elapsed is None else elapsed,
        "generator": generator,
    }


def kill() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def count_changes(checkpoints: Path, fatal: int | None) -> list[int]:
    """Count changes of files and folders below ``checkpoints``, and end in the middle of one of them."""
    count, below = [0], str(checkpoints)

    def audit(event: str, arguments: tuple[Any, ...]) -> None:
        if event == "open":
            changes = isinstance(arguments[1], str) and any(letter in arguments[1] for letter in "wax+")
            changes |= arguments[1] is None and bool(arguments[2] & (os.O_WRONLY | os.O_RDWR))
        else:
            changes = event in CHANGES
        if not changes or not str(arguments[0]).startswith(below):
            return
        count[0] += 1
        if count[0] == fatal:
            signal.signal(signal.SIGXFSZ, signal.SIG_DFL)  # Python ignores it
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            resource.setrlimit(resource.RLIMIT_FSIZE, (CUT_BYTES, CUT_BYTES))
        elif fatal is not None and count[0] > fatal:
            kill()

    sys.addaudithook(audit)
    return count


def main(arguments: Sequence[str]) -> None:
    library, place, *fatal = arguments
    folder = Path(place)
    checkpoints = folder / "checkpoints"
    kind, number = (fatal[0], int(fatal[1])) if fatal else ("", None)
    count = count_changes(checkpoints, number if kind == "write" else None)
    module = importlib.import_module(f".{library}", __package__)
    found = module.run(folder, checkpoints, number if kind == "timestep" else None)
    print(json.dumps({"writes": count[0], **found}), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
