"""The scenario file: what is wrong with it is said with the field and the mend."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from extender.config.sections import SettingsError
from gang_tools.simulate import scenario
from gang_tools.simulate.from_scenario import world_of
from gang_tools.simulate.scenario import Scenario

NODES: list[dict[str, Any]] = [{"name": "node", "count": 2, "allocatable": {"cpu": 4}}]
JOB: dict[str, Any] = {"name": "job", "runFor": "1m"}


def loaded(tmp_path: Path, **fields: Any) -> Scenario:
    path = tmp_path / "scenario.yaml"
    path.write_text(yaml.safe_dump({"nodes": NODES, "jobs": [JOB], **fields}))
    return scenario.load(path)


@pytest.mark.parametrize(
    ("fields", "want"),
    {
        "an unknown field": ({"job": []}, "job: there is no such field"),
        "no jobs": ({"jobs": []}, "jobs: is missing: say which jobs come"),
        "no run time": ({"jobs": [{"name": "a"}]}, "jobs.0.runFor: is missing"),
        "no amount": (
            {"nodes": [{"allocatable": {"cpu": "many"}}]},
            "nodes.0.allocatable: 'many' is not a quantity",
        ),
        "no duration": (
            {"jobs": [{**JOB, "arrivals": {"at": ["soon"]}}]},
            "should be seconds, or a duration such as 5m",
        ),
        "two kinds of arrivals": (
            {"jobs": [{**JOB, "arrivals": {"at": [0], "every": 5}}]},
            "jobs.0.arrivals: say one of `at: [0, 5m]`, `every: 30s` and `poissonPerHour: 120`",
        ),
        "no count": (
            {"jobs": [{**JOB, "arrivals": {"every": 5}}]},
            "`count` belongs to `every` and `poissonPerHour`, which need it",
        ),
        "a gang above its pods": (
            {"jobs": [{**JOB, "pods": 2, "gang": {"minMember": 3}}]},
            "gang.minMember is above pods (2)",
        ),
        "no distribution": (
            {"jobs": [{**JOB, "runFor": {}}]},
            "say one of `uniform: [1m, 10m]` and `lognormal: {median: 10m}`",
        ),
        "a setting that is none": (
            {"settings": {"gang": {"strict": True}}},
            "settings.gang.strict: there is no such field",
        ),
    }.values(),
)
def test_a_fault_is_named_with_its_field(tmp_path: Path, fields: dict[str, Any], want: str) -> None:
    with pytest.raises(SettingsError) as error:
        loaded(tmp_path, **fields)
    assert want in str(error.value)


@pytest.mark.parametrize(
    ("fields", "want"),
    {
        "no nodes": ({"nodes": []}, "nodes: are missing"),
        "two nodes of one name": ({"nodes": [*NODES, *NODES]}, "nodes: two have one name"),
        "no such queue": (
            {"jobs": [{**JOB, "queue": "team"}]},
            "jobs.0.queue: there is no LocalQueue team in namespace default; there are: none",
        ),
        "a kind that is not simulated": (
            {"objects": [{"kind": "Deployment", "metadata": {"name": "a"}}]},
            "objects[0]: a Deployment cannot be simulated",
        ),
        "a misspelt field of a manifest": (
            {"objects": [{"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "LocalQueue",
                          "metadata": {"name": "a", "namespace": "default"},
                          "spec": {"clusterQeue": "b"}}]},
            "LocalQueue a: spec.clusterQeue: there is no such field",
        ),
        "a manifest without a name": (
            {"objects": [{"kind": "Cohort"}]}, "objects[0]: metadata.name: is missing",
        ),
        "a pod that cannot be read": (
            {"jobs": [{**JOB, "podSpec": {"tolerations": 5}}]}, "jobs.0: job: not a readable",
        ),
    }.values(),
)  # fmt: skip
def test_what_contradicts_itself_is_said_before_anything_is_played(
    tmp_path: Path, fields: dict[str, Any], want: str
) -> None:
    with pytest.raises(SettingsError) as error:
        world_of(loaded(tmp_path, **fields))
    assert want in str(error.value)


def test_equal_seeds_give_equal_jobs(tmp_path: Path) -> None:
    random = {**JOB, "runFor": {"lognormal": {"median": "5m", "most": "1h"}},
              "arrivals": {"poissonPerHour": 60, "count": 20}}  # fmt: skip

    def jobs(seed: int) -> list[tuple[float, float | None]]:
        found = world_of(loaded(tmp_path, jobs=[random], seed=seed)).jobs
        return [(job.arrival, job.run_seconds) for job in found]

    assert jobs(1) == jobs(1)
    assert jobs(1) != jobs(2)


def test_a_class_more_changes_no_other(tmp_path: Path) -> None:
    random = {**JOB, "arrivals": {"poissonPerHour": 60, "count": 5}}
    alone = world_of(loaded(tmp_path, jobs=[random])).jobs
    other = {**random, "name": "other"}
    beside = world_of(loaded(tmp_path, jobs=[random, other])).jobs
    assert [j.arrival for j in alone] == [j.arrival for j in beside if j.kind == "job"]


def test_nodes_get_the_values_of_a_label_in_turn(tmp_path: Path) -> None:
    zones = [{**NODES[0], "count": 3, "labels": {"zone": ["a", "b"]}}]
    found = world_of(loaded(tmp_path, nodes=zones)).nodes
    assert [node.labels["zone"] for node in found] == ["a", "b", "a"]
    assert [node.name for node in found] == ["node-0", "node-1", "node-2"]
