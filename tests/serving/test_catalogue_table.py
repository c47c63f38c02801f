"""The catalogue checks parameters as their dataclasses do."""

from typing import Any

import pytest

from axonrl.core import schedules
from axonrl.errors import ArgumentError
from axonrl.models.blocks.params import declared, parameters_of, params_of
from axonrl.serving.catalogue import MODELS, NOT_HOSTED, parameters
from axonrl.serving.catalogue.hosted import LEFT_OUT, LEFT_OUT_VALUES

VALUES: tuple[Any, ...] = (
    *(-1, 0, 0.03, 1, 3, 64.0, 1e9, True, None, "auto", "adam", "mean", "relu", "none"),
    *([64, 64], [], [0], {"kind": "linear", "start": 1, "stop": 0.1, "duration": 10}, {"kind": "nosuch"}, [1.5], {}),
)


def test_every_algorithm_is_hosted_or_refused_with_a_reason() -> None:
    from axonrl.core import registry

    assert {*MODELS, *NOT_HOSTED} == set(registry.BUILT_IN["model_fn"])
    assert set(MODELS) & set(NOT_HOSTED) == set()
    names = {name for model in MODELS for name in parameters_of(model)}
    assert set(LEFT_OUT) | set(LEFT_OUT_VALUES) <= names


def outcome(call: Any) -> Any:
    try:
        value = call()
    except ArgumentError as error:
        return ("refused", error.argument)
    if type(value) in schedules.KINDS.values():
        value = schedules.as_value(value)
    return list(value) if isinstance(value, tuple) else value


FORMS = sorted({parameters_of(model)[name].form["kind"] for model in MODELS for name in parameters_of(model)})


@pytest.mark.parametrize("kind", FORMS)
def test_checks_are_those_of_the_dataclasses(kind: str) -> None:
    """Of each form of the kind, for one parameter that has it."""
    checked: dict[str, tuple[str, str]] = {}
    for model in sorted(MODELS):
        for name, one in parameters_of(model).items():
            if one.form["kind"] == kind:
                checked.setdefault(repr(one.form), (model, name))
    for model, name in checked.values():
        check, form = declared(params_of(model), name)["check"], parameters_of(model)[name].form
        for value in VALUES:
            expected = outcome(lambda check=check, name=name, value=value: check.convert(name, value))
            found = outcome(lambda form=form, name=name, value=value: parameters.convert(form, name, value))
            if isinstance(expected, dict):
                expected = schedules.as_value(schedules.make_schedule(expected))
            if form["kind"] == "integer" and value == 1e9:
                continue
            assert found == expected, (model, name, value)
