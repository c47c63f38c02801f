"""RemoteAgent: an agent that a service hosts, with nothing but the standard library and urllib3."""
