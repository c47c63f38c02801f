"""The section ``submit`` of an experiment file: the settings of a container."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import AfterValidator, BeforeValidator, Field, WithJsonSchema
from pydantic_core import PydanticCustomError

from ...core.yaml_text import show
from .sections import Count, Section

_CPU = re.compile(r"[0-9]+(\.[0-9]+)?|[0-9]+m")
_SECRET_NAME = re.compile(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?")
_MEMORY = re.compile(r"[0-9]+(\.[0-9]+)?(k|Ki|[MGTPE]i?)?")


def _quantity(pattern: re.Pattern[str], expected: str) -> BeforeValidator:
    """A number, or text in Kubernetes' notation; kept as text."""

    def check(value: object) -> str:
        text = _text(value) if not isinstance(value, bool) else ""
        if not pattern.fullmatch(text) or not re.search("[1-9]", text):
            raise PydanticCustomError("quantity", "Input should be {expected}", {"expected": expected})
        return text

    return BeforeValidator(check)


def _text(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, (int, float, str)):
        return str(value)
    raise PydanticCustomError("text", "Input should be text or a number")


def _secret_name(text: str) -> str:
    if not _SECRET_NAME.fullmatch(text):
        raise ValueError(f"must be the name of a Kubernetes secret, of a-z, 0-9, '-' and '.', got {show(text)}")
    return text


_NUMBER_OR_TEXT = WithJsonSchema({"type": ["number", "string"]})
Cpu = Annotated[str, _quantity(_CPU, "a number of cores, as in 2 or 500m"), _NUMBER_OR_TEXT]
Memory = Annotated[str, _quantity(_MEMORY, "an amount of memory, as in 4Gi"), _NUMBER_OR_TEXT]
Variable = Annotated[str, BeforeValidator(_text), WithJsonSchema({"type": ["string", "number", "boolean"]})]

SecretName = Annotated[str, AfterValidator(_secret_name)]


class Resources(Section):
    """Requests and limits of the container."""

    cpu: Cpu | None = None
    """Cores: 2, or 500m for half a core."""
    memory: Memory | None = None
    """Bytes, in Kubernetes' units: 4Gi."""
    gpu: Count | None = None
    """Number of NVIDIA GPUs."""


class Submit(Section):
    """How ``axonrl submit`` runs the experiment on a Polyaxon server."""

    image: Annotated[str, Field(min_length=1)] | None = None
    """The container's image; default: axonrl's own, built by its Dockerfile."""
    environment: dict[str, Variable] = Field(default_factory=dict)
    """Environment variables of the container; those with a secret come from ``secrets``."""
    secrets: list[SecretName] = Field(default_factory=list)
    """Names of Kubernetes secrets: their keys become environment variables of the container."""
    resources: Resources = Resources()
