"""Imports point one way, and actors and the command line load little."""

import ast
import configparser
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

import pytest

import axonrl
from axonrl.core import registry

ROOT: Final = Path(__file__).resolve().parent.parent

CORE: Final[dict[str, set[str]]] = {
    "errors": set(),
    "checks": {"errors", "trees"},
    "registry": {"checks", "errors"},
    "fields": {"checks", "errors"},
    "protocols": {"checks", "errors"},
    "schedules": {"checks", "errors"},
    "chunked_arrays": {"protocols"},
    "trace_inputs": {"protocols"},
    "spread": set(),
    "hub": {"errors"},
    "tensorflow_import": set(),
    "trees": set(),
    "initializers": {"protocols"},
    "text_columns": set(),
    "yaml_text": set(),
}
"""Modules of core, and which of its others each may import. Every room may import them."""

ROOT_MODULES: Final[dict[str, set[str]]] = {
    "version": set(),
    "errors": {"core"},
    "inputs": {"core"},
    "noise": {"core"},
    "schedules": {"core"},
    "__main__": {"experiments"},
}
"""Modules at the root, and which rooms each may import."""

PUBLIC: Final = {"inputs", "noise"}
"""Modules of the root that a model function imports, a built-in one too."""

ROOMS: Final[dict[str, set[str]]] = {
    "environments": set(),
    "memories": set(),
    "explorations": set(),
    "policies": {"explorations"},
    "models": {"explorations", *PUBLIC},
    "runtimes": {"environments", "explorations", "policies"},
    "hooks": {"run_dir"},
    "run_dir": {"environments"},
}
ROOMS["estimators"] = {*ROOMS}
ROOMS["distributed"] = {*ROOMS}
ROOMS["compat"] = {*ROOMS, *PUBLIC}
ROOMS["experiments"] = {*ROOMS}
ROOMS["serving"] = {*ROOMS}
"""Which rooms a room may import beside itself, core and the version: the table of ARCHITECTURE.md."""

TENSORFLOW_AT_ONCE: Final = {"runtimes", "estimators"}
"""May load TensorFlow when they are imported."""
FOLDERS_AT_ONCE: Final = (
    "compat/common/layers/",
    "compat/rlgraph/model/",
    "compat/tensorforce/model/",
    "models/blocks/noisy_dense.py",
)
"""Folders of other rooms that may do so."""
TENSORFLOW_WHEN_USED: Final = {"core", "hooks", "experiments", "compat", "serving", "models"}
"""May load it inside functions. The other rooms never do."""
LIGHT_FILES: Final = {"runtimes/__init__.py"}
"""In the rooms that may load TensorFlow at once, files that never do."""


HEAVY: Final = {"tensorflow", "keras", "gymnasium", "matplotlib", "rich", "polyaxon"}
"""Slow to import."""


class Import(NamedTuple):
    """One imported name, absolute; ``at_once`` unless it stands in a function or under TYPE_CHECKING."""

    line: int
    target: str
    relative: bool
    at_once: bool


def imports(tree: ast.AST, package: str, at_once: bool = True) -> Iterator[Import]:
    """Every import of a module of ``package``, wherever it stands."""
    for node in ast.iter_child_nodes(tree):
        later = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) or (
            isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
        )
        if isinstance(node, ast.Import):
            for name in node.names:
                yield Import(node.lineno, name.name, False, at_once)
        elif isinstance(node, ast.ImportFrom):
            parts = package.split(".")
            base = parts[: len(parts) - node.level + 1] if node.level else []
            for name in node.names:
                target = ".".join([*base, *filter(None, [node.module]), name.name])
                yield Import(node.lineno, target, node.level > 0, at_once)
        yield from imports(node, package, at_once and not later)


def may_import(room: str, target: str) -> bool:
    """May a module of this room, or ``core/NAME``, import this module, from the root on?"""
    top, _, rest = target.partition(".")
    if room.startswith("core/"):
        own = room.removeprefix("core/")
        return top == "core" and rest.partition(".")[0] in CORE[own] | {own}
    return top in (ROOT_MODULES[room] if room in ROOT_MODULES else ROOMS[room] | {room, "core", "version"})


def may_load_tensorflow(path: str, room: str, at_once: bool) -> bool:
    if path in LIGHT_FILES:
        return False
    if path.startswith(FOLDERS_AT_ONCE):
        return True
    return room in TENSORFLOW_AT_ONCE or (room in TENSORFLOW_WHEN_USED and not at_once)


