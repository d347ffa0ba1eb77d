"""What a control-plane node gets: three files, and what kubeadm has to know of them."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from extender.install.scheduler_file import merged_configuration, shipped_configuration
from extender.install.scheduler_manifest import (
    CONFIGURATION,
    VOLUME,
    SchedulerManifest,
    with_configuration,
)
from extender.install.yaml_text import FieldPath, YamlText

MANIFESTS: Final = "/etc/kubernetes/manifests"
KUBEADM: Final[dict[str, Any]] = {
    "apiVersion": "kubeadm.k8s.io/v1beta4",
    "kind": "ClusterConfiguration",
    "scheduler": {
        "extraArgs": [{"name": "config", "value": CONFIGURATION}],
        "extraVolumes": [
            {
                "name": VOLUME,
                "hostPath": CONFIGURATION,
                "mountPath": CONFIGURATION,
                "readOnly": True,
                "pathType": "File",
            }
        ],
    },
}
"""What makes kubeadm write the flag, the volume and the mount itself."""
_CONTAINER: Final = ("spec", "containers", 0)


@dataclass(frozen=True, slots=True)
class NamedText:
    """A file that is given, and what it is called in messages."""

    name: str
    text: str


@dataclass(frozen=True, slots=True)
class NodeFile:
    """One file of the node."""

    path: str
    text: str
    before: str | None
    """What it is made of; None: it is new."""


@dataclass(frozen=True, slots=True)
class NodeFiles:
    """All of them, in the order in which a node may get them."""

    configuration: NodeFile
    extender: NodeFile
    scheduler: NodeFile
    is_ours: bool
    """Whether the flag and its volume are ours, so that kubeadm has to be given them."""

    def __iter__(self) -> Iterator[NodeFile]:
        """Return the files in their order."""
        return iter((self.configuration, self.extender, self.scheduler))


def node_files(
    manifest: NamedText,
    configuration: NamedText | None,
    *,
    shipped_scheduler: str,
    shipped_extender: str,
    image: str | None,
) -> NodeFiles:
    """Return what a node gets whose kube-scheduler has that manifest.

    `configuration` is the file of its `--config`, or one to begin with. Raises InstallError.
    """
    found = with_configuration(manifest.name, manifest.text, is_known=configuration is not None)
    read = YamlText.read(CONFIGURATION, shipped_scheduler)
    shipped = merged = shipped_configuration(read, found.fields)
    if configuration is not None:
        given = YamlText.read(configuration.name, configuration.text)
        merged = merged_configuration(given, shipped, found.fields)
    return NodeFiles(
        NodeFile(found.host_path, merged.text, configuration.text if configuration else None),
        NodeFile(
            f"{MANIFESTS}/gang-extender.yaml",
            _extender(YamlText.read("gang-extender.yaml", shipped_extender), found, image).text,
            None,
        ),
        NodeFile(f"{MANIFESTS}/kube-scheduler.yaml", found.file.text, manifest.text),
        found.is_ours,
    )


def _extender(file: YamlText, scheduler: SchedulerManifest, image: str | None) -> YamlText:
    """Return the extender's static pod, which reads kube-scheduler's configuration too."""
    if image is not None:
        file = file.with_scalar((*_CONTAINER, "image"), image)
    name, path = "scheduler-config", CONFIGURATION
    changes: list[tuple[FieldPath, Any]] = [
        ((*_CONTAINER, "args"), f"--scheduler-config={path}"),
        ((*_CONTAINER, "volumeMounts"), {"name": name, "mountPath": path, "readOnly": True}),
        (
            ("spec", "volumes"),
            {"name": name, "hostPath": {"path": scheduler.host_path, "type": "File"}},
        ),
    ]
    for where, value in changes:
        file = file.with_item(where, value)
    return file
