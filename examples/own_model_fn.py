"""A model function of your own: A2C in 30 lines.

The function is called while TensorFlow traces it: once for acting, once for
learning. It takes only the arguments that it names.

    python examples/own_model_fn.py --timesteps 60000
"""

import argparse

import keras
import tensorflow as tf

from axonrl import Agent, EstimatorSpec, RunConfig
from axonrl.environments import make
from axonrl.explorations import Categorical
from axonrl.memories import BatchMemory


def actor_critic(features, labels, mode, params, config):
    """A2C (Mnih et al. 2016): a rollout is [T, N], timesteps by environments."""
    layers, units = keras.layers, params["units"]
    actions = int(config.action_space.n)
    actor = keras.Sequential([layers.Dense(units, "tanh"), layers.Dense(actions)])
    critic = keras.Sequential([layers.Dense(units, "tanh"), layers.Dense(1)])
    if mode == "predict":
        logits = actor(features)  # [B, A]
        predictions = {"action": tf.argmax(logits, -1), "logits": logits}
        exploration = Categorical(config.action_space)
        return EstimatorSpec(mode, predictions, exploration=exploration)

    logits, values = actor(features), critic(features)[:, :, 0]  # [T, N, A], [T, N]
    next_values = critic(labels["next_observation"])[:, :, 0]
    returns = [next_values[-1]]  # filled from the end of the rollout
    for t in reversed(range(labels["reward"].shape[0])):
        cut = labels["truncated"][t] > 0  # the episode was only cut off
        following = tf.where(cut, next_values[t], returns[0])
        returns.insert(0, labels["reward"][t] + labels["discount"][t] * following)
    error = tf.stop_gradient(tf.stack(returns[:-1])) - values  # [T, N]
    cross_entropy = tf.nn.sparse_softmax_cross_entropy_with_logits
    surprise = cross_entropy(labels["action"], logits)
    loss = tf.reduce_mean(tf.stop_gradient(error) * surprise + 0.5 * error**2)
    weights = actor.trainable_variables + critic.trainable_variables
    optimizer = keras.optimizers.Adam(params["learning_rate"])
    optimizer.apply(tf.gradients(loss, weights), weights)
    return EstimatorSpec(mode, loss=loss, metrics={"value": tf.reduce_mean(values)})


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--timesteps", type=int, default=60_000)
    arguments = parser.parse_args()
    params = {"units": 64, "learning_rate": 3e-3}
    config = RunConfig(seed=0)
    agent = Agent(actor_critic, BatchMemory(64), config=config, params=params)
    agent.train(make("CartPole-v1", num_envs=8), timesteps=arguments.timesteps)
    print(agent.evaluate("CartPole-v1", episodes=20)["episode_return_mean"])
