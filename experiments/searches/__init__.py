"""Many runs of one experiment, side by side: at many values of its params, or with many seeds."""
