"""Keras weight files as the source of a warm start: matches the layers of a file to those of a run.

Three formats: ``model.keras``, ``model.weights.h5``, and the older ``weights.h5`` of Keras 2, with or without a model
inside.
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
"""Extensions of Keras files."""
_SEEDS: Final = "seed_generator"
"""Keras's name for the state of random generators, which is not a weight."""
_OTHERS: Final = ("metrics", "optimizer")
"""Groups that a compiled model saves beside its layers; names that begin with _ are also such groups."""


class SavedLayer(NamedTuple):
    """A layer with variables in a file.

    Args:
        path: its name, after the names of the enclosing layers: ``"lstm_1/lstm_cell"``.
        variables: names and values; names are empty if the file has none.
    """

    path: str
    variables: list[tuple[str, Array]]


class Fit(NamedTuple):
    """Match of a file with a run: values by the run's names; mismatches by plain names; unused layers."""

    taken: dict[str, Array]
    unfit: dict[str, str]
    unused: list[str]


def read_layers(path: Path) -> list[SavedLayer]:
    """Read the layers of a file; those in a list keep its order.

    Raises:
        CheckpointError: it is not a Keras file, or is damaged.
    """
    import h5py  # a dependency of Keras

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
    except Exception as error:  # zipfile and h5py raise many types for damaged files
        raise CheckpointError(f"{path} cannot be read as a Keras file: {error}") from error


def fit(layers: list[SavedLayer], variables: Mapping[str, Any], able: Collection[str], wanted: str) -> Fit:
    """Match the layers of a file with those of a run, by name, and by order among equal names.

    A layer of the run matches if its path equals or ends with the file's, so that several networks can use the same
    weights.

    Args:
        layers: of the file.
        variables: all variables of the run, in order; each has ``shape``, ``dtype`` and ``trainable``.
        able: names of variables that may take values; so may the other variables of their layers.
        wanted: a regular expression for the names, without numbers, of variables to be taken.
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
                number = f"{len(theirs[same])} layers of this name in the file, {len(ours)} in the run"
                found.unfit.update(dict.fromkeys(names, number))
            elif (paths := [layer.path for layer in theirs[same]]) != sorted(paths, key=_numbers):
                unknown = "several layers of this name, in unknown order: give each a name"
                found.unfit.update(dict.fromkeys(names, unknown))
            else:
                which = f", number {index + 1} of {len(ours)} layers of this name" if len(ours) > 1 else ""
                _fit_layer(theirs[same][index], one, names, variables, found, which)
    found.unused.extend(path for path in theirs if path not in used)
    return found


def _layers_of(variables: Iterable[str], able: Collection[str]) -> dict[str, list[dict[str, str]]]:
    """Layers of a run by path, in order for equal paths; each maps its variables' names to full names."""
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
    """Match the variables of two layers, by name, or by Keras's order if the file has no names."""
    arrays = dict(saved.variables)
    if "" in arrays:
        in_order = sorted(ours, key=lambda name: not variables[ours[name]].trainable)
        values = [value for _, value in saved.variables]
        arrays = dict(zip(in_order, values, strict=False)) if len(values) == len(ours) else {}
    for plain, full in names.items():
        array, variable = arrays.get(plain.rpartition("/")[2]), variables[full]
        if array is None:
            found.unfit[plain] = f"{len(saved.variables)} variables in the file's layer, {len(ours)} in the run's"
        elif array.shape != tuple(variable.shape) or array.dtype != variable.dtype:
            here = f"{variable.dtype.name}{list(variable.shape)}"
            found.unfit[plain] = f"{array.dtype}{list(array.shape)} in the file, {here} in the run{which}"
        else:
            found.taken[full] = array


def _by_walk(group: Any, path: tuple[str, ...]) -> Iterator[SavedLayer]:
    """Layers of Keras 3: nested groups, whose ``vars`` holds the layer's name and its variables by number."""
    variables = group.get("vars", {})
    if len(variables):
        name = "/".join(path) or variables.attrs.get("name", "")  # the model's, for its own variables
        yield SavedLayer(name, [("", variables[key][()]) for key in sorted(variables, key=_numbers)])
    for key in sorted(group, key=_numbers):
        is_other = not path and (key in _OTHERS or key.startswith("_"))
        if key in ("vars", _SEEDS) or is_other or not hasattr(group[key], "keys"):
            continue
        inside = group[key].get("vars")
        names = () if inside is None else (str(inside.attrs.get("name", key)),)  # without a name: a list of layers
        yield from _by_walk(group[key], (*path, *names))


def _by_names(group: Any, layers: list[str]) -> Iterator[SavedLayer]:
    """Layers of Keras 2: a group for each, in the network's order, with the names of its variables."""
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
    """Read a list of names, which is split over several attributes if long."""
    parts = [group.attrs.get(name, ())]
    while f"{name}{len(parts) - 1}" in group.attrs:
        parts.append(group.attrs[f"{name}{len(parts) - 1}"])
    return [one.decode() if isinstance(one, bytes) else str(one) for part in parts for one in part]


def _numbers(key: str) -> list[tuple[str, int]]:
    """Sort key that puts ``dense_10`` after ``dense_2``."""
    return [(text, int(digits or -1)) for text, digits in re.findall(r"(\D*)(\d*)", key)]
