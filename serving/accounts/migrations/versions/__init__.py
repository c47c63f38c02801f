"""One module a revision: ``v0001``, ``v0002``, ..."""
