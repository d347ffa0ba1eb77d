"""Preemption: which of kube-scheduler's proposals pass, and whole gangs that make room."""
