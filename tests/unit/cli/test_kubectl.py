"""`kubectl gang list`, `stop` and `resume`: rows of objects, and the writes that are made."""

import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any, Self

import msgspec
import pytest
from typer.testing import CliRunner

from extender.kube.errors import ForbiddenError, NotFoundError
from gang_tools.cli.kubectl import listing, stopping
from gang_tools.cli.kubectl.app import app

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
QUEUE_API = "kueue.x-k8s.io/v1beta2"
IN_TEAM = f"/apis/{QUEUE_API}/namespaces/team"
GANGS = "/apis/scheduling.x-k8s.io/v1alpha1/namespaces/team/podgroups"


def said(kind: str, reason: str, *, holds: bool = True) -> dict[str, str]:
    """Return a condition."""
    status = "True" if holds else "False"
    return {"type": kind, "status": status, "reason": reason, "message": f"it is {reason}"}


def made(kind: str, name: str, *conditions: dict[str, str], **parts: Any) -> dict[str, Any]:
    """Return an object that is 90 seconds old; `parts` are of its spec, status or metadata."""
    api = "scheduling.x-k8s.io/v1alpha1" if kind == "PodGroup" else QUEUE_API
    meta = {"name": name, "namespace": "team", "creationTimestamp": "2026-01-01T11:58:30Z"}
    return {
        "apiVersion": api,
        "kind": kind,
        "metadata": {**meta, **parts.get("metadata", {})},
        "spec": parts.get("spec", {}),
        "status": {"conditions": [*conditions], **parts.get("status", {})},
    }


OF_JOB = {"ownerReferences": [{"apiVersion": "batch/v1", "kind": "Job", "name": "train"}]}
OF_JOB["ownerReferences"][0]["controller"] = True  # type: ignore[assignment]
HAS_QUOTA = {"admission": {"clusterQueue": "cq"}}


class Server:
    """Answers for objects and lists by path, and keeps the patches."""

    def __init__(self, answers: dict[str, Any], refused: tuple[str, ...] = ()) -> None:
        self.answers, self.refused = answers, refused
        self.opened_with: tuple[object, ...] = ()
        self.asked: list[str] = []
        self.patches: list[tuple[str, Any]] = []

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        pass

    async def request(
        self, method: str, path: str, *, body: bytes = b"", most: int = sys.maxsize, **_: Any
    ) -> bytes:
        where = path.partition("?")[0]
        self.asked.append(path)
        if where in self.refused:
            raise ForbiddenError(f"{method} {where}: 403 cannot {method.lower()}", status=403)
        if where not in self.answers:
            raise NotFoundError(f"{method} {where}: 404", status=404)
        if method == "PATCH":
            self.patches.append((path, msgspec.json.decode(body)))
        found = self.answers[where]
        return msgspec.json.encode(
            {"metadata": {}, "items": found} if isinstance(found, list) else found
        )


