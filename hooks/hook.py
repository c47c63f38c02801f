"""The base class of hooks, and the dispatcher that calls them."""

from __future__ import annotations

import copy
import difflib
import functools
import inspect
import logging
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeAlias, TypeVar

from ..core.checks import shortened
from ..core.errors import ArgumentError
from ..core.protocols import State
from ..core.trees import copied
from .events import (
    HOOK_EVENTS,
    BeginFacts,
    EndFacts,
    EpisodeFacts,
    EpisodeStats,
    EvaluationFacts,
    Session,
    TimestepFacts,
    TrainingSession,
    UpdateFacts,
    VideoFacts,
)

_log = logging.getLogger(__name__)

Event: TypeAlias = "Callable[[Session, Any], Any]"
_FRESH = "_axonrl_fresh_state"
_PREPARE = "prepare"
"""The method that is not an event: called with the session only."""
LOOK_SECS = 0.01
"""Minimum seconds between two calls of a method marked :func:`by_the_clock`."""

_Method = TypeVar("_Method", bound=Callable[..., Any])


def by_the_clock(method: _Method) -> _Method:
    """Mark an ``after_timestep`` that depends only on time.

    It is called at the first timestep of a session, and then at the first one after every ``LOOK_SECS``, as a timestep
    can be faster than reading the clock and building the facts.
    """
    method.by_the_clock = True  # type: ignore[attr-defined]
    return method


class Hook:
    """Observes or controls a run; override any of the events.

    Any object with some of these methods is a hook; this class only declares the types. A hook with state (a best
    return, a window of returns) adds ``state_dict()`` and ``load_state_dict(state)``: the state is part of every
    checkpoint and restored before ``begin``. A hook that is reused for another run, or for an evaluation, is reset to
    its initial state. A public method ``on_*``, ``before_*`` or ``after_*`` of a subclass that is not an event is
    refused as misspelt.
    """

    def prepare(self, session: TrainingSession) -> None:
        """Check what this hook needs, before anything is written or trained; also called by ``Agent.check``."""

    def begin(self, session: TrainingSession, facts: BeginFacts) -> None:
        """A session begins: called before its first timestep, after a checkpoint was restored."""

    def before_episode(self, session: TrainingSession, facts: EpisodeFacts) -> None:
        """An episode begins in one environment."""

    def after_timestep(self, session: TrainingSession, facts: TimestepFacts) -> None:
        """Every environment took one action. Called at every (vector) step: keep it cheap (:func:`by_the_clock`)."""

    def after_update(self, session: TrainingSession, facts: UpdateFacts) -> None:
        """One update was run."""

    def after_episode(self, session: TrainingSession, facts: EpisodeStats) -> None:
        """An episode finished; not called for cut episodes."""

    def after_evaluation(self, session: TrainingSession, facts: EvaluationFacts) -> None:
        """A hook had the session evaluate; may follow ``end``."""

    def after_video(self, session: TrainingSession, facts: VideoFacts) -> None:
        """A hook had the session record a video; may follow ``end``."""

    def end(self, session: TrainingSession, facts: EndFacts) -> None:
        """The run ends for any reason; also called if ``begin`` of any hook raised."""


