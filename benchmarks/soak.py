"""Kill actors and shards of a training on Ray every few seconds; then kill whole trainings, and resume them.

    python -m axonrl.benchmarks.soak [--minutes 20] [--every 5] [--drivers 20] [--only impala apex drivers serving]

Last comes a service with agents: see :mod:`.serving_soak`.

``make soak`` installs what it needs and does so. It prints Markdown: the memory of each role (resident, without what is
shared) and its growth after the first fifth of the time, the object store, and whether timesteps add up. It ends with
code 1 if something is wrong: a count that does not add up, a process that remains, a counter below its checkpoint's.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from pathlib import Path
from typing import Any, Final

from ..core.errors import CheckpointError
from ..distributed.guardian import descendants
from ..distributed.settings import RUNNING
from ..hooks import Hook
from ..run_dir.checkpoints import CheckpointStore
from .processes import AXONRL, growth, is_alive, resident
from .report import table

GROWTH: Final = 0.05
GONE_S: Final = 30.0
PARTS: Final = ("impala", "apex", "drivers", "serving")
EXPERIMENTS: Final = {"impala": "impala_cartpole_cluster", "apex": "apex_cartpole"}


class Soak(Hook):
    """Kills a random actor or shard every few seconds, notes memory every second, and stops after some time."""

    def __init__(self, cluster: Any, seconds: float, every: float, seed: int) -> None:
        self._cluster, self._seconds, self._every = cluster, seconds, every
        self._random = random.Random(seed)
        self._began = self._noted = self._killed = 0.0
        self.kills = 0
        self.memory: dict[str, list[float]] = defaultdict(list)
        self.store: list[float] = []
        self.driver: Any = None

    def after_timestep(self, session: Any, facts: Any) -> None:
        now, self.driver = time.monotonic(), vars(self._cluster)[RUNNING]
        if not self._began:
            self._began = self._noted = self._killed = now
        if now - self._noted >= 1:
            self._noted = now
            self._note()
        if now - self._killed >= self._every:
            self._killed = now
            self._kill()
        if now - self._began >= self._seconds:
            session.request_stop("the time is over")

    def _note(self) -> None:
        import ray

        processes = {"driver": os.getpid(), **self.driver.backend.processes()}
        for role, pid in processes.items():
            if (size := resident(pid)) is not None:
                self.memory[role].append(size)
        every: Any = ray.cluster_resources()  # type: ignore[no-untyped-call]
        free: Any = ray.available_resources()  # type: ignore[no-untyped-call]
        name = "object_store_memory"
        self.store.append(every[name] - free.get(name, every[name]))

    def _kill(self) -> None:
        ours = descendants(os.getpid())
        roles = sorted(self.driver.backend.processes().items())
        found = [pid for role, pid in roles if role.startswith(("actor", "shard")) and pid in ours]
        if found:
            os.kill(self._random.choice(found), signal.SIGKILL)
            self.kills += 1


def train_for(name: str, folder: Path, seconds: float, every: float) -> list[str]:
    """Train for some time, and print what was seen; returns what is wrong."""
    from .. import Agent, RunConfig
    from ..distributed import Cluster
    from ..memories import BatchMemory, Prioritized, ReplayMemory

    shape: Any = {"actors": 4, "envs_per_actor": 8, "unroll": 20, "actor_cpus": 0.5, "restart_delay_s": 0.5}
    limits: Any = {"max_restarts": 10**6, "replay_shards": 1 if name == "impala" else 2}
    cluster = Cluster(**shape, **limits)
    memory: Any = BatchMemory(320)
    if name == "apex":
        memory = ReplayMemory(32_000, 64, n_step=3, sampler=Prioritized())
    config, soak = RunConfig(seed=1, progress=False), Soak(cluster, seconds, every, 1)
    agent = Agent("impala" if name == "impala" else "dqn", memory, folder, config, {"hidden": (64, 64)})
    agent.train("CartPole-v1", 1000, 16, cluster=cluster, hooks=soak)
    counts, planner, waiting = soak.driver.planner.counts, soak.driver.planner, soak.driver.learning.waiting()
    of_one = cluster.unroll * cluster.envs_per_actor
    rows = [
        [role, f"{values[-1] / 1e6:.0f}", f"{max(values) / 1e6:.0f}", f"{growth(values):+.1%}"]
        for role, values in sorted(soak.memory.items())
    ]
    store = [value / 1e6 for value in soak.store]
    rows.append(["object store", f"{store[-1]:.1f}", f"{max(store):.1f}", ""])
    print(f"\n### {name}: {seconds / 60:.0f} minutes, one of the actors and shards killed every {every:g} s\n")
    print(table(["role", "MB at the end", "MB at most", "growth after warm-up"], rows))
    print(f"\nKills {soak.kills}, actors restarted {counts['restarts']}, shards lost {counts['shards_lost']}.")
    print(f"Updates {agent.global_step}, timesteps {agent.global_timestep}; unrolls: {dict(counts)}.", flush=True)
    found = [
        f"{name}: {role} grew by {growth(values):.1%}"
        for role, values in soak.memory.items()
        if len(values) >= 60 and growth(values) > GROWTH
    ]
    if counts["asked"] != counts["accepted"] + counts["lost"] + planner.in_flight():
        found.append(f"{name}: unrolls asked for do not add up")
    if counts["accepted"] * of_one != agent.global_timestep + waiting + counts["stale"] * of_one:
        found.append(f"{name}: timesteps do not add up, {waiting} wait")
    if counts["restarts"] + counts["shards_lost"] < soak.kills - 2:  # the last ones may not have been noticed
        found.append(f"{name}: {soak.kills} kills and fewer restarts")
    return found


def counters(folder: Path) -> tuple[int, int]:
    """Timesteps and updates of the newest checkpoint."""
    loaded = CheckpointStore(folder).open() if folder.exists() else None
    found = {} if loaded is None else loaded[1]["counters"]
    return int(found.get("global_timestep", 0)), int(found.get("global_step", 0))


def killed_drivers(folder: Path, times: int, longest: float) -> list[str]:
    """Start a training, kill its process at a random instant, look for what remains, and resume it, so many times."""
    found: list[str] = []
    chance, before = random.Random(1), dict.fromkeys(EXPERIMENTS, (0, 0))
    for n in range(times):
        name = list(EXPERIMENTS)[n % len(EXPERIMENTS)]
        run, seconds = folder / f"killed-{name}", chance.uniform(1.0, longest)
        with (folder / "output").open("w") as output, _start_run(name, run, output) as process:
            below, until = set(), time.monotonic() + seconds
            while time.monotonic() < until and process.poll() is None:
                below |= descendants(process.pid)
                time.sleep(0.2)
            below |= descendants(process.pid)
            ended = process.poll()
            process.kill()
        if ended is not None:
            found.append(f"{name}: run {n} ended by itself: {(folder / 'output').read_text()[-500:]}")
        until = time.monotonic() + GONE_S
        while (left := {pid for pid in below if is_alive(pid)}) and time.monotonic() < until:
            time.sleep(0.2)
        found += [f"{name}: after kill {n} process {pid} remains" for pid in sorted(left)]
        try:
            now = counters(run)
        except CheckpointError as error:
            found.append(f"{name}: after kill {n}: {error}")
            continue
        if min(a - b for a, b in zip(now, before[name], strict=True)) < 0:
            found.append(f"{name}: after kill {n} the counters are {now}, and were {before[name]}")
        before[name] = now
        print(f"kill {n} of {name} after {seconds:.1f} s: {len(below)} processes, {now[0]} timesteps", flush=True)
    return found


def _start_run(name: str, run: Path, output: Any) -> subprocess.Popen[bytes]:
    command = [*AXONRL, "run", EXPERIMENTS[name], "--model-dir", str(run), "--auto-resume"]
    for setting in ("config.save_checkpoints_secs=1", "train.max_timesteps=100000000", "distributed.actor_cpus=0.5"):
        command += ["--set", setting]
    return subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL)


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--minutes", type=float, default=20, help="of each training, and of the mixed clients of a service"
    )
    parser.add_argument("--every", type=float, default=5, help="seconds between kills")
    parser.add_argument("--drivers", type=int, default=20, help="kills of whole trainings")
    parser.add_argument("--longest", type=float, default=60, help="seconds that one of these may run")
    parser.add_argument("--only", nargs="+", choices=PARTS, default=PARTS)
    chosen = parser.parse_args()
    found: list[str] = []
    with tempfile.TemporaryDirectory(prefix="axonrl-soak-", ignore_cleanup_errors=True) as folder:
        for name in EXPERIMENTS:
            if name in chosen.only:
                found += train_for(name, Path(folder, name), 60 * chosen.minutes, chosen.every)
        if "drivers" in chosen.only:
            print(f"\n### The process of the learner killed {chosen.drivers} times\n")
            found += killed_drivers(Path(folder), chosen.drivers, chosen.longest)
        if "serving" in chosen.only:
            from . import serving_soak

            found += serving_soak.soak(Path(folder), chosen.minutes)
    print("\n" + ("\n".join(["Wrong:", *(f"- {one}" for one in found)]) if found else "Nothing is wrong."))
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
