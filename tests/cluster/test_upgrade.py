"""What an earlier release left in a cluster goes on under today's manifests and processes.

The files of `tests/upgrade` were recorded with the processes of that release: objects with their
status, their UIDs and the owners of their fields, as they were stored.
"""

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.gangs import POD_GROUPS
from tests.cluster.queues import Queues
from tests.cluster.served import OLDER
from tests.harness.client import Api, ApiError
from tests.harness.control_plane import ControlPlane
from tests.harness.gang_scheduler import GangScheduler
from tests.harness.objects import Object
from tests.harness.reconciler import Reconciler
from tests.upgrade.__main__ import PHASES, SETTINGS
from tests.upgrade.stored import KINDS, NAMESPACE, crds, releases, restore, stored

ROOT = Path(__file__).parents[2]
SECONDS = 120
RELEASES = re.findall(r"^## (\d+\.\d+\.\d+)\b", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)

By = dict[tuple[str, str], Object]


def test_the_newest_release_has_been_recorded() -> None:
    """`python -m tests.upgrade VERSION` does it, before the release is tagged."""
    assert RELEASES[0] in releases()


@pytest.fixture(scope="module", params=releases())
def release(request: pytest.FixtureRequest) -> str:
    found: str = request.param
    return found


@pytest.fixture(scope="module")
def control_plane(release: str) -> Iterator[ControlPlane]:
    """What the release left, before any controller or kubelet has seen it."""
    with ControlPlane(kubelet=False, controllers=False) as control_plane:
        with Api(control_plane.admin_kubeconfig) as api:
            api.apply(crds(release))
        restore(control_plane, release)
        yield control_plane


@pytest.fixture(scope="module")
def api(control_plane: ControlPlane) -> Iterator[Api]:
    with Api(control_plane.admin_kubeconfig) as api:
        yield api


def there(api: Api) -> By:
    """Return what there is of every kind that was recorded."""
    return {
        (resource, each["metadata"]["name"]): each
        for resource in KINDS
        for each in api.list(resource)
        if resource != "namespaces" or each["metadata"]["name"] == NAMESPACE
    }


def lost(before: Any, now: Any, path: str = "") -> Iterator[str]:
    """Yield where something that was there is gone or is another one."""
    match before, now:
        case dict(), dict():
            for key, value in before.items():
                if key in now:
                    yield from lost(value, now[key], f"{path}.{key}")
                else:
                    yield f"{path}.{key} is gone"
        case list(), list() if len(before) <= len(now):
            for number, value in enumerate(before):
                yield from lost(value, now[number], f"{path}[{number}]")
        case _ if before != now:
            yield f"{path} was {before!r} and is {now!r}"


def compared(before: By, now: By, *parts: str) -> list[str]:
    """Return what is lost of some parts of each object."""
    absent = [f"{name} is gone" for name in before if name not in now]
    return absent + [
        f"{name}{where}"
        for name, each in before.items()
        if name in now
        for part in parts
        if part in each
        for where in lost(each[part], now[name].get(part), f".{part}")
    ]


def identity(each: Object) -> Object:
    """Return what of the metadata stays for as long as an object lives."""
    kept = (
        "name",
        "namespace",
        "uid",
        "creationTimestamp",
        "labels",
        "ownerReferences",
        "finalizers",
    )
    return {name: each["metadata"][name] for name in kept if name in each["metadata"]}


def running(api: Api) -> dict[str, tuple[str, str]]:
    """Return UID and node of each pod that runs."""
    return _nodes(api.list("pods", NAMESPACE))


def nodes_of(before: By) -> dict[str, tuple[str, str]]:
    """Return UID and node of each pod that ran."""
    return _nodes(each for (resource, _), each in before.items() if resource == "pods")


def _nodes(pods: Iterable[Object]) -> dict[str, tuple[str, str]]:
    return {
        each["metadata"]["name"]: (each["metadata"]["uid"], each["spec"]["nodeName"])
        for each in pods
        if each["status"]["phase"] == "Running"
    }


