"""What a Workload says of the WorkloadPriorityClass that its priority was taken from.

`spec.priority` may also be changed by hand, and then stays. So a Workload keeps the name and the
value of its class beside it: what differs from the class as it is now was taken before a change.
"""


def value_taken(name: str, value: int) -> str:
    """Return the value of the annotation `PRIORITY_TAKEN` for a class with that value."""
    return f"{name}={value}"
