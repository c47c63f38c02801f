"""The experiment that a command is given: a file, and options that replace its values."""

from __future__ import annotations

import argparse
from typing import Any

from ..config import schema
from ..config.files import Document, Keys
from ..config.modules import folders
from ..config.schema import ExperimentFile
from ..config.shipped import experiment_file
from ..running import components
from .user_modules import make_importable


def load(arguments: argparse.Namespace) -> tuple[ExperimentFile, Document]:
    """Read and check the file of a command; errors as for :func:`axonrl.experiments.config.schema.load`."""
    file = experiment_file(arguments.file)
    experiment, document = schema.load(file, dict(arguments.params), dict(arguments.sets), _check_part)
    make_importable(folders(document))
    return experiment, document


def _check_part(kind: str, part: Any, at: Keys, document: Document, sound: bool) -> None:
    make_importable(folders(document))
    components.check_part(kind, part, at, document, sound)
