"""Replay shards: what actors send is what one memory would hold, with the priorities that the learner would compute."""

import copy
import dataclasses
from typing import Any, ClassVar

import numpy as np
import pytest
from gymnasium import spaces

from axonrl.core.protocols import ArraySpec
from axonrl.distributed import roles
from axonrl.distributed.actor import ActorSpec, Collector
from axonrl.distributed.environment_recipes import EnvironmentRecipe
from axonrl.distributed.inline import InlineShards
from axonrl.distributed.message_chunks import leaves_of, messages
from axonrl.distributed.replay import Inserted, Refused, Shard, ShardedReplay, ShardPlan
from axonrl.distributed.unrolls import Head, Request, Seconds, Unroll, UnrollId, nbytes_of, side_by_side, why_damaged
from axonrl.errors import ArgumentError
from axonrl.explorations import EpsilonGreedy
from axonrl.memories import Prioritized, ReplayMemory
from axonrl.memories.resharding import deal, restore
from axonrl.policies.modes import PredictMode

F32 = np.float32
N, GAMMA = 2, 0.9
TRANSITION: dict[str, Any] = {
    "observation": ArraySpec((4,), F32),
    "action": ArraySpec((), np.int32),
    "reward": ArraySpec((), F32),
    "terminated": ArraySpec((), np.bool_),
    "truncated": ArraySpec((), np.bool_),
    "next_observation": ArraySpec((4,), F32),
}
WEIGHTS = np.random.default_rng(0).normal(size=(4, 2)).astype(F32)


def values_of(observation: Any) -> Any:
    return observation @ WEIGHTS


class Linear:
    """Acts by Q(s, a) = s W, as an executor would."""

    name, version, action_space = "linear", 0, spaces.Discrete(2)
    outputs: ClassVar[Any] = {"action": ArraySpec((), np.int32), "q_values": ArraySpec((2,), F32)}
    predict = PredictMode(outputs=outputs, exploration=EpsilonGreedy(0.3, action_space))

    def executor(self) -> Any:
        return self

    def act(self, observation: Any, draws: Any = ()) -> Any:
        values = values_of(observation)
        return {"action": values.argmax(1).astype(np.int32), "q_values": values}, None


def legal_in(observation: Any) -> Any:
    """Mask of the action 0, and of 1 where the cart moves to the right."""
    return np.stack([np.ones(len(observation), np.bool_), observation[:, 1] > 0], axis=1)


class Masked(Linear):
    """Linear, with a mask of legal actions."""

    outputs: ClassVar[Any] = {**Linear.outputs, "action_mask": ArraySpec((2,), np.bool_)}
    predict = PredictMode(outputs=outputs, exploration=EpsilonGreedy(0.3, Linear.action_space))

    def act(self, observation: Any, draws: Any = ()) -> Any:
        values, mask = values_of(observation), legal_in(observation)
        action = np.where(mask, values, -np.inf).argmax(1).astype(np.int32)
        return {"action": action, "q_values": values, "action_mask": mask}, None


def collector(
    length: int, actor: int = 0, n_step: int | None = 3, time_limit: int = 32, kind: type[Linear] = Linear
) -> Collector:
    recipe = EnvironmentRecipe("CartPole-v1", {"max_episode_steps": time_limit})
    program: Any = kind()
    made = ActorSpec(actor, 0, program, lambda: recipe.several(N), TRANSITION, length, 5, n_step=n_step, discount=GAMMA)
    return Collector(made)


def unrolls(collector: Collector, number: int) -> list[Unroll]:
    return [collector.collect(Request(UnrollId(0, 0, i), 0, 0, 0.0)) for i in range(number)]


def memory(size: int, n_step: int = 3) -> ReplayMemory:
    return ReplayMemory(size, 8, discount=GAMMA, n_step=n_step, sampler=Prioritized(1.0, epsilon=1e-6))


