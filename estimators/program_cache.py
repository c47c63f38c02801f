"""Cache of compiled training programs: training a built-in model again loads no TensorFlow.

An entry is a directory of ``Agent.compile``. Its name is a digest of everything that the program depends on, except for
the seed and for free params of a program, which are checked in the entry itself.
"""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import functools
import hashlib
import inspect
import json
import logging
import os
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from ..core import LOADED, registry
from ..core.errors import ArgumentError, CheckpointError, NotCompilableError
from ..core.protocols import Memory
from ..environments import spaces
from ..memories.description import arguments_of, without_path
from ..policies import compiled
from ..policies.compiled import CompiledProgram
from ..policies.reasons import TENSORFLOW
from ..policies.seeds import checked_seeds
from ..run_dir import record
from ..run_dir.files import why_unwritable, write_json_atomically
from ..run_dir.folders import staged, target_of
from ..run_dir.programs import paths_in, program_folder, remove, remove_oldest
from ..run_dir.provenance import PACKAGES, provenance
from ..run_dir.sources import digest_of, files_of
from . import live_code
from .experience_sources import Lanes
from .initial_weights import save_weights
from .run import Run

if TYPE_CHECKING:
    from ..runtimes.tracing.program import Program, Train

_PACKAGE: Final = Path(__file__).parent.parent
_ROOMS: Final = (
    "core",
    "environments",
    "estimators",
    "explorations",
    "memories",
    "models",
    "policies",
    "run_dir",
    "runtimes",
)
"""Rooms whose code makes or runs a program."""
_NEWEST: Final = 16
"""Number of entries whose free params are tried."""
_told: Final[set[str]] = set()
"""Functions whose source is known to be insufficient."""
logger = logging.getLogger("axonrl")
Key: TypeAlias = "tuple[str, str]"
"""Digests of what a program depends on, without the params, and of the params."""


class Experience:
    """The source of learning, as far as a program depends on it.

    Args:
        settings: of the memory; None if they cannot be described.
        lanes: number of environments.
        memory: a memory with these settings; None if unknown: a program can then be found, but not made.
    """

    def __init__(self, settings: Mapping[str, Any] | None, lanes: int, memory: Memory | None = None) -> None:
        self.settings, self.lanes, self.memory = without_path(settings), lanes, memory

    @classmethod
    def of(cls, memory: Memory, lanes: int) -> Experience:
        """The source that a memory is."""
        return cls(arguments_of(memory), lanes, memory)


def find(run: Run, key: Key | None) -> CompiledProgram | None:
    """The program of a run in the cache; None if there is none, or if it is damaged, which is logged."""
    folder = program_folder()
    if folder is None or key is None:
        return None
    for path in _entries(folder, *key):
        try:
            if not (path / compiled.FILE).is_file():
                continue
            program = compiled.read(path).with_params(_params(run))
            if not program.has_seed(run.seed):
                continue
            program.check(run.seed)
            with contextlib.suppress(OSError):
                os.utime(path / compiled.FILE)
        except (ValueError, OSError, KeyError, TypeError) as error:
            if path.name == "-".join(key):
                logger.warning("the program in the cache cannot be used and will be compiled again: %s", error)
        else:
            logger.info("The program of %s is in the cache: TensorFlow is not needed.", program.name)
            return program
    return None


def keep(run: Run, experience: Experience, traced: tuple[Program, Train], key: Key | None) -> None:
    """Store a run's traced program for the next run, if its key has not changed since before the trace."""
    _code.cache_clear()
    folder = program_folder() if key_of(run, experience) == key else None
    if folder is None or key is None or experience.memory is None or why_unwritable(folder):
        return
    from .compilation import add_seeds, compile_program

    place = folder / "-".join(key)
    try:
        if _is_sound(place):
            add_seeds(place, [run.seed], run.model_fn)
        else:
            remove(place)
            compile_program(run, experience.memory, experience.lanes, place, None, traced)
            logger.info("The program of %s is in the cache now: the next run needs no TensorFlow.", run.model_name)
        remove_oldest()
    except NotCompilableError as error:
        logger.debug("not stored in the cache: %s", error)
    except Exception as error:  # another process is writing it, the disk is full, a user's function fails
        logger.info("the program is not stored in the cache: %s", error)


