"""Import of TensorFlow: announced if it is slow, and without the lines that its libraries write to standard error."""

from __future__ import annotations

import contextlib
import ctypes
import gc
import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import logging
import os
import random
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

_logger = logging.getLogger("axonrl")
_UNUSED: Final = (
    *("keras.visualization", "keras._tf_keras.keras.visualization", "keras.src.visualization"),
    *("keras.wrappers", "keras._tf_keras.keras.wrappers"),
)
"""Modules of Keras that no trace uses, which load matplotlib and scikit-learn: a third of the time of TensorFlow's
import."""
_users: list[int] = []
"""The first process that used TensorFlow: this one, or one from which it was forked."""
_SIGNAL_STACK_BYTES: Final = 64 * 1024  # a frame with AMX registers has 11 KB
_signal_stacks: list[Any] = []
"""The main thread's stack for signal handlers; memory that is never released."""


def announce(text: str) -> None:
    """Announce that something slow begins: in the log if it has a handler, else on a terminal."""
    if _logger.isEnabledFor(logging.INFO) and _logger.hasHandlers():
        _logger.info(text)
    elif sys.stderr is not None and sys.stderr.isatty():
        with contextlib.suppress(OSError):
            print(f"axonrl: {text}", file=sys.stderr, flush=True)


@contextlib.contextmanager
def collections_paused() -> Iterator[None]:
    """Pause Python's garbage collection, also as a decorator.

    An import and a trace make a million objects and little garbage: collections took a quarter of the time of
    TensorFlow's import.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


@collections_paused()
def load_tensorflow() -> None:
    """Import TensorFlow without the lines that its libraries print; they are shown if the import fails.

    Sets TF_CPP_MIN_LOG_LEVEL to 3 unless it is set; fatal errors of the C++ libraries are still shown. Python's global
    generator, from which the import draws, keeps its state: an environment may draw from it.
    """
    if "tensorflow" in sys.modules:
        return
    announce("Loading TensorFlow ...")
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    lines, generator, finder = "", random.getstate(), _UnusedFinder()
    sys.meta_path.insert(0, finder)
    try:
        with stderr_aside() as written:
            try:
                importlib.import_module("tensorflow")
            finally:
                lines = written()
    except Exception:
        print(lines, end="", file=sys.stderr)
        raise
    finally:
        sys.meta_path.remove(finder)
        random.setstate(generator)


class _UnusedFinder(importlib.abc.MetaPathFinder):
    """Finds the modules of ``_UNUSED``, which are then loaded when one of their attributes is first used."""

    def find_spec(self, name: str, path: Sequence[str] | None, target: Any = None) -> Any:
        """The module's spec; None for all other modules."""
        spec = importlib.machinery.PathFinder.find_spec(name, path) if name in _UNUSED else None
        if spec is not None and spec.loader is not None:
            spec.loader = importlib.util.LazyLoader(spec.loader)
        return spec


class _OnUse:
    """A module that is imported, after TensorFlow, when one of its attributes is first used."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, attribute: str) -> Any:
        load_tensorflow()
        return getattr(importlib.import_module(self._name), attribute)


tf: Final[Any] = _OnUse("tensorflow")
keras: Final[Any] = _OnUse("keras")
"""TensorFlow and Keras for built-in models, loaded on use: programs in the cache do not need them."""


def use_tensorflow() -> None:
    """Record that this process uses TensorFlow; call before anything runs or is traced.

    In the main thread, signals become harmless to TensorFlow's matrix products: see ``_set_signal_stack``.

    Raises:
        RuntimeError: this process was forked from one that has used TensorFlow. Its threads do not exist here, so
            TensorFlow would wait for them forever.
    """
    if not _users:
        _users.append(os.getpid())
    elif _users[0] != os.getpid():
        raise RuntimeError(
            f"this process was forked from process {_users[0]}, which has used TensorFlow, and TensorFlow hangs in a"
            " forked process. Start processes with multiprocessing.get_context('spawn'), or with"
            " set_start_method('spawn'). Only LiteRT works here: a Policy, or an Agent with a compiled program"
        )
    if not _signal_stacks and threading.current_thread() is threading.main_thread():
        _set_signal_stack()


class _SignalStack(ctypes.Structure):
    """The C type ``stack_t`` of Linux."""

    _fields_ = (("pointer", ctypes.c_void_p), ("flags", ctypes.c_int), ("size", ctypes.c_size_t))


def _set_signal_stack() -> None:
    """Make signal handlers of this thread use a stack of their own, unless they have one.

    TensorFlow's matrix products on x86 use the stack pointer for data in the heap, before oneDNN 3.11.2
    (https://github.com/uxlfoundation/oneDNN/issues/4845). A signal that arrives meanwhile, such as Ctrl-C, would
    overwrite the heap: the process aborts, or its data are wrong. Python's handlers use the alternate stack where there
    is one; the system prefers the main thread for signals to a process.
    """
    stack = ctypes.create_string_buffer(_SIGNAL_STACK_BYTES)
    _signal_stacks.append(stack)
    if sys.platform != "linux":  # where TensorFlow has no oneDNN, or the system no signals
        return
    sigaltstack, current = ctypes.CDLL(None).sigaltstack, _SignalStack()
    if sigaltstack(None, ctypes.byref(current)) == 0 and not current.pointer:
        sigaltstack(ctypes.byref(_SignalStack(ctypes.addressof(stack), 0, len(stack))), None)


@contextlib.contextmanager
def stderr_aside() -> Iterator[Callable[[], str]]:
    """Set aside what C++ libraries write to standard error in this context.

    Neither Python's ``sys.stderr`` nor TF_CPP_MIN_LOG_LEVEL reaches what they write
    (https://github.com/tensorflow/tensorflow/issues/100442).

    Yields:
        a function that returns the text written so far.
    """
    if sys.stderr is not None:
        sys.stderr.flush()
    try:
        original = os.dup(2)
    except OSError:  # closed: there is nowhere to write to
        yield lambda: ""
        return
    with tempfile.TemporaryFile() as aside:
        os.dup2(aside.fileno(), 2)
        try:
            yield lambda: os.pread(aside.fileno(), 1 << 20, 0).decode(errors="replace")
        finally:
            os.dup2(original, 2)
            os.close(original)
