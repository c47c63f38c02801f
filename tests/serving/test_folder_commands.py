"""Commands about whole folders: import-run, export-policy, backup, verify."""

import base64
import contextlib
import dataclasses
import json
import resource
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
import safetensors.numpy

from axonrl import Agent, RunConfig
from axonrl.experiments.commands.cli import main
from axonrl.memories import ReplayMemory
from axonrl.models.blocks.params import parameters_of
from axonrl.policies import Policy, compiled
from axonrl.run_dir import record
from axonrl.serving.accounts import names
from axonrl.serving.catalogue import Recipe, recipe
from axonrl.serving.catalogue.run_configuration import config_of
from axonrl.serving.commands import backup
from axonrl.serving.hosting import agent_files
from axonrl.serving.hosting.agent import HostedAgent
from axonrl.serving.hosting.programs import program_of

from .commands import Commands
from .experience import step
from .hosted import DQN, Built, Host, body, learn, timesteps
from .live import Server, agent, prepared, running, with_agent
from .postgresql import PostgreSQL
from .service import SMALL

pytestmark = pytest.mark.usefixtures("quick_hashes")

PARAMS = {"hidden": [8], "learning_rate": 3e-4, "target_update_rate": 0.002, "max_gradient_norm": 10.0}
OBSERVATIONS = np.random.default_rng(0).normal(size=(20, 4)).astype(np.float32)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of 300 timesteps; its last episode has not ended."""
    folder = tmp_path_factory.mktemp("runs") / "cartpole"
    trained = Agent("dqn", ReplayMemory(500, batch_size=8), folder, RunConfig(seed=0), PARAMS)
    trained.train("CartPole-v1", first_update=20, update_frequency=2, max_timesteps=300)
    return folder


def test_a_run_goes_on_as_an_agent(run: Path, commands: Commands, built: Built, programs: Path, tmp_path: Path) -> None:
    made = built("dqn", DQN)
    prepared(commands.data, programs, made)
    words = ["import-run", str(run), "--user", "alice", "--name", "cart"]
    told = commands.json(*words)
    assert told["counters"] == {"global_timestep": 300, "global_step": 141, "global_episode": told_episodes(run)}
    assert told["memory"] == 300
    assert commands(*words)[0] == 1  # its name is taken
    (row,) = commands.json("list-agents")
    assert (row["id"], row["model"], row["status"]) == (told["id"], "dqn", "ready")
    assert {path.name for path in (commands.data / "agents").iterdir()} == {told["id"]}
    assert readable_by_others(commands.data / "agents" / told["id"]) == []
    config = told["config"]
    assert (config["state_size"], config["action_size"], config["seed"]) == (4, 2, 0)
    assert (config["warm_up"], config["update_freq"], config["buffer_size"], config["lr"]) == (20, 2, 500, 3e-4)
    trained = Agent.load(run)
    before = [trained.act(one) for one in OBSERVATIONS]
    with opened(commands.data / "agents" / told["id"], programs) as hosted:
        counters = hosted.info().value["counters"]
        assert counters == {"global_timestep": 300, "global_step": 141, "global_episode": told_episodes(run)}
        acted = [hosted.act(json.dumps(one.tolist()).encode()).value["action"][0] for one in OBSERVATIONS]
        assert acted == before
        assert learned_alike(hosted, run, made, programs)
        acted = [hosted.act(json.dumps(one.tolist()).encode()).value["action"][0] for one in OBSERVATIONS]
    assert commands("export-policy", "alice/cart", str(tmp_path / "policy"))[0] == 0
    policy = Policy.load(tmp_path / "policy")
    assert [policy.act(one) for one in OBSERVATIONS] == acted
    assert commands("export-policy", "alice/nosuch", str(tmp_path / "policy"))[0] == 1
    assert commands("export-policy", "alice/cart", str(tmp_path / "data"))[0] == 2


def test_a_quota_of_the_account_limits_imports_and_no_default_does(
    run: Path, commands: Commands, built: Built, programs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(cast(dict[str, int], names.QUOTAS), "agents", 1)  # a service may have another default
    prepared(commands.data, programs, built("dqn", DQN))
    words = ["import-run", str(run), "--user", "alice", "--name"]
    assert [commands(*words, name)[0] for name in "ab"] == [0, 0]
    commands("set-quota", "alice", "agents=2")
    code, _, err = commands(*words, "c")
    assert (code, err) == (1, "axonrl: error: The account has 2 agents, and its quota is 2\n")
    assert [row["name"] for row in commands.json("list-agents")] == ["a", "b"]


def readable_by_others(folder: Path) -> list[Path]:
    return [path for path in (folder, *folder.rglob("*")) if path.stat().st_mode & 0o077]


def opened(path: Path, programs: Path) -> contextlib.closing[HostedAgent]:
    return contextlib.closing(Host(programs, path.parent).open(path.name))


def told_episodes(run: Path) -> int:
    return len((run / "episodes.csv").read_text().splitlines()) - 1


def learned_alike(hosted: HostedAgent, run: Path, made: Recipe, programs: Path) -> bool:
    """The next 20 timesteps teach it what they teach the run: memory, generators and schedule have come along."""
    from axonrl.estimators.limits import UpdateSchedule
    from axonrl.estimators.stepper import Stepper
    from axonrl.run_dir.checkpoints import CheckpointStore

    memory = ReplayMemory(500, batch_size=8)
    stepper = Stepper.load(program_of(made, programs), memory, schedule=UpdateSchedule(20, 2))
    found = CheckpointStore(run).open()
    assert found is not None
    stepper.load_state_dict(found[1])
    memory.cut()
    for k in range(20):
        state, action, reward, after, done = step(k)
        hosted.step(body(k), None)
        row = {"observation": np.asarray(state, np.float32), "action": np.int64(action), "reward": reward}
        row |= {"next_observation": np.asarray(after, np.float32), "terminated": done, "truncated": False}
        learn(stepper, row)
    mine = safetensors.numpy.load(base64.b64decode(hosted.get_state().value["encoded_network"]))
    other = stepper.weights()
    return set(mine) == set(other) and all(np.array_equal(mine[name], other[name]) for name in other)


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"model_fn": "r2d2"}, "r2d2"),
        ({"num_envs": 4}, "num_envs"),
        ({"unrecorded": ["network"]}, "network"),
        ({"memory": {"kind": "hindsight", "size": 500}}, "hindsight"),
        ({"memory": {"kind": "replay", "size": 500, "batch_size": 8, "frame_stack": 4}}, "frame_stack"),
        ({"action_space": {"type": "Discrete", "n": 2, "start": 1, "dtype": "int64"}}, "begins at 0"),
    ],
)
def test_what_cannot_be_hosted_is_refused_with_the_reason(
    run: Path, commands: Commands, tmp_path: Path, programs: Path, changes: dict[str, Any], named: str
) -> None:
    prepared(commands.data, programs)
    copy = tmp_path / "run"
    shutil.copytree(run, copy)
    told = json.loads((copy / "run.json").read_text())
    (copy / "run.json").write_text(json.dumps(told | changes))
    words = ["--user", "alice", "--name", "cart", "--first-update", "20", "--update-frequency", "2"]
    code, _, err = commands("import-run", str(copy), *words)
    assert code == 2
    assert named in err
    assert commands.json("list-agents") == []
    assert not (commands.data / "agents").exists()


def test_the_way_back_from_axonrls_names(run: Path) -> None:
    """Parameters that the run did not name have the algorithm's defaults, not those of hosted agents."""
    found = record.read(run)
    assert found is not None
    for model, params in (("dqn", {}), ("sac", {"hidden": [8]}), ("ppo", {"epochs": 3}), ("rainbow", {})):
        memory = {"kind": "replay", "size": 1000, "batch_size": 32, "discount": 0.9, "n_step": 3, "path": "somewhere"}
        if model == "ppo":
            memory = {"kind": "batch", "size": 128, "batch_size": 128, "discount": 0.9}
        one = dataclasses.replace(found, model_fn=model, params=params, memory=memory)
        made = recipe(model, config_of(one, 50, 5))
        own = {name: one.default for name, one in parameters_of(model).items()} | params
        assert {name: value for name, value in made.params.items() if value != own[name]} == {}
        assert {name: value for name, value in memory.items() if name in made.memory} == {
            name: value for name, value in made.memory.items() if name in memory
        }
        assert (made.seed, made.action["n"]) == (0, 2)
        if model != "ppo":
            assert (made.first_update, made.update_frequency) == (50, 5)


