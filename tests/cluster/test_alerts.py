"""What alerts and the dashboard are about is on the pages of real processes, and alerts fire."""

import time
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.cluster.conftest import NodeFactory
from tests.cluster.faults import refused
from tests.cluster.gangs import Gangs
from tests.cluster.queues import Queues
from tests.harness import kustomize, monitoring, objects, promtool_rules
from tests.harness.client import Api
from tests.harness.gang_scheduler import GangScheduler
from tests.harness.reconciler import Reconciler

pytestmark = pytest.mark.timeout(900)  # the first one builds promtool

HOUR = 3600.0
MONITORING = Path(__file__).parents[2] / "manifests" / "monitoring"
OF_PROMETHEUS = {"instance", "job"}
"""Labels that Prometheus itself gives what it scrapes."""


def page(url: str) -> str:
    answer = httpx.get(f"{url}/metrics", trust_env=False, timeout=60)
    assert answer.status_code == 200
    return answer.text


def fires(
    folder: Path,
    name: str,
    found: str,
    *,
    later: float = 0.0,
    before: str = "",
    expected: bool = True,
) -> None:
    """Prove that an alert fires, or does not, where a page stays as it is for `later` seconds."""
    series = promtool_rules.scraped(found, time.time() + later, before=before)
    promtool_rules.fires(folder, name, series, expected=expected)


@pytest.fixture
def pages(
    gang: GangScheduler, reconciler: Reconciler, gangs: Gangs, queues: Queues, nodes: NodeFactory
) -> dict[str, str]:
    """Both processes' pages after a gang and a job of a queue."""
    nodes(2)
    queues.simple(cpu=2)
    queues.job("job")
    queues.await_started("job")
    gangs.create("g", 2)
    gangs.await_phases("g", Running=2)
    return {"extender": gang.metrics(), "reconciler": page(reconciler.url)}


def families(texts: Iterable[str]) -> Iterator[tuple[str, set[str], bool]]:
    """Yield name and labels of each metric on pages, and whether it has samples."""
    for family in chain.from_iterable(map(text_string_to_metric_families, texts)):
        suffix = "_total" if family.type == "counter" else ""
        labels = {label for sample in family.samples for label in sample.labels}
        yield family.name + suffix, labels, bool(family.samples)


def test_the_pages_have_every_metric_with_its_labels(pages: dict[str, str]) -> None:
    shown: dict[str, set[str]] = {}
    full = set()
    for name, labels, has_samples in families(pages.values()):
        shown.setdefault(name, set()).update(labels)
        full |= {name} if has_samples else set()

    assert [name for name in monitoring.defined() if name not in shown] == []
    own = {name: labels for name, labels in monitoring.defined().items() if name in full}
    assert {name: shown[name] - {"le"} for name in own} == own
    assert len(own) > 45


def test_the_pages_have_what_alerts_and_the_dashboard_ask_for(pages: dict[str, str]) -> None:
    shown = {name: labels for name, labels, _ in families(pages.values())} | {"up": set()}
    known = monitoring.defined()
    for expr in (*(each["expr"] for each in monitoring.alerts()), *monitoring.expressions()):
        asked = promtool_rules.names_of(expr)
        assert asked, expr
        for name, labels in asked.items():
            plain = name.removesuffix("_count").removesuffix("_bucket")
            assert plain in shown, expr
            assert labels <= known.get(plain, shown[plain]) | OF_PROMETHEUS, expr


def test_the_api_server_takes_the_token_with_which_the_reconciler_is_scraped(
    reconciler: Reconciler, api: Api
) -> None:
    """What is of Prometheus' operator has a CRD that is not here."""
    ours = [x for x in kustomize.build(MONITORING) if "monitoring.coreos" not in x["apiVersion"]]
    assert [each["kind"] for each in ours] == ["ServiceAccount", "Secret", "ClusterRoleBinding"]
    for each in ours:
        api.tried(each)


