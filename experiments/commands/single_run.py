"""``axonrl run``, ``check``, ``evaluate``, ``enjoy``, ``record``, ``export`` and ``compile``."""

from __future__ import annotations

import argparse
import contextlib
import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ...core.checks import counted
from ...hooks.events import EpisodeStats, Session
from ...run_dir.learning_curve import CURVE
from ..config.seeds import seed_list
from ..config.shipped import experiment_file
from ..console import DONE, TERMINATED, print_json, print_rows, say
from ..errors import ExperimentError
from ..running import folder as records
from ..running import runner, trained_agent
from ..running.components import environment_of
from ..running.explain import rows as explained_rows
from ..running.report import Result, evaluation_rows
from ..running.report import rows as result_rows
from ..running.signals import StopOnSignal
from . import multi_run, search, seeds
from .arguments import RUNS
from .experiment_file import load
from .terminal import report_error


def where_the_run_began(command: Callable[[argparse.Namespace], int]) -> Callable[[argparse.Namespace], int]:
    """Make a command work in the folder where its run began; the command's own paths stay valid."""

    @functools.wraps(command)
    def carried_out(arguments: argparse.Namespace) -> int:
        folder = _existing(arguments)
        if folder is None:
            return command(arguments)
        given: dict[str, Any] = vars(arguments)
        paths: dict[str, Any] = {name: path.absolute() for name, path in given.items() if isinstance(path, Path)}
        if arguments.command == "run":
            paths["file"] = str(experiment_file(arguments.file).absolute())
        with records.where_it_began(folder) as there:
            if there != folder:
                given.update({**paths, "model_dir": there})
            return command(arguments)

    return carried_out


def _existing(arguments: argparse.Namespace) -> Path | None:
    """The existing folder of the command's run or runs; None for a new one."""
    given: Path | None = arguments.model_dir
    if arguments.command != "run":
        return given
    if not (arguments.resume or arguments.auto_resume):
        return None
    if given is None:
        name = load(arguments)[0].name
        files = (records.EXPERIMENT, records.SEEDS, records.SEARCH)
        given = records.newest_folder(RUNS, name, files) if arguments.resume else RUNS / name
    return given


@where_the_run_began
def run(arguments: argparse.Namespace) -> int:
    """Train, evaluate and report."""
    experiment, document = load(arguments)
    if experiment.matrix is not None:
        return search.run(experiment, document, arguments)
    if seeds.are_wanted(experiment, arguments):
        return seeds.run(experiment, document, arguments)
    if arguments.jobs is not None:
        what = "limits how many seeds or trials run at once: use it with --seeds or a matrix, or omit it"
        raise ExperimentError("--jobs", what)
    folder, resume = multi_run.folder_of(experiment.name, arguments)
    with StopOnSignal() as signals:
        try:
            say(f"{'Resuming' if resume else 'Running'} {experiment.name} in {folder}")
            result = runner.run(
                experiment,
                document,
                folder,
                resume=resume,
                command=arguments.command_line,
                hooks=[signals],
                stopped=lambda: "" if signals.received is None else f"{signals.name} received",
            )
        except KeyboardInterrupt:
            say(f"Stopped at once by {signals.title}. {_what_is_left(folder, signals.began, arguments)}")
            return signals.exit_code
        except ExperimentError:
            raise
        except (Exception, SystemExit) as error:
            return report_error(error, arguments, f"The run failed. {_what_is_left(folder, signals.began, arguments)}")
        finally:
            if arguments.model_dir is None:
                with contextlib.suppress(OSError):  # it is empty if nothing was saved
                    folder.rmdir()
    if result.stopped:
        by = f" by {signals.title}" if signals.received is not None else f" ({result.stopped})"
        say(f"Stopped{by} at timestep {result.timesteps:,}. {_what_is_left(folder, signals.began, arguments)}")
        return TERMINATED if signals.received is None else signals.exit_code
    _report(result, arguments.json)
    return DONE


def check(arguments: argparse.Namespace) -> int:
    """Check an experiment file, and explain what it does."""
    experiment, document = load(arguments)
    if experiment.matrix is not None:
        return search.check(experiment, document, arguments)
    found = runner.check(experiment, document, records.next_folder(RUNS, experiment.name))
    if arguments.json:
        print_json(found)
        return DONE
    print_rows(experiment.name, explained_rows(found), justify="left")
    print(f"{document.file}: no errors")
    return DONE


