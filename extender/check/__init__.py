"""Whether gang-extender can run in a cluster, and does: pure checks over gathered facts."""
