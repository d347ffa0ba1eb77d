"""Certificates that are served, and TLS with clients that show one."""

from pathlib import Path

from pydantic import Field
from pydantic.alias_generators import to_camel

from extender.config.files import SettingsError
from extender.config.sections import Name, Positive, Section


class Certificate(Section):
    """A certificate to serve, from files that are read again when they change."""

    cert_file: Path
    """PEM certificate chain of this service"""
    key_file: Path
    """PEM key of that certificate"""


class Tls(Certificate):
    """Serving with TLS, to clients that show a certificate of the given authority."""

    client_ca_file: Path
    """PEM authorities that sign the clients' certificates"""
    client_names: list[Name] = Field(min_length=1)
    """clients that may call the verbs: common names, DNS names or URIs, one of which the client's
    certificate must have; kubeadm's kube-scheduler is system:kube-scheduler"""
    check_seconds: Positive = 10
    """pause between two looks at the files; changed files are used without a restart"""

    def check_files(self) -> None:
        """Raise SettingsError where a file is missing; its name would be lost later."""
        for name in ("cert_file", "key_file", "client_ca_file"):
            path: Path = getattr(self, name)
            if not path.is_file():
                raise SettingsError(f"listen.tls.{to_camel(name)}: {path} is not a file")
