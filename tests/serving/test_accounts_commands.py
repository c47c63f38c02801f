import io
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from axonrl.experiments.commands.cli import main
from axonrl.serving.accounts import Accounts, AgentRows, folder, open_service, tokens
from axonrl.serving.accounts.tables import Agent

from .for_accounts import PASSWORD
from .postgresql import PostgreSQL

pytestmark = pytest.mark.usefixtures("quick_hashes")


class Result:
    def __init__(self, code: int, out: str, err: str) -> None:
        self.code, self.out, self.err = code, out, err

    def json(self) -> Any:
        assert self.code == 0, self.err
        return json.loads(self.out)


@pytest.fixture
def service(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., Result]:
    """Runs ``axonrl service`` on the folder ``data``, with text on standard input."""
    monkeypatch.setenv("AXONRL_DATA", str(tmp_path / "data"))
    monkeypatch.delenv("AXONRL_DATABASE", raising=False)

    def run(*words: str, stdin: str = "") -> Result:
        monkeypatch.setattr(sys, "stdin", io.StringIO(stdin))
        try:
            code = main(["service", *words])
        except SystemExit as end:
            code = int(end.code or 0)
        told = capsys.readouterr()
        return Result(code, told.out, told.err)

    return run


@pytest.fixture
def alice(service: Callable[..., Result]) -> None:
    assert service("add-user", "alice", "--password-stdin", stdin=f"{PASSWORD}\n").code == 0


def with_agent(path: Path) -> Agent:
    opened = open_service(path)
    agent = AgentRows(opened).add(Accounts(opened).user("alice").id, "cart", "dqn", "", {})
    AgentRows(opened).set_status(agent.id, "ready")
    opened.close()
    (path / "agents" / agent.id / "journal").mkdir(parents=True)
    return agent


def test_a_first_command_creates_the_folder(service: Callable[..., Result], tmp_path: Path) -> None:
    told = service("add-user", "root", "--admin", "--password-stdin", "--json", stdin=f"{PASSWORD}\r\n").json()
    assert (told["name"], told["role"]) == ("root", "admin")
    (row,) = service("list-users", "--json").json()
    assert (row["name"], row["role"], row["disabled"]) == ("root", "admin", False)
    opened = open_service(tmp_path / "data")
    assert Accounts(opened).login("root", PASSWORD, "")
    opened.close()


@pytest.mark.usefixtures("alice")
@pytest.mark.parametrize(
    ("words", "stdin", "code"),
    [
        (["add-user", "alice", "--password-stdin"], PASSWORD, 1),
        (["add-user", "bob"], PASSWORD, 2),
        (["remove-user", "alice"], "", 2),
        (["set-quota", "alice", "agents=x"], "", 2),
        (["create-token", "alice", "--name", "x", "--expires", "90"], "", 2),
        (["remove-agent", "cart", "--yes"], "", 2),
        (["list-users", "--data", "nosuch"], "", 2),
    ],
)
def test_what_is_refused(service: Callable[..., Result], words: list[str], stdin: str, code: int) -> None:
    told = service(*words, stdin=stdin)
    assert (told.code, told.out) == (code, "")
    assert len(told.err.splitlines()[-1]) > 20
    assert "Traceback" not in told.err
    assert [row["name"] for row in service("list-users", "--json").json()] == ["alice"]
    assert service("list-tokens", "--json").json() == []


@pytest.mark.usefixtures("alice")
def test_a_token_alone_is_printed(service: Callable[..., Result]) -> None:
    words = ["--name", "game", "--scopes", "act,learn", "--agents", "cart,pole", "--expires", "12h"]
    text = service("create-token", "alice", *words).out
    assert text.endswith("\n")
    assert tokens.is_token(text[:-1])
    (row,) = service("list-tokens", "--json").json()

    assert (row["scopes"], row["agents"], row["last_four"]) == (["act", "learn"], ["cart", "pole"], text[-5:-1])
    assert service("revoke-token", text[:-1]).code == 2
    assert service("revoke-token", row["id"]).code == 0
    (row,) = service("list-tokens", "alice", "--json").json()
    assert row["revoked_at"] is not None
    assert text[:-1] not in service("list-tokens").out


