"""An entry of ``starts.json`` without a training."""

from typing import Any


def made_start(**changes: Any) -> dict[str, Any]:
    texts = dict.fromkeys(("started", "current_folder", "run_folder", "system", "process"), "")
    others: dict[str, Any] = {
        "file": None,
        "git_commit": None,
        "command": [],
        "included": [],
        "seed": None,
        "made_with": {},
    }
    return {**texts, **others, **changes}
