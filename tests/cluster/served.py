"""Whether the API server serves the older version of the kinds that a webhook converts."""

from typing import Final

import httpx

from tests.harness.client import Api, ApiError

OLDER: Final = "kueue.x-k8s.io/v1beta1"
CRDS: Final = "apiextensions.k8s.io/v1/customresourcedefinitions"
CONVERTED: Final = [
    f"{plural}.kueue.x-k8s.io" for plural in ("clusterqueues", "localqueues", "workloads")
]


def is_older_served(api: Api) -> bool:
    """Return whether each kind says that its older version is served, and it is."""
    versions = [v for name in CONVERTED for v in api.get(CRDS, name)["spec"]["versions"]]
    if not all(version["served"] for version in versions):
        return False
    try:
        for name in CONVERTED:
            api.list(f"{OLDER}/{name.split('.')[0]}")
    except ApiError as error:
        if error.status != httpx.codes.NOT_FOUND:
            raise  # where it passes, it is waited out
        return False
    return True
