"""Which params a compiled program serves."""

from typing import Any

import pytest

from axonrl.policies import free_params

PARAMS = {"rate": 0.5, "warm_up": 1, "layers": [{"norm": True}, 64]}
PROGRAM = {
    "params": PARAMS,
    "free": {"inputs": ["rate"], "exploration": {}},
    "predict": {"exploration": {"kind": "greedy"}},
    "train": {"params": {"rate": 0.5}},
}


def test_a_free_param_may_change_its_value_and_its_type() -> None:
    for rate in (0.25, 2):
        made = free_params.with_params(PROGRAM, {**PARAMS, "rate": rate})
        assert made is not None
        assert (made["params"]["rate"], made["train"]["params"]) == (rate, {"rate": float(rate)})


@pytest.mark.parametrize("other", [{"warm_up": 1.0}, {"warm_up": True}, {"layers": [{"norm": 1}, 64]}])
def test_what_compares_equal_may_be_another_program(other: dict[str, Any]) -> None:
    """A function may ask for the type: one timestep of warm-up, or the whole run. JSON has no tuples."""
    assert free_params.with_params(PROGRAM, {**PARAMS, **other}) is None
    assert free_params.with_params(PROGRAM, {**PARAMS, "layers": ({"norm": True}, 64)}) is not None
