"""The operators of others that jobs need, built from their released sources and run as they are.

    python -m tests.harness.partners [NAME...]     build them; all of them without names

Each is a Go module. It is compiled once per version into the user's cache, with the manifests that
it is installed with: CRDs, roles and webhooks. An operator runs with the token of its own
ServiceAccount, and listens on 127.0.0.1 alone.
"""

import base64
import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any, Final
from zipfile import ZipFile

import httpx
import yaml

from tests.harness.client import Api
from tests.harness.control_plane import ControlPlane
from tests.harness.helm import helm
from tests.harness.manifests import documents
from tests.harness.process import Component, free_port
from tests.harness.started import fetch
from tests.harness.toolchain import Report, ToolchainError, built_once, find_go, go, print_line

NAMESPACE: Final = "partners"
_READY_SECONDS: Final = 180.0


@dataclass(frozen=True, slots=True)
class Partner:
    """An operator: its module, and how it is installed and started."""

    name: str
    module: str
    version: str
    package: str
    manifests: tuple[str, ...]
    """The files and folders of its module that an administrator applies."""
    account: str
    arguments: Callable[["Start"], Sequence[str]]
    env: Callable[["Start"], Mapping[str, str]] = lambda _: {}
    changes: tuple[tuple[str, str, str], ...] = ()
    """Changes of its source before the build: file, text, and what replaces it."""
    chart: str = ""
    """The folder of its Helm chart, whose roles an administrator applies."""
    needs: tuple["Partner", ...] = ()
    """The operators that it uses, which run first."""
    silent: tuple[str, ...] = ()
    """The paths of webhooks of kinds that it is started without."""
    answers: str = "/healthz"
    """The path of the health check that it passes once it serves its webhooks, if it has one."""
    objects: Callable[["Start"], Sequence[dict[str, Any]]] = lambda _: ()
    """The objects that it is started with, in its namespace."""


@dataclass(slots=True)
class Start:
    """The ports and the files of one operator."""

    folder: Path
    kubeconfig: Path
    certificates: Path
    proxy: str = ""
    """An HTTP proxy that it calls its jobs through."""
    health: int = field(default_factory=free_port)
    webhooks: int = field(default_factory=free_port)

    def write(self, name: str, document: Mapping[str, Any]) -> str:
        """Write a configuration file, and return its path."""
        path = self.folder / name
        path.write_text(yaml.safe_dump(dict(document)))
        return str(path)


def _configuration(start: Start, group: str) -> str:
    """Write the configuration of JobSet, or of LeaderWorkerSet, which copied it."""
    return start.write(
        "configuration.yaml",
        {
            "apiVersion": f"{group}/v1alpha1",
            "kind": "Configuration",
            "leaderElection": {"leaderElect": False},
            "internalCertManagement": {"enable": False},
            "webhook": {
                "host": "127.0.0.1",
                "port": start.webhooks,
                "certDir": str(start.certificates),
            },
            "metrics": {"bindAddress": "0"},
            "health": {"healthProbeBindAddress": f"127.0.0.1:{start.health}"},
        },
    )


