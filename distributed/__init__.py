"""Training on more than one process or machine: actors that load no TensorFlow, replay shards, one learner.

``Cluster`` says how; ``agent.train(env, cluster=Cluster(actors=4))`` does it. Importing this loads neither Ray nor
TensorFlow.
"""

from .cluster import Cluster

__all__ = ["Cluster"]
