"""Many seeds of one experiment, from the command line: compiled once, each as if it ran alone."""

import argparse
import contextlib
import functools
import json
import re
import shutil
import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from axonrl.core.yaml_text import to_yaml
from axonrl.errors import CheckpointError
from axonrl.experiments.commands import seeds as commands
from axonrl.experiments.commands.cli import main
from axonrl.experiments.config.schema import load
from axonrl.experiments.errors import ExperimentError
from axonrl.experiments.polyaxon.offline import run_path
from axonrl.experiments.running import runner
from axonrl.experiments.searches.runs import FINISHED, Outcome, run_experiment
from axonrl.experiments.searches.seeds import Seeds, prepare
from axonrl.experiments.tracking.journal import KILLED
from axonrl.run_dir.checkpoints import CheckpointStore
from axonrl.tests.experiments.fakes import TROUBLE
from axonrl.tests.experiments.sharing import command, tracked_run, tracking, wait, weights

SERVER = '''
from axonrl.experiments.tracking.trackers import StopRequestedError


class Server:
    """A tracker with a server, which is down at first; there, someone stops seed 6."""

    up = False

    def push(self, run):
        if not self.up:
            self.up = True
            raise OSError("the server is down")
        Path(f"{run.name}.json").write_text(json.dumps([run.status, (run.folder / "learning_curve.png").is_file()]))
        if run.name == "pole-seed-6":
            raise StopRequestedError("enough of it")


'''
FILE = """\
name: pole
seed: 4
environment: {id: CartPole-v1}
agent:
  model_fn: seeds_model:model_fn
  params: {hidden: [8]}
  memory: {kind: replay, size: 500, batch_size: 8}
config: {save_checkpoints_secs: null}
train: {first_update: 40, update_frequency: 2, max_timesteps: 300}
evaluate: {episodes: 2}
hooks: [progress, "users:Trouble"]
"""


def axonrl(place: Path, *arguments: str, plan: Mapping[str, Sequence[Any]] | None = None, env: Any = None) -> Any:
    (place / "plan.json").write_text(json.dumps(plan or {}))
    return subprocess.run(command(*arguments), cwd=place, capture_output=True, text=True, check=False, env=env)


def compile_arguments(place: Path, **more: Any) -> argparse.Namespace:
    return argparse.Namespace(file=str(place / "pole.yml"), params=[], sets=[], debug=False, **more)


def compile_here(place: Path, folder: Path, seeds: list[int]) -> int:
    return commands._compile_here(compile_arguments(place, command_line=[], directory=str(folder), seeds=seeds))


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the user's files."""
    folder = tmp_path_factory.mktemp("seeds")
    (folder / "users.py").write_text(TROUBLE + SERVER)
    (folder / "seeds_model.py").write_text("from axonrl.models.dqn import model_fn\n")
    (folder / "pole.yml").write_text(FILE)
    return folder


@pytest.fixture(scope="module")
def program(place: Path) -> Seeds:
    """Three seeds, compiled; none has begun. In this process: to load TensorFlow in another one takes seconds."""
    group = prepare(place / "runs/pole", load(place / "pole.yml", sets={"seeds": "3"})[0], resume=False)
    assert compile_here(place, group.compiled, group.seeds) == 0
    return group


@pytest.fixture(scope="module")
def first(place: Path, program: Seeds) -> Any:
    """Three seeds, of which the second fails and the third is killed."""
    plan = {"5": ("raise", 120), "6": ("kill", 150)}
    words = ("run", "pole.yml", "--resume", "--seeds", "3", "--jobs", "2", "--json")
    return axonrl(place, *words, plan=plan, env=tracking())


@pytest.fixture(scope="module")
def one_more(place: Path, first: Any) -> bytes:
    """A fourth seed is compiled; the program before."""
    folder = place / "runs" / "pole" / "compiled"
    before = (folder / "program.tflite").read_bytes()
    assert compile_here(place, folder, [9]) == 0
    return before


@pytest.fixture(scope="module")
def second(place: Path, one_more: bytes) -> Any:
    """They are resumed, with the fourth; the first one has lost its picture."""
    (place / "runs" / "pole" / "seed-4" / "learning_curve.png").unlink()
    return axonrl(place, "run", "pole.yml", "--resume", "--seeds", "4,5,6,9", "--json", env=tracking())


def test_all_seeds_are_compiled(program: Seeds) -> None:
    """By ``axonrl run`` in another process: the page about many seeds does so, in tests/test_docs.py."""
    kept = {path.stem for path in (program.compiled / "weights").iterdir()}
    assert kept >= {f"seed-{seed}" for seed in (4, 5, 6)}


