"""Traces are shared by the tests of a file, and forgotten after it."""

from collections.abc import Iterator

import pytest

from axonrl.tests.models.executed import forget_traces


@pytest.fixture(autouse=True, scope="module")
def traces() -> Iterator[None]:
    yield
    forget_traces()