@pytest.mark.server
def test_a_backup_while_steps_arrive_has_all_that_was_acknowledged_before(
    commands: Commands, built: Built, programs: Path, tmp_path: Path
) -> None:
    token = prepared(commands.data, programs, built("dqn", DQN))
    target, stop = tmp_path / "backup", threading.Event()
    counted = 0

    def stepping() -> None:
        nonlocal counted
        with agent(server, token) as mine:
            while not stop.is_set():
                mine.step([counted / 1000, 0.0, 0.0, 0.0], counted % 2, 1.0, [0.0] * 4, counted % 10 == 9)
                counted += 1
                enough[counted > 200].set()

    enough = {False: threading.Event(), True: threading.Event()}
    # Checkpoints all the time: the server removes what is being copied.
    sets = ("--set", "agents.checkpoint_steps=5", "--set", "limits.steps_per_second=0")
    with running(Server(commands.data, *sets)) as server:
        agent(server, token, **SMALL).create_agent(4, 2, "dqn")
        player = threading.Thread(target=stepping)
        player.start()
        try:
            assert enough[True].wait(60)
            before = counted
            told = commands.json("backup", str(target))
            after = counted
            assert commands.json("verify")["damages"] == []  # of what is in use
        finally:
            stop.set()
            player.join()
    assert (told["agents"], told["damages"]) == (1, [])
    assert readable_by_others(target / "agents") == []  # programs are links to what this test has written
    assert after > before  # or this tests nothing
    shutil.rmtree(commands.data)
    restored = commands.on(target)
    assert restored.json("verify") == {"agents": 1, "damages": []}
    (row,) = restored.json("list-agents")
    with opened(target / "agents" / row["id"], target / "programs") as mine:
        assert before <= timesteps(mine) <= counted
        assert mine.act(b"[0.1, 0.2, 0.3, 0.4]").value["action"] in ([0], [1])
    assert commands("backup", str(tmp_path / "no"))[0] == 2  # no data folder


