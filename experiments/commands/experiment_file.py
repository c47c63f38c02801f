"""The experiment file of a command, with the options that replace its values."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import Any

from ..config import schema
from ..config.files import Document
from ..config.modules import folders, make_importable
from ..config.schema import ExperimentFile
from ..config.shipped import experiment_file
from ..errors import Findings
from ..running import components


def load(arguments: argparse.Namespace) -> tuple[ExperimentFile, Document]:
    """Read and check the file of a command; errors as for :func:`axonrl.experiments.config.schema.load`."""
    file = experiment_file(arguments.file)
    experiment, document = schema.load(file, dict(arguments.params), dict(arguments.sets), _check_parts)
    make_importable(folders(document))
    return experiment, document


def _check_parts(raw: Mapping[str, Any], document: Document, findings: Findings) -> None:
    make_importable(folders(document))
    components.check_parts(raw, document, findings)
