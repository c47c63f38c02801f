"""A run: its folder and record, checked against an Agent's arguments; notes why it does not resume exactly."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import logging
import os
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import gymnasium

from ..core import registry
from ..core.checks import is_json, refuse_non_finite
from ..core.errors import ArgumentError, CheckpointError
from ..core.protocols import ModelFn, RunConfig, State
from ..environments import spaces
from ..policies.compiled import read as read_compiled
from ..policies.reasons import Choice
from ..run_dir import initial_values, record
from ..run_dir.checkpoints import CheckpointStore
from ..run_dir.generators import draw_seed
from ..run_dir.provenance import differences, provenance
from ..run_dir.record import RunRecord
from ..runtimes.tracing.signature import check_signature, describe
from . import run_params
from .policy_store import PolicyStore
from .state import lanes_of

logger = logging.getLogger("axonrl")


class Run:
    """A run folder and its settings.

    Args:
        model_fn: see ``Agent``.
        model_dir: see ``Agent``.
        config: see ``Agent``.
        params: see ``Agent``.
        compiled: see ``Agent``.

    Raises:
        ValueError: an argument is invalid, or contradicts the record.
        CheckpointError: ``model_dir`` cannot be read.
    """

    def __init__(
        self,
        model_fn: ModelFn | str | None,
        model_dir: str | Path | None,
        config: RunConfig | None,
        params: Mapping[str, Any] | None,
        compiled: str | Path | None = None,
    ) -> None:
        if compiled is not None and model_fn is not None:
            message = f"give either model_fn or compiled, got {model_fn!r} and {compiled!r}"
            raise ArgumentError(message, "compiled", compiled)
        self.compiled = None if compiled is None else read_compiled(compiled)
        """The compiled program, if used instead of a function, which is None then."""
        self.model_dir = _folder(model_dir)
        self.config = RunConfig() if config is None else config
        """Includes the run's seed, and its spaces once known."""
        if not isinstance(self.config, RunConfig):
            raise ArgumentError(f"config must be an axonrl.RunConfig, got {config!r}", "config", config)
        given_params, params = params, run_params.as_mapping(params)
        self._given_seed = self.config.seed
        self.record = record.read(self.model_dir)
        self.model_fn = None if self.compiled is not None else self._find(model_fn)
        if self.compiled is not None:
            self.compiled = run_params.compiled_for(self.compiled, params, self.record)
            given = self.compiled.params
            self.params, self.model_name = None if given is None else dict(given), self.compiled.model_fn
        elif self.model_fn is not None:
            self.params = run_params.recorded_params(self.record, self.model_dir) if params is None else params
            check_signature(self.model_fn, self.params)
            run_params.refuse_other_class(given_params, self.model_fn)
            self.model_name = registry.name_of(self.model_fn)
        self.seed = self._new_seed()
        self.spaces_fixed = False
        """Is there a model for the spaces of ``config``?"""
        self.adopt(self.record)
        if self.compiled is not None:
            compiled_for = tuple(map(spaces.from_json, self.compiled.spaces))
            if self.record is not None and (self.record.observation_space, self.record.action_space) != compiled_for:
                message = f"{compiled} was compiled for other spaces than those of the run in {self.model_dir}"
                raise ArgumentError(message, "compiled", compiled)
            self.take_spaces(*compiled_for)
            self.spaces_fixed = True
        hours = self.config.keep_checkpoint_every_n_hours
        self.store = CheckpointStore(self.model_dir, self.config.keep_checkpoint_max, keep_every_hours=hours)
        self.policies = PolicyStore(self.store, self.load)
        self.is_checked = False
        self.current: int | None = None
        """Index of the checkpoint that the state in training equals or continues; None if the state is unusable."""

    def _find(self, model_fn: ModelFn | str | None) -> ModelFn:
        if model_fn is None:
            if self.record is None:
                message = f"no model_fn given, and {self.model_dir} holds no run that names one"
                raise ArgumentError(message, "model_fn", None)
            if self.record.model_fn is None:
                message = f"the model_fn of {self.model_dir} has no importable name: pass it again"
                raise ArgumentError(message, "model_fn", None)
            model_fn = self.record.model_fn
        if isinstance(model_fn, str):
            found: ModelFn = registry.find("model_fn", model_fn)
            return found
        return model_fn

    def _new_seed(self) -> int:
        """Seed of a new run: the given one, that of the compilation, or a random one."""
        if self._given_seed is not None:
            return int(self._given_seed)
        return draw_seed() if self.compiled is None else self.compiled.seed

    def describe_model(self) -> str:
        """Name of the model, for messages."""
        return describe(self.model_fn) if self.model_fn is not None else f"compiled={str(self.compiled_directory)!r}"

    @property
    def compiled_directory(self) -> Path | None:
        """Folder of the compiled program; None for a traced function."""
        return None if self.compiled is None else self.compiled.directory

    # -- comparing ----------------------------------------------------------------------------------------------------

    def refresh(self) -> None:
        """Read the record if there was none before: another Agent may have started the run."""
        if self.record is None:
            self.adopt(record.read(self.model_dir))

    def adopt(self, found: RunRecord | None) -> None:
        """Use the seed and the spaces of the recorded run, if any.

        Raises:
            ArgumentError: its seed, params or spaces differ.
        """
        self.record = found
        if found is not None:
            if self._given_seed not in (None, found.seed):
                message = f"{self.model_dir} was started with seed {found.seed}; got seed {self._given_seed}"
                raise ArgumentError(message, "RunConfig.seed", self._given_seed)
            run_params.refuse_other(self.params, found, self.model_dir, self.model_fn)
            self.seed = found.seed
            self.take_spaces(found.observation_space, found.action_space)
        self.config = dataclasses.replace(self.config, seed=self.seed)

    def take_spaces(self, observation: gymnasium.Space[Any], action: gymnasium.Space[Any]) -> None:
        """Use these spaces; ``ArgumentError`` if they differ from those of the record or the traced model."""
        known = self.config
        if self.record is not None or self.spaces_fixed:
            for name, had, given in (
                ("observation", known.observation_space, observation),
                ("action", known.action_space, action),
            ):
                if had is not None and had != given:
                    message = f"this run's {name} space is {had}, the environment's is {given}"
                    raise ArgumentError(message, f"{name}_space", given)
        spaces.observation_spec(observation)
        spaces.action_spec(action)
        self.config = dataclasses.replace(known, observation_space=observation, action_space=action)

    def refuse_other_count(self, num_envs: int) -> None:
        """Raise if the number of environments changed, unless a cluster has redistributed the run's memory."""
        if self.record is None or self.record.num_envs == num_envs:
            return
        loaded = self.load()
        if loaded is None or not loaded[1].get("cluster"):
            raise ArgumentError(
                f"{self.model_dir} was started with {self.record.num_envs} environments, got {num_envs}: its memory and"
                " its running episodes belong to that number (only a cluster can continue with another)",
                "env",
                num_envs,
            )

    # -- recording ----------------------------------------------------------------------------------------------------

    def start(
        self,
        num_envs: int,
        choice: Choice,
        *,
        environment: Mapping[str, Any] | None = None,
        memory: Mapping[str, Any] | None = None,
        warm_start: Mapping[str, Any] | None = None,
        schedule: Mapping[str, int] | None = None,
        initial: Mapping[str, Any] | None = None,
    ) -> None:
        """Write the record of a run that has no checkpoints yet; the arguments are fields of ``RunRecord``."""
        if self.record is not None:
            logger.warning("%s has a record of a run but no checkpoint: starting at zero", self.model_dir)
        observation, action = self.config.observation_space, self.config.action_space
        if observation is None or action is None:
            raise ValueError(f"{self.model_dir} cannot start a run: its spaces are not known")
        params, unrecorded = record.recordable(self.params)
        why: Mapping[str, Any] = {part: dataclasses.asdict(reason) for part, reason in choice.why.items()}
        if self.record is not None and self.record.runtime == choice.runtimes:
            why = self.record.runtime_why  # from the earlier, interrupted start
        self.record = RunRecord(
            seed=self.seed,
            model_fn=self.model_name,
            params=params,
            unrecorded=unrecorded if self.compiled is None else self.compiled.unrecorded,
            observation_space=observation,
            action_space=action,
            num_envs=num_envs,
            runtime=choice.runtimes,
            runtime_why=why,
            made_with=self._provenance(),
            environment=environment if is_json(environment) else None,
            memory=memory,
            warm_start=warm_start,
            schedule=None if self.is_checked else schedule,
            initial=initial,
        )
        self.record.write(self.model_dir)

    def take_environment(self, described: Mapping[str, Any] | None, code: Mapping[str, Any]) -> None:
        """Record the environment and the code that are now in use; log changes.

        Args:
            described: the environment; None if unknown.
            code: see :func:`~axonrl.run_dir.sources.source_digests`.
        """
        if self.record is None:
            return
        before, known = self.record.environment, self.record.code or {}
        if described is None or not is_json(described):
            described = before
        elif before is not None and json.dumps(before, sort_keys=True) != json.dumps(described, sort_keys=True):
            now = f"the environment is {described} from now on"
            logger.warning("%s; the run in %s had %s", now, self.model_dir, before)
        for name in code:
            if name in known and known[name]["digest"] != code[name]["digest"]:
                self.mark_not_exact(f"the code of its {name} was edited")
        self._record(environment=described, code={**known, **code})

    def record_schedule(self, schedule: Mapping[str, int]) -> None:
        """Record the update schedule that is now in use."""
        self._record(schedule=dict(schedule))

    def record_limits(self, limits: Mapping[str, int]) -> None:
        """Record the limits of the run, as this call knows them."""
        self._record(limits=dict(limits))

    @contextlib.contextmanager
    def only_checked(self) -> Iterator[None]:
        """Record nothing for an existing run, within the context; a new run begins without a schedule."""
        self.is_checked = True
        try:
            yield
        finally:
            self.is_checked = False

    def _record(self, **values: Any) -> None:
        """Update the record if these values differ."""
        if self.is_checked and self.current is not None:
            return
        if self.record is not None and any(getattr(self.record, name) != value for name, value in values.items()):
            self.record = dataclasses.replace(self.record, **values)
            self.record.write(self.model_dir)

    def settings(self, environment: str | None) -> dict[str, bool | float | str]:
        """Settings for tables of runs: see :class:`~axonrl.hooks.events.BeginFacts`."""
        if self.record is None:
            return {}
        memory, params = self.record.memory or {}, self.record.params or {}
        given = {
            "environment": environment,
            "model_fn": self.record.model_fn,
            "seed": self.seed,
            "num_envs": self.record.num_envs,
            **{f"memory.{name}": value for name, value in memory.items()},
            **{f"params.{name}": value for name, value in params.items()},
        }
        numbers_and_text = (bool, int, float, str)
        return {
            name: value if isinstance(value, numbers_and_text) else json.dumps(value)
            for name, value in given.items()
            if value is not None
        }

    def mark_not_exact(self, why: str) -> None:
        """Log, and record once, why this run does not resume exactly."""
        logger.warning("this run will not resume exactly: %s", why)
        if self.record is not None and why not in self.record.not_exact:
            self._record(not_exact=(*self.record.not_exact, why))

    def _provenance(self) -> dict[str, Any]:
        """Versions and machine of this run; without TensorFlow and Keras if the program is compiled."""
        made = {} if self.compiled is None else self.compiled.made_with
        return {**provenance(), **{name: made[name] for name in ("tensorflow", "keras") if name in made}}

    def compare_provenance(self) -> None:
        """Mark a resumed run as not exact if versions, threads or the machine changed."""
        if self.record is None:
            return
        now = self._provenance()
        changed = differences(self.record.made_with, now)
        if changed:
            self.record = dataclasses.replace(self.record, made_with=now)
            self.mark_not_exact(f"resumed with {', '.join(changed)}")

    def compare_initial(self, initial: Mapping[str, Any]) -> None:
        """Warn if the program's initial values changed since the run began, as after an edit."""
        recorded = None if self.record is None else self.record.initial
        differing = None if recorded is None else initial_values.differences(recorded, initial)
        if differing is not None:
            logger.warning(
                "the model's initial values changed since the run in %s began: %s. The run continues with those of"
                " its checkpoint. To use the new ones, choose another model_dir, with warm_start to keep weights",
                self.model_dir,
                differing,
            )

    # -- checkpoints --------------------------------------------------------------------------------------------------

    def save(self, content: State) -> None:
        """Write a checkpoint.

        Raises:
            NonFiniteError: a weight is NaN or infinite; nothing is written.
            CheckpointError: it cannot be written, or the folder was removed during use.
        """
        step = content["counters"]["global_step"]
        refuse_non_finite(content["weights"], f"at global_step {step}; no checkpoint is saved")
        if not (self.model_dir / record.FILE).exists():
            raise CheckpointError(f"{self.model_dir} was removed while in use: {record.FILE} is missing")
        self.store.save(content)
        self._record(num_envs=lanes_of(content))  # not earlier: a run killed before this point keeps its old number
        self.current = self.store.newest()

    def load(self) -> tuple[int, Mapping[str, Any]] | None:
        """Load the newest checkpoint: its index and content; None if there is none."""
        loaded = self.store.open()
        if loaded is not None and self.record is None:
            raise CheckpointError(f"{self.model_dir} holds checkpoints, but {record.FILE} is missing")
        return loaded


def _folder(model_dir: Any) -> Path:
    if model_dir is None:
        model_dir = tempfile.mkdtemp(prefix="axonrl-")
        logger.warning("no model_dir given: saving this run in %s", model_dir)
    if not isinstance(model_dir, str | os.PathLike) or not str(model_dir) or "\0" in str(model_dir):
        message = f"model_dir must be a path, or None for a temporary folder, got {model_dir!r}"
        raise ArgumentError(message, "model_dir", model_dir)
    return Path(model_dir).absolute()
