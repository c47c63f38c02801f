"""A hand-made parallel environment: agents that die, come late, or never."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from gymnasium.spaces import Box, Dict, Discrete

LIVES: Mapping[str, tuple[int, int]] = {"a": (0, 4), "b": (0, 2), "c": (1, 4), "never": (9, 9)}
"""Agent to its first timestep and the one after its last. In a whole world a, b and c act 4 + 2 + 3 = 9 times."""


class Herd:
    """Observes (timestep, place in the herd), pays 1, 10, 100, 1000 by the place; ends after ``length`` timesteps.

    Agents that end before it are terminated, others truncated.

    Args:
        lives: as ``LIVES``.
        length: of an episode.
        noise: added to the first observation, if above 0 drawn from the seed, else from nothing.
        space: of actions.
        masks: does an observation have a mask, all zero where an agent has ended?
    """

    metadata: Mapping[str, Any] = {"name": "herd", "render_modes": ["human"]}

    def __init__(
        self,
        lives: Mapping[str, tuple[int, int]] = LIVES,
        length: int = 4,
        noise: float = 0.0,
        space: Any = None,
        masks: bool = False,
        render_mode: str | None = None,
    ) -> None:
        self.lives, self.length, self.noise, self.masks = lives, length, noise, masks
        self.render_mode = render_mode
        self.possible_agents = list(lives)
        self.agents: list[str] = []
        self.space = Discrete(2) if space is None else space
        self.seeds: list[int | None] = []
        """Of every reset."""
        self.taken: list[dict[str, Any]] = []
        """Actions of every step."""
        self.closed = False

    @property
    def unwrapped(self) -> Any:
        return self

    def observation_space(self, agent: str) -> Any:
        box = Box(-100, 100, (2,), np.float32)
        return Dict({"observation": box, "action_mask": Box(0, 1, (2,), np.int8)}) if self.masks else box

    def action_space(self, agent: str) -> Any:
        return self.space

    def reset(self, seed: int | None = None, options: Any = None) -> tuple[dict[str, Any], dict[str, Any]]:
        self.seeds.append(seed)
        self.timestep = 0
        self.mark = self.noise * np.random.default_rng(seed if self.noise >= 0 else None).random()
        self.agents = self._living()
        return {agent: self._observation(agent) for agent in self.agents}, {}

    def step(self, actions: dict[str, Any]) -> tuple[dict[str, Any], ...]:
        assert list(actions) == self.agents
        self.taken.append(actions)
        self.timestep += 1
        acted = self.agents
        over = self.timestep == self.length
        rewards = {agent: 10.0 ** self.possible_agents.index(agent) for agent in acted}
        terminated = {agent: self.lives[agent][1] == self.timestep and not over for agent in acted}
        truncated = dict.fromkeys(acted, over)
        self.agents = [] if over else self._living()
        seen = dict.fromkeys([*acted, *self.agents])
        return {agent: self._observation(agent) for agent in seen}, rewards, terminated, truncated, {}

    def _living(self) -> list[str]:
        return [agent for agent, (first, end) in self.lives.items() if first <= self.timestep < end]

    def _observation(self, agent: str) -> Any:
        vector = np.array([self.timestep, self.possible_agents.index(agent) + self.mark], np.float32)
        if not self.masks:
            return vector
        legal = [0, 1] if self.timestep < self.lives[agent][1] else [0, 0]
        return {"observation": vector, "action_mask": np.array(legal, np.int8)}

    def render(self) -> None:
        return None

    def close(self) -> None:
        self.closed = True


def parallel_env(**arguments: Any) -> Herd:
    """Make a herd."""
    return Herd(**arguments)
