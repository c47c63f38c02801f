"""Initial weights for more seeds, from another process: this one loads no TensorFlow."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

from . import compiled


def add_seeds(directory: str | Path, seeds: Iterable[int]) -> None:
    """Write initial weights for more seeds into a compiled program's directory, where there are none for them yet.

    They are those that tracing gives, bit for bit. A process with TensorFlow runs the initialisers: some 4 s to begin
    with, then milliseconds for each seed. Where the directory has no ``initial.pb``, because an initial value is drawn
    in another way than by Keras' initialisers, it calls the ``model_fn`` by its name: up to a second for each seed.

    Args:
        directory: written by ``Agent.compile``.
        seeds: of runs.

    Raises:
        ValueError: the directory is damaged, a seed is no integer of at least 0, or the process failed; says why.
    """
    missing = sorted(set(seeds) - set(compiled.read(directory).seeds()))
    if not missing:
        return
    command = [sys.executable, "-m", "axonrl.estimators.compiling", str(directory), *map(str, missing)]
    ran = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    if ran.returncode:
        raise ValueError(f"no initial weights for {', '.join(map(str, missing))}: {ran.stderr.strip()}")
