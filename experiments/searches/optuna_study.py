"""Optuna as a source of points and as a rule of early stopping; its study is ``study.db`` in the search's folder.

Each point depends only on the search's seed, its own number and the results of earlier batches: for each one a new
sampler is made, with a copy of the study. A trial is added to the file in one step, with everything that its sampler
has stored. So a search that is killed at any time continues with the same points.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from ...core.errors import message_of
from ...run_dir.files import replacing
from ..errors import RunFolderError
from ..polyaxon.metrics import while_training
from . import metrics
from .early_stopping import Rules
from .optuna_parts import distributions, make_part
from .report import Front
from .runs import COUNT, FAILED, KILLED
from .search import Search
from .space import Space
from .strategies import Next

if TYPE_CHECKING:
    import optuna
    from optuna.trial import FrozenTrial, TrialState

FILE: Final = "study.db"
_NOTES: Final = "axonrl:study"
"""The attribute of a trial with what samplers have stored in the study up to this trial."""


class Study:
    """Optuna's study of a search; points and their trials in the study have the same numbers.

    Args:
        space: the matrix.
        search: the search, begun or resumed; its folder gets the file.
    """

    def __init__(self, space: Space, search: Search) -> None:
        import optuna

        optuna.logging.set_verbosity(optuna.logging.WARNING)
        self._space, self._search = space, search
        self._params = distributions(space)
        self._directions = [one.optimization for one in space.objectives]
        self._pruner = None if space.optuna is None else space.optuna.pruner
        self._watched = "" if self._pruner is None else while_training(space.objectives[0].name)
        self._judged: dict[int, _Judged] = {}
        self._path = search.folder.absolute() / FILE
        if not self._path.exists() and not search.points:
            self._write([])
        self._open()
        trials = self.trials()
        kept = [self._correct(trial) for trial in trials]
        directions = [one.name.lower() for one in self._storage.get_study_directions(self._id)]
        if kept != trials or directions != self._directions:
            self._storage.engine.dispose()  # Optuna cannot change an ended trial: the file is written again
            self._write(kept)
            self._open()

    def following(self) -> Next | None:
        """Choose the next batch after those that have run; None at the end."""
        self.record()
        first, config = len(self._search.points), self._space.config
        last = min(first + (1 if self._space.optuna is None else self._space.optuna.batchSize), config.num_runs)
        for number in range(len(self.trials()), last):  # after a kill, some may exist already
            self._storage.create_new_trial(self._id, self._ask_trial(number))
        points = self._space.convert([trial.params for trial in self.trials()[first:last]])
        return Next(points, iteration=len(self._search.batches)) if points else None

    def record(self) -> None:
        """Record the results of points whose trials have all ended."""
        for trial in self.trials()[: len(self._search.points)]:
            if not trial.state.is_finished():
                state, values = self._result(trial.number)
                if state.is_finished():
                    at = self._storage.get_trial_id_from_study_id_trial_number(self._id, trial.number)
                    self._storage.set_trial_state_values(at, state, values)

    def trials(self) -> list[FrozenTrial]:
        """All trials, by number."""
        found: list[FrozenTrial] = self._storage.get_all_trials(self._id)
        return found

    def front(self) -> Front | None:
        """The Pareto front; None if there is a single objective."""
        if len(self._directions) == 1:
            return None
        study, _ = _copy(self._search.name, self._directions, self.trials(), None)
        found = {trial.number: trial.values for trial in study.trials if trial.values is not None}
        best = [trial.number for trial in study.best_trials]
        return Front([one.name for one in self._space.objectives], self._directions, found, sorted(best))

    def rules(self) -> Rules:
        """The matrix's early stopping rules and the pruner."""
        return _Pruning(self._space.config, self, self._watched)

    def judge(self, number: int, series: Sequence[float]) -> str:
        """Why to stop a trial, given its values so far; empty if there is no reason."""
        if number not in self._judged:
            self._judged[number] = _Judged(*self._before(number), number)
        judged = self._judged[number]
        if judged.count < len(series) and not judged.is_pruned:
            at = self._storage.get_trial_id_from_study_id_trial_number(self._id, number)
            is_open = not self._storage.get_trial(at).state.is_finished()
            for value in series[judged.count :]:
                if not judged.is_pruned:
                    judged.add(value, make_part("pruner", self._space))
                    if is_open:
                        self._storage.set_trial_intermediate_value(at, judged.count, value)
            for key, noted in judged.notes().items() if is_open else ():
                self._storage.set_trial_system_attr(at, key, noted)
        if self._pruner is None or not judged.is_pruned:
            return ""
        return f"{self._watched} was {series[judged.count - 1]:g}: pruned by {self._pruner.kind}"

    # -- results ------------------------------------------------------------------------------------------------------

    def _result(self, number: int) -> tuple[TrialState, list[float] | None]:
        """The state of a point, and its values of the objectives."""
        from optuna.trial import TrialState

        search = self._search
        outcomes = [search.outcomes[trial] for trial in search.trials([number])]
        if any(one.status not in (*COUNT, FAILED, KILLED) for one in outcomes):
            return TrialState.RUNNING, None
        if self._watched and all(one.status in COUNT for one in outcomes):
            # All values count, whether or not the trial ended by itself before it could be stopped.
            series = metrics.values(metrics.read(search.run_folder(number)), self._watched)
            if self.judge(number, series):
                value = series[self._judged[number].count - 1]
                return (TrialState.PRUNED, [value]) if math.isfinite(value) else (TrialState.FAIL, None)
        values = [self._value(number, index) for index in range(len(self._directions))]
        known = [value for value in values if value is not None]
        return (TrialState.COMPLETE, known) if len(known) == len(values) else (TrialState.FAIL, None)

    def _value(self, number: int, index: int) -> float | None:
        if index == 0:
            return self._search.metric(number)
        name, search = self._space.objectives[index].name, self._search
        outcomes = {trial: search.outcomes[trial] for trial in search.trials([number])}
        ended = {trial: one for trial, one in outcomes.items() if one.status in COUNT}
        found = [metrics.metric_of(name, one, search.run_folder(trial)) for trial, one in ended.items()]
        known = [value for value in found if value is not None and math.isfinite(value)]
        return math.fsum(known) / len(known) if known else None

    def _correct(self, trial: FrozenTrial) -> FrozenTrial:
        """A trial of an earlier start, as it is now: a failed trial runs again, and the metric may have changed."""
        if not trial.state.is_finished():
            return trial
        if trial.state.name == "PRUNED":  # judged by a metric that may have changed
            return _as_running(trial)
        outcomes = [self._search.outcomes[one] for one in self._search.trials([trial.number])]
        if any(one.status not in COUNT for one in outcomes):
            return _as_running(trial)
        values = [self._value(trial.number, index) for index in range(len(self._directions))]
        same = trial.values == values if None not in values else trial.values is None
        return trial if same else _as_running(trial)

    # -- copies -------------------------------------------------------------------------------------------------------

    def _open(self) -> None:
        import optuna
        from sqlalchemy.exc import SQLAlchemyError

        try:
            if not self._path.exists():
                raise FileNotFoundError("it is missing")
            self._storage: Any = optuna.storages.RDBStorage(f"sqlite:///{self._path}")
            (found,) = self._storage.get_all_studies()
            self._id: int = self._storage.get_study_id_from_name(found.study_name)
            if len(self.trials()) < len(self._search.points):
                raise ValueError(f"{len(self._search.points)} trials were expected, got {len(self.trials())}")
        except (*_UNUSABLE, SQLAlchemyError, optuna.exceptions.OptunaError) as error:
            what = (
                f"{self._path} cannot be used, so the search cannot be resumed: {message_of(error)}. Restore the file,"
                " or use --model-dir for a new search."
            )
            raise RunFolderError(self._search.folder, what) from None

    def _write(self, trials: Iterable[FrozenTrial]) -> None:
        """Write a file with these trials, replacing the existing one."""
        import optuna
        from optuna.study import StudyDirection

        with replacing(self._path) as temporary:
            temporary.unlink(missing_ok=True)  # left by a killed start
            storage: Any = optuna.storages.RDBStorage(f"sqlite:///{temporary}")
            directions = [StudyDirection[one.upper()] for one in self._directions]
            number = storage.create_new_study(directions, self._search.name)
            for trial in trials:
                storage.create_new_trial(number, trial)
            storage.engine.dispose()

    def _ask_trial(self, number: int) -> FrozenTrial:
        """The next trial, asked from a copy, so that the file gets it in one step."""
        before = self.trials()
        study, storage = _copy(self._search.name, self._directions, before, make_part("sampler", self._space, number))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # some samplers warn that they are experimental
            study.ask(self._params)
        asked: FrozenTrial = study.trials[-1]
        asked.system_attrs = {**asked.system_attrs, _NOTES: storage.get_study_system_attrs(0)}
        return asked

    def _before(self, number: int) -> tuple[optuna.Study, Any]:
        """A copy with the trials before this one, where those of its own batch appear as just begun."""
        batch = next(one.points for one in self._search.batches if number in one.points)
        trials = self.trials()[:number]
        trials = [trial if trial.number < min(batch) else _as_running(trial) for trial in trials]
        own = _as_running(self.trials()[number])
        own.system_attrs = {}
        return _copy(self._search.name, self._directions, [*trials, own], None)


