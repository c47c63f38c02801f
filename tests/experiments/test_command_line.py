"""The command axonrl: exit codes, messages and what is left behind. Training is a fake, but in the last tests."""

import errno
import io
import json
import logging
import os
import re
import shlex
import signal
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import pytest

from axonrl.errors import ClusterError
from axonrl.experiments.commands import cli, single_run
from axonrl.experiments.config.shipped import shipped
from axonrl.experiments.console import print_rows
from axonrl.experiments.running import report
from axonrl.run_dir.history import read_episodes, read_evaluations
from axonrl.tests.experiments.fakes import SLOW
from axonrl.tests.experiments.sharing import Terminal, command, tracked_run, tracking, wait
from axonrl.tests.raising import raised

COMMANDS = [
    *("run", "check", "evaluate", "enjoy", "export", "list", "new", "schema", "completion"),
    *("sync", "submit", "status", "logs", "stop"),
]


@pytest.fixture
def fast_curve(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(report, "learning_curve", lambda folder, *_: (folder / "learning_curve.png").touch())


def axonrl(capfd: pytest.CaptureFixture[str], *words: object) -> tuple[int, str, str]:
    code = cli.main([str(word) for word in words])
    return (code, *capfd.readouterr())


@pytest.mark.usefixtures("agents", "fast_curve")
def test_a_run(run_file: Path, capfd: pytest.CaptureFixture[str]) -> None:
    code, out, err = axonrl(capfd, "run", run_file, "-P", "limit=6", "--set", "evaluate.episodes=3")
    assert (code, err) == (0, "axonrl: Running my_run in runs/my_run\n")
    assert "evaluation return, 3 episodes 9.00 ± 1.50" in " ".join(out.split())
    assert out.splitlines()[-2:] == ["run folder:     runs/my_run", "learning curve: runs/my_run/learning_curve.png"]
    assert len(read_episodes(Path("runs/my_run"))) == 3
    record = json.loads(Path("runs/my_run/starts.json").read_text())[0]
    assert record["command"] == [*("axonrl", "run", str(run_file), "-P", "limit=6", "--set", "evaluate.episodes=3")]


@pytest.mark.usefixtures("agents", "fast_curve")
def test_what_a_folder_holds_decides_whether_a_run_begins_or_is_resumed_there(
    run_file: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    words = ("run", run_file, "--model-dir", "d")
    assert axonrl(capfd, *words)[0] == 0
    code, _, err = axonrl(capfd, *words)
    exists = "Run folder d already exists. Use --resume to continue it, or --model-dir for a new one."
    assert (code, err) == (2, f"axonrl: error: {exists}\n")
    code, _, err = axonrl(capfd, "evaluate", "d")  # as of a run that was killed before its first checkpoint
    none = "Run folder d has no checkpoint. Continue the run with axonrl run --resume."
    assert (code, err) == (2, f"axonrl: error: {none}\n")
    for again in ("--resume", "--auto-resume"):  # the second is for a job that is started again
        assert axonrl(capfd, *words, again)[0] == 0
    assert len(json.loads(Path("d/starts.json").read_text())) == 3
    for folder in ("nowhere", "other", "other/.mine"):
        code, _, err = axonrl(capfd, "run", run_file, "--model-dir", folder, "--resume")
        nothing = f"Folder {folder} has no run to resume. Start a new one without --resume."
        assert (code, err) == (2, f"axonrl: error: {nothing}\n")
        assert not Path("nowhere").exists()
        Path("other").mkdir(exist_ok=True)
        Path("other/.mine").touch()
    for more, exists in (
        (
            ("other", "--auto-resume"),
            "Folder other exists and is not a run folder. Use --model-dir for another folder.",
        ),
        (("other/.mine",), "Folder other/.mine"),
    ):
        code, _, err = axonrl(capfd, "run", run_file, "--model-dir", *more)
        assert (code, err.startswith(f"axonrl: error: {exists}")) == (2, True)


@pytest.mark.usefixtures("agents", "fast_curve")
def test_runs_without_a_folder_are_numbered(run_file: Path, capfd: pytest.CaptureFixture[str]) -> None:
    Path("runs/my_run-4").mkdir(parents=True)  # in use, but not a run
    for name in ("my_run", "my_run-2", "my_run-3", "my_run-5"):
        assert axonrl(capfd, "run", run_file)[2] == f"axonrl: Running my_run in runs/{name}\n"
        assert len(read_episodes(Path("runs", name))) > 0
    assert axonrl(capfd, "run", run_file, "--resume")[2] == "axonrl: Resuming my_run in runs/my_run-5\n"
    assert axonrl(capfd, "run", run_file, "--set", "agent.model_fn=nope")[0] == 2
    assert not Path("runs/my_run-6").exists()


@pytest.mark.usefixtures("agents")
@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ["check", "dqn_cartpol"],
            "dqn_cartpol: no file or shipped experiment has this name; did you mean 'dqn_cartpole'",
        ),
        (["check", "fil.yml"], "fil.yml: no file or shipped experiment has this name; did you mean 'file.yml'?"),
        (["check", "file.yml", "--set", "agent.memory.sise=5"], "agent.memory.sise: replay has no such argument"),
        (["evaluate", "nowhere"], "Folder nowhere does not exist."),
        (["compare", "file.yl"], "Folder file.yl does not exist (did you mean 'file.yml'?)."),
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


@pytest.mark.usefixtures("agents")
@pytest.mark.parametrize(
    ("error", "said"),
    [
        (ValueError("the environment\n  is broken"), ["the environment is broken"]),
        (ClusterError("nothing moves:\nactor 0  waits"), ["nothing moves:", "actor 0  waits"]),  # in lines who waits
        (KeyError("q"), ["KeyError: 'q'; --debug prints the traceback"]),  # which is not the user's
        (SystemExit(0), ["SystemExit: 0; --debug prints the traceback"]),  # of an environment whose window is closed
    ],
)
def test_a_failure_is_one_paragraph(
    error: BaseException,
    said: list[str],
    run_file: Path,
    failures: list[BaseException],
    capfd: pytest.CaptureFixture[str],
) -> None:
    failures.extend([error, error])
    code, out, err = axonrl(capfd, "run", run_file)
    assert (code, out) == (1, "")
    first, *lines, last = err.splitlines()
    assert (first, last) == (
        "axonrl: Running my_run in runs/my_run",
        "axonrl: The run failed. It had not started; nothing was saved.",
    )
    assert lines == [f"axonrl: error: {said[0]}", *said[1:]]
    assert axonrl(capfd, "run", run_file, "--debug")[2].splitlines()[1].startswith("Traceback")
    failures.append(ValueError("x" * 10**6))
    assert len(axonrl(capfd, "run", run_file)[2]) < 2200


def test_an_environment_that_exits_fails_other_commands_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("windows.py").write_text("import sys\ndef closed(**_):\n    sys.exit(0)\n")
    code, _, err = axonrl(capfd, "check-env", "windows:closed")
    assert (code, err.splitlines()[-1]) == (
        1,
        "axonrl: error: SystemExit: 0 (windows.py:3, in closed); --debug prints the traceback",
    )


def test_a_signal_stops_the_run_and_says_where_it_is(
    run_file: Path, agents: list[Any], capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    times = 1

    def send(hook: Any, session: Any, facts: Any) -> None:
        if session.global_episode == 4:
            for _ in range(times):
                signal.raise_signal(15)

    monkeypatch.setattr("axonrl.hooks.history.HistoryHook.after_episode", send)
    sets = ("--set", "hooks=[]")
    found, out, err = axonrl(capfd, "run", run_file, "--model-dir", "once", *sets)
    assert (found, out) == (143, "")
    told, again = err.splitlines()[-1].split(" Continue with: axonrl run ")
    assert told == "axonrl: Stopped by SIGTERM at timestep 8. Saved in once."
    assert shlex.split(again)[1:] == ["--model-dir", "once", *sets, "--resume"]
    assert agents[0].evaluations == []
    times = 2
    found, _, err = axonrl(capfd, "run", run_file, "--model-dir", "twice", *sets)
    assert found == 143
    assert err.splitlines()[-1].startswith("axonrl: Stopped at once by SIGTERM. Saved in twice. Continue with: axonrl ")
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@pytest.mark.usefixtures("agents", "fast_curve")
def test_the_log_and_warnings_go_to_standard_error_during_a_command(
    run_file: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def talk(hook: Any, session: Any, facts: Any) -> None:
        logging.getLogger("axonrl.hooks").info("hello %d", 5)
        sys.stderr.write(warnings.formatwarning("take care", UserWarning, "file", 1))

    monkeypatch.setattr(single_run, "_report", lambda *_: None)
    monkeypatch.setattr("axonrl.hooks.history.HistoryHook.begin", talk)
    logger = logging.getLogger("axonrl")
    before = (logger.level, list(logger.handlers), warnings.formatwarning)
    code, _, err = axonrl(capfd, "run", run_file)
    assert code == 0
    assert err.splitlines()[1].endswith(" hello 5")
    assert err.splitlines()[2] == "axonrl: warning: take care"
    assert (logger.level, logger.handlers, warnings.formatwarning) == before


@pytest.mark.usefixtures("agents")
def test_check_prints_what_a_run_would_do(run_file: Path, capfd: pytest.CaptureFixture[str]) -> None:
    code, out, err = axonrl(capfd, "check", run_file, "--set", "hooks=[]")
    assert (code, err) == (0, "")
    lines = [" ".join(line.split()) for line in out.splitlines() if line.strip()]
    assert (lines[0], lines[-1]) == ("my_run", f"{run_file}: no errors")
    assert {"parameters, q 1,234, used to act", "learner runs in tensorflow: it is large"} <= {*lines}
    assert not Path("runs").exists()


@pytest.mark.usefixtures("agents", "fast_curve")
def test_json_where_a_script_wants_it(run_file: Path, capfd: pytest.CaptureFixture[str]) -> None:
    checked = json.loads(axonrl(capfd, "check", run_file, "--json")[1])
    assert checked["train"] == {
        **{"max_steps": None, "max_episodes": None, "max_timesteps": 20},
        **{"first_update_at": 10, "timesteps_per_update": 5, "updates": 3},
    }
    assert checked["folder"] == "runs/my_run"
    done = json.loads(axonrl(capfd, "run", run_file, "--json")[1])
    assert (done["name"], done["episodes"], done["folder"]) == ("my_run", 10, "runs/my_run")
    assert done["evaluation"]["episode_return_mean"] == 9.0
    assert Path(done["learning_curve"]).is_file()
    assert json.loads(axonrl(capfd, "check", run_file, "--json")[1])["folder"] == "runs/my_run-2"
    listed = json.loads(axonrl(capfd, "list", "--json")[1])
    assert listed["memories"]["replay"]
    assert "$schema" in json.loads(axonrl(capfd, "schema")[1])


def test_check_finds_what_a_run_would_refuse(workplace: Path, capfd: pytest.CaptureFixture[str]) -> None:
    code, out, err = axonrl(capfd, "check", "dqn_cartpole", "--set", "train.first_update=10")
    assert (code, out) == (2, "")
    assert "10 timesteps (first_update) cannot fill a batch of 64" in err
    assert [path.name for path in workplace.iterdir()] == ["users_model.py"]


@pytest.mark.usefixtures("agents")
def test_a_file_goes_before_a_shipped_experiment(run_file: Path, capfd: pytest.CaptureFixture[str]) -> None:
    run_file.rename("dqn_cartpole")
    assert axonrl(capfd, "check", "dqn_cartpole")[1].splitlines()[-1] == "dqn_cartpole: no errors"


def test_list(capfd: pytest.CaptureFixture[str]) -> None:
    code, out, _ = axonrl(capfd, "list")
    assert code == 0
    lines = out.splitlines()
    kinds = ["experiments:", "models:", "memories:", "hooks:", "trackers:", "wrappers:"]
    assert [line for line in lines[:-3] if not line.startswith(" ")] == kinds
    entries = [line for line in lines if line.startswith("  ") and line[2] != " "]
    some = {"dqn", "replay", "evaluation", "polyaxon", "time_limit"}
    assert {line.split()[0] for line in entries} >= {*shipped(), *some}
    assert all(len(line.split()) > 2 for line in entries)
    assert all(len(line) <= 80 for line in lines[:-1])
    assert "``" not in out
    assert str(shipped()["dqn_cartpole"].parent) in lines[-1]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["runn", "x.yml"], "there is no command 'runn'; did you mean 'run'?"),
        (["new", "dqn_cartpol"], "argument NAME: there is no choice 'dqn_cartpol'; did you mean 'dqn_cartpole'?"),
        (["completion", "fisch"], "there is no choice 'fisch'; did you mean 'fish'?"),
        (["service", "lst-users"], "there is no command 'lst-users'; did you mean 'list-users'?"),
        (["run", "x.yml", "--model_dir=y"], "unknown argument: --model_dir=y (did you mean"),
        (["run", "x.yml", "-P", "novalue"], ""),
        (["run", "x.yml", "--set", "=1"], ""),
        (["run", "x.yml", "-P", "a=1", "-P", "a=2"], "duplicate -P"),
        (["evaluate", "d", "--episodes", "0"], ""),
        (["evaluate", "d", "--checkpoint", "2", "--policy", "last"], "not allowed with"),
    ],
)
def test_wrong_arguments_are_exit_code_2(words: list[str], message: str, capfd: Any) -> None:
    assert raised(SystemExit, cli.main, words).code == 2
    err = capfd.readouterr().err
    assert err.startswith("usage: axonrl [-h]" if words[0] == "runn" else f"usage: axonrl {words[0]}")
    assert message in err