@pytest.mark.parametrize("n_step", [1, 3])
def test_td_errors_are_those_of_the_transitions_that_may_be_drawn(n_step: int) -> None:
    """Of two actors. Episodes end by falling and by a limit of time; each n-step return is worked out anew."""
    actors = [unrolls(collector(10, actor=actor, n_step=n_step), 10) for actor in (0, 1)]
    sent = [unroll for both in zip(*actors, strict=True) for unroll in both]
    shard = Shard(ShardPlan(memory(400, n_step), TRANSITION, [0, 1], N, 0, 5, 10))
    for unroll in sent:
        assert why_damaged(unroll, TRANSITION, 10, N) is None
        assert unroll.head.nbytes == nbytes_of(TRANSITION, 10, N)
        shard.insert(unroll)
    assert {end for one in sent for e in one.head.episodes for end in [(e.terminated, e.truncated)]} == {
        (True, False),
        (False, True),
    }
    stored = shard._memory
    for _ in range(30):
        drawn = shard.sample()
        batch: Any = drawn.batch
        highest = values_of(batch["next_observation"]).max(1)
        taken = values_of(batch["observation"])[np.arange(8), batch["action"]]
        expected = batch["reward"] + batch["discount"] * highest - taken
        priorities = stored.sampler._tree.values[stored._ring.places_of(drawn.tickets)]  # type: ignore[attr-defined]
        np.testing.assert_allclose(priorities, np.abs(expected) + 1e-6, rtol=1e-4, atol=1e-5)


def test_td_errors_are_those_of_legal_actions() -> None:
    shard = Shard(ShardPlan(memory(200), TRANSITION, [0], N, 0, 5, 10))
    for unroll in unrolls(collector(10, kind=Masked), 5):
        shard.insert(unroll)
    drawn = shard.sample()
    batch: Any = drawn.batch
    mask, values = legal_in(batch["next_observation"]), values_of(batch["next_observation"])
    highest = np.where(mask, values, -np.inf).max(1)
    assert (highest < values.max(1)).any()
    taken = values_of(batch["observation"])[np.arange(8), batch["action"]]
    expected = np.abs(batch["reward"] + batch["discount"] * highest - taken)
    stored: Any = shard._memory
    priorities = stored.sampler._tree.values[stored._ring.places_of(drawn.tickets)]
    np.testing.assert_allclose(priorities, expected + 1e-6, rtol=1e-4, atol=1e-5)


def damaged(unroll: Unroll, part: str) -> Unroll:
    """A copy in which one part is wrong."""
    at, columns = unroll.at.copy(), dict(unroll.columns)
    changed: dict[str, Any] = {
        "reward": {"columns": {**columns, "reward": np.full((10, N), np.nan, F32)}},
        "action": {"columns": {**columns, "action": np.zeros((10, N), np.int64)}},
        "columns": {"columns": {key: columns[key] for key in columns if key != "truncated"}},
        "finals": {"final": np.zeros((len(at) + 1, 4), F32)},
        "at": {"at": at + 10},
        "td_error": {"td_error": np.full((10, N), np.inf, F32)},
    }
    return dataclasses.replace(unroll, **changed[part])


@pytest.mark.parametrize("part", ["reward", "action", "columns", "finals", "at", "td_error"])
def test_a_shard_takes_nothing_of_a_damaged_unroll(part: str) -> None:
    shard = Shard(ShardPlan(memory(400), TRANSITION, [0], N, 0, 5, 10))
    whole = next(one for one in unrolls(collector(10), 20) if len(one.at))
    answer = shard.insert(damaged(whole, part))
    assert isinstance(answer, Refused)
    assert answer.id == whole.head.id
    assert shard.stored().timesteps == 0
    assert isinstance(shard.insert(whole), Inserted)


