"""HostedAgent: acts, keeps what it is told before it says so, and learns from it. Without HTTP; for one thread."""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import math
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, TypeAlias

from pydantic_core import to_json

from ...contracts import State
from ...environments import spaces
from ...errors import ArgumentError, CheckpointError, NonFiniteError
from ...estimators.stepping import Stepper
from ..catalogue.making import recipe as make_recipe
from ..catalogue.recipes import Recipe
from .acting import Acting
from .failures import RefusedError
from .fencing import OutdatedError
from .journal import DamagedJournalError
from .keeping import Folder, bring_back, service_part, transition_specs_of
from .keys import Keys, digest
from .learning import Learning
from .records import END_EPISODE, NO_KEY, STEPS, Codec, Record
from .requests import Bodies, Step, noise_of
from .snapshots import Arrived, from_fields, from_file, snapshot, to_fields, to_file
from .values import place

StepperOf: TypeAlias = Callable[[Recipe, bool], Stepper]

_MOST_SECONDS_OWED: Final = 2.0
"""Of updates: with more, steps are refused until some of them are done."""


@dataclasses.dataclass(frozen=True)
class Answer:
    """What a request is answered. ``replayed``: it was accepted before, and this is that answer again."""

    value: Any
    replayed: bool = False


class HostedAgent:
    """One agent of a service.

    Requests come in the order in which the agent is to see them. A request that changes something is appended to the
    journal, and may be acknowledged after :meth:`sync`. What was accepted is applied by :meth:`work`, a piece at a
    time; whoever asks for something that depends on it calls :meth:`finish` before.

    Args:
        recipe: what it was created with.
        stepper: of one lane, with the recipe's program, memory and schedule; not used by anybody else.
        folder: locked by this process.
        state: the checkpoint that it goes on from, with what its journal has after it; None for a new agent, of which a
            first checkpoint is written.
    """

    def __init__(self, recipe: Recipe, stepper: Stepper, folder: Folder, state: State | None = None) -> None:
        self._folder = folder
        observation, action = map(spaces.from_json, (recipe.observation, recipe.action))
        self._bodies = Bodies(observation, action)
        self._use(recipe, Learning(stepper, recipe.gathers))
        self._specs = transition_specs_of(stepper)
        self._codec = Codec(self._specs)
        self._keys = Keys()
        self._seq = 0
        self._number = 0
        self._saved = 0
        """The number of the last record in the newest checkpoint."""
        self._saved_seq = 0
        self._saved_at = time.monotonic()
        self._learns = True
        self._damage: str | None = None
        self._damaged: tuple[int, int] | None = None
        """The number of the first record that cannot be applied, and how many there are."""
        self._unsynced = False
        if state is None:
            folder.describe(recipe, stepper)
            self.save()
        else:
            self._restore(state)
            self._begin()

    def _use(self, recipe: Recipe, learning: Learning) -> None:
        self.recipe = recipe
        self._learning = learning
        self._stepper = learning.stepper
        self._acting = Acting(learning.stepper, self._bodies.actions, recipe.noise)

    # -- beginning ----------------------------------------------------------------------------------------------------

    @classmethod
    def open(cls, path: Path, stepper_of: StepperOf, recipe: Recipe | None = None, epoch: int = 0) -> HostedAgent:
        """The agent of a folder, as it was: its newest checkpoint, and its journal from there on.

        Args:
            path: the folder; locked from now on, until :meth:`close`.
            stepper_of: makes the stepper of a recipe; are its initial weights to be those of the seed?
            recipe: of an agent that is created now; None for one that exists.
            epoch: how often it was taken over.

        Raises:
            RefusedError: ``unavailable``: another process has the folder.
            CheckpointError: no checkpoint of it is whole.
            ValueError: there is no compiled program.
        """
        folder = Folder(path, epoch)
        folder.lock()
        try:
            state = folder.open()
            if state is not None:
                recipe = Recipe.from_json(service_part(state)["recipe"])
            elif recipe is None:
                raise CheckpointError(f"{path} holds no agent")
            return cls(recipe, stepper_of(recipe, state is None), folder, state)
        except BaseException:
            folder.close()
            raise

    def _restore(self, state: State) -> None:
        """Bring back a checkpoint, and what the journal has from there on."""
        part = service_part(state)
        bring_back(state, self._learning)
        self._number = self._saved = int(part["number"])
        self._seq = self._saved_seq = int(part["seq"])
        self._learns = bool(part["learns"])
        self._keys.load_state_dict(part["accepted"])
        try:
            for number, content in self._folder.journal.read(self._number + 1):
                self._accept(self._decoded(number, content))
                self._learning.finish()
                if self._learning.failure is not None:
                    break
        except DamagedJournalError as error:
            self._damage, self._damaged = str(error), (self._number + 1, error.lost)

    def _begin(self) -> None:
        """Where others can see the folder: what somebody else still writes does not count from here on."""
        if self.epoch and self.failure is None:
            self._folder.journal.begin(self._number + 1)

    def _decoded(self, number: int, content: bytes) -> Record:
        try:
            record = self._codec.decode(content)
        except ValueError as error:
            raise DamagedJournalError(self._folder.journal.folder, 0, 1) from error
        if record.number != number:
            raise DamagedJournalError(self._folder.journal.folder, 0, 1)
        return record

    # -- requests that change nothing ---------------------------------------------------------------------------------

    def act(self, body: bytes, noise: float = 0.0) -> Answer:
        """``{"action": [...]}`` or ``{"actions": [...]}``."""
        noise = noise_of(noise)
        request = self._bodies.act(body)
        try:
            sent = self._acting.act(request.observations, request.environments, noise, request.explore)
        except NonFiniteError as error:
            raise RefusedError("agent_failed", f"the agent cannot act: {error}") from None
        written = [self._bodies.actions.to_json(action) for action in sent]
        return Answer({"action": written[0]} if request.single else {"actions": written})

    def info(self) -> Answer:
        """What the service adds to an agent's row: counters, status, mean return."""
        counters, streams = self._stepper.counters, self._learning.streams
        return Answer(
            {
                "status": "ready" if self.failure is None else "failed",
                "status_detail": self.failure,
                "learning": self._learns,
                "counters": {
                    "global_timestep": self._seq,
                    "global_step": counters.global_step,
                    "global_episode": streams.finished,
                },
                "episode_return_mean": streams.mean_return(),
                "config": self.recipe.config,
                "bytes": self._folder.nbytes(),
                "executor": "litert",
            }
        )

    def loss(self) -> Answer:
        """Loss and metrics of the last update; null where not finite; ``{}`` before the first."""
        facts = self._learning.facts
        if facts is None:
            return Answer({})
        values = {"loss": facts.loss, **facts.metrics}
        return Answer({name: value if math.isfinite(value) else None for name, value in values.items()})

    def episodes(self, after: int = 0, limit: int = 100) -> Answer:
        """Finished episodes with a number above ``after``, at most ``limit``: the newest if ``after`` is 0."""
        kept = [episode for episode in self._learning.streams.episodes if episode.episode > after]
        chosen = kept[:limit] if after else kept[-limit:]
        return Answer([episode.to_json() for episode in chosen])

    # -- requests that change something -------------------------------------------------------------------------------

    def step(self, body: bytes, key: str | None, *, several: bool = False) -> Answer:
        """``{"accepted": n, "seq": ...}``; to be acknowledged after :meth:`sync`."""
        return self._once(body, key, lambda: self._steps(body, several))

    def end_episode(self, body: bytes, key: str | None) -> Answer:
        """``{}``; likewise."""
        return self._once(body, key, lambda: (END_EPISODE, (self._bodies.end_episode(body),), ()))

    def _once(self, body: bytes, key: str | None, read: Callable[[], tuple[int, tuple[str, ...], Any]]) -> Answer:
        key_digest = NO_KEY if key is None else digest(key.encode())
        body_digest = digest(body)
        known = None if key is None else self._keys.find(key_digest)
        if known is not None:
            if known.body != body_digest:
                detail = "this Idempotency-Key was used for another request: use a new key for each request"
                raise RefusedError("idempotency_key_reused", detail, [("Idempotency-Key", detail)])
            return Answer(_accepted(known.steps, known.seq), replayed=True)
        self._refuse_steps()
        kind, environments, steps = read()
        record = Record(kind, self._number + 1, time.time(), environments, steps, key_digest, body_digest)
        self._append(record)
        self._accept(record)
        return Answer(_accepted(len(steps), self._seq))

    def _refuse_steps(self) -> None:
        if self.failure is not None:
            detail = f"the agent has failed, and takes no steps: {self.failure}"
            raise RefusedError("agent_failed", f'{detail}. PATCH {{"status": "ready"}} goes on from what is whole')
        if not self._learns:
            raise RefusedError("learning_off", 'learning is switched off: PATCH {"learning": true} switches it on')
        if self._learning.seconds_owed() > _MOST_SECONDS_OWED:
            raise RefusedError("agent_busy", "the agent has more updates to run than 2 seconds take", retry_after=1)

    def _steps(self, body: bytes, several: bool) -> tuple[int, tuple[str, ...], tuple[Mapping[str, Any], ...]]:
        read = self._bodies.steps(body) if several else self._bodies.step(body)
        return STEPS, tuple(step.environment for step in read), tuple(map(self._transition, read))

    def _transition(self, step: Step) -> Mapping[str, Any]:
        taken = self._acting.taken(step.environment, step.observation, step.action)
        if taken is None:
            self.finish()  # the weights of now are those after the steps before
            where = place((*step.where, "action"))
            taken = step.action, self._acting.anew(step.observation, step.action, where)
        action, recorded = taken
        return {
            "observation": step.observation,
            "action": action,
            "reward": step.reward,
            "terminated": step.terminated,
            "truncated": step.truncated,
            "next_observation": step.next_observation,
            **recorded,
        }

    def _append(self, record: Record) -> None:
        try:
            self._folder.journal.append(record.number, self._codec.encode(record))
        except OSError as error:
            code = "storage_full" if error.errno in (errno.ENOSPC, errno.EDQUOT) else "unavailable"
            raise RefusedError(code, f"the step cannot be kept: {error.strerror}", retry_after=1) from error
        self._unsynced = True

    def _accept(self, record: Record) -> None:
        self._number = record.number
        self._seq += len(record.steps)
        self._keys.add(record, self._seq)
        self._learning.accept(record)

    def get_state(self, *, as_file: bool = False) -> Answer:
        """The six fields of its state, or one safetensors file."""
        self.finish()
        state = snapshot(self.recipe, self._learning, self._seq, self._specs)
        return Answer(to_file(state) if as_file else to_fields(state))

    def put_state(self, body: bytes, stepper_of: StepperOf, *, is_file: bool = False) -> Answer:
        """Become the agent of a state: weights, memory, counters and hyperparameters.

        Args:
            body: JSON with the six fields, or a safetensors file.
            is_file: is it a file?
            stepper_of: as for :meth:`open`.
        """
        recipe, learning, seq = self.check_state(body, stepper_of, is_file=is_file)
        self.finish()
        self._damage = self._damaged = None
        self._use(recipe, learning)
        self._seq = seq
        self._keys = Keys()
        self.save()
        self.save()  # of the two checkpoints that are kept, none is of the agent before
        self._folder.describe(recipe, self._stepper)
        return Answer(self.info().value)

    def check_state(self, body: bytes, stepper_of: StepperOf, *, is_file: bool = False) -> tuple[Recipe, Learning, int]:
        """As for :meth:`put_state`, but that nothing changes: recipe, learning and accepted steps of the state."""
        arrived = Arrived(from_file(body) if is_file else from_fields(body), self.recipe)
        try:
            recipe = make_recipe(self.recipe.model, arrived.hyperparameters)
        except ArgumentError as error:
            where = f"encoded_config.hyperparameters.{error.argument}"
            raise RefusedError("invalid_value", str(error), [(where, str(error))]) from None
        if (recipe.observation, recipe.action) != (self.recipe.observation, self.recipe.action):
            what = "are of other sizes or bounds than this agent's"
            raise RefusedError("state_mismatch", f"the hyperparameters {what}", [("encoded_config", what)])
        learning = Learning(stepper_of(recipe, False), recipe.gathers)
        seq = arrived.load(learning, self._specs, self._bodies.integer_limits())
        return recipe, learning, seq

    def patch(self, learning: bool | None, *, recover: bool) -> Answer:
        """Switch learning on or off; let a failed agent go on.

        Returns:
            ``{"lost": n}``: records that are set aside, and not applied any more.
        """
        self.finish()
        lost = 0
        if recover and self.failure is not None:
            lost = self._recover()
        if learning is not None and learning != self._learns:
            self._learns = learning
            self.save()
        return Answer({"lost": lost})

    def _recover(self) -> int:
        """Go on from what is whole: before a damaged record, or from the checkpoint before updates failed."""
        if self._damaged is not None:
            first, lost = self._damaged
            self._folder.journal.set_aside(first)
            self._damage = self._damaged = None
            self.save()
            return lost
        lost = self._folder.journal.set_aside(self._saved + 1)
        self._learning.reset()
        self._keys = Keys()
        state = self._folder.open()
        if state is not None:
            self._restore(state)
        return lost

    @property
    def memory(self) -> Any:
        """What it learns from."""
        return self._stepper.memory

    # -- what was accepted --------------------------------------------------------------------------------------------

    @property
    def failure(self) -> str | None:
        """Why it takes no steps; None if it does."""
        return self._damage or self._learning.failure

    @property
    def relaxed(self) -> bool:
        """May it act with the last finished weights, before all that it accepted is applied?"""
        return self.recipe.config.get("freshness") == "relaxed"

    @property
    def has_work(self) -> bool:
        """Was anything accepted that is not applied yet?"""
        return self._learning.has_work

    @property
    def next_is_update(self) -> bool:
        """Would :meth:`work` run an update?"""
        return self._learning.next_is_update

    @property
    def next_is_long(self) -> bool:
        """Would :meth:`work` run an update that others should not wait for?"""
        return self._learning.next_is_long

    def work(self) -> None:
        """Apply a piece of it; also in another thread, while nobody else uses the agent."""
        self._learning.work()
        if self._learning.failure is not None:
            self._act_as_saved()

    def finish(self) -> None:
        """Apply all of it."""
        while self.has_work:
            self.work()

    def _act_as_saved(self) -> None:
        """Updates have failed: act with the weights of the newest checkpoint, which are finite."""
        state = None
        with contextlib.suppress(CheckpointError):  # then with those that there are, if they are finite
            state = self._folder.open()
        if state is not None:
            self._stepper.set_weights(state["weights"])

    @property
    def epoch(self) -> int:
        """How often it was taken over, when this process did; 0 where no other can."""
        return self._folder.fence.epoch

    @property
    def unsynced(self) -> bool:
        """Was anything accepted that may not be on the disk yet?"""
        return self._unsynced

    def sync(self) -> None:
        """Everything that was accepted is on the disk, and nobody has taken the agent over.

        Raises:
            OSError: that is not known, and then it must be opened again.
            OutdatedError: somebody has, and what was accepted must not be acknowledged.
        """
        self._folder.journal.sync()
        self._folder.fence.check()
        self._unsynced = False

    def due_for_saving(self, steps: int, seconds: float) -> bool:
        """Were so many steps accepted since the newest checkpoint, or any of them that long ago?"""
        if self._number == self._saved or self.failure is not None:
            return False
        return self._seq - self._saved_seq >= steps or time.monotonic() - self._saved_at >= seconds

    def save(self) -> None:
        """Write a checkpoint; nothing, if the agent has failed.

        Raises:
            CheckpointError: it cannot be written; nothing is lost.
            OutdatedError: another process has taken it over.
        """
        self.finish()
        if self.failure is not None:
            return
        extra = {
            "recipe": self.recipe.to_json(),
            "seq": self._seq,
            "learns": self._learns,
            "accepted": self._keys.state_dict(),
        }
        try:
            self._folder.save(self._learning, self._number, extra)
        except NonFiniteError as error:
            self._learning.failure = str(error)
            self._act_as_saved()
            return
        self._saved, self._saved_seq, self._saved_at = self._number, self._seq, time.monotonic()
        self._unsynced = False

    def close(self) -> None:
        """Save what is new, and leave the folder to others."""
        try:
            if self._number != self._saved:
                self.save()
        except (CheckpointError, OutdatedError):
            pass  # the journal has it; or another process has the agent
        finally:
            self._folder.close()

    def abandon(self, *, drop_unsynced: bool = False) -> None:
        """Leave the folder to others without saving: nobody knows what is on the disk.

        Args:
            drop_unsynced: remove what was appended since the last :meth:`sync` that worked; nobody was told of it.
        """
        if drop_unsynced:
            self._folder.journal.drop_unsynced()
        self._folder.close()


def to_bytes(value: Any) -> bytes:
    """JSON, without spaces; null where a number is not finite."""
    return to_json(value, inf_nan_mode="null")


def _accepted(count: int, seq: int) -> dict[str, int]:
    return {"accepted": count, "seq": seq}
