"""How a target network follows; its parts inside of DQN are tested with DQN."""

from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from axonrl.errors import ArgumentError
from axonrl.models.blocks.optimizers import LARGE
from axonrl.models.blocks.targets import TargetParams, update_target


def test_one_way_only() -> None:
    assert (TargetParams().target_update_period, TargetParams().target_update_rate) == (100, None)
    soft = TargetParams(target_update_rate=0.005)
    assert (soft.target_update_period, soft.target_update_rate) == (None, 0.005)
    with pytest.raises(ArgumentError, match=r"not both; got 5 and 0\.1") as error:
        TargetParams(target_update_rate=0.1, target_update_period=5)
    assert error.value.argument == "target_update_rate"
    for period, rate in [(None, None), (5, 0.1)]:
        with pytest.raises(ArgumentError, match=f"needs a period or a rate, got {period} and {rate}"):
            update_target([], [], tf.constant(0, tf.int64), period=period, rate=rate)


@pytest.mark.parametrize("size", [4, LARGE])
def test_copies_at_every_period(size: int) -> None:
    """A large target may share the memory of what it is a copy of, until that changes."""
    online, target = (keras.Variable(np.full((2, size // 2), value, np.float32)) for value in (1.0, 9.0))

    @tf.function(autograph=False)  # type: ignore[untyped-decorator]
    def update(step: Any) -> None:
        update_target([online], [target], step, period=2, rate=None)
        online.assign_add(tf.ones_like(online.value))

    found = []
    for step in range(4):
        update(tf.constant(step, tf.int64))
        found.append((float(online.numpy().min()), *np.unique(target.numpy()).tolist()))
    assert found == [(2.0, 1.0), (3.0, 1.0), (4.0, 3.0), (5.0, 3.0)]


def test_a_rate_starts_with_a_copy() -> None:
    online, target = keras.Variable([8.0, 4.0]), keras.Variable([9.0, 9.0])
    update_target([online], [target], tf.constant(0, tf.int64), period=None, rate=0.25)
    assert target.numpy().tolist() == [8.0, 4.0]
    target.assign([0.0, 8.0])
    update_target([online], [target], tf.constant(1, tf.int64), period=None, rate=0.25)
    assert target.numpy().tolist() == [2.0, 7.0]  # 0 + 8 / 4, 8 - 4 / 4