def test_a_shard_holds_what_one_memory_would() -> None:
    """Two actors that take turns as they like, in one shard; the lanes of a plain memory, each by itself."""
    one, two = collector(10), collector(10, actor=1)
    shard = Shard(ShardPlan(memory(160), TRANSITION, [0, 1], N, 0, 5, 10))
    plain = {lane: memory(40) for lane in range(2 * N)}
    for each in plain.values():
        each.build(TRANSITION, 1, np.random.default_rng(0))
    for made in (one, one, two, one, two, two, two, one):
        unroll = unrolls(made, 1)[0]
        shard.insert(unroll)
        rows = unroll.rows()
        for n in range(N):
            for t in range(10):
                plain[unroll.head.id.actor * N + n].step(**{key: np.asarray(rows[key])[t, n] for key in rows})
    stored = shard.stored()
    assert stored.timesteps == sum(map(len, plain.values())) == 160
    assert stored.drawable == sum(one.drawable() for one in plain.values()) == 160 - 4 * 2
    whole = shard._memory.gather(np.arange(160))
    for key in ("observation", "reward", "next_observation", "terminated"):
        found = np.asarray(whole[key]).reshape(40, 4, -1)
        for lane, each in plain.items():
            np.testing.assert_array_equal(found[:, lane], np.asarray(each.gather(np.arange(40))[key]).reshape(40, -1))


