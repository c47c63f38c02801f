"""What the tests of runtimes share: specs of batches, batches, and a short way to trace."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest

from axonrl.core.protocols import ArraySpec, RunConfig, SpecTree
from axonrl.runtimes.tracing.program import Program
from axonrl.runtimes.tracing.signature import BoundModelFn

OBSERVATION = ArraySpec((4,), np.float32)


@pytest.fixture(scope="session")
def trace() -> Callable[..., Program]:
    """``trace(model_fn, observation=float32 [4], seed=0, params=None)`` returns the Program."""

    def make(model_fn: Any, observation: SpecTree = OBSERVATION, seed: int = 0, params: Any = None) -> Program:
        return Program(BoundModelFn(model_fn, params, RunConfig(), None), observation, seed)

    return make


@pytest.fixture(scope="session")
def batch_specs() -> Callable[..., dict[str, SpecTree]]:
    """``batch_specs(*axes, observation=float32 [4], **more)``: what a memory's batches with these axes look like."""

    def make(*axes: int, observation: SpecTree = OBSERVATION, **more: SpecTree) -> dict[str, SpecTree]:
        def batched(spec: SpecTree) -> SpecTree:
            if isinstance(spec, ArraySpec):
                return ArraySpec((*axes, *spec.shape), spec.dtype)
            return {key: ArraySpec((*axes, *leaf.shape), leaf.dtype) for key, leaf in spec.items()}

        one: dict[str, SpecTree] = dict.fromkeys(
            ("reward", "terminated", "truncated", "discount"), ArraySpec((), np.float32)
        )
        one |= {"action": ArraySpec((), np.int32), "observation": observation, "next_observation": observation, **more}
        return {key: batched(spec) for key, spec in one.items()}

    return make


@pytest.fixture(scope="session")
def batch_of() -> Callable[..., dict[str, Any]]:
    """``batch_of(specs, seed=0)``: random numbers in these shapes; integers are 0 or 1."""

    def make(specs: Mapping[str, SpecTree], seed: int = 0) -> dict[str, Any]:
        rng = np.random.default_rng(seed)

        def draw(spec: SpecTree) -> Any:
            if not isinstance(spec, ArraySpec):
                return {key: draw(leaf) for key, leaf in spec.items()}
            if spec.dtype.kind == "f":
                return rng.standard_normal(spec.shape).astype(spec.dtype)
            return rng.integers(0, 2, spec.shape).astype(spec.dtype)

        return {key: draw(spec) for key, spec in specs.items()}

    return make
