"""Objects of the kinds that others' operators look after; `status` says what those would."""

from typing import Any

Object = dict[str, Any]
APPROVED = {"api-approved.kubernetes.io": "unapproved, for tests"}
QUEUE = "kueue.x-k8s.io/queue-name"
FOREIGN = {
    "JobSet": ("jobset.x-k8s.io", "v1alpha2", "jobsets"),
    "MPIJob": ("kubeflow.org", "v2beta1", "mpijobs"),
    "PyTorchJob": ("kubeflow.org", "v1", "pytorchjobs"),
    "TFJob": ("kubeflow.org", "v1", "tfjobs"),
    "XGBoostJob": ("kubeflow.org", "v1", "xgboostjobs"),
    "JAXJob": ("kubeflow.org", "v1", "jaxjobs"),
    "PaddleJob": ("kubeflow.org", "v1", "paddlejobs"),
    "RayJob": ("ray.io", "v1", "rayjobs"),
    "RayCluster": ("ray.io", "v1", "rayclusters"),
    "AppWrapper": ("workload.codeflare.dev", "v1beta2", "appwrappers"),
    "SparkApplication": ("sparkoperator.k8s.io", "v1beta2", "sparkapplications"),
    "TrainJob": ("trainer.kubeflow.org", "v1alpha1", "trainjobs"),
}
"""By kind: its group, version and plural."""


def crd(group: str, version: str, plural: str, kind: str) -> Object:
    """Return a CRD of which a queue needs no more; anything may be in its objects."""
    loose = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    schema = {"type": "object", "properties": {"spec": loose, "status": loose}}
    only = {"name": version, "served": True, "storage": True, "subresources": {"status": {}}}
    names = {"kind": kind, "listKind": f"{kind}List", "plural": plural, "singular": kind.lower()}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        # The groups of kubernetes.io and k8s.io are protected.
        "metadata": {
            "name": f"{plural}.{group}",
            "annotations": APPROVED,
        },
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": names,
            "versions": [{**only, "schema": {"openAPIV3Schema": schema}}],
        },
    }


CRDS = [crd(*said, kind) for kind, said in FOREIGN.items()]


def template(cpu: str = "1", **spec: Any) -> Object:
    """Return a pod template of one container."""
    resources = {"requests": {"cpu": cpu, "memory": "64Mi"}}
    container = {"name": "main", "image": "example.invalid/nothing", "resources": resources}
    return {"spec": {"containers": [container], **spec}}


def made(api_version: str, kind: str, spec: Object) -> Object:
    """Return an object as it would be stored in the namespace `ns`."""
    return {
        "apiVersion": api_version,
        "kind": kind,
        "metadata": {"name": "work", "namespace": "ns", "uid": "u1", "labels": {QUEUE: "q"}},
        "spec": spec,
    }


def fresh(source: Object, *, namespace: str, queue: str | None = None) -> Object:
    """Return an object as it is before it is stored, in a namespace and a queue."""
    labels = {QUEUE: queue} if queue else {}
    return {**source, "metadata": {"name": "work", "namespace": namespace, "labels": labels}}


def jobset() -> Object:
    """Return a JobSet of a driver and two Jobs of workers."""

    def replicated(name: str, replicas: int, **spec: Any) -> Object:
        return {"name": name, "replicas": replicas, "template": {"spec": spec}}

    jobs = [
        replicated("driver", 1, template=template()),
        replicated("workers", 2, parallelism=3, completions=2, template=template("2")),
    ]
    spec = {"suspend": True, "replicatedJobs": jobs}
    return made("jobset.x-k8s.io/v1alpha2", "JobSet", spec)


def kubeflow(kind: str, field: str, version: str = "v1", **replicas: Any) -> Object:
    """Return a training job; `replicas` by type."""
    specs = {name: {"replicas": count, "template": template()} for name, count in replicas.items()}
    spec = {"runPolicy": {"suspend": True}, field: specs}
    return made(f"kubeflow.org/{version}", kind, spec)


def mpijob() -> Object:
    """Return an MPIJob."""
    return kubeflow("MPIJob", "mpiReplicaSpecs", "v2beta1", Worker=3, Launcher=1)


def pytorchjob() -> Object:
    """Return a PyTorchJob."""
    return kubeflow("PyTorchJob", "pytorchReplicaSpecs", Worker=3, Master=1)


def tfjob() -> Object:
    """Return a TFJob."""
    return kubeflow("TFJob", "tfReplicaSpecs", Evaluator=1, Worker=3, PS=2, Chief=1)


