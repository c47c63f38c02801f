"""Weights in files of Keras, as the source of a warm start: which layer of a file is which of a run.

Three formats: ``model.keras``, ``model.weights.h5``, and the older ``weights.h5`` of Keras 2, with a model or without.
"""

from __future__ import annotations

import io
import re
import zipfile
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from ..core.errors import CheckpointError
from ..core.protocols import Array
from ..policies.modes import relative_name

SUFFIXES: Final = (".keras", ".h5", ".hdf5")
"""Of files that Keras writes."""
_SEEDS: Final = "seed_generator"
"""What Keras calls a state of its random numbers, which is no weight."""
_OTHERS: Final = ("metrics", "optimizer")
"""What a compiled model saves beside its layers, and whatever begins with _."""


class SavedLayer(NamedTuple):
    """A layer with variables, in a file.

    Args:
        path: its name behind those of the layers that it is in: ``"lstm_1/lstm_cell"``.
        variables: names and values; the names are empty where the file has none.
    """

    path: str
    variables: list[tuple[str, Array]]


class Fit(NamedTuple):
    """What of a file fits a run: values by the run's names; what does not, by plain names; layers that nobody takes."""

    taken: dict[str, Array]
    unfit: dict[str, str]
    unused: list[str]


def read_layers(path: Path) -> list[SavedLayer]:
    """The layers in a file. Those in one list are in its order.

    Raises:
        CheckpointError: it is not a file of Keras, or it is damaged.
    """
    import h5py  # comes with Keras

    try:
        held: Any = path
        if path.suffix == ".keras":
            with zipfile.ZipFile(path) as archive:
                held = io.BytesIO(archive.read("model.weights.h5"))
        with h5py.File(held, "r") as file:
            group = file.get("model_weights", file)
            named = _attribute(group, "layer_names")
            layers = list(_by_names(group, named) if named else _by_walk(group, ()))
        if not layers:
            raise ValueError("it has no layer with variables")
        return layers
    except Exception as error:  # what zipfile and h5py raise on damage is of a dozen types
        raise CheckpointError(f"{path} cannot be read as a file of Keras: {error}") from error


def fit(layers: list[SavedLayer], variables: Mapping[str, Any], able: Collection[str], wanted: str) -> Fit:
    """Compare the layers of a file with those of a run, by their names, and those of equal names by their order.

    A layer of the run has the path of the file's, or a longer one: each of its networks may take the file's weights.

    Args:
        layers: of the file.
        variables: all of the run's, in order; each has ``shape``, ``dtype`` and ``trainable``.
        able: those which may take something, and so may what else their layers have.
        wanted: a regular expression that the names of variables to be taken must match, without their numbers.
    """
    theirs: dict[str, list[SavedLayer]] = {}
    for layer in layers:
        theirs.setdefault(relative_name("", layer.path), []).append(layer)
    found, used = Fit({}, {}, []), set[str | None]()
    for path, ours in _layers_of(variables, able).items():
        behind = [path.split("/")[start:] for start in range(path.count("/") + 1)]
        same = next((joined for parts in behind if (joined := "/".join(parts)) in theirs), None)
        used.add(same)
        for index, one in enumerate(ours):
            names = {f"{path}/{name}".lstrip("/"): full for name, full in one.items()}
            names = {plain: full for plain, full in names.items() if re.fullmatch(wanted, plain)}
            if same is None:
                found.unfit.update(dict.fromkeys(names, "not in the file"))
            elif len(theirs[same]) != len(ours):
                number = f"{len(theirs[same])} layers of this name there, and {len(ours)} here"
                found.unfit.update(dict.fromkeys(names, number))
            elif (paths := [layer.path for layer in theirs[same]]) != sorted(paths, key=_numbers):
                unknown = "several layers of this name, whose order the file does not tell: give each a name"
                found.unfit.update(dict.fromkeys(names, unknown))
            else:
                which = f", number {index + 1} of {len(ours)} layers of this name" if len(ours) > 1 else ""
                _fit_layer(theirs[same][index], one, names, variables, found, which)
    found.unused.extend(path for path in theirs if path not in used)
    return found


