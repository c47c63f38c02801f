"""What runs agents in environments, as programs import it from ``rlgraph.execution``."""