@pytest.mark.parametrize(
    ("found", "want"),
    [
        pytest.param(
            made(
                "PodGroup",
                "g",
                said("Scheduled", "NotEnoughPods", holds=False),
                spec={"minMember": 3},
                status={"phase": "Pending"},
            ),
            "PodGroup g <none> Pending NotEnoughPods 90s 3 it is NotEnoughPods",
            id="gang",
        ),
        pytest.param(
            made("PodGroup", "g"), "PodGroup g <none> <none> <none> 90s <none> <none>", id="new"
        ),
        pytest.param(
            made("LocalQueue", "q", said("Active", "Ready"), spec={"clusterQueue": "cq"}),
            "LocalQueue q cq Active Ready 90s <none> it is Ready",
            id="queue",
        ),
        pytest.param(
            made("ClusterQueue", "cq", said("Active", "Stopped", holds=False)),
            "ClusterQueue cq <none> Inactive Stopped 90s <none> it is Stopped",
            id="stopped queue",
        ),
        pytest.param(
            made(
                "Workload",
                "w",
                said("QuotaReserved", "WaitingForQuota", holds=False),
                said("Evicted", "Deactivated"),
                spec={"queueName": "q"},
                metadata=OF_JOB,
            ),
            "Job train q Pending WaitingForQuota 90s <none> it is WaitingForQuota",
            id="waits again after an eviction",
        ),
        pytest.param(
            made(
                "Workload",
                "w",
                said("QuotaReserved", "QuotaReserved"),
                said("Admitted", "Unsatisfied", holds=False),
                status=HAS_QUOTA,
            ),
            "Workload w <none> QuotaReserved Unsatisfied 90s <none> it is Unsatisfied",
            id="has quota",
        ),
        pytest.param(
            made(
                "Workload",
                "w",
                said("QuotaReserved", "QuotaReserved"),
                said("Admitted", "Admitted"),
                status=HAS_QUOTA,
            ),
            "Workload w <none> Admitted Admitted 90s <none> it is Admitted",
            id="admitted",
        ),
        pytest.param(
            made("Workload", "w", said("Finished", "Succeeded")),
            "Workload w <none> Finished Succeeded 90s <none> it is Succeeded",
            id="finished",
        ),
        pytest.param(
            made("Workload", "w", metadata={"deletionTimestamp": "2026-01-01T11:59:00Z"}),
            "Workload w <none> Terminating <none> 90s <none> <none>",
            id="being deleted",
        ),
    ],
)
def test_a_row_says_phase_and_reason(found: dict[str, Any], want: str) -> None:
    text = listing.table_text([found], [*listing.HEADS, "MINMEMBER", "MESSAGE"], NOW)
    head, row = (" ".join(line.split()) for line in text.splitlines())
    assert head == "KIND NAME QUEUE PHASE REASON AGE MINMEMBER MESSAGE"
    assert row == want


def test_a_message_changes_nothing_in_the_terminal() -> None:
    found = made("PodGroup", "g", said("Scheduled", "\x1b[2Jgone\nand more"))
    text = listing.table_text([found], ["REASON"], NOW)
    assert text == "REASON\n[2Jgone and more\n"


def listed(server: "Server", monkeypatch: pytest.MonkeyPatch, *words: str) -> tuple[int, str, str]:
    """Return how `list` ends with what a server has: its exit code, and what it prints and says."""

    @asynccontextmanager
    async def opened(*given: object) -> AsyncIterator[Any]:
        server.opened_with = given
        clock = SimpleNamespace(wall=NOW.timestamp)
        yield SimpleNamespace(reader=server, clock=clock)

    monkeypatch.setattr("gang_tools.snapshot.file.opened", opened)
    result = CliRunner().invoke(app, words if "list" in words else ["list", *words])
    return result.exit_code, result.stdout, result.stderr