class Hooks:
    """Checks hooks, and keeps the methods to call for each event.

    Each event but ``end`` is an attribute: the tuple of the methods of those hooks that override it, in the order of
    the hooks. An event without hooks costs its caller only a test::

        if hooks.after_timestep:
            facts = TimestepFacts(...)
            for call in hooks.after_timestep:
                call(session, facts)

    ``every_timestep`` holds the ``after_timestep`` methods that are not marked :func:`by_the_clock`.

    Args:
        hooks: a hook; a function or other callable ``f(session, episode)``, called after every episode; several of
            these, in the order of calls; or ``Hooks``, which are not checked again.
        first: hooks before them.
        last: hooks after them.

    Raises:
        ArgumentError: ``hooks`` is none of these, a function takes other arguments, or an object is not a hook: it has
            no event, a misspelt one, or one with arguments other than ``(session, facts)``.
    """

    def __init__(self, hooks: Any = (), first: Iterable[Any] = (), last: Iterable[Any] = ()) -> None:
        is_checked = isinstance(hooks, Hooks)
        before, given, after = tuple(first), tuple(hooks) if is_checked else _hooks_of(hooks), tuple(last)
        for hook in (*before, *(() if is_checked else given), *after):
            _check(hook)
        self._hooks = (*before, *given, *after)
        self.prepare: tuple[Callable[[Any], Any], ...] = self._methods(_PREPARE)
        self.begin = self._methods("begin")
        self.before_episode = self._methods("before_episode")
        self.after_timestep = self._methods("after_timestep")
        self.every_timestep = tuple(call for call in self.after_timestep if not getattr(call, "by_the_clock", False))
        self.after_update = self._methods("after_update")
        self.after_episode = self._methods("after_episode")
        self.after_evaluation = self._methods("after_evaluation")
        self.after_video = self._methods("after_video")
        self._end = self._methods("end")
        self._loaded: dict[str, State] = {}

    def __iter__(self) -> Iterator[Any]:
        return iter(self._hooks)

    def _methods(self, event: str) -> tuple[Any, ...]:
        methods = (_overriding_method(hook, event) for hook in self._hooks)
        return tuple(method for method in methods if method is not None)

    def end(self, session: Session, facts: EndFacts) -> None:
        """Call the ``end`` of every hook, even if others fail.

        Raises:
            BaseException: the first error, once all have run; later ones are logged and noted on it. If the run itself
                failed (``facts.error``), hooks' errors are noted on that one, which the caller raises.
        """
        errors = [(call, error) for call in self._end if (error := _error_of(call, session, facts)) is not None]
        if not errors:
            return
        first = facts.error or errors.pop(0)[1]
        for call, error in errors:
            _note(first, error, call)
        if facts.error is None:
            raise first

    def state_dict(self) -> dict[str, State]:
        """A copy of the state of every hook that has one, by class name and occurrence (``"StopAtReturn:0"``).

        Saved state of hooks that are missing now is kept and returned again.

        Raises:
            ValueError: a hook returns something other than a mapping.
        """
        states = {key: hook.state_dict() for key, hook in self._hooks_by_key() if hasattr(hook, "state_dict")}
        for key, state in states.items():
            if not isinstance(state, Mapping):
                name = key.partition(":")[0]
                raise ValueError(f"{name}.state_dict must return a mapping of names to values, got {shortened(state)}")
        mine: dict[str, State] = copied({**self._loaded, **states})  # a hook goes on with its own lists and arrays
        return mine

    def load_state_dict(self, state: Mapping[str, State]) -> None:
        """Restore the saved state of each hook; a hook without saved state starts fresh.

        This includes hooks that were used for another run, for an evaluation, or for timesteps of this run that were
        lost: the hook itself keeps its initial state, which is then restored.
        """
        self._loaded = dict(state)
        for key, hook in self._hooks_by_key():
            if not hasattr(hook, "load_state_dict"):
                continue
            held = getattr(hook, "__dict__", {})  # an object with only slots cannot store it
            is_new = _FRESH not in held
            if is_new:
                held[_FRESH] = copy.deepcopy(hook.state_dict())
            if key in self._loaded:
                hook.load_state_dict(copied(self._loaded[key]))
            elif not is_new:
                hook.load_state_dict(copy.deepcopy(held[_FRESH]))

    def _hooks_by_key(self) -> list[tuple[str, Any]]:
        occurrences: dict[str, int] = {}
        keyed = []
        for hook in self._hooks:
            name = type(hook).__name__
            number = occurrences.get(name, 0)
            occurrences[name] = number + 1
            keyed.append((f"{name}:{number}", hook))
        return keyed


def _hooks_of(hooks: Any) -> tuple[Any, ...]:
    """A hook, a function, or several of them as a tuple of hooks."""
    if hooks is None:
        return ()
    if _is_function(hooks) or (not isinstance(hooks, type) and any(hasattr(hooks, event) for event in HOOK_EVENTS)):
        hooks = (hooks,)
    if not isinstance(hooks, Iterable):
        raise ArgumentError(f"hooks must be a hook, a function, or a sequence of these, got {hooks!r}", "hooks", hooks)
    return tuple(_AfterEpisode(hook) if _is_function(hook) else hook for hook in hooks)


def _is_function(hook: Any) -> bool:
    """Whether to call it after every episode: a function, a partial, or a callable object without events."""
    events = (*HOOK_EVENTS, _PREPARE)
    return callable(hook) and not isinstance(hook, type) and not any(hasattr(hook, event) for event in events)


