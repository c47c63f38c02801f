"""Placeholder classes of Tensorforce's modules, for programs that pass them as ``type``.

Each stands for the entry of its name. ``core.memories``, ``core.layers`` and so on hold the classes of one table and
their base class; a program's own subclass of it is refused when used.
"""

import sys
import types
from typing import Final

from ...common.specs.tables import SpecTable
from ..specs.agent_tables import TABLES
from ..specs.table_checks import PARAMETERS

_PREFIX: Final = "tensorforce.core"
"""Prefix of these classes' modules: in a specification such a class stands for its dotted name."""
_ROOMS: Final = {
    "distributions": (TABLES["distribution"], "Distribution"),
    "layers": (TABLES["layer"], "Layer"),
    "memories": (TABLES["memory"], "Memory"),
    "networks": (TABLES["network"], "Network"),
    "objectives": (TABLES["objective"], "Objective"),
    "optimizers": (TABLES["optimizer"], "Optimizer"),
    "parameters": (PARAMETERS, "Parameter"),
    "policies": (TABLES["policy"], "Policy"),
}
_MORE: Final = {"networks": ("LayerbasedNetwork",), "optimizers": ("MetaOptimizer",)}
"""Names of further classes, by module."""


def _classes(room: str, table: SpecTable, base: str) -> dict[str, type]:
    """The classes of a table, by name."""
    common = type(base, (), {"__module__": f"{__name__}.{room}"})
    names = {name for entry in table.entries.values() for name in entry.classes}
    names |= {"".join(word.capitalize() for word in name.split("_")) for name in [*table.entries, *table.refused]}
    made = {name: type(name, (common,), {"__module__": f"{_PREFIX}.{room}"}) for name in sorted(names)}
    bases = {name: type(name, (common,), {"__module__": f"{__name__}.{room}"}) for name in _MORE.get(room, ())}
    return {base: common, **bases, **made}


for _room, (_table, _base) in _ROOMS.items():
    _module = types.ModuleType(f"{__name__}.{_room}", f"Classes of Tensorforce's {_room}.")
    vars(_module).update(_classes(_room, _table, _base))
    globals()[_room] = sys.modules[_module.__name__] = _module
