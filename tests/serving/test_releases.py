"""Folders and databases of earlier releases go on; those of later ones are refused."""

import contextlib
import json
import shutil
import sqlite3
from pathlib import Path
from typing import Any, Final

import pytest

from axonrl.experiments.commands.cli import main
from axonrl.serving.accounts import Accounts, AgentRows, open_service, schema
from axonrl.serving.hosting.agent import HostedAgent
from axonrl.serving.hosting.programs import open_stepper

from .for_accounts import PASSWORD
from .hosted import Built

pytestmark = pytest.mark.usefixtures("quick_hashes")

FIXTURES: Final = Path(__file__).with_name("fixtures")
RELEASES: Final = sorted(path.name for path in FIXTURES.iterdir())
# What the agents of the fixtures were made of and did: 200 steps in a checkpoint, 4 more in the journal.
CONFIG: Final[dict[str, Any]] = {
    **{"state_size": 4, "action_size": 2, "hidden_layers": [8], "batch_size": 8, "buffer_size": 100},
    **{"lr": 0.01, "update_freq": 5, "seed": 0},
}
OBSERVATIONS: Final = [[a / 2, b / 2, (a * b) / 4, 1.0] for a in range(-2, 3) for b in range(-2, 3)]


def step(k: int) -> bytes:
    state, after = OBSERVATIONS[k % 25], OBSERVATIONS[(k + 1) % 25]
    data = {"state": state, "action": [k % 2], "reward": state[k % 2], "next_state": after, "done": k % 10 == 9}
    return json.dumps({"step_data": {**data, "environment": "e"}}).encode()


def dumped(data: Path) -> list[str]:
    with contextlib.closing(sqlite3.connect(data / "service.db")) as connection:
        return list(connection.iterdump())


def copied(release: str, data: Path) -> dict[str, Any]:
    """A release's data folder; returns what its agent did."""
    shutil.copytree(FIXTURES / release, data)
    script = data / "service.sql"
    with contextlib.closing(sqlite3.connect(data / "service.db")) as connection:
        connection.executescript(script.read_text())
    script.unlink()
    expected = data / "expected.json"
    found: dict[str, Any] = json.loads(expected.read_text())
    expected.unlink()
    return found


@pytest.mark.parametrize("release", RELEASES)
def test_agents_of_earlier_releases_act_as_they_did(release: str, built: Built, programs: Path, tmp_path: Path) -> None:
    data = tmp_path / "data"
    expected = copied(release, data)
    made = built("dqn", CONFIG)
    with contextlib.closing(open_service(data)) as opened:
        assert Accounts(opened).login("alice", PASSWORD, "")
        (row,) = AgentRows(opened).of(Accounts(opened).user("alice").id)
        assert (row.name, row.description, row.config) == ("cart", "of the first release", made.config)
    with contextlib.closing(sqlite3.connect(data / "service.db")) as connection:
        assert connection.execute("SELECT * FROM axonrl_service_version").fetchall() == [(schema.head(),)]
    for one_more in (0, 1):
        cart = HostedAgent.open(data / "agents" / row.id, lambda one, fresh: open_stepper(one, programs, fresh))
        cart.finish()
        counters = {**expected["counters"], "global_timestep": expected["counters"]["global_timestep"] + one_more}
        assert cart.info().value["counters"] == counters
        acted = [cart.act(json.dumps(one).encode()).value["action"][0] for one in OBSERVATIONS]
        if not one_more:
            assert acted == expected["actions"]
            cart.step(step(204), "key-204")
        cart.close()
    assert main(["service", "verify", "--data", str(data)]) == 0


def test_a_later_release_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = tmp_path / "data"
    copied(RELEASES[-1], data)
    with contextlib.closing(sqlite3.connect(data / "service.db")) as connection, connection:
        connection.execute("UPDATE axonrl_service_version SET version_num = '9999'")
    before = dumped(data)
    for words in (["serve", "--port", "0"], ["service", "list-users"], ["service", "migrate"]):
        assert main([*words, "--data", str(data)]) == 2
        told = capsys.readouterr()
        assert told.out == ""
        assert "9999" in told.err
    assert dumped(data) == before
