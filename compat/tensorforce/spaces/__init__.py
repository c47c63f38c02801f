"""What agents and environments are given: specifications, values and errors."""
