"""Spark as far as its operator needs it: `spark-submit` makes a driver, and drivers make executors.

The operator is the real one; Spark itself needs an image and a JVM. What is done here is what
Spark's documentation says of pods: https://spark.apache.org/docs/latest/running-on-kubernetes.html
"""

import json
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import pairwise
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import yaml

from tests.harness.client import Api, ApiError, Object

CONF = "example.com/spark-conf"
_ROLE, _SELECTOR = "spark-role", "spark-app-selector"


def submit(arguments: Sequence[str], kubeconfig: Path) -> None:
    """Make the driver's pod, as `spark-submit --deploy-mode cluster` does."""
    conf: dict[str, str] = {}
    for option, value in pairwise(arguments):
        if option == "--conf":
            key, _, text = value.partition("=")
            conf[key] = text
    for role in ("driver", "executor"):  # the operator deletes the files soon
        conf[role] = Path(conf[f"spark.kubernetes.{role}.podTemplateFile"]).read_text()
    name, application = conf["spark.kubernetes.driver.pod.name"], f"spark-{uuid4().hex}"
    with Api(kubeconfig) as api:
        api.create(_pod(conf, "driver", name, application))


def _pod(conf: dict[str, str], role: str, name: str, application: str) -> Object:
    def under(prefix: str) -> dict[str, str]:
        return {key.removeprefix(prefix): conf[key] for key in conf if key.startswith(prefix)}

    own = f"spark.kubernetes.{role}"
    template: Any = yaml.safe_load(conf[role])
    memory = int(conf[f"spark.{role}.memory"].removesuffix("m"))
    cpu = conf.get(f"{own}.request.cores") or conf[f"spark.{role}.cores"]
    asked = {"cpu": cpu, "memory": f"{memory + max(memory // 10, 384)}Mi"}
    container = {
        "name": f"spark-kubernetes-{role}",
        "image": conf["spark.kubernetes.container.image"],
        "resources": {"requests": asked, "limits": {"memory": asked["memory"]}},
    }
    labels = {_ROLE: role, _SELECTOR: application, **under(f"{own}.label.")}
    selector = {**under("spark.kubernetes.node.selector."), **under(f"{own}.node.selector.")}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": conf["spark.kubernetes.namespace"],
            "labels": labels,
            "annotations": {**under(f"{own}.annotation."), CONF: json.dumps(conf)},
            "ownerReferences": template["metadata"]["ownerReferences"],
        },
        "spec": {"restartPolicy": "Never", "containers": [container], "nodeSelector": selector},
    }


class Drivers:
    """Makes the executors of drivers that run, and deletes those of drivers that have ended."""

    def __init__(self, kubeconfig: Path) -> None:
        self._kubeconfig, self._made = kubeconfig, dict[str, int]()
        self._over = threading.Event()

    @contextmanager
    def running(self) -> Iterator[None]:
        """Do so until the block ends."""
        thread = threading.Thread(target=self._run)
        thread.start()
        try:
            yield
        finally:
            self._over.set()
            thread.join()

    def _run(self) -> None:
        with Api(self._kubeconfig) as api:
            while not self._over.wait(0.2):
                with suppress(ApiError, httpx.TransportError):  # it looks again
                    self._look_after_all(api)

    def _look_after_all(self, api: Api) -> None:
        executors: dict[str, list[Object]] = {}
        for each in api.list("pods", labels=f"{_ROLE}=executor"):
            if each["status"].get("phase") in ("Pending", "Running"):
                executors.setdefault(each["metadata"]["labels"][_SELECTOR], []).append(each)
        for driver in api.list("pods", labels=f"{_ROLE}=driver"):
            meta, phase = driver["metadata"], driver["status"].get("phase")
            if phase in ("Pending", "Running") and "deletionTimestamp" not in meta:
                live = executors.pop(meta["labels"][_SELECTOR], [])
                missing = self._missing(meta, len(live)) if phase == "Running" else 0
                with suppress(ApiError):  # its namespace ends
                    self._make(api, meta, missing)
        # A driver that ends stops its executors.
        for each in (each for live in executors.values() for each in live):
            with suppress(ApiError):
                api.delete("pods", each["metadata"]["name"], each["metadata"]["namespace"])

    @staticmethod
    def _missing(driver: Object, live: int) -> int:
        return int(json.loads(driver["annotations"][CONF])["spark.executor.instances"]) - live

    def _make(self, api: Api, driver: Object, count: int) -> None:
        conf = json.loads(driver["annotations"][CONF])
        application = driver["labels"][_SELECTOR]
        for _ in range(count):
            number = self._made[driver["uid"]] = self._made.get(driver["uid"], 0) + 1
            name = f"{driver['name'].removesuffix('-driver')}-{application[-8:]}-exec-{number}"
            pod = _pod(conf, "executor", name, application)
            pod["metadata"]["labels"]["spark-exec-id"] = str(number)
            owner = {"name": driver["name"], "uid": driver["uid"], "controller": True}
            pod["metadata"]["ownerReferences"].append({"apiVersion": "v1", "kind": "Pod", **owner})
            api.create(pod)
