"""Every view, with what is known to be so; and that each is live, linked and usable by keyboard."""

import re
import ssl
from pathlib import Path

import httpx
import pytest
import yaml
from playwright.sync_api import Browser, expect

from tests.cluster.page.conftest import Look, opened, picture, picture_for_docs, served, visit
from tests.cluster.page.load import job, pods
from tests.cluster.queues import JOBS
from tests.harness import objects
from tests.harness.certificates import Authority, KeyPair
from tests.harness.client import Api
from tests.harness.control_plane import ControlPlane
from tests.harness.faulty_proxy import FaultyProxy
from tests.harness.gang_scheduler import NAMESPACE

pytestmark = [
    pytest.mark.misplaces("the tests do not wait for the end of what they stop"),
    pytest.mark.timeout(600),  # a page notices after a minute that something is gone
]

FIRST = ".q-virtual-scroll__content tr >> nth=0"
"""The first row of a table that scrolls, which has room for the rows before it above."""


def test_queues_show_who_has_what_and_who_waits_at_which_place(look: Look) -> None:
    page = look("/queues")

    language = page.locator(".queue-row", has_text="language")
    expect(language.locator(".bar").first).to_contain_text("64 of 40 · 24 borrowed")
    # The two other queues have as much quota.
    cohort = page.locator(".queue-row", has_text="research")
    expect(cohort.locator(".bar").first).to_contain_text("on nodes: 16 free of 128")
    robotics = page.locator(".queue-row", has_text="robotics")
    expect(robotics.locator(".bar").first).to_contain_text("8 of 32 · 24 lent")
    expect(page.locator(".queue-row", has_text="paused")).to_contain_text("is stopped")
    waits = page.locator("tr", has_text="Job/pretrain-405b")
    expect(waits).to_contain_text(re.compile(r"^1.*WaitingForQuota.*48 nvidia.com/gpu of a100"))
    expect(waits.locator(".col-since time")).to_have_text(re.compile(r"^\d+[sm]"))
    # Jobs say that they run for 45 minutes. One that asks for more than there is never starts,
    # which a slow machine does not find out in time.
    expect(waits.locator(".col-starts time")).to_have_text(re.compile(r"^in (\d+h)?\d+m$"))
    expect(waits.locator(".col-starts span")).to_have_attribute("title", re.compile("An estimate:"))
    too_large = page.locator("tr", has_text="Job/too-large")
    expect(too_large.locator(".col-starts")).to_have_text(re.compile("^(never|—)$"))
    expect(too_large).to_contain_text("ExceedsMaxQuota")
    expect(page.locator("tr", has_text="Job/held")).to_contain_text("Suspended")
    picture(page, "queues")
    picture_for_docs(page, "queues", 1360, 970)


def test_the_last_hours_show_use_and_waiting_of_each_queue(look: Look) -> None:
    page = look("/time")

    expect(page.locator(".chart canvas")).to_have_count(2)
    language = page.locator("tr", has_text="language")
    expect(language).to_contain_text(re.compile(r"160 %.*[1-9]"))
    expect(page.get_by_text("gangs that are partial now")).to_be_visible()
    picture(page, "time")


def test_a_job_that_comes_and_goes_is_shown_without_a_reload(look: Look, api: Api) -> None:
    page = look("/queues?namespace=team-language")
    expect(page.locator("tr", has_text="Job/pretrain-405b")).to_be_visible()
    row = page.locator("tr", has_text="Job/newcomer")
    expect(row).to_have_count(0)

    api.create(job("newcomer", "team-language", 30))
    expect(row).to_contain_text("60 nvidia.com/gpu of a100")

    api.delete(JOBS, "newcomer", "team-language")
    expect(row).to_have_count(0)
    expect(page.locator("tr", has_text="team-vision")).to_have_count(0)


