"""The section ``matrix`` of an experiment, checked by Polyaxon itself, with errors that name the line."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from ...core.yaml_text import Keys, show
from ..config.files import Document
from ..config.schema import ExperimentFile
from ..errors import ExperimentError, Findings
from . import metrics
from .matrix_values import AT, check_values


def check_matrix(
    matrix: Mapping[str, Any], experiment: ExperimentFile, params: Mapping[str, str], document: Document
) -> Any:
    """Check a matrix.

    Args:
        matrix: as in the file.
        experiment: what is submitted.
        params: those of ``-P``.
        document: for the lines of errors.

    Returns:
        Polyaxon's own object of it.

    Raises:
        ExperimentError: it varies an undeclared param or one that ``-P`` sets, names a metric that no run will have, or
            Polyaxon refuses it.
    """
    for name, place in _varied(matrix).items():
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
    check_values(matrix, document, findings)
    try:
        made = _made(matrix, document)
    except ExperimentError as error:
        if error.key != document.error(AT, "").key or not findings:  # else it follows from what was found
            findings.add(error)
    findings.raise_all()
    metrics.check(matrix, experiment, document)
    return made


def _made(matrix: Mapping[str, Any], document: Document) -> Any:
    """Polyaxon's object of it, as Polyaxon checks it."""
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


def _varied(matrix: Mapping[str, Any]) -> dict[str, Keys]:
    """The varied params, and where the file has them: under ``params``, or in the rows of a mapping."""
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