def test_an_empty_list_is_told_from_an_api_server_without_the_kinds(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    server = Server({f"{IN_TEAM}/workloads": [], f"/apis/{QUEUE_API}/workloads": []})
    none = "No resources found in team namespace.\n"
    assert listed(server, monkeypatch, "-n", "team") == (0, "", none)
    assert listed(server, monkeypatch, "-A") == (0, "", "No resources found\n")
    unknown = f"gang-extender: GET {GANGS}: 404. Apply manifests/crds\n"
    assert listed(server, monkeypatch, "gangs", "-n", "team") == (1, "", unknown)


@pytest.mark.parametrize("option", ["-n", "--namespace"])
def test_a_namespace_may_be_named_like_a_command(
    monkeypatch: pytest.MonkeyPatch, option: str
) -> None:
    server = Server({f"/apis/{QUEUE_API}/namespaces/stop/workloads": []})
    assert listed(server, monkeypatch, option, "stop", "list")[0] == 0


@pytest.mark.parametrize(
    "words",
    ["list --context far -n team", "--context=far -n team list", "-n team list --context far"],
)
def test_options_come_before_or_after_the_command(
    monkeypatch: pytest.MonkeyPatch, words: str
) -> None:
    server = Server({f"{IN_TEAM}/workloads": []})
    assert listed(server, monkeypatch, *words.split())[0] == 0
    assert server.opened_with == (None, None, "far")
    assert all("/namespaces/team/" in path for path in server.asked)


def test_what_cannot_be_a_namespace_is_wrong_use() -> None:
    for command in ("list", "top"):
        asked = [command, "-n", "a/b"]
        result = CliRunner().invoke(app, asked, env={"COLUMNS": "200"})
        assert result.exit_code == 2
        assert "'a/b' cannot be the name of a namespace" in result.output


def test_each_kind_that_may_not_be_read_has_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    queue = made("ClusterQueue", "cq")
    del queue["spec"], queue["status"]
    plurals = [f"/apis/{QUEUE_API}/{each}" for each in ("localqueues", "workloads")]
    server = Server({f"/apis/{QUEUE_API}/clusterqueues": [queue]}, refused=tuple(plurals))
    code, printed, said = listed(server, monkeypatch, "-A", "--no-headers")
    assert (code, printed.split()[1:3]) == (1, ["ClusterQueue", "cq"])
    assert [line.split()[-1] for line in said.splitlines()] == ["get", "get", "all"]


async def test_a_list_has_what_may_be_read_and_names_what_may_not() -> None:
    lists = {GANGS: [made("PodGroup", "g")], f"{IN_TEAM}/localqueues": [made("LocalQueue", "q")]}
    server = Server(lists, refused=(f"{IN_TEAM}/workloads",))

    found, refused = await listing.listed(server, "team", "all", selector="a=b")

    names = ["localqueue.kueue.x-k8s.io/q", "podgroup.scheduling.x-k8s.io/g"]
    assert [*map(listing.name_of, found)] == names
    assert [str(each) for each in refused] == [f"GET {IN_TEAM}/workloads: 403 cannot get"]
    assert all("labelSelector=a%3Db" in path for path in server.asked)
    everywhere = Server({f"/apis/{QUEUE_API}/clusterqueues": [made("ClusterQueue", "cq")]})
    assert len((await listing.listed(everywhere, "", "queues"))[0]) == 1
    assert len(everywhere.asked) == 2


@pytest.mark.parametrize(
    ("words", "path", "spec", "want"),
    [
        pytest.param(
            ("stop", "job", "train"),
            "workloads/w",
            {"active": False},
            "workload.kueue.x-k8s.io/w stopped (spec.active: false); its pods end",
            id="stop a job",
        ),
        pytest.param(
            ("stop", "localqueues.kueue.x-k8s.io/q"),
            "localqueues/q",
            {"stopPolicy": "Hold"},
            "localqueue.kueue.x-k8s.io/q stopped (spec.stopPolicy: Hold); it admits nothing new",
            id="hold a queue",
        ),
        pytest.param(
            ("stop", "localqueue", "q", "--drain", "--dry-run=server"),
            "localqueues/q",
            {"stopPolicy": "HoldAndDrain"},
            "localqueue.kueue.x-k8s.io/q stopped (spec.stopPolicy: HoldAndDrain) (server dry run)",
            id="try to drain a queue",
        ),
        pytest.param(
            ("resume", "workload", "stopped"),
            "workloads/stopped",
            {"active": True},
            "workload.kueue.x-k8s.io/stopped resumed (spec.active: true)",
            id="resume a workload",
        ),
        pytest.param(
            ("resume", "lq", "q"), "", None, "/q unchanged (spec.stopPolicy: None)", id="no change"
        ),
        pytest.param(
            ("stop", "lq/drained"),
            "",
            None,
            "/drained unchanged (spec.stopPolicy: HoldAndDrain)",
            id="hold a queue that is drained",
        ),
    ],
)
def test_what_is_stopped_and_resumed(
    monkeypatch: pytest.MonkeyPatch,
    words: tuple[str, ...],
    path: str,
    spec: dict[str, Any] | None,
    want: str,
) -> None:
    workload = made("Workload", "w", metadata={**OF_JOB, "uid": "u"})
    stopped = made("Workload", "stopped", spec={"active": False})
    server = Server(
        {
            f"{IN_TEAM}/workloads": [workload],
            f"{IN_TEAM}/workloads/w": workload,
            f"{IN_TEAM}/workloads/stopped": stopped,
            f"{IN_TEAM}/localqueues/q": made("LocalQueue", "q"),
            f"{IN_TEAM}/localqueues/drained": made(
                "LocalQueue", "drained", spec={"stopPolicy": "HoldAndDrain"}
            ),
        }
    )
    serve(server, monkeypatch)

    result = CliRunner().invoke(app, [*words, "-n", "team"])

    assert result.exit_code == 0, result.output
    assert want in result.stdout
    assert [patch for _, patch in server.patches] == ([] if spec is None else [{"spec": spec}])
    for each, _ in server.patches:
        dry = "&dryRun=All" if "--dry-run=server" in words else ""
        assert each == f"{IN_TEAM}/{path}?fieldManager=kubectl-gang{dry}"


@pytest.mark.parametrize(
    ("words", "code", "want"),
    [
        pytest.param(
            ("stop", "job", "none"), 1, "kubectl gang explain job none -n team", id="no such job"
        ),
        pytest.param(("stop", "workload", "done"), 1, "has finished", id="finished"),
        pytest.param(
            ("stop", "lq", "closed"),
            1,
            "Ask for a role that may get and patch localqueues of kueue.x-k8s.io",
            id="no right",
        ),
        pytest.param(
            ("stop", "job", "a", "--drain"), 2, "is for stopping queues", id="drain a job"
        ),
        pytest.param(("resume", "lq", "q", "--drain"), 2, "is for stopping", id="resume, drain"),
        pytest.param(
            ("stop", "pg", "a"), 2, "pg is neither workload, localqueue", id="no such kind"
        ),
        pytest.param(("stop", "Jobs"), 2, "Jobs NAME, or Jobs/NAME", id="no name"),
        pytest.param(("stop", "kwl/a", "--kind=Job"), 2, "--kind is for jobs", id="odd kind"),
        pytest.param(("stop", "lq/a", "b"), 2, "give one name", id="two names"),
        pytest.param(("stop", "cq", "a"), 1, "404. Apply manifests/crds", id="no CRD"),
    ],
)
def test_what_cannot_be_stopped_is_said(
    monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], code: int, want: str
) -> None:
    done = made("Workload", "done", said("Finished", "Succeeded"))
    closed = f"{IN_TEAM}/localqueues/closed"
    answers = {f"{IN_TEAM}/workloads": [], f"{IN_TEAM}/workloads/done": done}
    serve(Server(answers, refused=(closed,)), monkeypatch)
    monkeypatch.setenv("COLUMNS", "200")

    result = CliRunner().invoke(app, [*words, "-n", "team"])

    assert (result.exit_code, result.stdout) == (code, "")
    assert want in result.stderr


def serve(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the commands that write ask a server of the test."""

    async def no_keys(*_: object) -> None:
        pass

    monkeypatch.setattr(stopping, "keyring", no_keys)
    monkeypatch.setattr(stopping, "KubeClient", lambda _: server)


def test_top_without_its_packages_says_how_to_install_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "textual", None)
    monkeypatch.delitem(sys.modules, "gang_tools.cli.kubectl.top", raising=False)

    result = CliRunner().invoke(app, ["top"])

    assert result.exit_code == 1
    assert result.stderr.startswith("gang-extender: textual is missing: pip install 'gang-")
    assert result.stderr.count("\n") == 1


def test_top_needs_a_terminal() -> None:
    result = CliRunner().invoke(app, ["top"])

    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr == "gang-extender: top needs a terminal; kubectl gang list needs none\n"
