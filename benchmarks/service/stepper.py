"""A Stepper in a loop of its own process: ``python -m axonrl.benchmarks.service.stepper PROGRAMS CONFIG SECONDS``.

It stores transitions that were made beforehand, and learns when updates are due: an upper bound for the service. Prints
transitions per second.
"""

from __future__ import annotations

import itertools
import json
import sys
import time
from pathlib import Path

import numpy as np

from ...serving.catalogue import recipe
from ...serving.hosting.programs import open_stepper

ROWS = 256
WARM_UP = 2_000


def main() -> None:
    programs, hyperparameters, seconds = Path(sys.argv[1]), json.loads(sys.argv[2]), float(sys.argv[3])
    made = recipe("dqn", {"state_size": 4, "action_size": 2, **hyperparameters})
    stepper = open_stepper(made, programs)
    rng = np.random.default_rng(0)
    rows = [
        {
            "observation": rng.uniform(-1, 1, 4).astype(np.float32),
            "action": np.array(rng.integers(2), np.int32),
            "reward": 1.0,
            "terminated": bool(rng.random() < 0.02),
            "truncated": False,
            "next_observation": rng.uniform(-1, 1, 4).astype(np.float32),
        }
        for _ in range(ROWS)
    ]
    began, counted = 0.0, 0
    for count, row in enumerate(itertools.cycle(rows)):
        stepper.store_one(row)
        while stepper.pending_updates:
            stepper.learn()
            stepper.pending_updates -= 1
        if count == WARM_UP:
            began, counted = time.perf_counter(), count
        elif count > WARM_UP and not count % 64 and time.perf_counter() - began > seconds:
            break
    print((count - counted) / (time.perf_counter() - began))


if __name__ == "__main__":
    main()
