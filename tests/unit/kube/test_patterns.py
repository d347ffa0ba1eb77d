"""Which members of gangs are equal for kube-scheduler, and which it has to judge by themselves."""

import copy
import json
from collections.abc import Callable
from typing import Any

import pytest

from extender.api.wellknown import GANG_GATE, POD_GROUP_LABEL, POD_GROUP_LABEL_SIGS
from extender.kube.decode import DecodeError, Decoder
from extender.kube.shapes import IDENTITY, NUMBERED, Patterns
from extender.resources.ignored import IgnoredResources, ResourceNames
from extender.state.cluster.records import Pattern

Change = Callable[[dict[str, Any]], None]


def member(number: int = 0, **spec: Any) -> dict[str, Any]:
    """Return a pod as the API server has it that the Job controller made."""
    token, mount = f"kube-api-access-{number}abc", "/var/run/secrets/kubernetes.io/serviceaccount"
    return {
        "metadata": {
            "name": f"job-{number}-x{number}",
            "generateName": f"job-{number}-",
            "namespace": "ns",
            "uid": f"uid-{number}",
            "labels": {
                POD_GROUP_LABEL: "gang",
                "app": "training",
                "batch.kubernetes.io/job-completion-index": str(number),
            },
            "annotations": {"batch.kubernetes.io/job-completion-index": str(number)},
        },
        "spec": {
            "schedulerName": "default-scheduler",
            "hostname": f"job-{number}",
            "restartPolicy": "Never",
            "dnsPolicy": "ClusterFirst",
            "containers": [
                {
                    "name": "main",
                    "image": "registry.example/train:1",
                    "env": [{"name": "RANK", "value": str(number)}],
                    "args": [f"--rank={number}"],
                    "resources": {"requests": {"cpu": "1"}},
                    "volumeMounts": [{"name": token, "mountPath": mount}],
                }
            ],
            "initContainers": [{"name": "first", "image": "registry.example/first:1"}],
            "volumes": [
                {"name": token, "projected": {"sources": [{"serviceAccountToken": {}}]}},
            ],
            **spec,
        },
        "status": {"phase": "Pending"},
    }


class Reader:
    """Decodes pods whose patterns live as long as it does."""

    def __init__(self, ignored: IgnoredResources | None = None) -> None:
        patterns = Patterns()
        self._decoder = Decoder(ignored, patterns) if ignored else Decoder(patterns=patterns)

    def __call__(self, pod: dict[str, Any]) -> Pattern | None:
        return self._decoder.pod(json.dumps(pod).encode()).pattern


def changed(pod: dict[str, Any], change: Change) -> dict[str, Any]:
    """Return a copy with a change."""
    other = copy.deepcopy(pod)
    change(other)
    return other


def spec(**fields: Any) -> Change:
    """Return a change of fields of the spec."""
    return lambda pod: pod["spec"].update(fields)


def container(kind: str = "containers", **fields: Any) -> Change:
    """Return a change of fields of the first container of a kind."""
    return lambda pod: pod["spec"][kind][0].update(fields)


def volume(**source: Any) -> Change:
    """Return a change that adds a volume."""
    return lambda pod: pod["spec"]["volumes"].append({"name": "more", **source})


def label(name: str, value: str | None) -> Change:
    """Return a change of a label; None takes it away."""

    def change(pod: dict[str, Any]) -> None:
        labels = pod["metadata"]["labels"]
        labels.pop(name, None)
        if value is not None:
            labels[name] = value

    return change


def affinity(**kinds: Any) -> Change:
    """Return a change of the affinity."""
    return spec(affinity=kinds)