def test_a_seed_that_fails_or_is_killed_does_not_stop_the_others(place: Path, first: Any) -> None:
    assert first.returncode == 1, first.stderr
    seeds = json.loads(first.stdout)["seeds"]
    assert {seed: found["status"] for seed, found in seeds.items()} == {"4": "finished", "5": "failed", "6": "killed"}
    assert seeds["4"]["timesteps"] == 300
    assert seeds["4"]["episode_return"] == seeds["4"]["evaluation"]["episode_return_mean"]
    why = seeds["5"]["message"]
    assert re.fullmatch(r"the disk is on fire \(users\.py:\d+, in after_timestep\)", why)
    assert seeds["6"]["message"] == "its process was ended by SIGKILL"
    output = Path("runs", "pole", "output", "seed-5.txt")
    assert f"Seed 5 failed: {why}. The last lines of {output}:" in first.stderr
    assert "trouble at 120" in (place / output).read_text()
    assert "1 of 3 seeds have finished. Continue with: axonrl run pole.yml" in first.stderr


def test_one_more_seed_shares_the_program(program: Seeds, one_more: bytes) -> None:
    assert (program.compiled / "program.tflite").read_bytes() == one_more
    assert (program.compiled / "weights" / "seed-9.safetensors").is_file()


def test_resuming_goes_on_with_those_that_are_unfinished(place: Path, second: Any) -> None:
    assert second.returncode == 0, second.stderr
    seeds = json.loads(second.stdout)["seeds"]
    assert {seed: (found["status"], found["timesteps"]) for seed, found in seeds.items()} == dict.fromkeys(
        "4569", ("finished", 300)
    )
    starts = [len(json.loads((place / f"runs/pole/seed-{seed}/starts.json").read_text())) for seed in (4, 5, 6, 9)]
    assert starts == [1, 2, 2, 1]
    returns = [one["episode_return"] for one in seeds.values()]
    assert json.loads(second.stdout)["together"]["mean"]["value"] == pytest.approx(sum(returns) / 4)
    assert json.loads(second.stdout)["learning_curves"] == "runs/pole/learning_curves.png"
    pictures = [path.parent.name for path in sorted((place / "runs" / "pole").glob("*/learning_curve.png"))]
    assert pictures == ["seed-4", "seed-5", "seed-6", "seed-9"]
    assert (place / "runs" / "pole" / "learning_curves.png").is_file()


def test_one_process_writes_the_trackers_files_of_all_seeds(place: Path, second: Any) -> None:
    """With the pictures, which are drawn after the seed's own process has ended."""
    for seed, statuses in {
        4: ["created", "running", "succeeded"],
        5: ["created", "running", "failed", "resuming", "running", "succeeded"],
        6: ["created", "running", "failed", "resuming", "running", "succeeded"],
        9: ["created", "running", "succeeded"],
    }.items():
        folder = place / "runs" / "pole" / f"seed-{seed}"
        run = tracked_run(folder)
        assert [status.status for status in run.statuses] == statuses
        kept = run_path(run)
        assert (kept / "outputs" / "learning_curve.png").read_bytes() == (folder / "learning_curve.png").read_bytes()
        found = json.loads((kept / "run.plx.json").read_text())
        assert [one["type"] for one in found["status_conditions"]] == statuses
        assert found["outputs"]["timesteps"] == 300
        if seed == 6:
            assert run.statuses[2].message == KILLED


