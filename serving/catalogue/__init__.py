"""Which models a service hosts, and what their hyperparameters become."""
