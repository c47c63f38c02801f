"""The section ``matrix`` of an experiment, checked by Polyaxon's schema and more rules; errors name the line."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from ...core.yaml_text import Keys, show
from ..config.files import Document
from ..config.schema import ExperimentFile
from ..errors import ExperimentError, Findings
from . import metrics
from .metrics import AT

WITH_METRIC: Final = ("hyperband", "bayes", "tpe")
"""Kinds of matrix that compare a metric of the user's choice."""
_COUNTS: Final = ("numRuns", "numInitialRuns", "maxIterations", "concurrency")
_OTHER_SPELLING: Final = {
    re.sub("[A-Z]", lambda found: f"_{found[0].lower()}", name): name
    for name in ("numRuns", "numInitialRuns", "maxIterations", "earlyStopping", "utilityFunction")
}
"""Spellings that Polyaxon's client also takes; one spelling is enough."""
_SPACE, _DIST, _NORMAL = ("start", "stop", "num"), ("low", "high"), ("loc", "scale")
MOST_VALUES: Final = 100_000
FORMS: Final[Mapping[str, Sequence[str]]] = {
    "range": ("start", "stop", "step"),
    **dict.fromkeys(("linspace", "logspace", "geomspace"), _SPACE),
    **dict.fromkeys(("uniform", "loguniform"), _DIST),
    **dict.fromkeys(("quniform", "qloguniform"), (*_DIST, "q")),
    **dict.fromkeys(("normal", "lognormal"), _NORMAL),
    **dict.fromkeys(("qnormal", "qlognormal"), (*_NORMAL, "q")),
}
"""Names of the numbers that each kind of param takes."""
_MORE: Final = {"logspace": ("base",)}


def check_matrix(
    matrix: Mapping[str, Any], experiment: ExperimentFile, params: Mapping[str, str], document: Document
) -> Any:
    """Check a matrix.

    Args:
        matrix: as in the file.
        experiment: what is submitted.
        params: the params of ``-P``.
        document: for the lines of errors.

    Returns:
        Polyaxon's object for it.

    Raises:
        ExperimentError: it varies an undeclared param or one that ``-P`` sets, names a metric that no run will have, or
            Polyaxon refuses it.
    """
    for name, place in _varied_params(matrix).items():
        if name not in experiment.params:
            message = f"no param {name!r} is declared under 'params'"
            raise document.error(place, message, name=name, choices=experiment.params)
        if name in params:
            raise ExperimentError(
                f"-P {name}={params[name]}",
                "the matrix in the file already varies this param",
                key=name,
            )

    findings, made = Findings(), None
    _check_values(matrix, document, findings)
    try:
        made = _polyaxon_matrix(matrix, document)
    except ExperimentError as error:
        if error.key != document.error(AT, "").key or not findings:  # else it results from the errors already found
            findings.add(error)
    findings.raise_all()
    metrics.check(matrix, experiment, document)
    return made


def _polyaxon_matrix(matrix: Mapping[str, Any], document: Document) -> Any:
    """Polyaxon's object for it, checked by Polyaxon."""
    from polyaxon.schemas import V1Operation
    from pydantic import ValidationError

    job = {"kind": "component", "run": {"kind": "job", "container": {"image": "any"}}}
    try:
        made = V1Operation.from_dict({"version": 1.1, "kind": "operation", "matrix": dict(matrix), "component": job})
    except ValidationError as error:
        raise _error(error.errors(include_url=False)[0], matrix, document) from None
    except (TypeError, ValueError) as error:  # Polyaxon compares before it checks types
        raise document.error(AT, f"Polyaxon refuses it: {error}") from None
    return made.matrix


def _varied_params(matrix: Mapping[str, Any]) -> dict[str, Keys]:
    """The varied params, and their keys in the file: under ``params``, or in the rows of a mapping."""
    params, rows = matrix.get("params"), matrix.get("values")
    varied: dict[str, Keys] = {name: (*AT, "params", name) for name in (params if isinstance(params, dict) else ())}
    for index, row in enumerate(rows if isinstance(rows, list) else ()):
        varied |= {name: (*AT, "values", index, name) for name in (row if isinstance(row, dict) else ())}
    return varied


def _error(details: Any, matrix: Mapping[str, Any], document: Document) -> ExperimentError:
    place: Keys = ()
    value: Any = {"matrix": matrix}
    for part in details["loc"]:  # parts that are not keys are alternatives that Pydantic tried
        if part in value if isinstance(value, Mapping) else isinstance(value, list) and isinstance(part, int):
            place, value = (*place, part), value[part]
    if details["type"] == "missing":
        return document.error((*place, details["loc"][-1]), "this key is required")
    if details["type"] == "union_tag_not_found":
        return document.error((*place, "kind"), "this key is required")
    if details["type"] == "extra_forbidden":
        return document.error(place, "unknown key")
    if details["type"] == "union_tag_invalid":
        # As in "<V1MatrixKind.GRID: 'grid'>, <V1MatrixKind.RANDOM: 'random'>", or "'median', 'diff'".
        choices = re.findall(r"'(\w+)'", str(details["ctx"]["expected_tags"]))
        tag = str(details["ctx"]["tag"])
        message = f"must be one of {', '.join(choices)}, got {show(tag)}"
        return document.error((*place, "kind"), message, name=tag, choices=choices)
    return document.error(place, f"Polyaxon refuses it: {details['msg'].removeprefix('Value error, ')}")


