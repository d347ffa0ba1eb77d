"""The commands of the page about uninstalling, as they are written: nothing of ours is left."""

import json
from collections.abc import Iterator
from functools import partial
from typing import Any

import httpx
import pytest

from tests.cluster.alone import alone
from tests.cluster.served import CONVERTED, CRDS
from tests.documents import ROOT, blocks
from tests.harness import objects
from tests.harness.client import Api, ApiError, PatchType
from tests.harness.control_plane import ControlPlane
from tests.harness.gang_scheduler import NAMESPACE
from tests.harness.kustomize import build
from tests.harness.manifests import documents
from tests.harness.objects import Object
from tests.harness.reconciler import Reconciler
from tests.tiers import LONG

PAGE = ROOT / "docs/tasks/admin/uninstall.md"
QUEUE = "kueue.x-k8s.io/v1beta2"
JOBS = "batch/v1/jobs"
QUEUE_LABEL = "kueue.x-k8s.io/queue-name"
GATE = "scheduling.x-k8s.io/gang"
LABELLED = "app.kubernetes.io/name=gang-extender"
SECONDS = 120

control_plane, api = alone(controllers=True)


def commands() -> list[list[str]]:
    """Return the commands of the page, word by word."""
    found = [each for each in blocks("console") if each.path == PAGE]
    return [words for block in found for words in block.commands]


def by_hand(words: list[str]) -> bool:
    """Return whether a command is for objects that hang."""
    return words[1] == "patch" and words[2] != "pod"


class Kubectl:
    """As much of kubectl as the page uses; what it deletes is gone when it returns."""

    def __init__(self, api: Api, reconciler: Reconciler) -> None:
        self._api, self._reconciler = api, reconciler

    def run(self, words: list[str], names: list[str]) -> None:
        """Carry a command out; NAME stands for each of these names."""
        match words[1:]:
            case ["delete", "-f", file, *_]:
                self._delete(documents(ROOT / file))
            case ["delete", "-k", folder, *_]:
                self._delete_folder(folder)
            case ["delete", resource, "--all", *_]:
                self._delete_all(self._path(resource))
            case ["patch", resource, name, how, "-p", text]:
                body = json.loads(text)
                for each in names if name == "NAME" else [name]:
                    self._patch(resource, each, body, how)
            case ["get", "workloads", "--all-namespaces"]:
                self._await_none(f"{QUEUE}/workloads")
            case _:
                raise AssertionError(words)

    def _delete_folder(self, folder: str) -> None:
        if folder == "my-cluster/":
            self._reconciler.stop()  # its Deployment is among the first to go
            folder = "manifests"
        self._delete(build(ROOT / folder))

    def _delete_all(self, path: str) -> None:
        for each in self._api.list(path):
            self._api.delete(path, each["metadata"]["name"], each["metadata"].get("namespace"))
        self._await_none(path)

    def _await_none(self, path: str) -> None:
        self._api.wait_for(f"no {path}", lambda: not self._api.list(path), SECONDS)

    def _patch(self, resource: str, name: str, body: object, how: str) -> None:
        namespace = "default" if resource == "pod" else None
        kind: PatchType = "json" if how == "--type=json" else "merge"
        self._api.patch(self._path(resource), name, namespace, body=body, how=kind)

    @staticmethod
    def _path(resource: str) -> str:
        known = {"pod": "pods", "crd": CRDS, "clusterqueue": f"{QUEUE}/clusterqueues"}
        return known.get(resource) or f"{QUEUE}/{resource.removesuffix('.kueue.x-k8s.io')}"

    def _delete(self, objects: list[Object]) -> None:
        paths = [self._path_of(each) for each in objects]
        for path in paths:
            self._is_there("DELETE", path)
        for path in paths:
            gone = partial(self._is_gone, path)
            self._api.wait_for(f"{path} is gone", gone, SECONDS)

    def _path_of(self, each: Object) -> str:
        return f"{self._api._path_of(each)}/{each['metadata']['name']}"

    def _is_gone(self, path: str) -> bool:
        return not self._is_there("GET", path)

    def _is_there(self, method: str, path: str) -> bool:
        try:
            self._api.request(method, path)
        except ApiError as error:
            if error.status != httpx.codes.NOT_FOUND:
                raise
            return False
        return True


