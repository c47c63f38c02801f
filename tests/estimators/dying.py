"""What a child process is given that dies in the middle of its work with files."""

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