@where_the_run_began
def evaluate(arguments: argparse.Namespace) -> int:
    """Evaluate the agent in a run folder."""
    folder, checkpoint, number = arguments.model_dir, arguments.checkpoint, arguments.episodes
    title, found, more = str(folder), {}, {}
    if checkpoint is None:
        experiment, agent, policy = trained_agent.load_trained(folder, arguments.policy)
        usual = trained_agent.evaluation_of(experiment)
        explore = usual.explore if arguments.explore is None else arguments.explore
        results = trained_agent.evaluate_agent(agent, experiment, number or usual.episodes, policy, explore)
    else:
        results, recorded, repeated = trained_agent.evaluate_checkpoint(folder, checkpoint, number)
        if not repeated and number is None:
            how = "evaluated this policy in an environment that a Python program made"
            how = "did not evaluate this policy" if recorded is None else how
            say(f"The training {how}, so these are other episodes.")
        then = None if recorded is None else recorded.results
        title, found = f"{folder}, checkpoint {checkpoint}", {"checkpoint": checkpoint, "recorded": then}
        more = {"recorded by the training": "-" if then is None else next(iter(evaluation_rows(then).values()))}
    if arguments.json:
        print_json({**results, **found})
        return DONE
    print_rows(title, {**evaluation_rows(results), "episode length": f"{results['episode_length_mean']:,.1f}", **more})
    return DONE


@where_the_run_began
def enjoy(arguments: argparse.Namespace) -> int:
    """Show episodes of the agent in a run folder."""
    folder, video = arguments.model_dir, arguments.video
    records.read_experiment(folder)
    paths = None if video is None else trained_agent.video_paths(video, arguments.episodes)
    if paths is None:
        trained_agent.need_display()
    results = trained_agent.enjoy(folder, arguments.episodes, arguments.policy, arguments.seed, paths, _tell_episode)
    for path in paths or ():
        print(f"video: {path}")
    if arguments.episodes > 1:
        print(*(f"{label}: {text}" for label, text in evaluation_rows(results).items()))
    return DONE


@where_the_run_began
def record(arguments: argparse.Namespace) -> int:
    """Write episodes of the agent in a run folder to a file."""
    experiment, agent, policy = trained_agent.load_trained(arguments.model_dir, arguments.policy)
    given = {name: getattr(arguments, name) for name in ("timesteps", "epsilon", "seed")}
    with environment_of(experiment.environment, 1) as env:
        results = agent.record(arguments.output, env, arguments.episodes, policy=policy, **given)
    if arguments.json:
        print_json(results)
        return DONE
    rows = {"timesteps": f"{int(results['timesteps']):,}", **evaluation_rows(results, "recorded return")}
    print_rows(str(arguments.output), rows)
    return DONE


def compile(arguments: argparse.Namespace) -> int:
    """Write an experiment's training program."""
    experiment, document = load(arguments)
    chosen = seed_list(experiment.seeds or 1, experiment.seed)
    compiled = runner.compile_experiment(experiment, document, arguments.output, chosen)
    if arguments.json:
        print_json({"directory": compiled, "seeds": chosen})
        return DONE
    print(compiled)
    return DONE


def _tell_episode(session: Session, stats: EpisodeStats) -> None:
    print(
        f"episode {session.global_episode}: return {stats.episode_return:,.6g}, {counted(stats.length, 'timestep')}",
        flush=True,
    )


@where_the_run_began
def export(arguments: argparse.Namespace) -> int:
    """Export the policy of a run."""
    from ...estimators.export import check_target

    folder: Path = arguments.model_dir
    usual = trained_agent.usual_policy(folder)
    target = arguments.output or folder / "exported"
    check_target(target)
    records.read_record(folder)  # damage shows before TensorFlow is loaded
    print(trained_agent.load_agent(folder).export(target, policy=arguments.policy or usual, formats=arguments.formats))
    return DONE


def _report(result: Result, as_json: bool) -> None:
    curve = result.folder / CURVE
    if as_json:
        print_json({**{name: value for name, value in vars(result).items() if value != ""}, "learning_curve": curve})
        return
    print_rows(result.name, result_rows(result))
    print(f"run folder:     {result.folder}")
    print(f"learning curve: {curve}")


def _what_is_left(folder: Path, began: bool, arguments: argparse.Namespace) -> str:
    """Say what is saved of a run that did not finish, and how to continue it."""
    if (folder / records.EXPERIMENT).is_file():
        return f"Saved in {folder}. Continue with: {multi_run.resume_command(folder, arguments)}"
    return f"Its folder {folder} is missing." if began else "It had not started; nothing was saved."
