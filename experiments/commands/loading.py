"""The experiment that a command is given: a file, and options that replace its values."""

from __future__ import annotations

import argparse
from typing import Any

from ..language import schema
from ..language.files import Document, Keys
from ..language.modules import folders
from ..language.schema import Experiment
from ..language.shipped import experiment_file
from ..running import building
from .user_modules import make_importable


def load(arguments: argparse.Namespace) -> tuple[Experiment, Document]:
    """Read and check the file of a command; errors as for :func:`axonrl.experiments.language.schema.load`."""
    file = experiment_file(arguments.file)
    experiment, document = schema.load(file, dict(arguments.params), dict(arguments.sets), _check_part)
    make_importable(folders(document))
    return experiment, document


def _check_part(kind: str, part: Any, at: Keys, document: Document, sound: bool) -> None:
    make_importable(folders(document))
    building.check_part(kind, part, at, document, sound)
