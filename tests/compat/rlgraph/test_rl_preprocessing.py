"""Preprocessing and its steps, with numbers by hand."""

import json
import math
import warnings
from typing import Any

import numpy as np
import pytest

from axonrl.compat.rlgraph.processing.preprocessors import Preprocessor
from axonrl.compat.rlgraph.spaces import FloatBox, IntBox
from axonrl.compat.rlgraph.spaces.space_specs import with_boxes

from .agents import box, refused

BYTES: dict[str, Any] = {"dtype": "uint8", "low": 0, "high": 256, "num_categories": 256}


def made(spec: Any, space: Any = None) -> Preprocessor:
    return Preprocessor("preprocessing_spec", spec, {"": space or box((2,))})


def results(preprocessor: Preprocessor, *batches: Any, lanes: Any = None) -> list[Any]:
    """What comes out of batches, as lists; checks that it is what ``outputs`` tells."""
    (out,), found = preprocessor.outputs.values(), []
    for batch in batches:
        x = np.asarray(batch)
        x = x.astype(np.float32) if x.dtype == np.float64 else x
        y = preprocessor({"": x}, [str(row) for row in range(len(x))] if lanes is None else lanes)[""]
        assert (y.shape[1:], y.dtype) == (out.shape, out.dtype)
        assert len(y) == len(batch)
        found.append(y.tolist())
    return found


def one(spec: Any, batch: Any, dtype: Any = "float32", **facts: Any) -> Any:
    batch = np.asarray(batch, dtype)
    return results(made(spec, box(batch.shape[1:], dtype, **facts)), batch)[0]


def test_steps_follow_each_other_and_can_be_written_down() -> None:
    spec = [{"type": "clip", "max": 5}, "normalize", {"type": "reshape", "new_shape": [-1, 1]}]
    preprocessor = made(spec)
    written = json.loads(json.dumps(preprocessor.spec))
    assert written[0] == {"type": "clip", "min": 0.0, "max": 5.0}
    given = np.array([[0.1, 0.2]], np.float32)
    assert made(None)({"": given}, ["0"])[""] is given  # nothing to do
    again = made(written)
    assert again.spec == preprocessor.spec
    assert results(again, [[-3.0, 9.0]]) == [[[[0.0], [pytest.approx(1 / 1.0000002)]]]]


@pytest.mark.parametrize(
    ("step", "shape", "argument"),
    [
        ({"type": "devide", "divisor": 2}, (2,), "['type']"),
        ({"type": "clip", "min": 2}, (2,), "['min']"),
        ({"type": "reshape", "new_shape": [3, -1]}, (2,), "['new_shape']"),
        ("transpose", (2,), ""),
        ({"type": "image_crop", "x": 2, "width": 3, "height": 3}, (3, 4, 3), "['width']"),
        ({"type": "image_resize", "width": 1, "height": 1, "interpolation": "cubic"}, (2, 2), "['interpolation']"),
        ({"type": "sequence", "add_rank": False}, (), "['add_rank']"),
    ],
)
def test_what_is_wrong_is_named(step: Any, shape: Any, argument: str) -> None:
    assert refused(made, [step], box(shape)).argument == f"preprocessing_spec[0]{argument}"


def test_clipping() -> None:
    assert one(["clip"], [[-1.0, 0.5], [2.0, 1.0]]) == [[0.0, 0.5], [1.0, 1.0]]
    clipped = made(
        [{"type": "clip", "min": -2, "max": 3}], box((2,), dtype="uint8", low=0, high=256, num_categories=256)
    )
    assert results(clipped, np.array([[0, 200]], np.uint8)) == [[[0, 3]]]
    assert clipped.outputs[""].num_categories == 4
    assert one([{"type": "clip", "min": 0.5, "max": 2}], [[0, 9]], "int32") == [[0.5, 2.0]]
    assert one([{"type": "clip", "min": -5, "max": -4}], [[0, 9]], "uint8") == [[-4.0, -4.0]]


