"""The database of a service: users, tokens, agents by name, audit."""
