"""What a hosted agent keeps, and what comes back after a crash, after damage, and for other processes."""

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
import safetensors.numpy

from axonrl import Agent
from axonrl.core.errors import CheckpointError
from axonrl.run_dir import history
from axonrl.run_dir.checkpoints import CheckpointStore
from axonrl.run_dir.files import make_folders
from axonrl.serving.hosting import agent_files
from axonrl.serving.hosting.agent import HostedAgent, to_bytes
from axonrl.serving.hosting.agent_store import Folder
from axonrl.serving.hosting.programs import ProgramMissingError, nbytes_for, remove_unused
from axonrl.tests.raising import raised

from .experience import step
from .hosted import DQN, PPO, Built, Host, body, feed, refused, timesteps, weights


@pytest.mark.parametrize(("model", "config"), [("dqn", DQN), ("dqn", {**DQN, "n_steps": 3}), ("ppo", PPO)])
def test_a_crash_loses_nothing(built: Built, host: Host, model: str, config: dict[str, Any]) -> None:
    recipe = built(model, config)
    agent, twin = host.open("a", recipe), host.open("twin", recipe)
    for begin in range(0, 120, 30):
        feed(agent, begin, begin + 30, environments=2)
        if begin == 30:
            agent.save()
        agent = host.again(agent, "a")
    feed(twin, 0, 120, environments=2)
    state, expected = agent.get_state().value, twin.get_state().value
    assert {name for name in expected if state[name] != expected[name]} == set()
    times = [[{**episode, "time": 0} for episode in one.episodes().value] for one in (agent, twin)]
    assert times[0] == times[1]


def test_programs_that_no_agent_uses_are_removed_after_a_time(built: Built, host: Host, tmp_path: Path) -> None:
    recipe = built("dqn", DQN)
    kept = tmp_path / "programs"
    shutil.copytree(host.programs / recipe.digest, kept / recipe.digest)
    host.programs = kept
    for name in "ab":
        host.open(name, recipe).abandon()
    host.open("b").abandon()  # again: it uses the program once
    agents, size = [host.folder / name for name in "abc"], sum(path.stat().st_size for path in kept.glob("*-*/**/*"))
    assert nbytes_for(agents, kept) == nbytes_for(agents[:1], kept) == size
    for age, name in ((100.0, "old"), (50.0, "newer"), (1.0, "new")):
        shutil.copytree(kept / recipe.digest, kept / name)
        os.utime(kept / name / "program.json", times=(0, time.time() - age))

    def there(seconds: float, most: int) -> list[str]:
        remove_unused(kept, seconds, most)
        return sorted(path.name for path in kept.iterdir())

    everything = sorted([recipe.digest, f"{recipe.digest}.users", "old", "newer", "new"])
    assert there(3600, 3 * size) == everything
    without = [name for name in everything if not name.startswith("old")]
    assert there(3600, 2 * size) == there(75, 3 * size) == without
    assert there(3600, 0) == [name for name in without if name != "newer"]  # an agent is about to use the new one
    shutil.rmtree(agents[0])
    assert there(0, 0) == sorted([recipe.digest, f"{recipe.digest}.users"])
    shutil.rmtree(agents[1])
    assert there(0, 0) == []
    assert nbytes_for(agents, kept) == 0
    with pytest.raises(ProgramMissingError):
        host.open("a", recipe)


def test_a_replay_says_that_it_gets_on(built: Built, host: Host) -> None:
    """By which a worker that replays a long journal is told from one that hangs."""
    feed(host.open("a", built("dqn", DQN)), 0, 30)
    host.agents[-1].abandon()
    calls = list[None]()
    agent = HostedAgent.open(host.folder / "a", host.stepper_of, beat=lambda: calls.append(None))
    host.agents.append(agent)
    assert len(calls) == 30  # records
    agent.finish()
    assert len(calls) == 30 + 30 + 30 + 23  # steps, transitions, and updates from the eighth step on