def test_a_queue_a_namespace_and_a_text_choose_what_is_shown(look: Look) -> None:
    page = look("/queues")
    rows = page.locator(".q-table tbody tr")
    expect(rows.filter(has_text="Job/detect-video")).to_be_visible()
    expect(page.get_by_text("With quota", exact=True)).to_have_count(0)
    page.get_by_role("combobox", name="ClusterQueue").click()
    page.get_by_role("option", name="vision").click()

    page.wait_for_url("**/queues?queue=vision")
    holds = rows.filter(has_text="Job/segment-large")
    expect(holds).to_contain_text("16 nvidia.com/gpu of a100")
    expect(rows.filter(has_text="Job/detect-video")).to_be_visible()
    expect(rows.filter(has_text="team-robotics")).to_have_count(0)

    page.get_by_label("Filter").fill("detect")
    expect(rows.filter(has_text="sweep")).to_have_count(0)
    expect(rows.filter(has_text="Job/detect-video")).to_be_visible()
    expect(holds).to_have_count(0)

    page.get_by_label("Filter").fill("")
    expect(holds).to_be_visible()
    picture(page, "queue")
    expect(rows.filter(has_text="sweep").first).to_be_visible()
    page.get_by_label("Filter").fill("user=user-of-detect-video")  # of its pods
    expect(rows.filter(has_text="sweep")).to_have_count(0)
    expect(rows.filter(has_text="Job/detect-video")).to_be_visible()


