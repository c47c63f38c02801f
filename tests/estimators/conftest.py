from collections.abc import Iterator

import pytest


@pytest.fixture
def traced_anew() -> Iterator[None]:
    """Each agent of the test traces its model: a trace has one exploration, and variables where TensorFlow runs it."""
    from axonrl.runtimes.tracing import program

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(program, "Program", getattr(program.Program, "original", program.Program))
        yield
