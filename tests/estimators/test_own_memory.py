"""The memory of a user's own that docs/memories.md shows: it trains, and its run resumes exactly."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import axonrl
from axonrl import Agent, RunConfig
from axonrl.models import dqn

pytestmark = pytest.mark.usefixtures("traced_once")

PAGE = Path(axonrl.__file__).parent / "docs" / "memories.md"


def shown() -> Any:
    block = re.search(
        r"```python\n(class ReservoirMemory:.*?)\n\n\nagent = ", PAGE.read_text(encoding="utf-8"), re.DOTALL
    )
    assert block is not None
    names: dict[str, Any] = {"np": np}
    exec(block[1], names)
    return names["ReservoirMemory"]


def test_the_memory_of_the_documentation_resumes_exactly(tmp_path: Path) -> None:
    own = shown()
    trained = []
    for name, stops in [("whole", (300,)), ("parts", (170, 300))]:
        for stop in stops:  # the memory is full from timestep 128 on
            agent = Agent(
                dqn.model_fn, own(128, 32), tmp_path / name, RunConfig(seed=3), {"hidden": (4,), "optimizer": "sgd"}
            )
            agent.train("CartPole-v1", first_update=50, update_frequency=5, max_timesteps=stop)
        trained.append(agent.predict(np.linspace(-1, 1, 8, dtype=np.float32).reshape(2, 4))["q_values"])
    np.testing.assert_array_equal(trained[0], trained[1])
    assert agent.global_step == 51
