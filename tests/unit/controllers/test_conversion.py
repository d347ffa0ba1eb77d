"""When the objects of CRDs may be read, and when reading them would lose fields."""

import asyncio

import pytest
from typing_extensions import override

from extender.controllers.timing import SETTLE
from extender.controllers.webhooks import ConversionGate, refusal
from extender.kube.errors import ApiError, UnavailableError
from extender.kube.webhooks import StoredVersions, WebhookClients
from extender.runtime.faults import Backoff

CRD = "clusterqueues.kueue.x-k8s.io"


def crd(*older: str, strategy: str = "None", ours: bool = False) -> StoredVersions:
    return StoredVersions(CRD, older, strategy, ours)


WEBHOOK = "Webhook"
CASES = {
    "nothing older, no webhook": (crd(), True, True),
    "nothing older, and this process does not convert": (crd(), False, True),
    "older, no webhook": (crd("v1beta1"), True, False),
    "older, no webhook, and this process does not convert": (crd("v1beta1"), False, False),
    "older, our webhook": (crd("v1beta1", strategy=WEBHOOK, ours=True), True, True),
    "older, another webhook": (crd("v1beta1", strategy=WEBHOOK), True, False),
    "older, a webhook of another replica": (crd("v1beta1", strategy=WEBHOOK), False, True),
}


@pytest.mark.parametrize(("stored", "converts", "readable"), CASES.values(), ids=CASES)
def test_what_may_be_read(stored: StoredVersions, converts: bool, readable: bool) -> None:
    assert (refusal(stored, converts=converts) == "") is readable


def test_a_refusal_names_the_crd_the_field_and_the_fix() -> None:
    converting = refusal(crd("v1beta1"), converts=True)
    other = refusal(crd("v1beta1"), converts=False)

    for text in (converting, other):
        assert f"CustomResourceDefinition {CRD}" in text
        assert "v1beta1 (status.storedVersions)" in text
        assert "would lose fields" in text
    assert "webhooks.enabled: true" in other


class Crds(WebhookClients):
    """CRDs that someone changes from look to look."""

    def __init__(self, *answers: StoredVersions | ApiError | None) -> None:
        self.answers = list(answers)
        self.pauses: list[float] = []

    @override
    async def stored(self, name: str) -> StoredVersions | None:
        assert name == CRD
        answer = self.answers.pop(0)
        if isinstance(answer, ApiError):
            raise answer
        return answer

    async def sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)
        await asyncio.sleep(0)


def gate(crds: Crds) -> ConversionGate:
    backoff = Backoff(1.0, 4.0, jitter=lambda: 1.0)
    return ConversionGate(crds, [CRD], converts=True, backoff=backoff, sleep=crds.sleep)


@pytest.mark.parametrize("answer", [None, crd()], ids=["no CRD", "nothing older"])
async def test_it_opens_at_once_where_nothing_can_be_lost(answer: StoredVersions | None) -> None:
    crds = Crds(answer)
    found = gate(crds)
    await found.run()

    assert (found.is_open, found.refusal, crds.pauses) == (True, "", [])


async def test_it_opens_a_moment_after_the_webhook_is_there() -> None:
    crds = Crds(
        UnavailableError("down"),
        crd("v1beta1"),
        crd("v1beta1", strategy=WEBHOOK, ours=True),
    )
    found = gate(crds)
    seen = []

    async def watch() -> None:
        while not found.is_open:
            seen.append(found.refusal)
            await asyncio.sleep(0)

    await asyncio.gather(found.run(), watch())
    assert crds.pauses == [1.0, 2.0, SETTLE]
    assert any("cannot be read: down" in each for each in seen)
    assert any("storedVersions" in each for each in seen)
    assert found.refusal == ""
