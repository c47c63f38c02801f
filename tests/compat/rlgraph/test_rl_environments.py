import json
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from axonrl.compat.rlgraph import Environment, GridWorld, OpenAIGymEnv, RandomEnv, RLGraphError, RLGraphWarning
from axonrl.compat.rlgraph.environments import SequentialVectorEnv
from axonrl.compat.rlgraph.environments.environment import step_environment
from axonrl.compat.rlgraph.environments.gymnasium_environments import values_of
from axonrl.compat.rlgraph.spaces import Dict, FloatBox, IntBox, Tuple

from .agents import refused

UP, RIGHT, DOWN, LEFT = range(4)


def test_a_grid_that_is_not_square_has_walls_fires_and_three_representations() -> None:
    rows = ["SWF", " HG"]  # positions: 0 2 4 over 1 3 5
    env: Any = GridWorld(rows)
    assert env.state_space == IntBox(6)
    assert env.step(RIGHT)[:2] == (0, -1)  # the wall
    state, reward, terminal, _ = env.step(LEFT)
    assert (state, reward, terminal) == (0, -1, False)  # the edge
    assert (type(state), type(reward), type(terminal)) == (np.int32, np.float32, bool)
    assert env.step(UP, set_discrete_pos=5) == (5, 1, True, {})
    assert env.step(UP) == (5, 1, True, {})  # a finished episode stays
    assert env.step(UP, set_discrete_pos=4) == (4, -3, False, {})  # the edge, on a fire
    rich: Any = GridWorld(rows, save_mode=True, reward_function="rich")
    assert [rich.step(action)[1:3] for action in (DOWN, RIGHT, RIGHT)] == [(-1, False), (-10, False), (50, True)]
    xy: Any = GridWorld(rows, state_representation="xy")
    assert xy.state_space == IntBox((0, 0), (3, 2), (2,))
    assert xy.step(DOWN)[0].tolist() == [0, 1]
    cam: Any = GridWorld(rows, state_representation="cam")
    picture = cam.reset()
    assert (picture.dtype, picture.shape) == (np.uint8, (2, 3, 3))
    assert picture[..., 0].tolist() == [[0, 0, 127], [0, 255, 0]]
    assert picture[..., 1].tolist() == [[0, 127, 0], [0, 0, 255]]
    assert picture[..., 2].tolist() == [[255, 0, 0], [0, 0, 0]]
    assert cam.step(DOWN)[0][..., 2].tolist() == [[0, 0, 0], [255, 0, 0]]
    assert cam.state_space.contains(picture)


