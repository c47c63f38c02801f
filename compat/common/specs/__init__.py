"""Specifications of modules: in the forms that users write, and as dictionaries with all their arguments."""
