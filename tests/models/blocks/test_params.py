"""Declared parameters: checks, ``from_params`` and tables; and that the pages in docs hold those tables."""

import dataclasses
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from axonrl import models
from axonrl.core import registry
from axonrl.errors import ArgumentError
from axonrl.models.blocks.params import (
    Params,
    flag,
    from_params,
    integer,
    one_of,
    optional,
    or_word,
    param,
    params_of,
    real,
    schedule,
    sizes,
    table,
)
from axonrl.schedules import Linear
from axonrl.tests.raising import raised


@dataclasses.dataclass(frozen=True, kw_only=True)
class Group(Params):
    size: int = param(3, "how many", integer(at_least=1))
    rate: float = param(0.1, "how fast", schedule(at_least=0, at_most=1))


LINE: Any = Linear(1.0, 0.5, 10)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Settings(Group):
    rate: float = LINE
    kind: str | None = param(None, "which", optional(one_of(["first", "second"])))


def test_params_replace_defaults() -> None:
    assert from_params(Group, None) == from_params(Group, {}) == Group(size=3, rate=0.1)
    assert from_params(Settings, {"size": 5.0}) == Settings(size=5)
    assert repr(from_params(Settings, {"size": 5.0}).size) == "5"
    given = Settings(size=7)
    assert from_params(Settings, given) is given
    assert Settings().rate is LINE
    error = raised(ArgumentError, Settings, rate=2)
    assert (error.argument, error.value) == ("rate", 2)
    mapping: Any = {"kind": "linear", "start": 1.0, "stop": 0.0, "duration": 5}
    assert Group(rate=mapping).rate is mapping


@pytest.mark.parametrize(
    ("params", "argument", "message"),
    [
        ({"sise": 1}, "sise", "Settings has no 'sise' (did you mean 'size'?), only size, rate, kind"),
        ({1: 1}, "1", "Settings has no 1, only size, rate, kind"),
        ([("size", 3)], "params", "params must be a mapping or a Settings, got [('size', 3)]"),
    ],
)
def test_unknown_names_are_refused(params: Any, argument: str, message: str) -> None:
    error = raised(ArgumentError, from_params, Settings, params)
    assert (error.argument, str(error)) == (argument, message)


@pytest.mark.parametrize(
    ("check", "good", "wrong"),
    [
        (real(above=0, at_most=1), {0.5: 0.5, 1: 1.0}, [0, 1.5, np.inf, None, True, "1"]),
        (integer(at_least=2), {2: 2, 64.0: 64}, [1, 2.5, None, True]),
        (one_of(["huber", "squared"]), {"huber": "huber"}, ["mse", None]),
        (flag(), {True: True}, [1, "yes", None]),
        (sizes(), {(64, 32.0): (64, 32), (): ()}, [64, "64", [0], [64, None], [True], None]),
        (schedule(at_least=0, at_most=1), {0.5: 0.5}, [-1, 2, None, {"kind": "linear", "start": 2}, Linear]),
        (optional(real(above=0)), {None: None, 1: 1.0}, [0, False]),
        (or_word(real(at_least=0), "auto"), {"auto": "auto", 0: 0.0}, ["aut", -1, None]),
    ],
)
def test_checks(check: Any, good: dict[Any, Any], wrong: list[Any]) -> None:
    for value, expected in good.items():
        found = check.convert("name", value)
        assert (found, type(found)) == (expected, type(expected))
    for value in wrong:
        assert raised(ArgumentError, check.convert, "name", value).argument == "name"


def test_the_table() -> None:
    line = "{kind: linear, start: 1, stop: 0.5, duration: 10}"
    assert table(Settings).splitlines() == [
        "| name | default | allowed | meaning |",
        "|---|---|---|---|",
        "| `size` | `3` | an integer >= 1 | how many |",
        f"| `rate` | `{line}` | a number >= 0, <= 1 or a schedule | how fast |",
        "| `kind` | `null` | `first`, `second` or `null` | which |",
    ]


def test_every_algorithm_has_defaults_and_a_page_with_its_parameters() -> None:
    pages = (Path(models.__path__[0]).parent / "docs" / "algorithms").glob("*.md")
    text = "".join(page.read_text(encoding="utf-8") for page in pages)
    documented = re.findall("<!-- generated: parameters (.*) -->", text)
    assert sorted(documented) == sorted(registry.BUILT_IN["model_fn"])
    assert all(params_of(algorithm)() for algorithm in documented)  # the defaults are valid
