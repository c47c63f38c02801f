"""The summarizer: TensorBoard events of an agent, and of its user's own values."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from ....core.checks import did_you_mean
from ....core.protocols import Array
from ....run_dir.files import remove
from ...common.events import Events, scalar
from ..spaces.errors import TensorforceError, integer, number, refuse_unknown
from .companions import AgentCore, Companion, read_keys
from .files import make_directory, stamps, writing
from .parallel import Timestep
from .state import variables
from .summary_labels import GROUPS, METRICS, kind_of, read_labels, tag
from .summary_values import histogram, read_custom

_KEYS: Final = ("directory", "labels", "frequency", "flush", "max-summaries", "custom")
_FUNCTIONS: Final = ("act", "observe", "experience", "update", "variables")
_NAME: Final = re.compile(r"summary-\d{8}-\d{6}")
_WHERE: Final = "Agent.summarize"


class Summarizer(Companion):
    """Writes events to ``<directory>/summary-<YYYYmmdd-HHMMSS>/``.

    ===============  ==========================================================  ===============================
    frequency        labels                                                      over
    ===============  ==========================================================  ===============================
    ``act``          distributions, ``parameters`` of acting                     timesteps
    ``observe``      rewards (counting episodes)                                 timesteps; episodes for returns
    ``update``       losses, entropies, divergences, ``parameters`` of updates,  updates
                     ``update-norm``, ``updates``
    ``variables``    ``variables`` (counting updates)                            updates
    ===============  ==========================================================  ===============================

    ``updates`` are changes of variables since the update before.

    Args:
        where: the agent's class, for messages.
        spec: ``directory``; ``labels``: ``'all'`` (except histograms), or a list; ``frequency``: number of acts between
            writes, or a dictionary by function, of which missing ones are never written; ``flush``, in seconds;
            ``max-summaries``: number of folders to keep; ``custom``: summaries for :func:`summarize`, by name, each
            with a ``type``.
        agent: the agent to summarize.

    Raises:
        TensorforceError: the specification is invalid.
    """

    def __init__(self, where: str, spec: Any, agent: AgentCore) -> None:
        self._place = place = f"{where}: summarizer"
        self._given = given = read_keys(place, spec, _KEYS)
        self._labels = read_labels(f"{place}['labels']", given.get("labels"))
        every, at = given.get("frequency"), f"{place}['frequency']"
        if not isinstance(every, Mapping):
            every = {**dict.fromkeys(_FUNCTIONS, 1), "act": 1 if every is None else every}
        refuse_unknown(at, every, _FUNCTIONS, what="key")
        self._every = {name: integer(f"{at}[{name!r}]", value, at_least=1) for name, value in every.items()}
        """Interval between writes by function; missing functions are never written."""
        self._flush = number(f"{place}['flush']", given.get("flush", 10), above=0)
        self._most = integer(f"{place}['max-summaries']", given.get("max-summaries", 5), at_least=1)
        self._custom = read_custom(f"{place}['custom']", given.get("custom"))
        self._file: Events | None = None
        self._before: dict[str, Array] | None = None
        """Variables before the next update."""
        self._tracks = "update" in self._every and bool(self._labels & {"updates", "updates-histogram"})

    def begin(self, agent: AgentCore) -> None:
        """Open a file in a new folder, and remove the oldest folders."""
        directory = make_directory(self._place, self._given["directory"])
        with writing(self._place, f"{self._place}['directory']", directory):
            for stamp in stamps():
                path = directory / f"summary-{stamp}"
                with contextlib.suppress(FileExistsError):
                    path.mkdir()
                    break
            self._file = Events(path, self._flush)
            found = sorted(path for path in directory.iterdir() if _NAME.fullmatch(path.name) and path.is_dir())
            for path in found[: -self._most]:
                remove(path)

    def summarize(self, agent: AgentCore, summary: Any, value: Any, step: Any) -> None:
        """Write a value at once under a label of ``custom``; ``step`` None is the number of timesteps.

        Raises:
            TensorforceError: there is no such label, or the value does not fit it.
        """
        if not isinstance(summary, str) or summary not in self._custom:
            near, names = did_you_mean(summary, self._custom), ", ".join(self._custom) or "none"
            problem = f"{_WHERE}: the summarizer's custom has no {summary!r}{near}; it has {names}"
            raise TensorforceError(problem, "summary", summary)
        at = agent.timesteps if step is None else integer(f"{_WHERE}: step", step, at_least=0)
        written = self._custom[summary].summary(f"{_WHERE}: value", summary, value)
        if self._file is not None:
            self._file.add(at, [written], at_once=True)

    # -- what happens -------------------------------------------------------------------------------------------------

    def acted(self, agent: AgentCore) -> None:
        """Write distributions and parameters."""
        every, last = self._every.get("act"), agent.acting.last
        if every is None or last is None:
            return
        before = agent.timesteps - len(next(iter(last.features.values())))
        if agent.timesteps // every == before // every:
            return
        values: dict[str, Any] = {}
        if "parameters" in self._labels:
            for kind, levels in zip(("temperature", "exploration"), last.levels, strict=True):
                values |= {f"parameters/{name}-{kind}": float(level) for name, level in levels.items()}
        if self._labels & set(GROUPS["distributions"]):
            values |= self._distributions(agent, agent.acting.chooser.parameters(last))
        self._write(agent.timesteps, values)

    def observed(self, agent: AgentCore, index: int, timestep: Timestep, terminal: int) -> None:
        """Write the timestep's reward."""
        if self._before is None and self._tracks:
            self._before = _variables(agent)
        if self._is_due("observe", agent.episodes + 1):
            values = {"timestep-reward": timestep.reward, "raw-reward": timestep.raw_reward}
            self._write(agent.timesteps, self._wanted_values(values))

    def finished(self, agent: AgentCore, episode_reward: float) -> None:
        """Write the episode's reward."""
        if self._is_due("observe", agent.episodes):
            self._write(agent.episodes, self._wanted_values({"episode-reward": episode_reward}))

    def updated(self, agent: AgentCore) -> None:
        """Write the update's measurements, and variables."""
        learning = agent.learning
        values: dict[str, Any] = {}
        if learning is not None and learning.facts is not None and self._is_due("update", agent.updates):
            facts, memory = learning.facts, learning.memory
            measured = {label: facts.metrics[name] for label, name in METRICS.items() if name in facts.metrics}
            values |= self._wanted_values({"loss": facts.loss, **measured})
            if "parameters" in self._labels:
                fed: dict[str, Any] = dict(memory.hyper)
                fed |= {"reward_estimation/horizon": memory.horizon, "reward_estimation/discount": memory.discount}
                values |= {f"parameters/{path}": float(value) for path, value in fed.items()}
        shows = self._is_due("variables", agent.updates) and bool(self._labels & {"variables", "variables-histogram"})
        now = _variables(agent) if shows or self._tracks else {}
        if shows:
            values |= self._statistics("variables", now)
        if self._before is not None and self._is_due("update", agent.updates):
            values |= self._statistics("updates", {name: now[name] - before for name, before in self._before.items()})
        self._before = now if self._tracks else None
        self._write(agent.updates, values)

    def close(self, agent: AgentCore) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()
            self._file = None

    # -- values -------------------------------------------------------------------------------------------------------

    def _distributions(self, agent: AgentCore, described: Mapping[str, Array]) -> dict[str, Any]:
        """Means over parallel indices for scalar actions; histograms for others."""
        values: dict[str, Any] = {}
        names = list(described)
        for name, spec in agent.actions_values.flat.items():
            own = [query for query in names if query.rpartition("-distribution-")[0] == name]
            kinds = {kind_of(query) for query in own} & self._labels
            for query in own if kinds else []:
                array = described[query]  # [B, *shape], of ints [B, *shape, K]
                if spec.shape:
                    values[f"distributions/{query}"] = array
                elif array.ndim == 1:
                    values[f"distributions/{query}"] = float(array.mean())
                else:
                    means = array.mean(axis=0).tolist()
                    values |= {f"distributions/{query}/{k}": mean for k, mean in enumerate(means)}
        return values

    def _statistics(self, label: str, arrays: Mapping[str, Array]) -> dict[str, Any]:
        values: dict[str, Any] = {}
        for name, array in arrays.items():
            if label in self._labels:
                values[f"{label}/{name}/mean"] = float(array.mean(dtype=np.float64))
                values[f"{label}/{name}/variance"] = float(array.var(dtype=np.float64))
            if f"{label}-histogram" in self._labels:
                values[f"{label}-histogram/{name}"] = array
        return values

    def _is_due(self, function: str, count: int) -> bool:
        every = self._every.get(function)
        return every is not None and count % every == 0

    def _wanted_values(self, values: Mapping[str, float]) -> dict[str, float]:
        """Values with requested labels, by tag."""
        return {tag(label): value for label, value in values.items() if label in self._labels}

    def _write(self, step: int, values: Mapping[str, Any]) -> None:
        """Write one event: numbers, and histograms of arrays."""
        made = [histogram(name, x) if isinstance(x, np.ndarray) else scalar(name, x) for name, x in values.items()]
        if made and self._file is not None:
            self._file.add(step, made)


def _variables(agent: AgentCore) -> dict[str, Array]:
    """The networks' float variables by shown name."""
    networks = re.compile(r"(policy|baseline)/(?!optimizer/)")
    return {name: x for name, x in variables(agent).items() if networks.match(name) and x.dtype.kind == "f"}