@pytest.mark.usefixtures("agents", "fast_curve")
def test_seed_and_timesteps_are_short_for_set(run_file: Path, capfd: pytest.CaptureFixture[str]) -> None:
    checked = json.loads(axonrl(capfd, "check", run_file, "--seed", "7", "--timesteps", "30", "--json")[1])
    assert checked["train"]["max_timesteps"] == 30
    assert axonrl(capfd, "run", run_file, "--seed", "7")[0] == 0
    assert json.loads(Path("runs/my_run/starts.json").read_text())[0]["seed"] == 7
    with pytest.raises(SystemExit):
        cli.main(["run", str(run_file), "--seed", "7", "--set", "seed=8"])
    assert "duplicate --set: seed is set already" in capfd.readouterr().err


@pytest.mark.usefixtures("agents", "fast_curve")
def test_modules_are_beside_the_file_that_names_them(run_file: Path, capfd: pytest.CaptureFixture[str]) -> None:
    Path("base").mkdir()
    Path("base/their_model.py").write_text("import their_help\nmodel_fn = their_help.model_fn\n")
    Path("base/their_help.py").write_text(Path("users_model.py").read_text())
    Path("base/file.yml").write_text(run_file.read_text().replace("users_model", "their_model"))
    Path("my_hook.py").write_text("class Mine:\n    def end(self, session, facts): ...\n")
    Path("mine.yml").write_text("include: base/file.yml\nhooks: ['my_hook:Mine']\n")
    assert axonrl(capfd, "run", "mine.yml")[0] == 0
    assert sys.path[-2:] == [str(Path.cwd()), str(Path.cwd() / "base")]
    del sys.path[-2:]
    assert axonrl(capfd, "evaluate", "runs/my_run")[0] == 2  # the agent was a fake, and saved nothing
    assert sys.path[-2:] == [str(Path.cwd()), str(Path.cwd() / "base")]  # as the run recorded
    Path("their_model.py").touch()
    refused = "axonrl: error: base/file.yml:5: agent.model_fn: module 'their_model' is in "
    for name in ("check", "submit"):
        code, _, err = axonrl(capfd, name, "mine.yml")
        assert (code, err[: len(refused)]) == (2, refused)


