"""Summary of a run before its first timestep."""

from __future__ import annotations

import dataclasses
import html
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import gymnasium

from ..policies.modes import ModelProgram
from ..policies.reasons import from_record
from ..run_dir.record import RunRecord
from .limits import UpdateSchedule
from .stepper import Stepper


@dataclasses.dataclass(frozen=True)
class Part:
    """A part of the model: variables whose names share the first word (``online``, ``adam``).

    ``trainable`` counts the parameters in trainable variables; ``acts`` tells whether PREDICT uses any of them.
    """

    parameters: int
    trainable: int
    acts: bool


@dataclasses.dataclass(frozen=True)
class RunSummary:
    """A run as found by ``Agent.check``.

    ``memory_bytes`` is None if the memory does not report it. ``schedule`` says when updates are due; by default the
    first one comes when there is a batch. ``runtimes`` and ``why`` have an entry for the actor and one for the learner.
    """

    observation_space: gymnasium.Space[Any]
    action_space: gymnasium.Space[Any]
    num_envs: int
    parts: Mapping[str, Part]
    memory_bytes: int | None
    schedule: UpdateSchedule
    runtimes: Mapping[str, str]
    why: Mapping[str, str]


def summary_of(
    spaces: tuple[gymnasium.Space[Any], gymnasium.Space[Any]],
    program: ModelProgram,
    stepper: Stepper,
    record: RunRecord | None,
) -> RunSummary:
    """Summarize a run in a session."""
    reasons = {} if record is None else record.runtime_why
    return RunSummary(
        observation_space=spaces[0],
        action_space=spaces[1],
        num_envs=stepper.lanes,
        parts=parts_of(program.variables(), program.predict_variables()),
        memory_bytes=getattr(stepper.memory, "nbytes", None),
        schedule=stepper.schedule,
        runtimes={} if record is None else record.runtime,
        why={part: str(from_record(why)) for part, why in reasons.items()},
    )


def parts_of(variables: Mapping[str, Any], acting: Mapping[str, Any]) -> dict[str, Part]:
    """The parts of a model, in order of creation.

    Args:
        variables: all variables by their names in checkpoints (``0007.online/dense/kernel``).
        acting: the variables of PREDICT.
    """
    parts: dict[str, Part] = {}
    for name, variable in variables.items():
        first = name.partition(".")[2].partition("/")[0]
        size = math.prod(variable.shape)
        before = parts.get(first, Part(0, 0, False))
        parts[first] = Part(
            before.parameters + size,
            before.trainable + (size if variable.trainable else 0),
            before.acts or name in acting,
        )
    return parts


class Table(str):
    """A table as text; a notebook renders it as a table."""

    rows: Sequence[Sequence[str]]
    """Cells; the first row is the heading."""

    def _repr_html_(self) -> str:
        head, *body = (_row(row, "td" if index else "th") for index, row in enumerate(self.rows))
        return f"<table><thead>{head}</thead><tbody>{''.join(body)}</tbody></table><p>{self.splitlines()[-1]}</p>"

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        printer.text(str(self))  # IPython in a terminal


def _row(cells: Iterable[str], tag: str) -> str:
    return f"<tr>{''.join(f'<{tag}>{html.escape(cell)}</{tag}>' for cell in cells)}</tr>"


def table_of(variables: Mapping[str, Any], acting: Mapping[str, Any]) -> Table:
    """Table of the variables of a model, with totals; arguments as for :func:`parts_of`."""
    rows = [("variable", "shape", "values", "acts")]
    for name, variable in variables.items():
        shape = ", ".join(map(str, variable.shape))
        rows.append((name, f"[{shape}]", f"{math.prod(variable.shape):,}", "yes" if name in acting else ""))
    widths = [max(len(row[k]) for row in rows) for k in range(len(rows[0]))]
    lines = [
        f"{name:<{widths[0]}}  {shape:<{widths[1]}}  {values:>{widths[2]}}  {acts}".rstrip()
        for name, shape, values, acts in rows
    ]
    acts = sum(math.prod(variable.shape) for name, variable in variables.items() if name in acting)
    total = sum(math.prod(variable.shape) for variable in variables.values())
    end = f"{total:,} values, {acts:,} of them used to act"
    table = Table("\n".join([lines[0], "-" * max(map(len, lines)), *lines[1:], end]))
    table.rows = rows
    return table
