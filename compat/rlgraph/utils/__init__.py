"""Where RLgraph has its logger and its error."""

import logging
from typing import Final

root_logger: Final = logging.getLogger("axonrl")
"""Of this library: ``root_logger.setLevel("DEBUG")`` shows more."""
