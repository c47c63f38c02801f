"""``axonrl reproduce``: run an experiment's seeds, and keep their results in files for a repository."""

from __future__ import annotations

import argparse
import contextlib
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from ...core.tensorflow_import import load_tensorflow
from ...run_dir.files import why_unwritable
from ...run_dir.final import final_evaluation
from ..config.schema import Evaluate, ExperimentFile
from ..config.seeds import seed_list
from ..console import DONE, FAILED, print_json, print_table, say
from ..errors import ExperimentError
from ..running import trained_agent
from ..searches import reproduction
from ..searches.runs import FINISHED
from ..searches.seeds import prepare
from . import seeds
from .arguments import RUNS
from .experiment_file import load

REPRODUCED: Final = RUNS / "reproduced"
"""The folder of the runs, in the current directory."""
SEEDS: Final = list(range(100, 110))
"""The default seeds; a number of seeds begins with the first of them. Settings are tuned on other seeds."""


def reproduce(arguments: argparse.Namespace) -> int:
    """Run and evaluate the seeds that have no result, write their results, and print those of all seeds."""
    experiment = load(arguments)[0]
    number, first = experiment.seeds, SEEDS[0]
    if isinstance(number, int) and number >= first:
        what = f"{number} is a number of seeds, {first} to {first + number - 1}; write {number}-{number} for one seed"
        raise ExperimentError("seeds", what)
    wanted = SEEDS if number is None else seed_list(number, first)
    results, code = arguments.results, DONE
    if missing := _without_result(results, experiment, wanted):
        if why := why_unwritable(results.absolute()):
            raise ExperimentError(f"--results {results}", f"results cannot be written here: {why}")
        with contextlib.redirect_stdout(sys.stderr):
            code = _run(arguments, missing)
        if code not in (DONE, FAILED):
            return code
        _collect(results, experiment, missing)
        missing = _without_result(results, experiment, wanted)
    kept = [reproduction.read(results, experiment.name, seed) for seed in wanted if seed not in missing]
    if found := [one for one in kept if one is not None]:
        summary = reproduction.summary(experiment.name, found)
        if arguments.json:
            print_json(summary)
        else:
            print_table(reproduction.table(summary))
    return code


def _without_result(results: Path, experiment: ExperimentFile, wanted: Sequence[int]) -> list[int]:
    """The seeds without a result, or with a result of other settings."""
    found = {seed: reproduction.read(results, experiment.name, seed) for seed in wanted}
    settings = reproduction.digest_of_settings(experiment)
    return [seed for seed, one in found.items() if one is None or one.settings != settings]


def _run(arguments: argparse.Namespace, missing: Sequence[int]) -> int:
    """``axonrl run`` with these seeds, in the experiment's folder, where earlier runs are continued."""
    sets = [*(pair for pair in arguments.sets if pair[0] not in ("seeds", "seed")), ("seeds", str(list(missing)))]
    given = argparse.Namespace(**{**vars(arguments), "sets": sets, "resume": False, "auto_resume": True, "json": False})
    experiment, document = load(given)
    given.model_dir = REPRODUCED / experiment.name
    return seeds.run(experiment, document, given, only=True)


def _collect(results: Path, experiment: ExperimentFile, missing: Sequence[int]) -> None:
    """Evaluate the finished runs of these seeds, and write their results."""
    runs = prepare(REPRODUCED / experiment.name, experiment, resume=True)
    load_tensorflow()
    for seed in (seed for seed in runs.with_status(FINISHED) if seed in missing):
        folder, usual = runs.run_folder(seed), experiment.evaluate or Evaluate()
        say(f"Evaluating {folder}")
        agent, final = trained_agent.load_trained(folder)[1], final_evaluation(folder)
        known = {} if final is None else {usual.policy: final.results}
        last = known.get("last") or trained_agent.evaluate_agent(
            agent, experiment, usual.episodes, "last", usual.explore
        )
        best = known.get("best") or last
        if "best" not in known and (folder / "best.safetensors").is_file():
            best = trained_agent.evaluate_agent(agent, experiment, usual.episodes, "best", usual.explore)
        reproduction.write(results, reproduction.result_of(folder, experiment, agent, best, last), folder)