class _AfterEpisode:
    """Adapts a function to a hook."""

    def __init__(self, function: Callable[[Session, EpisodeStats], Any]) -> None:
        inner = function.func if isinstance(function, functools.partial) else function
        named = getattr(inner, "__name__", type(inner).__name__)
        name = f"the hook {named}, a function called after every episode,"
        check_signature(name, function, ("session", "episode"))
        self._function = function

    def after_episode(self, session: Session, facts: EpisodeStats) -> None:
        self._function(session, facts)


def _error_of(call: Event, session: Session, facts: EndFacts) -> BaseException | None:
    try:
        call(session, facts)
    except BaseException as error:  # also Ctrl-C: other hooks must close files and restore the terminal
        return error
    return None


def _overriding_method(hook: Any, event: str) -> Event | None:
    """The hook's method for an event; None if it has none, or inherits the empty one."""
    method: Event | None = getattr(hook, event, None)
    if method is None or getattr(method, "__func__", None) is getattr(Hook, event):
        return None
    return method


def _check(hook: Any) -> None:
    if isinstance(hook, type):
        message = f"hooks takes instances: got the class {hook.__name__}, expected {hook.__name__}(...)"
        raise ArgumentError(message, "hooks", hook)
    name = type(hook).__name__
    _check_spelling(hook, name)
    methods = {event: method for event in HOOK_EVENTS if (method := _overriding_method(hook, event)) is not None}
    prepare = _overriding_method(hook, _PREPARE)
    if not methods and prepare is None:
        message = f"{name} is not a hook: it defines none of the events {', '.join(HOOK_EVENTS)}"
        raise ArgumentError(message, "hooks", hook)
    for event, method in methods.items():
        check_signature(f"{name}.{event}", method, ("session", "facts"))
    if prepare is not None:
        check_signature(f"{name}.{_PREPARE}", prepare, ("session",))
    if hasattr(hook, "state_dict") != hasattr(hook, "load_state_dict"):
        message = f"{name} must have both state_dict() and load_state_dict(state), or neither"
        raise ArgumentError(message, "hooks", hook)


def _check_spelling(hook: Any, name: str) -> None:
    for attribute in dir(hook):
        if attribute.startswith("_") or attribute in HOOK_EVENTS:
            continue
        # A static look-up does not run the user's properties.
        if not callable(inspect.getattr_static(hook, attribute, None)):
            continue
        looks_like_event = isinstance(hook, Hook) and attribute.lower().startswith(("on_", "before_", "after_"))
        if looks_like_event or difflib.get_close_matches(attribute.lower(), HOOK_EVENTS, 1, cutoff=0.87):
            raise ArgumentError(
                f"{name}.{attribute} is not an event of a hook; did you mean {_nearest(attribute)!r}?"
                f" The events are {', '.join(HOOK_EVENTS)}",
                "hooks",
                hook,
            )


def _nearest(attribute: str) -> str:
    """Find the event most like a name, also of other frameworks: ``after_episode`` for ``on_episode_end``."""
    wanted = attribute.lower()
    if match := re.fullmatch(r"on_(\w+)_(begin|start|end)", wanted):
        wanted = ("after_" if match[2] == "end" else "before_") + match[1]
    return difflib.get_close_matches(wanted, HOOK_EVENTS, 1, cutoff=0.0)[0]


def check_signature(name: str, method: Any, arguments: tuple[str, ...]) -> None:
    """Raise ``ArgumentError`` if a method or function does not accept these arguments by position."""
    listed = f"({', '.join(arguments)})"
    if not callable(method):
        raise ArgumentError(f"{name} must be a method {listed}, got {method!r}", "hooks", method)
    if inspect.iscoroutinefunction(method) or inspect.isgeneratorfunction(method):
        message = f"{name} must be a plain method: a coroutine or a generator would never run"
        raise ArgumentError(message, "hooks", method)
    try:
        signature = inspect.signature(method)
    except ValueError:  # some C functions have no signature
        return
    try:
        signature.bind(*arguments)
    except TypeError:
        message = f"{name} is called with {listed}, but takes {signature}"
        raise ArgumentError(message, "hooks", method) from None


def _note(first: BaseException, later: BaseException, call: Event) -> None:
    hook = getattr(call, "__self__", call)
    text = f"{type(hook).__name__}.end raised as well: {type(later).__name__}: {later}"
    _log.error(text, exc_info=later)
    if hasattr(first, "add_note"):  # Python 3.11
        first.add_note(text)
