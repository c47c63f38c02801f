"""The table of parameters, which the catalogue reads in place of the dataclasses, says what these say."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from axonrl import schedules
from axonrl.errors import ArgumentError
from axonrl.models.__main__ import params_of
from axonrl.models.blocks.params import declared
from axonrl.serving.catalogue import MODELS, NOT_HOSTED, parameters
from axonrl.serving.catalogue.__main__ import table
from axonrl.serving.catalogue.hosted import LEFT_OUT, LEFT_OUT_VALUES, hyperparameters

VALUES: tuple[Any, ...] = (
    *(-1, 0, 0.03, 1, 3, 64.0, 1e9, True, None, "auto", "adam", "mean", "relu", "none"),
    *([64, 64], [], [0], {"kind": "linear", "start": 1, "stop": 0.1, "duration": 10}, {"kind": "nosuch"}, [1.5], {}),
)


def test_the_table_is_up_to_date() -> None:
    assert parameters.FILE.read_text(encoding="utf-8") == table(), "run python -m axonrl.serving.catalogue"


def test_every_algorithm_is_hosted_or_refused_with_a_reason() -> None:
    from axonrl import registry

    assert {*MODELS, *NOT_HOSTED} == set(registry.BUILT_IN["model_fn"])
    assert set(MODELS) & set(NOT_HOSTED) == set()


def test_what_is_left_out_exists() -> None:
    names = {name for model in MODELS for name in parameters.of(model)}
    assert set(LEFT_OUT) | set(LEFT_OUT_VALUES) <= names


def outcome(call: Any) -> Any:
    try:
        value = call()
    except ArgumentError as error:
        return ("refused", error.argument)
    if type(value) in schedules.KINDS.values():
        value = schedules.as_value(value)
    return list(value) if isinstance(value, tuple) else value


@pytest.mark.parametrize("model", sorted(MODELS))
def test_checks_are_those_of_the_dataclasses(model: str) -> None:
    cls = params_of(model)
    for field in dataclasses.fields(cls):
        check, form = declared(cls, field.name)["check"], parameters.of(model)[field.name].form
        for value in VALUES:
            expected = outcome(lambda check=check, name=field.name, value=value: check.convert(name, value))
            found = outcome(lambda form=form, name=field.name, value=value: parameters.converted(form, name, value))
            if isinstance(expected, dict):
                expected = schedules.as_value(schedules.make_schedule(expected))
            if form["kind"] == "whole" and value == 1e9:
                continue
            assert found == expected, (field.name, value)


@pytest.mark.parametrize("model", sorted(MODELS))
def test_defaults_are_allowed(model: str) -> None:
    for name, one in hyperparameters(model).items():
        if name != "sampler":
            assert parameters.converted(one.form, name, one.default) == one.default, name
