"""What holds for every test: the process's environment, the markers of fixtures, and models that are traced once."""

import atexit
import contextlib
import copy
import dataclasses
import gc
import importlib
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final, TypeAlias

import pytest

# Before anything loads TensorFlow or Matplotlib: no chatter, no GPU, no window.
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
os.environ["CUDA_VISIBLE_DEVICES"] = "-1"
os.environ["MPLBACKEND"] = "agg"

# Whatever the developer's shell tracks to: runs are tracked in the tests of tracking, which undo this, alone.
for name in [name for name in os.environ if name.startswith("POLYAXON_")]:
    del os.environ[name]
os.environ["POLYAXON_NO_OP"] = "true"

# Each process of the tests rewrites the assertions of all files, and each of their children imports the package: what
# one compiles, the others read.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# What one test converts, all find: also other processes of the tests, and their children.
if "PYTEST_XDIST_WORKER" not in os.environ:
    os.environ["AXONRL_CACHE"] = tempfile.mkdtemp(prefix="axonrl-programs-")
    atexit.register(shutil.rmtree, os.environ["AXONRL_CACHE"], ignore_errors=True)
    # No training programs, though: most tests are about what is traced. Where their folder would be, there is a file.
    Path(os.environ["AXONRL_CACHE"], "programs").touch()

# A shell ignores SIGINT in what it starts in the background, and children inherit that: Ctrl-C is tested, so undo it.
signal.signal(signal.SIGINT, signal.default_int_handler)

TESTS = Path(__file__).parent

MARKED_BY_FIXTURE: Final = {"polyaxon_server": "server", "postgresql": "server", "browser": "browser", "cluster": "ray"}
"""A test that uses one of these fixtures has the marker beside it."""


def is_full_run(config: pytest.Config) -> bool:
    """Is everything collected? Not where paths were given or files left out; ``-k`` and ``-m`` come later."""
    named = config.args_source is not pytest.Config.ArgsSource.TESTPATHS
    return not (named or any(config.getoption(name, None) for name in ("ignore", "ignore_glob", "lf", "pyargs")))


def empty_files(folder: Path, collected: set[Path]) -> list[str]:
    """The test files below ``folder`` from which no test was collected."""
    return sorted(path.relative_to(folder).as_posix() for path in set(folder.rglob("test_*.py")) - collected)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark tests by their fixtures; fail where a file holds no test: it was renamed inside, or all is conditional."""
    for item in items:
        for fixture in MARKED_BY_FIXTURE.keys() & set(getattr(item, "fixturenames", ())):
            item.add_marker(MARKED_BY_FIXTURE[fixture])
    if is_full_run(config) and (empty := empty_files(TESTS, {item.path for item in items})):
        raise pytest.UsageError(f"no test was collected from {', '.join(empty)} in {TESTS.name}/: remove it or mend it")


@pytest.fixture(autouse=True, scope="module")
def garbage_of_other_modules() -> None:
    """What is imported, and what a module leaves behind, is not searched for garbage again and again.

    A process of the tests traces hundreds of programs; searching what is left of them took a sixth of the time.
    """
    gc.collect()
    gc.freeze()


InTensorFlow: TypeAlias = Callable[[], contextlib.AbstractContextManager[None]]


def runtimes() -> tuple[Any, Any]:
    """The modules with the names that are replaced, after all that import these names have done so."""
    for name in ("frozen", "remote_trace", "trial", "tensorflow", "litert.executor"):
        importlib.import_module(f"axonrl.runtimes.{name}")
    from axonrl.runtimes import executor_choice
    from axonrl.runtimes.tracing import program

    return executor_choice, program


@pytest.fixture(scope="module")
def traced_once() -> Iterator[None]:
    """Equal models of a module are traced once, for agents that run in LiteRT, where each has variables of its own.

    Each has an exploration of its own. A second agent of a model that TensorFlow runs is refused: both would share
    variables.
    """
    executor_choice, program = runtimes()
    original: Any = program.Program
    executor = executor_choice._executor
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
            made[key].made_of, made[key].agents = (model_fn, observation, seed), 0
            made[key].exploration = made[key].predict.exploration
        shared = made[key]
        shared.agents += 1
        shared.predict = dataclasses.replace(shared.predict, exploration=copy.deepcopy(shared.exploration))
        return shared

    def checked(made_for: Any, train: Any, contents: Any) -> Any:
        in_litert = {part for parts in contents for part in parts}
        needed = {"actor"} if train is None else {"actor", "learner"}
        assert needed <= in_litert or getattr(made_for, "agents", 1) == 1, (
            "traced_once: TensorFlow runs this model, and another agent of the module has the same variables"
        )
        return executor(made_for, train, contents)

    once.original = original  # type: ignore[attr-defined]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(program, "Program", once)
        patch.setattr(executor_choice, "_executor", checked)
        yield


@pytest.fixture(scope="session")
def in_tensorflow() -> InTensorFlow:
    """Within it, agents are created that run in TensorFlow: conversion to LiteRT takes most of a creation."""

    @contextlib.contextmanager
    def entered() -> Iterator[None]:
        executor_choice, program = runtimes()
        choose = executor_choice.choose

        def tensorflow(program: Any, train: Any, runtime: str, kept: Any, cache: Any) -> Any:
            return choose(program, train, "tensorflow", kept, cache)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(program, "Program", getattr(program.Program, "original", program.Program))
            patch.setattr(executor_choice, "choose", tensorflow)
            yield

    return entered


@pytest.fixture
def unconverted(in_tensorflow: InTensorFlow) -> Iterator[None]:
    """All agents of the test run in TensorFlow: for what LiteRT has no part in."""
    with in_tensorflow():
        yield


@pytest.fixture
def fake_hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The Hugging Face Hub of this process."""
    pytest.importorskip("huggingface_hub", reason="huggingface_hub is not installed: axonrl[hub]")
    from axonrl.tests.fake_hub import FakeHub

    with FakeHub() as hub:
        hub.be_the_hub(tmp_path / "hf", monkeypatch)
        yield hub
