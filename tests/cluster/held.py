"""The policies for objects of queues, in force in one namespace alone."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.cluster.queues import QUEUE
from tests.harness import objects
from tests.harness.client import Api, ApiError
from tests.harness.manifests import documents
from tests.harness.objects import Object

_OPTIONAL = Path(__file__).parents[2] / "manifests" / "optional"
_SECONDS = 120
_DEPLOYMENTS = "apps/v1/deployments"
PARENT = "kueue.x-k8s.io/pod-suspending-parent"


@contextmanager
def held_in(api: Api, namespace: str) -> Iterator[None]:
    """Have objects of queues held as queue-policies.yaml and job-rules.yaml do, in a namespace."""
    made = [
        _narrowed(each, namespace)
        for file in ("queue-policies.yaml", "job-rules.yaml")
        for each in documents(_OPTIONAL / file)
    ]
    for each in made:
        api.apply(each)
    pod = objects.pod("probe", labels={QUEUE: "q"}, namespace=namespace)
    service = objects.deployment("probe", 0, namespace=namespace)
    service["metadata"]["labels"] = {QUEUE: "q"}
    api.create(service)

    def in_force() -> bool:
        path = f"/api/v1/namespaces/{namespace}/pods"
        gated = api.request("POST", path, body=pod, params={"dryRun": "All"}).json()
        told = api.patch(
            _DEPLOYMENTS, "probe", namespace, body={"metadata": {"labels": {"x": "y"}}}
        )
        annotations = told["spec"]["template"]["metadata"].get("annotations", {})
        return "schedulingGates" in gated["spec"] and PARENT in annotations and stays()

    def stays() -> bool:
        body: Object = {"metadata": {"labels": {QUEUE: None}}}
        try:
            api.patch(_DEPLOYMENTS, "probe", namespace, body=body)
        except ApiError as error:
            return "cannot be removed" in str(error)
        api.patch(_DEPLOYMENTS, "probe", namespace, body={"metadata": {"labels": {QUEUE: "q"}}})
        return False

    api.wait_for("the policies are in force", in_force, _SECONDS)
    api.delete(_DEPLOYMENTS, "probe", namespace)
    try:
        yield
    finally:
        for each in made:
            api.delete(f"{each['apiVersion']}/{_PLURALS[each['kind']]}", each["metadata"]["name"])


_PLURALS = {
    "MutatingAdmissionPolicy": "mutatingadmissionpolicies",
    "MutatingAdmissionPolicyBinding": "mutatingadmissionpolicybindings",
    "ValidatingAdmissionPolicy": "validatingadmissionpolicies",
    "ValidatingAdmissionPolicyBinding": "validatingadmissionpolicybindings",
}


def _narrowed(each: Object, namespace: str) -> Object:
    name = f"{each['metadata']['name']}-{namespace}"
    spec = {**each["spec"]}
    if "policyName" in spec:
        spec["policyName"] = f"{spec['policyName']}-{namespace}"
    else:
        only = {"matchLabels": {"kubernetes.io/metadata.name": namespace}}
        spec["matchConstraints"] = {**spec["matchConstraints"], "namespaceSelector": only}
    return {**each, "metadata": {"name": name}, "spec": spec}
