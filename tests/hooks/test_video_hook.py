"""Videos: when, of what, refused when, and that training does not notice."""

import io
import logging
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from PIL import Image, ImageSequence
from tensorboard.backend.event_processing.plugin_event_accumulator import EventAccumulator

from axonrl.environments import make
from axonrl.environments.rendering import preview
from axonrl.errors import BrokenEnvironmentError
from axonrl.hooks import EvaluationHook, VideoHook
from axonrl.hooks.events import EndFacts
from axonrl.tests.environments.untyped import registered
from axonrl.tests.estimators.fakes import Counting, Notes, agent, differences, snapshot
from axonrl.tests.hooks.facts import BEGIN, END, TIMESTEP


class Rendered(Counting):
    """Renders an image as bright as it is old."""

    metadata = {"render_modes": ["rgb_array"], "render_fps": 5}  # noqa: RUF012 (Gymnasium's)

    def __init__(self, render_mode: str | None = None, image: Any = None) -> None:
        super().__init__(length=4)
        self.render_mode = render_mode
        self.image = image

    def render(self) -> Any:
        return np.full((16, 16, 3), 60 * self.timestep, np.uint8) if self.image is None else self.image


class Unrendered(Counting):
    """Has no images."""


@pytest.fixture
def ids() -> Iterator[None]:
    prefix = "axonrl-test/"
    with registered(f"{prefix}Rendered-v0", Rendered), registered(f"{prefix}Unrendered-v0", Unrendered):
        yield


def run(hook: VideoHook, session: Any, timesteps: Any) -> None:
    hook.prepare(session)
    hook.begin(session, BEGIN)
    for session.global_timestep in timesteps:
        hook.after_timestep(session, TIMESTEP)


def test_at_each_multiple_and_at_the_end(session: Any) -> None:
    hook = VideoHook(10, env="CartPole-v1")
    run(hook, session, range(4, 27, 4))  # 4, 8, 12, 16, 20, 24
    assert session.prepared == ("CartPole-v1",)
    hook.end(session, END)
    paths = [session.model_dir / "videos" / f"timestep-{timestep}.mp4" for timestep in (12, 20, 24)]
    assert session.calls == [("record_video", path, "CartPole-v1") for path in paths]


def test_another_run_of_the_same_length_has_its_own_video(session: Any) -> None:
    hook, path = VideoHook(20), session.model_dir / "videos" / "timestep-15.mp4"
    for _ in range(2):
        run(hook, session, (15,))
        hook.end(session, END)
    assert session.calls == [("record_video", path, None)] * 2


@pytest.mark.parametrize(
    ("last", "end"),
    [
        (20, END),  # recorded just now
        (21, EndFacts("an error", KeyboardInterrupt(), 1.0)),
        (21, EndFacts("SIGTERM came", None, 1.0, stopped=True)),
    ],
)
def test_no_other_one_at_the_end(last: int, end: EndFacts, session: Any) -> None:
    hook = VideoHook(20)
    run(hook, session, range(1, last + 1))
    hook.end(session, end)
    assert len(session.calls) == 1


def test_a_video_that_cannot_be_written_does_not_end_the_run(session: Any, caplog: pytest.LogCaptureFixture) -> None:
    def fails(path: Path, env: Any) -> None:
        raise OSError("no space left")

    session.record_video = fails
    run(VideoHook(5), session, range(1, 6))
    assert caplog.messages == ["cannot write the video of timestep 5: no space left"]


def decoded(path: Path) -> tuple[Any, str]:
    """The images [frames, 16, 16, 3], and what ffmpeg says of the file."""
    ffmpeg = pytest.importorskip("imageio_ffmpeg").get_ffmpeg_exe()  # moviepy's; the readers of both leave pipes open
    command = [ffmpeg, "-i", path, "-f", "rawvideo", "-pix_fmt", "rgb24", "-"]
    done = subprocess.run(command, capture_output=True, check=True)
    return np.frombuffer(done.stdout, np.uint8).reshape(-1, 16, 16, 3), done.stderr.decode()


