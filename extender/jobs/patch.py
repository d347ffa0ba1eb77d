"""The difference between two objects as a JSON merge patch (RFC 7386)."""

from copy import deepcopy

from extender.jobs.fields import Object


def merge_patch(before: Object, after: Object) -> Object:
    """Return the patch that makes `after` of `before`; empty where they are equal.

    A list is replaced as a whole. A null in `after` counts as a field that is not there.
    """
    patch: Object = {
        name: None for name, old in before.items() if old is not None and after.get(name) is None
    }
    for name, new in after.items():
        old = before.get(name)
        if new is None or new is old or new == old:
            continue
        if isinstance(new, dict):
            # Also where nothing was there: a null inside would mean a field to take away.
            inner = merge_patch(old if isinstance(old, dict) else {}, new)
            if inner or not isinstance(old, dict):
                patch[name] = inner
        else:
            patch[name] = deepcopy(new)
    return patch


def replaces_list(patch: object) -> bool:
    """Return whether a patch replaces a list as a whole."""
    if isinstance(patch, dict):
        return any(map(replaces_list, patch.values()))
    return isinstance(patch, list)
