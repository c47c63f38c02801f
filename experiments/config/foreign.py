"""Keys of other libraries, and axonrl's keys in the wrong section, with the intended key."""

from __future__ import annotations

import dataclasses
import functools
import re
from collections.abc import Collection, Iterable, Mapping
from typing import Final

ELSEWHERE: Final[Mapping[str, str]] = {
    "environment.id": "env env_id env_name environment_id environment_name gym_id game level",
    "environment.num_envs": "num_envs n_envs n_env num_environments parallel_envs parallel_interactions vector_size",
    "environment.kwargs": "env_kwargs env_config env_args",
    "environment.kwargs.max_episode_steps": "max_episode_steps max_episode_timesteps max_steps_per_episode max_ep_len",
    "environment.wrappers": "wrappers env_wrapper env_wrappers",
    "environment.wrappers: [normalize_observation, normalize_reward]": "normalize normalize_kwargs norm_obs"
    " norm_reward vec_normalize observation_filter",
    "environment.vectorization": "vectorization vec_env vec_env_class",
    "agent.model_fn": "algo algorithm alg run model model_fn agent_type agent_class",
    "agent.params": "hyperparams hyperparameters hparams policy_kwargs model_kwargs model_params agent_kwargs"
    " algo_config",
    "agent.params.network": "policy policy_type network_type",
    "agent.params.hidden": "policy net_arch hiddens hidden_size hidden_sizes hidden_dim hidden_layers fcnet_hiddens"
    " layers units network_spec q_hiddens graph_fn",
    "agent.params.activation": "activation_fn activation_function fcnet_activation nonlinearity",
    "agent.params.learning_rate": "lr step_size adam_lr lr_schedule learning_rate_schedule policy_lr actor_lr pi_lr"
    " q_lr",
    "agent.params.critic_learning_rate": "critic_lr qf_lr q_lr",
    "agent.params.value_learning_rate": "vf_lr value_lr baseline_lr",
    "agent.params.optimizer": "optim optimiser optimizer_class optimizer_spec",
    "agent.params.optimizer_epsilon": "adam_eps adam_epsilon optimizer_eps rms_prop_eps",
    "agent.params.max_gradient_norm": "max_grad_norm grad_clip grad_clip_norm grad_norm_clip clip_grad_norm"
    " gradient_clip gradient_clipping clip_gradients",
    "agent.params.epsilon (a number or a schedule)": "epsilon_greedy eps_greedy exploration_fraction"
    " exploration_initial_eps exploration_final_eps start_e end_e eps_start eps_end eps_decay epsilon_start"
    " epsilon_end epsilon_decay epsilon_timesteps epsilon_initial epsilon_final initial_epsilon final_epsilon"
    " epsilon_spec exploration_config exploration_spec",
    "agent.params.sigma": "action_noise act_noise noise_std noise_type noise_sigma expl_noise exploration_noise",
    "agent.params.target_update_rate": "tau polyak soft_tau target_tau soft_update_tau target_update_weight",
    "agent.params.target_update_period": "target_update target_update_interval target_update_frequency"
    " target_update_freq target_network_frequency target_network_update_freq target_network_update_frequency"
    " target_sync_frequency sync_interval",
    "agent.params.double": "double_q double_dqn use_double",
    "agent.params.dueling": "dueling_q dueling_dqn dueling_network use_dueling",
    "agent.params.noisy": "noisy_net noisy_nets noisynet",
    "agent.params.quantiles": "n_quantiles num_quantiles",
    "agent.params.atoms": "n_atoms num_atoms",
    "agent.params.entropy_coefficient": "ent_coef ent_coeff entropy_coef entropy_coeff entropy_beta"
    " entropy_regularization",
    "agent.params.initial_temperature": "ent_coef ent_coef_init initial_alpha",
    "agent.params.value_coefficient": "vf_coef vf_coeff vf_loss_coeff value_coef value_loss_coef baseline_weight",
    "agent.params.clip": "clip_range clip_coef clip_param clip_ratio clip_epsilon likelihood_ratio_clipping",
    "agent.params.value_clip": "clip_range_vf vf_clip_param clip_vloss",
    "agent.params.gae_lambda": "lambda lambda_ lam gae lambda_gae td_lambda",
    "agent.params.epochs": "n_epochs num_epochs num_sgd_iter update_epochs ppo_epochs train_epochs optimization_steps",
    "agent.params.normalize_advantages": "normalize_advantage norm_adv standardize_advantages",
    "agent.params.max_kl": "target_kl kl_target",
    "agent.params.policy_delay": "policy_freq policy_frequency actor_update_interval",
    "agent.params.smoothing": "target_policy_noise policy_noise target_noise",
    "agent.params.smoothing_clip": "target_noise_clip noise_clip",
    "agent.params.random_timesteps": "random_timesteps random_steps n_random_timesteps",
    "agent.params.updates": "gradient_steps utd_ratio",
    "agent.params.state_dependent_exploration": "use_sde gsde",
    "agent.params.sde_resample_every": "sde_sample_freq",
    "agent.params.lstm": "use_lstm lstm_size lstm_units lstm_cell_size lstm_hidden_size n_lstm",
    "agent.memory": "memory memory_spec replay replay_buffer replay_buffer_class replay_buffer_config replay_memory"
    " buffer",
    "agent.memory.size": "size capacity buffer_size buffer_capacity memory_size memory_capacity replay_size"
    " replay_capacity replay_buffer_size replay_memory_size",
    "agent.memory.size of a batch memory (of all environments together)": "n_steps num_steps steps_per_epoch"
    " rollout_length rollout_steps rollout_fragment_length horizon",
    "agent.memory.batch_size": "batch_size train_batch_size sample_batch_size replay_batch_size",
    "agent.params.minibatch_size": "batch_size sgd_minibatch_size mini_batch_size num_minibatches subsampling_fraction",
    "agent.memory.discount": "gamma discount discount_factor discount_rate reward_discount reward_estimation",
    "agent.memory.n_step": "n_steps n_step nstep multi_step reward_estimation",
    "agent.memory.sampler": "sampler prioritized prioritized_replay prioritized_replay_alpha prioritized_replay_beta"
    " prioritized_replay_eps priority_exponent",
    "agent.memory.frame_stack": "frame_stack framestack stack_size num_stack n_stack",
    "agent.warm_start": "warm_start load_path checkpoint_path pretrained pretrained_model trained_agent"
    " load_checkpoint",
    "train.max_timesteps": "max_timesteps timesteps total_timesteps n_timesteps num_timesteps timesteps_total"
    " total_steps total_env_steps num_env_steps max_env_steps",
    "train.max_episodes": "max_episodes episodes num_episodes n_episodes total_episodes train_episodes",
    "train.max_steps": "max_steps train_steps training_steps num_updates n_updates total_updates num_train_steps"
    " iterations num_iterations n_iter training_iteration",
    "train": "stop stopping_criteria",
    "train.first_update": "first_update start_updating learning_starts learning_start start_learning start_timesteps"
    " start_steps update_after warmup_steps min_replay_size replay_start_size num_steps_sampled_before_learning_starts",
    "train.update_frequency": "update_frequency train_freq train_frequency training_frequency update_freq"
    " update_every update_interval update_spec learn_every",
    "distributed.actors": "num_workers n_workers workers num_actors num_env_runners num_rollout_workers",
    "distributed.envs_per_actor": "num_envs_per_worker num_envs_per_env_runner",
    "evaluate.episodes": "episodes n_eval_episodes num_eval_episodes eval_episodes evaluation_duration"
    " evaluation_num_episodes eval_steps",
    "hooks: [{kind: evaluation, every_timesteps: N}]": "eval_freq eval_frequency eval_interval eval_every"
    " evaluation_interval",
    "hooks: [{kind: logging, every_secs: N}]": "log_interval log_freq log_every print_freq verbose",
    "hooks: [{kind: stop_at_return, threshold: R}]": "reward_threshold stop_reward stop_at_reward target_reward",
    "hooks: [{kind: video, every_timesteps: N}]": "record_video capture_video save_video video_freq",
    "hooks": "callback callbacks",
    "config.save_checkpoints_steps": "save_freq save_every save_interval checkpoint_freq checkpoint_frequency"
    " checkpoint_interval",
    "config.keep_checkpoint_max": "keep_checkpoints_num num_to_keep max_to_keep",
    "tracker": "track logger loggers wandb wandb_project wandb_project_name wandb_entity mlflow",
    "seed": "seed random_seed rng_seed seed_value",
    "seeds": "n_seeds num_seeds",
    "matrix": "hptuning param_space search_space sweep tune",
    "params": "inputs",
    "submit.resources.cpu": "cpu cpus num_cpus",
    "submit.resources.gpu": "gpu gpus num_gpus n_gpus",
    "submit.image": "image docker_image",
    "labels['terminated'] of a model_fn": "done dones terminal",
    "--model-dir of axonrl run": "model_dir log_dir logdir log_folder output_dir save_path save_dir local_dir"
    " storage_path tensorboard_log",
    "--resume of axonrl run": "resume restore",
    "--jobs of axonrl run": "jobs n_jobs num_jobs max_concurrent_trials",
}
"""axonrl's key or option to its names in other libraries, including axonrl's own names in wrong sections."""