@pytest.fixture(scope="module")
def before(release: str, api: Api) -> By:
    """What there was before anything of today's was applied."""
    found = there(api)
    recorded = {resource: len(each) for resource, each in stored(release).items()}
    assert {kind: sum(key[0] == kind for key in found) for kind in KINDS} == recorded
    assert len(running(api)) == 9
    return found


@pytest.fixture(scope="module")
def unpruned(api: Api, before: By) -> list[str]:
    """What today's CRDs alone make of it."""
    api.apply(ROOT / "manifests" / "crds")
    return compared(before, there(api), "metadata", "spec", "status")


@pytest.fixture(scope="module")
def queues(control_plane: ControlPlane, api: Api, unpruned: list[str]) -> Iterator[Queues]:
    """Today's manifests and processes, and what the cluster has besides."""
    del unpruned
    followers = [control_plane.controller_manager, control_plane.kwok]
    control_plane._followers.extend(followers)
    for each in followers:
        each.start()
    control_plane.wait_ready()
    gang = GangScheduler(control_plane)
    reconciler = Reconciler(control_plane, settings=SETTINGS, webhooks=True, crds=False)
    reconciler.wait_leading()
    api.wait_for("the older version is served", lambda: is_older_read(api), SECONDS)
    yield Queues(api, NAMESPACE)
    gang.stop()
    reconciler.stop()


def is_older_read(api: Api) -> bool:
    """Return whether the older version is converted; the API server begins anew with it."""
    try:
        return all(api.list(f"{OLDER}/{plural}") for plural in ("clusterqueues", "localqueues"))
    except ApiError:
        return False


def test_todays_crds_prune_no_field(unpruned: list[str]) -> None:
    assert unpruned == []


def test_what_ran_goes_on_and_what_waited_starts(api: Api, before: By, queues: Queues) -> None:
    # What a user applies today is judged beside what there was: the processes have seen all.
    for name in ("team", "older"):
        queues.await_active(name)
    queues.job("fourth", 1)
    queues.await_condition("fourth", "QuotaReserved", "False", timeout=SECONDS)

    unchanging = {
        key: {**each, "metadata": identity(each)}
        for key, each in before.items()
        if key[0] != "pods"
    }
    assert compared(unchanging, there(api), "metadata", "spec") == []
    ran = nodes_of(before)
    assert running(api) == ran
    for job in ("first", "second"):
        assert queues.condition(job, "QuotaReserved") == quota(before, job)
        assert queues.condition(job, "Admitted")["status"] == "True"
    assert phases(api) == PHASES

    # A gang starts in the room of one that ends, and a job with the quota of another.
    for number in range(3):
        api.delete("pods", f"running-{number}", NAMESPACE)
    api.wait_for("the gang starts", lambda: started(api, "waiting") == 5, SECONDS)
    queues.end_pods("first")
    queues.await_finished("first", timeout=SECONDS)
    api.wait_for("the job starts", lambda: started(api, "third") == 2, SECONDS)
    stayed = {name: each for name, each in ran.items() if name.split("-")[0] in ("older", "second")}
    assert len(stayed) == 4
    assert stayed.items() <= running(api).items()


def test_the_older_version_of_what_was_stored_is_served(api: Api, queues: Queues) -> None:
    stored_as = queues.api.get("kueue.x-k8s.io/v1beta2/clusterqueues", "older")["spec"]
    said = api.get(f"{OLDER}/clusterqueues", "older")["spec"]
    assert said["cohort"] == stored_as["cohortName"] == "company"
    assert said["resourceGroups"] == stored_as["resourceGroups"]


def phases(api: Api) -> dict[str, str]:
    return {name: api.get(POD_GROUPS, name, NAMESPACE)["status"]["phase"] for name in PHASES}


def started(api: Api, prefix: str) -> int:
    return sum(name.split("-")[0] == prefix for name in running(api))


def quota(before: By, job: str) -> Object:
    """Return the condition of quota as it was recorded."""
    [found] = [
        said
        for (resource, name), each in before.items()
        if resource.endswith("workloads") and name.startswith(f"job-{job}-")
        for said in each["status"]["conditions"]
        if said["type"] == "QuotaReserved"
    ]
    assert isinstance(found, dict)
    return found
