"""RLgraph's interface over axonrl."""
