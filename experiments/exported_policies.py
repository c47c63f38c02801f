"""Exports of evaluated policies: the latest ones, or the best."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, Protocol

from ..core import fields
from ..core.checks import count
from ..core.errors import ArgumentError, CheckpointError
from ..run_dir.files import make_folders, write_json_atomically

_BEST: Final = "best.json"
_FIELDS: Final = fields.fields({"best": fields.number}, others=fields.anything)
_FOLDER: Final = re.compile(r"timestep-(\d{12})", re.ASCII)


class ExportStrategy(Protocol):
    """Decides after each evaluation whether to export the policy."""

    def export(self, agent: Any, policy: str | int, timestep: int, results: Mapping[str, float]) -> Path | None:
        """Export a policy, or decide not to.

        Args:
            agent: the Agent with the policy.
            policy: ``"last"``, ``"best"`` or a checkpoint's number.
            timestep: the training timestep of the policy.
            results: the results of its evaluation.

        Returns:
            The export's directory; None if the policy was not exported.
        """


class LatestExport:
    """Exports every evaluated policy as ``<directory>/timestep-<number>``, and keeps the newest ones.

    Args:
        directory: the directory of the exports; other files in it are left alone.
        keep: the number to keep.

    Raises:
        ArgumentError: ``keep`` is below 1.
    """

    def __init__(self, directory: str | Path, keep: int = 5) -> None:
        self.directory = Path(directory)
        self.keep = count("LatestExport(keep)", keep)

    def export(self, agent: Any, policy: str | int, timestep: int, results: Mapping[str, float]) -> Path | None:
        """Export the policy, then remove the oldest exports beyond ``keep``."""
        make_folders(self.directory)
        exported: Path = agent.export(self.directory / f"timestep-{timestep:012d}", policy=policy)
        folders = sorted(path for path in self.directory.iterdir() if _FOLDER.fullmatch(path.name))
        for path in folders[: -self.keep]:
            shutil.rmtree(path)
        return exported


class BestExport:
    """Exports a policy as ``<directory>/policy`` when its evaluation is the best one so far.

    The best result is stored in ``<directory>/best.json``, so that a later process continues from there.

    Args:
        directory: the directory of the export.
        metric: a result of ``Agent.evaluate``; higher is better.
    """

    def __init__(self, directory: str | Path, metric: str = "episode_return_mean") -> None:
        self.directory = Path(directory)
        self.metric = metric

    @property
    def best(self) -> float | None:
        """The best result so far; None before the first. CheckpointError if the file with it is damaged."""
        path = self.directory / _BEST
        try:
            found = json.loads(path.read_text(encoding="utf-8"))
            fields.check("", found, _FIELDS)
            return float(found["best"])
        except FileNotFoundError:
            return None
        except ValueError as error:
            raise CheckpointError(f"{path} is damaged: {error}. Remove it to start over.") from error

    def export(self, agent: Any, policy: str | int, timestep: int, results: Mapping[str, float]) -> Path | None:
        """Export the policy if it is better.

        Raises:
            ArgumentError: there is no such result.
        """
        if self.metric not in results:
            message = f"BestExport(metric) must be one of {', '.join(results)}; got {self.metric!r}"
            raise ArgumentError(message, "BestExport(metric)", self.metric)
        value, best = float(results[self.metric]), self.best
        if best is not None and not value > best:
            return None
        make_folders(self.directory)
        exported: Path = agent.export(self.directory / "policy", policy=policy)
        write_json_atomically(self.directory / _BEST, {"best": value, "metric": self.metric, "timestep": timestep})
        return exported