@pytest.mark.parametrize("most", [300, 5_000])
def test_a_shard_goes_to_another_in_messages_of_bounded_size(most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its ring has gone round, its lanes are not in step; afterwards both draw the same."""
    monkeypatch.setattr("signal.signal", lambda *_: None)
    plan = ShardPlan(memory(160), TRANSITION, [0, 1], N, 0, 5, 10)
    one, two = roles.ShardProcess(plan, 0), roles.ShardProcess(plan, 1)
    for made in (collector(10), collector(10, actor=1), collector(10)):
        for unroll in unrolls(made, 3 + made._made.actor):
            one.insert(unroll)
    outline = one.outline()
    two.expect(outline)
    number = 0
    for message in messages(leaves_of(outline), most):
        rows = one.rows(message)
        assert sum(array.nbytes for array in rows) <= most
        two.put(message, rows)
        number += 1
    assert {300: number > 10, 5_000: 1 < number < 10}[most]
    assert two.load_received() == one.stored()
    for _ in range(3):
        first, second = one.sample(), two.sample()
        np.testing.assert_array_equal(first.tickets, second.tickets)
        for key, value in first.batch.items():
            np.testing.assert_array_equal(value, second.batch[key])


SHORT: dict[str, Any] = {key: ArraySpec((), F32) if "observation" in key else spec for key, spec in TRANSITION.items()}


def unroll_of(made: UnrollId, *td_errors: float) -> Unroll:
    """Of one environment that always observes 0 and never ends."""
    length = len(td_errors)
    columns: Any = {key: np.zeros((length, 1), one.dtype) for key, one in SHORT.items() if "observation" not in key}
    head = Head(made, 0, length, (), np.zeros(1), Seconds(0.0, 0.0, 0.0), 0)
    none = np.zeros((0, 2), np.int64)
    return Unroll(head, np.zeros((length + 1, 1), F32), columns, np.zeros(0, F32), none, np.array([td_errors], F32).T)


@pytest.mark.parametrize("length", [1, 3])
def test_nothing_continues_over_lost_unrolls_or_in_another_process(length: int) -> None:
    """All observations are alike. Three timesteps of actor 1 are refused after its third, then a new process acts.

    A TD error is for the timestep two before it; 90 and 91 are for timesteps that were not stored.
    """
    made = ReplayMemory(40, 1, discount=0.5, n_step=3, sampler=Prioritized(1.0, epsilon=1e-6))
    shard = Shard(ShardPlan(made, SHORT, [0, 1], 1, 0, 5, length))
    none = np.nan
    shard.insert(unroll_of(UnrollId(0, 0, 0), *[none] * length))
    for incarnation, begin, errors in ((0, 0, (none, none, 5.0)), (0, 6, (90.0, 91.0, 7.0)), (1, 0, (none, none, 6.0))):
        for t in range(0, 3, length):
            shard.insert(unroll_of(UnrollId(1, incarnation, (begin + t) // length), *errors[t : t + length]))
    (_, other), (_, ends) = shard._memory.episode_ends()
    assert (other.tolist(), ends.tolist()) == ([length], [3, 6, 9])
    assert not shard._memory.timesteps(0, np.arange(length))[0]["truncated"].any()
    rows, priorities = shard._memory.timesteps(1, np.arange(7))
    assert rows["truncated"].tolist() == [False, False, True, False, False, True, False]
    np.testing.assert_allclose(priorities, [5, 5, 5, 7, 7, 7, 6], rtol=1e-5)  # unknown: the maximum so far


def test_shards_are_chosen_alike_after_a_checkpoint_and_in_a_run_resumed_from_it() -> None:
    """Four transitions of priority 1 in each of two shards; those of one are drawn, and their errors are 9."""

    def made() -> tuple[ShardedReplay, list[Shard]]:
        sharded = ShardedReplay(ReplayMemory(8, 4, sampler=Prioritized(1.0, epsilon=1e-6)), [1, 1])
        sharded.build(SHORT, 2, np.random.default_rng(0))
        return sharded, [Shard(ShardPlan(sharded.part(i), SHORT, [i], 1, i, 5, 4)) for i in (0, 1)]

    one, shards = made()
    one.connect(InlineShards(shards))
    for index, shard in enumerate(shards):
        inserted: Any = shard.insert(unroll_of(UnrollId(index, 0, 0), 1.0, 1.0, 1.0, 1.0))
        one.held[index] = inserted.stored
    one.sample()
    one.update_priorities(np.full(4, 9.0))
    state = one.state_dict()
    two, others = made()
    two.load_state_dict(state)
    two.connect(InlineShards(others))
    assert one.held == two.held
    assert sorted(round(each.priority, 3) for each in two.held) == [4, 36]


def test_batches_of_a_copy_are_without_influence_on_later_ones() -> None:
    """For EVAL: they are others, and those of the memory are what they would be."""

    def made() -> ShardedReplay:
        sharded = ShardedReplay(ReplayMemory(16, 4, sampler=Prioritized(1.0)), [1, 1])
        rng = np.random.default_rng(0)
        sharded.build(SHORT, 2, rng)
        shards = [Shard(ShardPlan(sharded.part(i), SHORT, [i], 1, i, 5, 8)) for i in (0, 1)]
        sharded.connect(InlineShards(shards))
        for index, shard in enumerate(shards):
            inserted: Any = shard.insert(unroll_of(UnrollId(index, 0, 0), *range(1, 9)))
            sharded.held[index] = inserted.stored
        return sharded

    def drawn(memory: ShardedReplay) -> tuple[int, list[int]]:
        memory.sample()
        assert memory._last is not None
        return memory._last.shard, memory._last.tickets.tolist()

    whole, evaluated = made(), made()
    first = drawn(evaluated)
    assert first == drawn(whole)
    kept = evaluated._rng.bit_generator.state  # EVAL puts it back
    apart = copy.copy(evaluated)
    assert len({str(drawn(apart)) for _ in range(5)}) > 1
    evaluated._rng.bit_generator.state = kept
    assert [drawn(evaluated) for _ in range(5)] == [drawn(whole) for _ in range(5)]
    assert evaluated.drawn == whole.drawn == 24


def test_a_part_of_a_memory_must_fill_a_batch() -> None:
    """Of 88 transitions a shard of two lanes holds 44: 30 for a batch, and the newest 7 of each lane."""
    made = ReplayMemory(88, 30, n_step=8)
    ShardedReplay(made, [2, 2]).part(0).build(SHORT, 2, np.random.default_rng(0))
    assert ShardedReplay(ReplayMemory(86, 30, n_step=8), [2, 2]).part(0).size == 44  # 43, rounded up
    with pytest.raises(ArgumentError, match=r"replay_shards=2 holds 42 of the memory's 84 .* at least 44"):
        ShardedReplay(ReplayMemory(84, 30, n_step=8), [2, 2])


def test_beta_follows_the_batches_of_all_shards() -> None:
    """From 0 to 1 over ten batches, of four shards; also after they were saved, and in one memory again."""

    def made() -> tuple[ShardedReplay, list[Shard]]:
        sampler = Prioritized(1.0, beta={"kind": "linear", "start": 0.0, "stop": 1.0, "duration": 10})
        sharded = ShardedReplay(ReplayMemory(40, 4, sampler=sampler), [1] * 4)
        sharded.build(SHORT, 4, np.random.default_rng(0))
        return sharded, [Shard(ShardPlan(sharded.part(i), SHORT, [i], 1, i, 5, 8)) for i in range(4)]

    def betas(memory: ShardedReplay, shards: list[Shard], number: int) -> list[float]:
        found = []
        for _ in range(number):
            memory.sample()
            assert memory._last is not None
            sampler: Any = shards[memory._last.shard]._memory.sampler
            found.append(round(sampler.beta(sampler._num_batches - 1), 3))
        return found

    one, shards = made()
    one.connect(InlineShards(shards))
    for index, shard in enumerate(shards):
        inserted: Any = shard.insert(unroll_of(UnrollId(index, 0, 0), *range(1, 9)))
        one.held[index] = inserted.stored
    assert betas(one, shards, 6) == [0.0, 0.1, 0.2, 0.3, 0.4, 0.5]
    two, others = made()
    two.load_state_dict(one.state_dict())
    two.connect(InlineShards(others))
    assert betas(two, others, 2) == [0.6, 0.7]
    whole = one.trial_copy()
    whole.build(SHORT, 4, np.random.default_rng(0))
    restore(whole, two.state_dict())
    assert whole.sampler._num_batches == 8


@pytest.mark.parametrize(("shards", "least"), [(1, 64 + 2 * 32), (2, 63 + 64 + 2 * 32)])
def test_timesteps_fill_a_batch_however_they_are_distributed_over_shards(shards: int, least: int) -> None:
    """The last two timesteps of each of 32 lanes cannot be drawn; both shards may lack one for a batch."""
    sharded = ShardedReplay(ReplayMemory(800, 64, n_step=3), [32 // shards] * shards)
    assert [sharded.can_sample(count) for count in (least - 1, least)] == [False, True]


def told(memory: ReplayMemory) -> list[list[tuple[float, bool, bool, float]]]:
    """Of each lane what is stored: observation, terminated, truncated, priority."""
    found = []
    for lane, (begin, ends) in enumerate(memory.episode_ends()):
        rows, priorities = memory.timesteps(lane, np.arange(begin, ends[-1]))
        columns = (rows["observation"], rows["terminated"], rows["truncated"], priorities)
        found.append([(float(x), bool(a), bool(b), round(float(p), 3)) for x, a, b, p in zip(*columns, strict=True)])
    return found


def numbered(size: int, *lengths: int) -> ReplayMemory:
    """Of one lane: timesteps 0, 1, ... with priorities 1, 2, ..., of episodes so long; the last one goes on."""
    made, ends = memory(size, n_step=1), np.cumsum(lengths)
    made.build(SHORT, 1, np.random.default_rng(0))
    for x in range(ends[-1]):
        ended = x + 1 in ends[:-1]
        made.step(
            observation=F32(x),
            next_observation=F32(x + 1 + 0.5 * ended),
            action=0,
            reward=0.0,
            terminated=ended,
            truncated=False,
        )
    made.prioritize(np.arange(ends[-1]), np.arange(1.0, ends[-1] + 1))
    return made


def empty(size: int, lanes: int) -> ReplayMemory:
    made = memory(size, n_step=1)
    made.build(SHORT, lanes, np.random.default_rng(0))
    return made


def test_what_one_lane_held_is_dealt_out_to_two_and_to_one_again() -> None:
    """Episodes 0 1 2, 3 4 and 5 6 7: each goes to the lane that lacks most of its 4, and 7 where one is lacking."""
    source, two, one, small = numbered(8, 3, 2, 3), empty(8, 2), empty(8, 1), empty(8, 1)
    for _ in range(5):
        source.sample()
    source.sampler._maximum = 99.0  # type: ignore[attr-defined]
    deal([source], [two])
    no, end, cut = (False, False), (True, False), (False, True)
    assert told(two) == [
        [(0, *no, 1), (1, *no, 2), (2, *end, 3), (7, *cut, 8)],
        [(3, *no, 4), (4, *end, 5), (5, *no, 6), (6, *cut, 7)],
    ]
    sampler: Any = two.sampler
    assert (sampler._maximum, sampler._num_batches) == (99.0, 5)  # what comes next, and the schedule of beta
    deal([two], [one])
    assert sorted(told(one)[0]) == sorted(row for lane in told(two) for row in lane)
    deal([numbered(12, 3, 2, 7)], [small])  # the oldest is left out
    assert [row[0] for row in told(small)[0]] == list(range(4, 12))


def test_a_larger_memory_goes_to_shards_and_back_whole() -> None:
    lengths = np.random.default_rng(1).integers(5, 60, 40).tolist()
    source, number = numbered(sum(lengths), *lengths), sum(lengths)
    shards, back = [empty(504, 4), empty(504, 8), empty(504, 2)], empty(number, 1)
    deal([source], shards)
    assert number == 1266
    counts = [len(lane) for shard in shards for lane in told(shard)]
    assert counts == [126] * 4 + [63] * 8 + [129] * 2  # where there is room for 126, for 63 and for 252
    deal(shards, [back])
    assert sorted((x, p) for x, _, _, p in told(back)[0]) == [(x, x + 1) for x in range(number)]


def test_tickets_outlive_their_transitions() -> None:
    stored = memory(20, n_step=1)
    stored.build(
        {**TRANSITION, "observation": ArraySpec((1,), F32), "next_observation": ArraySpec((1,), F32)},
        2,
        np.random.default_rng(0),
    )

    def add(t: int) -> None:
        zeros = np.zeros(2, np.bool_)
        x = np.full((2, 1), t, F32)
        stored.extend(
            observation=x,
            next_observation=x + 1,
            action=np.zeros(2, np.int32),
            reward=np.full(2, t, F32),
            terminated=zeros,
            truncated=zeros,
        )

    for t in range(10):
        add(t)
    stored.sample()
    assert set(stored.tickets().tolist()) <= set(range(20))
    for t in range(10, 15):
        add(t)
    assert (
        stored.prioritize(np.array([9, 10, 11, 29, 30]), np.array([7.0, 3.0, 5.0, 4.0, 6.0])) == 2
    )  # 9 and 30 are not there
    values = stored.sampler._tree.values[:20] - 1e-6  # type: ignore[attr-defined]
    assert (values[10], values[11], values[9]) == pytest.approx((3.0, 5.0, 4.0))
    assert stored.total_priority() == pytest.approx(values.sum() + 20e-6)
    with pytest.raises(ArgumentError, match="td_error"):
        stored.prioritize(np.array([12, 13]), np.array([1.0]))


def test_unrolls_side_by_side_are_one_rollout() -> None:
    sent = unrolls(collector(10, n_step=None), 3)
    rows = side_by_side(sent)
    assert rows["observation"].shape == (10, 3 * N, 4)
    for i, unroll in enumerate(sent):
        own: Any = unroll.rows()
        assert unroll.td_error is None
        np.testing.assert_array_equal(rows["reward"][:, i * N : (i + 1) * N], own["reward"])
        following, ended = own["next_observation"], own["terminated"] | own["truncated"]
        np.testing.assert_array_equal(following[:-1][~ended[:-1]], own["observation"][1:][~ended[:-1]])
        assert (following[:-1][ended[:-1]] != own["observation"][1:][ended[:-1]]).any(1).all()
    later: Any = sent[1].observation
    np.testing.assert_array_equal(later[0], np.asarray(sent[0].observation)[-1])
