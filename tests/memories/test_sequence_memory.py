"""SequenceMemory: batches written out by hand, recurrent state, priorities, and mistakes."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from axonrl.core import registry
from axonrl.core.protocols import ArraySpec
from axonrl.errors import ArgumentError, NonFiniteError
from axonrl.memories import Prioritized, ReplayMemory, Sampler, SequenceMemory, sequence_index
from axonrl.memories.description import arguments_of
from axonrl.tests.memories.transitions import in_order, refused, specs_of, timestep
from axonrl.tests.raising import raised

SPECS = {**specs_of(ArraySpec((1,), np.float32)), "state": {"h": ArraySpec((2,), np.float32)}}


def built(memory: SequenceMemory, num_envs: int = 1, rng: Any = None) -> Any:
    memory.build(SPECS, num_envs, np.random.default_rng(0) if rng is None else rng)
    return memory


def episode(memory: Any, first: int, length: int, end: str = "terminated") -> None:
    """Observations first, first + 1, ...; actions, rewards and states of the same numbers."""
    for t in range(first, first + length):
        now, following = np.array([t], np.float32), np.array([t + 1], np.float32)
        ends = {name: t == first + length - 1 and end == name for name in ("terminated", "truncated")}
        memory.step(
            **timestep(now, following, action=t, reward=float(t), state={"h": np.array([t, -t], np.float32)}, **ends)
        )


def test_state_is_stored_once_for_each_sequence() -> None:
    specs = {**SPECS, "state": {"h": ArraySpec((1000,), np.float32)}}
    memory, other = SequenceMemory(100_000, 8, length=80, overlap=40), ReplayMemory(100_000, 8)
    for each in (memory, other):
        each.build(specs, 1, np.random.default_rng(0))
    assert other.nbytes > 400_000_000
    assert memory.nbytes < 30_000_000  # twice as many as there are in an endless episode: 5,000 of 4 kB


def test_sequences_beyond_the_room_for_them_replace_the_oldest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sequence_index, "_SPARE_BYTES", 0)
    memory = built(SequenceMemory(20, 1, length=10, overlap=0))
    for number in range(15):  # room for 2 * 20 / 10 + 1 sequences
        episode(memory, 10 * number, 1)
    assert len(memory) == 15
    memory._draws, memory.rng = 5, in_order(5)
    assert memory.sample()["state"]["h"][:, 0].tolist() == [100, 110, 120, 130, 140]
    memory._draws = 6
    assert not memory.can_sample()


def test_priorities_mix_the_largest_error_and_the_mean() -> None:
    memory = built(SequenceMemory(30, 2, length=3, burn_in=1, overlap=0, eta=0.75, sampler=Prioritized(1.0, 0, 1.0)))
    episode(memory, 1, 3)
    episode(memory, 11, 2)
    memory.sample()
    td_error = np.array([[100, 100], [1, -2], [-4, 6], [1, 100]], np.float32)  # burn-in and padding do not count
    memory.update_priorities(td_error)
    # 0.75 * 4 + 0.25 * 2 + 1, and 0.75 * 6 + 0.25 * 4 + 1
    assert memory.state_dict()["sampler"]["priorities"].tolist() == [4.5, 6.5]
    memory.sample()
    memory.update_priorities(-td_error.reshape(-1))
    assert memory.state_dict()["sampler"]["priorities"].tolist() == [4.5, 6.5]
    td_error[3, 1] = np.nan
    memory.sample()
    memory.update_priorities(td_error)
    with pytest.raises(NonFiniteError, match="index 0"):
        memory.update_priorities(td_error * np.array([[np.nan, 1]], np.float32))
    raised(ArgumentError, memory.update_priorities, td_error[1:], match=r"\(4, 2\), got .*\(3, 2\)")


def test_a_place_without_a_sequence_has_no_priority_however_long_nobody_asked() -> None:
    memory = built(SequenceMemory(8, 1, length=2, overlap=0, sampler="prioritized"))  # eight places
    episode(memory, 0, 8, "goes on")
    assert memory.state_dict()["sampler"]["priorities"].tolist() == [1, 1, 1, 1]
    episode(memory, 8, 18, "goes on")  # 13 sequences, of which 9 .. 12 are there
    assert memory.state_dict()["sampler"]["priorities"].tolist() == [0, 1, 1, 1, 1]


def test_a_sampler_of_ones_own_draws_places_with_sequences_only() -> None:
    class Own(Sampler):
        place = 0

        def draw(self, n: int, rng: Any) -> Any:
            return np.array([self.place])

    memory = built(SequenceMemory(8, 1, length=2, overlap=0, sampler=(own := Own())))
    episode(memory, 0, 18, "goes on")  # 9 sequences, of which 5 .. 8 are there: at places 5, 6, 7 and 0 of 8
    for own.place, first in ((0, 16), (5, 10), (7, 14)):
        assert memory.sample()["observation"][:, 0, 0].tolist() == [first, first + 1]
    for own.place in (1, 4, 8, -1):
        raised(ArgumentError, memory.sample, match=rf"Own\.draw .* nothing can be drawn at {own.place}$")


def test_what_could_be_sampled_is_counted() -> None:
    memory = SequenceMemory(300, 4, length=10, burn_in=5, overlap=6)
    memory.build(SPECS, 2, np.random.default_rng(0))
    assert [memory.can_sample(count) for count in (19, 27, 28)] == [False, False, True]  # two of each lane: 10 + 4
    single = built(SequenceMemory(100, 4, length=10, burn_in=5, overlap=6))
    assert [single.can_sample(count) for count in (21, 22)] == [False, True]
    for count in range(1, 30):
        episode(single, count, 1, "goes on")
        assert single.can_sample() == single.can_sample(count)


def test_a_file_names_and_describes_it() -> None:
    assert registry.find("memory", "sequence") is SequenceMemory
    memory = SequenceMemory(1000, 8, length=20, burn_in=4, sampler=Prioritized(0.5))
    described = arguments_of(memory)
    assert described is not None
    assert described.pop("sampler")["alpha"] == 0.5
    assert described == {
        **{"kind": "sequence", "size": 1000, "batch_size": 8, "length": 20, "burn_in": 4, "overlap": 10, "eta": 0.9},
        **{"discount": 0.99, "frame_stack": None, "path": None},
    }


@pytest.mark.parametrize(
    ("arguments", "argument", "fragments"),
    [
        ({"length": 90, "burn_in": 20}, "length", ["90", "20", "size=100"]),
        ({"length": 8, "overlap": 8}, "overlap", ["overlap=8", "length=8"]),
        ({"length": 8, "burn_in": -1}, "burn_in", ["-1"]),
        ({"length": 8, "eta": 1.5}, "eta", ["1.5"]),
    ],
)
def test_mistakes(arguments: dict[str, Any], argument: str, fragments: list[str]) -> None:
    with refused(argument, *fragments):
        SequenceMemory(100, 2, **arguments)


@pytest.mark.parametrize(
    ("memory", "specs", "num_envs", "argument", "fragments"),
    [
        (lambda: SequenceMemory(100, 2, length=8, burn_in=4), {"state": None}, 1, "burn_in", ["burn_in=4", "state"]),
        # 4 environments with 25 timesteps each: 8 + 4 - 1 and 4 * 4 are more
        (lambda: SequenceMemory(100, 16, length=8, burn_in=4), {}, 4, "size", ["108", "size=100", "4 environment"]),
        (lambda: SequenceMemory(100, 2, length=8), {"valid": ArraySpec((), np.float32)}, 1, "specs", ["'valid'"]),
    ],
)
def test_mistakes_found_when_it_is_built(
    memory: Callable[[], Any], specs: Any, num_envs: int, argument: str, fragments: list[str]
) -> None:
    given = {key: spec for key, spec in {**SPECS, **specs}.items() if spec is not None}
    with refused(argument, *fragments):
        memory().build(given, num_envs, np.random.default_rng(0))


def test_state_that_does_not_fit_is_refused_before_anything_is_stored() -> None:
    memory = built(SequenceMemory(50, 1, length=4))
    transition = timestep(np.zeros(1, np.float32), np.zeros(1, np.float32))
    raised(KeyError, memory.step, **transition, match="state must have the keys h")
    with pytest.raises(ArgumentError, match=r"state\['h'\] must have shape \(2,\), got \(3,\)"):
        memory.step(**transition, state={"h": np.zeros(3, np.float32)})
    with pytest.raises(RuntimeError, match="sample"):
        built(SequenceMemory(50, 1, length=4, sampler="prioritized")).update_priorities(np.zeros((4, 1)))
    assert len(memory) == 0


def test_a_state_of_other_settings_is_refused() -> None:
    memory = built(SequenceMemory(50, 1, length=4))
    episode(memory, 1, 9)
    with pytest.raises(ValueError, match="length=4, this one has length=5"):
        built(SequenceMemory(50, 1, length=5, overlap=2)).load_state_dict(memory.state_dict())