def test_a_workload_shows_what_it_lacks_who_holds_that_and_the_commands(look: Look) -> None:
    page = look("/workload/team-language/pretrain-405b")  # the name of its job

    expect(page.locator(".state")).to_have_text("Pending")
    expect(page.get_by_text("Lacks 48 nvidia.com/gpu of flavor a100")).to_be_visible()
    expect(page.locator("tr", has_text="nvidia.com/gpu").first).to_contain_text("✗ 48")
    expect(page.locator("code", has_text="explain job pretrain-405b -n team-lang")).to_be_visible()
    expect(page.locator("tr", has_text="Job suspended")).to_be_visible()  # an Event
    starts = page.locator(".facts span", has_text="Starts at the earliest").first
    expect(starts).to_contain_text(re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC"))
    expect(page.get_by_text("jobs of unknown run time run forever")).to_be_visible()
    picture(page, "workload")
    page.get_by_role("link", name=re.compile("pretrain-70b")).first.click()

    expect(page.locator(".state").first).to_have_text("Admitted")
    expect(page.locator(".state").nth(1)).to_have_text("Started")  # its gang
    expect(page.locator(".gate", has_text="Quorum")).to_contain_text("24 of 24")
    expect(page.locator("tr", has_text="gpu-a2-").first).to_be_visible()
    picture(page, "admitted")


def test_a_gang_shows_each_gate_and_starts_before_the_eyes(look: Look, api: Api, high: str) -> None:
    # After a while nodes are set aside for the gang that waits, from all but higher priorities.
    members = pods("soon", 4, cpu="10m", high=high)
    api.create(objects.pod_group("soon", 4, namespace="team-batch"), *members[:3])
    page = look("/gang/team-batch/soon")

    gate = page.locator(".gate", has=page.get_by_text("Pods", exact=True))
    expect(gate).to_contain_text("✗")
    expect(gate).to_contain_text("3 of 4")
    expect(page.locator(".state")).to_have_text("Waiting")
    expect(page.get_by_text("→ 1 pod more")).to_be_visible()
    picture(page, "gang")

    api.create(*members[3:])

    expect(page.locator(".state")).to_have_text("Started")
    expect(gate).to_contain_text("4 of 4")
    expect(page.locator("tr", has_text="soon-3").first).to_contain_text("Bound")


def test_what_is_focused_sorted_and_selected_stays_when_a_story_changes(
    look: Look, api: Api, high: str
) -> None:
    group = objects.pod_group("grows", 5, namespace="team-batch")
    members = pods("grows", 5, cpu="10m", high=high)
    api.create(group, *members[:3])
    page = look("/gang/team-batch/grows")
    rows = page.locator("section", has=page.get_by_role("heading", name="Pods", exact=True))
    for _ in range(2):
        rows.locator("th", has_text="Pod").click()
    expect(rows.locator(FIRST)).to_contain_text("grows-2")
    page.locator("code").first.evaluate("each => getSelection().selectAllChildren(each)")
    copy = page.get_by_label("Copy").last
    copy.focus()

    api.create(*members[3:])

    expect(page.locator(".state")).to_have_text("Started")
    expect(rows.locator(FIRST)).to_contain_text("grows-4")
    expect(copy).to_be_focused()
    assert page.evaluate("getSelection().toString()").startswith("gang-extender explain")


def test_an_event_that_comes_while_nothing_else_changes_is_shown(look: Look, api: Api) -> None:
    page = look("/gang/team-batch/ring")
    expect(page.locator("tr", has_text="ring-0").first).to_be_visible()
    expect(page.locator("tr", has_text="FailedScheduling").first).to_be_visible()  # they were read
    expect(page.get_by_text("A late word")).to_have_count(0)

    meta = {"name": "late", "namespace": "team-batch"}
    about = {"kind": "Pod", "name": "ring-0", "namespace": "team-batch"}
    said = {"reason": "Late", "message": "A late word", "type": "Normal"}
    api.create(
        {"apiVersion": "v1", "kind": "Event", "metadata": meta, "involvedObject": about, **said}
    )

    expect(page.get_by_text("A late word")).to_be_visible()


def test_the_map_of_nodes_shows_racks_and_what_each_gang_has(look: Look) -> None:
    page = look("/nodes")

    rack = page.locator("td.domain", has_text="rack-a2")
    expect(rack).to_contain_text("zone-a")
    expect(rack.locator(".tile")).to_have_count(4)
    expect(page.locator(".numbers")).to_contain_text("128")
    part = page.locator(".part", has_text="pretrain-70b").first
    expect(part).to_have_attribute("title", re.compile("team-language/.*: 8, 4 pods"))
    picture(page, "nodes")
    gang = part.get_attribute("data-gang")

    page = look(f"/nodes?gang={gang}")
    expect(page.locator(f'.part[data-gang="{gang}"]').first).to_have_css("opacity", "1")
    expect(page.locator(".part", has_text="segment-large").first).to_have_css("opacity", "0.2")


def test_a_pasted_job_gets_the_answer_of_a_simulation(look: Look, api: Api) -> None:
    page = look("/what-if")
    asked = job("asked", "team-vision", 2)
    page.get_by_label("Manifest").fill(yaml.safe_dump(asked))
    page.get_by_role("button", name="Ask").click()

    expect(page.locator("h1")).to_have_text("Job team-vision/asked")
    expect(page.locator(".state")).to_have_text("would wait")
    expect(page.get_by_text("insufficient unused quota")).to_be_visible()
    picture(page, "what-if")

    asked["spec"]["parallelism"] = "two"
    file = {"name": "job.yaml", "mimeType": "", "buffer": yaml.safe_dump(asked).encode()}
    page.locator("input[type=file]").set_input_files(file)  # type: ignore[arg-type]
    expect(page.get_by_label("Manifest")).to_have_value(re.compile("parallelism: two"))
    page.get_by_role("button", name="Ask").click()
    expect(page.get_by_role("alert")).to_contain_text("spec.parallelism should be a whole number")
    names = [each["metadata"]["name"] for each in api.list(JOBS, "team-vision")]
    assert "asked" not in names

    large = {"name": "large.yaml", "mimeType": "", "buffer": b"#" * 65537}
    page.locator("input[type=file]").set_input_files(large)  # type: ignore[arg-type]
    expect(page.get_by_text("file of 64 KiB at most")).to_be_visible()
    expect(page.get_by_label("Manifest")).to_have_value(re.compile("parallelism: two"))


def test_the_keyboard_is_enough(look: Look) -> None:
    page = look("/queues")

    page.keyboard.press("g")
    page.wait_for_url("**/gangs")
    expect(page.locator("tr", has_text="ring")).to_contain_text("NotEnoughPods")
    picture(page, "gangs")
    page.goto(f"{page.url}?queue=vision")
    expect(page.locator("tr", has_text="segment-large")).to_contain_text("8 of 8")
    expect(page.locator("tr", has_text="pretrain-70b")).to_have_count(0)
    head = page.locator("th", has_text="Gang")
    head.press("Enter")
    expect(head).to_have_class(re.compile("sorted"))
    page.keyboard.press("t")
    page.wait_for_url("**/time")
    expect(page.locator(".chart").first).to_be_visible()
    page.keyboard.press("n")
    page.wait_for_url("**/nodes")
    expect(page.locator(".tile").first).to_be_visible()
    page.keyboard.press("/")
    page.keyboard.press("Escape")
    page.keyboard.press("w")
    page.wait_for_url("**/what-if")
    expect(page.locator(".live")).to_have_text("● live")
    page.keyboard.press("/")
    page.keyboard.type("ring")
    page.keyboard.press("Enter")
    page.wait_for_url("**/gang/team-batch/ring")
    expect(page.locator("h1")).to_have_text("team-batch/ring")
    page.keyboard.press("Tab")
    focused = page.evaluate("document.activeElement.textContent")
    assert focused == "gang-extender"


def test_what_is_not_there_is_said(look: Look) -> None:
    page = look("/gang/team-batch/nothing")
    expect(page.locator(".empty").first).to_contain_text("There is no gang team-batch/nothing")
    page = look("/nodes?resource=nonsense")
    expect(page.locator(".numbers")).to_contain_text("nvidia.com/gpu in all")
    page = look("/queues?namespace=nowhere")
    expect(page.get_by_text("Nothing waits here.")).to_be_visible()


@pytest.mark.parametrize(
    "path", ["/queues?queue=vision", "/gangs", "/nodes", "/gang/team-batch/ring"]
)
def test_a_phone_shows_all_without_scrolling_sideways(
    browser: Browser, page_url: str, path: str
) -> None:
    with opened(browser, 390, color_scheme="dark") as page:
        page.goto(page_url + path)
        expect(page.locator(".card").first).to_be_visible()
        expect(page.locator("body")).to_have_class(re.compile("body--dark"))
        expect(page.locator("td:visible, .tile").first).to_be_visible()
        picture(page, f"phone{path.replace('/', '-')}")
        page.wait_for_function(
            "[document.documentElement, ...document.querySelectorAll('.q-table__middle')]"
            ".every(each => each.scrollWidth <= each.clientWidth)"
        )


def test_it_says_that_the_api_server_is_away_and_goes_on_after_that(
    control_plane: ControlPlane, load: None, browser: Browser, api: Api, proxy: FaultyProxy
) -> None:
    account = control_plane.service_account_kubeconfig(NAMESPACE, "gang-page")
    kubeconfig = control_plane.through(account, proxy.port, "page-away")
    away = served(control_plane, kubeconfig, name="page-away", host="127.0.0.2")
    with away as url, opened(browser) as page:
        page.goto(f"{url}/queues?namespace=team-language")
        expect(page.locator(".live")).to_have_text("● live")

        proxy.block()
        expect(page.locator(".live")).to_contain_text("⚠")
        expect(page.locator("tr", has_text="Job/pretrain-405b")).to_be_visible()  # as it was
        api.create(job("meanwhile", "team-language", 30))
        proxy.unblock()

        expect(page.locator("tr", has_text="Job/meanwhile")).to_be_visible()
        expect(page.locator(".live")).to_have_text("● live")
    api.delete(JOBS, "meanwhile", "team-language")


def test_a_tenant_sees_its_namespace_and_totals_of_the_rest(
    control_plane: ControlPlane, load: None, browser: Browser, api: Api
) -> None:
    name = "team-vision"
    role = "gang-queue-viewer"
    account = {"kind": "ServiceAccount", "name": "viewer", "namespace": name}
    made = {"apiVersion": "v1", "kind": "ServiceAccount"}
    api.create({**made, "metadata": {"name": "viewer", "namespace": name}})
    api.create(objects.binding("viewer", role, account, namespace=name))
    token = api.token(name, "viewer")
    [foreign] = [
        each["metadata"]["name"]
        for each in api.list("scheduling.x-k8s.io/v1alpha1/podgroups", "team-language")
        if "pretrain-70b" in each["metadata"]["name"]
    ]
    frames: list[str] = []
    with (
        served(control_plane, None, "--authenticate", name="page-guarded") as url,
        opened(browser) as page,
    ):
        page.on(
            "websocket",
            lambda socket: socket.on("framereceived", lambda frame: frames.append(str(frame))),
        )
        page.goto(f"{url}/gangs")
        page.wait_for_url("**/login?next=/gangs")
        page.get_by_label("A bearer token").fill("nonsense")
        page.keyboard.press("Enter")
        expect(page.get_by_role("alert")).to_have_text("The API server does not accept this token.")
        page.get_by_label("A bearer token").fill(token)
        page.keyboard.press("Enter")
        page.wait_for_url("**/gangs")
        page.goto(f"{url}/queues")

        expect(page.locator("tr", has_text="Job/detect-video")).to_be_visible()
        expect(page.get_by_text(re.compile(r"\d+ more are in other namespaces"))).to_be_visible()
        expect(page.locator(".queue-row", has_text="robotics")).to_contain_text("2 waiting")
        picture(page, "tenant")
        page.get_by_role("combobox", name="Namespace").click()
        expect(page.get_by_role("option")).to_have_text(["team-vision"])
        for path in (
            "/queues?queue=language",
            "/gangs",
            "/nodes",
            "/workload/team-vision/detect-video",
        ):
            visit(page, url + path)
            expect(page.locator(".card").first).to_be_visible()
            for secret in ("pretrain", "grasping", "team-language", "team-robotics"):
                assert secret not in page.content(), path
                assert secret not in "".join(frames), path
        assert frames
        visit(page, f"{url}/what-if")
        page.get_by_label("Manifest").fill(yaml.safe_dump(job("asked", "team-language", 2)))
        page.get_by_role("button", name="Ask").click()
        expect(page.get_by_role("alert")).to_contain_text("may not see what is in the namespace")
        for path in (
            "/workload/team-language/pretrain-405b",
            f"/gang/team-language/{foreign}",
            f"/find?name=team-language/{foreign}",
        ):
            frames.clear()
            page.goto(url + path)
            expect(page.get_by_text("may not see what is in the namespace")).to_be_visible()
            shown = page.inner_text(".nicegui-content") + "".join(frames)
            assert not re.search(r"✗|nvidia|Admitted|Pending|gpu-[ab]", shown), path
        page.goto(f"{url}/queues")
        expect(page.locator(".live")).to_have_text("● live")
        # A browser that was away hears nothing of the end of its token but a refused connection.
        page.context.set_offline(True)
        page.evaluate("socket.io.engine.close()")
        expect(page.locator("#popup")).to_be_visible()
        api.delete("serviceaccounts", "viewer", name)
        api.wait_for("its token has ended", lambda: _answer(f"{url}/queues", token) == 303)
        page.context.set_offline(False)
        page.wait_for_url("**/login?next=/queues")


def test_a_session_ends_with_its_button_and_an_open_page_with_the_token(
    control_plane: ControlPlane, load: None, browser: Browser, api: Api
) -> None:
    name = "team-batch"
    account = {"kind": "ServiceAccount", "name": "leaves", "namespace": name}
    made = {"apiVersion": "v1", "kind": "ServiceAccount"}
    api.create({**made, "metadata": {"name": "leaves", "namespace": name}})
    api.create(objects.binding("leaves", "gang-queue-viewer", account, namespace=name))
    token = api.token(name, "leaves")
    guarded = served(control_plane, None, "--authenticate", name="page-leaves")
    with guarded as url, opened(browser) as page:

        def sign_in() -> None:
            page.goto(f"{url}/gangs")
            page.get_by_label("A bearer token").fill(token)
            page.get_by_role("button", name="Sign in").click()
            expect(page.locator(".live")).to_have_text("● live")

        sign_in()
        page.get_by_role("button", name=re.compile("leaves")).click()
        page.wait_for_url("**/login")
        sign_in()
        api.delete("serviceaccounts", "leaves", name)
        page.wait_for_url("**/login?next=/gangs")  # without a reload


def _answer(url: str, token: str) -> int:
    """Return the answer to a request with a token."""
    headers = {"Authorization": f"Bearer {token}"}
    return httpx.get(url, headers=headers, trust_env=False, timeout=60).status_code


def test_a_renewed_certificate_is_served(
    control_plane: ControlPlane, load: None, tmp_path: Path
) -> None:
    first, second = Authority(tmp_path / "first"), Authority(tmp_path / "second")
    files = KeyPair(tmp_path / "tls.crt", tmp_path / "tls.key")

    def renew(authority: Authority) -> None:
        made = authority.serving("page")
        files.key.write_bytes(made.key.read_bytes())
        files.certificate.write_bytes(made.certificate.read_bytes())

    def is_of(authority: Authority) -> bool:
        trusts = ssl.create_default_context(cafile=authority.ca)
        try:
            asked = httpx.get(f"{url}/livez", verify=trusts, trust_env=False, timeout=60)
        except httpx.ConnectError:
            return False
        return asked.is_success

    renew(first)
    flags = ("--tls-cert-file", str(files.certificate), "--tls-key-file", str(files.key))
    with served(control_plane, None, *flags, name="page-tls", scheme="https") as url:
        assert is_of(first)
        renew(second)
        control_plane.wait_until("the new certificate is served", lambda: is_of(second))
        assert not is_of(first)


def test_a_foreign_name_for_this_machine_gets_no_page(browser: Browser, page_url: str) -> None:
    with opened(browser) as page:
        answer = page.request.get(f"{page_url}/queues", headers={"Host": "evil.example.com"})
        assert answer.status == 400