def _is_sound(place: Path) -> bool:
    """Is there a program that lacks at most the initial weights of a seed?"""
    try:
        program = compiled.read(place)
        for seed in program.seeds():
            program.check(seed)
        return bool(program.seeds())
    except (ValueError, OSError, KeyError, TypeError):
        return False


def take(run: Run, memory: Memory, where: Lanes, directory: str | Path) -> Path | None:
    """Write a run's program to a directory, like :func:`compile_run`, if the cache has it; None if not."""
    run = _in_spaces(run, where)
    program = find(run, key_of(run, Experience.of(memory, where.number)))
    if program is None or not program.has_every_seed:
        return None
    return _copy_program(program, target_of(directory, "a compiled program", compiled.FILES), [run.seed], run.seed)


def compile_run(run: Run, memory: Memory, where: Lanes, directory: str | Path | None, seeds: Any) -> Path:
    """Write a run's program before the run begins, through the cache if it holds such programs.

    Nothing is traced if the cache has it. Args, returns and raises: as for ``Agent.compile``.
    """
    from .compilation import compile_program

    run = _in_spaces(run, where)
    folder, key = program_folder(), key_of(run, Experience.of(memory, where.number))
    if directory is None:
        if folder is None or key is None:
            model = run.describe_model()
            why = "AXONRL_CACHE is empty" if folder is None else f"it cannot tell when {model} changes"
            message = f"the cache holds only LiteRT programs of axonrl's models with params in JSON: {why}."
            raise ArgumentError(f"{message} Give a directory", "directory", None)
        return _find_or_compile(run, memory, where.number, folder, key).directory
    target = target_of(directory, "a compiled program", compiled.FILES)
    wanted = [run.seed] if seeds is None else checked_seeds(seeds)
    if folder is not None and key is not None and not why_unwritable(folder):
        try:
            program = _find_or_compile(run, memory, where.number, folder, key)
            if program.has_every_seed:
                return _copy_program(program, target, wanted, run.seed)
        except CheckpointError as error:  # another process writes or removes it, or the disk is full: a miss
            logger.info("the cache is not used: %s", error)
    made = compile_program(run, memory, where.number, target, wanted)
    logger.info("compiled to %s", made)
    return made


def _in_spaces(run: Run, where: Lanes) -> Run:
    """The run, with these spaces."""
    run, observation, action = copy.copy(run), where.observation_space, where.action_space
    run.config = dataclasses.replace(run.config, observation_space=observation, action_space=action)
    return run


def _find_or_compile(run: Run, memory: Memory, lanes: int, folder: Path, key: Key) -> CompiledProgram:
    """The program of a run in the cache, made if it is missing."""
    from .compilation import compile_program

    program = find(run, key)
    if program is None:
        remove(folder / "-".join(key))
        program = compiled.read(compile_program(run, memory, lanes, folder / "-".join(key)))
        remove_oldest(program.directory)
    return program


def _copy_program(program: CompiledProgram, target: Path, seeds: Sequence[int], preferred: int) -> Path:
    """Write a program that has the weights of every seed to a directory, with those of these seeds."""
    with staged(target) as place:
        for name in (compiled.PROGRAM, compiled.POLICY):
            shutil.copyfile(program.directory / name, place / name)
        described = {**program.everything, "seed": preferred if preferred in seeds else seeds[0]}
        write_json_atomically(place / compiled.FILE, compiled.with_digest(described))
        made = compiled.read(place)
        for seed in seeds:
            save_weights(made, seed, program.weights(seed))
    return target


def _entries(folder: Path, key: str, params: str) -> Iterator[Path]:
    """Directories that may hold the program: that of the same params, then newest first."""
    yield folder / f"{key}-{params}"
    dated = []
    for path in paths_in(folder, f"{key}-*"):
        with contextlib.suppress(OSError):  # removed meanwhile
            dated.append(((path / compiled.FILE).stat().st_mtime_ns, path))
    yield from (path for _, path in sorted(dated, reverse=True)[:_NEWEST] if path.name != f"{key}-{params}")


