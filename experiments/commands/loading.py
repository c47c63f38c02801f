"""The experiment that a command is given: a file, and options that replace its values."""

from __future__ import annotations

import argparse

from ..language import schema
from ..language.files import Document
from ..language.schema import Experiment
from ..language.shipped import experiment_file
from ..running import building
from .user_modules import make_importable


def load(arguments: argparse.Namespace) -> tuple[Experiment, Document]:
    """Read and check the file of a command; errors as for :func:`axonrl.experiments.language.schema.load`."""
    file = experiment_file(arguments.file)
    make_importable(file.parent)
    return schema.load(file, dict(arguments.params), dict(arguments.sets), building.check_part)