@pytest.fixture
def reconciler(control_plane: ControlPlane, api: Api) -> Iterator[Reconciler]:
    """An installation with queues, jobs, gangs and webhooks, and its reconciler."""
    settings = {"reconcile": {"leaderElect": False}}
    found = Reconciler(control_plane, settings=settings, webhooks=True)
    found.wait_leading()
    left_out = ("Deployment", "CustomResourceDefinition")  # these are installed, and converted
    api.apply([each for each in build(ROOT / "manifests") if each["kind"] not in left_out])
    api.wait_for("versions are converted", lambda: is_converted(api), SECONDS)
    # The garbage collector looks for new kinds every 30 s, and at its start.
    control_plane.controller_manager.kill()
    control_plane.controller_manager.start()
    control_plane.wait_ready()
    *others, second = documents(ROOT / "manifests/samples/single-clusterqueue.yaml")
    api.create(*others)
    api.create(objects.pod_group("mine", 2, namespace="default"))

    def started() -> bool:
        return not api.get(JOBS, "first", "default")["spec"]["suspend"]

    api.wait_for("the first job has started", started, SECONDS)
    api.create(second)
    api.wait_for("the second one waits", lambda: len(workloads(api)) == 2, SECONDS)
    yield found
    found.stop()
    api.delete_all(JOBS, "default")


def is_converted(api: Api) -> bool:
    conversions = [api.get(CRDS, name)["spec"]["conversion"] for name in CONVERTED]
    return all(each.get("webhook", {}).get("clientConfig", {}).get("url") for each in conversions)


def workloads(api: Api) -> list[Any]:
    return api.list(f"{QUEUE}/workloads")


def test_nothing_is_left_and_a_job_that_was_kept_starts(api: Api, reconciler: Reconciler) -> None:
    gated = objects.pod("gated", namespace="default")
    gated["spec"]["schedulingGates"] = [{"name": GATE}]
    api.create(gated)
    api.patch(JOBS, "second", "default", body={"metadata": {"labels": {QUEUE_LABEL: None}}})
    api.wait_for(
        "the job that waits has no Workload",
        lambda: len(workloads(api)) == 1,
        SECONDS,
    )
    api.apply(ROOT / "manifests/optional/webhooks.yaml")
    api.delete(JOBS, "first", "default")

    kubectl = Kubectl(api, reconciler)
    for words in commands():
        if not by_hand(words):
            kubectl.run(words, ["gated"])

    assert_nothing_left(api)
    assert "schedulingGates" not in api.get("pods", "gated", "default")["spec"]
    api.patch(JOBS, "second", "default", body={"spec": {"suspend": False}})
    api.create(objects.job("later", 1, namespace="default"))
    api.delete("pods", "gated", "default", grace_seconds=0)


@LONG
def test_what_hangs_without_a_reconciler_is_freed_by_hand(api: Api, reconciler: Reconciler) -> None:
    reconciler.stop()
    kinds = {
        plural: [
            each["metadata"] for each in api.wait_for(plural, partial(api.list, path), SECONDS)
        ]
        for plural in ("clusterqueues", "localqueues", "resourceflavors", "workloads")
        for path in [f"{QUEUE}/{plural}"]
    }
    for plural, found in kinds.items():
        for meta in found:
            api.delete(f"{QUEUE}/{plural}", meta["name"], meta.get("namespace"))
    stuck = api.get(f"{QUEUE}/clusterqueues", "cluster-queue")["metadata"]
    assert stuck["deletionTimestamp"]

    kubectl = Kubectl(api, reconciler)
    for words in commands():
        if by_hand(words):
            kubectl.run(words, ["cluster-queue"])
    # "The same goes for" the others: their finalizers.
    for plural in ("resourceflavors", "workloads"):
        for meta in kinds[plural]:
            name, namespace = meta["name"], meta.get("namespace")
            freed = {"metadata": {"finalizers": None}}
            if api.find(f"{QUEUE}/{plural}", name, namespace) is not None:
                api.patch(f"{QUEUE}/{plural}", name, namespace, body=freed)
    kubectl.run(["kubectl", "delete", "-k", "my-cluster/"], [])

    assert_nothing_left(api)
    suspended = {each["metadata"]["name"]: each["spec"]["suspend"] for each in api.list(JOBS)}
    assert suspended == {"first": False, "second": True}, "what ran goes on"


def assert_nothing_left(api: Api) -> None:
    """No object of ours, by its label or its group, and no namespace."""
    crds = [each["metadata"]["name"] for each in api.list(CRDS)]
    assert crds == []
    assert api.find("namespaces", NAMESPACE) is None
    for kind in (
        "rbac.authorization.k8s.io/v1/clusterroles",
        "rbac.authorization.k8s.io/v1/clusterrolebindings",
        "admissionregistration.k8s.io/v1/validatingadmissionpolicies",
        "admissionregistration.k8s.io/v1/validatingadmissionpolicybindings",
        "admissionregistration.k8s.io/v1/mutatingwebhookconfigurations",
        "admissionregistration.k8s.io/v1/validatingwebhookconfigurations",
        "flowcontrol.apiserver.k8s.io/v1/flowschemas",
        "flowcontrol.apiserver.k8s.io/v1/prioritylevelconfigurations",
    ):
        left = [each["metadata"]["name"] for each in api.list(kind, labels=LABELLED)]
        assert left == [], kind
