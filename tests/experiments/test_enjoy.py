"""``axonrl enjoy``: which episodes are played where, and what it refuses. The Agent is a fake."""

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import gymnasium
import pytest

from axonrl.experiments.commands import cli
from axonrl.experiments.errors import ExperimentError
from axonrl.experiments.running import enjoying

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
    """The agent of the run folder ``run``."""
    made = Player()
    trained_run(FILE, enjoying, made)
    monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")  # a display that shows nothing
    return made


def enjoy(capfd: pytest.CaptureFixture[str], *words: str) -> tuple[int, list[str], str]:
    code = cli.main(["enjoy", "run", *words])
    out, err = capfd.readouterr()
    return code, out.splitlines(), err


def test_a_window(player: Player, capfd: pytest.CaptureFixture[str]) -> None:
    code, out, _ = enjoy(capfd, "--episodes", "2", "--seed", "5")
    assert code == 0
    assert player.calls == [{"mode": "human", "episodes": 2, "seed": 5, "policy": "best"}]
    assert out[:2] == [f"episode {number}: return 2, 2 timesteps" for number in (1, 2)]


def test_videos(player: Player, capfd: pytest.CaptureFixture[str]) -> None:
    code, out, err = enjoy(capfd, "--episodes", "2", "--policy", "last", "--video", "clips")
    assert code == 0, err
    assert player.calls == [{"mode": "rgb_array", "episodes": 2, "seed": None, "policy": "last"}]
    videos = sorted(Path("clips").iterdir())
    assert [video.name for video in videos] == ["episode-1.mp4", "episode-2.mp4"]
    assert all(b"ftyp" in video.read_bytes()[:12] for video in videos)
    assert [line for line in out if line.startswith("video")] == [f"video: {video}" for video in videos]


def test_where_videos_go() -> None:
    assert enjoying.video_paths(Path("a/x.mp4"), 2) == [Path("a/x-1.mp4"), Path("a/x-2.mp4")]
    with pytest.raises(ExperimentError, match=r"must be an \.mp4 file"):
        enjoying.video_paths(Path("x.gif"), 2)


def test_without_a_display_it_names_the_option(
    player: Player, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("DISPLAY", "WAYLAND_DISPLAY", "SDL_VIDEODRIVER"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("sys.platform", "linux")
    code, _, err = enjoy(capfd)
    assert (code, "No display" in err, "--video" in err, player.calls) == (2, True, True, [])


def test_an_environment_without_the_render_mode(
    player: Player, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    cartpole = gymnasium.make("CartPole-v1").unwrapped
    monkeypatch.setitem(type(cartpole).metadata, "render_modes", ["ansi"])
    code, _, err = enjoy(capfd, "--video", "x.mp4")
    assert (code, player.calls) == (1, [])
    assert "CartPole-v1 has no render mode 'rgb_array', only ['ansi']" in err
