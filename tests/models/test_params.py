import dataclasses
import re
from typing import Any

import pytest

from axonrl.models.blocks.params import from_params, layer_sizes


@dataclasses.dataclass(frozen=True)
class Settings:
    size: int = 3
    learning_rate: float = 0.1


def test_params_replace_defaults() -> None:
    assert from_params(Settings, None) == Settings(3, 0.1)
    assert from_params(Settings, {}) == Settings(3, 0.1)
    assert from_params(Settings, {"size": 5}) == Settings(5, 0.1)
    given = Settings(7)
    assert from_params(Settings, given) is given


@pytest.mark.parametrize(
    ("params", "message"),
    [
        (
            {"learning_rat": 1},
            "Settings has no 'learning_rat' (did you mean 'learning_rate'?), only size,",
        ),
        ({"qqq": 1}, "Settings has no 'qqq', only size, learning_rate"),
        ({1: 1}, "Settings has no 1, only"),
        ([("size", 3)], "params must be a mapping or a Settings, got [('size', 3)]"),
    ],
)
def test_unknown_names_are_refused(params: Any, message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        from_params(Settings, params)


def test_layer_sizes() -> None:
    assert layer_sizes("hidden", [64, 32.0]) == (64, 32)
    assert layer_sizes("hidden", ()) == ()
    for wrong in (64, "64", [0], [64, None], [True]):
        with pytest.raises(ValueError, match="hidden must be "):
            layer_sizes("hidden", wrong)