JOBSET: Final = Partner(
    name="jobset",
    module="sigs.k8s.io/jobset",
    version="v0.10.1",
    package=".",
    manifests=(
        "config/components/crd/bases",
        "config/components/rbac/role.yaml",
        "config/components/webhook/manifests.yaml",
    ),
    account="jobset-controller-manager",
    arguments=lambda start: [f"--config={_configuration(start, 'config.jobset.x-k8s.io')}"],
    env=lambda start: {"KUBECONFIG": str(start.kubeconfig)},
    answers="/readyz",
)
MPI: Final = Partner(
    name="mpi-operator",
    module="github.com/kubeflow/mpi-operator",
    version="v0.6.0",
    package="./cmd/mpi-operator",
    manifests=("manifests/base/kubeflow.org_mpijobs.yaml", "manifests/base/cluster-role.yaml"),
    account="mpi-operator",
    arguments=lambda start: [
        f"--kubeConfig={start.kubeconfig}",
        f"--lock-namespace={NAMESPACE}",
        "--kube-api-qps=200",
        "--kube-api-burst=200",
    ],
    env=lambda start: {"HEALTH_ADDRESS": f"127.0.0.1:{start.health}"},
    # It listens for health checks on port 8080 of all addresses, and nothing says otherwise.
    changes=(
        (
            "cmd/mpi-operator/app/server.go",
            'fmt.Sprintf(":%d", healthCheckPort)',
            'os.Getenv("HEALTH_ADDRESS")',
        ),
    ),
)
KUBERAY: Final = Partner(
    name="kuberay",
    module="github.com/ray-project/kuberay/ray-operator",
    version="v1.5.0",
    package=".",
    manifests=("config/crd/bases", "config/rbac/role.yaml"),
    account="kuberay-operator",
    arguments=lambda start: [
        "--metrics-addr=0",
        f"--health-probe-bind-address=127.0.0.1:{start.health}",
        "--enable-leader-election=false",
    ],
    env=lambda start: {
        "KUBECONFIG": str(start.kubeconfig),
        "ENABLE_WEBHOOKS": "false",
        "ENABLE_INIT_CONTAINER_INJECTION": "false",
        "ENABLE_PROBES_INJECTION": "false",
        "HTTP_PROXY": start.proxy,
        "NO_PROXY": "127.0.0.1",
    },
)
_TRAINED: Final = ("paddlejob", "pytorchjob", "tfjob", "xgboostjob")
"""The kinds of its version but for MXJob, and MPIJob v1, whose CRD is the MPI operator's."""
_TRAINING_MAIN: Final = "cmd/training-operator.v1/main.go"
TRAINING: Final = Partner(
    name="training-operator",
    module="github.com/kubeflow/training-operator",
    version="v1.8.1",
    package="./cmd/training-operator.v1",
    manifests=(
        *(f"manifests/base/crds/kubeflow.org_{kind}s.yaml" for kind in _TRAINED),
        "manifests/base/rbac/role.yaml",
        "manifests/base/webhook/manifests.yaml",
    ),
    account="training-operator",
    silent=("/validate-kubeflow-org-v1-mxjob",),
    arguments=lambda start: [
        "--metrics-bind-address=0",
        f"--health-probe-bind-address=127.0.0.1:{start.health}",
        f"--webhook-server-port={start.webhooks}",
        *(f"--enable-scheme={kind}" for kind in _TRAINED),
    ],
    env=lambda start: {
        "KUBECONFIG": str(start.kubeconfig),
        "CERTIFICATES": str(start.certificates),
    },
    # It makes certificates of its own, in a folder that all of its kind share.
    changes=(
        (
            _TRAINING_MAIN,
            "Port: webhookServerPort,",
            'Port: webhookServerPort, Host: "127.0.0.1", CertDir: os.Getenv("CERTIFICATES"),',
        ),
        (_TRAINING_MAIN, "defer close(certsReady)", "close(certsReady)"),
        (
            _TRAINING_MAIN,
            "err = cert.ManageCerts(mgr, certGenerationConfig, certsReady); err != nil",
            "_ = certGenerationConfig; err != nil",
        ),
    ),
)


def _appwrapper_configuration(start: Start) -> Sequence[dict[str, Any]]:
    second = 10**9
    patience = {"admissionGracePeriod": 60, "warmupGracePeriod": 300, "retryLimit": 3}
    haste = {"failureGracePeriod": 1, "resetPause": 1, "deletionGracePeriod": 60}
    ends = {"gracePeriodCeiling": 3600, "successTTLCeiling": 3600}
    seconds = {name: each * second for name, each in {**patience, **haste, **ends}.items()}
    settings = {
        "appwrapper": {"faultTolerance": {**seconds, "retryLimit": 3}},
        "webhooksEnabled": False,
        "controllerManager": {
            "metrics": {"bindAddress": "0"},
            "health": {"bindAddress": f"127.0.0.1:{start.health}"},
        },
    }
    meta = {"name": "appwrapper-operator-config", "namespace": NAMESPACE}
    data = {"config.yaml": yaml.safe_dump(settings)}
    return [{"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": data}]


