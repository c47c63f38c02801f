"""Make ``pip install --editable`` find the package, which is the repository's root; everything else is in setup.cfg.

For ``package_dir = axonrl = .`` setuptools installs an import hook, which type checkers and editors do not run. They
read folders on the path, so one such folder holds a link with the package's name: ``.build/axonrl -> ..``.
"""

import sys
from pathlib import Path

from setuptools import setup


def link() -> bool:
    """Make the link; False if the system does not allow it, such as Windows without developer mode."""
    path = Path(".build", "axonrl")
    try:
        path.parent.mkdir(exist_ok=True)
        if not path.is_symlink():
            path.symlink_to("..", target_is_directory=True)
        return path.samefile(".")
    except OSError:
        return False


setup(**({"package_dir": {"": ".build"}} if "editable_wheel" in sys.argv and link() else {}))
