"""Makes the fixture of a release: a data folder with one agent, and what that agent does.

``python -m axonrl.tests.serving.make_fixture tests/serving/fixtures/1`` was run when the first schema was new. What is
there is never made again: later versions must be able to read it.
"""

import contextlib
import json
import shutil
import sqlite3
import sys
import tempfile
from pathlib import Path
from typing import Any, Final

from axonrl.serving.accounts import Accounts, AgentRows, open_service
from axonrl.serving.catalogue import recipe
from axonrl.serving.hosting.agent import HostedAgent
from axonrl.serving.hosting.opening import open_stepper
from axonrl.serving.workers import building

from .for_accounts import PASSWORD

CONFIG: Final[dict[str, Any]] = {
    **{"state_size": 4, "action_size": 2, "hidden_layers": [8], "batch_size": 8, "buffer_size": 100},
    **{"lr": 0.01, "update_freq": 5, "seed": 0},
}
OBSERVATIONS: Final = [[a / 2, b / 2, (a * b) / 4, 1.0] for a in range(-2, 3) for b in range(-2, 3)]


def step(k: int) -> bytes:
    state, after = OBSERVATIONS[k % 25], OBSERVATIONS[(k + 1) % 25]
    data = {"state": state, "action": [k % 2], "reward": state[k % 2], "next_state": after, "done": k % 10 == 9}
    return json.dumps({"step_data": {**data, "environment": "e"}}).encode()


def main(target: Path) -> None:
    """Write it: 200 steps in a checkpoint, 4 more in the journal, which make no update due."""
    data = Path(tempfile.mkdtemp()) / "data"
    database = open_service(data)
    made = recipe("dqn", CONFIG)
    building.build(made, data / "programs")
    owner = Accounts(database).add_user("alice", PASSWORD)
    rows = AgentRows(database)
    row = rows.add(owner.id, "cart", "dqn", "of the first release", made.config)
    rows.set_status(row.id, "ready")
    database.close()
    path = data / "agents" / row.id
    agent = HostedAgent.open(path, lambda one, fresh: open_stepper(one, data / "programs", fresh), made)
    for k in range(204):
        agent.step(step(k), f"key-{k}")
        if k == 199:
            agent.save()
    agent.finish()
    actions = [agent.act(json.dumps(one).encode()).value["action"][0] for one in OBSERVATIONS]
    counters = agent.info().value["counters"]
    agent.abandon()
    shutil.rmtree(data / "programs")
    with contextlib.closing(sqlite3.connect(data / "service.db")) as connection:
        (data / "service.sql").write_text("\n".join(connection.iterdump()) + "\n")
    for name in ("service.db", "audit.jsonl", "lock"):
        (data / name).unlink(missing_ok=True)
    (path / "lock").unlink()
    (target.parent).mkdir(parents=True, exist_ok=True)
    shutil.copytree(data, target)
    (target / "expected.json").write_text(json.dumps({"actions": actions, "counters": counters}) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
