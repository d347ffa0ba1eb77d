"""Reads what is told of the PodGroups of one namespace."""

from typing import Any

from tests.cluster.gangs import POD_GROUPS
from tests.harness.client import Api
from tests.harness.objects import Object

SECONDS = 30


class Groups:
    """What is told of the PodGroups of one namespace."""

    def __init__(self, api: Api, namespace: str) -> None:
        self._api = api
        self._namespace = namespace

    def status(self, name: str = "g") -> Object:
        status: Object = self._api.get(POD_GROUPS, name, self._namespace).get("status", {})
        return status

    def told(self, name: str = "g", kind: str = "Scheduled") -> tuple[str, str, str]:
        """Return status, reason and message of a condition."""
        for each in self.status(name).get("conditions", ()):
            if each["type"] == kind:
                return each["status"], each["reason"], each["message"]
        return "", "", ""

    def await_status(self, name: str = "g", **want: Any) -> Object:
        """Wait for these fields; return the whole status."""

        def reached() -> Object | None:
            status = self.status(name)
            return status if all(status.get(key) == value for key, value in want.items()) else None

        try:
            return self._api.wait_for(f"{name} is {want}", reached, SECONDS) or {}
        except AssertionError:
            raise AssertionError(f"{name} is not {want} but {self.status(name)}") from None

    def await_told(self, reason: str, message: str, name: str = "g") -> None:
        """Wait until the group is told to be unscheduled for a reason."""
        want = "False", reason, message
        told: list[object] = []

        def reached() -> bool:
            told[:] = [self.told(name)]
            return told == [want]

        try:
            self._api.wait_for(f"{name} is told to be {want}", reached, SECONDS)
        except AssertionError:
            raise AssertionError(f"not {want} is told, but {told}") from None

    def await_reason(self, reason: str, name: str = "g") -> None:
        """Wait until the group is told to be unscheduled for a reason, whatever the numbers."""
        self._api.wait_for(
            f"{name} is told {reason}", lambda: self.told(name)[:2] == ("False", reason), SECONDS
        )

    def events(self, name: str = "g") -> list[Object]:
        """Return the Events about a group, oldest first."""
        found = self._api.list("events.k8s.io/v1/events", self._namespace)
        about = [
            e
            for e in found
            if e["regarding"] | {"name": name, "kind": "PodGroup"} == e["regarding"]
        ]
        return sorted(about, key=lambda event: str(event["eventTime"]))

    def reasons(self, name: str = "g") -> list[str]:
        return [event["reason"] for event in self.events(name)]
