"""States that were damaged, or are dangerous: they are refused, and the agent is as it was."""

import base64
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from axonrl.serving.hosting.agent import HostedAgent, to_bytes
from axonrl.serving.hosting.failures import RefusedError

from . import hostile
from .hosted import Host

SIZES = ("model", "state_size", "action_size")


Sent = Callable[..., str]


@pytest.fixture
def agent(learned: tuple[Host, HostedAgent]) -> HostedAgent:
    return learned[1]


@pytest.fixture
def sent(learned: tuple[Host, HostedAgent], tmp_path: Path) -> Iterator[Sent]:
    """Puts states into the agent; nothing that was sent has changed it in the end, or written a file."""
    host, agent = learned

    def put(state: Any, *, is_file: bool = False) -> str:
        """The code with which it is refused; empty where it is taken."""
        try:
            agent.put_state(state if is_file else to_bytes(state), host.stepper_of, is_file=is_file)
        except RefusedError as error:
            return error.code if error.status == 422 else f"{error.status}"
        return ""

    before = agent.get_state(), agent.info().value["counters"]
    assert before[1] == {"global_timestep": 30, "global_step": 23, "global_episode": 1}
    yield put
    assert (agent.get_state(), agent.info().value["counters"]) == before
    assert list(tmp_path.iterdir()) == []


def encoded(content: bytes) -> str:
    return base64.b64encode(content).decode()


def test_snapshots_that_are_refused(agent: HostedAgent, sent: Sent, tmp_path: Path) -> None:
    state = agent.get_state().value
    changes: list[tuple[dict[str, Any], str]] = []
    for field in ("encoded_network", "encoded_buffer"):
        whole = base64.b64decode(state[field])
        made = hostile.damaged(whole, tmp_path / "written")
        changes += [({field: encoded(content)}, code) for content, code in made.values()]
        no_text: list[Any] = ["no base64!", None, []]
        changes += [({field: other}, "unsafe_state") for other in no_text]
    pickled, yaml = hostile.pickled(tmp_path / "written"), hostile.yaml(tmp_path / "written")
    many = b"[" + b"[]," * 120_000 + b"[]]"  # JSON, and too much of it to be read
    changes += [({"encoded_config": encoded(content)}, "unsafe_state") for content in (pickled, yaml, many)]
    changes += [({field: what}, "state_mismatch") for field in SIZES for what in (encoded(pickled), [*yaml], None)]
    changes += [({"model": "ppo"}, "state_mismatch"), ({"state_size": 5}, "state_mismatch")]
    changes += [({"action_size": "2"}, "state_mismatch"), ({"more": 1}, "invalid_value")]
    for change, code in changes:
        assert sent({**state, **change}) == code, str(change)[:300]
    for field in state:
        assert sent({name: value for name, value in state.items() if name != field}) == "invalid_value", field
    assert sent(state) == ""


def test_files_that_are_refused(agent: HostedAgent, sent: Sent, tmp_path: Path) -> None:
    content = agent.get_state(as_file=True).value
    header, behind = hostile.parts(content)
    for what, (made, code) in hostile.damaged(content, tmp_path / "written").items():
        assert sent(made, is_file=True) == code, what
    about = json.loads(header["__metadata__"]["axonrl"])
    pickled, yaml = hostile.pickled(tmp_path / "written"), hostile.yaml(tmp_path / "written").decode()
    changes: list[tuple[dict[str, Any], str]] = [
        *(({field: what}, "state_mismatch") for field in SIZES for what in (yaml, [*pickled])),
        *(({"config": what}, "unsafe_state") for what in (yaml, encoded(pickled))),
        *(({"config": [*pickled]}, "invalid_value"), ({"more": 1}, "invalid_value")),
    ]
    for change, code in changes:
        metadata = {"axonrl": json.dumps({**about, **change})}
        assert sent(hostile.joined({**header, "__metadata__": metadata}, behind), is_file=True) == code, change
    others: list[tuple[dict[str, Any], str]] = [
        *(({}, "unsafe_state"), ({"axonrl": [1]}, "unsafe_state"), ({"axonrl": "a: b"}, "unsafe_state")),
        ({"axonrl": "[]"}, "invalid_value"),
    ]
    for other, code in others:
        assert sent(hostile.joined({**header, "__metadata__": other}, behind), is_file=True) == code, other
    assert sent(content, is_file=True) == ""
