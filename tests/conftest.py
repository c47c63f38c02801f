"""What holds for every test: the process's environment, and a guard on the number of tests."""

import os
import signal
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

# A shell ignores SIGINT in what it starts in the background, and children inherit that: Ctrl-C is tested, so undo it.
signal.signal(signal.SIGINT, signal.default_int_handler)

EXPECTED = Path(__file__).with_name("expected_tests.txt")


def is_full_run(config: pytest.Config) -> bool:
    """Is everything collected? Not where paths were given or files left out; ``-k`` and ``-m`` come later."""
    named = config.args_source is not pytest.Config.ArgsSource.TESTPATHS
    return not (named or any(config.getoption(name, None) for name in ("ignore", "ignore_glob", "lf", "pyargs")))


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Fail where a full run collects fewer tests than were written."""
    expected = int(EXPECTED.read_text())
    if is_full_run(config) and len(items) < expected:
        raise pytest.UsageError(
            f"{len(items)} tests were collected, at least {expected} were expected: a file does not load, or tests"
            f" were renamed or removed. If that is meant, write {len(items)} into tests/{EXPECTED.name}."
        )


def pytest_report_collectionfinish(config: pytest.Config, items: list[pytest.Item]) -> str:
    """Say when the guard lags behind."""
    expected = int(EXPECTED.read_text())
    if is_full_run(config) and len(items) > expected:
        return f"tests/{EXPECTED.name} guards {expected} of {len(items)} tests: write {len(items)} into it"
    return ""
