"""Decisions about quota and queues: who is admitted, with which flavors, instead of whom."""
