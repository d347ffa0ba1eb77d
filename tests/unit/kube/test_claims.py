"""What is read of claims, of what they are given, and of the pods that name them."""

import json
from typing import Any

from extender.kube import claims
from extender.kube.decode import Decoder
from tests.harness import objects


def raw(spec: Any = None, status: Any = None, **more: Any) -> bytes:
    """Return an object as the API server writes it."""
    meta = {"name": "x", "namespace": "ns", "uid": "u", "resourceVersion": "7"}
    return json.dumps(
        {"metadata": meta, "spec": spec or {}, "status": status or {}, **more}
    ).encode()


def test_a_claim_to_a_volume() -> None:
    spec = {
        "storageClassName": "fast",
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "1Gi"}},
    }
    found = claims.volume_claim(raw(spec))
    assert found.key == "persistentvolumeclaims/ns/x"
    assert found.classes == {"StorageClass fast"}
    assert not found.allocated
    assert claims.volume_claim(raw({**spec, "volumeName": "v"})).allocated
    of_volume = claims.volume(raw({"capacity": {"storage": "1Gi"}, "storageClassName": "fast"}))
    assert of_volume.size == found.size > 0
    assert of_volume.storage_class in found.classes


def test_a_volume_is_free_until_a_claim_is_bound_to_it() -> None:
    kept = {"claimRef": {"namespace": "ns", "name": "c"}}
    found = claims.volume(raw(kept, {"phase": "Available"}))
    assert (found.claim, found.free) == ("persistentvolumeclaims/ns/c", True)
    assert not claims.volume(raw(kept, {"phase": "Bound"})).free
    assert not claims.volume(raw(kept, {"phase": "Released"})).free


def test_a_class_without_a_provisioner_is_static() -> None:
    local = claims.storage_class(raw(provisioner="kubernetes.io/no-provisioner"))
    assert (local.key, local.static) == ("StorageClass x", True)
    assert not claims.storage_class(raw(provisioner="ebs.csi.aws.com")).static


def test_a_claim_to_devices() -> None:
    wanted = [
        {"name": "a", "exactly": {"deviceClassName": "one"}},
        {"name": "b", "firstAvailable": [{"name": "c", "deviceClassName": "two"}]},
    ]
    found = claims.device_claim(raw({"devices": {"requests": wanted}}))
    assert found.classes == {"DeviceClass one", "DeviceClass two"}
    assert not found.allocated
    status = {"allocation": {"devices": {}}, "reservedFor": [{"resource": "pods", "uid": "p"}]}
    held = claims.device_claim(raw({}, status))
    assert (held.allocated, held.version) == (True, "7")
    assert held.users == {"p"}


def test_the_claims_that_a_pod_names() -> None:
    spec: Any = {
        "volumes": [
            {"name": "a", "persistentVolumeClaim": {"claimName": "mine"}},
            {"name": "b", "ephemeral": {"volumeClaimTemplate": {}}},
            {"name": "c", "emptyDir": {}},
        ],
        "resourceClaims": [
            {"name": "own", "resourceClaimName": "shared"},
            {"name": "made", "resourceClaimTemplateName": "t"},
            {"name": "none", "resourceClaimTemplateName": "t"},
            {"name": "later", "resourceClaimTemplateName": "t"},
        ],
    }
    pod = objects.pod("p", namespace="ns", **spec)
    pod["status"] = {
        "resourceClaimStatuses": [{"name": "made", "resourceClaimName": "p-made"}, {"name": "none"}]
    }
    volumes = ("persistentvolumeclaims/ns/mine", "persistentvolumeclaims/ns/p-b")
    devices = ("resourceclaims/ns/shared", "resourceclaims/ns/p-made", "resourceclaims/ns/")
    assert Decoder().pod(json.dumps(pod).encode()).claim_keys == (*volumes, *devices)
    pod["spec"]["nodeName"] = "n"
    assert Decoder().pod(json.dumps(pod).encode()).claim_keys == devices
