"""TensorBoard event values other than numbers: histograms, images and sounds."""

from __future__ import annotations

import io
import struct
import wave
import zlib
from typing import Any, Final

import numpy as np

from ....core.protocols import Array
from ...common.events import empty

_PNG_COLORS: Final = {1: 0, 2: 4, 3: 2, 4: 6}
"""PNG's colour type by the number of channels: grey, grey and alpha, RGB, RGB and alpha."""
CHANNELS: Final = tuple(_PNG_COLORS)
"""How many an image may have."""


def histogram(tag: str, values: Array, buckets: int | None = None) -> Any:
    """The distribution of the finite ones among the values, of any shape."""
    from tensorboard.plugins.histogram.summary_v2 import histogram_pb

    numbers = values.astype(np.float64).ravel()
    return histogram_pb(tag, numbers[np.isfinite(numbers)], buckets)


def images(tag: str, values: Array) -> Any:
    """Images [N, height, width, channels], uint8 or floats in 0 .. 1; several have their numbers after the tag."""
    if values.dtype != np.uint8:
        values = np.rint(np.clip(values.astype(np.float64), 0.0, 1.0) * 255).astype(np.uint8)
    summary = empty()
    for tag_of_one, pixels in _tagged(tag, values):
        height, width, channels = pixels.shape
        value = summary.value.add(tag=tag_of_one)
        value.image.height, value.image.width, value.image.colorspace = height, width, channels
        value.image.encoded_image_string = png(pixels)
    return summary


def sounds(tag: str, values: Array, sample_rate: int) -> Any:
    """Sounds [N, frames, channels] of floats in -1 .. 1; several have their numbers after the tag."""
    summary = empty()
    for tag_of_one, frames in _tagged(tag, values):
        value = summary.value.add(tag=tag_of_one)
        value.audio.length_frames, value.audio.num_channels = frames.shape
        value.audio.sample_rate = sample_rate
        value.audio.content_type = "audio/wav"
        value.audio.encoded_audio_string = wav(frames, sample_rate)
    return summary


def png(pixels: Array) -> bytes:
    """An image, uint8 [height, width, channels], as a PNG file."""
    height, width, channels = pixels.shape
    rows = b"".join(b"\0" + row.tobytes() for row in pixels)  # 0: no filter
    header = struct.pack(">IIBBBBB", width, height, 8, _PNG_COLORS[channels], 0, 0, 0)
    parts = ((b"IHDR", header), (b"IDAT", zlib.compress(rows)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data)) for kind, data in parts
    )


def wav(frames: Array, sample_rate: int) -> bytes:
    """A sound [frames, channels] of floats in -1 .. 1, beyond which it is cut, as a WAV file of 16 bits."""
    whole = np.rint(np.clip(frames.astype(np.float64), -1.0, 1.0) * 32767).astype("<i2")
    file = io.BytesIO()
    with wave.open(file, "wb") as writer:
        writer.setnchannels(frames.shape[1])
        writer.setsampwidth(2)
        writer.setframerate(sample_rate)
        writer.writeframes(whole.tobytes())
    return file.getvalue()


def _tagged(tag: str, values: Array) -> list[tuple[str, Array]]:
    if len(values) == 1:
        return [(tag, values[0])]
    return [(f"{tag}/{number}", one) for number, one in enumerate(values)]
