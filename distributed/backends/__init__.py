"""Where actors run: in this process, or in Ray's."""
