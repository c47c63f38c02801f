"""States that were damaged, or are dangerous: they are refused, and the agent is as it was."""

import base64
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from axonrl.serving import RemoteAgent
from axonrl.serving.catalogue import Recipe

from . import hostile
from .experience import batch
from .service import Service, serving

SMALL: dict[str, Any] = {"seed": 0, "hidden_layers": [8], "batch_size": 8, "buffer_size": 500}
NO_TEXT: list[Any] = ["no base64!", None, 1, []]
SNAPSHOT, FILE = "/api/v1/snapshots/a", "/api/v1/agents/a/state"


@pytest.fixture(scope="module")
def service(
    built: Callable[..., Recipe], programs: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Service]:
    built("dqn", {**SMALL, "state_size": 4, "action_size": 2})
    with serving(tmp_path_factory.mktemp("service") / "data", programs) as started:
        agent = started.agent("a", **SMALL)
        agent.create_agent(4, 2, "dqn")
        agent.step_batch(*batch(0, 30))
        yield started
        assert "Traceback" not in started.log.read_text()


@pytest.fixture
def a(service: Service, tmp_path: Path) -> Iterator[RemoteAgent]:
    """An agent that has learned, and of which a test may change nothing."""
    agent = service.agent("a")
    before = agent.get_state(), agent.info()["counters"]
    assert before[1] == {"global_timestep": 30, "global_step": 23, "global_episode": 1}
    yield agent
    assert (agent.get_state(), agent.info()["counters"]) == before
    assert list(tmp_path.iterdir()) == []


def encoded(content: bytes) -> str:
    return base64.b64encode(content).decode()


def posted(service: Service, state: dict[str, Any]) -> tuple[int, str]:
    """Status and code."""
    status, _, body = service.ask("POST", SNAPSHOT, state)
    return status, body.get("code", "")


def put(service: Service, content: bytes) -> tuple[int, str]:
    status, body = service.transfer("PUT", FILE, content)
    return status, json.loads(body).get("code", "")


def test_snapshots_that_are_refused(service: Service, a: RemoteAgent, tmp_path: Path) -> None:
    state: dict[str, Any] = service.ask("GET", SNAPSHOT)[2]
    changes: list[tuple[dict[str, Any], str]] = []
    for field in ("encoded_network", "encoded_buffer"):
        whole = base64.b64decode(state[field])
        made = {**hostile.damaged(whole, tmp_path / "written"), **hostile.misplaced(whole)}
        changes += [({field: encoded(content)}, code) for content, code in made.values()]
        changes += [({field: other}, "unsafe_state") for other in NO_TEXT]
    pickled, yaml = hostile.pickled(tmp_path / "written"), hostile.yaml(tmp_path / "written")
    for content in (pickled, yaml, hostile.zipped(pickled)):
        changes.append(({"encoded_config": encoded(content)}, "unsafe_state"))
        for field in ("model", "state_size", "action_size"):
            changes += [({field: what}, "state_mismatch") for what in (encoded(content), [*content], None)]
    changes += [({"model": "ppo"}, "state_mismatch"), ({"state_size": 5}, "state_mismatch")]
    changes += [({"action_size": 3}, "state_mismatch"), ({"more": 1}, "invalid_value")]
    for change, code in changes:
        assert posted(service, {**state, **change}) == (422, code), str(change)[:300]
    for field in state:
        less = {name: value for name, value in state.items() if name != field}
        assert posted(service, less) == (422, "invalid_value"), field
    assert posted(service, state) == (201, "")


def test_files_that_are_refused(service: Service, a: RemoteAgent, tmp_path: Path) -> None:
    content = service.transfer("GET", FILE)[1]
    header, behind = hostile.parts(content)
    for what, (made, code) in {
        **hostile.damaged(content, tmp_path / "written"),
        **hostile.misplaced(content),
    }.items():
        assert put(service, made) == (422, code), what
    about = json.loads(header["__metadata__"]["axonrl"])
    pickled, yaml = hostile.pickled(tmp_path / "written"), hostile.yaml(tmp_path / "written").decode()
    changes: list[tuple[dict[str, Any], str]] = [
        *(
            ({field: what}, "state_mismatch")
            for field in ("model", "state_size", "action_size")
            for what in ("x", yaml)
        ),
        *(({field: [*pickled]}, "state_mismatch") for field in ("model", "state_size", "action_size")),
        *(({"config": what}, "unsafe_state") for what in (yaml, encoded(pickled))),
        ({"config": [*pickled]}, "invalid_value"),
        ({"more": 1}, "invalid_value"),
    ]
    for change, code in changes:
        metadata = {"axonrl": json.dumps({**about, **change})}
        assert put(service, hostile.joined({**header, "__metadata__": metadata}, behind)) == (422, code), change
    for other, code in (
        ({}, "unsafe_state"),
        ({"axonrl": [1]}, "unsafe_state"),
        ({"axonrl": "a: b"}, "unsafe_state"),
        ({"axonrl": "[]"}, "invalid_value"),
    ):
        assert put(service, hostile.joined({**header, "__metadata__": other}, behind)) == (422, code), other
    assert put(service, content) == (200, "")


def test_a_flipped_bit_is_refused_or_a_state_that_loads_whole(service: Service, a: RemoteAgent) -> None:
    state: dict[str, Any] = service.ask("GET", SNAPSHOT)[2]
    for k in range(20):
        damaged = bytearray(base64.b64decode(state["encoded_network"]))
        damaged[k * len(damaged) // 20] ^= 1 << k % 8
        assert posted(service, {**state, "encoded_network": encoded(bytes(damaged))})[0] in (201, 422)
        assert posted(service, state)[0] == 201
