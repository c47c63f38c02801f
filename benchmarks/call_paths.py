"""Files of axonrl that one datum passes, in the order of their first call: ``python -m axonrl.benchmarks.call_paths``.

``timestep``: a transition of CartPole, from the end of ``env.step`` to the next one, over the memory, an update of DQN,
a hook and a checkpoint. ``request``: a step of a hosted agent, in the gateway and in its worker. ``key``:
``train.max_timesteps`` of an experiment file, from ``axonrl run`` on: files that hold the number in a local variable.
"""

from __future__ import annotations

import argparse
import mmap
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path
from types import FrameType
from typing import Any, Final

ROOT: Final = Path(__file__).resolve().parents[1]
PREFIX: Final = f"{ROOT}{os.sep}"
FIRST_UPDATE: Final = 200
NUMBER: Final = 12_347
"""A limit that no other number of a run is equal to."""

SITE: Final = """
import mmap, os, sys, threading
flag = mmap.mmap(os.open({flag!r}, os.O_RDWR), 1)
seen = set()

def called(frame, event, _):
    file = frame.f_code.co_filename
    if event == "call" and flag[0] and file.startswith({root!r}) and file not in seen:
        seen.add(file)
        with open({log!r}, "a") as log:
            log.write(file + "\\n")

if "axonrl.serving.workers.builder" not in sys.orig_argv:  # which makes seeds for other agents meanwhile
    threading.setprofile(called)
    sys.setprofile(called)
"""
"""Program that gateway and workers run first: writes down the files of calls while the flag is set."""


def is_ours(file: str) -> bool:
    """Is this a file of axonrl's, other than this one?"""
    return file.startswith(PREFIX) and not file.startswith(f"{PREFIX}.") and file != __file__


def files_of(function: Callable[[Callable[[], None], Callable[[], None]], None], holding: Any = None) -> list[str]:
    """The files of axonrl whose functions a piece of a program calls, in the order of the first calls.

    Args:
        function: calls its two arguments where the piece begins and ends.
        holding: only functions with a local variable of this value count.
    """
    found: dict[str, None] = {}

    def called(frame: FrameType, event: str, _: Any) -> None:
        file = frame.f_code.co_filename
        if event not in ("call", "return") or not is_ours(file):
            return
        if holding is None or any(type(value) is int and value == holding for value in frame.f_locals.values()):
            found.setdefault(str(Path(file).relative_to(ROOT)), None)

    function(lambda: sys.setprofile(called), lambda: sys.setprofile(None))
    return [*found]


def timestep() -> list[str]:
    """Files from the end of ``env.step`` to the next one, with an update, a hook and a checkpoint."""
    import gymnasium

    from .. import Agent, RunConfig
    from ..hooks import Hook
    from ..memories import ReplayMemory
    from ..models import dqn

    class Watched(Hook):
        def after_timestep(self, session: Any, facts: Any) -> None:
            """Be a hook that overrides an event."""

    def piece(begin: Callable[[], None], end: Callable[[], None]) -> None:
        class Environment(gymnasium.Wrapper[Any, Any, Any, Any]):
            steps = 0

            def step(self, action: Any) -> Any:
                end()
                self.steps += 1
                result = super().step(action)
                if self.steps == FIRST_UPDATE + 1 and not result[2]:  # the second update: the first one has warmed up
                    begin()
                return result

        with tempfile.TemporaryDirectory() as folder:
            config = RunConfig(seed=0, save_checkpoints_secs=None, save_checkpoints_steps=2)
            agent = Agent(dqn.model_fn, ReplayMemory(1000, 32), model_dir=folder, config=config)
            agent.train(Environment(gymnasium.make("CartPole-v1")), FIRST_UPDATE, 1, timesteps=210, hooks=Watched())

    return files_of(piece)


def key() -> list[str]:
    """Files that the number of ``train.max_timesteps`` passes."""
    from ..core import registry
    from ..experiments.commands.cli import main

    registry.find("model_fn", "dqn")  # TensorFlow's import takes minutes where each call is looked at

    text = f"""\
environment: {{id: CartPole-v1}}
agent: {{model_fn: dqn, memory: {{kind: replay, size: 1000, batch_size: 32}}}}
train: {{first_update: 100000, max_timesteps: {NUMBER}}}
evaluate: {{episodes: 1}}
hooks: [{{kind: stop_at_timestep, timestep: 5}}]
"""

    def piece(begin: Callable[[], None], end: Callable[[], None]) -> None:
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder, "path.yml")
            file.write_text(text)
            begin()
            try:
                main(["run", str(file), "--model-dir", str(Path(folder, "run"))])
            finally:
                end()

    return files_of(piece, NUMBER)


def request() -> list[str]:
    """The files that a step of a hosted agent passes, in all processes of the service."""
    from .service import processes

    with tempfile.TemporaryDirectory() as place:
        folder, flag, log = (Path(place, name) for name in ("data", "flag", "log"))
        flag.write_bytes(b"\0")
        log.touch()
        Path(place, "sitecustomize.py").write_text(SITE.format(flag=str(flag), root=PREFIX, log=str(log)))
        token = processes.account(folder)
        os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [place, os.environ.get("PYTHONPATH")]))
        with flag.open("r+b") as file, mmap.mmap(file.fileno(), 1) as shared, processes.service(folder, token) as one:
            one.create("path")
            with one.agent("path") as agent:
                for timestep in range(4):
                    agent.act([0.0] * 4)
                    shared[0] = timestep == 3
                    agent.step([0.0] * 4, 0, 1.0, [0.0] * 4, False)
                    shared[0] = 0
        found = dict.fromkeys(filter(is_ours, log.read_text().split("\n")))
    return [str(Path(file).relative_to(ROOT)) for file in found]


PATHS: Final[dict[str, Callable[[], list[str]]]] = {"timestep": timestep, "request": request, "key": key}


def main(words: Iterable[str] | None = None) -> None:
    """Print the files of each path, each path in a process of its own."""
    parser = argparse.ArgumentParser(description=str(__doc__).partition("\n")[0])
    parser.add_argument("path", nargs="?", choices=PATHS, help="all of them, if none is given")
    path = parser.parse_args(None if words is None else [*words]).path
    if path is None:
        for name in PATHS:
            subprocess.run([sys.executable, "-m", __spec__.name, name], check=True)
        return
    found = PATHS[path]()
    print(f"{path}: {len(found)} files")
    print("\n".join(f"  {file}" for file in found), flush=True)


if __name__ == "__main__":
    main()
