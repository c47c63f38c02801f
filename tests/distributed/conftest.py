import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from axonrl.distributed import Cluster, driver, on_ray
from axonrl.distributed.planner import Planner
from axonrl.distributed.ray_connection import Connection

from .agents import QUICK

HERE = Path(__file__).parent


@pytest.fixture(scope="module")
def notes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The environment of a user who has no token; actors import from this folder, and make notes in the one here."""
    home, folder = tmp_path_factory.mktemp("home"), tmp_path_factory.mktemp("notes")
    with pytest.MonkeyPatch.context() as patch:
        for name in [name for name in os.environ if name.startswith("RAY_")]:
            patch.delenv(name)
        patch.setenv("HOME", str(home))  # where Ray would keep a token
        patch.setenv("AXONRL_TEST_REPORTS", str(folder))
        patch.syspath_prepend(str(HERE))
        yield folder
        assert not (home / ".ray").exists()
        assert "RAY_AUTH_TOKEN" not in os.environ


@pytest.fixture(scope="module")
def cluster(notes: Path) -> Iterator[Path]:
    """A cluster that this process has joined; yields the folder of the actors' notes."""
    before = signal.getsignal(signal.SIGTERM)
    connection = Connection(Cluster(**QUICK), shards=2)
    assert signal.getsignal(signal.SIGTERM) is before  # Ray's would end the driver without a checkpoint
    yield notes
    connection.close()


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The planner and the backend of each training."""
    made: list[Any] = []

    def noting(kind: Callable[..., Any]) -> Callable[..., Any]:
        def make(*args: Any, **kwargs: Any) -> Any:
            made.append(kind(*args, **kwargs))
            return made[-1]

        return make

    monkeypatch.setattr(driver, "Planner", noting(Planner))
    monkeypatch.setattr(on_ray, "OnRay", noting(on_ray.OnRay))
    return made
