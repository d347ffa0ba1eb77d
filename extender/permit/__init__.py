"""Permit: the live state of gangs that kube-scheduler is asking about, and what acts on it."""
