"""The state of queues, quota and the work that waits for it."""
