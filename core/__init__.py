"""Shared by every room: errors, checks, protocols, schedules, and the inputs of a trace. Loads no TensorFlow."""

import time
from typing import Final

LOADED: Final = time.time()
"""When this process first loaded any of axonrl: a user's ``model_fn`` is loaded with it, or later."""
