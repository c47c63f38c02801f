"""Models of axonrl."""
