"""PodGroups of scheduling.k8s.io in both versions, and the pods and Jobs that name them."""

import json
from collections.abc import Iterable
from typing import Any

import pytest
from structlog.testing import capture_logs

from extender.api.wellknown import GROUP_NATIVE, GROUP_X, POD_GROUP_LABEL
from extender.kube.client import KubeClient
from extender.kube.decode import DecodeError, Decoder
from extender.kube.errors import ApiError, ForbiddenError, NotFoundError
from extender.kube.pod_groups import PodGroupWriter, about
from extender.kube.watch import InitApply, InitDone, Watcher
from extender.runtime.faults import Backoff
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
    assert about(want(3)).api_version == "scheduling.k8s.io/v1alpha2"
    sig = PodGroupInfo("ns", "g", GROUP_X, 3)
    assert about(sig).api_version == "scheduling.x-k8s.io/v1alpha1"


NEW, OLD = "/new/things", "/old/things"
NO, GONE = ForbiddenError("no", status=403), NotFoundError("gone", status=404)


class End(Exception):  # noqa: N818 - not an error: the script is at its end
    pass


class Server:
    """Serves these paths, and forbids or has not the others; it learns the old one after a while.

    A watch fails with the next one of `troubles`.
    """

    def __init__(
        self,
        *served: str,
        absent: ApiError = GONE,
        troubles: Iterable[ApiError] = (),
    ) -> None:
        self.served, self.absent = {*served}, absent
        self.troubles = iter(troubles)
        self.asked: list[str] = []
        self.pauses = 0
        self.watcher = Watcher(
            self,  # type: ignore[arg-type]
            (NEW, OLD),
            sleep=self.sleep,
            backoff=Backoff(1.0, 8.0, jitter=lambda: 1.0),
            optional=True,
        )
        self.found: list[str] = []
        self.forbidden: list[str] = []
        """At each end of a list: why it may not be read."""

    async def request(self, _: str, path: str, **__: object) -> bytes:
        where = path.partition("?")[0]
        self.asked.append(where)
        if where not in self.served:
            raise self.absent
        return json.dumps(
            {"metadata": {"resourceVersion": "5"}, "items": [{"metadata": {"name": where}}]}
        ).encode()

    def stream(self, path: str, *, idle_seconds: float) -> Any:
        assert idle_seconds
        raise next(self.troubles, End(path))

    async def sleep(self, seconds: float) -> None:
        assert seconds > 0
        self.pauses += 1
        if self.pauses == 3:
            self.served = {OLD}  # the API server has learned it

    async def events(self) -> list[str]:
        """Return what a watch of two versions yields, in short."""
        with pytest.raises(End):
            await self._follow()
        return self.found

    async def _follow(self) -> None:
        async for event in self.watcher.events():
            match event:
                case InitApply(raw):
                    self.found.append(json.loads(raw)["metadata"]["name"])
                case _:
                    self.found.append(type(event).__name__)
            if isinstance(event, InitDone):
                assert self.watcher.is_absent == (self.found[-2] == "Init")
                self.forbidden.append(self.watcher.forbidden)


async def test_the_newest_version_that_is_served_is_followed() -> None:
    server = Server(NEW, OLD)
    assert await server.events() == ["Init", NEW, "InitDone"]
    server = Server(OLD)
    assert await server.events() == ["Init", "Init", OLD, "InitDone"]
    assert server.pauses == 0


@pytest.mark.parametrize("absent", [GONE, NO])
async def test_an_api_that_is_not_there_has_no_objects_and_is_looked_for_again(
    absent: ApiError,
) -> None:
    server = Server(absent=absent)

    found = await server.events()

    assert server.pauses == 3
    assert server.asked == [NEW, OLD] * 4
    assert found.count("InitDone") == 4
    assert found[-2:] == [OLD, "InitDone"]


async def test_a_refusal_says_that_a_right_is_missing() -> None:
    server = Server(absent=NO)
    with capture_logs() as logs:
        await server.events()

    assert server.forbidden == ["no"] * 3 + [""]
    warned = [each["event"] for each in logs if each["log_level"] == "warning"]
    assert warned == ["may not be read, so it counts as absent"]


async def test_a_moment_without_the_right_loses_no_object() -> None:
    server = Server(OLD, troubles=[NO, NO])

    assert await server.events() == ["Init", "Init", OLD, "InitDone"]
    assert (server.asked, server.pauses) == ([NEW, OLD], 2)


async def test_a_moment_in_which_it_is_not_served_loses_no_object() -> None:
    server = Server(OLD, troubles=[GONE])

    found = await server.events()

    assert server.asked == [NEW, OLD, NEW, OLD]
    assert [each for each in found if each != "Init"] == [OLD, "InitDone"] * 2
    assert server.pauses == 1


async def test_a_version_that_goes_leaves_its_objects_to_the_next_one() -> None:
    server = Server(NEW, troubles=[GONE])
    steps = server.watcher.events()
    for _ in range(3):
        await anext(steps)
    server.served = {OLD}
    again = [await anext(steps) for _ in range(3)]

    assert [type(each).__name__ for each in again] == ["Init", "InitApply", "InitDone"]
    assert (server.watcher.is_absent, server.pauses) == (False, 0)


async def test_one_that_is_gone_for_good_is_absent() -> None:
    server = Server(NEW, troubles=[GONE])
    steps = server.watcher.events()
    for _ in range(3):
        await anext(steps)
    server.served = set()
    names = [type(await anext(steps)).__name__ for _ in range(4)]

    assert names == ["Init"] * 3 + ["InitDone"]
    assert server.watcher.is_absent
    assert server.asked == [NEW, OLD, NEW]
