"""One hosted agent, without HTTP: opened in the process of the tests, fed with made-up steps, left as after a crash."""

import base64
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from axonrl.estimators.stepper import Stepper
from axonrl.serving.catalogue import Recipe
from axonrl.serving.hosting.agent import HostedAgent
from axonrl.serving.hosting.programs import open_stepper
from axonrl.serving.refusals import RefusedError
from axonrl.tests.raising import raised

from .experience import step

Built = Callable[..., Recipe]
DQN: Final = {"state_size": 4, "action_size": 2, "hidden_layers": [8], "batch_size": 8, "buffer_size": 500}
PPO: Final[dict[str, Any]] = {
    **{"state_size": 4, "action_size": 2, "discrete": True, "hidden_layers": [8], "rollout_length": 16},
    **{"batch_size": 16, "num_epochs": 1},
}


class Host:
    """Opens agents below a folder, and leaves them at the end."""

    def __init__(self, programs: Path, folder: Path) -> None:
        self.programs = programs
        self.folder = folder
        self.agents: list[HostedAgent] = []

    def stepper_of(self, recipe: Recipe, fresh: bool) -> Stepper:
        return open_stepper(recipe, self.programs, fresh)

    def open(self, name: str, recipe: Recipe | None = None, epoch: int = 0) -> HostedAgent:
        agent = HostedAgent.open(self.folder / name, self.stepper_of, recipe, epoch)
        self.agents.append(agent)
        agent.finish()
        return agent

    def again(self, agent: HostedAgent, name: str) -> HostedAgent:
        """As after a kill -9: nothing is saved."""
        agent.abandon()
        return self.open(name)

    def close(self) -> None:
        for agent in self.agents:
            agent.abandon()


def weights(agent: HostedAgent) -> bytes:
    found: str = agent.get_state().value["encoded_network"]
    return base64.b64decode(found)


def timesteps(agent: HostedAgent) -> int:
    found: int = agent.info().value["counters"]["global_timestep"]
    return found


def data(k: int, environment: str | None = None, **more: Any) -> dict[str, Any]:
    """Step k of the made-up environment, whose episodes have 20 steps."""
    state, action, reward, after, done = step(k)
    found = {"state": state, "action": [action], "reward": reward, "next_state": after, "done": done}
    return {**found, **({} if environment is None else {"environment": environment}), **more}


def body(k: int, environment: str | None = None, **more: Any) -> bytes:
    return json.dumps({"step_data": data(k, environment, **more)}).encode()


def feed(agent: HostedAgent, begin: int, end: int, environments: int = 1) -> None:
    for k in range(begin, end):
        agent.step(body(k, f"e{k % environments}"), f"key-{k}")
        agent.sync()


def learn(stepper: Stepper, row: dict[str, Any]) -> None:
    """Store a transition, and do the updates that it brings."""
    stepper.store_one(row)
    while stepper.pending_updates:
        stepper.learn()
        stepper.pending_updates -= 1


def refused(call: Callable[[], object]) -> RefusedError:
    return raised(RefusedError, call)
