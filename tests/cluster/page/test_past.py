"""The Time view begins with what a real Prometheus knows of the reconciler."""

import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
import yaml
from playwright.sync_api import Browser, expect
from prometheus_client.parser import text_string_to_metric_families

from gang_tools.page import prometheus
from tests.cluster.page.conftest import Look, opened, picture, served
from tests.harness import promtool_rules
from tests.harness.certificates import Authority, KeyPair
from tests.harness.client import Api
from tests.harness.control_plane import ControlPlane
from tests.harness.process import free_port
from tests.harness.reconciler import Reconciler
from tests.harness.started import metrics
from tests.harness.toolchain import ensure_prometheus

pytestmark = [
    pytest.mark.misplaces("the tests do not wait for the end of what they stop"),
    pytest.mark.timeout(900),  # the first one builds Prometheus
]
HOURS = 7
READ = (
    "kueue_cluster_queue_resource_reservation", "kueue_cluster_queue_nominal_quota",
    "kueue_pending_workloads", "gang_extender_leader",
)  # fmt: skip


@contextmanager
def scraping(
    control_plane: ControlPlane,
    reconciler: Reconciler,
    folder: Path,
    port: int,
    certificate: KeyPair | None = None,
) -> Iterator[str]:
    """Run a Prometheus that scrapes the reconciler; give its address."""
    target = {"targets": [reconciler.url.removeprefix("http://")]}
    scrape = {"job_name": "gang-reconciler", "static_configs": [target]}
    config = {"global": {"scrape_interval": "1s"}, "scrape_configs": [scrape]}
    (folder / "prometheus.yaml").write_text(yaml.safe_dump(config))
    url = f"http://127.0.0.1:{port}"
    options = {
        "config.file": folder / "prometheus.yaml",
        "storage.tsdb.path": folder / "data",
        "web.listen-address": f"127.0.0.1:{port}",
    }
    if certificate is not None:
        files = {"cert_file": str(certificate.certificate), "key_file": str(certificate.key)}
        options["web.config.file"] = folder / "web.yaml"
        (folder / "web.yaml").write_text(yaml.safe_dump({"tls_server_config": files}))
    given = (f"--{name}={value}" for name, value in options.items())
    server = control_plane.spawn("prometheus", [ensure_prometheus(), *given], url=url)
    try:
        yield url
    finally:
        server.stop()


def answered(server: str, query: str) -> dict[str, int]:
    """Return the current value of each ClusterQueue."""
    params = {"query": query}
    answer = httpx.get(f"{server}/api/v1/query", params=params, trust_env=False, timeout=60)
    found = answer.json()["data"]["result"] if answer.is_success else ()  # it may still start
    return {each["metric"]["cluster_queue"]: round(float(each["value"][1])) for each in found}


def test_use_and_waiting_are_those_that_the_page_itself_finds(
    look: Look, api: Api, control_plane: ControlPlane, reconciler: Reconciler, tmp_path: Path
) -> None:
    rows = look("/time").locator(".q-table tbody tr")
    cells = "rows => rows.map(row => [...row.cells].map(cell => cell.innerText))"
    with scraping(control_plane, reconciler, tmp_path, free_port()) as server:

        def are_equal() -> bool:
            found = [row for row in rows.evaluate_all(cells) if len(row) == 5]
            use, waiting = (answered(server, each) for each in (prometheus.USE, prometheus.WAITING))
            shown = {name: (int(now.split()[0]), int(waits)) for name, now, _, waits, _ in found}
            return len(shown) > 3 and shown == {
                name: (use[name], waiting[name]) for name in shown if name in use
            }

        api.wait_for("Prometheus and the page say the same", are_equal)


def write_past(folder: Path, page: str) -> None:
    """Fill an empty Prometheus with hours of a replica that had a quarter of the use."""
    now = time.time()
    lines = list[str]()
    for family in text_string_to_metric_families(page):
        if family.name not in READ:
            continue
        lines.append(f"# TYPE {family.name} gauge")
        for sample in family.samples:
            labels = {**sample.labels, "job": "gang-reconciler", "instance": "earlier:8889"}
            said = ",".join(f'{name}="{value}"' for name, value in labels.items())
            value = sample.value / 4 if "reservation" in family.name else sample.value
            for ago in range(HOURS * 3600, 0, -60):
                lines.append(f"{sample.name}{{{said}}} {value} {now - ago}")
    lines.append("# TYPE kueue_admitted_workloads counter")
    said = 'job="gang-reconciler",instance="earlier:8889",cluster_queue="language"'
    for minute in range(HOURS * 60):
        at = now - HOURS * 3600 + 60 * minute
        lines.append(f"kueue_admitted_workloads_total{{{said}}} {3 * minute} {at}")
    file = folder / "past.txt"
    file.write_text("\n".join([*lines, "# EOF", ""]))
    promtool_rules.run("tsdb", "create-blocks-from", "openmetrics", str(file), str(folder / "data"))


def test_the_hours_before_the_page_are_shown_once_prometheus_answers(
    browser: Browser,
    control_plane: ControlPlane,
    load: None,
    reconciler: Reconciler,
    tmp_path: Path,
) -> None:
    authority, port = Authority(tmp_path / "authority"), free_port()
    args = "--prometheus", f"https://127.0.0.1:{port}"
    env = {"SSL_CERT_FILE": str(authority.ca)}
    with (
        served(control_plane, None, *args, name="page-past", env=env) as url,
        opened(browser) as page,
    ):
        page.goto(f"{url}/time")
        language = page.locator("tr", has_text="language")
        expect(page.get_by_text("Prometheus: ConnectError")).to_be_visible()
        expect(language).to_contain_text(re.compile(r"160 %\s*160 %"))

        write_past(tmp_path, metrics(reconciler.url))
        certificate = authority.serving("prometheus")
        with scraping(control_plane, reconciler, tmp_path, port, certificate):
            expect(page.get_by_text("before the page started are from Prometheus")).to_be_visible()

        expect(language).to_contain_text(re.compile(r"160 %\s*[4-7]\d %"))
        option = "chart => getElement(+chart.id.slice(1)).chart.getOption().xAxis[0]"
        axis = page.locator(".chart").first.evaluate(option)
        assert 5.8 * 3600 < (axis["max"] - axis["min"]) / 1000 < 6.1 * 3600
        numbers = page.locator(".numbers").inner_text()
        found = re.search(r"(\d+)\s+workloads started in the last hour", numbers)
        assert found is not None, numbers
        assert int(found[1]) > 150
        picture(page, "past")