def test_random_starts_follow_the_seed() -> None:
    starts = []
    for _ in range(2):
        env: Any = GridWorld("4x4", seed=5)
        starts.append([int(env.reset(randomize=True)) for _ in range(50)])
    assert starts[0] == starts[1]
    assert set(starts[0]) <= {pos for pos in range(16) if GridWorld("4x4").world[pos % 4, pos // 4] in " S"}
    assert len(set(starts[0])) > 5
    assert (env.seed(5), [int(env.reset(randomize=True)) for _ in range(50)]) == (5, starts[0])


def test_a_refused_step_changes_nothing() -> None:
    env: Any = GridWorld(["S W", "  G"])
    calls: list[tuple[Any, str]] = [
        (lambda: env.step(4), "actions"),
        (lambda: env.step(True), "actions"),
        (lambda: env.step([1]), "actions"),
        (lambda: env.step(1, set_discrete_pos=6), "set_discrete_pos"),
        (lambda: env.step(1, set_discrete_pos=4), "set_discrete_pos"),  # a wall
    ]
    for call, argument in calls:
        assert refused(call).argument == f"GridWorld.step: {argument}"
        assert env.discrete_pos == 0


@pytest.mark.parametrize(
    ("spec", "argument"),
    [
        ({"type": "grid_world", "world": ["S ", "G"]}, "GridWorld: world"),
        ({"type": "grid_world", "world": ["S S"]}, "GridWorld: world"),
        ({"type": "axonrl.compat.rlgraph.Nothing"}, "Environment.from_spec: spec['type']"),
        ({"type": "DeepmindLabEnv", "level_id": "x"}, "Environment.from_spec: spec['type']"),
        (lambda: 7, "Environment.from_spec: spec"),
        ({"type": "openai", "gym_env": "CartPole-v1", "episodic_life": True}, "OpenAIGymEnv: episodic_life"),
        (
            {"type": "openai", "gym_env": "CartPole-v1", "max_num_noops": 1, "noop_action": 2},
            "OpenAIGymEnv: noop_action",
        ),
    ],
)
def test_wrong_specifications_are_refused(spec: Any, argument: str) -> None:
    assert refused(Environment.from_spec, spec).argument == argument


def test_specifications_of_every_form(tmp_path: Path) -> None:
    spec = {"type": "Grid-World", "world": "2x2"}
    path = tmp_path / "env.json"
    path.write_text(json.dumps(spec))
    env: Any = Environment.from_spec(spec, world="4x4")
    assert (str(env), spec) == ("GridWorld(4x4)", {"type": "Grid-World", "world": "2x2"})
    for given in (spec, str(path), {"type": GridWorld, "world": "2x2"}, lambda: GridWorld("2x2")):
        assert str(Environment.from_spec(given)) == "GridWorld(2x2)"
    assert str(GridWorld.from_spec({"world": "2x2"})) == "GridWorld(2x2)"
    assert str(Environment.from_spec("axonrl.compat.rlgraph.GridWorld", world="2x2")) == "GridWorld(2x2)"
    assert str(Environment.from_spec(type="grid_world")) == "GridWorld(4x4)"
    assert Environment.from_spec(env) is env
    assert refused(OpenAIGymEnv.from_spec, spec).argument == "OpenAIGymEnv.from_spec: spec"
    for key in ("openai", "openai_gym", "open-ai-gym", "openai_gym_env"):
        assert "gym_env" in str(refused(Environment.from_spec, {"type": key, "gym_env": None}))


class Counting(gymnasium.Env[Any, Any]):
    """Observations count the steps; the fifth terminates if the last action was 1, and is cut otherwise."""

    observation_space = spaces.Dict(count=spaces.Discrete(10), pair=spaces.Tuple([spaces.Box(0.0, 9.0, (1,))]))
    action_space = spaces.Discrete(2, start=1)

    def __init__(self, length: int = 5) -> None:
        self.length = length

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        super().reset(seed=seed)
        self.count = 0
        return self._observation(), {}

    def step(self, action: Any) -> Any:
        assert type(action) is int
        assert self.action_space.contains(action)
        self.count += 1
        over = self.count >= self.length
        return self._observation(), float(self.count), over and action == 1, over and action == 2, {"n": self.count}

    def _observation(self) -> Any:
        return {"count": np.int64(self.count), "pair": (np.array([self.count], np.float64),)}


def test_gymnasium_tells_ends_from_cuts() -> None:
    env: Any = Environment.from_spec(Counting(length=2))
    assert env.state_space == Dict(count=IntBox(10), pair=Tuple(FloatBox(0, 9, (1,))))
    assert env.action_space == IntBox(1, 3)
    state = env.reset()
    assert (type(state["count"]), state["pair"][0].dtype) == (np.int32, np.float32)
    assert env.step(2)[1:] == (1.0, False, {"n": 1, "truncated": False})
    state, reward, terminal, info = env.step(np.int32(2))
    assert (state["count"], reward, type(reward), terminal) == (2, 2.0, np.float32, True)
    assert info == {"n": 2, "truncated": True}
    env.reset()
    env.step(1)
    assert env.step(1)[2:] == (True, {"n": 2, "truncated": False})
    for wrong in (0, 3, 1.5, [1]):
        assert refused(env.step, wrong).argument == "OpenAIGymEnv.step: actions"
    env.terminate()
    assert "terminate" in str(refused(env.reset))


@pytest.mark.parametrize("shape", [(), (1,)])
def test_actions_stay_within_bounds_that_float32_rounds(shape: tuple[int, ...]) -> None:
    space = spaces.Box(-0.1, 0.1, shape, np.float64)
    codec = values_of(FloatBox(-0.1, 0.1, shape), space)
    written = codec.write(np.full(shape, 0.1, np.float32))  # 0.10000000149
    assert space.contains(written)
    assert written == np.full(shape, 0.1)


class Typed(Counting):
    """Returns any states, of a space of bytes."""

    def __init__(self, told: Any, space: Any = None) -> None:
        super().__init__()
        chosen: Any = spaces.Box(0, 255, np.shape(told), np.uint8) if space is None else space
        self.observation_space = chosen
        self.told = told

    def reset(self, **_: Any) -> Any:
        return self.told, {}


@pytest.mark.parametrize("told", [[0.5, 1.0], [1, 256], [np.nan, 0.0], 2.5, -1])
def test_integers_that_a_dtype_cannot_hold_are_refused(told: Any) -> None:
    assert refused(OpenAIGymEnv(Typed(told)).reset).argument == "OpenAIGymEnv: state"


def test_integers_of_other_dtypes_are_read_as_those_of_their_space() -> None:
    whole: Any = OpenAIGymEnv(Typed([1.0, 255.0])).reset()
    assert (whole.dtype, whole.tolist()) == (np.uint8, [1, 255])
    state: Any = OpenAIGymEnv(Typed(np.int64(3), spaces.Discrete(4))).reset()
    assert (type(state), state) == (np.int32, 3)
    large = spaces.Box(0, 2**40, (1,), np.int64)
    assert "do not fit int32" in str(refused(OpenAIGymEnv, Typed([1], large)))


def test_skipped_frames_add_their_rewards_and_stop_at_the_end() -> None:
    env: Any = OpenAIGymEnv(Counting(), frameskip=3, max_num_noops=1, noop_action=1)
    assert env.reset()["count"] == 1
    state, reward, terminal, _ = env.step(1)
    assert (state["count"], reward, terminal) == (4, 2 + 3 + 4, False)
    state, reward, terminal, _ = env.step(1)
    assert (state["count"], reward, terminal) == (5, 5, True)
    drawn = OpenAIGymEnv(Counting(length=9), frameskip=(2, 4), seed=0)
    counts = set()
    for _ in range(20):
        drawn.reset()
        counts.add(int(drawn.step(1)[0]["count"]))
    assert counts == {2, 3}


class Game(Counting):
    """Two lives: the second step loses one, the fourth ends the game."""

    observation_space = spaces.Box(0.0, 9.0, (1,))  # type: ignore[assignment]
    action_space = spaces.Discrete(3)
    actions: tuple[int, ...] = ()

    class Lives:
        count = 2

        def lives(self) -> int:
            return self.count

    def __init__(self) -> None:
        super().__init__()
        self.ale = self.Lives()

    def get_action_meanings(self) -> list[str]:
        return ["NOOP", "FIRE", "UP"]

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        self.ale.count, self.actions = 2, ()
        return super().reset(seed=seed)

    def step(self, action: Any) -> Any:
        self.actions += (action,)
        self.count += 1
        self.ale.count = 2 - (self.count >= 2) - (self.count >= 4)
        return self._observation(), 0.0, self.count >= 4, self.count >= self.length, {}

    def _observation(self) -> Any:
        return np.array([self.count], np.float32)


def test_a_lost_life_is_terminal_and_the_game_goes_on_and_fire_begins_an_episode() -> None:
    game: Any = Game()
    env: Any = OpenAIGymEnv(game, episodic_life=True)
    env.reset()
    assert [env.step(2)[2] for _ in range(2)] == [False, True]
    assert env.reset().tolist() == [3.0]
    assert game.actions == (2, 2, 0)
    assert env.step(2)[2] is True
    assert (env.reset().tolist(), game.actions) == ([0.0], ())
    assert OpenAIGymEnv(game, fire_reset=True).reset().tolist() == [2.0]
    assert game.actions == (1, 2)
    both = OpenAIGymEnv(game, fire_reset=True, episodic_life=True)
    assert both.reset().tolist() == [3.0]  # the second action lost a life: the next one begins with a no-op
    assert game.actions == (1, 2, 0)


def test_a_life_lost_at_a_time_limit_is_terminal_and_a_new_game_begins() -> None:
    game: Any = Game()
    game.length = 2
    env: Any = OpenAIGymEnv(game, episodic_life=True)
    env.reset()
    told = [step_environment(env, 2) for _ in range(2)]
    assert [(one.terminal, one.truncated) for one in told] == [(False, False), (True, False)]
    assert (env.reset().tolist(), game.actions) == ([0.0], ())


def test_ids_of_2018_are_found_and_arguments_without_effect_are_told() -> None:
    with pytest.warns(RLGraphWarning, match="Pendulum-v1"):
        assert str(OpenAIGymEnv("Pendulum-v0")) == "OpenAIGym(Pendulum-v1)"
    assert str(OpenAIGymEnv("CartPole")) == "OpenAIGym(CartPole-v1)"
    with pytest.warns(RLGraphWarning) as warned:
        env = OpenAIGymEnv("CartPole-v1", monitor="x", monitor_video=3, force_float32=False)
    assert ["force_float32" in str(one.message) for one in warned] == [False, True]
    assert "monitor, monitor_video" in str(warned[0].message)
    with pytest.warns(RLGraphWarning, match="render"):
        env.render()


def test_gymnasium_follows_the_seed() -> None:
    env: Any = OpenAIGymEnv("CartPole-v1", seed=4)
    first = env.reset()
    assert not np.array_equal(env.reset(), first)
    assert env.seed(4) == 4
    assert np.array_equal(env.reset(), first)
    assert np.array_equal(first, gymnasium.make("CartPole-v1").reset(seed=4)[0])
    assert env.seed() != env.seed()  # drawn


def test_random_env_draws_from_its_spaces() -> None:
    def walk(env: RandomEnv) -> list[Any]:
        return [env.reset().tolist(), *((s.tolist(), r, t) for s, r, t, _ in (env.step(1) for _ in range(30)))]

    given: dict[str, Any] = {"state_space": IntBox(5, shape=(2,)), "action_space": IntBox(2), "terminal_prob": 0.5}
    env = RandomEnv(**given, deterministic=True)
    walked = walk(env)
    assert walk(RandomEnv(**given, deterministic=True)) == walked
    assert len({terminal for _, _, terminal in walked[1:]}) == 2
    assert env.seed(3) == 3
    assert walk(env) == walk(RandomEnv(**given, seed=3)) != walked
    assert refused(env.step, 2).argument == "RandomEnv.step: actions"


def test_several_environments_are_stepped_as_lists() -> None:
    made: list[GridWorld] = []

    def make() -> GridWorld:
        made.append(GridWorld("2x2"))
        return made[-1]

    env: Any = SequentialVectorEnv(2, make)
    assert (env.environments, env.num_envs, env.state_space) == (made, 2, IntBox(4))
    assert env.reset_all() == [0, 0]
    assert env.step([DOWN, RIGHT]) == ([1, 2], [-1, -5], [False, True], [{}, {}])
    assert env.reset(1) == 0
    assert env.step(np.array([RIGHT, DOWN]))[0] == [3, 1]
    assert env.reset(0) == 0
    assert env.step_flow([DOWN, RIGHT]) == ([1, 0], [-1, 1], [False, True])  # only the second begins
    assert [one.state for one in made] == [1, 0]
    assert env.seed(7) == [7, 8]
    assert refused(env.step, [DOWN]).argument == "SequentialVectorEnv.step: actions"
    shared = Counting()
    for spec in (lambda: made[0], {"type": "openai", "gym_env": shared}, lambda: OpenAIGymEnv(shared)):
        assert "one object" in str(refused(SequentialVectorEnv, 2, spec))
    assert SequentialVectorEnv(1, shared).num_envs == 1
    with pytest.warns(RLGraphWarning, match="num_background_envs"):
        Environment.from_spec(
            {"type": "sequential_vector_env", "num_envs": 1, "env_spec": made[0], "num_background_envs": 0}
        )


class Closed(Counting):
    """Counts how often it is closed; each has a longer vector as its observation than the one before."""

    made = closed = 0

    def __init__(self) -> None:
        super().__init__()
        Closed.made += 1
        self.observation_space = spaces.Box(0.0, 9.0, (Closed.made,))  # type: ignore[assignment]

    def close(self) -> None:
        Closed.closed += 1


def test_what_was_made_before_a_refusal_is_closed() -> None:
    assert "different spaces" in str(refused(SequentialVectorEnv, 2, Closed))
    assert (Closed.made, Closed.closed) == (2, 2)
    made = iter([Closed()])
    with pytest.raises(StopIteration):
        SequentialVectorEnv(2, lambda: next(made))
    assert (Closed.made, Closed.closed) == (3, 3)
    with pytest.raises(RLGraphError, match="describes"):  # nothing is made
        GridWorld.from_spec({"type": "openai", "gym_env": 7})
    assert refused(OpenAIGymEnv, "nowhere", seed=-1).argument == "OpenAIGymEnv: seed"


class Own(Environment):
    def __init__(self, told: Any) -> None:
        super().__init__(float, gymnasium.spaces.Discrete(2))
        self.told = told

    def reset(self) -> Any:
        return 0.0

    def step(self, actions: Any) -> Any:
        return self.told


def test_a_step_is_told_alike_by_all_environments() -> None:
    env: Any = OpenAIGymEnv(Counting(length=1))
    assert "before reset" in str(refused(step_environment, env, 2))
    env.reset()
    told: Any = step_environment(env, 2)
    assert (told.state["count"], told.reward, told.terminal, told.truncated) == (1, 1.0, True, True)
    own: Any = step_environment(Own((0.5, 2, np.array(True), None)), 0)
    assert own == (0.5, 2.0, True, False, 1)
    assert (type(own.reward), type(own.terminal)) == (float, bool)
    assert step_environment(Own((0.5, 2, False, {})), 0, frames=3) == (0.5, 6.0, False, False, 3)
    assert step_environment(Own((0.5, 2, True, {"truncated": True})), 0, frames=3) == (0.5, 2.0, True, True, 1)
    assert step_environment(Own((0.5, 2, False, {"truncated": True})), 0).truncated is False  # it goes on
    assert step_environment(Own((0.5, 2, [False], {})), 0).terminal is False  # a list of one is not empty
    wrongs: list[Any] = [(0.5, 2, True), (0.5, np.nan, True, {}), (0.5, np.float32(np.inf), True, {}), None]
    wrongs += [(0.5, 2, [True, False], {}), (0.5, 2, None, {})]
    for wrong in wrongs:
        refused(step_environment, Own(wrong), 0)
    assert "must define it" in str(refused(Environment(float, float).step, 1))
