"""A writer of YAML that :mod:`axonrl.experiments.config.files` reads back unchanged."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import yaml

from ...core.yaml_text import scalar


def to_yaml(values: Mapping[str, Any]) -> str:
    """The values as strict YAML, in their order."""
    return str(yaml.dump(values, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=120))


class _Dumper(yaml.SafeDumper):
    """Writes what the strict reader accepts: no anchors, and quotes around text that looks like a number."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _represent_text(dumper: yaml.SafeDumper, text: str) -> yaml.Node:
    try:
        plain = scalar(text) == text and "{{" not in text and "{%" not in text  # see polyaxon/operation.py
    except ValueError:
        plain = False
    style = '"' if not plain else "|" if "\n" in text else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _represent_text)
