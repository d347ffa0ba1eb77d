"""The webhooks of the reconciler, called by a real API server.

On a control plane of their own: their configurations hold jobs of all namespaces.
"""

import base64
import socket
import ssl
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import pytest
import yaml

from extender.config.settings import Webhooks
from extender.kube.certificates import Bundle, fault, issue
from extender.webhooks import conversion
from tests.cluster.alone import alone, unswept
from tests.cluster.served import CONVERTED, CRDS, OLDER, is_older_served
from tests.harness import objects
from tests.harness.client import Api, ApiError
from tests.harness.control_plane import ControlPlane
from tests.harness.gang_scheduler import NAMESPACE
from tests.harness.objects import Object
from tests.harness.reconciler import Reconciler
from tests.job_rules import QUEUE, Said
from tests.tiers import long_but_for

MANIFESTS = Path(__file__).parents[2] / "manifests"
SECRET = "gang-reconciler-webhooks-tls"
NEWER = "kueue.x-k8s.io/v1beta2"
CONFIGURATIONS = "admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"
SECONDS = 120
DAY = 86400.0
ELECTED = {
    "reconcile": {"leaseSeconds": 15, "renewSeconds": 10, "retrySeconds": 0.3},
    "webhooks": {"olderWorkloads": True},
}


control_plane, api = alone()


@pytest.fixture(scope="module")
def replica(control_plane: ControlPlane, api: Api) -> Iterator[Reconciler]:
    """The replica that leads, and that the API server calls."""
    reconciler = Reconciler(control_plane, settings=ELECTED, webhooks=True)
    reconciler.wait_leading()
    await_served(api)
    yield reconciler
    reconciler.stop()


namespace = unswept


def await_served(api: Api) -> None:
    api.wait_for("the older versions are served", lambda: is_older_served(api), SECONDS)


def queue(version: str, name: str) -> Object:
    field = "cohort" if version == OLDER else "cohortName"
    return {
        "apiVersion": version,
        "kind": "ClusterQueue",
        "metadata": {"name": name},
        "spec": {"namespaceSelector": {}, field: "c"},
    }


def bundle(api: Api) -> Bundle | None:
    secret = api.find("secrets", SECRET, NAMESPACE)
    return None if secret is None else bundle_in(secret)


def bundle_in(secret: Object) -> Bundle:
    parts = (secret["data"].get(part, "") for part in ("ca.crt", "tls.crt", "tls.key"))
    authorities, certificate, key = map(base64.b64decode, parts)
    return Bundle(authorities, certificate, key)


def served(replica: Reconciler, authorities: bytes) -> bytes | None:
    """Return the certificate that a replica serves, None if it is not to be believed."""
    host, port = replica.webhooks_url.removeprefix("https://").split(":")
    context = ssl.create_default_context(cadata=authorities.decode())
    try:
        with (
            socket.create_connection((host, int(port)), timeout=60) as plain,
            context.wrap_socket(plain, server_hostname=host) as secure,
        ):
            der = secure.getpeercert(binary_form=True)
    except ssl.SSLCertVerificationError:
        return None
    assert der is not None
    return ssl.DER_cert_to_PEM_cert(der).encode()


def reported(api: Api) -> list[bytes]:
    """Return the authorities that the API server trusts for conversion."""
    crds = (api.get(CRDS, name)["spec"]["conversion"] for name in CONVERTED)
    return [base64.b64decode(crd["webhook"]["clientConfig"]["caBundle"]) for crd in crds]


def test_what_was_written_for_the_older_version_applies_and_is_there_in_both(
    api: Api, replica: Reconciler, namespace: str
) -> None:
    text = (MANIFESTS / "samples" / "kueue.x-k8s.io_v1beta1.yaml").read_text()
    documents = [each for each in yaml.safe_load_all(text) if each["kind"] != "Job"]
    for each in documents:
        if each["kind"] == "LocalQueue":
            each["metadata"]["namespace"] = namespace
    api.apply(documents)

    older = api.get(f"{OLDER}/clusterqueues", "older-queue")["spec"]
    newer = api.get(f"{NEWER}/clusterqueues", "older-queue")["spec"]
    assert (older["cohort"], newer["cohortName"]) == ("older-cohort", "older-cohort")
    assert "cohortName" not in older
    assert older["flavorFungibility"]["whenCanPreempt"] == "Preempt"
    assert newer["flavorFungibility"]["whenCanPreempt"] == "MayStopSearch"
    assert api.apply(documents)[2]["metadata"]["generation"] == 1
    for version in (OLDER, NEWER):
        local = api.get(f"{version}/localqueues", "older-queue", namespace)
        assert local["spec"]["clusterQueue"] == "older-queue"


