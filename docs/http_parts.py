"""Parts of the page of the HTTP interface, from the OpenAPI document."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from ..serving.gateway import reference
from ..serving.gateway.reference import Part
from ..serving.gateway.routes import document
from ..serving.gateway.settings import Limits
from .tables import markdown


def overview() -> str:
    """Every call in a line."""
    return _table(reference.overview(document()))


def calls() -> str:
    """A section for each call."""
    return _sections(reference.calls(document()))


def objects() -> str:
    """A section for each object that is sent or answered."""
    return _sections(reference.objects(document()))


def limits() -> str:
    """Every limit of the configuration."""
    rows = [
        (f"`{key}`", f"{field.default:,}", (field.description or "").strip())
        for key, field in Limits.model_fields.items()
    ]
    return markdown(("limit", "default", "meaning"), rows)


def _sections(parts: Iterable[Part]) -> str:
    return "\n\n".join(
        "\n\n".join(filter(None, [f"### {part.title}", *part.text, _table(part)]))
        for part in parts
    )


def _table(part: Part) -> str:
    return markdown(part.rows[0], part.rows[1:]) if part.rows else ""


PARTS: Final[Mapping[str, Callable[[], str]]] = {
    f.__name__: f for f in (overview, calls, objects, limits)
}
