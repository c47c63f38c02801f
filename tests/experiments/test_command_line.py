"""The command axonrl: exit codes, messages and what is left behind. Training is a fake, but in the last tests."""

import json
import logging
import signal
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import pytest

from axonrl.experiments import cli, runner
from axonrl.experiments.history import read_episodes
from axonrl.hooks import Hook


@pytest.fixture(autouse=True)
def tensorflow_is_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing needs it where the Agent is a fake."""
    monkeypatch.setattr(cli, "load_tensorflow", lambda: None)


@pytest.fixture
def fast_curve(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "learning_curve", lambda folder, *_: (folder / "learning_curve.png").touch())


def axonrl(capfd: pytest.CaptureFixture[str], *words: object) -> tuple[int, str, str]:
    code = cli.main([str(word) for word in words])
    return (code, *capfd.readouterr())


@pytest.mark.usefixtures("agents", "fast_curve")
def test_a_run(run_file: Path, capfd: pytest.CaptureFixture[str]) -> None:
    code, out, err = axonrl(capfd, "run", run_file, "-P", "limit=6", "--set", "evaluate.episodes=3")
    assert (code, err) == (0, "")
    assert "evaluation return, 3 episodes 9.00 ± 1.50" in " ".join(out.split())
    assert out.splitlines()[-2:] == [
        "run folder:     runs/my_run",
        "learning curve: runs/my_run/learning_curve.png",
    ]
    assert len(read_episodes(Path("runs/my_run"))) == 3
    record = json.loads(Path("runs/my_run/record.json").read_text())[0]
    assert record["command"] == [
        *("axonrl", "run", str(run_file), "-P", "limit=6", "--set", "evaluate.episodes=3"),
    ]


@pytest.mark.usefixtures("agents", "fast_curve")
def test_the_same_again_needs_resume(run_file: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert axonrl(capfd, "run", run_file, "--model-dir", "d")[0] == 0
    code, _, err = axonrl(capfd, "run", run_file, "--model-dir", "d")
    assert code == 2
    assert err == (
        "axonrl: error: d: the run folder exists: go on with it by --resume, or choose another one by --model-dir\n"
    )
    assert axonrl(capfd, "run", run_file, "--model-dir", "d", "--resume")[0] == 0
    code, _, err = axonrl(capfd, "run", run_file, "--model-dir", "d", "--resume", "--set", "train.first_update=11")
    assert code == 2
    assert "train.first_update (10 -> 11)" in err
    code, _, err = axonrl(capfd, "run", run_file, "--model-dir", "other", "--resume")
    assert (code, err) == (2, "axonrl: error: other: there is no run to resume here; without --resume one begins\n")
    assert not Path("other").exists()


@pytest.mark.usefixtures("agents")
@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["run", "none.yml"], "none.yml: the file cannot be read: it does not exist"),
        (["run", "."], ".: the file cannot be read: it is a directory"),
        (
            ["check", "dqn_cartpol"],
            "dqn_cartpol: there is neither such a file nor an experiment of this name that ships",
        ),
        (["run", "file.yml", "-P", "limt=5"], "-P limt=5: params.limt: the file declares no param of this name; did"),
        (["check", "file.yml", "--set", "agent.memory.sise=5"], "agent.memory.sise: replay takes no such argument"),
        (["evaluate", "nowhere"], "nowhere: this is no folder of a run: it has no experiment.yml"),
    ],
)
def test_what_is_not_usable_is_exit_code_2(
    run_file: Path, capfd: pytest.CaptureFixture[str], words: list[str], message: str
) -> None:
    code, out, err = axonrl(capfd, *words)
    assert (code, out) == (2, "")
    assert message in err
    assert err.startswith("axonrl: error: ")
    assert err.count("\n") == 1
    assert not Path("runs").exists()


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["fly"],
        ["run"],
        ["run", "x.yml", "-P", "novalue"],
        ["run", "x.yml", "--set", "=1"],
        ["evaluate", "d", "--episodes", "0"],
        ["evaluate", "d", "--episodes", "many"],
        ["evaluate", "d", "--policy", "first"],
    ],
)
def test_wrong_arguments_are_exit_code_2(words: list[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        cli.main(words)
    assert caught.value.code == 2


def test_a_failure_is_one_paragraph(
    run_file: Path, agents: list[Any], failures: list[Exception], capfd: pytest.CaptureFixture[str]
) -> None:
    failures.append(ValueError("the environment\n  is broken"))
    code, out, err = axonrl(capfd, "run", run_file)
    assert (code, out) == (1, "")
    assert err == (
        "axonrl: error: the environment is broken\naxonrl: the run failed; it had not begun, and nothing is kept\n"
    )


@pytest.mark.usefixtures("agents")
def test_a_failure_that_is_not_the_users_says_its_type(
    run_file: Path, failures: list[Exception], capfd: pytest.CaptureFixture[str]
) -> None:
    failures.extend([KeyError("q"), KeyError("q")])
    code, _, err = axonrl(capfd, "run", run_file)
    assert code == 1
    assert err.startswith("axonrl: error: KeyError: 'q'; --debug shows where it comes from\n")
    assert "Traceback" not in err
    code, _, err = axonrl(capfd, "run", run_file, "--debug")
    assert code == 1
    assert err.startswith("Traceback")


@pytest.mark.usefixtures("agents")
def test_a_very_long_message_is_cut(
    run_file: Path, failures: list[Exception], capfd: pytest.CaptureFixture[str]
) -> None:
    failures.append(ValueError("x" * 10**6))
    assert len(axonrl(capfd, "run", run_file)[2]) < 2200


@pytest.mark.parametrize(("number", "name", "code"), [(2, "SIGINT", 130), (15, "SIGTERM", 143)])
def test_a_signal_stops_the_run_and_says_where_it_is(
    run_file: Path, agents: list[Any], capfd: pytest.CaptureFixture[str], number: int, name: str, code: int
) -> None:
    source = (
        "import signal\nclass Send:\n    def __init__(self, at, times=1):\n        self.at, self.times = at, times\n"
    )
    source += "    def after_timestep(self, session, facts):\n        if session.global_timestep == self.at:\n"
    source += f"            for _ in range(self.times):\n                signal.raise_signal({number})\n"
    (run_file.parent / "users_model.py").write_text(source + "def model_fn(features, labels, mode): ...\n")
    sys.path.append(str(run_file.parent))  # the fixture takes it off again
    sets = ("--set", "hooks=[{kind: 'users_model:Send', at: 7}]", "--set", "agent.params={}")
    found, out, err = axonrl(capfd, "run", run_file, "--model-dir", "once", *sets)
    assert (found, out) == (code, "")
    assert err.splitlines()[-1] == f"axonrl: stopped by {name} at timestep 8; it is saved in once: go on with --resume"
    assert agents[0].evaluations == []

    sets = ("--set", "hooks=[{kind: 'users_model:Send', at: 7, times: 2}]", "--set", "agent.params={}")
    found, _, err = axonrl(capfd, "run", run_file, "--model-dir", "twice", *sets)
    assert found == code
    assert err.splitlines()[-1] == f"axonrl: stopped at once by {name}; it is saved in twice: go on with --resume"
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


@pytest.mark.usefixtures("agents", "fast_curve")
def test_the_log_and_warnings_go_to_standard_error_during_a_command(
    run_file: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    class Talking(Hook):
        def begin(self, session: Any, facts: Any) -> None:
            logging.getLogger("axonrl.hooks").info("hello %d", 5)
            with warnings.catch_warnings():
                warnings.simplefilter("always")
                monkeypatch.setattr(warnings, "showwarning", _show)
                warnings.warn("take care", stacklevel=1)

    def _show(message: Any, category: Any, filename: Any, lineno: Any, *_: Any) -> None:
        sys.stderr.write(warnings.formatwarning(message, category, filename, lineno))

    monkeypatch.setattr(cli, "_report", lambda _: None)
    monkeypatch.setattr("axonrl.experiments.history.HistoryHook.begin", Talking.begin)
    logger = logging.getLogger("axonrl")
    before = (logger.level, list(logger.handlers), warnings.formatwarning)
    code, _, err = axonrl(capfd, "run", run_file)
    assert code == 0
    assert err.splitlines()[0].endswith(" hello 5")
    assert err.splitlines()[1] == "axonrl: warning: take care"
    assert (logger.level, logger.handlers, warnings.formatwarning) == before


@pytest.mark.usefixtures("agents")
def test_check(run_file: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert axonrl(capfd, "check", run_file) == (0, f"{run_file}: no errors\n", "")
    assert not Path("runs").exists()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"environment.id": "Pendulum-v1"}, "DQN needs a Discrete action space"),
        ({"train.first_update": "10"}, "10 timesteps (first_update) cannot fill a batch of 64"),
        ({"environment.num_envs": "7"}, "size must be a multiple of the number of environments"),
    ],
)
def test_check_finds_what_a_run_would_refuse(
    changes: dict[str, str], message: str, workplace: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    sets = [word for path, value in changes.items() for word in ("--set", f"{path}={value}")]
    code, out, err = axonrl(capfd, "check", "dqn_cartpole", *sets)
    assert (code, out) == (1, "")
    assert message in err
    assert [path.name for path in workplace.iterdir()] == ["users_model.py"]


@pytest.mark.usefixtures("agents")
def test_a_file_goes_before_a_shipped_experiment(run_file: Path, capfd: pytest.CaptureFixture[str]) -> None:
    run_file.rename("dqn_cartpole")
    assert axonrl(capfd, "check", "dqn_cartpole")[1] == "dqn_cartpole: no errors\n"


def test_list(capfd: pytest.CaptureFixture[str]) -> None:
    code, out, _ = axonrl(capfd, "list")
    assert code == 0
    lines = out.splitlines()
    assert [line for line in lines if not line.startswith(" ")] == ["experiments:", "models:", "memories:", "hooks:"]
    assert {line.split()[0] for line in lines if line.startswith(" ")} >= {
        *("dqn_acrobot", "dqn_cartpole", "dqn_lunarlander", "dqn_minatar_breakout", "dqn", "replay", "evaluation"),
    }
    assert all(len(line.split()) > 2 for line in lines if line.startswith(" "))


def test_version_and_help(capfd: pytest.CaptureFixture[str]) -> None:
    for words in (["--version"], ["--help"], ["run", "--help"]):
        with pytest.raises(SystemExit) as caught:
            cli.main(words)
        assert caught.value.code == 0
    assert capfd.readouterr().out.startswith("axonrl 0.")


def test_the_pipe_is_closed(workplace: Path) -> None:
    code = "import sys; from axonrl.experiments.cli import main; sys.exit(main(['list']))"
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.close()
    assert process.stderr is not None
    assert process.stderr.read() == b""
    process.stderr.close()
    process.wait()


DQN = """\
name: real
seed: 1
params: {limit: 300}
environment: {id: CartPole-v1, num_envs: 2}
agent:
  model_fn: users_dqn:model_fn
  params: {hidden: [8], epsilon: 0.5}
  memory: {kind: replay, size: 1000, batch_size: 8}
