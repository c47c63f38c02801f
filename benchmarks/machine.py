"""Processor, memory and versions, without names of hosts or folders."""

from __future__ import annotations

import datetime
import os
import platform
from collections.abc import Iterable
from typing import Final

from ..run_dir.provenance import processor_name, version_of

PACKAGES: Final = (
    *("axonrl", "tensorflow", "keras", "ai-edge-litert", "stable-baselines3", "sb3-contrib", "torch", "sbx-rl"),
    *("jax", "flax", "optax", "cpprb", "torchrl", "tianshou", "envpool", "rejax", "gymnax", "rltools", "mkl"),
    *("mujoco", "ale-py", "gymnasium", "numpy", "ray"),
)


def versions(packages: Iterable[str] = PACKAGES) -> dict[str, str]:
    """Versions of Python and of installed packages."""
    found = {package: version for package in packages if (version := version_of(package)) is not None}
    return {"python": platform.python_version(), **found}


def machine() -> dict[str, str]:
    """The machine, the date and the load."""
    gibibytes = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return {
        "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d"),
        "processor": processor_name() or platform.machine(),
        "cores": str(os.cpu_count()),
        "memory": f"{gibibytes:.0f} GiB",
        "system": f"{platform.system()} {platform.machine()}",
        "load before (1 minute)": f"{load():.2f}",
    }


def load() -> float:
    """The load of the last minute: the mean number of processes that run or wait for a processor."""
    return os.getloadavg()[0]
