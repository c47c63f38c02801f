"""Videos of episodes: an environment that renders images, and Gymnasium's recorder around it."""

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

from ..contracts import Array
from ..errors import BrokenEnvironmentError
from .batched import AnyEnv, BatchedEnvironment
from .making import open_environment, similar

PREVIEW_FRAMES, PREVIEW_SIZE = 60, 240
"""At most, in a preview: frames, and pixels of the longer side."""
_RENDER_MODE = "rgb_array"


def rendering(env: Any, source: Any, closing: contextlib.ExitStack) -> AnyEnv:
    """An environment of which a video can be taken: it has rendered one image.

    Args:
        env: it, or an id from which it is made; None for one like ``source``.
        source: the training's environment.
        closing: closes what is made here.

    Raises:
        ValueError: it does not render images, none can be made, or what writes videos is not installed.
    """
    if env is None or isinstance(env, str):
        env = _made_rendering(source if env is None else env)
        closing.callback(env.close)
    _check_rendering(env)
    _need_moviepy()
    checked: AnyEnv = env
    return checked


@dataclasses.dataclass
class Recording:
    """An environment in which an episode is recorded, and, once that is done, its :func:`preview`."""

    env: BatchedEnvironment
    preview: bytes = b""


@contextlib.contextmanager
def recorded(env: AnyEnv, path: Path) -> Iterator[Recording]:
    """``env`` behind the batched interface; the one episode played inside becomes the video ``path``.

    Gymnasium's recorder writes it, at the frame rate of the environment. It is there whole or not at all.

    Args:
        env: what :func:`rendering` returned.
        path: ``.mp4``; its folder is made.

    Raises:
        BrokenEnvironmentError: images ceased to come.
        OSError: it cannot be written.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".", dir=path.parent) as folder:
        made = Path(folder) / "video"  # the recorder warns of a folder that is there already
        recorder: Any = gymnasium.wrappers.RecordVideo(env, str(made), episode_trigger=lambda episode: True)
        try:
            recording = Recording(open_environment(recorder))
            yield recording
            if not recorder.recording:  # it has given up in the middle
                raise BrokenEnvironmentError(f"{_name(env)}.render did not return an image in the course of an episode")
            recording.preview = preview(recorder.recorded_frames, recorder.frames_per_sec)
            recorder.stop_recording()
            next(made.glob("*.mp4")).replace(path)
        finally:
            recorder.recorded_frames = []  # of an episode that failed: it would warn of them


def preview(frames: Sequence[Array], frames_per_sec: float) -> bytes:
    """Some of the frames as a small animated GIF that takes as long as all of them.

    Args:
        frames: uint8 [height, width, 3], at least one.
        frames_per_sec: of all of them.
    """
    from PIL import Image

    every = math.ceil(len(frames) / PREVIEW_FRAMES)
    height, width = frames[0].shape[:2]
    scale = min(1.0, PREVIEW_SIZE / max(height, width))
    size = max(1, round(scale * width)), max(1, round(scale * height))
    first, *others = (Image.fromarray(frame).resize(size) for frame in frames[::every])
    file = io.BytesIO()
    milliseconds = max(20, round(1000 * every / frames_per_sec))  # browsers take less for a mistake
    first.save(file, "GIF", save_all=True, append_images=others, duration=milliseconds, loop=0)
    return file.getvalue()


def _need_moviepy() -> None:
    try:
        importlib.import_module("moviepy")
    except ImportError as error:
        raise ValueError(
            f"a video needs the package moviepy, which cannot be imported ({error}): pip install 'axonrl[video]'"
        ) from error


def _made_rendering(source: Any) -> AnyEnv:
    """A fresh single environment like ``source`` that renders images."""
    env = similar(source)
    if env.render_mode == _RENDER_MODE:
        return env
    env.close()
    spec, modes = env.spec, env.metadata.get("render_modes") or []
    if _RENDER_MODE not in modes:
        raise ValueError(f"{_name(env)} cannot render {_RENDER_MODE}, only {modes}: there is no video of it")
    if spec is None:
        raise ValueError(
            f"{_name(env)} has render_mode={env.render_mode!r}, and no id from which to make one that renders images:"
            f" pass env with render_mode={_RENDER_MODE!r}"
        )
    try:
        return gymnasium.make(spec, render_mode=_RENDER_MODE, disable_env_checker=True)
    except Exception as error:  # whatever an environment does that is made
        raise ValueError(f"{_name(env)} cannot be made with render_mode={_RENDER_MODE!r}: {error}") from error


def _check_rendering(env: Any) -> None:
    """Render one image: what is wrong with that shows now."""
    if not isinstance(env, gymnasium.Env):
        raise ValueError(f"a video is taken of one environment, a gymnasium.Env or an id, got {env!r}")
    if env.render_mode != _RENDER_MODE:
        raise ValueError(f"{_name(env)} has render_mode={env.render_mode!r}: a video needs {_RENDER_MODE!r}")
    try:
        env.reset(seed=0)
        image: Any = env.render()
    except Exception as error:  # whatever an environment does; a package that it draws with may be missing
        raise ValueError(f"{_name(env)} cannot render {_RENDER_MODE}: {type(error).__name__}: {error}") from error
    if not (isinstance(image, np.ndarray) and image.ndim == 3 and image.shape[2] == 3 and image.dtype == np.uint8):
        what = f"{image.dtype}{list(image.shape)}" if isinstance(image, np.ndarray) else type(image).__name__
        raise ValueError(f"{_name(env)} renders {what}, where an image uint8 [height, width, 3] is expected")


def _name(env: AnyEnv) -> str:
    return env.spec.id if env.spec is not None else type(env.unwrapped).__name__