def test_factors_make_floats() -> None:
    assert one([{"type": "divide", "divisor": 2}], [[1, 4]], "int32") == [[0.5, 2.0]]
    assert one([{"type": "multiply", "factor": -0.5}], [[3, 4]], "uint8") == [[-1.5, -2.0]]
    assert one([{"type": "multiply", "factor": 3}], [[True, False]], "bool") == [[3.0, 0.0]]


def bounds(spec: Any, space: Any) -> tuple[float, float]:
    out: Any = made(spec, space).outputs[""]
    return out.low, out.high


def test_bounds_follow() -> None:
    assert bounds([{"type": "divide", "divisor": -2}], box((2,), low=np.array([0.0, 4.0]), high=8.0)) == (-4.0, 0.0)
    assert bounds([{"type": "divide", "divisor": 255}], box((2,), **BYTES)) == (0.0, 1.0)
    assert bounds([{"type": "multiply", "factor": 0}], box((2,))) == (0.0, 0.0)
    halved_flags = [{"type": "convert_type", "to_dtype": "bool"}, {"type": "divide", "divisor": 2}]
    assert bounds(halved_flags, box((2,), **BYTES)) == (0, 0.5)
    integers = Preprocessor("x", [{"type": "convert_type", "to_dtype": "int"}], FloatBox(1, np.inf, (2,)).flat())
    assert with_boxes(FloatBox(1, np.inf, shape=(2,)), integers.outputs) == IntBox(1, 2**31 - 1, (2,))
    assert bounds(["grayscale"], box((2, 2, 3))) == (-math.inf, math.inf)
    assert bounds([{"type": "grayscale", "weights": [1, -1]}], box((2,), low=0.0, high=2.0)) == (-2.0, 2.0)
    assert bounds(["transpose"], box((2, 2), **{**BYTES, "low": 3, "num_categories": 253})) == (3, 256)


def test_dtypes() -> None:
    def to(dtype: Any, batch: Any, given: str, **facts: Any) -> Any:
        return one([{"type": "convert_type", "to_dtype": dtype}], batch, given, **facts)

    assert to("int", [[-1.7, 2.9]], "float32") == [[-1, 2]]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert to("uint8", [[-3.0, 300.0]], "float32") == [[0, 255]]
        assert to("int32", [[3e9, -3e9]], "float32") == [[2**31 - 1, -(2**31)]]
    assert to(np.float32, [[1, 2]], "int32") == [[1.0, 2.0]]
    assert to("np.bool_", [[0, 2]], "int32") == [[False, True]]
    flags: Any = made([{"type": "convert_type", "to_dtype": int}], box((2,), dtype="bool")).outputs[""]
    assert (flags.dtype, flags.num_categories, flags.low, flags.high) == (np.int32, 2, 0, 2)


def test_normalizing_takes_each_state_as_a_whole() -> None:
    found = one(["normalize"], [[[0, 5], [10, 5]], [[7, 7], [7, 7]]], "uint8")
    assert found[0] == [
        [0.0, pytest.approx(0.5, abs=1e-6)],
        [pytest.approx(1.0, abs=1e-6), pytest.approx(0.5, abs=1e-6)],
    ]
    assert found[1] == [[0.0, 0.0], [0.0, 0.0]]
    tiny = one(["normalize"], [[0.0, 1e-6]])
    assert tiny[0][1] == pytest.approx(0.5)  # 1e-6 / (1e-6 + 1e-6)


