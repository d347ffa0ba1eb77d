"""What may be said on a job of a queue: the cases of the policies.

Each case is a sentence, what the job says, and the field that a refusal names (empty: allowed).
"""

from dataclasses import dataclass, field
from typing import Any

from tests.harness.objects import Object

QUEUE = "kueue.x-k8s.io/queue-name"
PRIORITY = "kueue.x-k8s.io/priority-class"
PREBUILT = "kueue.x-k8s.io/prebuilt-workload-name"
MAX_SECONDS = "kueue.x-k8s.io/max-exec-time-seconds"
MINIMUM = "kueue.x-k8s.io/job-min-parallelism"
GATES = "kueue.x-k8s.io/admission-gated-by"
SYNCED = "kueue.x-k8s.io/job-completions-equal-parallelism"
INDEXED = {"completionMode": "Indexed"}


@dataclass(frozen=True)
class Said:
    """What differs from a plain Job in the queue `q`."""

    labels: dict[str, str] = field(default_factory=dict)
    annotations: dict[str, str] = field(default_factory=dict)
    spec: dict[str, Any] = field(default_factory=dict)
    queue: str | None = "q"

    def job(self, name: str = "job", namespace: str = "default") -> Object:
        """Return the Job, suspended unless its spec says something else."""
        queue = {} if self.queue is None else {QUEUE: self.queue}
        template = {
            "spec": {
                "restartPolicy": "Never",
                "containers": [{"name": "main", "image": "example.invalid/nothing"}],
            }
        }
        return {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {
                "name": name,
                "namespace": namespace,
                "labels": {**queue, **self.labels},
                "annotations": dict(self.annotations),
            },
            "spec": {
                "suspend": True,
                "parallelism": 3,
                "completions": 3,
                "template": template,
                **self.spec,
            },
        }


def label(name: str, value: str | None) -> Object:
    """Return the merge patch of one label."""
    return {"metadata": {"labels": {name: value}}}


def annotation(name: str, value: str | None) -> Object:
    """Return the merge patch of one annotation."""
    return {"metadata": {"annotations": {name: value}}}


def suspending(change: Object, *, suspend: bool = True) -> Object:
    """Return a patch that also sets `suspend`."""
    return {**change, "spec": {**change.get("spec", {}), "suspend": suspend}}


CREATED: dict[str, tuple[Said, str]] = {
    "a plain job": (Said(), ""),
    "a queue with a dot": (Said(queue="team-a.large"), ""),
    "a queue in capitals": (Said(queue="Team"), QUEUE),
    "a queue with an underscore": (Said(queue="team_a"), QUEUE),
    "a queue with two dots": (Said(queue="a..b"), QUEUE),
    "an empty queue": (Said(queue=""), ""),
    "a priority class": (Said({PRIORITY: "high"}), ""),
    "one second": (Said({MAX_SECONDS: "1"}), ""),
    "the longest time": (Said({MAX_SECONDS: "2147483647"}), ""),
    "longer than that": (Said({MAX_SECONDS: "2147483648"}), MAX_SECONDS),
    "longer than anybody can count": (Said({MAX_SECONDS: "9" * 63}), MAX_SECONDS),
    "seconds with zeros before them": (Said({MAX_SECONDS: "000000000060"}), ""),
    "no seconds": (Said({MAX_SECONDS: "0"}), MAX_SECONDS),
    "seconds in words": (Said({MAX_SECONDS: "ten"}), MAX_SECONDS),
    "seconds with a fraction": (Said({MAX_SECONDS: "1.5"}), MAX_SECONDS),
    "empty seconds": (Said({MAX_SECONDS: ""}), MAX_SECONDS),
    "at least one of three": (Said(annotations={MINIMUM: "1"}), ""),
    "at least two of three": (Said(annotations={MINIMUM: "2"}), ""),
    "at least three of three": (Said(annotations={MINIMUM: "3"}), MINIMUM),
    "at least none": (Said(annotations={MINIMUM: "0"}), MINIMUM),
    "at least more than there is a number for": (Said(annotations={MINIMUM: "9" * 5000}), MINIMUM),
    "at least some": (Said(annotations={MINIMUM: "some"}), MINIMUM),
    "at least as many as are to be done": (
        Said(annotations={MINIMUM: "2"}, spec={"completions": 2}),
        MINIMUM,
    ),
    "at least two of an open number": (
        Said(annotations={MINIMUM: "2"}, spec={"completions": None}),
        "",
    ),
    "a gate": (Said(annotations={GATES: "example.com/budget"}), ""),
    "two gates": (Said(annotations={GATES: "example.com/budget, example.com/data"}), ""),
    "a gate without a domain": (Said(annotations={GATES: "budget"}), GATES),
    "an empty gate": (Said(annotations={GATES: ""}), GATES),
    "a gate and an empty one": (Said(annotations={GATES: "example.com/budget,"}), GATES),
    "a gate twice": (Said(annotations={GATES: "example.com/a,example.com/a"}), GATES),
    "a gate with a space": (Said(annotations={GATES: "example.com/a b"}), GATES),
    "a gate that is too long": (Said(annotations={GATES: f"example.com/{'a' * 52}"}), GATES),
    "as many completions as pods": (Said(annotations={SYNCED: "true"}, spec=INDEXED), ""),
    "not necessarily so many": (Said(annotations={SYNCED: "false"}), ""),
    "perhaps so many": (Said(annotations={SYNCED: "perhaps"}, spec=INDEXED), SYNCED),
    "so many without an index": (Said(annotations={SYNCED: "true"}), SYNCED),
    "so many, but they are not": (
        Said(annotations={SYNCED: "true"}, spec={**INDEXED, "completions": 4}),
        SYNCED,
    ),
}

