"""Files and importable objects named by specifications."""

from __future__ import annotations

import importlib
import json
import os
import re
from pathlib import Path
from typing import Any, Final

from ..refusals import refuse

JSON: Final = (".json",)
"""Suffixes of JSON files."""
YAML: Final = (".yml", ".yaml")
"""Suffixes of YAML files."""


def is_file_name(name: str, suffixes: tuple[str, ...] = JSON) -> bool:
    """Does a string name a file? Either it has one of these suffixes, even if it does not exist, or it exists."""
    return name.endswith(suffixes) or os.path.isfile(name)  # noqa: PTH113 (False for what no path can be, too)


def read_file(where: str, name: str | os.PathLike[str], suffixes: tuple[str, ...] = JSON) -> Any:
    """Read a file: YAML if its suffix says so and is one of ``suffixes``, else JSON.

    Raises:
        ArgumentError: the file does not exist or is not valid.
    """
    path = os.fspath(name)
    is_yaml = path.endswith(YAML) and path.endswith(suffixes)
    try:
        content = Path(path).read_text(encoding="utf-8")
        return _from_yaml(content) if is_yaml else json.loads(content)
    except OSError as error:
        refuse(where, f"names the file {path}, which cannot be read: {error.strerror or error}", path)
    except ValueError as error:  # invalid format or encoding
        refuse(where, f"names the file {path}, which is not valid {'YAML' if is_yaml else 'JSON'}: {error}", path)


def import_object(where: str, name: str) -> Any:
    """Import ``package.module.name``.

    Raises:
        ArgumentError: the module or the name in it does not exist.
    """
    module, _, attribute = name.rpartition(".")
    try:
        return getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError, ValueError) as error:
        refuse(where, f"names {name!r}, which cannot be imported: {error}", name)


def _from_yaml(content: str) -> Any:
    """Read YAML without tags, in which ``1e-3`` is a number, as in YAML 1.2.

    Raises:
        ValueError: it is not valid.
    """
    import yaml

    class Loader(yaml.SafeLoader):
        """A YAML loader with YAML 1.2's numbers."""

    exponent = re.compile(r"[-+]?[0-9]+(\.[0-9]*)?[eE][-+]?[0-9]+$")
    Loader.add_implicit_resolver("tag:yaml.org,2002:float", exponent, list("-+0123456789"))
    try:
        return yaml.load(content, Loader)
    except yaml.YAMLError as error:
        raise ValueError(str(error)) from error