def violations(source: str, path: str) -> list[str]:
    """What the file at ``path`` (from the root) imports against the rules, one line each."""
    *folders, file = path.split("/")
    room = folders[0] if folders else file.removesuffix(".py")
    if room == "core" and path != "core/__init__.py":
        room = f"core/{path.split('/')[1].removesuffix('.py')}"
    found = []
    for item in imports(ast.parse(source), ".".join(["axonrl", *folders])):
        top, _, rest = item.target.partition(".")
        if top in ("tensorflow", "keras") and not may_load_tensorflow(path, room.partition("/")[0], item.at_once):
            found.append(f"{path}:{item.line}: {top} does not belong here")
        elif top == "axonrl" and not item.relative:
            found.append(f"{path}:{item.line}: imports inside the package are relative, not {item.target}")
        elif top == "axonrl" and not may_import(room, rest):
            found.append(f"{path}:{item.line}: {room} may not import {item.target}")
    return found


def package_files() -> list[Path]:
    return [*ROOT.glob("*.py"), *(path for room in (*ROOMS, "core") for path in sorted((ROOT / room).rglob("*.py")))]


def test_imports_point_one_way() -> None:
    found = []
    for path in package_files():
        name = path.relative_to(ROOT).as_posix()
        if name != "__init__.py":  # the root exports lazily: see the next test
            found += violations(path.read_text(encoding="utf-8"), name)
    assert found == []


def test_the_table_of_rooms_is_that_of_the_rules() -> None:
    text, above = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8"), set[str]()
    for room, cell in re.findall(r"^\| `(\w+)/` \|.*\| ([^|]+) \|$", text, re.MULTILINE):
        named = set(re.findall(r"`(\w+)`", cell))
        assert (named | above if cell.startswith("all above") else named) == ROOMS[room], room
        above.add(room)
    assert above == {*ROOMS}


def test_the_client_of_a_service_imports_only_itself() -> None:
    inside = "axonrl.serving.client"
    for path in sorted((ROOT / "serving" / "client").glob("*.py")):
        found = list(imports(ast.parse(path.read_text(encoding="utf-8")), inside))
        foreign = {
            item.target for item in found if item.target.startswith("axonrl") and not item.target.startswith(inside)
        }
        assert foreign == set()
        tops = {item.target.partition(".")[0] for item in found} - {"axonrl"}
        assert tops <= {*sys.stdlib_module_names, "aiohttp"}, path


def test_the_root_imports_nothing_of_axonrl() -> None:
    tree = ast.parse((ROOT / "__init__.py").read_text(encoding="utf-8"))
    items = list(imports(tree, "axonrl"))
    assert [item for item in items if item.relative] == []  # pytest's collection breaks on one
    assert [item for item in items if item.at_once and item.target.startswith("axonrl")] == []


def test_every_room_is_known_and_installed() -> None:
    setup = configparser.ConfigParser()
    setup.read(ROOT / "setup.cfg")
    rooms = {path.parent.name for path in ROOT.glob("*/__init__.py") if not path.parent.name.startswith(".")}
    assert rooms == {*ROOMS, "core"}
    inner = {path.parent.relative_to(ROOT) for room in (*ROOMS, "core") for path in (ROOT / room).rglob("*.py")}
    expected = {"axonrl", *(".".join(["axonrl", *path.parts]) for path in inner)}
    assert set(setup["options"]["packages"].split()) == expected


