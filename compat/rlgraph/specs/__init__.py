"""What agents and the parts of their specifications take, as data; what a specification means, in full."""
