"""Texts and columns in a few characters: what is left out, and what is still told apart."""

import io

import pytest

from axonrl.core.text_columns import Column, fit_columns, room_of, told_apart

RUNS = [f"munchausen-dqn-with-rate-{rate}/seed-{seed}" for rate in ("0.001", "0.0001") for seed in (0, 1)] + ["dqn"]
COLUMNS = [
    Column("run", RUNS),
    Column("environment", ["LunarLanderContinuous-v3"] * 4 + ["CartPole-v1"]),
    Column("seed", ["0", "1", "0", "1", "0"], right=True, whole=True),
    Column("timesteps", ["1,000,000,000"] * 5, right=True),
    Column("age", ["12 min"] * 5, right=True),
]


@pytest.mark.parametrize(
    ("texts", "width", "shown"),
    [
        (["abcdefgh", "abc"], 5, ["ab…gh", "abc"]),
        (["abcdefgh"], 1, ["…"]),
        (["learning_rate=0.125", "learning_rate=0.25"], 10, ["learn….125", "learn…0.25"]),
        (RUNS, 14, ["…0.001/seed-0", "…0.001/seed-1", "…0.0001/seed-0", "…0.0001/seed-1", "dqn"]),  # from a word on
        (RUNS, 10, ["…1/seed-0", "…1/seed-1", "…01/seed-0", "…01/seed-1", "dqn"]),
        ([*(f"abbbbbb{c}bbbbbbb" for c in "de"), "abbbbbbdbbbdbbb"], 6, ["1: …bb", "2: …bb", "3: …bb"]),
        (["123,456.78 ± 9.01", "123,456.78 ± 9.02"], 5, ["123,456.78 ± 9.01", "123,456.78 ± 9.02"]),
        (["same and long"] * 2, 7, ["sam…ong"] * 2),
    ],
)
def test_the_middle_goes_and_what_differs_stays_different(texts: list[str], width: int, shown: list[str]) -> None:
    assert told_apart(texts, width) == shown


@pytest.mark.parametrize(
    ("room", "first", "left_out"),
    [
        (93, (RUNS[0], "LunarLanderContinuous-v3", "0", "1,000,000,000", "12 min"), ""),
        (60, ("…0.001/seed-0", "LunarLa…ous-v3", "0", "1,000,000,000", "12 min"), ""),
        (46, ("…1/seed-0", "Lunar…us-v3", "0", "1,000,000,000"), "age"),
        (20, ("…0.001/seed-0", "0"), "environment, timesteps, age"),
    ],
)
def test_columns_are_shortened_and_then_the_last_ones_left_out(
    room: int, first: tuple[str, ...], left_out: str
) -> None:
    columns, told = fit_columns(COLUMNS, room)
    assert tuple(column.texts[0] for column in columns) == first
    assert sum(column.natural for column in columns) + 2 * (len(columns) - 1) <= room
    assert len(set(columns[0].texts)) == len(RUNS)
    assert told == (f"There is no room for {left_out}. A wider terminal, or --json, shows all." if left_out else "")


def test_rows_that_hold_one_kind_are_told_apart_within() -> None:
    names = [f"rate={rate} target_update_period=100" for rate in ("0.001", "0.0001")]
    heads = Column("", ["file"])
    columns, _ = fit_columns([heads, Column(names[0], [RUNS[0]]), Column(names[1], [RUNS[2]])], 32, across=True)
    assert [column.name for column in columns] == ["", "rate=0.001\ntarget…d=100", "rate=0.0001\ntarget…d=100"]
    assert [column.texts for column in columns] == [["file"], ["…0.001…eed-0"], ["…0.000…eed-0"]]


@pytest.mark.parametrize(("is_terminal", "room"), [(True, 60), (False, 10_000)])
def test_a_file_has_all_the_room_that_it_needs(is_terminal: bool, room: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    stream = io.StringIO()
    monkeypatch.setattr(stream, "isatty", lambda: is_terminal)
    assert room_of(stream) == room
    assert room_of(None) == 10_000  # a process without standard output
