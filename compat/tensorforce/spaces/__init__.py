"""Specifications, values and errors of agents and environments."""
