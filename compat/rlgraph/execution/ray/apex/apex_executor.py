"""ApexExecutor: distributed prioritized experience replay on Ray (Horgan et al. 2018, arXiv:1803.00933)."""

from __future__ import annotations

import importlib.util
import shutil
import socket
import tempfile
import warnings
import weakref
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from ......core.tensorflow_import import load_tensorflow
from ....utils import rlgraph_errors as checks
from ....utils.rlgraph_errors import RLGraphError, RLGraphWarning, choice, integer, refuse, translate_errors
from .plan import WHERE, read_plan
from .results import Report, Results

if TYPE_CHECKING:
    from ......estimators.agent import Agent

_RAY, _INLINE = "ray", "inline"
_WORKLOAD: Final = ("num_timesteps", "report_interval", "report_interval_min_seconds")
_LEGACY: Final = ("127.0.0.1:6379", "localhost:6379")
"""Redis addresses in RLgraph's examples, at which there may be no cluster."""
_REACH_S: Final = 1.0


class ApexExecutor:
    """Trains an ApexAgent with several processes: workers, replay memories, and one learner in this process.

    There is one update per ``update_spec["update_interval"]`` timesteps, regardless of speed. The target network is
    copied each time ``update_spec["sync_interval"]`` records were learned from. Each environment of each worker has its
    own epsilon, from 0.4 down to 0.4^8; if ``worker_spec["ray_constant_exploration"]`` is False, all follow
    ``exploration_spec``.

    Args:
        environment_spec: a specification for ``Environment.from_spec``, as data: no environment and no lambda.
        agent_config: arguments of :class:`ApexAgent`, a dictionary or a file. ``execution_spec`` may have ``ray_spec``
            with ``executor_spec``, ``worker_spec`` and ``apex_replay_spec``. It is not changed.
        backend: ``"ray"``, or ``"inline"``: everything in this process, one after another. Runs are then reproducible
            with a seed, and Ray is not needed.

    Attributes:
        state_space: space of the environment's states.
        action_space: space of its actions.
        form: the normal form of ``agent_config``: every specification with all its defaults.

    Raises:
        RLGraphError: an argument is invalid, or does not fit another.
    """

    def __init__(self, environment_spec: Any, agent_config: Any, *, backend: str = _RAY) -> None:
        self._backend = choice(f"{WHERE}: backend", backend, (_RAY, _INLINE))
        self._plan = read_plan(environment_spec, agent_config)
        self.state_space, self.action_space = self._plan.state_space, self._plan.action_space
        self.form = self._plan.form
        self._results = Results(self._plan.workers, self._plan.width)
        self._agent: Agent | None = None
        self._address: str | None = None
        self._is_ready = self._is_terminated = False
        self._clean: Any = None

    # -- life ---------------------------------------------------------------------------------------------------------

    def init_ray(self) -> None:
        """Check that Ray is installed. Workloads do this themselves.

        Each workload joins the cluster at ``executor_spec["redis_address"]`` and leaves it afterwards, or starts one on
        this machine and stops it afterwards.

        Raises:
            RLGraphError: Ray is not installed.
        """
        self._begin("init_ray")
        if self._is_ready or self._backend == _INLINE:
            return
        if importlib.util.find_spec("ray") is None:
            message = f"{WHERE}.init_ray: Ray is not installed: pip install 'axonrl[ray]', or use backend='inline'"
            raise RLGraphError(message, "backend", self._backend)
        address = self._plan.executor["redis_address"]
        if address in _LEGACY and not _answers(address):
            text = f"{WHERE}: executor_spec['redis_address'] {address!r} is that of RLgraph's examples"
            warnings.warn(f"{text}: nothing answers there, so a local cluster is started", RLGraphWarning, stacklevel=3)
            address = None
        with translate_errors(WHERE):
            self._cluster_with(address)
        self._address, self._is_ready = address, True

    def setup_execution(self) -> None:
        """Create the learning agent. Workloads do this themselves."""
        self._begin("setup_execution")
        if self._agent is not None:
            return
        load_tensorflow()
        from ......core.protocols import RunConfig
        from ......estimators.agent import Agent
        from ......memories import Prioritized, ReplayMemory
        from ....model.apex import model_fn

        form, memory = self.form, self.form["memory_spec"]
        with translate_errors(WHERE):
            replay = ReplayMemory(
                self._plan.size,
                form["update_spec"]["batch_size"],
                discount=form["discount"],
                n_step=form["observe_spec"]["n_step"],
                sampler=Prioritized(memory["alpha"], memory["beta"]),
            )
            seed = form["execution_spec"]["seed"]
            config = RunConfig(seed=seed, progress=False, save_checkpoints_secs=None)
            folder = tempfile.mkdtemp(prefix="axonrl-apex-")
            self._clean = weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
            self._agent = Agent(model_fn, replay, folder, config, self._plan.params())

    def terminate(self) -> None:
        """Terminate the executor and discard the agent: every later call except this one is an error."""
        self._is_terminated = True
        self._agent = None
        if self._clean is not None:
            self._clean()

    def __enter__(self) -> ApexExecutor:
        return self

    def __exit__(self, *_: object) -> None:
        self.terminate()

    # -- working ------------------------------------------------------------------------------------------------------

    @property
    def agent(self) -> Agent:
        """The learner, an :class:`axonrl.Agent`, for access to weights, export and evaluation."""
        self._begin("agent")
        self.setup_execution()
        assert self._agent is not None
        return self._agent

    local_agent = agent

    def execute_workload(self, workload: Any) -> dict[str, Any]:
        """Train for a number of timesteps; later workloads continue where this one ends.

        Args:
            workload: ``num_timesteps``, summed over all environments; ``report_interval``, timesteps between log lines
                (10,000), which are at least ``report_interval_min_seconds`` (0) apart.

        Returns:
            ``runtime`` (seconds), ``timesteps_executed`` (whole unrolls of ``num_worker_samples``),
            ``ops_per_second``, ``env_frames``, ``env_frames_per_second``, ``num_updates`` and others; over the episodes
            that ended in this workload ``num_episodes``, ``mean_worker_reward`` (mean of the workers' mean returns),
            ``max_worker_reward`` and ``min_worker_reward`` (returns of single episodes), and ``mean_final_reward``
            (mean return of each worker's last episode); NaN without episodes.

        Raises:
            RLGraphError: an argument is invalid, Ray is not installed, or the cluster cannot be used.
        """
        place = self._begin("execute_workload")
        given = checks.mapping(f"{place}: workload", workload)
        checks.refuse_unknown(f"{place}: workload", given, _WORKLOAD, what="key")
        if "num_timesteps" not in given:
            refuse(f"{place}: workload['num_timesteps']", "is missing", workload)
        timesteps = integer(f"{place}: workload['num_timesteps']", given["num_timesteps"], at_least=1)
        interval = integer(f"{place}: workload['report_interval']", given.get("report_interval", 10_000), at_least=1)
        at_least = given.get("report_interval_min_seconds", 0)
        seconds = checks.number(f"{place}: workload['report_interval_min_seconds']", at_least, at_least=0)
        self.init_ray()
        agent = self.agent
        report = Report(self._plan.workers, self._plan.worker["frame_skip"], timesteps, interval, seconds)
        self._results.report = report
        with translate_errors(WHERE):
            from ......distributed.environment_recipes import EnvironmentRecipe

            plan, cluster = self._plan, self._cluster_with(self._address)
            recipe: Any = EnvironmentRecipe(plan.factory, rewards=np.sign if plan.replay["clip_rewards"] else None)
            more: Any = {"hooks": [self._results], "timesteps": timesteps, "cluster": cluster}
            agent.train(recipe, plan.first_update, plan.update_frequency, **more)
        return report.result(agent)

    def result_by_worker(self, worker_index: int | str | None = None) -> dict[str, list[list[float]]]:
        """The episodes of one worker, over all workloads.

        Args:
            worker_index: its index, or its name from :meth:`get_sample_worker_ids`; None: the first.

        Returns:
            An entry of :meth:`get_all_worker_results`.
        """
        place = f"{self._begin('result_by_worker')}: worker_index"
        names = self.get_sample_worker_ids()
        if isinstance(worker_index, str):
            worker_index = names.index(choice(place, worker_index, names))
        index = integer(place, 0 if worker_index is None else worker_index, at_least=0)
        if index >= len(names):
            refuse(place, f"must be less than the number of workers, {len(names)}; got {index}", worker_index)
        return self._results.of_worker(index)

    def get_all_worker_results(self) -> list[dict[str, list[list[float]]]]:
        """The episodes of all workers, over all workloads.

        Returns:
            For each worker ``episode_timesteps``, ``episode_rewards``, ``episode_total_times`` and
            ``episode_sample_times`` (both in seconds from the first to the last timestep): each a list per environment.
        """
        return [self.result_by_worker(name) for name in self.get_sample_worker_ids()]

    def get_sample_worker_ids(self) -> list[str]:
        """Names of the workers."""
        self._begin("get_sample_worker_ids")
        return [f"worker_{index}" for index in range(self._plan.workers)]

    # -- inside -------------------------------------------------------------------------------------------------------

    def _begin(self, method: str) -> str:
        if self._is_terminated:
            raise RLGraphError(f"{WHERE}.{method}: the executor is terminated", method)
        return f"{WHERE}.{method}"

    def _cluster_with(self, address: str | None) -> Any:
        from ......distributed import Cluster

        return Cluster(**self._plan.cluster(self._backend, address))


def _answers(address: str) -> bool:
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host, int(port)), _REACH_S).close()
    except OSError:
        return False
    return True
