"""Where RLgraph has its logger and its error."""

import logging
from typing import Final

from .rlgraph_errors import RLGraphError as RLGraphError

root_logger: Final = logging.getLogger("axonrl")
"""Logger of this library: ``root_logger.setLevel("DEBUG")`` shows more."""
