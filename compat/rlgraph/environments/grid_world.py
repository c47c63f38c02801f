"""Grid worlds: small mazes whose results can be worked out by hand."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Final

import numpy as np

from ....core.checks import shortened
from ....core.protocols import Array
from ..spaces import IntBox
from ..utils.rlgraph_errors import choice, flag, integer, refuse
from .environment import Environment

_MAPS: Final[dict[str, list[str]]] = {
    "chain": ["G    S  F G"],
    "2x2": ["SH", " G"],
    "4x4": ["S   ", " H H", "   H", "H  G"],
    "8x8": [
        "S       ",
        "        ",
        "   H    ",
        "     H  ",
        "   H    ",
        " HH   H ",
        " H  H H ",
        "   H   G",
    ],
    "8x16": [
        "S      H        ",
        "   H       HH   ",
        "    FF   WWWWWWW",
        "  H      W      ",
        "    FF   W  H   ",
        "         W      ",
        "    FF   W      ",
        "  H          H G",
    ],
    "16x16": [
        "S      H        ",
        "           HH   ",
        "    FF   W     W",
        "         W      ",
        "WWW FF      H   ",
        "         W      ",
        " FFFF    W      ",
        "  H          H  ",
        "       H        ",
        "   H       HH   ",
        "WWWW     WWWWWWW",
        "  H      W    W ",
        "    FF   W  H W ",
        "WWWW    WW    W ",
        "    FF   W      ",
        "  H          H G",
    ],
}
START, GOAL, HOLE, FIRE, WALL, FREE = "S", "G", "H", "F", "W", " "
_LETTERS: Final = {START: "start", GOAL: "goal", HOLE: "hole", FIRE: "fire", WALL: "wall", FREE: "free"}
_MOVES: Final = ((0, -1), (1, 0), (0, 1), (-1, 0))
"""Moves up, right, down and left, as changes of x and y."""
_REWARDS: Final = {
    "sparse": {FREE: -1, START: -1, FIRE: -3, HOLE: -5, GOAL: 1},
    "rich": {FREE: -1, START: -1, FIRE: -10, HOLE: -10, GOAL: 50},
}
_REPRESENTATIONS: Final = {
    "discr": "discr",
    "discrete": "discr",
    "discr_pos": "discr",
    "xy": "xy",
    "xy_pos": "xy",
    "cam": "cam",
    "camera": "cam",
}
"""Names in versions of RLgraph, and ours."""


class GridWorld(Environment):
    """A grid on which a pawn moves up (0), right (1), down (2) or left (3).

    An episode ends at a goal or in a hole, where the pawn then stays. Walls and edges stop it. The reward is that of
    the field reached by the step:

    ========  ====  ====  ====  ====
    function  free  fire  hole  goal
    ========  ====  ====  ====  ====
    sparse    -1    -3    -5    +1
    rich      -1    -10   -10   +50
    ========  ====  ====  ====  ====

    Args:
        world: ``"chain"``, ``"2x2"``, ``"4x4"``, ``"8x8"``, ``"8x16"``, ``"16x16"``; or rows of equal lengths with the
            letters S (start, exactly one), G (goal), H (hole), F (fire), W (wall) and a space for a free field.
        save_mode: replace holes by fires.
        reward_function: ``"sparse"`` or ``"rich"``.
        state_representation: ``"discr"``: ``x * rows + y``, int32; ``"xy"``: int32 [2]; ``"cam"``: a picture, uint8
            [rows, cols, 3], with fires (127) and holes (255) in red, walls (127) and goals (255) in green and the pawn
            (255) in blue.
        seed: seed of random starts.

    Attributes:
        world: the fields' letters [rows, cols].
        discrete_pos: the pawn's position, ``x * rows + y``.
        x, y: its column and row.

    Raises:
        RLGraphError: an argument is invalid.
    """

    MAPS: ClassVar[dict[str, list[str]]] = _MAPS

    def __init__(
        self,
        world: str | Sequence[str] = "4x4",
        save_mode: bool = False,
        reward_function: str = "sparse",
        state_representation: str = "discr",
        seed: int | None = None,
    ) -> None:
        self.description = world if isinstance(world, str) else "custom-map"
        self.world = _read_world(world)
        if flag("GridWorld: save_mode", save_mode):
            self.world[self.world == HOLE] = FIRE
        self.reward_function = choice("GridWorld: reward_function", reward_function, _REWARDS)
        representation = choice("GridWorld: state_representation", state_representation, _REPRESENTATIONS)
        self.state_representation = _REPRESENTATIONS[representation]
        self.n_row, self.n_col = int(self.world.shape[0]), int(self.world.shape[1])
        spaces = {
            "discr": lambda: IntBox(self.n_row * self.n_col),
            "xy": lambda: IntBox((0, 0), (self.n_col, self.n_row), (2,)),
            "cam": lambda: IntBox(0, 256, (self.n_row, self.n_col, 3), "uint8"),
        }
        super().__init__(spaces[self.state_representation](), IntBox(4), seed)
        self._fields = "".join(self.world.T.reshape(-1).tolist())  # column by column, the order of positions
        self.default_start_pos = self._fields.index(START)
        self._scene = _scene(self.world)
        self._rewards = {field: np.float32(reward) for field, reward in _REWARDS[self.reward_function].items()}
        self.discrete_pos = self.default_start_pos
        self.reward, self.is_terminal = np.float32(0.0), False

    @property
    def x(self) -> int:
        """The pawn's column."""
        return self.discrete_pos // self.n_row

    @property
    def y(self) -> int:
        """The pawn's row."""
        return self.discrete_pos % self.n_row

    @property
    def state(self) -> Any:
        """The current state."""
        if self.state_representation == "discr":
            return np.int32(self.discrete_pos)
        if self.state_representation == "xy":
            return np.array([self.x, self.y], np.int32)
        picture = self._scene.copy()
        picture[self.y, self.x, 2] = 255
        return picture

    def reset(self, randomize: bool = False) -> Any:
        """Begin an episode.

        Args:
            randomize: start on any field that is free, a fire or the start, instead of on the start.
        """
        self.discrete_pos = self.default_start_pos
        if flag("GridWorld.reset: randomize", randomize):
            starts = [pos for pos, field in enumerate(self._fields) if field in (FREE, START, FIRE)]
            self.discrete_pos = starts[int(self._env_rng.integers(len(starts)))]
        self.reward, self.is_terminal = np.float32(0.0), False
        return self.state

    def step(self, actions: Any, set_discrete_pos: int | None = None) -> tuple[Any, np.float32, bool, dict[str, Any]]:
        """Act.

        Args:
            actions: 0 up, 1 right, 2 down, 3 left.
            set_discrete_pos: position to put the pawn before the move, ``x * rows + y``; not a wall.

        Returns:
            The state, the reward (float32), whether the episode has ended, and ``{}``.
        """
        action = self._read_action(actions)
        before = self.discrete_pos if set_discrete_pos is None else self._read_position(set_discrete_pos)
        self.discrete_pos = self._after(before, action)
        field = self._fields[self.discrete_pos]
        self.reward, self.is_terminal = self._rewards[field], field in (HOLE, GOAL)
        return self.state, self.reward, self.is_terminal, {}

    def render(self) -> None:
        """Print the map, with an X where the pawn is."""
        rows = [list(row) for row in self.world.tolist()]
        rows[self.y][self.x] = "X"
        print("\n".join("".join(row) for row in rows), end="\n\n")

    def get_discrete_pos(self, x: int, y: int) -> int:
        """The number of a field."""
        return x * self.n_row + y

    def get_x_y(self, discrete_pos: int) -> tuple[int, int]:
        """Column and row of a field."""
        return discrete_pos // self.n_row, discrete_pos % self.n_row

    def __str__(self) -> str:
        return f"GridWorld({self.description})"

    def _after(self, before: int, action: int) -> int:
        if self._fields[before] in (HOLE, GOAL):
            return before
        (x, y), (right, down) = self.get_x_y(before), _MOVES[action]
        x, y = x + right, y + down
        if not (0 <= x < self.n_col and 0 <= y < self.n_row):
            return before
        after = self.get_discrete_pos(x, y)
        return before if self._fields[after] == WALL else after

    def _read_action(self, given: Any) -> int:
        is_action = type(given) in (int, np.int32, np.int64) and 0 <= given < len(_MOVES)  # the usual ones, fast
        if not is_action and not self.action_space.contains(given):
            refuse("GridWorld.step: actions", f"must be 0, 1, 2 or 3, got {shortened(given)}", given)
        return int(given)

    def _read_position(self, given: Any) -> int:
        argument = "GridWorld.step: set_discrete_pos"
        position = integer(argument, given, at_least=0)
        if position >= len(self._fields) or self._fields[position] == WALL:
            refuse(argument, f"must be in 0 .. {len(self._fields) - 1} and no wall, got {given!r}", given)
        return position


