"""What a memory returns becomes what was traced, where that loses nothing."""

from typing import Any

import numpy as np
import pytest

from axonrl.core.protocols import ArraySpec
from axonrl.policies.batches import BatchBoundary

SPECS: dict[str, Any] = {
    "reward": ArraySpec((2,), np.float32),
    "action": ArraySpec((2,), np.int32),
    "frame": ArraySpec((2,), np.uint8),
    "observation": {"b": ArraySpec((2, 1), np.float32), "a": ArraySpec((2,), np.bool_)},
}


def batch(**changed: Any) -> dict[str, Any]:
    whole = {
        "reward": np.array([0.5, 2], np.float32),
        "action": np.array([1, -1], np.int32),
        "frame": np.array([0, 255], np.uint8),
        "observation": {"b": np.ones((2, 1), np.float32), "a": np.array([True, False])},
    }
    return {**whole, **changed}


def test_what_fits_is_passed_on_as_it_is() -> None:
    given = batch()
    arrays = BatchBoundary(SPECS).arrays(given)
    expected = [given["action"], given["frame"], given["observation"]["a"], given["observation"]["b"], given["reward"]]
    assert all(array is one for array, one in zip(arrays, expected, strict=True))


def test_only_what_is_read_is_picked() -> None:
    given = batch()
    boundary = BatchBoundary(SPECS, read={0, 4})
    assert [array is given[key] for array, key in zip(boundary.arrays(given), ("action", "reward"), strict=True)] == [
        True
    ] * 2
    assert boundary.number == 5


@pytest.mark.parametrize(
    ("key", "value", "expected"),
    [
        ("reward", np.array([0.5, -3], ">f4"), [0.5, -3]),
        ("reward", np.array([np.nan, np.inf]), [np.nan, np.inf]),
        ("reward", [1, 2], [1, 2]),
        ("action", np.array([2**31 - 1, -(2**31)], np.int64), [2**31 - 1, -(2**31)]),
    ],
)
def test_conversions_that_lose_nothing(key: str, value: Any, expected: Any) -> None:
    found = BatchBoundary({key: SPECS[key]}).arrays({key: value})[0]
    assert found.dtype == SPECS[key].dtype
    assert found.dtype.isnative
    np.testing.assert_array_equal(found, np.array(expected, found.dtype))


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("reward", np.array([1e39, 0])),
        ("reward", np.array([2**24 + 1, 0], np.int64)),
        ("action", np.array([2**31, 0], np.int64)),
    ],
)
def test_numbers_that_do_not_fit_are_refused(key: str, value: Any) -> None:
    with pytest.raises(
        ValueError, match=rf"^batch\['{key}'\] has values that \w+\[2\] cannot hold, got {value.dtype}\[2\]$"
    ):
        BatchBoundary(SPECS).arrays(batch(**{key: value}))


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"action": np.array([1.5, 2])}, "batch['action'] must be int32[2], got float64[2]"),
        ({"action": np.zeros((2, 1), np.int64)}, "batch['action'] must be int32[2], got int64[2, 1]"),
        (
            {"observation": {"a": np.zeros(2), "b": np.ones((2, 1), np.float32)}},
            "batch['observation']['a'] must be bool[2], got float64[2]",
        ),
        (
            {"observation": np.ones(2, np.float32)},
            "batch['observation'] must be a dict with the keys ['a', 'b'], got ndarray",
        ),
    ],
)
def test_everything_else_is_refused_by_key(changed: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError) as error:  # noqa: PT011 - the message is compared whole
        BatchBoundary(SPECS).arrays(batch(**changed))
    assert str(error.value) == message


def test_a_missing_key_is_named() -> None:
    given = batch()
    del given["frame"]
    with pytest.raises(ValueError, match=r"^batch\['frame'\] is missing"):
        BatchBoundary(SPECS).arrays(given)


def test_shapes_are_checked_where_everything_is() -> None:
    with pytest.raises(ValueError, match=r"^batch\['reward'\] must be float32\[2\], got float32\[3\]$"):
        BatchBoundary(SPECS).convert(batch(reward=np.zeros(3, np.float32)))
