"""Custom summaries: numbers, histograms, images and sounds, in TensorBoard's form."""

from __future__ import annotations

import dataclasses
import io
import struct
import wave
import zlib
from typing import Any, Final

import numpy as np

from ....core.checks import shortened
from ....core.protocols import Array
from ...common.events import empty, scalar
from ..spaces.errors import choice, integer, mapping, refuse, refuse_unknown

_PNG_COLORS: Final = {1: 0, 2: 4, 3: 2, 4: 6}
"""PNG's colour type by the number of channels: grey, grey and alpha, RGB, RGB and alpha."""
_ARGUMENTS: Final = {
    "scalar": (),
    "histogram": ("buckets",),
    "image": ("max_outputs",),
    "audio": ("sample_rate", "max_outputs"),
}
_RANKS: Final = {"scalar": 0, "image": 4, "audio": 3}
_SHAPES: Final = {
    "scalar": "a number",
    "image": "images [number, height, width, channels]",
    "audio": "sounds [number, frames, channels]",
}


@dataclasses.dataclass(frozen=True)
class Custom:
    """A custom summary.

    Args:
        type: ``scalar``, ``histogram``, ``image`` or ``audio``.
        buckets: number of buckets of a histogram.
        max_outputs: most images or sounds to write.
        sample_rate: sample rate of a sound, in frames per second.
    """

    type: str
    buckets: int | None = None
    max_outputs: int = 3
    sample_rate: int = 0

    def summary(self, place: str, name: str, value: Any) -> Any:
        """TensorBoard's form of a value.

        Raises:
            TensorforceError: the value is not numeric, or has the wrong rank or number of channels.
        """
        try:
            array = np.asarray(value)
        except (TypeError, ValueError):  # lists of different lengths
            array = np.asarray(None)
        if array.dtype.kind not in "biuf":
            refuse(place, f"must be numbers, got {shortened(value)}", value)
        if array.ndim != _RANKS.get(self.type, array.ndim):
            refuse(place, f"must be {_SHAPES[self.type]}, got the shape {array.shape}", value)
        if self.type == "scalar":
            return scalar(name, float(array))
        if self.type == "histogram":
            return histogram(name, array, self.buckets)
        self._check_media(place, array)
        summary, chosen = empty(), array[: self.max_outputs]
        for number, one in enumerate(chosen):
            written = summary.value.add(tag=name if len(chosen) == 1 else f"{name}/{number}")
            (_add_image if self.type == "image" else self._add_sound)(written, one)
        return summary

    def _check_media(self, place: str, array: Array) -> None:
        """Check that images or sounds can be encoded."""
        if not array.size:
            refuse(place, f"must be {_SHAPES[self.type]} with something in it, got the shape {array.shape}", array)
        if not np.isfinite(array).all():
            refuse(place, f"must be finite, got {shortened(array)}", array)
        if self.type == "image" and array.shape[-1] not in _PNG_COLORS:
            refuse(place, f"must have 1 to 4 channels, got the shape {array.shape}", array)
        if array.dtype.kind != "f" and (self.type == "audio" or array.dtype != np.uint8):
            wanted = "uint8 or floats in 0 .. 1" if self.type == "image" else "floats in -1 .. 1"
            refuse(place, f"must be {wanted}, got {array.dtype}", array)

    def _add_sound(self, value: Any, frames: Array) -> None:
        """A sound [frames, channels] of floats, clipped to -1 .. 1, as a 16-bit WAV file."""
        whole = np.rint(np.clip(frames.astype(np.float64), -1.0, 1.0) * 32767).astype("<i2")
        file = io.BytesIO()
        with wave.open(file, "wb") as writer:
            writer.setparams((frames.shape[1], 2, self.sample_rate, 0, "NONE", "not compressed"))
            writer.writeframes(whole.tobytes())
        value.audio.length_frames, value.audio.num_channels = frames.shape
        value.audio.sample_rate, value.audio.content_type = self.sample_rate, "audio/wav"
        value.audio.encoded_audio_string = file.getvalue()


def _add_image(value: Any, pixels: Array) -> None:
    """An image [height, width, channels], uint8 or floats in 0 .. 1, as a PNG file."""
    if pixels.dtype != np.uint8:
        pixels = np.rint(np.clip(pixels.astype(np.float64), 0.0, 1.0) * 255).astype(np.uint8)
    height, width, channels = pixels.shape
    rows = b"".join(b"\0" + row.tobytes() for row in pixels)  # 0: no filter
    header = struct.pack(">IIBBBBB", width, height, 8, _PNG_COLORS[channels], 0, 0, 0)
    content = b"\x89PNG\r\n\x1a\n"
    for kind, data in ((b"IHDR", header), (b"IDAT", zlib.compress(rows)), (b"IEND", b"")):
        content += struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    value.image.height, value.image.width, value.image.colorspace = height, width, channels
    value.image.encoded_image_string = content


def histogram(tag: str, values: Array, buckets: int | None = None) -> Any:
    """A histogram of the finite values, of any shape."""
    from tensorboard.plugins.histogram.summary_v2 import histogram_pb

    numbers = values.astype(np.float64).ravel()
    return histogram_pb(tag, numbers[np.isfinite(numbers)], buckets)


def read_custom(place: str, custom: Any) -> dict[str, Custom]:
    """The summaries defined by a summarizer's ``custom``.

    Raises:
        TensorforceError: a summary has no known ``type``, or invalid arguments.
    """
    found = {}
    for name, spec in mapping(place, {} if custom is None else custom).items():
        where = f"{place}[{name!r}]"
        given = dict(mapping(where, spec))
        kind = choice(f"{where}['type']", given.pop("type", None), _ARGUMENTS)
        refuse_unknown(where, given, _ARGUMENTS[kind], what="key")
        if kind == "audio" and "sample_rate" not in given:
            refuse(f"{where}['sample_rate']", "is missing: a sound has so many frames per second", None)
        found[name] = Custom(kind, **{key: integer(f"{where}[{key!r}]", x, at_least=1) for key, x in given.items()})
    return found
