"""Kubeconfig files: written by the control plane, read by the tests' client."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from tests.harness.certificates import KeyPair


@dataclass(frozen=True, slots=True)
class Kubeconfig:
    """Where the API server is, and the client certificate or token of the user."""

    server: str
    ca: Path
    certificate: KeyPair | None = None
    token: str | None = None

    def write(self, path: Path, *, user: str) -> Path:
        """Write the file that kubectl and client libraries read, and return its path."""
        credentials: dict[str, Any] = {}
        if self.certificate:
            credentials["client-certificate"] = str(self.certificate.certificate)
            credentials["client-key"] = str(self.certificate.key)
        if self.token:
            credentials["token"] = self.token
        cluster = {"server": self.server, "certificate-authority": str(self.ca)}
        path.touch(mode=0o600)
        path.write_text(
            yaml.safe_dump(
                {
                    "apiVersion": "v1",
                    "kind": "Config",
                    "clusters": [{"name": "test", "cluster": cluster}],
                    "users": [{"name": user, "user": credentials}],
                    "contexts": [{"name": "test", "context": {"cluster": "test", "user": user}}],
                    "current-context": "test",
                }
            )
        )
        return path


def read(path: Path) -> Kubeconfig:
    """Return the only cluster and user of a file that `Kubeconfig.write` wrote."""
    document = yaml.safe_load(path.read_text())
    cluster = document["clusters"][0]["cluster"]
    user = document["users"][0]["user"]
    pair = None
    if "client-certificate" in user:
        pair = KeyPair(Path(user["client-certificate"]), Path(user["client-key"]))
    ca = Path(cluster["certificate-authority"])
    return Kubeconfig(cluster["server"], ca, pair, user.get("token"))