TERM = {"labelSelector": {"matchLabels": {"app": "x"}}, "topologyKey": "zone"}
ON_ZONE = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "zone", "operator": "Exists"}]}]}
UNEQUAL: dict[str, Change] = {
    "activeDeadlineSeconds": spec(activeDeadlineSeconds=5),
    "automountServiceAccountToken": spec(automountServiceAccountToken=False),
    "dnsConfig": spec(dnsConfig={}),
    "dnsPolicy": spec(dnsPolicy="Default"),
    "enableServiceLinks": spec(enableServiceLinks=False),
    "ephemeralContainers": spec(ephemeralContainers=[{"name": "debug"}]),
    "hostAliases": spec(hostAliases=[{"ip": "127.0.0.1"}]),
    "hostIPC": spec(hostIPC=True),
    "hostNetwork": spec(hostNetwork=True),
    "hostPID": spec(hostPID=True),
    "hostUsers": spec(hostUsers=False),
    "hostnameOverride": spec(hostnameOverride="h"),
    "imagePullSecrets": spec(imagePullSecrets=[{"name": "s"}]),
    "initContainers, one more": lambda pod: pod["spec"]["initContainers"].append({"name": "b"}),
    "initContainers, none": lambda pod: pod["spec"].pop("initContainers"),
    "node affinity": affinity(
        nodeAffinity={"requiredDuringSchedulingIgnoredDuringExecution": ON_ZONE}
    ),
    "preferred node affinity": affinity(
        nodeAffinity={"preferredDuringSchedulingIgnoredDuringExecution": []}
    ),
    "nodeSelector": spec(nodeSelector={"zone": "a"}),
    "os": spec(os={"name": "linux"}),
    "overhead": spec(overhead={"cpu": "1"}),
    "preemptionPolicy": spec(preemptionPolicy="Never"),
    "priority": spec(priority=5),
    "priorityClassName": spec(priorityClassName="high"),
    "readinessGates": spec(readinessGates=[{"conditionType": "x"}]),
    "resources": spec(resources={"requests": {"cpu": "2"}}),
    "restartPolicy": spec(restartPolicy="OnFailure"),
    "runtimeClassName": spec(runtimeClassName="gvisor"),
    "schedulerName": spec(schedulerName="another"),
    "securityContext": spec(securityContext={"runAsUser": 1}),
    "serviceAccountName": spec(serviceAccountName="another"),
    "setHostnameAsFQDN": spec(setHostnameAsFQDN=True),
    "shareProcessNamespace": spec(shareProcessNamespace=True),
    "subdomain": spec(subdomain="sub"),
    "terminationGracePeriodSeconds": spec(terminationGracePeriodSeconds=5),
    "tolerations": spec(tolerations=[{"key": "a", "operator": "Exists"}]),
    "a field of a later release": spec(whatComesNext={"x": 1}),
    "two values exchanged": spec(restartPolicy="ClusterFirst", dnsPolicy="Never"),
    "containers, one more": lambda pod: pod["spec"]["containers"].append({"name": "b"}),
    "a container's name": container(name="other"),
    "a container's image": container(image="registry.example/train:2"),
    "a container's ports": container(ports=[{"hostPort": 80, "containerPort": 80}]),
    "a container's requests": container(resources={"requests": {"cpu": "2"}}),
    "a container's limits": container(resources={"requests": {"cpu": "1"}, "limits": {"cpu": "1"}}),
    "a container's restart rules": container(restartPolicyRules=[{"action": "Restart"}]),
    "a container's restart policy": container("initContainers", restartPolicy="Always"),
    "a container's field of a later release": container(whatComesNext=1),
    "an init container's image": container("initContainers", image="registry.example/first:2"),
    "another volume": volume(emptyDir={}),
    "a volume's content": lambda pod: pod["spec"]["volumes"][0].update(projected={"sources": []}),
    "a label": label("app", "serving"),
    "one label more": label("team", "a"),
    "one label less": label("app", None),
    "a label that is dropped, which the others lack": label("job-name", "j"),
    "a label that is dropped, which the others have": label(
        "batch.kubernetes.io/job-completion-index", None
    ),
    "another namespace": lambda pod: pod["metadata"].update(namespace="other"),
}


@pytest.mark.parametrize("change", UNEQUAL.values(), ids=UNEQUAL)
def test_one_difference_makes_members_unequal(change: Change) -> None:
    """The label of the group differs too: it decides nothing by itself."""
    read, plain = Reader(), member()
    one, other = read(plain), read(changed(plain, change))
    assert one is not None
    assert other is not None
    assert one is not other


def test_the_same_value_of_another_field_is_another_pattern() -> None:
    read = Reader()
    one, other = (read(changed(member(), spec(**{name: True}))) for name in ("hostIPC", "hostPID"))
    assert one is not None
    assert other is not None
    assert one is not other


NUMBERED_FIELDS: dict[str, Change] = {
    "hostname": spec(hostname="another"),
    "no hostname": lambda pod: pod["spec"].pop("hostname"),
    "name": lambda pod: pod["metadata"].update(name="another", generateName="ano", uid="u"),
    "annotations": lambda pod: pod["metadata"].update(annotations={"a": "b"}),
    "owner": lambda pod: pod["metadata"].update(ownerReferences=[{"uid": "x", "controller": True}]),
    "status": lambda pod: pod.update(status={"phase": "Pending", "nominatedNodeName": "n"}),
    "env": container(env=[{"name": "TF_CONFIG", "value": "{}"}]),
    "no env": lambda pod: pod["spec"]["containers"][0].pop("env"),
    "envFrom": container(envFrom=[{"configMapRef": {"name": "c"}}]),
    "command": container(command=["a"]),
    "args": container(args=["a"]),
    "volumeMounts": container(volumeMounts=[{"name": "kube-api-access-zzz"}]),
    "env of an init container": container("initContainers", env=[{"name": "A", "value": "1"}]),
    "the name of a volume": lambda pod: pod["spec"]["volumes"][0].update(name="another"),
    "the group": label(POD_GROUP_LABEL, "another"),
}


