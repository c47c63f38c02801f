"""Interfaces of other libraries over axonrl's agents, for programs that were written for them."""
