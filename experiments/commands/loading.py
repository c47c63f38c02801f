"""The experiment that a command is given: a file, and options that replace its values."""

from __future__ import annotations

import argparse

from ..errors import ExperimentError
from ..language import schema
from ..language.files import Document
from ..language.schema import Experiment
from ..language.seeds import told
from ..language.shipped import experiment_file
from ..running import runner
from .user_modules import make_importable


def load(arguments: argparse.Namespace) -> tuple[Experiment, Document]:
    """Read and check the file of a command; errors as for :func:`axonrl.experiments.language.schema.load`."""
    file, sets = experiment_file(arguments.file), dict(arguments.sets)
    make_importable(file.parent)
    experiment, document = schema.load(file, dict(arguments.params), sets, runner.check_named)
    if "seed" in sets and isinstance(experiment.seeds, list):
        what = f"is where a number of seeds begins, and these are listed: {told(experiment.seeds)}. Use --seeds alone."
        raise ExperimentError("--seed", what)
    return experiment, document
