"""How many pods a Job runs at once: when it begins, and when some are done.

Source: https://kubernetes.io/docs/reference/kubernetes-api/workload-resources/job-v1/#JobSpec
"""


def pods_at_first(parallelism: int, completions: int | None) -> int:
    """Return how many pods a Job begins with."""
    return parallelism if completions is None else min(parallelism, completions)


def pods_left(parallelism: int, completions: int | None, *, done: int, active: int) -> int:
    """Return how many pods a Job runs at once from now on, when so many are done for good.

    Without `completions` it is a work queue: once a pod has succeeded no other one is made, and
    those that are `active` are all there will be.
    """
    if completions is not None:
        return min(parallelism, max(0, completions - done))
    return min(parallelism, active) if done else parallelism
