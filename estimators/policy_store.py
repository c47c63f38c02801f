"""The policies of a run by name: those in its checkpoints, and those kept in separate files."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from ..core.checks import refuse_non_finite
from ..core.errors import ArgumentError
from ..run_dir.checkpoints import CheckpointStore
from ..run_dir.snapshot import PolicySnapshot, load_snapshot, policies_in, snapshot_of


class PolicyStore:
    """Reads and keeps policies.

    Args:
        store: the run's checkpoints.
        load: loads the newest checkpoint: its index and content; None if there is none.
    """

    def __init__(self, store: CheckpointStore, load: Callable[[], tuple[int, Mapping[str, Any]] | None]) -> None:
        self._store = store
        self._folder = store.model_dir
        self._load = load
        self._newest: tuple[int, PolicySnapshot] | None = None
        self._numbered: tuple[int, PolicySnapshot] | None = None

    def newest(self) -> PolicySnapshot | None:
        """The policy in the newest checkpoint, cached; None if there is none."""
        newest = self._store.newest()  # before loading: another process may write a checkpoint meanwhile
        if newest is None:
            return None
        if self._newest is None or self._newest[0] != newest:
            loaded = self._load()
            if loaded is None:
                return None
            self._newest = newest, snapshot_of("last", loaded[1])
        return self._newest[1]

    def by_name(self, name: str) -> PolicySnapshot:
        """Read a kept policy; ``ValueError`` if there is none of this name."""
        path = self._path(name)
        if not path.exists():
            raise ValueError(
                f"{self._folder} holds no policy {name!r}, only {policies_in(self._folder)};"
                " EvaluationHook keeps the best one while training"
            )
        return load_snapshot(name, path)

    def by_number(self, number: int) -> PolicySnapshot:
        """The policy in the checkpoint of this number, cached; its name is the number.

        Raises:
            ArgumentError: there is no such checkpoint; lists existing ones.
            CheckpointError: it is damaged.
        """
        if self._numbered is None or self._numbered[0] != number:
            if number not in (kept := self._store.indices()):
                there = f"only {', '.join(map(str, kept))}" if kept else "none at all"
                message = (
                    f"{self._folder} holds no checkpoint {number}, {there}; keep_checkpoint_max limits how many are"
                    " kept"
                )
                raise ArgumentError(message, "policy", number)
            self._numbered = number, snapshot_of(str(number), self._store.read(number))
        return self._numbered[1]

    def keep(self, policy: PolicySnapshot, info: Mapping[str, Any]) -> Path:
        """Write a policy to ``<model_dir>/<name>.safetensors``, with ``info`` inside."""
        name = policy.name
        if name in ("", "last") or Path(name).name != name:
            raise ValueError(f"a policy's name must be a plain file name other than 'last'; got {name!r}")
        refuse_non_finite(policy.weights, f"in the policy {name!r}; it is not saved")
        path = self._path(name)
        policy.save(path, info)
        return path

    def _path(self, name: str) -> Path:
        return self._folder / f"{name}.safetensors"
