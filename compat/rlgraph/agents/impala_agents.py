"""IMPALAAgent and SingleIMPALAAgent."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Final, NoReturn

from ...common.exclusion import exclusive
from ..processing.preprocessors import Preprocessor
from ..spaces import FloatBox, Space, Tuple, space_of
from ..spaces.readers import read_rewards
from ..specs.impala import PREVIOUS_REWARD, argument_of
from ..utils.rlgraph_errors import refuse
from .acting import Perception, checked_id
from .agent import Agent
from .api_methods import refused_method
from .core import Core
from .fifo_queue import FIFOQueue
from .impala_core import FEEDS, ImpalaCore
from .own_environments import OwnEnvironments, PolicyLoop
from .results import Loss

_OBSERVE: Final = "is not supported: this agent steps its own environments; see update(), or type='actor'"


class IMPALAAgent(Agent):
    """An actor-critic that steps its own environments and learns from whole unrolls, corrected by V-trace.

    ``type`` is its role. A ``single`` agent acts and learns: each ``update()`` steps the environments and learns. An
    ``actor`` fills ``fifo_queue`` with ``call_api_method("perform_n_steps_and_insert_into_fifo")``; a ``learner`` with
    ``fifo_queue_spec=actor.fifo_queue`` empties it with ``update()``; weights are copied with ``get_policy_weights``
    and ``set_policy_weights``. A learner's ``timesteps`` are those it has learnt from.

    An unroll is a dictionary of one environment's T = ``worker_sample_size`` timesteps:

    - ``states`` [T + 1, ...], preprocessed; the first is equal to the last of the unroll before;
    - ``terminals`` bool [T]: the next state is that of a new episode; ``truncated`` bool [T]: ended by a time limit;
    - ``actions`` int32 [T, ...], from 0, and ``rewards`` float32 [T], unclipped;
    - ``action_probs`` float32 [T, ..., A] of the behaviour policy, and ``log_probs`` float32 [T] of the actions;
    - ``initial_internal_states``: the lstm's state before the first timestep, two arrays [units]; else ();
    - ``final_values`` float32 [T]: where an episode was cut, the actor's value of its last state;
    - ``previous_actions`` (-1: none) and ``previous_rewards`` [T + 1], if the network takes them.

    Args:
        discount: discount factor of rewards.
        fifo_queue_spec: ``{"capacity": 1}`` for an actor, a capacity of one batch for a learner, by default; or the
            queue of another agent in this process. No effect, with a warning, on a single agent, which has its own.
        architecture: network for images if ``network_spec`` is None: ``small`` or ``large``.
        environment_spec: a specification for ``Environment.from_spec``.
        weight_pg: weight of the policy loss; None is 1.
        weight_baseline: weight of the value loss, half the squared error; None is 0.5.
        weight_entropy: weight of the entropy; None is 0.00025.
        worker_sample_size: T, timesteps per unroll.
        dynamic_batching: no effect, with a warning.
        num_workers: number of environments; also called ``num_actors``.
        feed_previous_action_through_nn: feed the previous action, one-hot, to the lstm, if there is one.
        feed_previous_reward_through_nn: feed the previous reward, clipped, to the lstm, if there is one.
        reward_clipping: clipping of rewards in the loss: ``clamp_one`` (to -1 .. 1), ``soft_asymmetric`` or None.
        type: role: ``single``, ``actor`` or ``learner``.
        **kwargs: see :class:`Agent`; spaces follow from the environments. ``update_spec["batch_size"]`` counts
            unrolls, 16 by default. ``observe_spec`` has no effect, with a
            warning.
    """

    kind: ClassVar[str] = "impala"
    core_class: ClassVar[type[Core]] = ImpalaCore
    may_differ: ClassVar[tuple[str, ...]] = ("memory_spec",)  # a queue of another capacity also works
    default_environment_spec: ClassVar[Mapping[str, Any]] = {
        "type": "deepmind_lab",
        "level_id": "seekavoid_arena_01",
        "observations": ["RGB_INTERLEAVED", "INSTR"],
        "frameskip": 4,
    }
    """RLgraph's default environment. It needs DeepMind Lab, which is not supported."""
    default_internal_states_space: ClassVar[Space] = Tuple(FloatBox(shape=(256,)), FloatBox(shape=(256,)))
    """Space of the LSTM's state, in both architectures."""

    _environments: OwnEnvironments | None = None
    _stepper: PolicyLoop | None = None

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        try:
            super().__init__(*args, **kwargs)
        except BaseException:
            self._close()
            raise

    @property
    def type(self) -> str:
        """``single``, ``actor`` or ``learner``."""
        return str(self.form["type"])

    @property
    def fifo_queue(self) -> FIFOQueue:
        """Queue of unrolls that wait for an update."""
        return self.impala_core.memory

    @property
    def impala_core(self) -> ImpalaCore:
        """The core of IMPALA."""
        core = self.core
        assert isinstance(core, ImpalaCore)
        return core

    # -- acting -------------------------------------------------------------------------------------------------------

    @exclusive
    def get_action(  # type: ignore[override]
        self,
        states: Any,
        internal_states: Any = None,
        use_exploration: bool = True,
        extra_returns: Any = None,
        *,
        internals: Any = None,
        apply_preprocessing: bool = True,
        env_ids: Any = None,
        previous_rewards: Any = None,
    ) -> Any:
        """An action for a state, or a batch of actions for a batch of states: see :meth:`Agent.get_action`.

        Args:
            states: a state of ``state_space``, or a batch with a leading axis.
            internal_states: used but not stored; None: those of the previous act, zeros after :meth:`reset`.
            use_exploration: False: the likeliest action, without random draws.
            extra_returns: names of extras to return.
            internals: the same as ``internal_states``.
            apply_preprocessing: False: states are preprocessed already.
            env_ids: the environment of each state.
            previous_rewards: rewards of the previous actions, only for networks that take them; None: zeros. The
                previous actions are the agent's own, none after :meth:`reset`.
        """
        where, core = self.begin("get_action"), self.impala_core
        if internals is not None and internal_states is not None:
            refuse(f"{where}: internals", "and internal_states are two names of one argument", internals)
        held = internal_states if internals is None else internals
        if previous_rewards is not None:
            if PREVIOUS_REWARD not in core.fed:
                refuse(f"{where}: previous_rewards", "must be None: the network does not take them", previous_rewards)
            arrays, single = self.perception.read("get_action", states, apply_preprocessing is True)
            count = None if single else len(next(iter(arrays.values())))
            core.previous_rewards = read_rewards(f"{where}: previous_rewards", previous_rewards, count)
        try:
            return self.act(states, held, use_exploration, apply_preprocessing, extra_returns, env_ids)
        finally:
            core.previous_rewards = None

    @exclusive
    def reset(self, env_id: str | None = None) -> None:
        """See :meth:`Agent.reset`; the agent's environments are not reset."""
        where = self.begin("reset")
        self.perception.forget(None if env_id is None else checked_id(where, env_id))
        self.impala_core.forget_actions(env_id)

    @property
    def episode_returns(self) -> list[float]:
        """Returns of the last 100 episodes in the agent's environments, newest last."""
        return [] if self._stepper is None else list(self._stepper.episode_returns)

    def observe(self, *_: Any, **__: Any) -> NoReturn:
        """Not supported: the agent steps its own environments."""
        refuse(self.begin("observe"), _OBSERVE)

    def import_observations(self, observations: Any) -> NoReturn:
        """Not supported: the agent steps its own environments."""
        refuse(self.begin("import_observations"), _OBSERVE, observations)

    @exclusive
    def update(self, batch: Any = None) -> Loss:
        """Learn once from ``update_spec["batch_size"]`` unrolls.

        A single agent steps its environments until it has enough unrolls; a learner takes them from its queue.

        Args:
            batch: must be None.

        Returns:
            The mean loss of the unrolls: a float that also unpacks into the number of the update, the loss,
            ``loss_per_item`` float32 [B] (summed over time), and the unrolls as one dictionary of arrays [B, ...].

        Raises:
            RLGraphError: a batch is given, the agent is an actor, or the queue has too few unrolls.
        """
        where = self.begin("update")
        if batch is not None:
            refuse(f"{where}: batch", "must be None: this agent learns from unrolls, not from given batches", batch)
        if self.type == "actor":
            refuse(where, "is for type 'single' or 'learner': an actor only fills its queue", self.type)
        core = self.impala_core
        while self.type == "single" and not core.can_update():
            self._perform(f"{type(self).__name__}.update")
        if self.type == "learner" and core.can_update():
            self.timesteps += core.batch_size * core.length
        loss: Loss = super().update()
        return loss

    def export_graph(self, filename: Any) -> str:
        """See :meth:`Agent.export_graph`; the network must not take previous actions or rewards."""
        where = self.begin("export_graph")
        for name in self.impala_core.fed:
            refuse(f"{where}: {FEEDS[name][0]}", "must be False: an exported policy takes states only", True)
        return super().export_graph(filename)

    def terminate(self) -> None:
        """See :meth:`Agent.terminate`; environments made for the agent are terminated."""
        try:
            super().terminate()
        finally:
            self._close()

    # -- environments -------------------------------------------------------------------------------------------------

    def _complete_arguments(self, where: str) -> None:
        given = self.arguments
        spec, role, queue = given["environment_spec"], argument_of(where, given, "type"), given["fifo_queue_spec"]
        if not (queue is None or isinstance(queue, str | Mapping | FIFOQueue)):
            problem = "must be a dictionary such as {'capacity': 1}, or the fifo_queue of another agent"
            refuse(f"{where}: fifo_queue_spec", f"{problem}; got {queue!r:.200}", queue)
        if spec is None and role != "learner":
            problem = f"is missing: type {role!r} steps environments, such as"
            refuse(f"{where}: environment_spec", f"{problem} {{'type': 'openai', 'gym_env': 'CartPole-v1'}}", None)
        if spec is not None:
            count = 1 if role == "learner" else argument_of(where, given, "num_workers")
            self._environments = OwnEnvironments(f"{where}: environment_spec", spec, count)
            for name in ("state_space", "action_space"):
                own = getattr(self._environments.all[0], name)
                if given[name] is not None and space_of(f"{where}: {name}", given[name]) != own:
                    refuse(f"{where}: {name}", f"differs from the environments', {own!r}", given[name])
                given[name] = own
            if role == "learner":  # only its spaces were needed
                self._close()
        for name in ("state_space", "action_space"):
            if given[name] is None:
                refuse(f"{where}: {name}", "is missing: a learner needs both spaces, or environment_spec", None)

    def _make_core(self) -> Core:
        where, core = type(self).__name__, super()._make_core()
        assert isinstance(core, ImpalaCore)
        shared = self.arguments["fifo_queue_spec"]
        if isinstance(shared, FIFOQueue):
            shared.check(f"{where}: fifo_queue_spec", core.layout)
            core.memory = shared
        elif self.type == "single":
            core.memory.capacity = core.batch_size + self.form["num_workers"] - 1
        if self._environments is not None:
            spec, boxes = self.arguments["preprocessing_spec"], self.state_space.flat()
            preprocessor = Preprocessor(f"{where}: preprocessing_spec", spec, boxes)
            look = Perception(where, self.state_space, self.preprocessed_state_space, preprocessor)
            self._environments.seed(self.seed, 2)
            self._stepper = PolicyLoop(self, self._environments, look, core)
        return core

    def _stepping(self, where: str) -> PolicyLoop:
        if self._stepper is None:
            refuse(where, f"needs environments, which type {self.type!r} does not have: use type='actor'", self.type)
        return self._stepper

    def _perform(self, where: str) -> None:
        """Put one unroll of each environment into the queue."""
        stepper, queue = self._stepping(where), self.fifo_queue
        queue.check_room(where, self.form["num_workers"])
        queue.unrolls += stepper.run()

    def _close(self) -> None:
        if self._environments is not None:
            self._environments.terminate()
        self._environments = None

    define_api_methods_actor = refused_method("define_api_methods_actor")
    define_api_methods_learner = refused_method("define_api_methods_learner")
    define_api_methods_single = refused_method("define_api_methods_single")
    define_graph_api_actor = refused_method("define_graph_api_actor")
    define_graph_api_learner = refused_method("define_graph_api_learner")

    # -- API methods and files ----------------------------------------------------------------------------------------

    def _api_methods(self) -> dict[str, Callable[..., Any]]:
        where = f"{type(self).__name__}.call_api_method"
        return {
            **super()._api_methods(),
            "get_queue_size": lambda: len(self.fifo_queue),
            "setup_queue_runner": lambda: None,
            "reset": lambda: self._stepping(where).reset(),
            "perform_n_steps_and_insert_into_fifo": lambda: self._perform(where),
        }

    @exclusive
    def load_model(self, path: Any) -> None:
        """See :meth:`Agent.load_model`. Environments cannot be saved: new episodes begin, with new seeds.

        Two agents that load the same checkpoint continue identically, bit for bit.
        """
        super().load_model(path)

    def state_dict(self) -> dict[str, Any]:
        """See ``Agent.state_dict``."""
        return {**super().state_dict(), "seed": self.seed, "episode_returns": self.episode_returns}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """See ``Agent.load_state_dict``."""
        super().load_state_dict(state)
        self.seed = state["seed"]
        if self._stepper is not None and self._environments is not None:
            self._stepper.episode_returns.clear()
            self._stepper.episode_returns.extend(state["episode_returns"])
            self._environments.seed(self.seed, 2, self.timesteps)
            self._stepper.forget()


class SingleIMPALAAgent(IMPALAAgent):
    """IMPALAAgent of type ``single``.

    Args:
        num_workers: number of environments.
        worker_sample_size: timesteps per unroll.
        **kwargs: arguments of :class:`IMPALAAgent`, except ``type``.
    """

    kind: ClassVar[str] = "single_impala"
