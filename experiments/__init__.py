"""Experiments: the YAML file that describes a run, the command line that runs it, and what a run folder records."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .experiment import Experiment
    from .exported_policies import BestExport, LatestExport

__all__ = ["BestExport", "Experiment", "LatestExport"]

_EXPORTS = {"BestExport": "exported_policies", "Experiment": "experiment", "LatestExport": "exported_policies"}


def __getattr__(name: str) -> Any:
    if name in _EXPORTS:
        return getattr(importlib.import_module(f".{_EXPORTS[name]}", __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_EXPORTS})
