"""JSON files that were damaged: each field in turn of another kind, missing, or one too many."""

from collections.abc import Collection, Iterator
from typing import Any, Final

OTHERS: Final[tuple[Any, ...]] = ("text", 2.5, True, [], {})
"""A value of each kind; null may be allowed."""


def damages(
    value: Any, free: Collection[str] = (), optional: Collection[str] = (), at: str = ""
) -> Iterator[tuple[str, Any]]:
    """The name of a field, and the value with that field damaged.

    Fields in ``free`` may be anything, as what is below them; those in ``optional`` may be missing.
    """
    pairs = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in pairs:
        field = f"{at}[{key}]" if isinstance(value, list) else f"{at}.{key}" if at else str(key)
        if field in free or item is None:
            continue
        for other in OTHERS:
            if type(other) is not type(item):
                yield field, _with(value, key, other)
        if isinstance(value, dict) and field not in optional:
            yield field, {name: one for name, one in value.items() if name != key}
        for inner, damaged in damages(item, free, optional, field):
            yield inner, _with(value, key, damaged)
    field = f"{at}.unheard_of" if at else "unheard_of"
    if isinstance(value, dict) and field not in free:
        yield field, {**value, "unheard_of": [None]}


def _with(value: Any, key: Any, item: Any) -> Any:
    changed = dict(value) if isinstance(value, dict) else list(value)
    changed[key] = item
    return changed