# -- values ------------------------------------------------------------------------------------------------------------


def _check_values(matrix: Mapping[str, Any], document: Document, findings: Findings) -> None:
    """Collect errors in values that Polyaxon's schema accepts or explains badly, each with its line."""
    kind = matrix.get("kind")
    for name, other in _OTHER_SPELLING.items():
        if name in matrix:
            findings.add(document.error((*AT, name), "unknown key", name=name, choices=[other]))
    for name in _COUNTS:
        value = matrix.get(name)
        if value is not None and not (_is_whole(value) and value >= 1):
            findings.add(document.error((*AT, name), f"must be a whole number of at least 1, got {show(value)}"))
    if matrix.get("params") == {}:
        findings.add(document.error((*AT, "params"), "must name at least one declared param, got none"))
    if kind == "mapping" and matrix.get("values") == []:
        findings.add(document.error((*AT, "values"), "must have at least one point, as in {name: 1}, got none"))
    if matrix.get("metric") is not None:
        _check_metric(matrix["metric"], kind, document, findings)
    params = matrix.get("params")
    for name, param in params.items() if isinstance(params, Mapping) else ():
        given = param.get("value") if isinstance(param, Mapping) else None
        if given is not None and (why := next(_complaints(param.get("kind"), given), "")):
            findings.add(document.error((*AT, "params", name, "value"), f"{why}, got {_format_value(given)}"))


def _check_metric(metric: Any, kind: Any, document: Document, findings: Findings) -> None:
    at = (*AT, "metric")
    if kind in ("grid", "random", "mapping"):
        message = (
            f"only {', '.join(WITH_METRIC)} have a metric of your choice; {kind} compares the return of the final"
            " evaluation, or else of the last 100 episodes. Leave the metric out"
        )
        findings.add(document.error(at, message))
    elif not isinstance(metric, Mapping) or not isinstance(metric.get("name", ""), str):
        message = f"must be {{name: ..., optimization: maximize}}, or minimize, got {show(metric)}"
        findings.add(document.error(at, message))
    elif metric.get("optimization", "maximize") not in ("maximize", "minimize"):
        message = f"must be maximize or minimize, got {show(metric['optimization'])}"
        findings.add(document.error((*at, "optimization"), message))


def _complaints(kind: Any, value: Any) -> Iterator[str]:
    """Requirements that the value of a param violates; the first one counts."""
    if kind in ("choice", "pchoice") and value == []:
        yield "must have at least one value"
    if kind == "pchoice" and not _adds_up(value):
        yield "must be a list of [value, probability], with probabilities that add up to 1"
    if kind in FORMS:
        numbers = _numbers(kind, value)
        if numbers is None:
            yield f"must be the numbers [{', '.join(FORMS[kind])}]"
        else:
            yield from _of_numbers(kind, numbers)


def _of_numbers(kind: str, numbers: Mapping[str, float]) -> Iterator[str]:
    first, second, *_ = FORMS[kind]
    if first == "loc":
        if numbers["scale"] < 0:
            yield "scale must not be negative"
    elif not numbers[first] < numbers[second]:
        yield f"{second} must be above {first}"
    for name in ("step", "q"):
        if numbers.get(name, 1) <= 0:
            yield f"{name} must be above 0"
    if not (_is_whole(number := numbers.get("num", 1)) and number >= 1):
        yield "num must be a whole number of at least 1"
    if (count := _count(numbers)) > MOST_VALUES:
        yield f"at most {MOST_VALUES:,} values can be listed, and these are {count:,.0f}: use a kind that is drawn"
    if kind == "geomspace" and numbers["start"] * numbers["stop"] <= 0:
        yield "start and stop must both be above 0, or both below"


def _count(numbers: Mapping[str, float]) -> float:
    """The number of values that a range or a space lists."""
    if numbers.get("step", 0) > 0:
        return (numbers["stop"] - numbers["start"]) / numbers["step"]
    return numbers.get("num", 0)


def _adds_up(value: Any) -> bool:
    try:
        return math.isclose(math.fsum(share for _, share in value), 1)
    except (TypeError, ValueError):
        return False


def _numbers(kind: str, value: Any) -> dict[str, float] | None:
    """The numbers of a value by name; None if it has none. It may be a list, a mapping, or ``1:2:3``."""
    names = FORMS[kind]
    known = (*names, *_MORE.get(kind, ()))
    if isinstance(value, str):
        value = value.split(":")
    if isinstance(value, list):
        value = dict(zip(known, value, strict=False)) if len(value) <= len(known) else None
    if not isinstance(value, Mapping) or not {*names} <= value.keys() <= {*known, "size"}:
        return None
    try:
        return {name: _number(value[name]) for name in value}
    except (TypeError, ValueError):
        return None


def _number(value: Any) -> float:
    if isinstance(value, bool):
        raise TypeError(value)
    return int(value) if isinstance(value, str) and value.strip().isdigit() else float(value)


def _is_whole(value: Any) -> bool:
    return not isinstance(value, bool) and (isinstance(value, int) or (isinstance(value, float) and value.is_integer()))


def _format_value(value: Any) -> str:
    return f"[{', '.join(map(_format_value, value))}]" if isinstance(value, list) else show(value)