@pytest.mark.usefixtures("ids")
def test_the_first_episode_of_the_evaluations(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    pytest.importorskip("moviepy")
    caplog.set_level(logging.INFO, "axonrl")
    notes = Notes()
    hooks = [notes, VideoHook(10), EvaluationHook(10, episodes=2)]
    agent(tmp_path).train("axonrl-test/Rendered-v0", 4, 2, timesteps=15, hooks=hooks)
    folder = tmp_path / "videos"
    assert sorted(path.name for path in folder.iterdir()) == ["timestep-10.mp4", "timestep-15.mp4"]
    lines = [text for text in caplog.messages if text.startswith(str(folder))]
    assert lines == [f"{folder}/timestep-{n}.mp4: return 10 in 4 timesteps" for n in (10, 15)]
    assert len(notes.facts["after_evaluation"]) == 2  # a video is no evaluation
    frames, about = decoded(folder / "timestep-10.mp4")
    assert [frame.mean() for frame in frames] == pytest.approx([0, 60, 120, 180, 240], abs=8)
    assert "16x16" in about
    assert "5 fps" in about
    shown = EventAccumulator(str(tmp_path / "events"))
    shown.Reload()
    events = shown.Tensors("eval/video")
    assert [event.step for event in events] == [10, 15]
    assert list(events[0].tensor_proto.string_val)[:2] == [b"16", b"16"]  # width and height
    assert images_of(events[0].tensor_proto.string_val[2]) == ([0, 60, 120, 180, 240], 200)  # 5 in a second


def images_of(gif: bytes) -> tuple[list[int], int]:
    """The brightness of each image, and the milliseconds that the first one is shown."""
    with Image.open(io.BytesIO(gif)) as animation:
        found = [int(np.asarray(frame.convert("L"))[0, 0]) for frame in ImageSequence.Iterator(animation)]
        animation.seek(0)
        return found, animation.info["duration"]


def test_a_preview_is_small() -> None:
    """Every third of 150 frames, at a third of the size, for as long as the video."""
    frames = [np.full((360, 720, 3), number, np.uint8) for number in range(150)]
    gif = preview(frames, 30)
    assert images_of(gif) == (list(range(0, 150, 3)), 100)
    with Image.open(io.BytesIO(gif)) as animation:
        assert animation.size == (240, 120)


@pytest.mark.usefixtures("ids")
def test_training_does_not_notice(tmp_path: Path) -> None:
    pytest.importorskip("moviepy")
    for name, hooks in (("a", [VideoHook(5)]), ("b", [])):
        agent(tmp_path / name).train("axonrl-test/Rendered-v0", 4, 2, timesteps=22, hooks=hooks)
    with_videos, without = ({**snapshot(tmp_path / name), "hooks": {}} for name in "ab")
    assert differences(with_videos, without) == []


class Breaks(Rendered):
    def step(self, action: Any) -> Any:
        if self.timestep == 2:
            raise RuntimeError("it broke")
        return super().step(action)


class Ceases(Rendered):
    def render(self) -> Any:
        return super().render() if self.timestep < 2 else None


@pytest.mark.filterwarnings("ignore:.*Recording stopped")
@pytest.mark.parametrize(
    ("kind", "error", "message"),
    [(Breaks, RuntimeError, "it broke"), (Ceases, BrokenEnvironmentError, r"Ceases.render stopped returning images")],
)
def test_an_episode_that_fails_leaves_no_video(kind: Any, error: Any, message: str, tmp_path: Path) -> None:
    pytest.importorskip("moviepy")
    with pytest.raises(error, match=message):
        agent(tmp_path).train(Counting(3), 4, 2, timesteps=8, hooks=[VideoHook(8, env=kind("rgb_array"))])
    assert list((tmp_path / "videos").iterdir()) == []


def refused(tmp_path: Path, env: Any, hook: VideoHook, message: str) -> None:
    notes = Notes()
    with pytest.raises(ValueError, match=re.escape(message)):
        agent(tmp_path).train(env, timesteps=20, hooks=[notes, hook])
    assert notes.events == []
    assert not (tmp_path / "run.json").exists()


class Fails(Rendered):
    def __init__(self, error: Exception) -> None:
        super().__init__("rgb_array")
        self.error = error

    def render(self) -> Any:
        raise self.error


TRAINED = Rendered("rgb_array")
NO_PYGAME = gymnasium.error.DependencyNotInstalled("pygame is not installed")


@pytest.mark.usefixtures("ids")
@pytest.mark.parametrize(
    ("env", "recorded", "message"),
    [
        ("axonrl-test/Unrendered-v0", None, "axonrl-test/Unrendered-v0 has no render mode 'rgb_array', only []"),
        (Counting(), None, "cannot make another environment like <Counting instance>"),
        (Counting(), Rendered(), "Rendered has render_mode=None: a video needs 'rgb_array'"),
        (Counting(), Rendered("rgb_array", np.zeros((4, 4))), "Rendered renders float64[4, 4], where an image uint8"),
        (Counting(), Fails(RuntimeError("no display")), "Fails cannot render rgb_array: RuntimeError: no display"),
        (Counting(), Fails(NO_PYGAME), "DependencyNotInstalled: pygame is not installed; pip install"),
        (TRAINED, TRAINED, "the training environment"),
    ],
)
def test_environments_without_images(env: Any, recorded: Any, message: str, tmp_path: Path) -> None:
    refused(tmp_path, env, VideoHook(5, env=recorded), message)


@pytest.mark.usefixtures("ids")
def test_an_environment_that_normalises_what_the_training_s_does_not(tmp_path: Path) -> None:
    env = make("axonrl-test/Rendered-v0", wrappers=["normalize_reward"], render_mode="rgb_array")
    message = "this environment has normalize_reward, which the run was trained without"
    refused(tmp_path, Counting(), VideoHook(5, env=env), message)


def test_a_missing_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "moviepy", None)
    hook = VideoHook(5, env=Rendered("rgb_array"))
    refused(tmp_path, Counting(), hook, "a video needs the package moviepy, which cannot be imported")
