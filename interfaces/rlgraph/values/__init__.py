"""Spaces, and the error of a call that is wrong."""
