"""Blocks of algorithms: parameters, networks, actions, distributions, losses, returns, critics, targets, training."""