def test_a_backup_does_not_replace_anything(commands: Commands, programs: Path, tmp_path: Path) -> None:
    prepared(commands.data, programs)
    (tmp_path / "there").mkdir()
    (tmp_path / "there" / "file").touch()
    assert commands("backup", str(tmp_path / "there"))[0] == 2
    assert commands("backup", str(commands.data / "backup"))[0] == 2
    (tmp_path / "link").symlink_to(commands.data)
    assert commands.on(tmp_path / "link")("backup", str(tmp_path / "link" / "backup"))[0] == 2
    assert [path.name for path in (tmp_path / "there").iterdir()] == ["file"]
    assert commands("backup", str(tmp_path / "new"))[0] == 0
    assert (tmp_path / "new").stat().st_mode & 0o777 == 0o700
    assert (tmp_path / "new" / "service.db").stat().st_mode & 0o777 == 0o600
    (tmp_path / "empty").mkdir()
    (tmp_path / "latest").symlink_to("empty")
    assert commands("backup", str(tmp_path / "latest"))[0] == 0
    assert (tmp_path / "empty" / "service.db").exists()


def test_a_backup_lacks_a_program_that_is_removed_meanwhile(
    commands: Commands, programs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    prepared(commands.data, programs)
    for name in ("gone", "kept"):
        (commands.data / "programs" / name).mkdir(parents=True)
        (commands.data / "programs" / name / compiled.FILE).touch()

    def link_tree(source: Path, target: Path) -> None:
        if source.name == "gone":
            target.mkdir(parents=True)
            shutil.rmtree(source)
        agent_files.link_tree(source, target)

    monkeypatch.setattr(backup, "link_tree", link_tree)
    assert commands("backup", str(tmp_path / "new"))[0] == 0
    assert {path.name for path in (tmp_path / "new" / "programs").iterdir()} == {"kept"}


@contextlib.contextmanager
def files_of(size: int) -> Iterator[None]:
    """No file of this process can be written beyond so many bytes, as on a disk that is full."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_files_and_disks_that_cannot_be_used_are_named_and_keep_what_they_had(
    commands: Commands, programs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    prepared(commands.data, programs)
    data, target, text, missing = commands.data, tmp_path / "new", tmp_path / "text.pem", tmp_path / "no #such.pem"
    text.write_text("no PEM")
    before = {path: path.read_bytes() for path in data.iterdir() if path.is_file()}

    def serve(*options: object) -> tuple[int, str]:
        code = main(["serve", "--data", str(data), "--port", "0", *map(str, options)])
        return code, capsys.readouterr().err

    for cert, key, named in ((missing, text, missing), (text, tmp_path, tmp_path), (text, text, text)):
        code, err = serve("--tls-cert", cert, "--tls-key", key)
        assert (code, f"error: {named}" in err) == (2, True), err
    with files_of(0):
        told = [serve(), commands("verify")[::2]]
    with files_of(60_000):  # the database has more
        told += [commands("backup", str(target))[::2]]
    for (code, err), path in zip(told, (data, data, target.name), strict=True):
        assert (code, str(path) in err) == (2, True), err
    assert [path.name for path in tmp_path.iterdir() if target.name in path.name] == []
    assert {path: path.read_bytes() for path in before} == before
    assert commands.json("verify") == {"agents": 0, "damages": []}


def test_postgresql_is_left_to_its_own_tool(commands: Commands, postgresql: PostgreSQL, tmp_path: Path) -> None:
    url = postgresql.new()
    assert commands("migrate", "--database", url)[0] == 0
    code, _, err = commands("backup", str(tmp_path / "new"), "--database", url)
    assert code == 2
    assert "pg_dump" in err
    assert commands("backup", str(tmp_path / "new"), "--without-database", "--database", url)[0] == 0
    assert not (tmp_path / "new" / "service.db").exists()


@pytest.fixture
def damaged(commands: Commands, built: Built, programs: Path) -> Path:
    """The folder of an agent with two checkpoints, and 20 records in its journal."""
    prepared(commands.data, programs)
    row = with_agent(commands.data)
    hosted = Host(programs, commands.data / "agents").open(row.id, built("dqn", DQN))
    for k in range(40):  # in records of one size
        hosted.step(body(k, state=[0.0] * 4, action=[0], reward=float(k), next_state=[1.0] * 4, done=False), None)
        if k in (9, 19):
            hosted.save()
    hosted.abandon()
    return hosted._folder.path


def test_damage_is_reported_by_file_and_offset(commands: Commands, damaged: Path) -> None:
    assert commands.json("verify") == {"agents": 1, "damages": []}
    journal = sorted((damaged / "journal").iterdir())[-1]
    content = journal.read_bytes()
    size = (len(content) - 25) // 20
    journal.write_bytes(content[:-5])
    assert commands.json("verify") == {"agents": 1, "damages": []}  # cut short: nobody was told that it is kept
    assert journal.read_bytes() == content[:-5]  # and left as it is
    at = 25 + 7 * size
    journal.write_bytes(content[: at + 40] + bytes([content[at + 40] ^ 1]) + content[at + 41 :])
    (damage,) = commands.json("verify", code=1)["damages"]
    assert (damage["agent"], damage["file"], damage["offset"]) == ("alice/cart", str(journal), at)
    journal.write_bytes(content)
    newest = sorted((damaged / "checkpoints").iterdir())[-1]
    arrays = newest / "arrays.safetensors"
    arrays.write_bytes(arrays.read_bytes()[:-1])
    (damage,) = commands.json("verify", code=1)["damages"]
    assert (damage["file"], damage["offset"]) == (str(newest), None)
    assert arrays.name in damage["what"]
    first = sorted((damaged / "journal").iterdir())[0]
    first.unlink()
    assert len(commands.json("verify", code=1)["damages"]) == 2  # the older checkpoint has no way to what is newer
    shutil.rmtree(damaged)
    (damage,) = commands.json("verify", code=1)["damages"]
    assert damage["file"] == str(damaged)
