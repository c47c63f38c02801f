"""What holds for every test: the process's environment, and that no test file is empty."""

import atexit
import gc
import os
import shutil
import signal
import sys
import tempfile
from pathlib import Path

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

# A shell ignores SIGINT in what it starts in the background, and children inherit that: Ctrl-C is tested, so undo it.
signal.signal(signal.SIGINT, signal.default_int_handler)

TESTS = Path(__file__).parent


def is_full_run(config: pytest.Config) -> bool:
    """Is everything collected? Not where paths were given or files left out; ``-k`` and ``-m`` come later."""
    named = config.args_source is not pytest.Config.ArgsSource.TESTPATHS
    return not (named or any(config.getoption(name, None) for name in ("ignore", "ignore_glob", "lf", "pyargs")))


def empty_files(folder: Path, collected: set[Path]) -> list[str]:
    """The test files below ``folder`` from which no test was collected."""
    return sorted(path.relative_to(folder).as_posix() for path in set(folder.rglob("test_*.py")) - collected)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Fail where a file holds no test: it was renamed inside, or all of it is conditional."""
    if is_full_run(config) and (empty := empty_files(TESTS, {item.path for item in items})):
        raise pytest.UsageError(f"no test was collected from {', '.join(empty)} in {TESTS.name}/: remove it or mend it")


@pytest.fixture(autouse=True, scope="module")
def garbage_of_other_modules() -> None:
    """What is imported, and what a module leaves behind, is not searched for garbage again and again.

    A process of the tests traces hundreds of programs; searching what is left of them took a sixth of the time.
    """
    gc.collect()
    gc.freeze()