def _layers_of(variables: Iterable[str], able: Collection[str]) -> dict[str, list[dict[str, str]]]:
    """Layers of a run by their paths, those of one path in order; each has the full names of its variables by name."""
    layers: dict[str, list[dict[str, str]]] = {}
    for full in variables:
        path, _, name = full.partition(".")[2].rpartition("/")
        if path.rpartition("/")[2] == _SEEDS:
            continue
        same = layers.setdefault(path, [])
        if not same or name in same[-1]:
            same.append({})
        same[-1][name] = full
    taking = {
        path: [one for one in same if any(full in able for full in one.values())] for path, same in layers.items()
    }
    return {path: same for path, same in taking.items() if same}


def _fit_layer(
    saved: SavedLayer,
    ours: Mapping[str, str],
    names: Mapping[str, str],
    variables: Mapping[str, Any],
    found: Fit,
    which: str,
) -> None:
    """Compare the variables of two layers, by their names or, where the file has none, by Keras' order."""
    arrays = dict(saved.variables)
    if "" in arrays:
        in_order = sorted(ours, key=lambda name: not variables[ours[name]].trainable)
        values = [value for _, value in saved.variables]
        arrays = dict(zip(in_order, values, strict=False)) if len(values) == len(ours) else {}
    for plain, full in names.items():
        array, variable = arrays.get(plain.rpartition("/")[2]), variables[full]
        if array is None:
            found.unfit[plain] = f"{len(saved.variables)} variables in the layer there, and {len(ours)} here"
        elif array.shape != tuple(variable.shape) or array.dtype != variable.dtype:
            here = f"{variable.dtype.name}{list(variable.shape)}"
            found.unfit[plain] = f"{array.dtype}{list(array.shape)} there and {here} here{which}"
        else:
            found.taken[full] = array


def _by_walk(group: Any, path: tuple[str, ...]) -> Iterator[SavedLayer]:
    """Layers of Keras 3: groups within groups, whose ``vars`` has the layer's name, and its variables by number."""
    variables = group.get("vars", {})
    if len(variables):
        name = "/".join(path) or variables.attrs.get("name", "")  # the model's, of variables of its own
        yield SavedLayer(name, [("", variables[key][()]) for key in sorted(variables, key=_numbers)])
    for key in sorted(group, key=_numbers):
        is_other = not path and (key in _OTHERS or key.startswith("_"))
        if key in ("vars", _SEEDS) or is_other or not hasattr(group[key], "keys"):
            continue
        inside = group[key].get("vars")
        names = () if inside is None else (str(inside.attrs.get("name", key)),)  # without: a list of layers
        yield from _by_walk(group[key], (*path, *names))


def _by_names(group: Any, layers: list[str]) -> Iterator[SavedLayer]:
    """Layers of Keras 2: a group for each in the order of the network, with the names of its variables."""
    for layer in layers:
        found: dict[str, list[tuple[str, Array]]] = {}
        for weight in _attribute(group[layer], "weight_names"):
            *parts, name = weight.partition(":")[0].split("/")
            inside = parts[parts.index(layer) + 1 :] if layer in parts else parts
            if inside[-1:] != [_SEEDS]:
                path = "/".join([layer, *inside])
                found.setdefault(path, []).append((relative_name("", name), group[layer][weight][()]))
        yield from (SavedLayer(path, variables) for path, variables in found.items())


def _attribute(group: Any, name: str) -> list[str]:
    """A list of names, which is in several attributes if it is long."""
    parts = [group.attrs.get(name, ())]
    while f"{name}{len(parts) - 1}" in group.attrs:
        parts.append(group.attrs[f"{name}{len(parts) - 1}"])
    return [one.decode() if isinstance(one, bytes) else str(one) for part in parts for one in part]


def _numbers(key: str) -> list[tuple[str, int]]:
    """Sorts ``dense_10`` behind ``dense_2``."""
    return [(text, int(digits or -1)) for text, digits in re.findall(r"(\D*)(\d*)", key)]
