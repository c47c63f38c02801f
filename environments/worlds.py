"""PettingZoo's parallel environments: agents of one kind are lanes of a vector environment, and share one policy.

https://pettingzoo.farama.org/api/parallel describes the interface. A *world* is one parallel environment. Its agents
begin together; an agent may end before the others, or appear later.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import numpy as np
from gymnasium import Space
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space, concatenate, create_empty_array, iterate

from ..core.checks import count, shortened
from ..core.errors import ArgumentError, BrokenEnvironmentError
from ..core.protocols import Array, ArrayTree, State
from ..core.trees import copied, equal
from .actions import nest
from .batched import Step
from .observations import MismatchError, copy_batch, from_mapping, keep_rows, observations_for
from .vectors import Vector

_PADDING: Final = {"observation": "pad_observations_v0", "action": "pad_action_space_v0"}
"""Kind of space to SuperSuit's wrapper that makes those of all agents equal."""


class World:
    """One parallel environment, its time limit, and the seed and actions that reproduce its running episode.

    Args:
        env: a ``pettingzoo.ParallelEnv``.
        limit: timesteps after which its agents are truncated; None for none.
    """

    def __init__(self, env: Any, limit: int | None) -> None:
        self.env = env
        self.agents = tuple(env.possible_agents)
        self.limit = limit
        self.spaces: tuple[Space[Any], Space[Any]] = _one_kind(env, self.agents)
        self.present: Array = np.zeros(len(self.agents), np.bool_)
        """Agents that act next, bool [A]; all False if the episode is over."""
        self.seed: int | None = None
        self.actions: list[Sequence[Any]] = []
        """An action of each agent for every timestep of the episode, whether the agent was present or not."""

    def reset(self, seed: int | None) -> Mapping[Any, Any]:
        """Start an episode; returns the observations by agent."""
        result = self.env.reset(seed=seed)
        if not isinstance(result, tuple) or len(result) != 2 or not isinstance(result[0], Mapping):
            raise ValueError(f"reset returned {shortened(result)}, expected (observations, infos), by agent")
        self.seed, self.actions = seed, []
        observations: Mapping[Any, Any] = result[0]
        self.present = self._living(observations)
        if not self.present.any():
            raise ValueError("reset left no agents in env.agents")
        return observations

    def step(self, actions: Sequence[Any]) -> tuple[Mapping[Any, Any], Array, Array, Array]:
        """Let the present agents act; returns observations by agent, and rewards and flags [A]."""
        acting = self.present
        names = [self.agents[i] for i in np.flatnonzero(acting)]
        # A copy: an environment may change its arrays, and these actions repeat the episode.
        result = self.env.step({self.agents[i]: copied(actions[i]) for i in np.flatnonzero(acting).tolist()})
        if not isinstance(result, tuple) or len(result) != 5:
            what = "(observations, rewards, terminations, truncations, infos), by agent"
            raise ValueError(f"step returned {shortened(result)}, expected {what}")
        observations, *columns = result[:4]
        for what, found in zip(("observations", "rewards", "terminations", "truncations"), result, strict=False):
            if missing := [name for name in names if name not in found]:
                raise ValueError(f"step returned no {what} of {missing[0]!r}, which acted")
        rewards = np.zeros(len(self.agents))
        flags = np.zeros((2, len(self.agents)), np.bool_)
        for i in np.flatnonzero(acting).tolist():
            rewards[i], flags[0, i], flags[1, i] = (column[self.agents[i]] for column in columns)
        self.actions.append(actions)
        self.present = self._living(observations)
        ended: Array = flags[0] | flags[1]
        wrong: Array = acting & (self.present == ended)
        if wrong.any():
            i = int(wrong.argmax())
            what = "ended, but is still" if ended[i] else "is neither terminated nor truncated, but no longer"
            raise ValueError(f"{self.agents[i]!r} {what} in env.agents")
        if self.limit is not None and len(self.actions) >= self.limit:
            flags[1] |= acting & ~flags[0]
            self.present = np.zeros_like(acting)
        return observations, rewards, flags[0], flags[1]

    def _living(self, observations: Mapping[Any, Any]) -> Array:
        living = set(self.env.agents)
        if unknown := living.difference(self.agents):
            raise ValueError(f"env.agents has {sorted(map(str, unknown))[0]!r}, which is not in env.possible_agents")
        if missing := living.difference(observations):
            raise ValueError(f"there is no observation of {sorted(map(str, missing))[0]!r}, which is in env.agents")
        return np.array([agent in living for agent in self.agents], np.bool_)


