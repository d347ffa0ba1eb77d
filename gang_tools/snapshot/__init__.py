"""A snapshot: the objects of a cluster from the API server, and what a process remembers."""
