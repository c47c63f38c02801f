"""HostedAgent: acts, persists steps before acknowledging, and learns from them. Without HTTP; for one thread."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np
from pydantic_core import to_json

from ...core.checks import all_finite
from ...core.errors import ArgumentError, NonFiniteError
from ...core.protocols import NO_LEGAL_ACTION, State
from ...environments import spaces
from ..catalogue.configurations import recipe as make_recipe
from ..catalogue.recipes import Recipe
from ..idempotency import digest, reused_key
from ..refusals import RefusedError, invalid
from .accepted_steps import AcceptedSteps
from .agent_store import Folder, transition_specs_of
from .durable import DurableAgent, StepperOf
from .pending_actions import PendingActions
from .records import END_EPISODE, NO_KEY, STEPS, Record
from .requests import RequestReader, Step, noise_of
from .snapshots import finite, from_fields, from_file, snapshot, to_fields, to_file
from .state_upload import Arrived

_MOST_SECONDS_OWED: Final = 2.0
"""Seconds of pending updates above which steps are refused until some are done."""
_WAITING_SECONDS_OWED: Final = 0.1
"""Seconds of pending updates above which the next step waits: a client that steps in a loop gets the agent's pace."""


@dataclasses.dataclass(frozen=True)
class Reply:
    """Answer to a request. ``replayed``: the request was accepted before, and this repeats its answer."""

    value: Any
    replayed: bool = False


