"""States whose every part carries one number, and ways to read and to damage what holds them."""

from pathlib import Path
from typing import Any

import numpy as np

from axonrl.run_dir.checkpoints import CheckpointStore

FILES = ("arrays.safetensors", "state.json", "manifest.json")


def newest(store: CheckpointStore) -> tuple[int, Any]:
    found = store.load()
    assert found is not None
    return found


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def counted(n: int) -> dict[str, Any]:
    """A state whose every part carries the counter n."""
    return {
        "counters": {"global_step": n},
        "weights": {"w": np.full(1000, n), "b": np.full((3, 2), n, np.float32)},
        "n": n,
    }


def counter_of(state: Any) -> Any:
    """The one counter that every part of a state carries."""
    values = {state["n"], state["counters"]["global_step"], *state["weights"]["w"], *state["weights"]["b"].flat}
    assert len(values) == 1
    return values.pop()


def truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1])


def flip(path: Path, position: float = 0.5) -> None:
    data = bytearray(path.read_bytes())
    data[int(position * (len(data) - 1))] ^= 1
    path.write_bytes(data)
