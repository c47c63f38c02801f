"""Searches: an experiment at many values of its params, side by side, as Polyaxon's ``matrix`` describes them."""
