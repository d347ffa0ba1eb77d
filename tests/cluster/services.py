"""Services of a queue, and their pods, in the namespace of a test."""

from collections.abc import Callable

from tests.cluster.queues import QUEUE, WORKLOADS, Queues, condition
from tests.harness.client import Api
from tests.harness.objects import Object

SECONDS = 120
NEW_IMAGE = "example.invalid/new"


class Services:
    """Services of one namespace in the queue `queue`, and their pods.

    `label` is that which their pods have, with the name of the service.
    """

    def __init__(self, api: Api, queues: Queues, label: str = "app") -> None:
        self.api, self.queues, self.namespace = api, queues, queues.namespace
        self.label = label

    def create(self, body: Object) -> None:
        """Create a service in the queue."""
        body["metadata"]["labels"] = {QUEUE: "queue"}
        self.api.create(body)

    def pods(self, name: str) -> list[Object]:
        """Return the pods of a service that are not being deleted."""
        found = self.api.list("pods", self.namespace, labels=f"{self.label}={name}")
        return [each for each in found if "deletionTimestamp" not in each["metadata"]]

    def running(self, name: str) -> list[Object]:
        """Return the pods of a service that run."""
        return [p for p in self.pods(name) if p["status"].get("phase") == "Running"]

    def waiting(self, name: str) -> list[Object]:
        """Return the pods of a service that are gated."""
        return [p for p in self.pods(name) if p["spec"].get("schedulingGates")]

    def await_pods(self, name: str, running: int, waiting: int = 0) -> None:
        """Wait for numbers of pods."""

        def there() -> bool:
            pods = len(self.running(name)), len(self.waiting(name)), len(self.pods(name))
            return pods == (running, waiting, running + waiting)

        what = f"{running} pods of {name} run and {waiting} wait"
        try:
            self.api.wait_for(what, there, SECONDS)
        except AssertionError as error:
            pods = [(p["metadata"]["name"], p["status"]) for p in self.pods(name)]
            raise AssertionError(f"{error}: {pods}; {self.workloads()}") from None

    def scale(self, resource: str, name: str, replicas: int) -> None:
        """Scale by the subresource, as `kubectl scale` does."""
        body = {"spec": {"replicas": replicas}}
        self.api.patch(resource, name, self.namespace, body=body, subresource="scale")

    def change(self, resource: str, name: str, change: Callable[[Object], None]) -> None:
        """Change the spec of a service."""
        found = self.api.get(resource, name, self.namespace)
        change(found["spec"])
        self.api.patch(resource, name, self.namespace, body={"spec": found["spec"]})

    def await_image(self, name: str, number: int) -> None:
        """Wait until all pods have the new image and run."""

        def replaced() -> bool:
            images = [p["spec"]["containers"][0]["image"] for p in self.running(name)]
            return images == [NEW_IMAGE] * number

        self.api.wait_for(f"all pods of {name} are replaced", replaced, SECONDS)

    def workloads(self) -> list[Object]:
        """Return the workloads of the namespace."""
        return self.api.list(WORKLOADS, self.namespace)

    def await_workloads(self, *admitted: bool) -> None:
        """Wait for as many workloads, each admitted or not."""

        def there() -> bool:
            found = [condition(w, "Admitted").get("status") == "True" for w in self.workloads()]
            return sorted(found) == sorted(admitted)

        try:
            self.api.wait_for(f"workloads are admitted: {admitted}", there, SECONDS)
        except AssertionError as error:
            raise AssertionError(f"{error}: {self.workloads()}") from None
