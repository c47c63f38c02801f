"""Running an experiment: from a checked file to a trained agent, its run folder and its report."""
