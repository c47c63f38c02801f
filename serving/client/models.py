"""Models that services host."""

from __future__ import annotations

from typing import Final

SUPPORTED_MODELS: Final[list[str]] = ["dqn", "ppo", "ddpg", "rainbow"]
"""Models of the original interface."""
OTHER_MODELS: Final[list[str]] = [
    "a2c",
    "c51",
    "crossq",
    "impala",
    "iqn",
    "naf",
    "pqn",
    "qr_dqn",
    "redq",
    "sac",
    "td3",
    "tqc",
    "trpo",
    "vpg",
]
"""Further models that axonrl's service hosts."""