class WorldsVectorEnv(VectorEnv[Any, Any, Any]):
    """One or several worlds with A agents each: lane ``w * A + a`` is agent a of world w.

    A lane whose agent is absent keeps its last observation; its action is ignored, and ``infos["acted"]`` bool [N] is
    False. A reset by mask starts an episode in the worlds that are over, with the seed of the first lane in the mask;
    it does nothing in other worlds.

    Args:
        functions: make the worlds' parallel environments, each with the same agents.
        max_episode_steps: timesteps after which all agents of a world are truncated; None for the world's own limit.
        given: ``id`` and ``kwargs``, from which the environment can be made again; None if it cannot.

    Raises:
        ArgumentError: an environment is not a ParallelEnv, or its agents have different spaces.
    """

    def __init__(
        self,
        functions: Sequence[Callable[[], Any]],
        max_episode_steps: int | None = None,
        given: Mapping[str, Any] | None = None,
    ) -> None:
        limit = None if max_episode_steps is None else count("max_episode_steps", max_episode_steps)
        self.functions, self.given, self.limit = tuple(functions), given, limit
        self.worlds = [World(_check_parallel_env(function()), limit) for function in functions]
        self.current = 0
        """Index of the world that was reset or stepped last."""
        first = self.worlds[0]
        if any((world.agents, world.spaces) != (first.agents, first.spaces) for world in self.worlds):
            message = f"each call of parallel_env must make the same agents and spaces, got {first.agents} and others"
            raise ArgumentError(message, "parallel_env", functions[0])
        if any(world is not first and world.env is first.env for world in self.worlds):
            message = "parallel_env returns the same environment twice: each call must make a new one"
            raise ArgumentError(message, "parallel_env", functions[0])
        self.num_agents = len(first.agents)
        self.num_envs = self.num_agents * len(self.worlds)
        self.metadata = {**getattr(first.env, "metadata", {}), "autoreset_mode": AutoresetMode.DISABLED}
        self.render_mode = getattr(first.env, "render_mode", None)
        self.name = str(self.metadata.get("name") or type(first.env.unwrapped).__name__)
        self.single_observation_space, self.single_action_space = first.spaces
        self.observation_space = batch_space(self.single_observation_space, self.num_envs)
        self.action_space = batch_space(self.single_action_space, self.num_envs)
        self._observations = observations_for(self.single_observation_space, self.num_envs)
        self._batch = self._observations.empty()

    @property
    def present(self) -> Array:
        """Lanes whose agent acts next, bool [N]."""
        return np.concatenate([world.present for world in self.worlds])

    @property
    def waiting(self) -> Array:
        """Lanes without an agent in a running world, bool [N]."""
        return np.concatenate([~world.present & world.present.any() for world in self.worlds])

    def reset(self, *, seed: Any = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Start episodes.

        Args:
            seed: a seed for each lane, or the first of N consecutive ones.
            options: ``{"reset_mask": bool [N]}``, lanes to begin; without it all worlds are reset.
        """
        mask = (options or {}).get("reset_mask")
        seeds = [seed] * self.num_envs if seed is None else seed
        seeds = [seed + lane for lane in range(self.num_envs)] if isinstance(seed, int | np.integer) else seeds
        for number, world in enumerate(self.worlds):
            lanes = range(number * self.num_agents, (number + 1) * self.num_agents)
            asked = [lane for lane in lanes if mask is None or mask[lane]]
            self.current = number
            if asked and (mask is None or not world.present.any()):
                self._fill(number, world.reset(seeds[asked[0]]), begins=True)
        return self._copy_batch(), {}

    def step(self, actions: Any) -> tuple[Any, Array, Array, Array, dict[str, Any]]:
        """Let the agents act, in one world after the other; worlds that are over do nothing until they are reset."""
        acted, size = self.present, self.num_agents
        each = list(iterate(self.action_space, actions))
        rewards = np.zeros(self.num_envs)
        flags = np.zeros((2, self.num_envs), np.bool_)
        for number, world in enumerate(self.worlds):
            self.current = number
            if world.present.any():
                lanes = slice(number * size, (number + 1) * size)
                observations, rewards[lanes], flags[0, lanes], flags[1, lanes] = world.step(each[lanes])
                self._fill(number, observations)
        return self._copy_batch(), rewards, flags[0], flags[1], {"acted": acted}

    def render(self) -> Any:
        """Render the first world."""
        return self.worlds[0].env.render()

    def close_extras(self, **kwargs: Any) -> None:
        """Close the worlds."""
        for world in self.worlds:
            world.env.close()

    def state_dict(self) -> State:
        """Seed and actions of each world's running episode."""
        return {
            str(number): {
                "seed": world.seed,
                "timesteps": len(world.actions),
                "actions": self._batch_actions([action for taken in world.actions for action in taken]),
            }
            for number, world in enumerate(self.worlds)
            if world.present.any()
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore what :meth:`state_dict` returned, by :meth:`repeat`."""
        self.repeat(state)

    def repeat(self, state: Mapping[str, Any]) -> Any:
        """Repeat the running episodes of a state; returns the resulting observations."""
        for number, world in enumerate(self.worlds):
            self.current = number
            world.present = np.zeros(self.num_agents, np.bool_)
            if str(number) not in state:
                continue
            saved = state[str(number)]
            length = int(saved["timesteps"])
            space = batch_space(self.single_action_space, max(length * self.num_agents, 1))
            actions = list(iterate(space, saved["actions"])) if length else []
            self._fill(number, world.reset(saved["seed"]), begins=True)
            for begin in range(0, len(actions), self.num_agents):
                self._fill(number, world.step(actions[begin : begin + self.num_agents])[0])
        return self._copy_batch()

    def _batch_actions(self, actions: list[Any]) -> Any:
        space = self.single_action_space
        made: Any = create_empty_array(space, len(actions))
        return concatenate(space, actions, made) if actions else np.zeros(0)

    def _fill(self, number: int, observations: Mapping[Any, Any], *, begins: bool = False) -> None:
        """Put a world's observations into their rows; agents absent at the beginning get another agent's."""
        world = self.worlds[number]
        some = observations[world.agents[int(world.present.argmax())]] if begins else None
        for place, agent in enumerate(world.agents):
            if agent in observations or begins:
                try:
                    self._observations.put(self._batch, number * self.num_agents + place, observations.get(agent, some))
                except MismatchError as error:
                    raise ValueError(f"{agent!r}: {error}") from error

    def _copy_batch(self) -> Any:
        batch: Any = copy_batch(self._batch)
        return batch if isinstance(batch, np.ndarray) else nest(self.single_observation_space, batch)


class Worlds(Vector):
    """Worlds behind the batched interface: lanes whose agent is absent do not act."""

    skips_rows = True
    waits = True

    def __init__(self, env: WorldsVectorEnv, **details: Any) -> None:
        super().__init__(env, **details)
        self._worlds = env

    @property
    def waiting(self) -> Array | None:
        """Lanes without an agent in a running world."""
        waiting = self._worlds.waiting
        return waiting if self._last is not None and waiting.any() else None

    def _reset(self, chosen: Array, seeds: Sequence[int], *, everything: bool) -> ArrayTree:
        options = None if everything else {"reset_mask": chosen.copy()}
        return self._call_reset([int(seed) for seed in seeds], options)

    def step(self, actions: ArrayTree) -> Step:
        """One call for all."""
        absent = ~self._worlds.present
        if not absent.any():
            return self._call_step(actions)[0]
        return self._call_step(actions, absent)[0]._replace(acted=~absent)

    def _failure_of(self, method: str, error: Exception, environment: int | None = None) -> BrokenEnvironmentError:
        """The error of a world, which names its first lane."""
        return super()._failure_of(method, error, self._worlds.current * self._worlds.num_agents)

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Repeat the worlds' running episodes; ``BrokenEnvironmentError`` if they differ."""
        saved = from_mapping(state)
        try:
            reached = self._batch("step", self._worlds.repeat(state["environment"]))
        except Exception as error:
            raise self._failure_of("step", error) from error
        keep_rows(reached, saved, ~self._worlds.present & ~self._worlds.waiting)  # of worlds that are over
        if not equal(reached, saved):
            raise BrokenEnvironmentError(f"{self.name} does not repeat an episode from its seed and actions")
        self._last = saved


def has_agents(env: Any) -> bool:
    """Whether ``env`` has the interface of PettingZoo's environments."""
    return hasattr(env, "possible_agents") and hasattr(env, "step") and not isinstance(env, type)


def _check_parallel_env(env: Any) -> Any:
    if hasattr(env, "agent_iter"):
        message = (
            f"{env} is an AECEnv, whose agents act in turns: pass the module's parallel_env, or"
            " pettingzoo.utils.aec_to_parallel(env)"
        )
        raise ArgumentError(message, "parallel_env", env)
    if not has_agents(env):
        message = f"parallel_env must make a pettingzoo.ParallelEnv, with possible_agents and step, got {env!r}"
        raise ArgumentError(message, "parallel_env", env)
    if not env.possible_agents:
        raise ArgumentError(f"{env} has no possible_agents", "parallel_env", env)
    return env


def _one_kind(env: Any, agents: Sequence[Any]) -> tuple[Space[Any], Space[Any]]:
    """The spaces that all agents share."""
    found = []
    for kind, padding in _PADDING.items():
        each = [getattr(env, f"{kind}_space")(agent) for agent in agents]
        for agent, space in zip(agents, each, strict=True):
            if space != each[0]:
                message = (
                    f"{agents[0]!r} and {agent!r} of {env} have different {kind} spaces, {each[0]} and {space}, so they"
                    " cannot share a policy: make them equal by a wrapper around the ParallelEnv, such as SuperSuit's"
                    f" {padding}"
                )
                raise ArgumentError(message, f"{kind}_space", space)
        found.append(each[0])
    return found[0], found[1]
