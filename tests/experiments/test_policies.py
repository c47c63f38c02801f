"""``axonrl enjoy``, ``record`` and ``export``: what the Agent of a run folder, a fake, is asked for; a real chain."""

import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import gymnasium
import pytest

from axonrl.environments import make, read_episodes
from axonrl.experiments.commands import cli
from axonrl.experiments.errors import ExperimentError
from axonrl.experiments.running import trained_agent
from axonrl.run_dir.history import read_evaluations
from axonrl.tests.raising import raised

FILE = """\
environment: {id: CartPole-v1, num_envs: 4, wrappers: [{kind: time_limit, max_episode_steps: 2}]}
agent: {model_fn: dqn}
hooks: [{kind: evaluation, every_timesteps: 10}]
"""


class Player:
    """Plays episodes of two timesteps in the environment that ``evaluate`` is given."""

    def __init__(self) -> None:
        self.calls: list[dict[str, Any]] = []

    def evaluate(self, env: Any, episodes: int, *, seed: int | None, hooks: Any, policy: str) -> dict[str, float]:
        self.calls.append({"mode": env.render_mode, "episodes": episodes, "seed": seed, "policy": policy})
        for episode in range(episodes):
            env.reset(seed=episode)
            env.step(0)
            env.step(1)
            stats = SimpleNamespace(episode_return=2.0, length=2)
            hooks(SimpleNamespace(global_episode=episode + 1), stats)
        return {"episodes": episodes, "episode_return_mean": 2.0, "episode_return_std": 0.0}


@pytest.fixture
def player(trained_run: Callable[..., None], monkeypatch: pytest.MonkeyPatch) -> Player:
    made = Player()
    trained_run(FILE, trained_agent, made)
    monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")  # a display that shows nothing
    return made


def axonrl(capfd: pytest.CaptureFixture[str], command: str, *words: str) -> tuple[int, list[str], str]:
    code = cli.main([command, "run", *words])
    out, err = capfd.readouterr()
    return code, out.splitlines(), err


def test_a_window(player: Player, capfd: pytest.CaptureFixture[str]) -> None:
    code, out, _ = axonrl(capfd, "enjoy", "--episodes", "2", "--seed", "5")
    assert code == 0
    assert player.calls == [{"mode": "human", "episodes": 2, "seed": 5, "policy": "best"}]
    assert out[:2] == [f"episode {number}: return 2, 2 timesteps" for number in (1, 2)]


def test_videos(player: Player, capfd: pytest.CaptureFixture[str]) -> None:
    code, out, err = axonrl(capfd, "enjoy", "--episodes", "2", "--policy", "last", "--video", "clips")
    assert code == 0, err
    assert player.calls == [{"mode": "rgb_array", "episodes": 2, "seed": None, "policy": "last"}]
    videos = sorted(Path("clips").iterdir())
    assert [video.name for video in videos] == ["episode-1.mp4", "episode-2.mp4"]
    assert all(b"ftyp" in video.read_bytes()[:12] for video in videos)
    assert [line for line in out if line.startswith("video")] == [f"video: {video}" for video in videos]
    assert trained_agent.video_paths(Path("a/x.mp4"), 2) == [Path("a/x-1.mp4"), Path("a/x-2.mp4")]
    raised(ExperimentError, trained_agent.video_paths, Path("x.gif"), 2, match=r"must be an \.mp4 file")


