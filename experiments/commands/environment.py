"""``axonrl check-env``: whether an environment is fit for training."""

from __future__ import annotations

import argparse
import sys

from ...environments import check
from ..config.modules import make_importable
from ..console import DONE, FAILED, print_json, print_rows


def check_env(arguments: argparse.Namespace) -> int:
    """Print a verdict for each point; returns FAILED if training would fail."""
    make_importable(())
    try:
        found = check(arguments.id, episodes=arguments.episodes, seed=arguments.seed)
    finally:
        sys.stdout.flush()  # the environment's own output comes first
    if arguments.json:
        print_json({"environment": found.name, "ok": found.ok, "findings": [one._asdict() for one in found.findings]})
    else:
        print_rows(found.name, {one.point: f"{one.verdict}: {one.text}" for one in found.findings}, justify="left")
    return DONE if found.ok else FAILED
