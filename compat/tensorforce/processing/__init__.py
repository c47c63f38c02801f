"""Parameters that change and preprocessing, evaluated on the host."""