train: {first_update: 50, update_frequency: 10, max_timesteps: "${limit}"}
evaluate: {episodes: 3}
hooks: [{kind: evaluation, every_timesteps: 100, episodes: 2}]
"""


@pytest.mark.usefixtures("fast_curve")
def test_a_real_run_stops_resumes_and_is_evaluated(
    workplace: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = workplace / "elsewhere"  # a module beside the file is found, wherever the command runs
    folder.mkdir()
    (folder / "users_dqn.py").write_text(
        "from axonrl.models.dqn import model_fn as built_in\n\n\n"
        "def model_fn(features, labels, mode, params, config):\n"
        "    return built_in(features, labels, mode, params, config)\n"
    )
    file = folder / "real.yml"
    file.write_text(DQN)
    monkeypatch.delitem(sys.modules, "users_dqn", raising=False)
    assert axonrl(capfd, "run", file, "--model-dir", "whole")[0] == 0
    assert axonrl(capfd, "run", file, "--model-dir", "parts", "-P", "limit=150")[0] == 0
    assert axonrl(capfd, "run", file, "--model-dir", "parts", "--resume")[0] == 0
    whole, parts = (read_episodes(Path(name)) for name in ("whole", "parts"))
    assert [row[:4] for row in parts] == [row[:4] for row in whole]
    assert len(whole) > 3

    found = [axonrl(capfd, "evaluate", name, "--policy", "last", "--json") for name in ("whole", "parts")]
    assert [code for code, _, _ in found] == [0, 0]
    results = [json.loads(out) for _, out, _ in found]
    assert results[0] == results[1]
    assert results[0]["episodes"] == 3
    code, out, _ = axonrl(capfd, "evaluate", "whole", "--episodes", "2")
    assert code == 0
    assert "evaluation return, 2 episodes" in out
    code, _, err = axonrl(capfd, "run", file, "--model-dir", "bad", "--set", "train.first_update=2")
    assert code == 1
    assert "2 timesteps (first_update) cannot fill a batch of 8" in err
    assert not Path("bad").exists()
