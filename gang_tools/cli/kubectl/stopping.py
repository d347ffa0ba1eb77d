"""The writes of `kubectl gang stop` and `resume`: those that the documents tell people to make."""

from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import msgspec

from extender.api.wellknown import QUEUE_GROUP
from extender.kube.client import MERGE_PATCH, KubeClient
from extender.kube.credentials import keyring
from extender.kube.decode import Decoder
from extender.kube.decode_queues import QueueDecoder
from extender.kube.queues import collection
from extender.kube.watch import everything
from gang_tools.explanations import ExplainTarget, NothingToExplainError, workload_of

_MEANS: Final[dict[bool | str, str]] = {
    False: "; its pods end, and its quota is free until it is resumed",
    "Hold": "; it admits nothing new, and what it has admitted goes on",
    "HoldAndDrain": "; it admits nothing new, and what it has admitted is evicted",
}


async def switched(
    kubeconfig: Path | None,
    context: str | None,
    asked: ExplainTarget,
    *,
    kind: str,
    value: bool | str,
    is_dry: bool,
) -> str:
    """Write `spec.active` of a Workload, or the `spec.stopPolicy` of a queue; return what was done.

    Raises NothingToExplainError, AmbiguousError, ApiError and ConfigurationError.
    """
    async with KubeClient(await keyring(kubeconfig, context)) as client:
        name = await _workload(client, asked) if asked.is_job else asked.name
        where = "" if kind == "clusterqueue" else asked.namespace
        path = f"{collection(f'{kind}s', where)}/{quote(name, safe='')}"
        which = f"{kind}.{QUEUE_GROUP}/{name}"
        before: dict[str, Any] = msgspec.json.decode(await client.request("GET", path))
        conditions = before.get("status", {}).get("conditions", ())
        if any(x["type"] == "Finished" and x["status"] == "True" for x in conditions):
            raise NothingToExplainError(f"{which} has finished")
        is_flag = isinstance(value, bool)
        field, usual = ("active", True) if is_flag else ("stopPolicy", "None")
        now = before.get("spec", {}).get(field, usual)
        if (now, value) == ("HoldAndDrain", "Hold"):
            value = "HoldAndDrain"  # it is held already, and goes on draining
        written = f"(spec.{field}: {str(value).lower() if is_flag else value})"
        if now == value:
            return f"{which} unchanged {written}"
        body = msgspec.json.encode({"spec": {field: value}})
        query = f"?fieldManager=kubectl-gang{'&dryRun=All' if is_dry else ''}"
        await client.request("PATCH", path + query, body=body, content_type=MERGE_PATCH)
    done = f"{which} {'resumed' if value == usual else 'stopped'} {written}"
    return f"{done}{' (server dry run)' if is_dry else ''}{_MEANS.get(value, '')}"


async def _workload(client: KubeClient, asked: ExplainTarget) -> str:
    """Return the name of the Workload of a job."""
    path, decode = collection("workloads", asked.namespace), QueueDecoder(Decoder()).workload
    key = workload_of(asked, await everything(client, path, decode))
    if key is None:
        raise NothingToExplainError(
            f"no Workload in namespace {asked.namespace} is of a job {asked.name}; "
            f"kubectl gang explain job {asked.name} -n {asked.namespace} says why"
        )
    return key.partition("/")[2]