APPWRAPPER: Final = Partner(
    name="appwrapper",
    module="github.com/project-codeflare/appwrapper",
    version="v1.2.0",
    package="./cmd",
    # Its webhooks would be served on a fixed port of all addresses.
    manifests=(
        "config/crd/bases",
        "config/rbac/role.yaml",
        "config/rbac/leader_election_role.yaml",
    ),
    account="appwrapper-controller-manager",
    arguments=lambda _: (),
    env=lambda start: {"KUBECONFIG": str(start.kubeconfig), "NAMESPACE": NAMESPACE},
    objects=_appwrapper_configuration,
    # It reads the Jobs that it has just made from a cache. On a busy machine one of them may not be
    # there yet, and the AppWrapper is given up.
    changes=(
        (
            "internal/controller/appwrapper/appwrapper_controller.go",
            "if compStatus.deployed != compStatus.expected {",
            "if deployed := meta.FindStatusCondition(aw.Status.Conditions, "
            "string(awv1beta2.ResourcesDeployed)); compStatus.deployed != compStatus.expected && "
            "deployed != nil && time.Since(deployed.LastTransitionTime.Time) > 20*time.Second {",
        ),
    ),
)
_SPARK_WEBHOOK: Final = "cmd/operator/webhook/start.go"
_SPARK: Final[dict[str, Any]] = {
    "module": "github.com/kubeflow/spark-operator/v2",
    "version": "v2.5.1",
    "package": "./cmd/operator",
}


def _spark_home(start: Start) -> Path:
    """Return a folder with a `spark-submit` of the tests."""
    script = start.folder / "spark" / "bin" / "spark-submit"
    script.parent.mkdir(parents=True, exist_ok=True)
    script.write_text(
        f"#!{sys.executable}\n"
        f"import sys\n"
        f"from pathlib import Path\n"
        f"sys.path.insert(0, {str(Path(__file__).parents[2])!r})\n"
        f"from tests.cluster.partners.spark import submit\n"
        f"submit(sys.argv[1:], Path({str(start.kubeconfig)!r}))\n"
    )
    script.chmod(0o755)
    return script.parents[1]


SPARK_WEBHOOK: Final = Partner(
    name="spark-webhook",
    **_SPARK,
    manifests=("config/crd/bases", "config/rbac/role.yaml", "config/webhook/manifests.yaml"),
    account="spark-operator-webhook",
    arguments=lambda start: [
        *("webhook", "start", "--enable-cert-manager"),
        f"--webhook-cert-dir={start.certificates}",
        f"--webhook-port={start.webhooks}",
        f"--health-probe-bind-address=127.0.0.1:{start.health}",
    ],
    env=lambda start: {"KUBECONFIG": str(start.kubeconfig)},
    # It takes its certificates out of a Secret, and listens on all addresses.
    changes=(
        (
            _SPARK_WEBHOOK,
            "certProvider.SyncSecret(context.TODO(), webhookSecretName, webhookSecretNamespace)",
            "context.TODO().Err()",
        ),
        (
            _SPARK_WEBHOOK,
            "certProvider.WriteFile(webhookCertDir, webhookCertName, webhookKeyName)",
            "context.TODO().Err()",
        ),
        (_SPARK_WEBHOOK, "Port:     webhookPort,", 'Port: webhookPort, Host: "127.0.0.1",'),
    ),
    answers="/readyz",
)
SPARK: Final = Partner(
    name="spark-operator",
    **_SPARK,
    manifests=("config/crd/bases", "config/rbac/role.yaml"),
    account="spark-operator-controller",
    arguments=lambda start: [
        *("controller", "start", "--enable-ui-service=false"),
        "--kube-api-qps=200",
        "--kube-api-burst=200",
        f"--health-probe-bind-address=127.0.0.1:{start.health}",
    ],
    env=lambda start: {
        "KUBECONFIG": str(start.kubeconfig),
        "SPARK_HOME": str(_spark_home(start)),
        # It tells Spark where the API server is; the tests' `spark-submit` knows that.
        "KUBERNETES_SERVICE_HOST": "127.0.0.1",
        "KUBERNETES_SERVICE_PORT": "1",
    },
    needs=(SPARK_WEBHOOK,),
)
_KARPENTER_OPERATOR: Final = "pkg/operator/operator.go"