def test_a_key_is_applied_once_also_after_a_crash(built: Built, host: Host) -> None:
    agent = host.open("a", built("dqn", DQN))
    first = agent.step(body(0), "k")
    assert (first.value, first.replayed) == ({"accepted": 1, "seq": 1}, False)
    agent.step(body(1), "other")
    for _ in range(2):
        again = agent.step(body(0), "k")
        assert (again.value, again.replayed) == (first.value, True)
        agent = host.again(agent, "a")
    agent.save()
    agent = host.again(agent, "a")
    assert agent.step(body(0), "k").replayed
    assert refused(lambda: agent.step(body(0, reward=9.0), "k")).code == "idempotency_key_reused"
    assert timesteps(agent) == 2


def test_a_folder_is_open_in_one_process_at_a_time(built: Built, host: Host) -> None:
    agent = host.open("a", built("dqn", DQN))
    assert refused(lambda: host.open("a")).code == "unavailable"
    agent.close()
    host.open("a")


def known(agent: HostedAgent, path: Path) -> tuple[dict[str, Any], dict[str, Any], int]:
    """What is known of an agent without opening it, the same of what it says itself, and the bytes of its files."""
    files = [one for one in path.rglob("*") if one.is_file() and not one.name.startswith("lock")]
    found, info = agent_files.stored_info(path), agent.info().value
    return found, {name: info[name] for name in found}, sum(one.stat().st_size for one in files)


def test_what_is_known_without_opening_it_is_true_also_after_a_crash(built: Built, host: Host) -> None:
    path, agent = host.folder / "a", host.open("a", built("dqn", DQN))
    assert agent_files.stored_info(host.folder / "nosuch") == {}
    feed(agent, 0, 45)
    agent.save()
    found, said, size = known(agent, path)
    assert found == said
    assert found["counters"] == {"global_timestep": 45, "global_step": 38, "global_episode": 2}
    assert (found["bytes"], found["episode_return_mean"] is None) == (size, False)
    for begin in (45, 50):  # the journal of a process that was killed, and of the next one
        feed(agent, begin, begin + 5)
        found, said, size = known(agent, path)
        assert (found["bytes"], said["bytes"]) == (size, size)
        agent.abandon()
        assert found == agent_files.stored_info(path)
        assert found["counters"] == {"global_timestep": begin + 5, "global_step": 38, "global_episode": 2}
        agent = host.open("a")
        assert agent.info().value["bytes"] == size
    agent.close()
    found, said, size = known(agent, path)
    assert (found, found["bytes"]) == (said, size)
    assert found["counters"] == {"global_timestep": 55, "global_step": 48, "global_episode": 2}


def test_a_damaged_checkpoint_is_made_up_for_by_the_one_before_and_the_journal(built: Built, host: Host) -> None:
    """Also of an agent that was put away again and again: two checkpoints stay, and the journal between them."""
    agent = host.open("a", built("dqn", DQN))
    for begin in range(0, 60, 10):
        feed(agent, begin, begin + 10)
        agent.close()
        agent = host.open("a")
    folder = host.folder / "a"
    assert len(list((folder / "journal").iterdir())) == 1
    feed(agent, 60, 70)
    expected = weights(agent)
    counters = {"global_timestep": 70, "global_step": 53, "global_episode": 3}
    assert agent_files.stored_info(folder)["counters"] == counters
    older, newer = sorted((folder / "checkpoints").iterdir())
    (newer / "manifest.json").write_bytes(b"nothing")
    agent.abandon()
    counters = {"global_timestep": 70, "global_step": 43, "global_episode": 2}  # what the older one knows
    assert agent_files.stored_info(folder)["counters"] == counters
    with pytest.warns(UserWarning, match="damaged"):
        agent = host.again(agent, "a")
    assert weights(agent) == expected
    assert older.is_dir()


