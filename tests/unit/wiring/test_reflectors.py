"""What is concluded about admission from a list of Workloads, or from there being none."""

from typing import Any

import pytest

from extender.runtime.clock import Pacer, SystemClock
from extender.runtime.faults import FAULTS
from extender.state.cluster.records import AdmittedPods
from extender.state.cluster.store import Cluster
from extender.wiring.reflectors import admissions

WORKLOAD = AdmittedPods("ns/w", ("j",), 2)


@pytest.mark.parametrize("absent", [True, False])
async def test_a_list_of_workloads_says_whether_jobs_are_admitted(absent: bool) -> None:
    client: Any = None
    cluster, before = Cluster(), FAULTS.counts.get("state", 0)
    found = next(each for each in admissions(client, cluster, "ns") if each.kind == "workloads")
    assert cluster._tables.admissions.in_use is None

    found._watcher.is_absent = absent
    listed = [] if absent else [WORKLOAD]
    await Pacer(SystemClock()).go_through(found.feed.listed(listed, 5))

    assert (cluster.view().admitted_pods("ns/w") is None) == absent
    assert cluster._tables.admissions.in_use is not absent
    assert FAULTS.counts.get("state", 0) == before
