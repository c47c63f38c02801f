"""One module per revision: ``v0001``, ``v0002``, ..."""
