"""Changing parameters, and preprocessing, evaluated on the host."""
