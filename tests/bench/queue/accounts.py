"""Service accounts with all rights, for the programs of a run.

They have tokens, as programs in a cluster have. The API server takes some 0.3 ms longer for each
request with a certificate, and those of `system:masters` pass its flow control by: neither is what
is measured.
"""

from pathlib import Path
from typing import Final

from tests.harness.client import Api
from tests.harness.control_plane import ControlPlane

_NAMESPACE: Final = "kube-system"


def with_all_rights(control_plane: ControlPlane, name: str) -> Path:
    """Make a service account that may do everything; return its kubeconfig."""
    binding = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": name},
        "roleRef": {
            "apiGroup": "rbac.authorization.k8s.io",
            "kind": "ClusterRole",
            "name": "cluster-admin",
        },
        "subjects": [{"kind": "ServiceAccount", "namespace": _NAMESPACE, "name": name}],
    }
    account = {
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": {"namespace": _NAMESPACE, "name": name},
    }
    with Api(control_plane.admin_kubeconfig) as api:
        api.apply([account, binding])
    return control_plane.service_account_kubeconfig(_NAMESPACE, name)