def module_name(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def import_graph(*rooms: str) -> dict[str, set[str]]:
    """Modules of the package and of further rooms to the modules that they import, inside functions too."""
    paths = [*package_files(), *(path for room in rooms for path in (ROOT / room).rglob("*.py"))]
    files = {module_name(path): path for path in paths if path != ROOT / "__init__.py"}
    graph: dict[str, set[str]] = {}
    for name, path in files.items():
        package = ".".join(["axonrl", *path.parent.relative_to(ROOT).parts])
        targets = {item.target.removeprefix("axonrl.") for item in imports(ast.parse(path.read_text("utf-8")), package)}
        found = {target if target in files else target.rpartition(".")[0] for target in targets}
        graph[name] = {target for target in found if target in files and target != name}
    return graph


def in_circles(graph: dict[str, set[str]]) -> set[str]:
    """The nodes from which a path leads to a circle: what is left when leaves are taken away again and again."""
    left = dict(graph)
    while leaves := {name for name, targets in left.items() if not targets & left.keys()}:
        left = {name: targets for name, targets in left.items() if name not in leaves}
    return set(left)


def test_no_module_imports_itself_by_a_circle() -> None:
    assert in_circles({"a": {"b"}, "b": {"c"}, "c": {"b", "d"}, "d": set()}) == {"a", "b", "c"}
    assert in_circles(import_graph("benchmarks")) == set()


def test_no_folder_imports_itself_by_a_circle() -> None:
    modules = import_graph()
    folder = {name: name.rpartition(".")[0] or name for name in modules}
    for name in modules:  # a package's own module belongs to its folder
        folder |= {name: name} if any(other.startswith(f"{name}.") for other in modules) else {}
    graph: dict[str, set[str]] = {}
    for name, targets in modules.items():
        graph.setdefault(folder[name], set()).update(folder[target] for target in targets)
    assert in_circles({name: targets - {name} for name, targets in graph.items()}) == set()


@pytest.mark.parametrize(
    ("path", "source", "message"),
    [
        ("memories/x.py", "from ..estimators.agent import Agent", "memories may not import axonrl.estimators.agent"),
        ("models/x.py", "if TYPE_CHECKING:\n    from ..memories import Memory", "models may not import"),
        ("core/protocols.py", "from ..version import __version__", "core/protocols may not import axonrl.version"),
        ("noise.py", "from .explorations import Greedy", "noise may not import axonrl.explorations.Greedy"),
        ("hooks/x.py", "import axonrl.core.protocols", "imports inside the package are relative"),
        ("memories/x.py", "def f():\n    import keras.layers", "keras does not belong here"),
    ],
)
def test_a_wrong_import_is_found(path: str, source: str, message: str) -> None:
    found = violations(source, path)
    assert len(found) == 1
    assert message in found[0]


def test_a_module_has_one_path() -> None:
    """Also where the package was found by the link that type checkers follow."""
    assert list(axonrl.__path__) == [str(ROOT)]
    assert registry.__file__ == str(ROOT / "core/registry.py")


def loaded_by(code: str) -> set[str]:
    """The top-level packages that a fresh Python has loaded after ``code``."""
    report = "import json, sys\nprint(json.dumps(sorted({name.partition('.')[0] for name in sys.modules})))"
    command = [sys.executable, "-c", f"{code}\n{report}"]
    run = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert run.returncode == 0, run.stderr
    return set(json.loads(run.stdout.splitlines()[-1]))


def test_modules_load_only_what_they_may() -> None:
    """In one process, the lightest first: whatever one of them loads is seen in those that follow."""
    lightest = ["core.registry", "core.protocols", "explorations", "explorations.squashed", "noise", "hooks"]
    without_gymnasium = loaded_by("\n".join(f"import axonrl.{module}" for module in lightest))
    assert without_gymnasium & (HEAVY | {"tensorboard"}) == set()
    others = ["memories", "environments", "policies.policy", "run_dir.checkpoints", "runtimes", "estimators.agent"]
    commands = ["commands.cli", "config.files", "config.schema"]
    others += [f"models.{name}" for name in registry.BUILT_IN["model_fn"]]
    modules = [*others, *(f"experiments.{name}" for name in commands)]
    loaded = loaded_by("\n".join(f"import axonrl.{module}" for module in modules))
    assert loaded & {"tensorflow", "keras"} == set()
    assert loaded >= {"axonrl", "gymnasium"}  # what is loaded is seen


def test_the_package_alone_loads_nothing_heavy() -> None:
    code = "import axonrl\naxonrl.__version__\naxonrl.Modes\naxonrl.EstimatorSpec\naxonrl.runtimes"
    assert loaded_by(code) & HEAVY == set()


def test_the_actor_loads_little_more_than_litert() -> None:
    assert loaded_by("from axonrl.runtimes import Policy") & (HEAVY | {"flatbuffers"}) == set()


def test_the_client_of_a_service_loads_only_itself() -> None:
    code = """
import sys
from axonrl.serving import RemoteAgent, EncodedAgentState, SUPPORTED_MODELS, wait_until_agent_exists, NotFound
ours = [name for name in sys.modules if name.startswith("axonrl.") and not name.startswith("axonrl.serving")]
assert ours == [], ours
"""
    loaded = loaded_by(code)
    assert (loaded - sys.stdlib_module_names - loaded_by("pass"), "asyncio" in loaded) == ({"axonrl"}, False)


def test_help_loads_nothing_heavy() -> None:
    code = """
import sys
from axonrl.experiments.commands.cli import main
sys.argv = ["axonrl", "--help"]
try:
    status = main()
except SystemExit as error:
    status = error.code
assert not status, status
"""
    assert loaded_by(code) & HEAVY == set()
