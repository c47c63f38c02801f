from typing import Any, cast

import gymnasium

from axonrl.environments import make
from axonrl.environments.describing import arguments_of as described
from axonrl.tests.environments.untyped import registered
from axonrl.tests.estimators.fakes import Counting


def test_environments_are_described() -> None:
    def plain(env_id: str, **kwargs: Any) -> dict[str, Any]:
        return {"id": env_id, "kwargs": kwargs, "wrappers": []}

    assert described("CartPole-v1") == plain("CartPole-v1")
    assert described(gymnasium.make("CartPole-v1", max_episode_steps=50)) == plain("CartPole-v1", max_episode_steps=50)
    assert described(make("Pendulum-v1", 3, g=5.0)) == plain("Pendulum-v1", g=5.0)
    assert described(gymnasium.make_vec("CartPole-v1", num_envs=2)) == plain("CartPole-v1")
    assert described(gymnasium.make("CartPole-v1", render_mode="rgb_array")) == plain("CartPole-v1")
    limit = {"kind": "time_limit", "max_episode_steps": 20}
    for copies in (1, 2):
        found = described(make("CartPole-v1", copies, wrappers=[limit, "normalize_observation"]))
        assert found == {**plain("CartPole-v1"), "wrappers": [limit, {"kind": "normalize_observation"}]}
    for unlimited in (gymnasium.make("CartPole-v1", max_episode_steps=-1), gymnasium.make("CartPole-v1").unwrapped):
        found = described(unlimited)
        assert found == plain("CartPole-v1", max_episode_steps=-1)
        assert cast(Any, make("CartPole-v1", max_episode_steps=-1).spec).max_episode_steps is None
    copies_of = gymnasium.vector.SyncVectorEnv
    assert described(copies_of([lambda: make("Pendulum-v1", g=5.0)] * 2)) == plain("Pendulum-v1", g=5.0)
    assert described(copies_of([lambda: make("Pendulum-v1", g=5.0), lambda: make("Pendulum-v1")])) is None
    assert described(make("MinAtar/Breakout-v1")) == plain("MinAtar/Breakout-v1")
    assert described(make("axonrl/BitFlip-v0", bits=3)) == plain("axonrl/BitFlip-v0", bits=3)
    assert described(Counting()) is None
    assert described(gymnasium.wrappers.RecordEpisodeStatistics(gymnasium.make("CartPole-v1"))) is None
    with registered("Counting-v0", Counting):
        found = described(gymnasium.make("Counting-v0", disable_env_checker=True))
    assert found == plain("axonrl.tests.estimators.fakes:Counting-v0")
