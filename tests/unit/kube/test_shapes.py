"""What pods say is read once for all that say it in the same bytes, and never for others."""

import json
from dataclasses import fields
from typing import Any

import pytest

from extender.kube import shapes
from extender.kube.decode import Decoder
from extender.resources.ignored import IgnoredResources, ResourceNames
from extender.state.cluster.records import Shape

CPU: dict[str, Any] = {"resources": {"requests": {"cpu": "1"}}}
PORT = {"ports": [{"containerPort": 80, "hostPort": 80}]}
RESTARTS = {"restartPolicyRules": [{"action": "RestartAllContainers"}]}
SPREAD = {"topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule", "maxSkew": 1}
TERM = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"a": "b"}}}
AWAY = {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [TERM]}}}
SPECS: dict[str, dict[str, Any]] = {
    "nothing else": {},
    "less": {"containers": [{"resources": {"requests": {"cpu": "500m"}}}]},
    "two containers": {"containers": [CPU, CPU]},
    "a sidecar": {"initContainers": [{**CPU, "restartPolicy": "Always"}]},
    "an init container of the same amounts": {"initContainers": [CPU]},
    "an init container": {"initContainers": [{"resources": {"requests": {"cpu": "2"}}}]},
    "a host port": {"containers": [{**CPU, **PORT}]},
    "restarts": {"containers": [{**CPU, **RESTARTS}]},
    "overhead": {"overhead": {"cpu": "100m"}},
    "of the pod as a whole": {"resources": {"requests": {"cpu": "3"}}},
    "a node selector": {"nodeSelector": {"a": "b"}},
    "anti-affinity": AWAY,
    "node affinity": {"affinity": {"nodeAffinity": {}}},
    "tolerations": {"tolerations": [{"operator": "Exists"}]},
    "a spread constraint": {"topologySpreadConstraints": [SPREAD]},
    "a claim": {"resourceClaims": [{"name": "a"}]},
    "a volume claim": {"volumes": [{"name": "a", "persistentVolumeClaim": {"claimName": "a"}}]},
    "users of its own on the host's network": {"hostNetwork": True, "hostUsers": False},
    "users of its own": {"hostUsers": False},
    "the host's users": {"hostNetwork": True, "hostUsers": True},
    "another scheduler": {"schedulerName": "other"},
}


def pod(spec: dict[str, Any], *, name: str = "p", **meta: Any) -> bytes:
    body = {
        "metadata": {"name": name, "namespace": "ns", "uid": name, **meta},
        "spec": {"containers": [CPU], **spec},
    }
    return json.dumps(body).encode()


def said(shape: Shape) -> dict[str, Any]:
    return {field.name: getattr(shape, field.name) for field in fields(shape)}


@pytest.mark.parametrize("then", SPECS)
def test_a_pod_has_the_shape_that_it_has_alone(then: str) -> None:
    alone = said(Decoder().pod(pod(SPECS[then])).shape)
    for first in SPECS.keys() - {then}:
        decoder = Decoder()
        kept = decoder.pod(pod(SPECS[first])).shape
        found = decoder.pod(pod(SPECS[then])).shape

        assert said(found) == alone
        assert (found is kept) == (said(kept) == alone), first


@pytest.mark.parametrize("spec", SPECS.values(), ids=SPECS)
def test_pods_of_one_template_are_read_once(
    spec: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    decoder = Decoder()
    kept = decoder.pod(pod(spec, labels={"index": "1"}))
    monkeypatch.setattr(shapes, "_decode_pod", None)
    labels = {"index": "1" if "affinity" in spec else "2"}
    again = decoder.pod(pod({**spec, "nodeName": "n"}, name="q", labels=labels))

    assert again.shape is kept.shape


def test_labels_count_where_a_pod_may_keep_others_of_its_kind_away() -> None:
    decoder = Decoder()
    one, other = (decoder.pod(pod(AWAY, labels={"a": value})) for value in "bc")

    assert (one.shape.one_per_node, other.shape.one_per_node) == (True, False)


def test_what_is_ignored_for_one_scheduler_counts_for_another() -> None:
    ignored = {"other": ResourceNames.parse(["example.com/*"])}
    decoder = Decoder(IgnoredResources(by_scheduler=ignored))
    spec = {"containers": [{"resources": {"requests": {"example.com/plan": 1}}}]}
    found = [decoder.pod(pod({**spec, "schedulerName": name})).shape for name in ("a", "other")]

    assert ["example.com/plan" in each.requests for each in found] == [True, False]


def test_other_texts_of_the_same_meaning_have_the_same_shape() -> None:
    decoder = Decoder()
    texts = [{"containers": [{"resources": {"requests": {"cpu": cpu}}}]} for cpu in ("1", "1000m")]
    one, other = (decoder.pod(pod(text)) for text in texts)

    assert one.shape is other.shape


def test_the_texts_that_are_remembered_are_not_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shapes, "KNOWN_TEXTS", 8)
    decoder = Decoder()
    pods = [
        decoder.pod(pod({"containers": [{"resources": {"requests": {"cpu": f"1.{'0' * zeros}"}}}]}))
        for zeros in range(1, 50)
    ]

    assert len({each.shape for each in pods}) == 1
    assert len(decoder._shapes._known) <= 8
