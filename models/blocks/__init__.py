"""Blocks: what algorithms are made of. Networks, distributions, losses, returns, optimizers, targets."""