def test_a_gang_that_never_fits(
    reconciler: Reconciler, api: Api, gangs: Gangs, nodes: NodeFactory, tmp_path: Path
) -> None:
    nodes(1, "2")
    gangs.create("large", 2, cpu="64")
    sample = 'gang_extender_waiting_groups{reason="NeverFits"}'
    api.wait_for("it never fits", lambda: reconciler.metric(sample) >= 1)

    fires(tmp_path, "GangExtenderGangNeverFits", page(reconciler.url))
    fires(tmp_path, "GangExtenderGangStuck", page(reconciler.url), later=HOUR, expected=False)


def test_a_gang_that_kube_scheduler_does_not_place_is_stuck_after_a_while(
    gang: GangScheduler,
    reconciler: Reconciler,
    api: Api,
    gangs: Gangs,
    nodes: NodeFactory,
    tmp_path: Path,
) -> None:
    nodes(1)
    term = {"topologyKey": "zone", "labelSelector": {"matchLabels": {"is": "nowhere"}}}
    affinity = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    gangs.create("stuck", 2, affinity=affinity)
    sample = 'gang_extender_waiting_groups{reason="MemberUnschedulable"}'
    api.wait_for("kube-scheduler finds no node", lambda: reconciler.metric(sample) >= 1)
    found = page(reconciler.url)

    fires(tmp_path, "GangExtenderGangStuck", found, later=HOUR)
    fires(tmp_path, "GangExtenderGangStuck", found, expected=False)


def test_bindings_that_fail(
    gang: GangScheduler, api: Api, namespace: str, nodes: NodeFactory, tmp_path: Path
) -> None:
    nodes(1)
    before = gang.metrics()
    sample = 'gang_extender_bindings_total{path="asked",result="error"}'
    earlier = gang.metric(sample)
    with refused(api, namespace, "refused", "Forbidden"):
        api.create(objects.pod("refused", namespace=namespace))
        api.wait_for("its Binding fails", lambda: gang.metric(sample) > earlier)
        after = gang.metrics()

    fires(tmp_path, "GangExtenderBindsFail", after, before=before)
    fires(tmp_path, "GangExtenderBindsFail", before, before=before, expected=False)


def test_quota_that_is_overcommitted(
    reconciler: Reconciler, api: Api, queues: Queues, nodes: NodeFactory, tmp_path: Path
) -> None:
    nodes(1)
    name, _ = queues.simple(cpu=2)
    queues.job("runs", pods=2, run_for="10m")
    queues.await_admitted("runs")
    full = page(reconciler.url)
    fires(tmp_path, "GangExtenderQuotaOvercommitted", full, expected=False)

    where = "kueue.x-k8s.io/v1beta2/clusterqueues"
    groups = api.get(where, name)["spec"]["resourceGroups"]
    [cpu] = [x for x in groups[0]["flavors"][0]["resources"] if x["name"] == "cpu"]
    cpu["nominalQuota"] = "1"
    api.patch(where, name, body={"spec": {"resourceGroups": groups}})
    sample = "gang_extender_queue_overcommitted_quota{"

    def lacking() -> bool:
        lines = [x for x in page(reconciler.url).splitlines() if x.startswith(sample) and name in x]
        return any(float(line.rpartition(" ")[2]) == 1 for line in lines)

    api.wait_for("a core is lacking", lacking)
    fires(tmp_path, "GangExtenderQuotaOvercommitted", page(reconciler.url))


def test_a_queue_that_admits_nothing_stalls_after_a_while(
    reconciler: Reconciler, api: Api, queues: Queues, tmp_path: Path
) -> None:
    queues.simple(cpu=1)
    queues.job("large", pods=2)
    queues.await_condition("large", "QuotaReserved", status="False", reason="ExceedsMaxQuota")
    found = page(reconciler.url)

    fires(tmp_path, "GangExtenderQueueStalled", found, later=HOUR)
    fires(tmp_path, "GangExtenderQueueStalled", found, expected=False)
