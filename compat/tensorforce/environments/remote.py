"""An environment in its own process."""

from __future__ import annotations

import contextlib
import multiprocessing
import pickle
import signal
import time
import traceback
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any, Final, NoReturn

from ..spaces.errors import TensorforceError, refuse
from .environment import Environment
from .limited import LimitedEnvironment

_PATIENCE_SECS: Final = 5.0
"""Seconds that the process has to end when it is closed."""


class _RemoteError(Exception):
    """Traceback of an error in the environment's process, which the error itself loses in transfer."""

    def __str__(self) -> str:
        return f"\n{self.args[0]}"


class RemoteEnvironment(Environment):
    """An environment made in a new process.

    Besides the usual methods there are non-blocking ones: ``start_reset`` or ``start_execute``, then ``receive`` once
    it is ``ready``.

    Args:
        make: returns the environment; it is sent to the process, and must be picklable.
        blocking: make ``ready`` wait.

    Raises:
        TensorforceError: it could not be made, or the process ended.
    """

    def __init__(self, make: Callable[[], Environment], blocking: bool = False) -> None:
        super().__init__()
        self._blocking = blocking
        self._name = "the environment"
        self._waiting = self._closed = False
        self._starting = True
        self.seconds = 0.0
        """Seconds that the environment needed for the last ``reset`` or ``execute``, without communication."""
        # Not forked: TensorFlow's threads do not survive that.
        context = multiprocessing.get_context("spawn")
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(theirs, make), daemon=True)
        try:
            self._process.start()
        except (pickle.PicklingError, AttributeError, TypeError) as error:
            self._closed = True
            problem = f"with remote must be a specification that can be sent to a process: {error}"
            refuse("Environment.create: environment", problem, make)
        theirs.close()
        self._waiting = True
        try:
            self._name, self._states, self._actions, self._limit = self.receive()
        except BaseException:
            self.close()
            raise
        self._starting = False

    def states(self) -> dict[str, Any]:
        """Specification of states."""
        return self._states  # type: ignore[no-any-return]

    def actions(self) -> dict[str, Any]:
        """Specification of actions."""
        return self._actions  # type: ignore[no-any-return]

    def max_episode_timesteps(self) -> int | None:
        """The environment's limit."""
        return self._limit  # type: ignore[no-any-return]

    def reset(self) -> Any:
        """Begin an episode, and wait for its first states."""
        self.start_reset()
        return self.receive()

    def execute(self, actions: Any) -> tuple[Any, int, float]:
        """Act, and wait for the outcome."""
        self.start_execute(actions)
        return self.receive()  # type: ignore[no-any-return]

    def start_reset(self) -> None:
        """Begin an episode; an answer not received yet is awaited and dropped."""
        if self._waiting:
            self._receive()
        self._send("reset")

    def start_execute(self, actions: Any) -> None:
        """Act without waiting."""
        if self._waiting:
            refuse(f"{self._name}.start_execute", "was called before receive", None)
        self._send("execute", actions)

    def ready(self) -> bool:
        """Would ``receive`` return at once?"""
        return self._blocking or self._pipe.poll()

    def receive(self) -> Any:
        """Finish ``reset`` or ``execute``: return its result or raise its error."""
        if not self._waiting:
            refuse(f"{self._name}.receive", "was called although nothing was started", None)
        done, result, self.seconds = self._receive()
        if not done:
            error, text = result
            raise error from _RemoteError(text)
        return result

    def close(self) -> None:
        """End the process."""
        if self._closed:
            return
        self._closed = True
        with contextlib.suppress(OSError):  # the process has ended
            self._pipe.send(("close", ()))
        self._process.join(_PATIENCE_SECS)
        if self._process.is_alive():
            self._process.terminate()
            self._process.join()
        self._pipe.close()

    def __str__(self) -> str:
        return self._name

    def _send(self, method: str, *arguments: Any) -> None:
        if self._closed:
            refuse(f"{self._name}.{method}", "was called after close", None)
        try:
            self._pipe.send((method, arguments))
        except OSError:
            self._raise_end()
        self._waiting = True

    def _receive(self) -> tuple[bool, Any, float]:
        try:
            reply: tuple[bool, Any, float] = self._pipe.recv()
        except (EOFError, OSError):
            self._raise_end()
        self._waiting = False  # not before: after Ctrl-C while it waits, the answer is still to come
        return reply

    def _raise_end(self) -> NoReturn:
        self._process.join(_PATIENCE_SECS)
        code = self._process.exitcode
        message = f"the process of {self._name} has ended (exit code {code})"
        if self._starting:
            message += "; a program that starts processes needs the guard if __name__ == '__main__'"
        raise TensorforceError(message, "remote", code)


def _serve(pipe: Connection, make: Callable[[], Environment]) -> None:
    """Run the process: make the environment, checked, and execute commands from the pipe, until close or its end."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is left to the parent process
    try:
        made = make()
        environment = made if isinstance(made, LimitedEnvironment) else LimitedEnvironment(made)
        facts = str(environment), environment.states(), environment.actions(), environment.max_episode_timesteps()
    except Exception as error:
        _reply(pipe, False, error)
        return
    _reply(pipe, True, facts)
    try:
        while (request := pipe.recv())[0] != "close":
            method, arguments = request
            began = time.perf_counter()
            try:
                result = getattr(environment, method)(*arguments)
            except Exception as error:
                _reply(pipe, False, error)
            else:
                _reply(pipe, True, result, time.perf_counter() - began)
    except (EOFError, OSError):
        pass  # the parent process has ended
    finally:
        environment.close()


def _reply(pipe: Connection, done: bool, result: Any, seconds: float = 0.0) -> None:
    text = "" if done else "".join(traceback.format_exception(result))
    try:
        if not done:
            pickle.loads(pickle.dumps(result))  # some exceptions can be pickled but not unpickled
        pipe.send((done, result if done else (result, text), seconds))
    except OSError:
        raise
    except Exception:
        message = f"{type(result).__name__}: {result}"
        error = TensorforceError(f"the environment's process: {message}", "environment", message)
        pipe.send((False, (error, text), seconds))