def test_a_copy_has_no_checkpoint_from_which_its_journal_does_not_go_on(
    built: Built, host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server saves the agent, and trims the journal, after its checkpoints are copied, and before its journal."""
    agent, copy = host.open("a", built("dqn", DQN)), host.folder / "copy"
    for begin in (0, 20):
        feed(agent, begin, begin + 20)
        agent.save()
    feed(agent, 40, 45)

    def meanwhile(path: Path) -> None:
        make_folders(path)
        if path == copy / "journal":
            agent.save()

    monkeypatch.setattr(agent_files, "make_folders", meanwhile)
    assert agent_files.copy_agent(host.folder / "a", copy)
    assert [path.name for path in (copy / "checkpoints").iterdir()] == ["checkpoint-00000003"]
    assert agent_files.check(copy) == []
    assert timesteps(host.open("copy")) == 45


def damage(agent: HostedAgent) -> Path:
    """Kill an agent, and flip a bit in the middle of its journal."""
    agent.abandon()
    (file,) = (agent._folder.path / "journal").iterdir()
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)
    return file


def test_a_damaged_record_is_named_and_what_is_before_it_goes_on(built: Built, host: Host) -> None:
    agent = host.open("a", built("dqn", DQN))
    feed(agent, 0, 10)
    file = damage(agent)
    agent = host.open("a")
    info = agent.info().value
    before = info["counters"]["global_timestep"]
    assert (info["status"], 3 < before < 7) == ("failed", True)
    unopened = agent_files.stored_info(host.folder / "a")
    assert (unopened["status"], unopened["counters"]["global_timestep"]) == ("failed", before)
    assert unopened["status_detail"] == info["status_detail"]
    assert str(file) in info["status_detail"]
    assert refused(lambda: agent.step(body(0), None)).code == "agent_failed"
    assert agent.act(b"[1, 2, 3, 4]").value["action"] in ([0], [1])
    assert agent.patch(None, recover=True).value == {"lost": 10 - before}
    agent.step(body(10), None)
    agent.sync()
    agent = host.again(agent, "a")
    assert timesteps(agent) == before + 1
    assert any(path.suffix != ".log" for path in file.parent.iterdir())  # nothing is thrown away


@pytest.mark.parametrize("do", ["recover", "put_state"])
def test_damage_is_still_named_if_the_disk_is_full_when_it_is_to_be_left_behind(
    built: Built, host: Host, monkeypatch: pytest.MonkeyPatch, do: str
) -> None:
    agent = host.open("a", built("dqn", DQN))
    state = to_bytes(agent.get_state().value)
    feed(agent, 0, 10)
    damage(agent)
    agent = host.open("a")
    before, failure = timesteps(agent), agent.failure
    calls = {
        "recover": lambda: agent.patch(None, recover=True),
        "put_state": lambda: agent.put_state(state, host.stepper_of),
    }

    def full(*_: Any) -> None:
        raise CheckpointError("the disk is full")

    with monkeypatch.context() as patched:
        patched.setattr(CheckpointStore, "save", full)
        raised(CheckpointError, calls[do])
    agent = host.again(agent, "a")
    assert (agent.failure, timesteps(agent)) == (failure, before)
    assert agent.patch(None, recover=True).value == {"lost": 10 - before}


def test_a_whole_record_that_is_none_of_this_agent_is_named_by_file_and_place(built: Built, host: Host) -> None:
    agent = host.open("a", built("dqn", DQN))
    feed(agent, 0, 3)
    first = agent._folder.journal.length
    agent._folder.journal.append(4, b"a record of something else")
    feed(agent, 3, 5)
    agent = host.again(agent, "a")
    (file,) = (host.folder / "a" / "journal").iterdir()
    assert agent.failure == f"{file} is damaged at byte {first}: 3 records from there on cannot be applied"


def test_updates_that_are_not_finite_stop_the_agent_not_its_acts(built: Built, host: Host) -> None:
    agent = host.open("a", built("dqn", {**DQN, "lr": 1e30}))
    initial = weights(agent)
    for k in range(40):
        if agent.failure is not None:
            break
        agent.step(body(k), None)
        agent.finish()
    assert "loss" in str(agent.failure)
    assert agent.act(b"[1, 2, 3, 4]").value["action"] in ([0], [1])
    agent = host.again(agent, "a")
    assert agent.failure is not None  # the journal leads there again
    assert agent.patch(None, recover=True).value["lost"] > 8
    assert agent.info().value["status"] == "ready"
    assert weights(agent) == initial
    assert timesteps(agent) == 0


def test_what_is_accepted_after_an_upload_is_kept_whatever_the_journal_had(built: Built, host: Host) -> None:
    recipe = built("dqn", DQN)
    giver = host.open("giver", recipe)
    feed(giver, 0, 40)
    state = to_bytes(giver.get_state().value)
    broken = host.open("damaged", recipe)
    feed(broken, 0, 10)
    damage(broken)
    diverged = host.open("diverged", built("dqn", {**DQN, "lr": 1e30}))
    feed(diverged, 0, 12)  # updates fail with the ninth step, and the journal has some behind it
    diverged.abandon()
    for name in ("damaged", "diverged"):
        agent = host.open(name)
        assert agent.failure is not None
        agent.put_state(state, host.stepper_of)
        assert agent.info().value["status"] == "ready"
        for k in range(40, 60):
            agent.step(body(k, environment="e0"), f"new-{k}")
        agent.sync()
        expected = agent.get_state().value
        agent = host.again(agent, name)
        assert (agent.failure, agent.get_state().value) == (None, expected)


def test_learning_can_be_switched_off(built: Built, host: Host) -> None:
    agent = host.open("a", built("dqn", DQN))
    agent.patch(False, recover=False)
    agent = host.again(agent, "a")
    assert refused(lambda: agent.step(body(0), None)).code == "learning_off"
    agent.patch(True, recover=False)
    agent.step(body(0), None)


def test_a_failed_agent_is_not_switched_off_only_until_it_continues(built: Built, host: Host) -> None:
    agent = host.open("a", built("dqn", DQN))
    feed(agent, 0, 10)
    damage(agent)
    agent = host.again(agent, "a")
    assert refused(lambda: agent.patch(False, recover=False)).code == "agent_failed"
    assert agent.info().value["learning"] is True
    assert agent.patch(False, recover=True).value["lost"] > 0
    assert host.again(agent, "a").info().value["learning"] is False


def test_its_folder_is_an_ordinary_run_folder(built: Built, host: Host) -> None:
    agent = host.open("a", built("dqn", DQN))
    feed(agent, 0, 30)
    agent.save()
    found = safetensors.numpy.load(weights(agent))
    agent.close()
    run = Agent(None, model_dir=host.folder / "a")
    for name, value in run.get_weights().items():
        np.testing.assert_array_equal(found[name], value)
    anything = gymnasium.spaces.Box(-np.inf, np.inf, (4,))
    env = gymnasium.wrappers.TransformObservation(gymnasium.make("CartPole-v1"), lambda seen: seen, anything)
    assert run.evaluate(env, episodes=1)["episode_return_mean"] >= 1


def test_episodes_are_rows_of_its_folder_once_each(built: Built, host: Host) -> None:
    """Also after a crash, whose replay brings them again, and a line that was cut short."""
    agent = host.open("a", built("dqn", DQN))
    feed(agent, 0, 50)
    agent.save()
    path = host.folder / "a" / "episodes.csv"
    path.write_text(path.read_text() + "3,6")
    feed(agent, 50, 70)
    agent = host.again(agent, "a")
    agent.save()
    feed(agent, 70, 90, environments=2)
    agent = host.again(agent, "a")
    agent.close()
    rows = history.read_episodes(host.folder / "a")
    returns = [sum(step(k)[2] for k in range(at - 20, at)) for at in (20, 40, 60)]
    # The last one is of e1: 71, 73 .. 79.
    assert [row[:2] + row[3:4] for row in rows] == [(1, 20, 20), (2, 40, 20), (3, 60, 20), (4, 80, 5)]
    assert [row.episode_return for row in rows[:3]] == pytest.approx(returns)
    giver = host.open("giver", built("dqn", DQN))
    giver.put_state(to_bytes(host.open("a").get_state().value), host.stepper_of)
    feed(giver, 90, 101)
    giver.close()
    assert [row[:2] for row in history.read_episodes(host.folder / "giver")] == [(5, 100)]


def test_an_upload_that_cannot_be_saved_leaves_the_history(
    built: Built, host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent, giver = host.open("a", built("dqn", DQN)), host.open("giver", built("dqn", DQN))
    feed(agent, 0, 40)
    agent.save()

    def full(*_: Any) -> None:
        raise CheckpointError("the disk is full")

    with monkeypatch.context() as patched:
        patched.setattr(CheckpointStore, "save", full)
        raised(CheckpointError, lambda: agent.put_state(to_bytes(giver.get_state().value), host.stepper_of))
    agent = host.again(agent, "a")
    feed(agent, 40, 60)
    agent.save()
    assert [row[:2] for row in history.read_episodes(host.folder / "a")] == [(1, 20), (2, 40), (3, 60)]


@pytest.mark.parametrize("instruction", ["save", "_prune"])
def test_a_kill_during_an_upload_leaves_one_history_or_the_other(
    built: Built, host: Host, monkeypatch: pytest.MonkeyPatch, instruction: str
) -> None:
    agent, giver = host.open("a", built("dqn", DQN)), host.open("giver", built("dqn", DQN))
    feed(agent, 0, 40)
    agent.save()
    feed(giver, 100, 120)
    state, call, killed = to_bytes(giver.get_state().value), getattr(CheckpointStore, instruction), host.folder / "k"

    def kill(store: CheckpointStore, *arguments: Any) -> Any:
        if not killed.exists():
            shutil.copytree(host.folder / "a", killed)
        return call(store, *arguments)

    monkeypatch.setattr(CheckpointStore, instruction, kill)
    agent.put_state(state, host.stepper_of)
    again = host.open("k")
    feed(again, 40, 60)
    again.save()
    was = [(1, 20), (2, 40), (3, 60)] if instruction == "save" else [(2, 40)]  # the giver's first is not here
    assert [row[:2] for row in history.read_episodes(killed)] == was
    assert not list(killed.glob(".episodes.csv*"))


def test_an_upload_that_was_not_described_is_described_when_the_agent_is_opened(
    built: Built, host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent, giver = host.open("a", built("dqn", DQN)), host.open("giver", built("dqn", {**DQN, "lr": 0.01, "seed": 1}))
    state = to_bytes(giver.get_state().value)

    def seed_and_rate() -> tuple[int, float]:
        described = json.loads((host.folder / "a" / "run.json").read_text())
        return described["seed"], described["params"]["learning_rate"]

    def killed(*_: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(Folder, "describe", killed)
        raised(KeyboardInterrupt, lambda: agent.put_state(state, host.stepper_of))
    assert seed_and_rate() == (0, 3e-4)
    host.again(agent, "a")
    assert seed_and_rate() == (1, 0.01)


def test_no_tensorflow_is_loaded(built: Built, host: Host, tmp_path: Path) -> None:
    recipe = built("dqn", DQN)
    recipe_file = tmp_path / "recipe.json"
    recipe_file.write_text(json.dumps(recipe.to_json()))
    program = f"""
import json, pathlib, sys
import axonrl.serving.workers.builder
from axonrl.serving.catalogue import Recipe, model_descriptions
from axonrl.serving.hosting.agent import HostedAgent
from axonrl.serving.hosting.programs import open_stepper
model_descriptions()
recipe = Recipe.from_json(json.loads(pathlib.Path({str(recipe_file)!r}).read_text()))
programs = pathlib.Path({str(host.programs)!r})
agent = HostedAgent.open(pathlib.Path({str(tmp_path / "a")!r}), lambda made, _: open_stepper(made, programs), recipe)
for _ in range(20):
    agent.step({body(0)!r}, None)
agent.act(b"[1, 2, 3, 4]")
agent.close()
print(sorted(name for name in ("tensorflow", "keras", "fastapi", "sqlalchemy") if name in sys.modules))
"""
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=240, check=False)
    assert (run.stdout.strip(), run.returncode) == ("[]", 0), run.stderr


def test_a_program_that_is_not_there_is_asked_for(built: Built, tmp_path: Path) -> None:
    recipe = built("dqn", DQN)
    assert raised(ProgramMissingError, Host(tmp_path / "empty", tmp_path / "agents").open, "a", recipe).recipe == recipe
    shutil.rmtree(tmp_path / "agents")
