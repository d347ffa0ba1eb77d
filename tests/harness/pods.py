"""Runs the containers of a pod as processes: what its YAML says, and nothing that it does not say.

Command lines, mounts, the service account's token, ports and probes are those of the pod, in
namespaces of its own (Linux; see `allowed`). Its images are our own `Dockerfile` and the programs
of the control plane. Limits of resources and the security context are left out.
"""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

from typing_extensions import override

from tests.harness import in_pod, pod_namespaces
from tests.harness.client import Api
from tests.harness.control_plane import ControlPlane
from tests.harness.process import Component
from tests.harness.started import Started

Object = dict[str, Any]

_ROOT: Final = Path(__file__).parents[2]
_OWN_IMAGE: Final = "gang-extender"
_ACCOUNT: Final = "/var/run/secrets/kubernetes.io/serviceaccount"
_TOKEN_SECONDS: Final = 3607  # as the kubelet asks for
_PROBE_SECONDS: Final = 60.0
_FETCH: Final = """
import ssl, sys, urllib.request
context = ssl.create_default_context()
context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
with urllib.request.urlopen(sys.argv[1], context=context) as answer:
    sys.exit(answer.status != 200)
"""
"""A kubelet does not look at the certificate either."""
_TRY: Final = "import ctypes, sys; sys.exit(ctypes.CDLL(None).unshare(0x54020000))"


def allowed() -> bool:
    """Return whether this machine lets us make the namespaces of a pod."""
    if not sys.platform.startswith("linux"):
        return False
    return subprocess.run([sys.executable, "-c", _TRY], check=False).returncode == 0


class RunningPod(Started):
    """The containers of a pod that is stored, each a process; use as a context manager.

    `number` makes its address. It is restarted by nobody.
    """

    def __init__(self, control_plane: ControlPlane, api: Api, pod: Object, number: int) -> None:
        super().__init__()
        self._control_plane, self._api, self._pod = control_plane, api, pod
        self.name: str = pod["metadata"]["name"]
        self._namespace: str = pod["metadata"]["namespace"]
        self._address = f"10.99.0.{number}"
        self._folder: Path = control_plane.folder / "pods" / self.name
        self.containers: dict[str, Component] = {}

    @override
    def _start(self) -> None:
        (self._folder / "staging").mkdir(parents=True)
        ready = self._folder / "namespaces"
        host, _, port = self._control_plane.url.removeprefix("https://").rpartition(":")
        program = [sys.executable, pod_namespaces.__file__]
        self._spawn("namespaces", [*program, str(ready), host, port, self._address])
        self._control_plane.wait_until(f"{self.name} has namespaces", ready.is_file)
        for container in self._pod["spec"]["containers"]:
            self._write(container, int(ready.read_text()))
            component = self._spawn(container["name"], self._entering(container, _argv(container)))
            self.containers[container["name"]] = component

    def _spawn(self, name: str, argv: list[str]) -> Component:
        component = self._control_plane.spawn(f"{self.name}-{name}", argv)
        self._stack.callback(component.stop)
        return component

    def _entering(self, container: Object, argv: list[str]) -> list[str]:
        return [sys.executable, in_pod.__file__, str(self._file(container)), *argv]

    def _file(self, container: Object) -> Path:
        return self._folder / f"{container['name']}.json"

    def _write(self, container: Object, pod: int) -> None:
        """Write what `in_pod.py` needs to know of a container."""
        path = [Path(sys.executable).parent, self._control_plane.programs, "/usr/bin", "/bin"]
        env = {
            "PATH": ":".join(map(str, path)),
            "HOME": "/",
            "KUBERNETES_SERVICE_HOST": "127.0.0.1",
            "KUBERNETES_SERVICE_PORT": "443",
            **{each["name"]: each["value"] for each in container.get("env", ())},
        }
        mounts = {
            each["mountPath"]: str(self._volume(each["name"]))
            for each in container.get("volumeMounts", ())
        }
        if self._pod["spec"]["automountServiceAccountToken"]:
            mounts[_ACCOUNT] = str(self._account())
        known = {
            "pod": pod,
            "hostname": self.name,
            "staging": str(self._folder / "staging"),
            "mounts": mounts,
            "env": env,
        }
        self._file(container).write_text(json.dumps(known))

    def _volume(self, name: str) -> Path:
        """Return the folder of a volume; ValueError where its kind is not known here."""
        [volume] = [each for each in self._pod["spec"]["volumes"] if each["name"] == name]
        folder = self._folder / "volumes" / name
        folder.mkdir(parents=True, exist_ok=True)
        match volume:
            case {"configMap": {"name": str(source)}}:
                found = self._api.get("configmaps", source, self._namespace)
                for key, text in found["data"].items():
                    (folder / key).write_text(text)
            case {"emptyDir": _}:
                pass
            case _:
                raise ValueError(f"a volume like {volume} is not known here")
        return folder

    def _account(self) -> Path:
        """Return a folder with what every pod gets, its token bound to this very pod."""
        folder = self._folder / "account"
        if folder.is_dir():
            return folder
        folder.mkdir()
        meta, account = self._pod["metadata"], self._pod["spec"]["serviceAccountName"]
        bound = {"apiVersion": "v1", "kind": "Pod", "name": self.name, "uid": meta["uid"]}
        request = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "spec": {"expirationSeconds": _TOKEN_SECONDS, "boundObjectRef": bound},
        }
        path = f"/api/v1/namespaces/{self._namespace}/serviceaccounts/{account}/token"
        token = self._api.request("POST", path, body=request).json()["status"]["token"]
        (folder / "token").write_text(token)
        (folder / "namespace").write_text(self._namespace)
        (folder / "ca.crt").write_bytes(self._control_plane.authority.read_bytes())
        return folder

    def answers(self, probe: str) -> bool:
        """Return whether all containers that have a probe of that kind pass it, as a kubelet asks.

        RuntimeError with its log where a container has ended.
        """
        for container in self._pod["spec"]["containers"]:
            component = self.containers[container["name"]]
            if not component.running:
                raise RuntimeError(f"{component.name} has ended\n{component.tail(40)}")
            if probe in container and not self._passes(container, container[probe]):
                return False
        return True

    def _passes(self, container: Object, probe: Object) -> bool:
        if "exec" in probe:
            command = probe["exec"]["command"]
        else:
            asked = probe["httpGet"]
            ports = {each["name"]: each["containerPort"] for each in container.get("ports", ())}
            port = ports.get(asked["port"], asked["port"])
            url = f"{asked['scheme'].lower()}://{self._address}:{port}{asked['path']}"
            command = ["python", "-c", _FETCH, url]
        argv = self._entering(container, command)
        ended = subprocess.run(argv, check=False, capture_output=True, timeout=_PROBE_SECONDS)
        return ended.returncode == 0


def _argv(container: Object) -> list[str]:
    """Return the command line: that of the pod, or its image's with the pod's arguments."""
    return [*(container.get("command") or _entrypoint(container)), *container.get("args", ())]


def _entrypoint(container: Object) -> list[str]:
    name = container["image"].rpartition(":")[0].rpartition("/")[2]
    if name != _OWN_IMAGE:
        raise ValueError(f"the command of {container['image']} is not known here")
    [line] = [
        line.removeprefix("ENTRYPOINT ")
        for line in (_ROOT / "Dockerfile").read_text().splitlines()
        if line.startswith("ENTRYPOINT ")
    ]
    entrypoint: list[str] = json.loads(line)
    return entrypoint