def _instance_types(start: Start) -> str:
    """Return the file with what Karpenter may buy: one size, in two zones, at one price.

    4 CPUs are left for pods: it takes a tenth of a CPU off.
    """
    offerings = [
        {
            "Price": 1.0,
            "Available": True,
            "Requirements": [
                _is("karpenter.sh/capacity-type", "on-demand"),
                _is("topology.kubernetes.io/zone", zone),
            ],
        }
        for zone in ("zone-a", "zone-b")
    ]
    size = {
        "name": "four",
        "architecture": "amd64",
        "operatingSystems": ["linux"],
        "resources": {"cpu": "4100m", "memory": "16Gi", "pods": "110"},
        "offerings": offerings,
    }
    path = start.folder / "instance-types.json"
    path.write_text(json.dumps([size]))
    return str(path)


def _is(key: str, value: str) -> dict[str, Any]:
    return {"key": key, "operator": "In", "values": [value]}


KARPENTER: Final = Partner(
    name="karpenter",
    module="sigs.k8s.io/karpenter",
    version="v1.15.0",
    package="./kwok",
    manifests=("pkg/apis/crds", "kwok/apis/crds"),
    chart="kwok/charts",
    account="karpenter",
    arguments=lambda start: [
        f"--health-probe-port={start.health}",
        f"--instance-types-file-path={_instance_types(start)}",
        "--disable-leader-election=true",
        "--feature-gates=CapacityBuffer=true",
        # Once none has come for so long, it buys; its own one second is little on a busy machine.
        "--batch-idle-duration=5s",
    ],
    env=lambda start: {"KUBECONFIG": str(start.kubeconfig), "SYSTEM_NAMESPACE": NAMESPACE},
    # It asks for the latest patch of Go, and listens on all addresses.
    changes=(
        ("go.mod", "\ngo 1.26.9\n", "\ngo 1.26.0\n"),
        (_KARPENTER_OPERATOR, 'fmt.Sprintf(":%d", options.FromContext(ctx).MetricsPort)', '"0"'),
        (
            _KARPENTER_OPERATOR,
            'HealthProbeBindAddress: fmt.Sprintf(":%d"',
            'HealthProbeBindAddress: fmt.Sprintf("127.0.0.1:%d"',
        ),
    ),
)


def _trainer_configuration(start: Start) -> str:
    return start.write(
        "trainer.yaml",
        {
            "apiVersion": "config.trainer.kubeflow.org/v1alpha1",
            "kind": "Configuration",
            "leaderElection": {"leaderElect": False},
            "certManagement": {"enable": False},
            "webhook": {"host": "127.0.0.1", "port": start.webhooks},
            "metrics": {"bindAddress": "0"},
            "health": {"healthProbeBindAddress": f"127.0.0.1:{start.health}"},
        },
    )


TRAINER: Final = Partner(
    name="trainer",
    module="github.com/kubeflow/trainer/v2",
    version="v2.1.0",
    package="./cmd/trainer-controller-manager",
    manifests=(
        *(
            f"manifests/base/crds/trainer.kubeflow.org_{each}.yaml"
            for each in ("clustertrainingruntimes", "trainingruntimes", "trainjobs")
        ),
        "manifests/base/rbac/role.yaml",
        "manifests/base/webhook/manifests.yaml",
    ),
    account="kubeflow-trainer-controller-manager",
    arguments=lambda start: [f"--config={_trainer_configuration(start)}"],
    env=lambda start: {
        "KUBECONFIG": str(start.kubeconfig),
        "CERTIFICATES": str(start.certificates),
    },
    # It looks for certificates in a folder that all of its kind share.
    changes=(
        (
            "pkg/config/config.go",
            "Host:    *cfg.Webhook.Host,",
            'Host: *cfg.Webhook.Host, CertDir: os.Getenv("CERTIFICATES"),',
        ),
    ),
    needs=(JOBSET,),
    answers="/readyz",
)
LWS: Final = Partner(
    name="lws",
    module="sigs.k8s.io/lws",
    version="v0.7.0",
    package="./cmd",
    manifests=("config/crd/bases", "config/rbac/role.yaml", "config/webhook/manifests.yaml"),
    account="lws-controller-manager",
    arguments=lambda start: [f"--config={_configuration(start, 'config.lws.x-k8s.io')}"],
    env=lambda start: {"KUBECONFIG": str(start.kubeconfig)},
)
_ALL: Final = (
    *(JOBSET, MPI, KUBERAY, TRAINING, TRAINER, LWS),
    *(SPARK_WEBHOOK, SPARK, APPWRAPPER, KARPENTER),
)
PARTNERS: Final = {each.name: each for each in _ALL}


