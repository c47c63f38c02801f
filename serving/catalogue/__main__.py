"""Regenerate the table of parameters: ``python -m axonrl.serving.catalogue``."""

import dataclasses
import json
from typing import Any

from ...core.registry import BUILT_IN
from ...core.schedules import KINDS, as_value
from ...models.blocks.params import Params, declared, params_of
from .parameters import FILE


def table() -> str:
    """The parameters of all built-in algorithms as JSON, one per line."""
    parts = []
    for name in sorted(BUILT_IN["model_fn"]):
        cls = params_of(name)
        rows = ",\n".join(f"  {json.dumps(_row(cls, field))}" for field in dataclasses.fields(cls))
        parts.append(f" {json.dumps(name)}: [\n{rows}\n ]")
    return "{\n" + ",\n".join(parts) + "\n}\n"


def _row(cls: type[Params], field: dataclasses.Field[Any]) -> dict[str, Any]:
    line = declared(cls, field.name)
    default: Any = field.default
    if type(default) in KINDS.values():
        default = as_value(default)
    return {
        "name": field.name,
        "default": list(default) if isinstance(default, tuple) else default,
        "meaning": line["meaning"],
        "form": line["check"].form,
    }


if __name__ == "__main__":
    FILE.write_text(table(), encoding="utf-8")
