"""Runs the containers of a pod as processes: what its YAML says, and nothing that it does not say.

Command lines, mounts, the service account's token, ports and probes are those of the pod, in
namespaces of its own, or in those of its node (Linux; see `allowed`). Its images are our own
`Dockerfile` and the programs of the control plane. Limits of resources and the security context
are left out.
"""

import json
import subprocess
import sys
from base64 import b64decode
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


class Namespaces(Started):
    """The network of a pod, or of a node; use as a context manager.

    `address` is its own, and with `port` this one can be reached from outside.
    """

    def __init__(
        self, control_plane: ControlPlane, name: str, address: str, *, port: int | None = None
    ) -> None:
        super().__init__()
        self._control_plane, self._name, self._port = control_plane, name, port
        self.address = address
        self.pid = 0
        """A process that is inside."""
        self.outside_port = 0
        """Where `port` is reached, on 127.0.0.1 outside."""

    @override
    def _start(self) -> None:
        ready = self._control_plane.folder / f"{self._name}.namespaces"
        host, _, port = self._control_plane.url.removeprefix("https://").rpartition(":")
        argv = [sys.executable, pod_namespaces.__file__, str(ready), host, port, self.address]
        argv += [] if self._port is None else [str(self._port)]
        component = self._control_plane.spawn(f"{self._name}-namespaces", argv)
        self._stack.callback(component.stop)
        self._control_plane.wait_until(f"{self._name} has namespaces", ready.is_file)
        self.pid, self.outside_port = map(int, ready.read_text().split())


class RunningNode(Namespaces):
    """A node of the control plane, for its static pods: its network and its files."""

    def __init__(self, control_plane: ControlPlane, name: str, address: str) -> None:
        super().__init__(control_plane, name, address)
        self.root = control_plane.folder / "nodes" / name
        """What is / there."""
        self.root.mkdir(parents=True)


class RunningPod(Started):
    """The containers of a pod that is stored, each a process; use as a context manager.

    `number` makes its address. With `node` it is a static pod of that one, which has its network.
    `port` is one that can be reached from outside. It is restarted by nobody.
    """

    def __init__(
        self,
        control_plane: ControlPlane,
        api: Api,
        pod: Object,
        number: int,
        *,
        node: RunningNode | None = None,
        port: int | None = None,
    ) -> None:
        super().__init__()
        self._control_plane, self._api, self._pod, self._node = control_plane, api, pod, node
        self.name: str = pod["metadata"]["name"]
        self._namespace: str = pod["metadata"]["namespace"]
        assert bool(node) == pod["spec"].get("hostNetwork", False)
        address = f"10.99.0.{number}"
        self.network = node or Namespaces(control_plane, self.name, address, port=port)
        self._folder: Path = control_plane.folder / "pods" / self.name
        self.containers: dict[str, Component] = {}

    @override
    def _start(self) -> None:
        (self._folder / "staging").mkdir(parents=True)
        if self._node is None:
            self._stack.enter_context(self.network)
        for container in self._pod["spec"]["containers"]:
            self._write(container)
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

    def _write(self, container: Object) -> None:
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
        if self._node is None and self._pod["spec"]["automountServiceAccountToken"]:
            mounts[_ACCOUNT] = str(self._account())
        known = {
            "pod": self.network.pid,
            "hostname": self.name,
            "staging": str(self._folder / "staging"),
            "mounts": mounts,
            "env": env,
        }
        self._file(container).write_text(json.dumps(known))

    def _volume(self, name: str) -> Path:
        """Return what is mounted of a volume; ValueError where its kind is not known here."""
        [volume] = [each for each in self._pod["spec"]["volumes"] if each["name"] == name]
        folder = self._folder / "volumes" / name
        folder.mkdir(parents=True, exist_ok=True)
        match volume:
            case {"hostPath": {"path": str(path)}} if self._node is not None:
                return self._node.root / path.lstrip("/")
            case {"secret": {"secretName": str(source)}}:
                found = self._api.get("secrets", source, self._namespace)
                for key, data in found["data"].items():
                    (folder / key).write_bytes(b64decode(data))
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
        said = {"expirationSeconds": _TOKEN_SECONDS, "boundObjectRef": bound}
        token = self._api.token(self._namespace, account, **said)
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
            host, scheme = asked.get("host", self.network.address), asked.get("scheme", "HTTP")
            url = f"{scheme.lower()}://{host}:{port}{asked['path']}"
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
