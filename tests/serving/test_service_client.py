"""The client, the gateway and the workers together: what one relies on the other for."""

import functools
import json
from collections.abc import Iterator
from typing import Any

import pytest

from axonrl.serving import AuthenticationError, Conflict, InvalidRequest, NotFound, RemoteAgent
from axonrl.tests.experiments.sharing import wait
from axonrl.tests.raising import raised

from .commands import Commands
from .experience import batch, step
from .for_accounts import PASSWORD
from .service import SMALL, Service, timesteps

pytestmark = pytest.mark.server
ZEROS = [0.0] * 4


@pytest.fixture
def a(server: Service) -> Iterator[RemoteAgent]:
    with server.agent("a", **SMALL) as agent:
        agent.remove(agent_name="a")
        yield agent


def test_the_life_of_an_agent(server: Service, a: RemoteAgent) -> None:
    assert a.exists is False
    created = a.create_agent(4, 2, "DQN")
    assert (created["name"], created["model"], created["is_active"], created["discrete"]) == ("a", "dqn", True, True)
    assert (a.exists, a.is_active) == (True, True)
    conflict = raised(Conflict, a.create_agent, 4, 2, "dqn")
    assert (conflict.status, conflict.code) == (409, "name_taken")
    assert a.act(ZEROS) in (0, 1)
    assert a.step(*step(0), key="k") is a.step(*step(0), key="k") is True
    assert raised(InvalidRequest, a.step, *step(1), key="k").code == "idempotency_key_reused"
    assert timesteps(a) == 1
    assert a.step_batch(*batch(1, 30)) == 29
    with server.agent("a") as second:  # which was told nothing
        second.sync()
        assert (second.state_size, second.action_size, second.agent_model) == (4, 2, "dqn")
        assert second.hparams == a.hparams
        assert {type(value) for value in a.hparams.values()} <= {int, float, str}
    state = a.get_state()
    a.deactivate()
    assert raised(Conflict, a.act, ZEROS).code == "agent_inactive"
    a.activate()
    assert a.get_state() == state
    assert a.upload_state(state) is True
    assert timesteps(a) == 30
    assert a.remove(agent_name="a") is True
    raised(NotFound, a.info)


def test_nobody_else_can_read_what_is_kept(server: Service, a: RemoteAgent) -> None:
    a.create_agent(4, 2, "dqn")
    a.step_batch(*batch(0, 10))
    a.deactivate()  # is saved
    a.activate()
    a.step(*step(10))
    folder = server.folder("a")
    kept: dict[Any, int] = {path: path.stat().st_mode & 0o777 for path in (folder.parent, folder, *folder.rglob("*"))}
    assert {path.name for path in kept} >= {"run.json", "state.json", "arrays.safetensors", "lock", "journal"}
    assert {path: oct(mode) for path, mode in kept.items() if mode != (0o700 if path.is_dir() else 0o600)} == {}


def test_what_commands_change_holds_while_the_service_runs(server: Service, commands: Commands) -> None:
    def command(*words: str, stdin: str = "") -> str:
        done = commands.on(server.data)(*words, stdin=stdin)
        assert done.code == 0, done.err
        return done.out

    def client(name: str = "carol", **more: Any) -> RemoteAgent:
        given = more or {"username": name, "password": PASSWORD}
        return RemoteAgent("cart", url=server.url, retry_deadline=0.0, **given)

    for name in ("carol", "bob"):
        command("add-user", name, "--password-stdin", stdin=f"{PASSWORD}\n")
    made = command("create-token", "carol", "--name", "game", "--scopes", "act,read").strip()
    kept = command("create-token", "carol", "--name", "another", "--scopes", "read").strip()
    carol, bob = client(), client("bob")  # a login asks for what is new in the database
    game, other = client(access_token=made), client(access_token=kept)
    assert [one.exists for one in (carol, bob, game, other)] == [False] * 4
    listed = json.loads(command("list-tokens", "carol", "--json"))
    (id,) = (one["id"] for one in listed if one["name"] == "game")
    command("revoke-token", id)
    command("set-password", "carol", "--password-stdin", stdin="another horse battery\n")
    command("disable-user", "bob")
    for ended in (game, carol, bob):
        wait(functools.partial(is_refused, ended))
    assert other.exists is False  # a token that was made is not a login
    for name in ("carol", "bob"):
        assert raised(AuthenticationError, client, name).code == "invalid_credentials"
    again = client(username="carol", password="another horse battery")
    assert again.exists is False
    for one in (carol, bob, game, other, again):
        one.close()
    tokens = json.loads(command("list-tokens", "carol", "--json"))
    assert [one["name"] for one in tokens if one["revoked_at"] is None] == ["another"]  # closed logins have ended


def is_refused(client: RemoteAgent) -> bool:
    try:
        client.exists  # noqa: B018
    except AuthenticationError as error:
        return (error.status, error.code) == (401, "invalid_token")
    return False
