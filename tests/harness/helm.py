"""Helm, as an administrator runs it on the chart of this checkout."""

import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import yaml

from tests.harness.gang_scheduler import NAMESPACE
from tests.harness.manifests import Object, parsed
from tests.harness.toolchain import KUBERNETES, ensure_helm

CHART: Final = Path(__file__).parents[2] / "manifests" / "chart"
RELEASE: Final = "gang-extender"
VERSION: Final = f"v{KUBERNETES}"

Values = Mapping[str, Any]


class HelmError(RuntimeError):
    """Helm failed; the text is what it said."""


def template(
    values: Values, *, namespace: str = NAMESPACE, kubernetes: str = VERSION
) -> list[Object]:
    """Return the objects of the chart for values; HelmError says what is wrong with these."""
    arguments = ["--kube-version", kubernetes]
    return parsed(helm("template", *_release(namespace), *arguments, values=values))


def lint(values: Values) -> str:
    """Return what `helm lint` says; HelmError where it finds fault."""
    return helm("lint", str(CHART), "--strict", "--kube-version", VERSION, values=values)


def install(kubeconfig: Path, values: Values, *more: str, upgrade: bool = False) -> str:
    """Install or upgrade the release, and return what Helm says; HelmError where it fails."""
    how = ["upgrade"] if upgrade else ["install", "--create-namespace"]
    return helm(*how, *_release(NAMESPACE), f"--kubeconfig={kubeconfig}", *more, values=values)


def uninstall(kubeconfig: Path) -> str:
    """Uninstall the release, and return what Helm says; HelmError where it fails."""
    return helm("uninstall", RELEASE, "-n", NAMESPACE, f"--kubeconfig={kubeconfig}")


def helm(*arguments: str, values: Values | None = None) -> str:
    """Return the standard output of a command of Helm; HelmError where it fails."""
    read = [] if values is None else ["--values=-"]
    done = subprocess.run(
        [ensure_helm(), *arguments, *read],
        input=yaml.safe_dump({**(values or {})}),
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise HelmError(f"{done.stdout}{done.stderr}")
    return done.stdout


def _release(namespace: str) -> list[str]:
    return [RELEASE, str(CHART), "-n", namespace]
