"""PodGroups of scheduling.k8s.io in both versions, and the pods and Jobs that name them."""

import json
from typing import Any

import pytest

from extender.api.wellknown import GROUP_NATIVE, GROUP_X, POD_GROUP_LABEL
from extender.kube.client import KubeClient
from extender.kube.decode import DecodeError, Decoder
from extender.kube.errors import ForbiddenError, NotFoundError
from extender.kube.pod_groups import PodGroupWriter, api_version
from extender.kube.watch import InitApply, Watcher
from extender.runtime.backoff import Backoff
from extender.state.cluster.records import PodGroupInfo, PodGroupStatusInfo

HEAD = {"name": "g", "namespace": "ns", "uid": "u", "resourceVersion": "7", "generation": 1}
GANG = {"gang": {"minCount": 3}}


def decoded(**spec: Any) -> PodGroupInfo:
    return Decoder().native_pod_group(json.dumps({"metadata": HEAD, "spec": spec}).encode())


def want(min_member: int, **more: Any) -> PodGroupInfo:
    return PodGroupInfo("ns", "g", GROUP_NATIVE, min_member, uid="u", **more)


RACK = {"topology": [{"key": "rack"}]}


@pytest.mark.parametrize(
    ("spec", "found"),
    [
        ({"schedulingPolicy": GANG, "disruptionMode": "PodGroup"}, want(3)),
        ({"schedulingPolicy": GANG, "disruptionMode": {"all": {}}, "priority": 5}, want(3)),
        ({"schedulingPolicy": {"basic": {}}, "schedulingConstraints": None}, want(0)),
        ({"schedulingPolicy": {"basic": {}, "gang": None}, "disruptionMode": "Pod"}, want(0)),
        (
            {"schedulingPolicy": GANG, "schedulingConstraints": RACK},
            want(3, required_topology="rack"),
        ),
        ({"schedulingPolicy": GANG, "schedulingConstraints": {"topology": []}}, want(3)),
        ({}, want(0)),
    ],
    ids=["v1alpha2", "v1beta1", "basic", "basic and null", "topology", "no topology", "empty"],
)
def test_both_versions_are_read(spec: Any, found: PodGroupInfo) -> None:
    assert decoded(**spec) == found
    assert decoded(**spec).version == 7


def test_what_is_none_is_an_error() -> None:
    with pytest.raises(DecodeError):
        decoded(schedulingPolicy={"gang": {"minCount": "many"}})


def pod(labels: dict[str, str] | None = None) -> bytes:
    spec = {"containers": [], "schedulingGroup": {"podGroupName": "g"}}
    return json.dumps({"metadata": {**HEAD, "labels": labels}, "spec": spec}).encode()


def test_a_pod_is_of_the_group_that_its_label_names_else_of_its_native_one() -> None:
    found = Decoder().pod(pod())
    assert (found.group, found.native) == ("ns/g", "ns/g")
    found = Decoder().pod(pod({POD_GROUP_LABEL: "other"}))
    assert (found.group, found.native) == ("ns/other", "ns/g")


def test_a_job_is_of_the_native_group_of_its_template() -> None:
    template = {"spec": {"schedulingGroup": {"podGroupName": "g"}}}
    body = {"metadata": HEAD, "spec": {"parallelism": 3, "template": template}}
    found = Decoder().job(json.dumps(body).encode())
    assert (found.group, found.begun) == ("ns/g", 3)


async def test_nothing_is_written_of_a_native_one() -> None:
    class Client(KubeClient):
        def __init__(self) -> None:
            pass  # whatever is asked of it fails

    await PodGroupWriter(Client()).apply_status(want(3), PodGroupStatusInfo())
    assert api_version(want(3)) == "scheduling.k8s.io/v1alpha2"
    assert api_version(PodGroupInfo("ns", "g", GROUP_X, 3)) == "scheduling.x-k8s.io/v1alpha1"


class End(Exception):  # noqa: N818 - not an error: the script is at its end
    pass


class Server:
    """Serves these paths, and forbids or has not the others; after `rounds` pauses it ends."""

    def __init__(self, *served: str, absent: type[Exception] = NotFoundError) -> None:
        self.served, self.absent = {*served}, absent
        self.asked: list[str] = []
        self.pauses = 0

    async def request(self, _: str, path: str) -> bytes:
        where = path.partition("?")[0]
        self.asked.append(where)
        if where not in self.served:
            raise self.absent("no")
        return json.dumps(
            {"metadata": {"resourceVersion": "5"}, "items": [{"metadata": {"name": where}}]}
        ).encode()

    def stream(self, path: str, *, idle_seconds: float) -> Any:
        assert idle_seconds
        raise End(path)

    async def sleep(self, seconds: float) -> None:
        assert seconds > 0
        self.pauses += 1
        if self.pauses == 3:
            self.served = {"/old"}  # the API server has learned it

    async def events(self) -> list[str]:
        """Return what a watch of two versions yields, in short."""
        watcher = Watcher(
            self,  # type: ignore[arg-type]
            ("/new", "/old"),
            sleep=self.sleep,
            backoff=Backoff(1.0, 8.0, jitter=lambda: 1.0),
            optional=True,
        )
        found: list[str] = []
        with pytest.raises(End):
            await follow(watcher, found)
        return found


async def follow(watcher: Watcher, found: list[str]) -> None:
    async for event in watcher.events():
        match event:
            case InitApply(raw):
                found.append(json.loads(raw)["metadata"]["name"])
            case _:
                found.append(type(event).__name__)


async def test_the_newest_version_that_is_served_is_followed() -> None:
    server = Server("/new", "/old")
    assert await server.events() == ["Init", "/new", "InitDone"]
    server = Server("/old")
    assert await server.events() == ["Init", "Init", "/old", "InitDone"]
    assert server.pauses == 0


@pytest.mark.parametrize("absent", [NotFoundError, ForbiddenError])
async def test_an_api_that_is_not_there_has_no_objects_and_is_looked_for_again(
    absent: type[Exception],
) -> None:
    server = Server(absent=absent)

    found = await server.events()

    assert server.pauses == 3
    assert server.asked == ["/new", "/old"] * 4
    assert found.count("InitDone") == 4
    assert found[-2:] == ["/old", "InitDone"]
