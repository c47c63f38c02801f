"""Processes: workers that host agents, the builder that compiles programs, and how the gateway speaks to them."""