def xgboostjob() -> Object:
    """Return an XGBoostJob."""
    return kubeflow("XGBoostJob", "xgbReplicaSpecs", Worker=3, Master=1)


def jaxjob() -> Object:
    """Return a JAXJob."""
    return kubeflow("JAXJob", "jaxReplicaSpecs", Worker=3)


def paddlejob() -> Object:
    """Return a PaddleJob."""
    return kubeflow("PaddleJob", "paddleReplicaSpecs", Worker=3, Master=1)


def ray_cluster() -> Object:
    """Return the spec of a Ray cluster with two groups of workers."""
    workers = [
        {"groupName": "CPU", "replicas": 2, "template": template("2")},
        {"groupName": "tpu", "replicas": 2, "numOfHosts": 4, "template": template("4")},
    ]
    return {"headGroupSpec": {"template": template()}, "workerGroupSpecs": workers}


def raycluster() -> Object:
    """Return a RayCluster with two groups of workers."""
    return made("ray.io/v1", "RayCluster", {"suspend": True, **ray_cluster()})


def rayjob() -> Object:
    """Return a RayJob with two groups of workers."""
    cluster = ray_cluster()
    spec = {"suspend": True, "shutdownAfterJobFinishes": True, "entrypoint": "python job.py"}
    spec |= {"rayClusterSpec": cluster, "submitterPodTemplate": template("500m")}
    return made("ray.io/v1", "RayJob", spec)


def appwrapper() -> Object:
    """Return an AppWrapper of a JobSet, of what has no pods, and of what declares its pods."""
    odd = {"apiVersion": "example.com/v1", "kind": "Odd", "metadata": {"name": "odd"}}
    paths = [{"path": "template.spec.groups[1].pods", "replicas": 3}]
    odd |= {"spec": {"groups": [{}, {"pods": template("2")}]}}
    config = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "config"}}
    wrapped = {**jobset(), "metadata": {"name": "wrapped"}}
    wrapped["spec"]["suspend"] = False
    components = [{"template": wrapped}, {"template": config}, {"template": odd, "podSets": paths}]
    spec = {"suspend": True, "components": components}
    return made("workload.codeflare.dev/v1beta2", "AppWrapper", spec)


def sparkapplication() -> Object:
    """Return a SparkApplication of a driver and two executors."""
    executor = {"instances": 2, "cores": 2, "memory": "1g"}
    spec = {"suspend": True, "type": "Scala", "mode": "cluster", "sparkVersion": "4.0.0"}
    spec |= {"image": "spark:4.0.0", "mainApplicationFile": "local:///x.jar"}
    spec |= {"driver": {"cores": 1, "memory": "512m"}, "executor": executor}
    return made("sparkoperator.k8s.io/v1beta2", "SparkApplication", spec)


def trainjob() -> Object:
    """Return a TrainJob with an override of its user's; its JobSet is that of `jobset`."""
    override = {"targetJobs": [{"name": "workers"}], "metadata": {"labels": {"team": "a"}}}
    spec = {"suspend": True, "runtimeRef": {"name": "r"}, "podTemplateOverrides": [override]}
    return made("trainer.kubeflow.org/v1alpha1", "TrainJob", spec)


POD_SETS: dict[str, tuple[Any, dict[str, int]]] = {
    "jobset.x-k8s.io/jobset": (jobset, {"driver": 1, "workers": 4}),
    "kubeflow.org/mpijob": (mpijob, {"launcher": 1, "worker": 3}),
    "kubeflow.org/pytorchjob": (pytorchjob, {"master": 1, "worker": 3}),
    "kubeflow.org/tfjob": (tfjob, {"chief": 1, "ps": 2, "worker": 3, "evaluator": 1}),
    "kubeflow.org/xgboostjob": (xgboostjob, {"master": 1, "worker": 3}),
    "kubeflow.org/jaxjob": (jaxjob, {"worker": 3}),
    "kubeflow.org/paddlejob": (paddlejob, {"master": 1, "worker": 3}),
    "ray.io/raycluster": (raycluster, {"head": 1, "cpu": 2, "tpu": 8}),
    "workload.codeflare.dev/appwrapper": (appwrapper, {"work-0": 1, "work-1": 4, "work-2": 3}),
    "sparkoperator.k8s.io/sparkapplication": (sparkapplication, {"driver": 1, "executor": 2}),
    "ray.io/rayjob": (rayjob, {"head": 1, "cpu": 2, "tpu": 8, "submitter": 1}),
}
"""By integration: its maker, and the pod sets that its object has, in order."""
