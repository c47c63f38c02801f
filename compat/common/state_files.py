"""State files: nested mappings of arrays and values as one safetensors file. Does not load TensorFlow."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

from ...core.protocols import State
from ...run_dir.arrays import encode_arrays, join_state, load_arrays, split_state
from ...run_dir.files import write_atomically

_TREE: Final = "state"
"""Header key of everything that is not an array."""


def write_state(path: Path, state: State) -> None:
    """Write a state; an existing file is replaced atomically.

    Raises:
        CheckpointError: it cannot be written.
    """
    arrays, tree = split_state(state)
    write_atomically(path, encode_arrays(arrays, {_TREE: json.dumps(tree)}))


def read_state(path: Path) -> Any:
    """The state in a file; None if :func:`write_state` did not write it.

    Raises:
        CheckpointError: it is not a safetensors file, or damaged.
        OSError: it cannot be read.
        ValueError: its state is damaged.
    """
    arrays, about = load_arrays(path)
    return join_state(arrays, json.loads(about[_TREE])) if _TREE in about else None
