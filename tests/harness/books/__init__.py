"""Books about nodes, by kube-scheduler's rules and apart from the extender's own.

One sum used by both would hide its own faults.
"""
