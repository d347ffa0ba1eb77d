"""Preemption: checks kube-scheduler's proposals, and chooses victims for whole gangs."""
