"""Whatever a file of kube-scheduler holds, the check says something about it and goes on."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from extender.check.facts import SchedulerFile
from extender.check.scheduler import VERBS, scheduler

ODD = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8)
ODD |= st.sampled_from(["http://[", "https://a", "1s", "910s", "bind", "filter", "x" * 5000])
VALUE = st.recursive(
    ODD,
    lambda each: (
        st.lists(each, max_size=2) | st.dictionaries(st.text(max_size=4), each, max_size=2)
    ),
    max_leaves=4,
)


def some(*names: str) -> st.SearchStrategy[dict[str, Any]]:
    """Return mappings of some of the names, and of others, to anything."""
    return st.dictionaries(st.sampled_from(names) | st.text(max_size=4), VALUE, max_size=6)


FIELDS = ("urlPrefix", "weight", "httpTimeout", "ignorable", "tlsConfig", "managedResources")
ENTRY = st.builds(
    lambda said, tls: said | {"tlsConfig": tls},
    some(*FIELDS, "enableHTTPS", "nodeCacheCapable", *(f"{verb}Verb" for verb in VERBS)),
    some("caFile", "certFile", "insecure") | VALUE,
)
PROFILE = some("schedulerName", "plugins", "pluginConfig", "percentageOfNodesToScore")
DOCUMENT = st.builds(
    lambda top, entries, profiles: (
        top
        | {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "extenders": entries,
            "profiles": profiles,
        }
    ),
    some("percentageOfNodesToScore"),
    st.lists(ENTRY, max_size=2) | VALUE,
    st.lists(PROFILE, max_size=2) | VALUE,
)


@given(DOCUMENT | VALUE)
def test_an_odd_file_is_judged(document: object) -> None:
    file = SchedulerFile("kube-scheduler.yaml", document, 900.0)
    assert [*scheduler(file)]
