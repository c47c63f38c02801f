"""Logger and error, at the place where RLgraph has them."""

import logging
from typing import Final

from .rlgraph_errors import RLGraphError as RLGraphError

root_logger: Final = logging.getLogger("axonrl")
"""Logger of this library: ``root_logger.setLevel("DEBUG")`` shows more."""
