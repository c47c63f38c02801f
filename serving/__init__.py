"""Agents over HTTP: the client `RemoteAgent`, and the service that hosts agents (`axonrl serve`)."""
