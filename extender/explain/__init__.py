"""Explanations of workloads, groups and pods, composed from the state: no I/O, no clock."""