_ANNOTATED = Said(annotations={MINIMUM: "2"})
_CLASSED = Said({PRIORITY: "high"})
_TIMED = Said({MAX_SECONDS: "60"})
_GATED = Said(annotations={GATES: "example.com/a,example.com/b"})
_PREBUILT = Said({PREBUILT: "w"})

SUSPENDED: dict[str, tuple[Said, Object, str]] = {
    "another queue": (Said(), label(QUEUE, "other"), ""),
    "another queue with a bad name": (Said(), label(QUEUE, "Other"), QUEUE),
    "no queue any more": (Said(), label(QUEUE, None), ""),
    "a queue, and it starts": (
        Said(),
        suspending(label(QUEUE, "other"), suspend=False),
        QUEUE,
    ),
    "it starts": (Said(), suspending({}, suspend=False), ""),
    "it starts with fewer": (
        _ANNOTATED,
        suspending({"spec": {"parallelism": 2}}, suspend=False),
        "",
    ),
    "another class": (_CLASSED, label(PRIORITY, "low"), ""),
    "a class": (Said(), label(PRIORITY, "low"), ""),
    "no class any more": (_CLASSED, label(PRIORITY, None), PRIORITY),
    "a longer time": (_TIMED, label(MAX_SECONDS, "61"), ""),
    "no time": (_TIMED, label(MAX_SECONDS, "0"), MAX_SECONDS),
    "no limit of time": (_TIMED, label(MAX_SECONDS, None), ""),
    "a longer time, and it starts": (
        _TIMED,
        suspending(label(MAX_SECONDS, "61"), suspend=False),
        MAX_SECONDS,
    ),
    "another workload": (_PREBUILT, label(PREBUILT, "v"), ""),
    "too many at least": (Said(), annotation(MINIMUM, "3"), MINIMUM),
    "one at least": (Said(), annotation(MINIMUM, "1"), ""),
    "more pods": (_ANNOTATED, {"spec": {"parallelism": 4}}, ""),
    "a wrong word": (Said(), annotation(SYNCED, "yes"), SYNCED),
    "a gate": (Said(), annotation(GATES, "example.com/late"), GATES),
    "one gate fewer": (_GATED, annotation(GATES, "example.com/b"), ""),
    "no gate any more": (_GATED, annotation(GATES, None), ""),
    "an empty list of gates": (_GATED, annotation(GATES, ""), ""),
    "another gate": (_GATED, annotation(GATES, "example.com/a,example.com/c"), GATES),
}

RUNNING: dict[str, tuple[Said, Object, str]] = {
    "another queue": (Said(), label(QUEUE, "other"), QUEUE),
    "no queue any more": (Said(), label(QUEUE, None), QUEUE),
    "a queue where there was none": (Said(queue=None), label(QUEUE, "q"), QUEUE),
    "another queue, and it stops": (Said(), suspending(label(QUEUE, "other")), ""),
    "it stops": (Said(), suspending({}), ""),
    "another label": (Said(), label("example.com/other", "x"), ""),
    "another class": (_CLASSED, label(PRIORITY, "low"), ""),
    "a class where there was none": (Said(), label(PRIORITY, "low"), PRIORITY),
    "no class any more": (_CLASSED, label(PRIORITY, None), PRIORITY),
    "a longer time": (_TIMED, label(MAX_SECONDS, "61"), MAX_SECONDS),
    "a longer time, and it stops": (_TIMED, suspending(label(MAX_SECONDS, "61")), MAX_SECONDS),
    "another workload": (_PREBUILT, label(PREBUILT, "v"), PREBUILT),
    "another workload, and it stops": (_PREBUILT, suspending(label(PREBUILT, "v")), ""),
    "fewer pods": (Said(), {"spec": {"parallelism": 2}}, ""),
    "fewer pods of a partial job": (
        _ANNOTATED,
        {"spec": {"parallelism": 2}},
        "spec.parallelism",
    ),
    "fewer pods of a partial job, and it stops": (
        _ANNOTATED,
        suspending({"spec": {"parallelism": 2}}),
        "",
    ),
}
