import contextlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

from axonrl.serving.accounts import Accounts, AgentRows, folder, open_service, tokens

from .commands import Commands
from .for_accounts import PASSWORD
from .live import with_agent
from .postgresql import PostgreSQL

pytestmark = pytest.mark.usefixtures("quick_hashes")


@pytest.fixture
def alice(commands: Commands) -> None:
    assert commands("add-user", "alice", "--password-stdin", stdin=f"{PASSWORD}\n").code == 0


def test_a_first_command_creates_the_folder(commands: Commands, tmp_path: Path) -> None:
    told = commands("add-user", "root", "--admin", "--password-stdin", "--json", stdin=f"{PASSWORD}\r\n").json()
    assert (told["name"], told["role"]) == ("root", "admin")
    (row,) = commands.json("list-users")
    assert (row["name"], row["role"], row["disabled"]) == ("root", "admin", False)
    with contextlib.closing(open_service(tmp_path / "data")) as opened:
        assert Accounts(opened).login("root", PASSWORD, "")


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
        (["audit", "--last", "9" * 19], "", 2),
        (["list-users", "--data", "nosuch"], "", 2),
    ],
)
def test_what_is_refused(commands: Commands, words: list[str], stdin: str, code: int) -> None:
    told = commands(*words, stdin=stdin)
    assert (told.code, told.out) == (code, "")
    assert len(told.err.splitlines()[-1]) > 20
    assert "Traceback" not in told.err
    assert [row["name"] for row in commands.json("list-users")] == ["alice"]
    assert commands.json("list-tokens") == []


@pytest.mark.usefixtures("alice")
def test_a_token_alone_is_printed(commands: Commands) -> None:
    words = ["--name", "game", "--scopes", "act,learn", "--agents", "cart,pole", "--expires", "12h"]
    text = commands("create-token", "alice", *words).out
    assert text.endswith("\n")
    assert tokens.is_token(text[:-1])
    (row,) = commands.json("list-tokens")
    assert (row["scopes"], row["agents"], row["last_four"]) == (["act", "learn"], ["cart", "pole"], text[-5:-1])
    assert commands("revoke-token", text[:-1]).code == 2
    assert commands("revoke-token", row["id"]).code == 0
    (row,) = commands.json("list-tokens", "alice")
    assert row["revoked_at"] is not None
    assert text[:-1] not in commands("list-tokens").out


@pytest.mark.usefixtures("alice")
def test_accounts_are_changed(commands: Commands, tmp_path: Path) -> None:
    assert commands.json("set-quota", "alice", "agents=5", "bytes=0")["quotas"]["agents"] == 5
    assert commands("set-quota", "alice", "agents=6").out == "Quotas of alice: agents=6, bytes=0, else the service's\n"
    assert commands.json("set-quota", "alice", "agents=default")["quotas"]["agents"] == 100
    assert commands("set-password", "alice", "--password-stdin", stdin="another horse battery\n").code == 0
    assert commands("disable-user", "alice").code == 0
    (row,) = commands.json("list-users")
    assert (row["disabled"], row["quotas"], row["usage"]) == (True, {"bytes": 0}, {"agents": 0, "bytes": 0})
    assert commands("enable-user", "alice").code == 0
    with contextlib.closing(open_service(tmp_path / "data")) as opened:
        assert Accounts(opened).login("alice", "another horse battery", "")
    whats = [row["what"] for row in commands("audit", "--json", "--last", "4").json()]
    assert whats == ["user.set_password", "user.disable", "user.enable", "login"]
    assert commands("audit").out.splitlines()[1].split()[1:4] == ["command", "line:", os.environ.get("USER", "root")]


@pytest.mark.usefixtures("alice")
def test_an_agent_is_removed_with_its_folder(commands: Commands, tmp_path: Path) -> None:
    data = tmp_path / "data"
    agent = with_agent(data)
    (data / "agents" / agent.id / "journal").mkdir(parents=True)
    (row,) = commands.json("list-agents", "alice")
    assert (row["user"], row["name"], row["model"], row["id"]) == ("alice", "cart", "dqn", agent.id)
    assert commands.json("remove-agent", "alice/cart", "--yes") == {"removed": "alice/cart"}
    assert list((data / "agents").iterdir()) == []
    with contextlib.closing(open_service(data)) as opened:
        assert AgentRows(opened).by_id(agent.id) is None


@pytest.mark.usefixtures("alice")
@pytest.mark.parametrize("words", [["remove-agent", "alice/cart", "--yes"], ["remove-user", "alice", "--yes"]])
def test_a_running_server_removes_agents_itself(commands: Commands, tmp_path: Path, words: list[str]) -> None:
    data = tmp_path / "data"
    agent = with_agent(data)
    (data / "agents" / agent.id / "journal").mkdir(parents=True)
    with folder.holding(data):
        assert commands(*words).code == 0
        assert commands.json("list-agents") == []
        assert commands("migrate").code == 2
    assert (data / "agents" / agent.id).is_dir()
    with contextlib.closing(open_service(data)) as opened:
        assert [row.id for row in AgentRows(opened).all_unfinished()] == [agent.id]


@pytest.mark.parametrize("words", [["list-users"], ["verify"], ["backup", "copy"], ["audit"]])
def test_a_folder_of_something_else_stays_as_it_is(commands: Commands, tmp_path: Path, words: list[str]) -> None:
    other = tmp_path / "other"
    other.mkdir()
    other.chmod(0o755)
    (other / "notes.txt").touch()
    told = commands.on(other)(*words)
    assert (told.code, told.out) == (2, "")
    assert told.err == (
        f"axonrl: error: Data folder {other} has no service. Name it with --data, or create it with: axonrl service"
        " add-user NAME\n"
    )
    assert ([path.name for path in other.iterdir()], other.stat().st_mode & 0o777) == (["notes.txt"], 0o755)


def test_postgresql_by_url(commands: Commands, postgresql: PostgreSQL, tmp_path: Path) -> None:
    url = postgresql.new()
    assert commands("migrate", "--database", url).code == 0
    assert commands("add-user", "alice", "--password-stdin", "--database", url, stdin=PASSWORD).code == 0
    assert [row["name"] for row in commands("list-users", "--json", "--database", url).json()] == ["alice"]
    assert sorted(path.name for path in (tmp_path / "data").iterdir()) == ["audit.jsonl", "identity.json", "lock"]


def test_without_the_extra_it_says_what_to_install(tmp_path: Path) -> None:
    code = "import sys; sys.modules['sqlalchemy'] = None; from axonrl.experiments.commands.cli import main"
    command = [sys.executable, "-c", f"{code}; sys.exit(main(sys.argv[1:]))", "service", "list-users"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=240, cwd=tmp_path)
    assert done.returncode == 2
    assert "pip install 'axonrl[serving]'" in done.stderr
    assert list(tmp_path.iterdir()) == []
