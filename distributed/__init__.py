"""Training on several processes or machines: actors without TensorFlow, replay shards, and one learner.

Pass a ``Cluster`` to train: ``agent.train(env, cluster=Cluster(actors=4))``. Importing this package loads neither Ray
nor TensorFlow.
"""

from .cluster import Cluster

__all__ = ["Cluster"]
