"""What the tests of Tensorforce's interface share."""

import contextlib
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

import pytest

InTensorFlow: TypeAlias = Callable[[], contextlib.AbstractContextManager[None]]


@pytest.fixture(scope="session")
def in_tensorflow() -> InTensorFlow:
    """Within it, agents are created that run in TensorFlow: conversion to LiteRT takes most of a creation."""

    @contextlib.contextmanager
    def entered() -> Iterator[None]:
        from axonrl.runtimes import choosing

        choose = choosing.choose

        def tensorflow(program: Any, train: Any, runtime: str, kept: Any, cache: Any) -> Any:
            return choose(program, train, "tensorflow", kept, cache)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(choosing, "choose", tensorflow)
            yield

    return entered


@pytest.fixture
def unconverted(in_tensorflow: InTensorFlow) -> Iterator[None]:
    """All agents of the test run in TensorFlow: for what LiteRT has no part in."""
    with in_tensorflow():
        yield