@pytest.mark.usefixtures("replica")
def test_what_is_written_in_the_newer_version_is_read_in_the_older(api: Api) -> None:
    name = f"newer-{uuid4().hex[:8]}"
    api.create(queue(NEWER, name))

    assert api.get(f"{OLDER}/clusterqueues", name)["spec"]["cohort"] == "c"
    body = {"spec": {"cohort": "d"}}
    api.patch(f"{OLDER}/clusterqueues", name, body=body)
    assert api.get(f"{NEWER}/clusterqueues", name)["spec"]["cohortName"] == "d"


def test_the_certificate_is_kept_and_its_authoritys_key_is_not(
    api: Api, replica: Reconciler
) -> None:
    secret = api.get("secrets", SECRET, NAMESPACE)
    found = bundle(api)

    assert secret["type"] == "kubernetes.io/tls"
    assert set(secret["data"]) == {"ca.crt", "tls.crt", "tls.key"}
    assert found is not None
    assert fault(found, NAMES, now=time.time()) == ""
    assert served(replica, found.authorities) == found.certificate
    assert reported(api) == [found.authorities] * len(CONVERTED)


def test_a_second_replica_serves_the_same_certificate_and_does_not_lead(
    api: Api, control_plane: ControlPlane, replica: Reconciler
) -> None:
    before = api.get("secrets", SECRET, NAMESPACE)["metadata"]["resourceVersion"]
    second = Reconciler(
        control_plane,
        name="second",
        settings=ELECTED,
        webhooks=True,
        webhooks_url=replica.webhooks_url,
        crds=False,
    )
    try:
        found = bundle(api)
        assert found is not None
        assert served(second, found.authorities) == found.certificate
        review = {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "ConversionReview",
            "request": {
                "uid": "1",
                "desiredAPIVersion": NEWER,
                "objects": [queue(OLDER, "q")],
            },
        }
        context = ssl.create_default_context(cadata=found.authorities.decode())
        with httpx.Client(verify=context, trust_env=False, timeout=60) as client:
            answer = client.post(f"{second.webhooks_url}/convert", json=review).json()
        assert answer["response"]["convertedObjects"] == [queue(NEWER, "q")]
        assert (replica.leads, second.leads) == (True, False)
        assert api.get("secrets", SECRET, NAMESPACE)["metadata"]["resourceVersion"] == before
    finally:
        second.stop()
    assert second.process.exit_code == 0


def await_another(api: Api, replica: Reconciler, before: Bundle) -> Bundle:
    """Return the bundle in the Secret once it is another one, served and believed throughout."""

    def renewed() -> Bundle | None:
        api.list(f"{OLDER}/clusterqueues")  # through the webhook, each time
        found = bundle(api)
        if found in {None, before}:
            return None
        assert found is not None
        # A moment in which the Secret is new and the API server does not know it is fine.
        everywhere = reported(api) == [found.authorities] * len(CONVERTED)
        return (
            found
            if everywhere and served(replica, found.authorities) == found.certificate
            else None
        )

    return api.wait_for("another certificate is served", renewed, SECONDS)


NAMES = [
    "gang-reconciler-webhooks.gang-extender-system.svc",
    "gang-reconciler-conversion.gang-extender-system.svc",
    "127.0.0.1",
]


GONE = "no Secret at all"
BROKEN: dict[str, Any] = {
    "a key of another": {
        "data": {"tls.key": base64.b64encode(issue(NAMES, now=0, days=1).key).decode()}
    },
    "garbage": {"data": {"tls.crt": base64.b64encode(b"garbage").decode()}},
    "an empty part": {"data": {"ca.crt": ""}},
    "a part that is gone": {"data": {"ca.crt": None}},
}


@pytest.mark.parametrize("what", long_but_for([*BROKEN, GONE], "garbage", GONE))
def test_a_broken_secret_is_replaced_and_no_client_notices(
    api: Api, replica: Reconciler, what: str
) -> None:
    before = bundle(api)
    assert before is not None
    broken = before
    if what == GONE:
        api.delete("secrets", SECRET, NAMESPACE)
    else:  # what the patch answers: it may be replaced before another request
        broken = bundle_in(api.patch("secrets", SECRET, NAMESPACE, body=BROKEN[what]))

    found = await_another(api, replica, broken)

    assert fault(found, NAMES, now=time.time()) == ""
    assert found.certificate != before.certificate


