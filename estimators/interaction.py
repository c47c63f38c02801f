"""Interaction: training in a loop that the caller owns."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from ..core.checks import FLOAT32_MAX, shortened
from ..core.errors import ArgumentError, BrokenEnvironmentError, NonFiniteError
from ..core.protocols import Array, ArrayTree
from ..core.trees import copied, map_tree
from ..environments.actions import Actions, actions_for
from ..environments.batched import why_not_held
from ..environments.observations import MismatchError, Observations, non_finite_row, observations_for
from ..hooks.events import EpisodeStats, TimestepFacts
from .session import MonitoredSession
from .state import TrainingState


class Interaction:
    """Acts in a caller's environments and learns from their responses; see ``Agent.interact``.

    Example::

        with agent.interact(env.observation_space, env.action_space, first_update=100) as interaction:
            observation, _ = env.reset()
            while interaction.session.global_timestep < 10_000:
                action = interaction.act(observation)
                observation, reward, terminated, truncated, _ = env.step(action)
                interaction.observe(reward, terminated, truncated, observation)
                if terminated or truncated:
                    observation, _ = env.reset()

    Each lane is one stream of experience. ``act`` and ``observe`` alternate in a lane; lanes may advance at different
    rates. ``observe`` runs the updates that become due.

    A checkpoint cuts the running episodes: the next ``act`` of a lane begins an episode, and the response to a pending
    action is ignored. So a process that resumes from a checkpoint behaves identically if it gets the same calls.

    Args:
        session: counters, hooks, checkpoints.
        state: the training state; changed in place.
    """

    def __init__(self, session: MonitoredSession, state: TrainingState) -> None:
        self.session = session
        """Counters, ``stop_reason``, ``request_stop``, ``save_checkpoint``, as for hooks."""
        self._state = state
        self._stepper = state.stepper
        self._lanes = self._stepper.lanes
        self._observation_space, self._action_space = session.spaces
        self._in_flight: Array = np.zeros(self._lanes, np.bool_) if state.waiting is None else state.waiting
        state.waiting = self._in_flight  # checkpoints record it
        self._rows: list[dict[str, Any]] = [{} for _ in range(self._lanes)]  # of pending actions
        self._by_size: dict[int, tuple[Observations, Actions]] = {}
        self._acting = 0.0  # seconds of this timestep
        self._left = time.perf_counter()  # when the caller regained control

    def act(self, observation: Any, lane: int = 0, *, lanes: Sequence[int] | None = None) -> Any:
        """Choose the behaviour policy's action.

        Args:
            observation: an element of the observation space; with ``lanes``, K of them stacked as by a vector
                environment: [K, ...], nested like the space.
            lane: index of the lane, 0 .. N - 1.
            lanes: K different lanes, instead of ``lane``.

        Returns:
            An action for ``env.step``: an element of the action space, clipped if that is a Box; with ``lanes``, an
            array [K, ...].

        Raises:
            ArgumentError: a lane has a pending action, the observation is not in the space, or its mask has no legal
                action.
            NonFiniteError: the observation is NaN or infinite in float32.
            ValueError: the session is closed.
        """
        with self._stepper.lock:
            chosen = self._check_lanes(lane, lanes)
            for one in chosen:
                if self._in_flight[one] and self._state.episodes.running[one]:
                    message = f"lane {one} has a pending action: call observe(..., lane={one}) before the next act"
                    raise ArgumentError(message, "lane", one)
            batch = self._copy_observations(observation, len(chosen), lanes is not None, "act")
            return self.session.run_guarded(lambda: self._act(batch, chosen, lanes is not None))

    def _act(self, batch: ArrayTree, chosen: list[int], many: bool) -> Any:
        if self._stepper.pending_updates:
            self.session.loop.learn()  # updates left by an earlier session that reached a limit
        mask: Array = np.zeros(self._lanes, np.bool_)
        mask[chosen] = ~self._state.episodes.running[chosen]
        self.session.loop.begin(mask)
        began = time.perf_counter()
        actions, recorded = self._stepper.act(batch, np.array(chosen))
        codec = self._codecs(len(chosen))[1]
        try:
            taken = codec.batch(actions) if many else codec.single(actions)
        except BrokenEnvironmentError as error:  # names the caller's environment
            lane, timestep = chosen[error.environment or 0], self.session.global_timestep
            message = f"act was given an observation whose mask allows no action: lane {lane}, timestep {timestep}"
            raise ArgumentError(message, "observation", batch) from error
        values = {"observation": batch, "action": actions, **recorded}
        for k, one in enumerate(chosen):
            # Copies, as an exploration of the user's may return the same array in the next call.
            self._rows[one] = {key: copied(_rows(value, k)) for key, value in values.items()}
        self._in_flight[chosen] = True
        self._left = time.perf_counter()
        self._acting += self._left - began
        return taken

    def observe(
        self,
        reward: Any,
        terminated: Any,
        truncated: Any,
        next_observation: Any,
        lane: int = 0,
        *,
        lanes: Sequence[int] | None = None,
    ) -> None:
        """Record the result of a lane's last action, and run the updates that become due.

        Args:
            reward: a number; with ``lanes``, [K].
            terminated: did the episode reach a terminal state? With ``lanes``, bool [K].
            truncated: was it cut short by something else, a time limit? With ``lanes``, bool [K].
            next_observation: as for :meth:`act`; the episode's final one if it ended.
            lane: index of the lane.
            lanes: K different lanes, instead of ``lane``.

        Raises:
            ArgumentError: a lane has no pending action, or a value has the wrong shape or type.
            NonFiniteError: the reward or the observation is NaN or infinite in float32.
            ValueError: the session is closed.
        """
        stepped = time.perf_counter()
        with self._stepper.lock:
            chosen = self._check_lanes(lane, lanes)
            for one in chosen:
                if not self._in_flight[one]:
                    message = f"lane {one} has no pending action: call act(..., lane={one}) before observe"
                    raise ArgumentError(message, "lane", one)
            many, size = lanes is not None, len(chosen)
            rewards = self._rewards(reward, chosen, many)
            ends = _vector("terminated", terminated, size, many, "b"), _vector("truncated", truncated, size, many, "b")
            following = self._copy_observations(next_observation, size, many, "observe")
            running = self._state.episodes.running[chosen]
            keep = np.flatnonzero(running)  # the others were cut by a checkpoint
            self._in_flight[chosen] = False
            kept = [chosen[k] for k in keep]
            results = rewards[keep], ends[0][keep], ends[1][keep]
            self.session.run_guarded(
                lambda: self._observe(kept, results, _rows(following, keep), stepped) if kept else ()
            )

    def _observe(
        self, lanes: list[int], results: tuple[Array, Array, Array], following: ArrayTree, stepped: float
    ) -> Sequence[EpisodeStats]:
        state, loop = self._state, self.session.loop
        rewards, terminated, truncated = results
        taken = [self._rows[one] for one in lanes]
        rows = [
            {
                **taken[k],
                "reward": float(rewards[k]),
                "terminated": bool(terminated[k]),
                "truncated": bool(truncated[k]),
                "next_observation": _rows(following, k),
            }
            for k in range(len(lanes))
        ]
        acted: Array | None = None
        if len(lanes) < self._lanes:
            acted = np.zeros(self._lanes, np.bool_)
            acted[lanes] = True
        batch = _spread_rows(rows, lanes, self._lanes)
        if self._lanes == 1:
            self._stepper.store_one(rows[0])
        else:
            self._stepper.store(batch, acted)
        state.episodes.record(batch["action"], batch["reward"], acted)
        listeners = loop.listeners(self._left - self._acting, self._left, stepped)
        self._acting = 0.0
        if listeners:
            seen = {key: _rows(batch[key], np.array(lanes)) for key in ("observation", "action")}
            loop.tell(listeners, TimestepFacts(seen["observation"], seen["action"], *results, following))
        if self._stepper.pending_updates:
            loop.learn()
        ended = [k for k in range(len(lanes)) if terminated[k] or truncated[k]]
        finished = loop.finish([lanes[k] for k in ended], terminated[ended].tolist(), truncated[ended].tolist())
        self._left = time.perf_counter()
        return finished

    # -- what the caller passed ---------------------------------------------------------------------------------------

    def _check_lanes(self, lane: Any, lanes: Any) -> list[int]:
        if lanes is not None and not isinstance(lanes, Iterable):
            raise ArgumentError(f"lanes must be several, such as [0, 3], got {lanes!r}", "lanes", lanes)
        chosen = [lane] if lanes is None else list(lanes)
        for one in chosen:
            if isinstance(one, bool) or not isinstance(one, int | np.integer) or not 0 <= one < self._lanes:
                raise ArgumentError(f"lane must be an integer in 0 .. {self._lanes - 1}, got {one!r}", "lane", one)
        if not chosen or len(set(chosen)) < len(chosen):
            raise ArgumentError(f"lanes must be different and at least one, got {lanes!r}", "lanes", lanes)
        return [int(one) for one in chosen]

    def _codecs(self, size: int) -> tuple[Observations, Actions]:
        if size not in self._by_size:
            self._by_size[size] = observations_for(self._observation_space, size), actions_for(self._action_space, size)
        return self._by_size[size]

    def _rewards(self, reward: Any, chosen: list[int], many: bool) -> Array:
        rewards = _vector("reward", reward, len(chosen), many, "biuf").astype(np.float64)
        held = np.abs(rewards) <= FLOAT32_MAX  # False for NaN
        if not held.all():
            k = int(np.argmin(held))
            lane, number = chosen[k], rewards[k].item()
            where = f"lane {lane}, timestep {int(self._state.episodes.lengths[lane])} of its episode"
            what = f"the reward {number}{why_not_held(number)}"
            raise NonFiniteError(
                f"observe was given {what} ({where}; global_timestep {self.session.global_timestep})", lane
            )
        return rewards

    def _copy_observations(self, value: Any, size: int, many: bool, method: str) -> ArrayTree:
        """Copy the caller's observations, [K, ...]."""
        observations = self._codecs(size)[0]
        try:
            batch = observations.batch(value) if many else observations.single(value)
        except MismatchError as error:
            raise ArgumentError(f"{method} was given {error}", "observation", value) from error
        if not observations.all_finite(batch):
            row, values = non_finite_row(batch)
            where = f" in row {row}" if many else ""
            what = f"an observation that is NaN or infinite{where}, as float32: {shortened(values)}"
            raise NonFiniteError(f"{method} was given {what}")
        return batch


def _vector(name: str, value: Any, size: int, many: bool, kinds: str) -> Array:
    array = np.asarray(value)
    if array.shape != ((size,) if many else ()) or array.dtype.kind not in kinds:
        expected = f"{'bool' if kinds == 'b' else 'a number'}{f' [{size}]' if many else ''}"
        raise ArgumentError(f"{name} must be {expected}, got {shortened(value)}", name, value)
    return array.reshape(size)


def _rows(tree: Any, rows: int | Array) -> Any:
    return map_tree(lambda array: array[rows], tree)


def _spread_rows(rows: Sequence[Mapping[str, Any]], lanes: Sequence[int], number: int) -> dict[str, Any]:
    """Spread the rows [K] of some lanes over arrays [N, ...], with zeros for the others."""

    def spread(*values: Array) -> Array:
        stacked = np.stack(values)
        whole = np.zeros((number, *stacked.shape[1:]), stacked.dtype)
        whole[list(lanes)] = stacked
        return whole

    batch: dict[str, Any] = map_tree(spread, *rows)
    return batch