@pytest.mark.parametrize("change", NUMBERED_FIELDS.values(), ids=NUMBERED_FIELDS)
def test_what_is_numbered_makes_no_difference(change: Change) -> None:
    read, plain = Reader(), member()
    one, other = read(plain), read(changed(plain, change))
    assert one is not None
    assert one is other


@pytest.mark.parametrize("name", sorted(NUMBERED | IDENTITY))
def test_a_label_that_controllers_number_is_dropped_and_named(name: str) -> None:
    read, groups = Reader(), {POD_GROUP_LABEL, POD_GROUP_LABEL_SIGS}
    one, other = (read(changed(member(), label(name, value))) for value in ("a", "b"))
    assert one is not None
    assert one is other
    assert one.labels == {"app": "training"}
    assert one.dropped >= {name, *({POD_GROUP_LABEL} if name not in groups else ())}


def test_members_of_one_job_are_equal() -> None:
    read = Reader()
    found = {read(member(number)) for number in range(3)}
    assert len(found) == 1
    assert None not in found


EXCLUDED: dict[str, Change] = {
    "a claim": volume(persistentVolumeClaim={"claimName": "c"}),
    "an ephemeral volume": volume(ephemeral={"volumeClaimTemplate": {}}),
    "an inline volume of a driver": volume(csi={"driver": "d"}),
    "a network volume": volume(nfs={"server": "s", "path": "/"}),
    "a volume of a later release": volume(whatComesNext={}),
    "a volume of two kinds": volume(emptyDir={}, iscsi={}),
    "resource claims": spec(resourceClaims=[{"name": "gpu"}]),
    "spread": spec(
        topologySpreadConstraints=[{"whenUnsatisfiable": "ScheduleAnyway", "maxSkew": 1}]
    ),
    "affinity to pods": affinity(
        podAffinity={"requiredDuringSchedulingIgnoredDuringExecution": [TERM]}
    ),
    "preferred affinity to pods": affinity(
        podAffinity={"preferredDuringSchedulingIgnoredDuringExecution": []}
    ),
    "anti-affinity": affinity(
        podAntiAffinity={"requiredDuringSchedulingIgnoredDuringExecution": [TERM]}
    ),
    "preferred anti-affinity": affinity(
        podAntiAffinity={"preferredDuringSchedulingIgnoredDuringExecution": []}
    ),
    "a scheduling group": spec(schedulingGroup={"podGroupName": "g"}),
    "devices of a class": container(
        resources={"requests": {"deviceclass.resource.kubernetes.io/gpu": "1"}}
    ),
    "a gate": spec(schedulingGates=[{"name": GANG_GATE}]),
    "a node": spec(nodeName="n0"),
    "no group": label(POD_GROUP_LABEL, None),
}


@pytest.mark.parametrize("change", EXCLUDED.values(), ids=EXCLUDED)
def test_some_members_are_judged_by_themselves(change: Change) -> None:
    read = Reader()
    assert read(member()) is not None
    assert read(changed(member(), change)) is None


def test_a_resource_that_kube_scheduler_ignores_is_not_in_its_answer() -> None:
    read = Reader(IgnoredResources(ResourceNames.parse(["example.com/x"])))
    asks = container(resources={"requests": {"example.com/x": "1"}})
    assert read(member()) is not None
    assert read(changed(member(), asks)) is None


VOLUMES = ("emptyDir", "configMap", "secret", "downwardAPI", "projected", "hostPath", "image")


@pytest.mark.parametrize("kind", VOLUMES)
def test_volumes_that_are_there_on_every_node_are_compared(kind: str) -> None:
    read = Reader()
    one, other = (read(changed(member(), volume(**{kind: {"x": x}}))) for x in (1, 2))
    assert one is not None
    assert other is not None
    assert one is not other


def test_no_list_is_an_empty_one() -> None:
    nothing = spec(volumes=None, initContainers=None)
    assert Reader()(changed(member(), nothing)) is not None


def test_a_volume_that_is_no_object_is_not_readable() -> None:
    with pytest.raises(DecodeError):
        Reader()(changed(member(), spec(volumes=[1])))


def test_without_patterns_members_have_none() -> None:
    assert Decoder().pod(json.dumps(member()).encode()).pattern is None


def test_a_pattern_that_no_pod_has_is_forgotten() -> None:
    patterns = Patterns()
    decoder = Decoder(patterns=patterns)
    pods = [decoder.pod(json.dumps(member(number)).encode()) for number in range(2)]
    assert len(patterns) == 1
    pods.clear()
    assert len(patterns) == 0
