"""Reads the status, the Events and the metrics of the PodGroups of one namespace."""

from typing import Any

from tests.cluster.gangs import POD_GROUPS
from tests.harness.client import Api
from tests.harness.objects import Object

SECONDS = 120


class Groups:
    """The status, the Events and the metrics of the PodGroups of one namespace."""

    def __init__(self, api: Api, namespace: str) -> None:
        self._api = api
        self._namespace = namespace

    def status(self, name: str = "g") -> Object:
        status: Object = self._api.get(POD_GROUPS, name, self._namespace).get("status", {})
        return status

    def reported(self, name: str = "g", kind: str = "Scheduled") -> tuple[str, str, str]:
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

    def await_reported(self, reason: str, message: str, name: str = "g") -> None:
        """Wait until the condition Scheduled is false for a reason."""
        want = "False", reason, message
        reported: list[object] = []

        def reached() -> bool:
            reported[:] = [self.reported(name)]
            return reported == [want]

        try:
            self._api.wait_for(f"{name} is reported to be {want}", reached, SECONDS)
        except AssertionError:
            raise AssertionError(f"not {want} is reported, but {reported}") from None

    def await_reason(self, reason: str, name: str = "g") -> None:
        """Wait until the condition Scheduled is false for a reason, with any numbers."""
        self._api.wait_for(
            f"{name} has the reason {reason}",
            lambda: self.reported(name)[:2] == ("False", reason),
            SECONDS,
        )

    def events(self, name: str = "g") -> list[Object]:
        """Return the Events about a group, oldest first."""
        found = self._api.list("events.k8s.io/v1/events", self._namespace)
        group = {"name": name, "kind": "PodGroup"}.items()
        about = [e for e in found if group <= e["regarding"].items()]
        return sorted(about, key=lambda event: str(event["eventTime"]))

    def reasons(self, name: str = "g") -> list[str]:
        return [event["reason"] for event in self.events(name)]
