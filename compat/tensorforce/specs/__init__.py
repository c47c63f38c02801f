"""Conversion of an agent's arguments to its normal form."""
