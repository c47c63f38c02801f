"""What the tests of interfaces share: most of what they cost is the creation of agents with a model."""

import contextlib
import importlib
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

import pytest

InTensorFlow: TypeAlias = Callable[[], contextlib.AbstractContextManager[None]]


def runtimes() -> tuple[Any, Any]:
    """The modules with the names that are replaced, after all that import these names have done so."""
    for name in ("frozen", "retracing", "trial", "tensorflow", "litert.executor"):
        importlib.import_module(f"axonrl.runtimes.{name}")
    from axonrl.runtimes import choosing
    from axonrl.runtimes.tracing import program

    return choosing, program


@pytest.fixture(scope="module")
def traced_once() -> Iterator[None]:
    """Equal models of a module are traced once; they run in LiteRT, where each agent has variables of its own."""
    _, program = runtimes()
    original: Any = program.Program
    made: dict[str, Any] = {}

    class Once(original):  # type: ignore[misc]
        def trace_train(self, batch: Any) -> Any:
            if getattr(self, "traced", batch) != batch:
                self.__init__(*self.made_of)  # type: ignore[misc] # the same variables as at first
            if getattr(self, "traced", None) != batch:
                self.train, self.traced = super().trace_train(batch), batch
            return self.train

    def once(model_fn: Any, observation: Any, seed: int) -> Any:
        key = repr((vars(model_fn), observation, seed))
        if key not in made:
            made[key] = Once(model_fn, observation, seed)
            made[key].made_of = model_fn, observation, seed
        return made[key]

    once.original = original  # type: ignore[attr-defined]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(program, "Program", once)
        yield


@pytest.fixture(scope="session")
def in_tensorflow() -> InTensorFlow:
    """Within it, agents are created that run in TensorFlow: conversion to LiteRT takes most of a creation."""

    @contextlib.contextmanager
    def entered() -> Iterator[None]:
        choosing, program = runtimes()
        choose = choosing.choose

        def tensorflow(program: Any, train: Any, runtime: str, kept: Any, cache: Any) -> Any:
            return choose(program, train, "tensorflow", kept, cache)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(program, "Program", getattr(program.Program, "original", program.Program))
            patch.setattr(choosing, "choose", tensorflow)
            yield

    return entered


@pytest.fixture
def unconverted(in_tensorflow: InTensorFlow) -> Iterator[None]:
    """All agents of the test run in TensorFlow: for what LiteRT has no part in."""
    with in_tensorflow():
        yield
