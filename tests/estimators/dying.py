"""What a child process is given that dies in the middle of its work with files."""

import os
import subprocess
import sys

DYING = """
import os
REAL = {name: getattr(os, name) for name in ("mkdir", "fsync", "rename", "replace", "unlink", "rmdir", "open", "link")}


def die_before_call(k):
    # This process ends with status 9 just before its k-th call to the file system.
    left = k

    def dying(call):
        def wrapper(*args, **kwargs):
            nonlocal left
            left -= 1
            if left == 0:
                os._exit(9)
            return call(*args, **kwargs)
        return wrapper

    for name, call in REAL.items():
        setattr(os, name, dying(call))
"""


def run_dying(code: str, *arguments: str) -> list[str]:
    """The lines that a program prints which forks children that die; warnings are errors, and it must say no others."""
    result = subprocess.run(
        [sys.executable, "-W", "error::UserWarning", "-c", code, *arguments],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},  # fork with one thread only
    )
    assert result.stderr == ""
    return result.stdout.splitlines()
