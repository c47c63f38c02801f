"""Preprocessing of states, decays and exploration, evaluated on the host."""
