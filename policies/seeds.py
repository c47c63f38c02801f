"""Initial weights for additional seeds, made by another process: this one loads no TensorFlow."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from ..core.checks import integer, shortened
from ..core.errors import ArgumentError
from . import compiled

_MAX_SEED: Final = 2**63 - 1
"""Maximum for ``RunConfig``."""


def add_seeds(directory: str | Path, seeds: Iterable[int]) -> None:
    """Write initial weights for additional seeds into a compiled program's directory; existing ones are kept.

    They equal those of tracing, bit for bit. A process with TensorFlow runs the initialisers: about 4 s to start, then
    milliseconds per seed. A program of a built-in model has the weights of every seed, so nothing is written. If the
    directory has no ``initial.pb``, because an initial value is not drawn by Keras's initialisers, the process imports
    and calls the ``model_fn``: up to a second per seed.

    Several processes may add seeds at the same time.

    Args:
        directory: written by ``Agent.compile``.
        seeds: seeds of runs.

    Raises:
        ValueError: the directory is damaged, a seed is not an integer of at least 0, or the process failed; says why.
    """
    program = compiled.read(directory)
    missing = [seed for seed in checked_seeds(seeds) if not program.has_seed(seed)]
    if not missing:
        return
    # With the same import path, as the model function may be the user's own.
    code = f"import sys; sys.path[:] = {sys.path}; from axonrl.estimators.compilation import main; sys.exit(main())"
    task = json.dumps({"directory": str(directory), "seeds": missing})
    ran = subprocess.run([sys.executable, "-c", code], input=task, capture_output=True, text=True, check=False)
    if ran.returncode:
        why = ran.stdout.strip() or ran.stderr.strip().rpartition("\n")[2] or f"it ended with {ran.returncode}"
        raise ValueError(f"the process that makes initial weights for {directory} failed: {why}")


def checked_seeds(seeds: Iterable[int]) -> list[int]:
    """Check and sort seeds of runs.

    Raises:
        ArgumentError: they are not a collection, there are none, or ``RunConfig.seed`` cannot take one.
    """
    if isinstance(seeds, str | bytes) or not isinstance(seeds, Iterable):
        raise ArgumentError(
            f"seeds must be a collection of integers, such as [3] or range(8), got {seeds!r}", "seeds", seeds
        )
    checked = sorted({integer("seeds", seed, at_least=0) for seed in seeds})
    if not checked:
        raise ArgumentError("seeds must have at least one seed", "seeds", seeds)
    if checked[-1] > _MAX_SEED:
        raise ArgumentError(f"seeds must be at most 2**63 - 1, got {shortened(checked[-1])}", "seeds", seeds)
    return checked