def test_shapes() -> None:
    assert one([{"type": "reshape", "new_shape": [3, -1]}], [[[1, 2, 3], [4, 5, 6]]], "uint8") == [
        [[1, 2], [3, 4], [5, 6]]
    ]
    flatten = [{"type": "reshape", "flatten": True}]
    assert one(flatten, [[[1.0, 2.0], [3.0, 4.0]]]) == [[1.0, 2.0, 3.0, 4.0]]
    assert one(flatten, [[5, -7]], "int32") == [[5, -7]]  # no categories
    assert one(flatten, [[[1, 2], [3, 4]]], **BYTES) == [[1, 2, 3, 4]]  # nor have bytes
    assert one(flatten, [1, 0], "int32", num_categories=3) == [[0, 1, 0], [1, 0, 0]]
    assert one(flatten, [[5, 4]], "int32", num_categories=2, low=4, high=6) == [[0, 1, 1, 0]]
    uneven = {"num_categories": 2, "low": np.array([0, 4]), "high": np.array([2, 6])}
    assert one(flatten, [[1, 4]], "int32", **uneven) == [[1, 4]]
    for kind in ({}, {"num_categories": 3}):  # a number is that of the categories
        assert one([{**flatten[0], "flatten_categories": 4}], [[1, 2]], "int32", **kind) == [[0, 1, 0, 0, 0, 0, 1, 0]]
    assert one([{**flatten[0], "flatten_categories": False}], [[1, 0]], "int32", num_categories=3) == [[1, 0]]
    many = box((2,), dtype="int32", num_categories=10_001)
    assert refused(made, flatten, many).argument == "preprocessing_spec[0]['flatten_categories']"
    assert one(["transpose"], [[[1, 2, 3], [4, 5, 6]]], "uint8") == [[[1, 4], [2, 5], [3, 6]]]


def test_grey_images_keep_integers() -> None:
    assert one(["grayscale"], [[[[255, 0, 0], [255, 255, 255]]]], "uint8") == [[[76, 255]]]  # 76.245
    assert one([{"type": "grayscale", "keep_rank": True}], [[[0, 0, 15]]], "uint8") == [[[2]]]  # 1.71
    assert one([{"type": "grayscale", "weights": [2, 1]}], [[1.0, 0.5]]) == [2.5]
    assert one([{"type": "grayscale", "weights": [1, 1]}], [[200, 200]], "uint8") == [255]
    grey: Any = made([{"type": "grayscale", "weights": [0.5, 0.25]}], box((1, 2), **BYTES)).outputs[""]
    assert (grey.dtype, grey.num_categories) == (np.uint8, 192)  # 191.25 at most


def test_binary_images() -> None:
    image = [[[[0, 0, 0], [200, 100, 0]]]]
    assert one(["image_binary"], image, "uint8") == [[[0, 1]]]
    assert one([{"type": "image_binary", "threshold": 300}], image, "uint8") == [[[0, 0]]]
    assert one([{"type": "image_binary", "threshold": 299, "keep_rank": True}], image, "uint8") == [[[[0], [1]]]]
    assert one(["image_binary"], [[[0.0, 0.1], [-1.0, 2.0]]]) == [[[0.0, 1.0], [0.0, 1.0]]]


def test_cropping() -> None:
    image = np.arange(12, dtype=np.uint8).reshape(1, 3, 4)
    assert one([{"type": "image_crop", "x": 1, "y": 2, "width": 3, "height": 1}], image, "uint8") == [[[9, 10, 11]]]
    assert one([{"type": "image_crop", "width": 1, "height": 2}], image[..., None], "uint8") == [[[[0]], [[4]]]]


def resized(width: int, height: int, method: str, image: Any, dtype: str = "float32") -> Any:
    spec = {"type": "image_resize", "width": width, "height": height, "interpolation": method}
    return one([spec], [image], dtype)[0]


def test_resizing() -> None:
    square = np.arange(16.0).reshape(4, 4)
    assert resized(2, 2, "area", square) == [[2.5, 4.5], [10.5, 12.5]]
    assert resized(2, 2, "area", square[..., None], "uint8") == [[[2], [4]], [[10], [12]]]  # halves to even numbers
    assert resized(2, 1, "area", [[1.0, 5.0], [3.0, 7.0]]) == [[2.0, 6.0]]
    resize = [{"type": "image_resize", "width": 1, "height": 1, "interpolation": "area"}]
    assert one(resize, [[[1.0, 5.0]], [[3.0, 7.0]]]) == [[[3.0]], [[5.0]]]  # each image of a batch by itself
    assert resized(4, 1, "bilinear", [[0.0, 4.0]]) == [[0.0, 1.0, 3.0, 4.0]]
    assert resized(1, 1, "bilinear", [[0.0, 4.0, 8.0]]) == [[4.0]]
    assert resized(2, 1, "nearest", [[0.0, 1.0, 2.0, 3.0]]) == [[1.0, 3.0]]
    assert resized(4, 1, "nearest", [[True, False]], "bool") == [[True, True, False, False]]


