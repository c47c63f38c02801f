"""Logger and error, in RLgraph's module."""

import logging
from typing import Final

from .rlgraph_errors import RLGraphError as RLGraphError

root_logger: Final = logging.getLogger("axonrl")
"""The library's logger: ``root_logger.setLevel("DEBUG")`` shows more."""