def hint(name: str, section: str, choices: Collection[str]) -> tuple[str | None, str]:
    """Explain an unknown key.

    Args:
        name: the key as it was written.
        section: dotted path of the section in which it was written.
        choices: the known keys of that section.

    Returns:
        The choice that is meant, or None; then also a text with the key that is meant elsewhere.
    """
    there = []
    for ours in _table().get(name.lower().replace("-", "_"), []):
        parent, _, key = re.split(r"[^\w.]", ours, maxsplit=1)[0].rpartition(".")
        if key in choices:
            return key, ""
        if not key or parent != section:  # a key of this section would be among the choices
            there.append(ours)
    return None, f"; here it is {', or '.join(there)}" if there else ""


@functools.cache
def _table() -> Mapping[str, list[str]]:
    """Names to entries of the table, with params of models and fields of two sections added."""
    from ...core.protocols import RunConfig
    from ...core.registry import BUILT_IN
    from ...distributed.settings import Settings
    from ...models.blocks.params import parameters_of

    table: dict[str, list[str]] = {}
    for ours, names in ELSEWHERE.items():
        _add(table, ours, names.split())
    known: dict[str, Iterable[str]] = {
        "agent.params": [name for model in BUILT_IN["model_fn"] for name in parameters_of(model)],
        "config": [field.name for field in dataclasses.fields(RunConfig) if not field.name.endswith("_space")],
        "distributed": [field.name for field in dataclasses.fields(Settings)],
    }
    for section, known_there in known.items():
        for name in known_there:
            if name not in table:
                _add(table, f"{section}.{name}", [name])
    return table


def _add(table: dict[str, list[str]], ours: str, names: Iterable[str]) -> None:
    for name in names:
        table.setdefault(name, []).append(ours)