def test_new_copies_a_shipped_experiment(workplace: Path, capfd: pytest.CaptureFixture[str]) -> None:
    told = "Created dqn_cartpole.yml. Train it with: axonrl run dqn_cartpole.yml\n"
    assert axonrl(capfd, "new", "dqn_cartpole")[:2] == (0, told)
    assert (workplace / "dqn_cartpole.yml").read_bytes() == shipped()["dqn_cartpole"].read_bytes()
    exists = "dqn_cartpole.yml: already exists; choose another file: axonrl new NAME FILE"
    assert axonrl(capfd, "new", "ppo_cartpole", "dqn_cartpole.yml") == (2, "", f"axonrl: error: {exists}\n")


def test_help_of_the_program_and_of_every_command_says_what_it_does_in_80_columns(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    code, out, _ = axonrl(capfd)
    assert (code, out.startswith("usage: axonrl [-h]")) == (0, True)
    assert max(map(len, out.splitlines())) <= 80
    assert (raised(SystemExit, cli.main, ["--version"]).code, capfd.readouterr().out[:9]) == (0, "axonrl 0.")
    for name in COMMANDS:
        assert raised(SystemExit, cli.main, [name, "--help"]).code == 0
        out = capfd.readouterr().out
        usage, about, *_ = out.split("\n\n")
        assert usage.startswith(f"usage: axonrl {name} [-h]")
        assert about[0].isupper()
        assert about.endswith(".")
        assert max(map(len, out.splitlines())) <= 80


def test_rows_are_styled_on_a_terminal_and_end_between_words(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = {"a label of long words": "[a] 1", "why": "in TensorFlow: package.module:function_of_mine is large"}
    for name, value in {"TERM": "xterm-256color", "COLUMNS": "44"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(sys, "stdout", written := Terminal())
    print_rows("an-experiment-with-a-name-of-forty-five-letters", rows, justify="left")
    text = written.getvalue()
    assert text.startswith("\x1b[1man-experiment-with-a-n…of-forty-five-letters\x1b[0m\n")
    shown = [line.rstrip() for line in re.sub(r"\x1b\[[0-9;]*m", "", text).splitlines()[1:] if line.strip()]
    assert shown == [
        "  a label of long words   [a] 1",
        "  why                     in TensorFlow:",
        "                          package.…of_mine",
        "                          is large",
    ]
    monkeypatch.setattr(sys, "stdout", plain := io.StringIO())
    print_rows("name", rows)
    assert "\x1b" not in plain.getvalue()
    assert "in TensorFlow: package.module:function_of_mine is large" in plain.getvalue()


def test_the_pipe_is_closed() -> None:
    process = subprocess.Popen(command("list"), stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.close()
    assert process.stderr.read() == b""
    process.stderr.close()
    process.wait()


@pytest.mark.usefixtures("agents", "fast_curve")
@pytest.mark.parametrize(
    ("written", "remark", "option"),
    [
        ("experiment.yml", "It had not started; nothing was saved.", []),
        ("starts.json", "Saved in full. Continue with: axonrl run", ["--resume"]),
    ],
)
def test_a_full_disk_is_one_line_and_leaves_nothing_in_the_way(
    written: str, remark: str, option: list[str], run_file: Path, capfd: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = Path.open

    def full(path: Path, mode: str = "r", *arguments: Any, **options: Any) -> Any:
        if mode == "wb" and written in path.name:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
        return opened(path, mode, *arguments, **options)

    with monkeypatch.context() as context:
        context.setattr(Path, "open", full)
        code, out, err = axonrl(capfd, "run", run_file, "--model-dir", "full")
    assert (code, out) == (1, "")
    assert err.count("\n") == 3
    assert "No space left on device" in err.splitlines()[1]
    assert err.splitlines()[2].startswith(f"axonrl: The run failed. {remark}")
    assert axonrl(capfd, "run", run_file, "--model-dir", "full", *option)[0] == 0


@pytest.mark.usefixtures("agents", "fast_curve")
def test_a_folder_that_is_moved_during_a_run_is_missed(
    run_file: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def move(*_: Any) -> None:
        Path("here").rename("there")
        raise OSError("it is gone")

    monkeypatch.setattr("axonrl.hooks.StopAtEpisode.after_episode", move)
    code, _, err = axonrl(capfd, "run", run_file, "--model-dir", "here")
    assert code == 1
    assert err.splitlines()[-1] == "axonrl: The run failed. Its folder here is missing."
    assert read_episodes(Path("there"))


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
    code, out, _ = axonrl(capfd, "run", file, "--model-dir", "whole", "--json")
    assert code == 0
    final = json.loads(out)["evaluation"]
    assert axonrl(capfd, "run", file, "--model-dir", "parts", "-P", "limit=150")[0] == 0
    assert axonrl(capfd, "run", file, "--model-dir", "parts", "--resume")[0] == 0
    whole, parts = (read_episodes(Path(name)) for name in ("whole", "parts"))
    assert [row[:4] for row in parts] == [row[:4] for row in whole]
    assert len(whole) > 3
    found = [axonrl(capfd, "evaluate", name, "--policy", "last", "--json") for name in ("whole", "parts")]
    assert [code for code, _, _ in found] == [0, 0]
    results = [json.loads(out) for _, out, _ in found]
    assert (results[0], results[0]["episodes"]) == (results[1], 3)
    assert json.loads(axonrl(capfd, "evaluate", "whole", "--json")[1]) == final  # of other episodes than best's choice
    code, out, _ = axonrl(capfd, "evaluate", "whole", "--episodes", "2")
    assert code == 0
    assert "evaluation return, 2 episodes" in out


@pytest.mark.usefixtures("fast_curve")
def test_a_checkpoint_gives_the_number_that_the_run_recorded(
    workplace: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """In copies stepped together, normalised and truncated; and without evaluations."""
    normalised = DQN.replace("users_dqn:model_fn", "dqn").replace(
        "num_envs: 2}", "num_envs: 2, kwargs: {max_episode_steps: 30}, wrappers: [normalize_observation]}"
    )
    (workplace / "real.yml").write_text(normalised)
    assert axonrl(capfd, "run", "real.yml", "--model-dir", "copies")[0] == 0
    rows = read_evaluations(Path("copies"))
    assert [(row.global_timestep, row.environment) for row in rows] == [(100, None), (200, None), (300, None)]
    for number, row in zip((2, 3, 4), rows, strict=True):
        code, out, _ = axonrl(capfd, "evaluate", "copies", "--checkpoint", number, "--json")
        assert code == 0
        assert json.loads(out) == {**row.results, "checkpoint": number, "recorded": row.results}
    best = json.loads(axonrl(capfd, "evaluate", "copies", "--checkpoint", "best", "--json")[1])
    assert best["episode_return_mean"] == max(row.episode_return_mean for row in rows)
    assert best["recorded"] == {name: best[name] for name in best["recorded"]}
    code, out, err = axonrl(capfd, "evaluate", "copies", "--checkpoint", "1")
    assert (code, "evaluation return, 3 episodes" in out) == (0, True)
    assert "The training did not evaluate this policy, so these are other episodes." in err
    found = json.loads(axonrl(capfd, "evaluate", "copies", "--checkpoint", "2", "--episodes", "5", "--json")[1])
    assert (found["episodes"], found["recorded"]["episodes"]) == (5, 2)
    for folder, checkpoint in (("copies", "9"), ("other", "best")):
        if folder == "other":
            assert axonrl(capfd, "run", "real.yml", "--model-dir", folder, "--set", "hooks=[]")[0] == 0
        code, _, err = axonrl(capfd, "evaluate", folder, "--checkpoint", checkpoint)
        assert (code, err.startswith(f"axonrl: error: Run folder {folder} has no ")) == (2, True)


def test_a_run_whose_terminal_has_gone_is_stopped_and_saved_all_the_same(run_file: Path) -> None:
    """Ctrl-C ends ``2>&1 | tee`` as well, before the run can print a word."""
    words = [*SLOW, "run", "file.yml", "--model-dir", "out", "--set", "hooks=[]", "-P", "limit=100000000"]
    with subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=tracking()) as process:
        assert process.stderr is not None
        wait(lambda: process.poll() is not None or (Path("out/episodes.csv").exists() and read_episodes(Path("out"))))
        process.stderr.close()
        process.send_signal(signal.SIGINT)
        assert process.wait(120) == 130
    run = tracked_run(Path("out"))
    assert (run.statuses[-1].status, run.statuses[-1].message) == ("stopped", "")  # and not at once
