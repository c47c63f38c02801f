"""The command line: ``axonrl`` and its subcommands."""