@pytest.fixture
def hooks(api: Api, replica: Reconciler) -> Iterator[None]:
    """The optional configuration, once the process has written its URL into them."""
    api.apply(MANIFESTS / "optional" / "webhooks.yaml")

    def know() -> bool:
        webhooks = api.get(CONFIGURATIONS, "gang-queue")["webhooks"]
        return all(
            webhook["clientConfig"].get("url", "").startswith(replica.webhooks_url)
            and "service" not in webhook["clientConfig"]
            for webhook in webhooks
        )

    api.wait_for("the configuration knows where we are", know, SECONDS)
    yield
    api.delete(CONFIGURATIONS, "gang-queue")
    for kind in ("clusterrolebindings", "clusterroles"):
        api.delete(f"rbac.authorization.k8s.io/v1/{kind}", "gang-reconciler-webhooks")


def refusal(api: Api, job: Object) -> str:
    path = f"/apis/batch/v1/namespaces/{job['metadata']['namespace']}/jobs"
    try:
        api.request("POST", path, body=job, params={"dryRun": "All"})
    except ApiError as error:
        return str(error)
    return ""


RUNS: dict[str, Any] = {"spec": {"suspend": False}}


@pytest.mark.usefixtures("hooks")
def test_jobs_and_pods_are_held(api: Api, namespace: str) -> None:
    job = Said(**RUNS).job("held", namespace)

    def held() -> bool:
        params = {"dryRun": "All"}
        path = f"/apis/batch/v1/namespaces/{namespace}/jobs"
        tried = api.request("POST", path, body=job, params=params).json()
        return tried["spec"]["suspend"] is True

    api.wait_for("jobs are held", held, SECONDS)

    answer = api.request("POST", f"/apis/batch/v1/namespaces/{namespace}/jobs", body=job)
    assert answer.json()["spec"]["suspend"] is True
    pod = api.create(objects.pod("p", labels={QUEUE: "q"}, namespace=namespace))
    assert pod["spec"]["schedulingGates"] == [{"name": "kueue.x-k8s.io/admission"}]
    plain = api.create(Said(queue=None, **RUNS).job("plain", namespace))
    assert plain["spec"]["suspend"] is False
    system = api.create(Said(queue="Bad", **RUNS).job(f"j-{uuid4().hex[:8]}", "kube-system"))
    assert system["spec"]["suspend"] is False


@pytest.mark.usefixtures("hooks")
def test_the_default_queue_is_given(api: Api, namespace: str) -> None:
    api.create(
        {
            "apiVersion": NEWER,
            "kind": "LocalQueue",
            "metadata": {"name": "default", "namespace": namespace},
            "spec": {"clusterQueue": "q"},
        }
    )

    def given() -> Object | None:
        body = Said(queue=None, **RUNS).job(f"job-{uuid4().hex[:8]}", namespace)
        job = api.create(body)
        return job if QUEUE in job["metadata"]["labels"] else None

    job = api.wait_for("the default queue is known", given, SECONDS)

    assert job["metadata"]["labels"][QUEUE] == "default"
    assert job["spec"]["suspend"] is True


@pytest.mark.usefixtures("hooks")
def test_while_no_webhook_answers_no_job_of_a_queue_slips_through(
    api: Api, replica: Reconciler, namespace: str
) -> None:
    job = Said(**RUNS).job(namespace=namespace)
    replica.process.kill()
    try:
        api.wait_for(
            "it is refused", lambda: "failed calling webhook" in refusal(api, job), SECONDS
        )
        system = api.create(Said(**RUNS).job(f"j-{uuid4().hex[:8]}", "kube-system"))
        assert system["spec"]["suspend"] is False
    finally:
        replica.start()
    api.wait_for("it is taken again", lambda: refusal(api, job) == "", SECONDS)


MAY: dict[tuple[str, str, str, str], set[str]] = {
    ("", "secrets", NAMESPACE, SECRET): {"get", "create", "patch"},
    ("", "secrets", NAMESPACE, "other"): {"create"},
    ("", "secrets", "default", SECRET): set(),
    ("apiextensions.k8s.io", "customresourcedefinitions", "", CONVERTED[0]): {"get", "patch"},
    ("apiextensions.k8s.io", "customresourcedefinitions", "", "podgroups.scheduling.x-k8s.io"): (
        set()
    ),
    ("admissionregistration.k8s.io", "mutatingwebhookconfigurations", "", "gang-queue"): {"get"},
    ("admissionregistration.k8s.io", "validatingwebhookconfigurations", "", "other"): set(),
}


