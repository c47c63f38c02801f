"""Environments that render: in a window, or as videos with Gymnasium's recorder."""

from __future__ import annotations

import contextlib
import dataclasses
import importlib
import io
import math
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np

from ..core.errors import ArgumentError, BrokenEnvironmentError
from ..core.protocols import Array
from .batched import AnyEnv, AnyVectorEnv, BatchedEnvironment
from .ids import open_environment, similar
from .several_agents import worlds_in, worlds_like

PREVIEW_FRAMES, PREVIEW_SIZE = 60, 240
"""Limits of a preview: frames, and pixels of the longer side."""
_RENDER_MODE, _WINDOW = "rgb_array", "human"


def rendering(env: Any, source: Any, closing: contextlib.ExitStack) -> AnyEnv:
    """An environment that can be recorded as a video, tested by rendering one image.

    Args:
        env: the environment, or an id; None makes one like ``source``.
        source: the training's environment.
        closing: closes an environment made here.

    Raises:
        ValueError: the environment does not render images, none can be made, or moviepy is not installed.
    """
    if worlds_in(source if env is None else env) is not None:
        message = "a video shows a single gymnasium.Env, and this is a world with several agents: axonrl enjoy shows it"
        raise ValueError(f"{message} in a window")
    if env is None or isinstance(env, str):
        env = _made_rendering(source if env is None else env)
        closing.callback(env.close)
    _check_rendering(env)
    _need_moviepy()
    checked: AnyEnv = env
    return checked


def open_window(source: Any, closing: contextlib.ExitStack) -> AnyEnv | AnyVectorEnv:
    """Open a new single environment like ``source``, or a single world, in a window, and show its first image.

    Raises:
        ValueError: it cannot render, or cannot be made.
    """
    env: Any = _made_rendering(source, _WINDOW) if worlds_in(source) is None else _world_in_window(source)
    closing.callback(env.close)
    try:
        env.reset(seed=0)
    except Exception as error:  # environments may raise anything; the display may be missing
        raise _not_rendered(env, _WINDOW, error) from error
    shown: AnyEnv | AnyVectorEnv = env
    return shown


def _world_in_window(source: Any) -> AnyVectorEnv:
    try:
        return worlds_like(source, 1, render_mode=_WINDOW)
    except ArgumentError as error:
        raise ValueError(f"no window: {error}") from error


@dataclasses.dataclass
class Recording:
    """An environment that records its episodes; afterwards, the last episode's frames and their rate."""

    env: BatchedEnvironment
    frames: Sequence[Array] = ()
    frames_per_sec: float = 0.0


@contextlib.contextmanager
def recorded(env: AnyEnv, *paths: Path) -> Iterator[Recording]:
    """Open ``env`` behind the batched interface, and write the episodes played inside to the videos ``paths``.

    Gymnasium's recorder writes them, at the environment's frame rate. Each file is complete or missing.

    Args:
        env: result of :func:`rendering`.
        *paths: one ``.mp4`` per episode, all in one folder, which is created.

    Raises:
        BrokenEnvironmentError: the environment stopped returning images.
        OSError: a video cannot be written.
    """
    paths[0].parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".", dir=paths[0].parent) as folder:
        made = Path(folder) / "video"  # the recorder warns of an existing folder
        recorder: Any = gymnasium.wrappers.RecordVideo(env, str(made), episode_trigger=lambda episode: True)
        try:
            recording = Recording(open_environment(recorder))
            yield recording
            if not recorder.recording:  # it gave up in the middle
                raise BrokenEnvironmentError(f"{_name(env)}.render stopped returning images during an episode")
            recording.frames, recording.frames_per_sec = recorder.recorded_frames, recorder.frames_per_sec
            recorder.stop_recording()
            for episode, path in enumerate(paths):
                (made / f"{recorder.name_prefix}-episode-{episode}.mp4").replace(path)
        finally:
            recorder.recorded_frames = []  # after a failed episode it would warn about them


def preview(frames: Sequence[Array], frames_per_sec: float) -> bytes:
    """Some of the frames as a small animated GIF of the same duration.

    Args:
        frames: uint8 [height, width, 3], at least one.
        frames_per_sec: frame rate of all frames.
    """
    from PIL import Image

    every = math.ceil(len(frames) / PREVIEW_FRAMES)
    height, width = frames[0].shape[:2]
    scale = min(1.0, PREVIEW_SIZE / max(height, width))
    size = max(1, round(scale * width)), max(1, round(scale * height))
    first, *others = (Image.fromarray(frame).resize(size) for frame in frames[::every])
    file = io.BytesIO()
    milliseconds = max(20, round(1000 * every / frames_per_sec))  # browsers ignore shorter ones
    first.save(file, "GIF", save_all=True, append_images=others, duration=milliseconds, loop=0)
    return file.getvalue()


def _need_moviepy() -> None:
    try:
        importlib.import_module("moviepy")
    except ImportError as error:
        raise ValueError(
            f"a video needs the package moviepy, which cannot be imported ({error}); pip install 'axonrl[video]'"
        ) from error


def _made_rendering(source: Any, mode: str = _RENDER_MODE) -> AnyEnv:
    """A new single environment like ``source`` with this render mode."""
    env = similar(source)
    if env.render_mode == mode:
        return env
    env.close()
    spec, modes = env.spec, env.metadata.get("render_modes") or []
    if mode not in modes:
        raise ValueError(f"{_name(env)} has no render mode {mode!r}, only {modes}")
    if spec is None:
        raise ValueError(
            f"{_name(env)} has render_mode={env.render_mode!r} and no id to create one with {mode!r}:"
            f" pass env with render_mode={mode!r}"
        )
    try:
        return gymnasium.make(spec, render_mode=mode, disable_env_checker=True)
    except Exception as error:  # constructors may raise anything
        raise ValueError(f"{_name(env)} cannot be created with render_mode={mode!r}: {error}") from error


def _check_rendering(env: Any) -> None:
    """Render one image, so that problems show early."""
    if not isinstance(env, gymnasium.Env):
        raise ValueError(f"a video needs one environment, a gymnasium.Env or an id, got {env!r}")
    if env.render_mode != _RENDER_MODE:
        raise ValueError(f"{_name(env)} has render_mode={env.render_mode!r}: a video needs {_RENDER_MODE!r}")
    try:
        env.reset(seed=0)
        image: Any = env.render()
    except Exception as error:  # environments may raise anything; a drawing package may be missing
        raise _not_rendered(env, _RENDER_MODE, error) from error
    if not (isinstance(image, np.ndarray) and image.ndim == 3 and image.shape[2] == 3 and image.dtype == np.uint8):
        what = f"{image.dtype}{list(image.shape)}" if isinstance(image, np.ndarray) else type(image).__name__
        raise ValueError(f"{_name(env)} renders {what}, where an image uint8 [height, width, 3] is expected")


def _not_rendered(env: AnyEnv, mode: str, error: Exception) -> ValueError:
    missing = isinstance(error, gymnasium.error.DependencyNotInstalled | ImportError)
    advice = "; pip install 'axonrl[video]' installs what most environments need" if missing else ""
    return ValueError(f"{_name(env)} cannot render {mode}: {type(error).__name__}: {error}{advice}")


def _name(env: AnyEnv) -> str:
    return env.spec.id if env.spec is not None else type(env.unwrapped).__name__
