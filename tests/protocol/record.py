"""Records what a real kube-scheduler sends, one JSON file for each verb and form.

    python -m tests.protocol.record

A stock kube-scheduler with the shipped configuration talks to a small server that keeps the first
request of each verb and answers so that the next verb is called too. `names-*` are the requests of
an extender with nodeCacheCapable, `nodes-*` those of one without.
"""

import json
from collections.abc import Callable
from contextlib import AbstractContextManager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any, Self

from typing_extensions import override

from tests.harness import objects
from tests.harness.client import Api, ApiError
from tests.harness.control_plane import ControlPlane
from tests.harness.gang_scheduler import scheduler_config

RECORDED = Path(__file__).parent / "recorded"
NODES = ("node-0", "node-1")
VERBS = ("filter", "prioritize", "preempt", "bind")

Json = Any


class Recorder(AbstractContextManager["Recorder"]):
    """An extender that lets everything pass, really binds, and keeps the bodies."""

    def __init__(self, api: Api) -> None:
        self.bodies: dict[str, bytes] = {}
        self._api = api
        answers: dict[str, Callable[[Json], Json]] = {
            "filter": _filter,
            "prioritize": lambda _: [],
            "preempt": _preempt,
            "bind": self._bind,
        }
        recorder = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                verb = self.path.strip("/")
                body = self.rfile.read(int(self.headers["Content-Length"]))
                recorder.bodies.setdefault(verb, body)
                answer = json.dumps(answers[verb](json.loads(body))).encode()
                self.send_response(200)
                self.send_header("Content-Length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

            @override
            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.port = self._server.server_address[1]

    @override
    def __enter__(self) -> Self:
        Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    @override
    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def _bind(self, args: Json) -> Json:
        meta = {"name": args["PodName"], "namespace": args["PodNamespace"], "uid": args["PodUID"]}
        binding = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": meta,
            "target": {"apiVersion": "v1", "kind": "Node", "name": args["Node"]},
        }
        path = f"/api/v1/namespaces/{meta['namespace']}/pods/{meta['name']}/binding"
        try:
            self._api.request("POST", path, body=binding)
        except ApiError as error:
            return {"Error": str(error)}
        return {"Error": ""}


def _filter(args: Json) -> Json:
    return {"Nodes": args["Nodes"], "NodeNames": args["NodeNames"]}


def _preempt(args: Json) -> Json:
    if args["NodeNameToMetaVictims"] is not None:
        return {"NodeNameToMetaVictims": args["NodeNameToMetaVictims"]}
    return {
        "NodeNameToMetaVictims": {
            node: {
                "Pods": [{"UID": pod["metadata"]["uid"]} for pod in victims["Pods"]],
                "NumPDBViolations": victims["NumPDBViolations"],
            }
            for node, victims in args["NodeNameToVictims"].items()
        }
    }


def record(control_plane: ControlPlane, api: Api, form: str) -> None:
    """Have kube-scheduler place a gang and then evict it, and keep what it sends."""
    with Recorder(api) as recorder:
        config = scheduler_config(recorder.port)
        for extender in config["extenders"]:
            extender["nodeCacheCapable"] = form == "names"
        scheduler = control_plane.scheduler(config, name=f"kube-scheduler-{form}")
        namespace = f"recorded-{form}"
        api.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})
        for number in range(2):
            api.create(_pod(f"member-{number}", namespace, group="gang"))
        api.wait_for(
            "both members are bound",
            lambda: all(pod["spec"].get("nodeName") for pod in api.list("pods", namespace)),
        )
        kept = dict(recorder.bodies)
        api.create(_pod("urgent", namespace, priority_class="urgent"))
        api.wait_for("a preempt request", lambda: "preempt" in recorder.bodies)
        kept["preempt"] = recorder.bodies["preempt"]
        scheduler.stop()
        api.delete_all("pods", namespace, grace_seconds=0)
    for verb in VERBS:
        document = json.loads(kept[verb])
        text = json.dumps(document, indent=1) + "\n"
        (RECORDED / f"{form}-{verb}.json").write_text(text)


def _pod(name: str, namespace: str, **options: Any) -> objects.Object:
    return objects.pod(name, cpu="900m", namespace=namespace, **options)


def main() -> None:
    """Record both forms."""
    RECORDED.mkdir(exist_ok=True)
    with (
        ControlPlane(kubelet=False, controllers=False) as control_plane,
        Api(control_plane.admin_kubeconfig) as api,
    ):
        api.create(
            *(objects.node(name, "1") for name in NODES),
            {
                "apiVersion": "scheduling.k8s.io/v1",
                "kind": "PriorityClass",
                "metadata": {"name": "urgent"},
                "value": 1000,
            },
        )
        for form in ("names", "nodes"):
            record(control_plane, api, form)


if __name__ == "__main__":
    main()
