"""Volumes and devices that pods of one test claim; what is cluster-wide is deleted by `close`."""

import threading
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Self

from tests.harness.client import Api, ApiError, Object
from tests.harness.control_plane import ControlPlane

PVCS, PVS = "persistentvolumeclaims", "persistentvolumes"
CLAIMS = "resource.k8s.io/v1/resourceclaims"
SELECTED_NODE = "volume.kubernetes.io/selected-node"
STATIC = "kubernetes.io/no-provisioner"
ZONE = "topology.kubernetes.io/zone"


class Claimed:
    """The classes, volumes and devices of one test."""

    def __init__(self, api: Api, namespace: str) -> None:
        self.api, self.namespace = api, namespace
        self.name = f"{namespace}.example.com"
        self._made: list[tuple[str, str]] = []

    def _create(self, resource: str, made: Object) -> None:
        self._made.append((resource, made["metadata"]["name"]))
        self.api.create(made)

    def close(self) -> None:
        """Delete what is in no namespace."""
        for resource, name in reversed(self._made):
            with suppress(ApiError):
                self.api.patch(resource, name, body={"metadata": {"finalizers": None}})
            self.api.delete(resource, name)

    # --- volumes ---------------------------------------------------------------------------

    def storage_class(self, provisioner: str = STATIC) -> str:
        """Make a class whose volumes are bound when their pod has a node."""
        made = {
            "apiVersion": "storage.k8s.io/v1",
            "kind": "StorageClass",
            "metadata": {"name": self.name},
            "provisioner": provisioner,
            "volumeBindingMode": "WaitForFirstConsumer",
        }
        self._create("storage.k8s.io/v1/storageclasses", made)
        return self.name

    def volume(self, name: str, key: str, value: str, *, claim: str = "", size: str = "1Gi") -> str:
        """Make a volume for nodes with that label; return its name."""
        where = {"key": key, "operator": "In", "values": [value]}
        spec: Object = {
            "capacity": {"storage": size},
            "accessModes": ["ReadWriteOnce"],
            "persistentVolumeReclaimPolicy": "Retain",
            "storageClassName": self.name,
            "local": {"path": "/nowhere"},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [where]}]}},
        }
        if claim:
            spec["claimRef"] = {"namespace": self.namespace, "name": claim}
        meta = {"name": f"{self.namespace}-{name}"}
        self._create(
            PVS, {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": meta, "spec": spec}
        )
        return meta["name"]

    def claim_volume(self, name: str, *, volume: str = "") -> dict[str, Any]:
        """Make a claim; return what a pod says of it."""
        spec: Object = {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": self.name,
            "resources": {"requests": {"storage": "1Gi"}},
        }
        if volume:
            spec["volumeName"] = volume
        meta = {"name": name, "namespace": self.namespace}
        kind = {"apiVersion": "v1", "kind": "PersistentVolumeClaim"}
        self.api.create({**kind, "metadata": meta, "spec": spec})
        return {"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": name}}]}

    def pvc(self, name: str) -> Object:
        """Return a claim to a volume."""
        return self.api.get(PVCS, name, self.namespace)

    def with_volumes(self, prefix: str) -> list[str]:
        """Return the claims to volumes, of those that begin so, which have or are to have one."""
        return sorted(
            p["metadata"]["name"]
            for p in self.api.list(PVCS, self.namespace)
            if p["metadata"]["name"].startswith(prefix)
            and (
                p["spec"].get("volumeName") or SELECTED_NODE in p["metadata"].get("annotations", {})
            )
        )

    # --- devices ---------------------------------------------------------------------------

    def devices(self, nodes: Sequence[str], each: int) -> None:
        """Make a DeviceClass, so many devices on each node, and a template of claims to one."""
        driver, group = self.name, {"apiVersion": "resource.k8s.io/v1"}
        expression = f"device.driver == '{driver}'"
        spec: Object = {"selectors": [{"cel": {"expression": expression}}]}
        made = {**group, "kind": "DeviceClass", "metadata": {"name": self.name}, "spec": spec}
        self._create("resource.k8s.io/v1/deviceclasses", made)
        for node in nodes:
            spec = {
                "driver": driver,
                "nodeName": node,
                "pool": {"name": node, "generation": 1, "resourceSliceCount": 1},
                "devices": [{"name": f"device-{number}"} for number in range(each)],
            }
            meta = {"name": f"{self.namespace}-{node}"}
            made = {**group, "kind": "ResourceSlice", "metadata": meta, "spec": spec}
            self._create("resource.k8s.io/v1/resourceslices", made)
        request = {"name": "one", "exactly": {"deviceClassName": self.name}}
        self.api.create({
            **group,
            "kind": "ResourceClaimTemplate",
            "metadata": {"name": "device", "namespace": self.namespace},
            "spec": {"spec": {"devices": {"requests": [request]}}},
        })  # fmt: skip

    def one_device(self) -> dict[str, Any]:
        """Return what a pod says that claims one device."""
        return {"resourceClaims": [{"name": "device", "resourceClaimTemplateName": "device"}]}

    def with_devices(self) -> list[str]:
        """Return the owners, pods, of the claims that have a device."""
        found = self.api.list(CLAIMS, self.namespace)
        return sorted(
            claim["metadata"]["ownerReferences"][0]["name"]
            for claim in found
            if claim.get("status", {}).get("allocation")
        )


class Provisioner:
    """Plays an external provisioner: a volume in the zone of the node that was selected."""

    def __init__(self, control_plane: ControlPlane, claimed: Claimed) -> None:
        self._api = Api(control_plane.admin_kubeconfig)
        self._claimed = Claimed(self._api, claimed.namespace)
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()
        self._claimed.close()
        self._api.close()

    def _run(self) -> None:
        done: set[str] = set()
        while not self._ended.wait(0.1):
            for claim in self._api.list(PVCS, self._claimed.namespace):
                name = claim["metadata"]["name"]
                node = claim["metadata"].get("annotations", {}).get(SELECTED_NODE)
                if node and name not in done:
                    done.add(name)
                    zone = self._api.get("nodes", node)["metadata"]["labels"][ZONE]
                    self._claimed.volume(f"made-{name}", ZONE, zone, claim=name)
