"""Environments of Gymnasium, with the Atari options of RLgraph's adapter. Gymnasium is loaded when one is made."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from ....core.checks import shortened
from ..spaces import IntBox, space_of
from ..utils.rlgraph_errors import RLGraphWarning, flag, integer, refuse
from .environment import Environment, read_seed
from .gymnasium_environments import open_environment, values_of

if TYPE_CHECKING:
    import gymnasium

AnyEnv: TypeAlias = "gymnasium.Env[Any, Any]"
_Told: TypeAlias = tuple[Any, float, bool, bool, dict[str, Any]]


class OpenAIGymEnv(Environment):
    """An environment of Gymnasium.

    Args:
        gym_env: an id, such as ``"CartPole-v1"``, or a ``gymnasium.Env``. An id without a version is the newest one; a
            version that Gymnasium has removed is replaced by the newest one, with a warning.
        frameskip: how often each action is repeated; rewards are summed. A pair ``(low, high)`` draws from
            low .. high - 1 at each step. Games of the Arcade Learning Environment that skip frames themselves are set
            to this number; with ``NoFrameskip`` a state is the maximum of the last two frames.
        max_num_noops: each episode begins with 1 .. this many times ``noop_action``.
        noop_action: the action that does nothing.
        episodic_life: losing a life is terminal; ``reset`` continues the game.
        fire_reset: each episode begins with the actions 1, which must be FIRE, and 2.
        monitor, monitor_safe, monitor_video: no effect, with a warning.
        visualize: show the environment in a window.
        force_float32: float states are always float32; False warns.
        seed: passed to :meth:`seed`.
        **kwargs: arguments of ``gymnasium.make``, for ids.

    Attributes:
        gym_env: the ``gymnasium.Env``.

    Raises:
        RLGraphError: an argument is invalid, the id is unknown, or a space is not supported.
    """

    def __init__(
        self,
        gym_env: str | AnyEnv,
        frameskip: int | tuple[int, int] | None = None,
        max_num_noops: int = 0,
        noop_action: Any = 0,
        episodic_life: bool = False,
        fire_reset: bool = False,
        monitor: Any = None,
        monitor_safe: bool = False,
        monitor_video: int = 0,
        visualize: bool = False,
        force_float32: bool = True,
        seed: int | None = None,
        **kwargs: Any,
    ) -> None:
        skip = _read_frameskip(frameskip)
        chosen = None if seed is None else read_seed("OpenAIGymEnv", seed)
        self.max_num_noops = integer("OpenAIGymEnv: max_num_noops", max_num_noops, at_least=0)
        self.episodic_life = flag("OpenAIGymEnv: episodic_life", episodic_life)
        self.fire_after_reset = flag("OpenAIGymEnv: fire_reset", fire_reset)
        _warn_of_monitor(monitor=monitor, monitor_safe=monitor_safe, monitor_video=monitor_video)
        show = flag("OpenAIGymEnv: visualize", visualize)
        if not flag("OpenAIGymEnv: force_float32", force_float32):
            warnings.warn("OpenAIGymEnv: force_float32=False has no effect", RLGraphWarning, stacklevel=2)
        env, self._skips, self._takes_maximum = open_environment(gym_env, skip, show, kwargs)
        try:
            super().__init__(
                space_of("OpenAIGymEnv: state_space", env.observation_space),
                space_of("OpenAIGymEnv: action_space", env.action_space),
            )
            self.gym_env = env
            self._states = values_of(self.state_space, env.observation_space)
            self._actions = values_of(self.action_space, env.action_space)
            action: Any = self.action_space
            is_number = isinstance(action, IntBox) and action.shape == ()
            self._numbers = range(int(action.low), int(action.high)) if is_number else range(0)
            self._check_game(noop_action)
        except BaseException:
            if env is not gym_env:
                env.close()
            raise
        self.noop_action = noop_action
        self.frameskip = frameskip
        self.lives, self.true_terminal = 0, True
        self._seed: int | None = None
        self._is_open, self._has_begun = True, False
        if chosen is not None:
            self.seed(chosen)

    def seed(self, seed: int | None = None) -> int:
        """Seed the next reset, and the adapter's own random draws."""
        self._seed = super().seed(seed)
        self.true_terminal = True
        return self._seed

    def reset(self) -> Any:
        """Begin an episode; with ``episodic_life``, continue a game after the loss of a life with ``noop_action``."""
        self._refuse_if_closed("reset")
        self._has_begun = True
        state = self._begin()
        if self.fire_after_reset:
            for action in (1, 2):
                state, _, ended, _, _ = self._act(action)
                if ended:
                    state = self._begin()
        return self._states.read(state)

    def step(self, actions: Any) -> tuple[Any, np.float32, bool, dict[str, Any]]:
        """Act.

        Returns:
            The state, nested as ``state_space``; the reward (float32); terminal: has the episode ended or been cut by a
            time limit; and Gymnasium's info, in which ``"truncated"`` is True if it was only cut.

        Raises:
            RLGraphError: the action is not of ``action_space``, or the environment was terminated.
        """
        self._refuse_if_closed("step")
        if not self._has_begun:
            refuse("OpenAIGymEnv.step", "cannot be called before reset()")
        is_usual = type(actions) in (int, np.int32, np.int64) and int(actions) in self._numbers
        if not is_usual and not self.action_space.fits(actions, bounded=False):
            problem = f"must be of {self.action_space}, got {shortened(actions)}"
            refuse("OpenAIGymEnv.step: actions", problem, actions)
        state, reward, ended, truncated, info = self._act(self._actions.write(actions))
        return self._states.read(state), np.float32(reward), ended, {**info, "truncated": truncated}

    def render(self) -> None:
        """Render the environment, if it was made with ``visualize`` or has a ``render_mode``."""
        if self.gym_env.render_mode is None:
            warnings.warn(
                "OpenAIGymEnv.render has no effect without visualize=True or a render_mode",
                RLGraphWarning,
                stacklevel=2,
            )
        else:
            self.gym_env.render()

    def terminate(self) -> None:
        """Close the environment."""
        self._is_open = False
        self.gym_env.close()

    def __str__(self) -> str:
        spec = self.gym_env.spec
        return f"OpenAIGym({spec.id if spec is not None else type(self.gym_env.unwrapped).__name__})"

    def _check_game(self, noop_action: Any) -> None:
        """Check that the environment supports the arguments for games."""
        game = self.gym_env.unwrapped
        if (self.max_num_noops or self.episodic_life) and not self.action_space.contains(noop_action):
            problem = f"must be of {self.action_space}, got {shortened(noop_action)}"
            refuse("OpenAIGymEnv: noop_action", problem, noop_action)
        if self.episodic_life and not hasattr(getattr(game, "ale", None), "lives"):
            refuse("OpenAIGymEnv: episodic_life", f"needs a game of the Arcade Learning Environment, not {game}", True)
        meanings = list(getattr(game, "get_action_meanings", list)()) if self.fire_after_reset else None
        if meanings is not None and (len(meanings) < 3 or meanings[1] != "FIRE"):
            refuse("OpenAIGymEnv: fire_reset", f"needs a game whose action 1 is FIRE, not {game}", True)

    def _begin(self) -> Any:
        """Gymnasium's state at the beginning of an episode, or of a life."""
        if self.episodic_life and not self.true_terminal:
            state, _, ended, _, _ = self._step_with_skips(self.noop_action)
            if ended:  # the game is over
                state = self._new_game()
        else:
            state = self._new_game()
        self.true_terminal = False
        self.lives = self._remaining() if self.episodic_life else 0
        return state

    def _new_game(self) -> Any:
        state = self._seeded_reset()
        for _ in range(int(self._env_rng.integers(1, self.max_num_noops + 1)) if self.max_num_noops else 0):
            state, _, ended, cut, _ = self.gym_env.step(self._actions.write(self.noop_action))
            if ended or cut:
                state = self._seeded_reset()
        return state

    def _seeded_reset(self) -> Any:
        seed, self._seed = self._seed, None
        return self.gym_env.reset(seed=seed)[0]

    def _act(self, action: Any) -> _Told:
        """One step in Gymnasium's values: state, reward, has it ended or been cut, was it only cut."""
        state, reward, ended, truncated, info = self._step_with_skips(action)
        self.true_terminal = ended
        if self.episodic_life:
            lives = self._remaining()
            lost = 0 < lives < self.lives
            ended, truncated, self.lives = ended or lost, truncated and not lost, lives
        return state, reward, ended, truncated, info

    def _step_with_skips(self, action: Any) -> _Told:
        skips = self._skips
        if skips is None:
            state, reward, terminated, truncated, info = self.gym_env.step(action)
            return state, float(reward), bool(terminated or truncated), bool(truncated and not terminated), info
        count = int(self._env_rng.integers(*skips)) if isinstance(skips, tuple) else skips
        total = 0.0
        frames: list[Any] = []
        for _ in range(count):
            state, reward, terminated, truncated, info = self.gym_env.step(action)
            total += float(reward)
            frames = [*frames[-1:], state]
            if terminated or truncated:
                break
        shown = np.maximum.reduce(frames) if self._takes_maximum else state
        return shown, total, bool(terminated or truncated), bool(truncated and not terminated), info

    def _remaining(self) -> int:
        game: Any = self.gym_env.unwrapped
        return int(game.ale.lives())

    def _refuse_if_closed(self, method: str) -> None:
        if not self._is_open:
            refuse(f"OpenAIGymEnv.{method}", "cannot be called after terminate()")


def _read_frameskip(given: Any) -> int | tuple[int, int] | None:
    argument = "OpenAIGymEnv: frameskip"
    if isinstance(given, tuple | list):
        low, high = (integer(argument, one, at_least=1) for one in given) if len(given) == 2 else (0, 0)
        if not 0 < low < high:
            refuse(argument, f"must be a number or a pair (low, high) with low < high, got {given!r}", given)
        return low, high
    return None if given is None else integer(argument, given, at_least=1)


def _warn_of_monitor(**given: Any) -> None:
    ignored = [name for name, value in given.items() if value]
    if ignored:
        text = f"OpenAIGymEnv: {', '.join(ignored)} ignored: wrap the environment in Gymnasium's RecordVideo"
        warnings.warn(text, RLGraphWarning, stacklevel=3)