@pytest.fixture
def account(control_plane: ControlPlane, replica: Reconciler) -> Iterator[Api]:
    del replica  # the account is there with it
    kubeconfig = control_plane.service_account_kubeconfig(NAMESPACE, "gang-reconciler")
    with Api(kubeconfig) as account:
        yield account


def test_the_reconciler_may_touch_what_is_its_own_and_no_more(account: Api) -> None:
    # What another test has taken away is still known for a moment.
    account.wait_for("the role is in force", lambda: not may_write_configurations(account))

    assert {what: allowed(account, what) for what in MAY} == MAY


@pytest.mark.usefixtures("hooks")
def test_the_right_to_write_webhook_configurations_comes_with_them(account: Api) -> None:
    account.wait_for("the role is in force", lambda: may_write_configurations(account))


def may_write_configurations(account: Api) -> bool:
    kind = "mutatingwebhookconfigurations"
    return "patch" in allowed(account, ("admissionregistration.k8s.io", kind, "", "gang-queue"))


def allowed(api: Api, what: tuple[str, str, str, str]) -> set[str]:
    group, resource, namespace, name = what
    verbs = ("get", "list", "watch", "create", "update", "patch", "delete")

    def may(verb: str) -> bool:
        attributes = {"group": group, "resource": resource, "namespace": namespace, "name": name}
        review = api.create(
            {
                "apiVersion": "authorization.k8s.io/v1",
                "kind": "SelfSubjectAccessReview",
                "metadata": {},
                "spec": {"resourceAttributes": {**attributes, "verb": verb}},
            }
        )
        return bool(review["status"]["allowed"])

    return {verb for verb in verbs if may(verb)}


def test_the_role_names_the_kinds_that_are_converted() -> None:
    assert set(conversion.CONVERTED) == set(CONVERTED)


def test_the_services_are_those_that_the_process_names(api: Api) -> None:
    api.apply(MANIFESTS / "namespace.yaml")
    services = [*yaml.safe_load_all((MANIFESTS / "reconciler" / "service.yaml").read_text())]
    deployment = yaml.safe_load((MANIFESTS / "reconciler" / "deployment.yaml").read_text())
    ports = deployment["spec"]["template"]["spec"]["containers"][0]["ports"]
    pod = deployment["spec"]["template"]["metadata"]["labels"]
    named = Webhooks()
    found = {}
    for service in services:
        taken = api.tried(service)
        [port] = taken["spec"]["ports"]
        assert service["metadata"]["namespace"] == named.namespace
        assert {"name": port["targetPort"], "containerPort": named.port} in ports
        assert taken["spec"]["selector"].items() <= pod.items()
        unready = taken["spec"].get("publishNotReadyAddresses", False)
        found[service["metadata"]["name"]] = unready

    # A replica that is not ready converts, and is not asked about jobs: it would answer 503.
    assert found == {named.service: False, named.conversion_service: True}
    text = (MANIFESTS / "optional" / "webhooks.yaml").read_text()
    configurations = [each for each in yaml.safe_load_all(text) if "webhooks" in each]
    hooks = [webhook for each in configurations for webhook in each["webhooks"]]
    assert {each["clientConfig"]["service"]["name"] for each in hooks} == {named.service}


@pytest.mark.usefixtures("replica")
def test_what_is_applied_later_about_served_is_left_as_it_is(api: Api) -> None:
    applied = {each["metadata"]["name"]: each["spec"] for each in api.apply(MANIFESTS / "crds")}
    assert [version["served"] for version in applied[CONVERTED[0]]["versions"]] == [True, False]
    try:
        await_look(api)
        for name in CONVERTED:
            versions = api.get(CRDS, name)["spec"]["versions"]
            assert [version["served"] for version in versions] == [True, False]
    finally:
        for name in CONVERTED:
            serve = [{"op": "replace", "path": "/spec/versions/1/served", "value": True}]
            api.patch(CRDS, name, body=serve, how="json")
        await_served(api)


def await_look(api: Api) -> None:
    """Return when the process has looked at all CRDs, from beginning to end, since the call."""
    for name in (CONVERTED[-1], CONVERTED[0], CONVERTED[-1]):
        gone = [{"op": "remove", "path": "/spec/conversion/webhook/clientConfig/caBundle"}]
        api.patch(CRDS, name, body=gone, how="json")

        def whole(name: str = name) -> bool:
            return (
                "caBundle" in api.get(CRDS, name)["spec"]["conversion"]["webhook"]["clientConfig"]
            )

        api.wait_for("the authority is written again", whole, SECONDS)
