"""The commands `axonrl serve` and `axonrl service`."""