def ensure_partner(partner: Partner, report: Report = print_line) -> Path:
    """Return the folder with an operator's program and manifests, built first where missing."""
    program = find_go(report)

    def build(part: Path) -> None:
        source = part / "source"
        shutil.copytree(_downloaded(partner, program, part), source)
        for path in (source, *source.rglob("*")):
            path.chmod(path.stat().st_mode | 0o200)  # the cache of modules is read-only
        for name, text, replacement in partner.changes:
            lines = (source / name).read_text()
            if lines.count(text) != 1:
                raise ToolchainError(f"{partner.module}@{partner.version}: {name} lacks {text}")
            (source / name).write_text(lines.replace(text, replacement))
        go(
            [
                *("build", "-v", "-mod=mod", "-trimpath", "-ldflags=-s -w"),
                *("-o", str(part / partner.name), partner.package),
            ],
            cwd=source,
            what=f"{partner.name} {partner.version} (2-8 minutes when cold)",
            report=report,
        )
        for name in partner.manifests:
            target = part / "manifests" / name
            target.parent.mkdir(parents=True, exist_ok=True)
            found = source / name
            (shutil.copytree if found.is_dir() else shutil.copy)(found, target)
        if partner.chart:
            rendered = helm("template", partner.name, str(source / partner.chart), "-n", NAMESPACE)
            (part / "manifests" / "chart.yaml").write_text(rendered)
        shutil.rmtree(source)
        shutil.rmtree(part / "zip", ignore_errors=True)

    recipe = repr((partner.package, partner.manifests, partner.changes)).encode()
    digest = sha256(recipe).hexdigest()[:8]
    return built_once(f"{partner.name}-{partner.version}-{digest}", build, report)


def _downloaded(partner: Partner, program: str, folder: Path) -> Path:
    """Return the folder of a module's source, downloaded where missing.

    A module that asks for a newer Go is downloaded all the same, with an error: its source lies in
    `folder` then, and a change of its `go.mod` can say that this Go is new enough.
    """
    module = f"{partner.module}@{partner.version}"
    done = subprocess.run(
        [program, "mod", "download", "-json", module],
        capture_output=True,
        text=True,
        cwd=folder,  # outside of any module
        check=False,
    )
    found: Mapping[str, str] = json.loads(done.stdout or "{}")
    if "Dir" in found:
        return Path(found["Dir"])
    if "Zip" in found:
        with ZipFile(found["Zip"]) as archive:
            archive.extractall(folder / "zip")
        return folder / "zip" / module
    why = found.get("Error", done.stderr)
    raise ToolchainError(f"{module} cannot be downloaded: {why}")


def install(control_plane: ControlPlane, partner: Partner, folder: Path, start: Start) -> None:
    """Apply an operator's CRDs, roles and webhooks, and give its account these roles."""
    subject = {"kind": "ServiceAccount", "name": partner.account, "namespace": NAMESPACE}
    with Api(control_plane.admin_kubeconfig) as api:
        api.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
        api.apply(
            {
                "apiVersion": "v1",
                "kind": "ServiceAccount",
                "metadata": {"name": partner.account, "namespace": NAMESPACE},
            }
        )
        for each in _objects(folder / "manifests"):
            kind, name = each["kind"], f"{partner.name}-{each['metadata']['name']}"
            if kind == "CustomResourceDefinition":
                api.apply(each)
            elif kind == "ClusterRole":
                role = {**each, "metadata": {"name": name}}
                api.apply([role, _binding("ClusterRole", name, subject)])
            elif kind == "Role":
                wanted = each["metadata"].get("namespace", "")
                namespace = wanted if wanted.startswith("kube-") else NAMESPACE
                role = {**each, "metadata": {"name": name, "namespace": namespace}}
                api.apply([role, _binding("Role", name, subject, namespace)])
            elif kind.endswith("WebhookConfiguration"):
                api.apply(_webhooks(each, name, start.webhooks, control_plane.authority))
        api.apply(partner.objects(start))
        # The leases of leader elections, whose roles differ in every operator.
        leases = {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "Role",
            "metadata": {"name": f"{partner.name}-leases", "namespace": NAMESPACE},
            "rules": [
                {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["*"]},
                {"apiGroups": [""], "resources": ["events"], "verbs": ["create", "patch"]},
            ],
        }
        api.apply([leases, _binding("Role", f"{partner.name}-leases", subject, NAMESPACE)])