def test_sequences() -> None:
    preprocessor = made([{"type": "sequence", "sequence_length": 3}], box(()))
    rows = [[1.0, 1.0, 1.0]], [[1.0, 1.0, 2.0]], [[1.0, 2.0, 3.0]], [[2.0, 3.0, 4.0]]
    assert results(preprocessor, [1.0], [2.0], [3.0], [4.0]) == list(rows)
    preprocessor.reset()
    given = np.full(1, 7.0, np.float32)
    out = preprocessor({"": given}, ["0"])[""]
    given[:] = out[:] = 9  # what is remembered belongs to the preprocessor
    assert results(preprocessor, [8.0]) == [[[7.0, 7.0, 8.0]]]
    assert preprocessor.is_stateful


def test_sequences_along_the_last_axis() -> None:
    joined = made([{"type": "sequence", "add_rank": False}])
    assert results(joined, [[1.0, 2.0]], [[3.0, 4.0]]) == [[[1.0, 2.0, 1.0, 2.0]], [[1.0, 2.0, 3.0, 4.0]]]
    stacked = made(["sequence"])
    assert results(stacked, [[1.0, 2.0]], [[3.0, 4.0]]) == [[[[1.0, 1.0], [2.0, 2.0]]], [[[1.0, 3.0], [2.0, 4.0]]]]
    images = made([{"type": "sequence", "add_rank": False}], box((1, 2, 1), **BYTES))
    assert results(images, np.array([[[[1], [2]]]], np.uint8), np.array([[[[3], [4]]]], np.uint8))[1] == [
        [[[1, 3], [2, 4]]]
    ]
    assert images.outputs[""].num_categories == 256


def test_sequences_by_lane() -> None:
    preprocessor = made([{"type": "sequence", "batch_size": 2}], box(()))
    assert results(preprocessor, [1.0, 5.0], [2.0, 6.0]) == [[[1, 1], [5, 5]], [[1, 2], [5, 6]]]
    assert results(preprocessor, [7.0, 8.0, 9.0], lanes=["1", "0", "7"]) == [[[6, 7], [2, 8], [9, 9]]]
    preprocessor.reset(["1"])
    assert results(preprocessor, [3.0, 4.0], lanes=["0", "1"]) == [[[8, 3], [4, 4]]]


def test_what_is_remembered_can_be_saved() -> None:
    spec = [{"type": "divide", "divisor": 2}, "sequence"]
    preprocessor, other = made(spec), made(spec)
    results(preprocessor, [[2.0, 4.0], [6.0, 8.0]], lanes=["3", "1"])
    state = preprocessor.state_dict()
    other.load_state_dict(state)
    results(preprocessor, [[0.0, 0.0]], lanes=["3"])
    assert results(other, [[8.0, 8.0]], lanes=["3"]) == [[[[1.0, 4.0], [2.0, 4.0]]]]
    assert made(spec).state_dict() == {}


def test_parts() -> None:
    spaces = {"b": box(()), "a/x": box((2,), "uint8", num_categories=4)}
    each = Preprocessor("spec", [{"type": "multiply", "factor": 2}], spaces)
    given: dict[str, Any] = {"a/x": np.array([[1, 2]], np.uint8), "b": np.array([3.0], np.float32)}
    found = each(given, ["0"])
    assert {name: x.tolist() for name, x in found.items()} == {"b": [6.0], "a/x": [[2.0, 4.0]]}
    assert {x.dtype for x in found.values()} == {np.dtype(np.float32)}
    joined = Preprocessor("spec", ["concat"], spaces)
    assert joined(given, ["0"])[""].tolist() == [[3.0, 1.0, 2.0]]  # in the order of the spaces
    assert (joined.outputs[""].shape, joined.outputs[""].dtype) == ((3,), np.float32)
    parts = {"a": box((2, 3)), "b": box((3,))}
    assert refused(Preprocessor, "spec", ["concat"], parts).argument == "spec[0]"
