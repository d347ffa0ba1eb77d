"""A snapshot without names: what it says of numbers, states and times is as it was.

A name is the same hash wherever it stands, also inside sentences and in `namespace/name`, so
explanations come to the same; but what only names put in order may change places. A name is known
as one where an object of the file has it: a sentence may name what is gone.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from hashlib import blake2b
from typing import Any, Final

import msgspec

from extender.snapshot.header import SnapshotHeader
from extender.state.cluster import records as of_cluster
from extender.state.cluster import reservations
from extender.state.queue import records as of_queues

_WORD: Final = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?")
_LETTER: Final = re.compile(r"[A-Za-z]")
_HASH_BYTES: Final = 6
_NAMED: Final = frozenset(
    (
        *("name", "namespace", "host", "cohort", "parent", "cluster_queue", "queue_name", "flavor"),
        "claim_keys",
    )
)
"""Fields that have the name of an object."""
_LABELLED: Final = frozenset(
    ("labels", "node_labels", "node_selector", "matchLabels", "values", "domains")
)
"""Fields that have values of labels."""
_API_WORDS: Final = frozenset(
    (
        *("apiVersion", "takenAt", "version", "process", "settings", "format", "api_version"),
        *("effect", "operator", "reason", "type", "status", "kind", "strategy", "stop_policy"),
        *("within_cluster_queue", "reclaim_within_cohort", "borrow_within_cohort", "placement"),
        *("when_can_borrow", "when_can_preempt", "preference", "completion_mode", "on_partial"),
        *("api_group", "annotations", "watches", "features", "gates", "per", "phase"),
    )
)
"""Fields that have words of an API, and no names."""


def _words() -> Iterator[str]:
    """Yield the words of the format, and of what code compares with: no name is hidden that is one.

    Hiding it would change the format too.
    """
    for module in (of_cluster, of_queues, reservations):
        for each in vars(module).values():
            if isinstance(each, type) and is_dataclass(each):
                yield from (field.name for field in fields(each))
    yield from (field.name for field in fields(SnapshotHeader))
    yield from map(str, reservations.ReservationKind)
    yield from ("cpu", "memory", "ephemeral-storage", "pods", "default-scheduler", "true", "false")
    yield from ("remembered", "cluster", "queues", "waiting", "shared", "before", "shown", "raw")
    yield from ("header", "groups", "jobs", "ended", "seen", "refused", "reserved", "claims")
    yield from ("grants", "unseen", "flavors", "topologies", "cohorts", "namespaces", "assumed")
    yield from ("workloads", "preemptors", "blocking", "reasons", "kept", "patterns", "shapes")
    yield from ("natives", "ours", "fixed", "cycles", "nodes", "budgets")
    yield from (of_cluster.VOLUME_CLAIMS, of_cluster.RESOURCE_CLAIMS)
    yield from ("kubernetes.io", "hostname", "scheduling.x-k8s.io", "gang")


_WORDS: Final = frozenset(_words())


def redacted(data: bytes, key: bytes) -> bytes:
    """Return a snapshot with hashes for names; without the key no name can be guessed.

    Raises msgspec.DecodeError.
    """
    document: dict[str, Any] = msgspec.json.decode(data)
    names = (each for each in _names(document) if _LETTER.search(each) and each not in _WORDS)
    hashes = {
        each: blake2b(each.encode(), key=key, digest_size=_HASH_BYTES).hexdigest()
        for each in dict.fromkeys(names)
    }

    def hidden(text: str) -> str:
        return _WORD.sub(lambda word: hashes.get(word[0], word[0]), text)

    def copied(value: Any) -> Any:  # noqa: ANN401 - JSON
        if isinstance(value, str):
            return hidden(value)
        if isinstance(value, list):
            return [copied(each) for each in value]
        if isinstance(value, dict):
            return {
                hidden(name): each if name in _API_WORDS else copied(each)
                for name, each in value.items()
            }
        return value

    found: dict[str, Any] = copied(document)
    found["header"]["redacted"] = True
    return msgspec.json.encode(found) + b"\n"


def _names(value: Any, field: str = "") -> Iterator[str]:  # noqa: ANN401 - JSON
    """Yield the names and the values of labels that a document has; `field` is what holds it."""
    if isinstance(value, Mapping):
        for name, each in value.items():
            inside = field if field in _LABELLED else name
            if name not in _API_WORDS:
                yield from _names(each, inside)
    elif isinstance(value, list):
        for each in value:
            yield from _names(each, field)
    elif isinstance(value, str) and field in _NAMED | _LABELLED:
        yield from _WORD.findall(value)
