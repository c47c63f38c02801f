"""From nothing to an agent by commands alone, and what commands change while the service runs."""

from __future__ import annotations

import functools
import io
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from axonrl.experiments.commands.cli import main
from axonrl.serving import AuthenticationError, RemoteAgent
from axonrl.serving.catalogue import Recipe

from .for_accounts import PASSWORD
from .live import CLI, Server, running
from .service import SMALL, wait_for

pytestmark = pytest.mark.server
NEW: Final = "another horse battery"

Command = Callable[..., str]


@pytest.fixture
def command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    """Runs ``axonrl service`` on the folder ``data``, and returns what it prints."""

    def run(*words: str, stdin: str = "") -> str:
        monkeypatch.setattr(sys, "stdin", io.StringIO(stdin))
        code = main(["service", *words, "--data", str(tmp_path / "data")])
        told = capsys.readouterr()
        assert code == 0, told.err
        return told.out

    return run


@pytest.fixture
def server(
    tmp_path: Path, command: Command, programs: Path, built: Callable[..., Recipe], monkeypatch: pytest.MonkeyPatch
) -> Iterator[Server]:
    """Alice and bob are added by commands; programs are there already, so that no TensorFlow is loaded."""
    for name in ("ACCESS_TOKEN", "USER", "USERNAME", "PASS", "PASSWORD"):
        monkeypatch.delenv(f"AGENTS_BAR_{name}", raising=False)
    built("dqn", {**SMALL, "state_size": 4, "action_size": 2})
    data = tmp_path / "data"
    first = [*CLI, "service", "add-user", "alice", "--password-stdin", "--data", str(data)]
    subprocess.run(first, input=f"{PASSWORD}\n", text=True, timeout=60, check=True)
    command("add-user", "bob", "--password-stdin", stdin=f"{PASSWORD}\n")
    (data / "programs").symlink_to(programs)
    with running(Server(data)) as started:
        yield started
        assert started.stop() == 143
    assert {path.name for path in tmp_path.iterdir()} == {"data", started.log.name}


def test_what_commands_change_holds_while_the_service_runs(server: Server, command: Command) -> None:
    def client(name: str = "alice", **more: Any) -> RemoteAgent:
        given = more or {"username": name, "password": PASSWORD}
        return RemoteAgent("cart", url=server.url, retry_deadline=0.0, **SMALL, **given)

    alice = client()
    assert alice.create_agent(4, 2, "dqn")["name"] == "cart"
    assert alice.act([0.1, 0.2, 0.3, 0.4]) in (0, 1)
    made = command("create-token", "alice", "--name", "game", "--scopes", "act,read")
    kept = command("create-token", "alice", "--name", "another", "--scopes", "read")
    assert (made[:4], len(made), made[-1]) == ("axp_", 51, "\n")  # the token alone
    game, other, bob = client(access_token=made.strip()), client(access_token=kept.strip()), client("bob")
    wait_for(lambda: game.exists and other.exists)  # of tokens that commands made too
    assert bob.exists is False
    listed = json.loads(command("list-tokens", "alice", "--json"))
    (id,) = (one["id"] for one in listed if one["name"] == "game")

    command("revoke-token", id)
    command("set-password", "alice", "--password-stdin", stdin=f"{NEW}\n")
    command("disable-user", "bob")
    for ended in (game, alice, bob):
        wait_for(functools.partial(is_refused, ended))
    assert other.exists  # a token that was made is not a login
    for name in ("alice", "bob"):
        with pytest.raises(AuthenticationError) as refused:
            client(name)
        assert refused.value.code == "invalid_credentials"
    with client(username="alice", password=NEW) as again:
        assert again.exists
    for one in (alice, game, other, bob):
        one.close()


def is_refused(client: RemoteAgent) -> bool:
    try:
        client.exists  # noqa: B018
    except AuthenticationError as error:
        return (error.status, error.code) == (401, "invalid_token")
    return False
