"""``read_config_file``, in the module of RLgraph 0.2 and later."""

from __future__ import annotations

import os
from typing import Any

from ...common.specs.files import JSON, YAML, read_file
from .rlgraph_errors import translate_errors


def read_config_file(config_file: str | os.PathLike[str]) -> Any:
    """The specification in a JSON or YAML file.

    Raises:
        RLGraphError: it cannot be read.
    """
    with translate_errors():
        return read_file("read_config_file: config_file", os.fspath(config_file), (*JSON, *YAML))
