"""Specifications of modules, from the forms that users write to dictionaries with all arguments."""
