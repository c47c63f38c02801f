"""Many runs of one experiment, side by side: with many values of its params, or with many seeds."""
