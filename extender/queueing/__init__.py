"""Decisions about quota: which workloads may run. Frozen answers, no I/O, no clock."""
