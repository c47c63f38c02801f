"""A service that keeps agents in as little memory as there is, and answers before steps are on the disk."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from axonrl.serving import RemoteAgent
from axonrl.serving.catalogue import Recipe

from .experience import alike, batch, step
from .service import Service, serving, wait_for

SMALL: dict[str, Any] = {"seed": 0, "hidden_layers": [8], "batch_size": 8, "buffer_size": 500}
OPTIONS = ("--durability", "process", "--workers", "1", "--set", "agents.memory_share=0.000001")
STEPS = 200


@pytest.fixture(scope="module")
def service(
    built: Callable[..., Recipe], programs: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Service]:
    built("dqn", {**SMALL, "state_size": 4, "action_size": 2})
    with serving(tmp_path_factory.mktemp("service") / "data", programs, OPTIONS) as started:
        yield started
        assert "Traceback" not in started.log.read_text()


def created(service: Service, name: str) -> RemoteAgent:
    agent = service.agent(name, **SMALL)
    agent.create_agent(4, 2, "dqn")
    return agent


def executors(service: Service) -> dict[str, str | None]:
    """What runs each agent; None while it is not in memory. The list of agents wakes none."""
    return {one["name"]: one["executor"] for one in service.ask("GET", "/api/v1/agents")[2]}


def test_what_was_answered_before_it_was_synced_survives_a_kill(service: Service) -> None:
    killed = created(service, "killed")
    for k in range(STEPS):
        killed.step(*step(k))
        if k in (20, STEPS - 1):
            service.kill()
            service.start()
    assert killed.info()["counters"]["global_timestep"] == STEPS
    undisturbed = created(service, "undisturbed")
    undisturbed.step_batch(*batch(0, STEPS))
    assert alike(killed, undisturbed)
    for agent in (killed, undisturbed):
        agent.remove(agent_name=agent.agent_name)


def test_an_agent_that_was_put_away_is_active_and_comes_back_when_it_is_asked_for(service: Service) -> None:
    first, last = created(service, "a-first"), created(service, "b-last")
    first.step_batch(*batch(0, 50))
    states = [list(step(k)[0]) for k in range(20)]
    before = first.act_batch(states), first.get_state()
    last.act(states[0])
    wait_for(lambda: executors(service)["a-first"] is None, 30)
    listed = next(one for one in service.ask("GET", "/api/v1/agents")[2] if one["name"] == "a-first")
    assert (listed["is_active"], listed["status"], listed["counters"]["global_timestep"]) == (True, "ready", 50)
    assert executors(service)["b-last"] == "litert"  # it was used later, and the only one stays
    assert first.act_batch(states) == before[0]
    assert executors(service)["a-first"] == "litert"
    assert first.get_state() == before[1]
    first.step(*step(50))
    assert (first.is_active, first.info()["counters"]["global_timestep"]) == (True, 51)
