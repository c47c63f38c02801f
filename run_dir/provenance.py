"""Software and hardware of a run, on which exact resume depends."""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path
from typing import Any, Final

from ..version import __version__

PACKAGES: Final = ("tensorflow", "keras", "numpy", "gymnasium", "ai-edge-litert")


def provenance() -> dict[str, str | int | None]:
    """Versions (None if not installed), processor and number of threads, by short name."""
    return {
        "python": platform.python_version(),
        "axonrl": __version__,
        **{package: version_of(package) for package in PACKAGES},
        "machine": platform.machine(),
        "processor": processor_name(),
        "threads": processors(),
        # TensorFlow's switches that change results: oneDNN kernels, and fewer threads than processors.
        **{name: os.environ.get(name) for name in ("TF_ENABLE_ONEDNN_OPTS", "TF_NUM_INTRAOP_THREADS")},
    }


def differences(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """List changes, such as ``"tensorflow 2.21.0 -> 2.22.0"``."""
    return [f"{name} {before.get(name)} -> {value}" for name, value in now.items() if before.get(name) != value]


def version_of(package: str) -> str | None:
    """Version of an installed package, None if it is not installed; TensorFlow may be the build ``tensorflow-cpu``."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        build = version_of("tensorflow-cpu") if package == "tensorflow" else None
        return build and f"{build} (tensorflow-cpu)"


def processor_name() -> str:
    """Name of the processor; on Linux with its family and model, as virtual machines name many kinds alike."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").split("\n\n", 1)[0].splitlines()
    except OSError:
        lines = []
    first = {name.strip(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    kind = [f"{word} {first[key]}" for word, key in (("family", "cpu family"), ("model", "model")) if key in first]
    return ", ".join([first.get("model name") or platform.processor(), *kind])


def processors() -> int:
    """Number of processors available to this process, which is the executors' number of threads."""
    affinity = getattr(os, "sched_getaffinity", None)  # not on every system
    return len(affinity(0)) if affinity else os.cpu_count() or 1
