"""Digests of a user's code: what tells two programs apart, and what does not."""

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from axonrl.runs.sources import digest_of, recorded

PROGRAM = """\
import logging
import numpy as np
import users_helper

RATE = 1e-3
TABLE = np.zeros(3)
logger = logging.getLogger()
seed = 0

class Base:
    size = 1

class Model(Base):
    def call(self, x):
        return x * RATE

def helped(x):
    return Model().call(x) + users_helper.SCALE

def made(gamma, state):
    def model_fn(features):
        seed = 1
        logger.info("traced")
        return helped(features) * gamma + TABLE.sum() + np.sum(state or 0)
    return model_fn
"""


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Imports the program, with some of its text replaced."""
    monkeypatch.syspath_prepend(tmp_path)

    def imported(old: str = "", new: str = "", helper: str = "SCALE = 2") -> ModuleType:
        for name, text in (("users_program", PROGRAM.replace(old, new) if old else PROGRAM), ("users_helper", helper)):
            (tmp_path / f"{name}.py").write_text(text)
            sys.modules.pop(name, None)
        importlib.invalidate_caches()
        return importlib.import_module("users_program")

    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    yield imported
    for name in ("users_program", "users_helper"):
        sys.modules.pop(name, None)


def test_an_edit_that_can_matter_makes_another_digest(program: Any) -> None:
    first = digest_of(program().made(0.9, None))
    assert set(first) == {"digest"}
    edits = [
        *(("RATE = 1e-3", "RATE = 1e-4"), ("size = 1", "size = 2"), ("x * RATE", "x + RATE")),
        *(("zeros(3)", "ones(3)"), ("def call(self, x)", "def call(self, x, y=1)")),
    ]
    digests = [digest_of(program(*edit).made(0.9, None))["digest"] for edit in edits]
    digests += [digest_of(program().made(0.8, None))["digest"]]  # in a closure
    digests += [digest_of(program(helper="SCALE = 3").made(0.9, None))["digest"]]  # in another module of the user's
    assert first["digest"] not in digests
    assert len(set(digests)) == len(digests)


def test_what_cannot_matter_makes_the_same_digest(program: Any) -> None:
    first = digest_of(program().made(0.9, None))
    comment = ("RATE = 1e-3", "RATE = 1e-3  # as in the paper\n")
    unused = ("\nseed = 0", "\nseed = 1")  # a local variable has the name of a global one
    for edit in (comment, unused):
        assert digest_of(program(*edit).made(0.9, None)) == first


def test_what_cannot_be_seen_is_named(program: Any) -> None:
    assert digest_of(program().made(0.9, iter([])))["unknown"] == ["state"]


def test_only_code_of_the_users_own_is_recorded(program: Any) -> None:
    assert list(recorded(program().helped, None)) == ["model_fn"]
    assert recorded(len, None) == recorded(importlib.import_module, None) == recorded(digest_of, None) == {}