def uninstall(control_plane: ControlPlane, partner: Partner) -> None:
    """Delete an operator's webhooks, so that the API server asks it no more."""
    with Api(control_plane.admin_kubeconfig) as api:
        for each in _objects(ensure_partner(partner) / "manifests"):
            if each["kind"].endswith("WebhookConfiguration"):
                resource = f"{each['apiVersion']}/{each['kind'].lower()}s"
                api.delete(resource, f"{partner.name}-{each['metadata']['name']}")


def _objects(folder: Path) -> list[dict[str, Any]]:
    return [each for path in sorted(folder.rglob("*.yaml")) for each in documents(path)]


def _binding(
    kind: str, name: str, subject: Mapping[str, str], namespace: str = ""
) -> dict[str, Any]:
    meta = {"name": name} | ({"namespace": namespace} if namespace else {})
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": f"{kind}Binding",
        "metadata": meta,
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": name},
        "subjects": [dict(subject)],
    }


def _webhooks(each: dict[str, Any], name: str, port: int, authority: Path) -> dict[str, Any]:
    """Return a configuration of webhooks that are served on a port of 127.0.0.1."""
    bundle = base64.b64encode(authority.read_bytes()).decode()
    webhooks = [
        {
            **webhook,
            "clientConfig": {
                "url": f"https://127.0.0.1:{port}{webhook['clientConfig']['service']['path']}",
                "caBundle": bundle,
            },
        }
        for webhook in each["webhooks"]
    ]
    return {**each, "metadata": {"name": name}, "webhooks": webhooks}


def start_partner(control_plane: ControlPlane, partner: Partner, *, proxy: str = "") -> Component:
    """Install an operator, start it, and return it once it answers."""
    built = ensure_partner(partner)
    folder = control_plane.folder / partner.name
    certificates = folder / "certificates"
    certificates.mkdir(parents=True, exist_ok=True)
    shutil.copy(control_plane.serving.certificate, certificates / "tls.crt")
    shutil.copy(control_plane.serving.key, certificates / "tls.key")
    start = Start(folder, folder / "kubeconfig", certificates, proxy)
    install(control_plane, partner, built, start)
    account = control_plane.service_account_kubeconfig(NAMESPACE, partner.account)
    start.kubeconfig.write_bytes(account.read_bytes())
    component = control_plane.spawn(
        partner.name,
        [built / partner.name, *partner.arguments(start)],
        env=partner.env(start),
        url=f"http://127.0.0.1:{start.health}",
    )
    control_plane.wait_until(
        f"{partner.name} answers",
        lambda: (
            _is_healthy(component, partner.answers)
            and _serves_webhooks(built / "manifests", start.webhooks, partner.silent)
        ),
        _READY_SECONDS,
    )
    return component


def _is_healthy(component: Component, path: str) -> bool:
    if not component.running:
        raise RuntimeError(f"{component.name} ended\n{component.tail(40)}")
    try:
        return fetch(f"{component.url}{path}").status_code == httpx.codes.OK
    except httpx.TransportError:
        return False


def _serves_webhooks(manifests: Path, port: int, silent: Collection[str]) -> bool:
    """Return whether all webhooks of an operator answer: some do so only after its health."""
    paths = [
        webhook["clientConfig"]["service"]["path"]
        for each in _objects(manifests)
        if each["kind"].endswith("WebhookConfiguration")
        for webhook in each["webhooks"]
    ]
    try:
        with httpx.Client(verify=False) as client:
            answers = [
                client.post(f"https://127.0.0.1:{port}{path}")
                for path in paths
                if path not in silent
            ]
    except httpx.TransportError:
        return False
    return all(each.status_code != httpx.codes.NOT_FOUND for each in answers)


def main(names: Sequence[str]) -> int:
    """Build the operators with these names, or all of them; print where they are."""
    unknown = [name for name in names if name not in PARTNERS]
    if unknown:
        print(f"{unknown[0]} is not one of {', '.join(PARTNERS)}", file=sys.stderr)
        return 2
    try:
        for name in names or PARTNERS:
            print(f"{name}: {ensure_partner(PARTNERS[name])}", flush=True)
    except ToolchainError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
