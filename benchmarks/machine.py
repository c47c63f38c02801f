"""Processor, memory and versions, without names of hosts or folders."""

from __future__ import annotations

import datetime
import os
import platform
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from ..run_dir.provenance import version_of

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
        "processor": processor(),
        "cores": str(os.cpu_count()),
        "memory": f"{gibibytes:.0f} GiB",
        "system": f"{platform.system()} {platform.machine()}",
        "load before (1 minute)": f"{load():.2f}",
    }


def load() -> float:
    """The load of the last minute: the mean number of processes that run or wait for a processor."""
    return os.getloadavg()[0]


def processor() -> str:
    """The processor's name, if the system has it."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text(encoding="utf-8").splitlines() if info.exists() else []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()