def test_each_seed_is_the_run_that_it_would_be_alone(
    place: Path, second: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Traced and converted in this process; seed 6 was killed, and seed 9 came later."""
    monkeypatch.syspath_prepend(place)
    monkeypatch.chdir(place)
    for seed in ("6", "9"):
        experiment, document = load(place / "pole.yml", sets={"seed": seed})
        alone = runner.run(experiment, document, tmp_path / seed)
        folder = place / "runs" / "pole" / f"seed-{seed}"
        assert weights(folder) == weights(tmp_path / seed)
        assert alone.evaluation == json.loads(second.stdout)["seeds"][seed]["evaluation"]
        assert (folder / "experiment.yml").read_text() == (tmp_path / seed / "experiment.yml").read_text()


# -- stopped and killed: no TensorFlow from here on, the program is compiled ------------------------------------------


@pytest.fixture
def compiled(place: Path, second: Any, tmp_path: Path) -> Path:
    """Two of the seeds before any has begun, compiled."""
    for name in ("users.py", "seeds_model.py", "pole.yml", "runs/pole/seeds.yml", "runs/pole/compiled"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (shutil.copytree if (place / name).is_dir() else shutil.copy)(place / name, tmp_path / name)
    file = tmp_path / "runs" / "pole" / "seeds.yml"
    file.write_text(file.read_text().replace("\n- 9", "").replace("\n- 5", ""))
    return tmp_path


def begun(place: Path, what: str, when: int, jobs: int) -> Any:
    """A resumed start, of which as many seeds wait in the middle of their training."""
    (place / "plan.json").write_text(json.dumps(dict.fromkeys("46", (what, when))))
    for path in place.glob("begun-*"):
        path.unlink()
    resume = command("run", "pole.yml", "--resume", "--jobs", str(jobs))
    process = subprocess.Popen(resume, cwd=place, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    wait(lambda: len(list(place.glob("begun-*"))) == jobs or process.poll() is not None)
    assert process.poll() is None, process.communicate()
    return process


def statuses(place: Path) -> dict[str, str]:
    found = json.loads((place / "runs" / "pole" / "seeds.json").read_text())["seeds"]
    return {seed: one["status"] for seed, one in found.items()}


def has_ended(folder: Path) -> bool:
    """Does no process train this run any more?"""
    with contextlib.suppress(CheckpointError), CheckpointStore(folder).lock():
        return True
    return False


def test_ctrl_c_then_to_the_end(
    compiled: Path, place: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    process = begun(compiled, "wait", 50, jobs=1)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=240)
    assert process.returncode == 130, errors
    assert "axonrl: Ctrl-C: stopping and saving. Repeat to stop at once." in errors
    assert "Stopped by Ctrl-C. 0 of 2 seeds have finished. Continue with: axonrl run pole.yml --resume" in errors
    assert statuses(compiled) == {"4": "stopped", "6": "waiting"}
    assert not (compiled / "runs" / "pole" / "seed-6").exists()
    check_the_end(compiled, place, monkeypatch, capfd)


def test_kill_then_to_the_end(
    compiled: Path, place: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    process = begun(compiled, "wait", 80, jobs=1)
    store = CheckpointStore(compiled / "runs" / "pole" / "seed-4")
    before = store.newest()
    process.kill()
    process.communicate()
    wait(lambda: has_ended(compiled / "runs" / "pole" / "seed-4"))  # it notices, saves and ends
    after = store.newest()
    assert after is not None
    assert after > (before or 0)
    check_the_end(compiled, place, monkeypatch, capfd)


def check_the_end(
    compiled: Path, place: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Each seed has the weights of the run that was never stopped."""
    (compiled / "plan.json").unlink()
    monkeypatch.chdir(compiled)
    assert main(["run", "pole.yml", "--resume"]) == 0
    assert "TensorFlow" not in capfd.readouterr().err
    for seed in (4, 6):
        assert weights(compiled / "runs" / "pole" / f"seed-{seed}") == weights(place / "runs" / "pole" / f"seed-{seed}")


def test_a_second_signal_ends_at_once(compiled: Path) -> None:
    process = begun(compiled, "deaf", 50, jobs=2)
    process.send_signal(signal.SIGINT)
    while "stopping and saving" not in process.stderr.readline():
        assert process.poll() is None
    process.send_signal(signal.SIGTERM)
    _, errors = process.communicate(timeout=240)
    assert process.returncode == 143, errors
    assert "Stopped at once by SIGTERM. 0 of 2 seeds have finished. Continue with: axonrl run pole.yml" in errors
    for seed in (4, 6):
        wait(functools.partial(has_ended, compiled / "runs" / "pole" / f"seed-{seed}"))


def test_a_damaged_program_is_compiled_again(
    compiled: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """With the weights of all seeds that are to be run."""
    group = prepare(compiled / "runs" / "pole", load(compiled / "pole.yml")[0], resume=True)
    asked: list[Any] = []

    def started(main: Any, task: list[str]) -> Any:
        asked.append((json.loads(task[0])["seeds"], group.compiled.exists()))
        return subprocess.Popen(["true"], stdout=subprocess.PIPE)

    arguments = compile_arguments(compiled)
    monkeypatch.setattr(commands, "start_process", started)
    assert commands._compile(group, [6, 4], arguments) == 0
    assert asked == []
    (group.compiled / "weights" / "seed-6.safetensors").unlink()
    assert commands._compile(group, [6, 4], arguments) == 0
    assert asked.pop() == ([6], True)
    program = group.compiled / "program.tflite"
    program.write_bytes(program.read_bytes()[:-1] + b"x")
    assert commands._compile(group, [6, 4], arguments) == 0
    assert asked == [([4, 6], False)]
    assert capsys.readouterr().err.startswith(f"axonrl: warning: {program} is damaged")


def test_a_compiling_process_that_is_killed_is_told_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Also a new folder is removed, in which nothing has run."""
    monkeypatch.chdir(tmp_path)
    killed = ["sh", "-c", "kill -9 $$"]
    monkeypatch.setattr(commands, "start_process", lambda *_: subprocess.Popen(killed, stdout=subprocess.PIPE))
    assert main(["run", "dqn_cartpole", "--seeds", "2", "--model-dir", "pole"]) == 1
    told = "error: the process that compiles the training program was ended by SIGKILL"
    assert capsys.readouterr().err.splitlines()[-1] == f"axonrl: {told}"
    assert not Path("pole").exists()


def test_trackers_with_a_server_follow(compiled: Path, place: Path) -> None:
    """One process tells them of all seeds, and takes back that someone there stops one of them."""
    group = compiled / "runs" / "pole"
    with (compiled / "pole.yml").open("a") as file:
        file.write('tracker: ["users:Server"]\n')
    done = axonrl(compiled, "run", "pole.yml", "--resume", "--jobs", "2", plan={"6": ("wait", 50)}, env=tracking())
    assert done.returncode == 143, done.stderr
    assert statuses(compiled) == {"4": "finished", "6": "stopped"}
    assert "axonrl: seed 6: stopped, 50 timesteps: enough of it" in done.stderr
    assert json.loads((compiled / "pole-seed-6.json").read_text()) == ["stopped", False]
    assert weights(group / "seed-4") == weights(place / "runs" / "pole" / "seed-4")
    assert json.loads((compiled / "pole-seed-4.json").read_text()) == ["succeeded", True]
    warning = r"tracker users:Server: OSError: the server is down \(users\.py:\d+, in push\); retrying, and training"
    assert len(re.findall(rf"^axonrl: seed.*{warning} continues$", done.stderr, re.MULTILINE)) == 1


def test_what_is_finished_goes_on_only_to_a_larger_limit(place: Path, second: Any, tmp_path: Path) -> None:
    """And a changed file is refused; seeds and their first one may change."""
    folder = Path(shutil.copytree(place / "runs" / "pole", tmp_path / "pole"))

    def unfinished(*, only: bool = False, **sets: str) -> list[int]:
        changed = {name.replace("__", "."): value for name, value in sets.items()}
        return prepare(folder, load(place / "pole.yml", sets=changed)[0], resume=True, only=only).unfinished()

    assert unfinished() == []
    assert unfinished(train__max_timesteps="299") == []
    assert unfinished(train__max_timesteps="301") == [4, 5, 6, 9]
    assert unfinished(train__max_timesteps="null", train__max_episodes="5") == [4, 5, 6, 9]
    assert unfinished(evaluate="null") == [4, 5, 6, 9]
    assert unfinished(seed="3", seeds="2") == [3]
    (folder / "seed-5" / "experiment.yml").write_text("{")
    shutil.rmtree(folder / "seed-6")
    assert unfinished() == [5, 6, 3]  # the process of 5 says what is wrong
    assert unfinished(seeds="[4, 6]", only=True) == [6]
    assert unfinished() == [5, 6, 3]
    with pytest.raises(ExperimentError, match=r"changed experiment: agent\.params\.hidden\.0 \(8 -> 9\)"):
        unfinished(agent__params__hidden="[9]")


def test_what_learned_from_data_goes_on_to_a_larger_limit_or_in_the_environment(tmp_path: Path) -> None:
    file = tmp_path / "file.yml"
    file.write_text(
        "environment: {id: CartPole-v1}\nagent: {model_fn: cql, memory: {kind: replay, size: 100, batch_size: 8}}\n"
        "seeds: [4]\nlearn: {data: a.npz, max_steps: 5}\n"
    )
    folder = tmp_path / "seed-4"
    folder.mkdir()
    written = run_experiment(file, {}, 4)[0].model_dump(exclude={"seeds"})
    (folder / "experiment.yml").write_text(to_yaml(written))
    for sets, left in (({}, []), ({"learn.max_steps": "6"}, [4]), ({"train.max_timesteps": "9"}, [4])):
        group = Seeds(tmp_path, load(file, sets=sets)[0], "", {4: Outcome(FINISHED)}, "", [4])
        assert group.unfinished() == left