def test_without_a_display_it_names_the_option(
    player: Player, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("DISPLAY", "WAYLAND_DISPLAY", "SDL_VIDEODRIVER"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("sys.platform", "linux")
    code, _, err = axonrl(capfd, "enjoy")
    assert (code, "No display" in err, "--video" in err, player.calls) == (2, True, True, [])


def test_an_environment_without_the_render_mode(
    player: Player, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    cartpole = gymnasium.make("CartPole-v1").unwrapped
    monkeypatch.setitem(type(cartpole).metadata, "render_modes", ["ansi"])
    code, _, err = axonrl(capfd, "enjoy", "--video", "x.mp4")
    assert (code, player.calls) == (1, [])
    assert "CartPole-v1 has no render mode 'rgb_array', only ['ansi']" in err


RESULTS = {"episode_return_mean": 2.0, "episode_return_std": 0.5, "episodes": 3, "timesteps": 1234}


class Recorder:
    def __init__(self) -> None:
        self.calls: list[Any] = []

    def record(self, path: Path, env: Any, episodes: int | None, **options: Any) -> dict[str, float]:
        self.calls.append((path, env.spec.id, getattr(env, "num_envs", None), episodes, options))
        return RESULTS


@pytest.fixture
def recorder(trained_run: Callable[..., None]) -> Recorder:
    made = Recorder()
    trained_run(FILE, trained_agent, made)
    return made


def test_what_is_asked_for(recorder: Recorder, capfd: pytest.CaptureFixture[str]) -> None:
    code, out, _ = axonrl(capfd, "record", "data.npz", "--episodes", "50")
    lines = [" ".join(line.split()) for line in out if line.strip()]
    assert (code, lines) == (0, ["data.npz", "timesteps 1,234", "recorded return, 3 episodes 2.00 ± 0.50"])
    words = ("--timesteps", "20", "--epsilon", "0.3", "--policy", "last", "--seed", "7", "--json")
    assert json.loads("".join(axonrl(capfd, "record", "other.npz", *words)[1])) == RESULTS
    first, second = recorder.calls
    usual = {"timesteps": None, "epsilon": 0.0, "seed": None, "policy": "best"}
    assert first == (Path("data.npz"), "CartPole-v1", None, 50, usual)
    assert second[3:] == (None, {"timesteps": 20, "epsilon": 0.3, "seed": 7, "policy": "last"})


@pytest.mark.parametrize("words", [["data.npz"], ["data.npz", "--episodes", "5", "--epsilon", "1.5"]])
def test_a_length_and_a_probability_are_required(words: list[str], recorder: Recorder) -> None:
    assert raised(SystemExit, cli.main, ["record", "run", *words]).code == 2
    assert recorder.calls == []


@pytest.mark.usefixtures("traced_once")
def test_a_run_learns_from_the_file_resumes_and_goes_on_in_the_environment(
    workplace: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (workplace / "online.yml").write_text(
        "environment: {id: CartPole-v1}\n"
        "agent: {model_fn: dqn, params: {hidden: [8]}, memory: {kind: replay, size: 500, batch_size: 8}}\n"
        "train: {first_update: 50, max_timesteps: 60}\nevaluate: null\n"
    )
    (workplace / "offline.yml").write_text(
        "include: online.yml\ntrain: null\nlearn: {data: data.npz, max_steps: 30}\nevaluate: {episodes: 2}\n"
        "hooks: [{kind: evaluation, every_steps: 10, episodes: 2}]\n"
    )
    assert cli.main(["run", "online.yml", "--model-dir", "online"]) == 0
    assert cli.main(["record", "online", "data.npz", "--timesteps", "40", "--epsilon", "0.5"]) == 0
    env = make("CartPole-v1")
    assert sum(len(one["reward"]) for one in read_episodes("data.npz", env.observation_space, env.action_space)) == 40
    assert cli.main(["check", "offline.yml"]) == 0
    assert cli.main(["run", "offline.yml", "--model-dir", "offline"]) == 0
    assert [row.offline_steps for row in read_evaluations(Path("offline"))] == [10, 20, 30]
    capfd.readouterr()
    words = ["--set", "learn.max_steps=40", "--set", "train={first_update: 1, max_timesteps: 20}", "--json"]
    assert cli.main(["run", "offline.yml", "--model-dir", "offline", "--resume", *words]) == 0
    done = json.loads(capfd.readouterr().out)
    assert (done["updates"], done["timesteps"]) == (42, 20)
    rows = [(row.global_timestep, row.offline_steps) for row in read_evaluations(Path("offline"))]
    assert rows == [(0, 10), (0, 20), (0, 30), (0, 40), (20, 40)]


@pytest.mark.parametrize(
    ("output", "damage", "message"),
    [
        (
            "file/sub",
            "",
            "an export cannot be written to {0}/file/sub: {0}/file is not a folder. Choose another directory.",
        ),
        ("run", "", "run holds something other than an export"),
        ("new", "[1]", "run.json is damaged: it holds a list, not a mapping. Restore it from a copy, or train the run"),
    ],
)
def test_an_export_that_cannot_be_is_refused_before_tensorflow_is_loaded(
    output: str, damage: str, message: str, workplace: Path, recorder: Recorder, monkeypatch: Any, capfd: Any
) -> None:
    if damage:
        (workplace / "run" / "run.json").write_text(damage)
    (workplace / "file").write_text("")
    before = sorted(workplace.rglob("*"))
    monkeypatch.setattr(trained_agent, "load_agent", lambda *_: pytest.fail("it began"))
    assert cli.main(["export", "run", "-o", output]) == 2
    assert message.format(workplace) in capfd.readouterr().err
    assert sorted(workplace.rglob("*")) == before