def key_of(run: Run, experience: Experience) -> Key | None:
    """The key of a run's program; None if the cache cannot know what the program depends on."""
    made, code, _, unrecorded = provenance(), _code(), *record.recordable(run.params)
    config, started = run.config, run.record
    if run.compiled is not None or unrecorded or experience.settings is None or code is None or config.cache == "off":
        return None
    if config.observation_space is None or config.action_space is None or None in (made[name] for name in PACKAGES):
        return None
    if config.runtime == TENSORFLOW or (started is not None and TENSORFLOW in started.runtime.values()):
        return None
    source = live_code.digest_of(run.model_fn) if _is_built_in(run) else _source(run)
    if source is None:
        return None
    described = {
        "code": code,
        "made_with": {name: value for name, value in made.items() if name != "threads"},
        "keras": _globals_of_keras(),
        "model_fn": run.describe_model(),
        "source": source,
        "runtime": config.runtime,
        "spaces": [spaces.to_json(config.observation_space), spaces.to_json(config.action_space)],
        "memory": experience.settings,
        "num_envs": experience.lanes,
    }
    return _digest(described), _digest(_params(run))[:16]


def _is_built_in(run: Run) -> bool:
    """Is the function one of axonrl's? It may have been replaced."""
    name, function = run.model_name, run.model_fn
    if name not in registry.BUILT_IN["model_fn"]:
        return False
    code = getattr(function, "__code__", None)
    return code is not None and Path(code.co_filename) == _PACKAGE / "models" / f"{name}.py"


def _source(run: Run) -> str | None:
    """Digest of the user's own function; None without ``RunConfig(cache="source")``, or if it has no source."""
    config, function = run.config, run.model_fn
    if config.cache != "source" or function is None:
        return None
    digest = digest_of(function)
    unknown = [*digest.get("unknown", ()), *({"model_dir"} & {*inspect.signature(function).parameters})]
    if unknown:
        name, names = run.describe_model(), ", ".join(unknown)
        if name not in _told:
            logger.warning("the program of %s is not cached: edits of %s cannot be detected", name, names)
            _told.add(name)
        return None
    if any(_is_edited(file) for file in files_of(function) if file.is_file()):
        return None  # it is not the code that runs here
    others = dataclasses.replace(config, seed=None, observation_space=None, action_space=None)
    return f"{digest['digest']} {run.params is None} {others}"  # None is the function's own default, not {}


def _params(run: Run) -> dict[str, Any]:
    value: dict[str, Any] = json.loads(json.dumps(run.params or {}))
    return value


def _digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


@functools.cache
def _code() -> str | None:
    """Digest of axonrl's code; None if it was edited after it was loaded."""
    sha, files = hashlib.sha256(), [*_PACKAGE.glob("*.py")]
    for path in sorted([*files, *(path for room in _ROOMS for path in (_PACKAGE / room).rglob("*.py"))]):
        if _is_edited(path):
            return None
        sha.update(f"{path.relative_to(_PACKAGE)} {path.stat().st_size}\n".encode())
        sha.update(path.read_bytes())
    return sha.hexdigest() if files else None  # none in an archive


def _is_edited(path: Path) -> bool:
    """Was the file written or replaced after it may have been loaded? Installers keep old modification times."""
    found = path.stat()
    return max(found.st_mtime, found.st_ctime) > LOADED


def _globals_of_keras() -> Mapping[str, Any]:
    """Keras' settings for the whole process: those in use, or those that loading Keras would read."""
    keras = sys.modules.get("keras")
    if keras is not None:
        config, policy = keras.config, keras.config.dtype_policy().name
        read = {"floatx": config.floatx(), "epsilon": config.epsilon(), "backend": config.backend()}
        return {**read, "image_data_format": config.image_data_format(), "dtype_policy": policy}
    default = {"floatx": "float32", "epsilon": 1e-7, "backend": "tensorflow", "image_data_format": "channels_last"}
    home = os.environ.get("KERAS_HOME")
    if home is None:
        base = os.path.expanduser("~")  # noqa: PTH111 (as Keras does; without a home, Path raises)
        home = str(Path(base if os.access(base, os.W_OK) else "/tmp", ".keras"))
    try:
        stored = json.loads(Path(os.path.expanduser(home), "keras.json").read_text(encoding="utf-8"))  # noqa: PTH111
        found = {name: stored.get(name, value) for name, value in default.items()}
    except (OSError, ValueError, AttributeError):
        found = default
    found["backend"] = os.environ.get("KERAS_BACKEND") or found["backend"]
    return {**found, "dtype_policy": found["floatx"]}
