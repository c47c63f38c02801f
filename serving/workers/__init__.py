"""Processes: workers that host agents, the builder that compiles programs, and the gateway's messages with them."""
