"""Arguments of agents and of parts of their specifications, as data; a specification's full meaning."""