class HostedAgent(DurableAgent):
    """One agent of a service: a :class:`~axonrl.serving.hosting.durable.DurableAgent` with requests.

    Requests must come in the order in which the agent is to see them. A request that changes something may be
    acknowledged after :meth:`sync`.

    The arguments are those of a DurableAgent.
    """

    def __init__(
        self,
        recipe: Recipe,
        stepper_of: StepperOf,
        folder: Folder,
        state: State | None,
        beat: Callable[[], None],
    ) -> None:
        super().__init__(recipe, stepper_of, folder, state, beat)
        self._bodies = RequestReader(*map(spaces.from_json, (recipe.observation, recipe.action)))
        self.updating = False
        """Whether an update runs in another thread."""
        self._begin_acting(stepper_of)

    def _begin_acting(self, stepper_of: StepperOf) -> None:
        """Give a relaxed agent a copy of its policy, which keeps the weights before an update while that runs."""
        self._actor = self._stepper
        if self.relaxed:
            self._actor = stepper_of(self.recipe, False)
            # A new stream after each start: nothing saves it, and other agents have the same program.
            self._actor.generators["exploration"].bit_generator.state = np.random.default_rng().bit_generator.state
        self._actor_step: int | None = None
        """The ``global_step`` of its weights; None if they are stale."""
        self._acting = PendingActions(self._actor, self._bodies.actions, self.recipe.noise)
        self.bring_up_to_date()

    def bring_up_to_date(self) -> None:
        """Act with the current weights from now on."""
        if self._actor is self._stepper:
            return
        now = self._stepper.counters
        self._actor.counters.global_timestep = now.global_timestep
        if self._actor_step != now.global_step and not self.updating:
            self._actor.set_weights(self._stepper.executor.get_predict_weights())
            self._actor_step = now.global_step

    # -- requests that change nothing ---------------------------------------------------------------------------------

    def act(self, body: bytes, noise: float = 0.0) -> Reply:
        """``{"action": [...]}`` or ``{"actions": [...]}``."""
        self.bring_up_to_date()
        noise = noise_of(noise)
        request = self._bodies.act(body)
        try:
            sent = self._acting.act(request.observations, request.environments, noise, request.explore)
        except NonFiniteError as error:
            raise _cannot_act(error) from None
        if not self._bodies.actions.discrete:
            if not all_finite(sent):
                raise _cannot_act("its action is not finite")
        elif (without := np.flatnonzero(sent == NO_LEGAL_ACTION)).size:
            where = "observation" if request.single else f"observations[{without[0]}]"
            raise invalid(where, "its mask allows no action")
        written = [self._bodies.actions.to_json(action) for action in sent]
        return Reply({"action": written[0]} if request.single else {"actions": written})

    def info(self) -> Reply:
        """Counters, status and mean return, which the service adds to an agent's row."""
        return Reply(
            {
                "status": "ready" if self.failure is None else "failed",
                "status_detail": self.failure,
                "learning": self._learns,
                **self.learning.progress(self._seq),
                "config": self.recipe.config,
                "bytes": self._folder.nbytes(),
                "executor": "litert",
            }
        )

    def loss(self) -> Reply:
        """Loss and metrics of the last update; null where not finite; ``{}`` before the first."""
        return Reply(finite(self.learning.last_update or {}))

    def episodes(self, after: int | None = None, limit: int = 100) -> Reply:
        """At most ``limit`` finished episodes: the newest, or the first ones with a number above ``after``."""
        kept = [episode for episode in self.learning.streams.episodes if after is None or episode.episode > after]
        chosen = kept[-limit:] if after is None else kept[:limit]
        return Reply([episode._asdict() for episode in chosen])

    # -- requests that change something -------------------------------------------------------------------------------

    def step(self, body: bytes, key: str | None, *, several: bool = False) -> Reply:
        """``{"accepted": n, "seq": ...}``; may be acknowledged after :meth:`sync`."""
        return self._apply_once(body, key, lambda: self._steps(body, several))

    def end_episode(self, body: bytes, key: str | None) -> Reply:
        """``{"accepted": 0, "seq": ...}``; may be acknowledged after :meth:`sync`."""
        return self._apply_once(body, key, lambda: (END_EPISODE, (self._bodies.end_episode(body),), ()))

    def _apply_once(self, body: bytes, key: str | None, read: Callable[[], tuple[int, tuple[str, ...], Any]]) -> Reply:
        key_digest = NO_KEY if key is None else digest(key.encode())
        body_digest = digest(body)
        known = None if key is None else self._keys.find(key_digest)
        if known is not None:
            if known.body != body_digest:
                raise reused_key()
            return Reply({"accepted": known.steps, "seq": known.seq}, replayed=True)
        self._refuse_steps()
        kind, environments, steps = read()
        record = Record(kind, self._number + 1, time.time(), environments, steps, key_digest, body_digest)
        self._append(record)
        self._accept(record)
        return Reply({"accepted": len(steps), "seq": self._seq})

    def _refuse_steps(self) -> None:
        if self.failure is not None:
            raise _failed("takes no steps", self.failure)
        if not self._learns:
            raise RefusedError("learning_off", 'learning is switched off: PATCH {"learning": true} switches it on')
        if self.learning.seconds_owed() > _MOST_SECONDS_OWED:
            raise RefusedError("agent_busy", "the agent has over 2 seconds of updates to run", retry_after=1)

    def _steps(self, body: bytes, several: bool) -> tuple[int, tuple[str, ...], tuple[Mapping[str, Any], ...]]:
        read = self._bodies.steps(body) if several else self._bodies.step(body)
        rows = tuple(
            self._recorded_transition(step, f"steps[{k}].action" if several else "step_data.action")
            for k, step in enumerate(read)
        )
        return STEPS, tuple(step.environment for step in read), rows

    def _recorded_transition(self, step: Step, where: str) -> Mapping[str, Any]:
        """The transition with what the act recorded, if its action was taken."""
        row = step.transition
        taken = self._acting.recorded_action(step.environment, row["observation"], row["action"])
        if taken is None:  # the policy's outputs are computed once earlier steps are applied
            try:
                self._acting.check(row["observation"], row["action"], where)
            except NonFiniteError as error:
                raise _cannot_act(error) from None
            return row
        action, recorded = taken
        return {**row, "action": action, **recorded}

    def get_state(self, *, as_file: bool = False, has_obs: bool = False) -> Reply:
        """The six fields of its state, or one safetensors file; ``has_obs``: with ``obs_size`` for ``state_size``.

        Raises:
            RefusedError: ``agent_failed``: an update has failed, and the weights are older.
        """
        self.finish()
        if self.learning.failure is not None:
            detail = f"the agent has failed, and its state is inconsistent: {self.failure}"
            raise RefusedError("agent_failed", f'{detail}. PATCH {{"status": "ready"}} continues from intact state')
        state = snapshot(self.recipe, self.learning, self._seq, self._specs)
        return Reply(to_file(state) if as_file else to_fields(state, has_obs=has_obs))

    def put_state(self, body: bytes, stepper_of: StepperOf, *, is_file: bool = False) -> Reply:
        """Replace this agent by the agent of a state: weights, memory, counters and hyperparameters.

        Args:
            body: JSON with the six fields, or a safetensors file.
            is_file: whether it is a file.
            stepper_of: as for :meth:`open`.
        """
        recipe, learning, seq = self.check_state(body, stepper_of, is_file=is_file)
        self.finish()
        self._use(recipe, learning)
        self._begin_acting(stepper_of)
        self._seq, self._damage = seq, None  # keys stay: a repeated step was accepted before
        with self._folder.another_history():
            self.save()
        self._set_rest_aside()
        self.save()  # neither of the two checkpoints that are kept is the previous agent's
        self._folder.describe(recipe, self._stepper)
        return Reply(self.info().value)

    def check_state(
        self, body: bytes, stepper_of: StepperOf, *, is_file: bool = False
    ) -> tuple[Recipe, AcceptedSteps, int]:
        """Check a state like :meth:`put_state`, without a change; returns its recipe, learning and accepted steps."""
        arrived = Arrived(from_file(body) if is_file else from_fields(body), self.recipe)
        try:
            recipe = make_recipe(self.recipe.model, arrived.hyperparameters)
        except ArgumentError as error:
            where = f"encoded_config.hyperparameters.{error.argument}"
            raise RefusedError("invalid_value", str(error), [(where, str(error))]) from None
        if (recipe.observation, recipe.action) != (self.recipe.observation, self.recipe.action):
            what = "are of other sizes or bounds than this agent's"
            raise RefusedError("state_mismatch", f"the hyperparameters {what}", [("encoded_config", what)])
        learning = AcceptedSteps(stepper_of(recipe, False), recipe.gathers)
        seq = arrived.load(learning, transition_specs_of(learning.stepper), self._bodies.integer_limits())
        return recipe, learning, seq

    def patch(self, learning: bool | None, *, recover: bool) -> Reply:
        """Switch learning on or off; let a failed agent continue.

        Returns:
            ``{"lost": n}``: records that are set aside, and never applied.

        Raises:
            RefusedError: ``agent_failed``: learning cannot be switched, as a failed agent is not saved.
        """
        self.finish()
        lost = 0
        if recover and self.failure is not None:
            lost = self._recover()
            self._actor_step = None
        if learning is not None and learning != self._learns:
            self._learns = learning
            self.save()
            if self.failure is not None:
                self._learns = not learning
                raise _failed("is not changed", self.failure)
        return Reply({"lost": lost})

    def _act_as_saved(self) -> None:
        super()._act_as_saved()
        self._actor_step = None

    def step_waits(self, *, held: bool) -> bool:
        """Whether the next step waits until updates are done; with too many of them it is refused at once.

        A relaxed agent's does not, as acts are queued behind it, unless it is ``held`` until the agent is saved.
        """
        owed = self.learning.seconds_owed()
        return owed <= _MOST_SECONDS_OWED and (held or (not self.relaxed and owed > _WAITING_SECONDS_OWED))

    @property
    def relaxed(self) -> bool:
        """Whether it may act, with the last finished weights, and accept steps before all accepted ones are applied."""
        return self.recipe.config.get("freshness") == "relaxed"


def _cannot_act(why: object) -> RefusedError:
    return RefusedError("agent_failed", f"the agent cannot act: {why}")


def _failed(what: str, why: str) -> RefusedError:
    advice = 'PATCH {"status": "ready"} continues from intact state'
    return RefusedError("agent_failed", f"the agent has failed, and {what}: {why}. {advice}")


def to_bytes(value: Any) -> bytes:
    """JSON without spaces; null for numbers that are not finite."""
    return to_json(value, inf_nan_mode="null")