def _read_world(given: Any) -> Array:
    argument = "GridWorld: world"
    rows = _MAPS[choice(argument, given, _MAPS)] if isinstance(given, str) else given
    if not isinstance(rows, list | tuple) or not rows or not all(isinstance(row, str) for row in rows):
        refuse(argument, f"must be one of {', '.join(_MAPS)}, or a list of rows; got {shortened(given)}", given)
    if len({len(row) for row in rows}) != 1 or not rows[0]:
        refuse(argument, f"must have rows of one length, got the lengths {[len(row) for row in rows]}", given)
    for letter in sorted(set("".join(rows))):
        if letter not in _LETTERS:
            known = ", ".join(f"{name!r} ({meaning})" for name, meaning in _LETTERS.items())
            refuse(argument, f"has the unknown letter {letter!r}; it takes {known}", given)
    if "".join(rows).count(START) != 1:
        refuse(argument, f"must have exactly one start, {START!r}; got {''.join(rows).count(START)}", given)
    return np.array([list(row) for row in rows])


def _scene(world: Array) -> Array:
    """The picture without the pawn, uint8 [rows, cols, 3]."""
    scene = np.zeros((*world.shape, 3), np.uint8)
    for channel, (dim, bright) in enumerate([(FIRE, HOLE), (WALL, GOAL)]):
        scene[..., channel][world == dim] = 127
        scene[..., channel][world == bright] = 255
    return scene