_UNUSABLE: Final = (OSError, ValueError, RuntimeError, AssertionError)
"""Errors when reading a missing or damaged study; some of Optuna's checks are assertions."""


class _Judged:
    """A trial, judged value by value against earlier trials."""

    def __init__(self, study: optuna.Study, storage: Any, number: int) -> None:
        self._study, self._storage, self._number = study, storage, number
        self.count, self.is_pruned = 0, False

    def add(self, value: float, pruner: optuna.pruners.BasePruner) -> None:
        """Judge the next value."""
        self.count += 1
        self._storage.set_trial_intermediate_value(self._number, self.count, value)
        self.is_pruned = pruner.prune(self._study, self._storage.get_trial(self._number))

    def notes(self) -> Mapping[str, Any]:
        """The pruner's notes on the trial."""
        noted: Mapping[str, Any] = self._study.trials[self._number].system_attrs
        return noted


class _Pruning(Rules):
    """Early stopping rules combined with a pruner."""

    def __init__(self, config: Any, study: Study, watched: str) -> None:
        super().__init__(config)
        self._study, self._watched = study, watched

    @property
    def metrics(self) -> set[str]:
        """The metrics that are watched."""
        return super().metrics | ({self._watched} if self._watched else set())

    def stopped(self, metric: str, series: Mapping[int, Sequence[float]], running: Iterable[int]) -> dict[int, str]:
        """The running trials that should stop, each with the reason."""
        trials = list(running)
        found = super().stopped(metric, series, trials)
        if metric == self._watched:
            reasons = {trial: self._study.judge(trial, series.get(trial, ())) for trial in trials}
            found = {**{trial: why for trial, why in reasons.items() if why}, **found}
        return found


def _as_running(trial: FrozenTrial) -> FrozenTrial:
    """A trial that has just begun."""
    import optuna

    begun = optuna.trial.create_trial(
        state=optuna.trial.TrialState.RUNNING, params=trial.params, distributions=trial.distributions
    )
    begun.number, begun.datetime_start = trial.number, trial.datetime_start
    begun.system_attrs = {key: value for key, value in trial.system_attrs.items() if "completed_rung" not in key}
    return begun


def _copy(
    name: str, directions: Sequence[str], trials: Sequence[FrozenTrial], sampler: optuna.samplers.BaseSampler | None
) -> tuple[optuna.Study, Any]:
    """A study in memory, with these trials and what samplers have stored up to the last one, and its storage.

    In the storage the study has number 0, and trials are numbered as in the study.
    """
    import optuna

    storage: Any = optuna.storages.InMemoryStorage()
    study = optuna.create_study(study_name=name, directions=directions, storage=storage, sampler=sampler)
    for trial in trials:
        storage.create_new_trial(0, trial)
    for key, value in (trials[-1].system_attrs.get(_NOTES, {}) if trials else {}).items():
        storage.set_study_system_attr(0, key, value)
    return study, storage