@pytest.mark.usefixtures("alice")
def test_accounts_are_changed(service: Callable[..., Result], tmp_path: Path) -> None:
    assert service("set-quota", "alice", "agents=5", "bytes=0", "--json").json()["quotas"]["agents"] == 5
    assert service("set-quota", "alice", "agents=default", "--json").json()["quotas"]["agents"] == 100
    assert service("set-password", "alice", "--password-stdin", stdin="another horse battery\n").code == 0
    assert service("disable-user", "alice").code == 0
    (row,) = service("list-users", "--json").json()
    assert (row["disabled"], row["quotas"], row["usage"]) == (True, {"bytes": 0}, {"agents": 0, "bytes": 0})
    assert service("enable-user", "alice").code == 0
    opened = open_service(tmp_path / "data")
    assert Accounts(opened).login("alice", "another horse battery", "")
    opened.close()
    whats = [row["what"] for row in service("audit", "--json", "--last", "4").json()]
    assert whats == ["user.set_password", "user.disable", "user.enable", "login"]
    assert service("audit").out.splitlines()[1].split()[1:4] == ["command", "line:", os.environ.get("USER", "root")]


@pytest.mark.usefixtures("alice")
def test_an_agent_is_removed_with_its_folder(service: Callable[..., Result], tmp_path: Path) -> None:
    data = tmp_path / "data"
    agent = with_agent(data)
    (row,) = service("list-agents", "alice", "--json").json()
    assert (row["user"], row["name"], row["model"], row["id"]) == ("alice", "cart", "dqn", agent.id)
    assert service("remove-agent", "alice/cart", "--yes", "--json").json() == {"removed": "alice/cart"}
    assert list((data / "agents").iterdir()) == []
    opened = open_service(data)
    assert AgentRows(opened).by_id(agent.id) is None
    opened.close()


@pytest.mark.usefixtures("alice")
@pytest.mark.parametrize("words", [["remove-agent", "alice/cart", "--yes"], ["remove-user", "alice", "--yes"]])
def test_a_running_server_removes_agents_itself(
    service: Callable[..., Result], tmp_path: Path, words: list[str]
) -> None:
    data = tmp_path / "data"
    agent = with_agent(data)
    with folder.holding(data):
        assert service(*words).code == 0
        assert service("list-agents", "--json").json() == []
        assert service("migrate").code == 2
    assert (data / "agents" / agent.id).is_dir()
    opened = open_service(data)
    assert [row.id for row in AgentRows(opened).all_unfinished()] == [agent.id]
    opened.close()


def test_postgresql_by_url(service: Callable[..., Result], postgresql: PostgreSQL, tmp_path: Path) -> None:
    url = postgresql.new()
    assert service("migrate", "--database", url).code == 0
    assert service("add-user", "alice", "--password-stdin", "--database", url, stdin=PASSWORD).code == 0
    assert [row["name"] for row in service("list-users", "--json", "--database", url).json()] == ["alice"]
    assert sorted(path.name for path in (tmp_path / "data").iterdir()) == ["audit.jsonl", "identity.json", "lock"]


def test_without_the_extra_it_says_what_to_install(tmp_path: Path) -> None:
    code = "import sys; sys.modules['sqlalchemy'] = None; from axonrl.experiments.commands.cli import main"
    command = [sys.executable, "-c", f"{code}; sys.exit(main(sys.argv[1:]))", "service", "list-users"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60, cwd=tmp_path)
    assert done.returncode == 2
    assert "pip install 'axonrl[serving]'" in done.stderr
    assert list(tmp_path.iterdir()) == []
