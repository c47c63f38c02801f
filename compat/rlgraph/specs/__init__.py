"""Arguments of agents and of parts of their specifications, as data, and their normal form."""
