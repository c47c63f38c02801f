"""One measurement in a process of its own: ``python -m axonrl.benchmarks.measure torch act '{"batches": [1], ...}'``.

Prints what was measured as its last line, in JSON.
"""

from __future__ import annotations

import importlib
import json
import sys


def main() -> None:
    contender, topic, arguments = sys.argv[1:]
    module = importlib.import_module(f".contenders.{contender}", __package__)
    print(json.dumps(getattr(module, topic)(**json.loads(arguments))), flush=True)


if __name__ == "__main__":
    main()
