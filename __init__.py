"""axonrl: an Estimator for reinforcement learning, on TensorFlow 2 and Keras 3.

Names are imported when they are first used, so that ``import axonrl`` loads neither TensorFlow nor Gymnasium.
"""

import importlib
import os
from typing import TYPE_CHECKING, Any

# Absolute names only, and only inside functions: the repository root is this package, and a relative import executed
# here breaks pytest's collection, which takes the root for a plain folder.
if TYPE_CHECKING:
    from axonrl import noise as noise
    from axonrl.core.protocols import EstimatorSpec as EstimatorSpec
    from axonrl.core.protocols import Modes as Modes
    from axonrl.core.protocols import RunConfig as RunConfig
    from axonrl.estimators.agent import Agent as Agent
    from axonrl.estimators.estimator import Estimator as Estimator
    from axonrl.estimators.warm_start import WarmStart as WarmStart
    from axonrl.experiments.running.preparation import prepare as prepare
    from axonrl.version import __version__ as __version__

# An editable install finds the package through a link (setup.py). Resolve it, so that tracebacks and breakpoints show
# the files' own paths. Where pytest takes the root for a plain folder, there is no path.
if "__path__" in globals():
    __path__ = [os.path.realpath(folder) for folder in __path__]

_EXPORTS = {
    "Agent": "axonrl.estimators.agent",
    "Estimator": "axonrl.estimators.estimator",
    "EstimatorSpec": "axonrl.core.protocols",
    "Modes": "axonrl.core.protocols",
    "RunConfig": "axonrl.core.protocols",
    "WarmStart": "axonrl.estimators.warm_start",
    "prepare": "axonrl.experiments.running.preparation",
    "__version__": "axonrl.version",
}
_ROOMS = (
    "compat",
    "distributed",
    "environments",
    "estimators",
    "experiments",
    "explorations",
    "hooks",
    "memories",
    "models",
    "policies",
    "run_dir",
    "runtimes",
)
_MODULES = (*_ROOMS, "core", "errors", "inputs", "noise", "schedules")

__all__ = ["Agent", "Estimator", "EstimatorSpec", "Modes", "RunConfig", "WarmStart", "__version__", "noise", "prepare"]


def __getattr__(name: str) -> Any:
    if name in _EXPORTS:
        return getattr(importlib.import_module(_EXPORTS[name]), name)
    if name in _MODULES:
        return importlib.import_module(f"axonrl.{name}")
    raise AttributeError(f"module 'axonrl' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_EXPORTS, *_MODULES})
