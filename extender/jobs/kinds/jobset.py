"""JobSet (jobset.x-k8s.io): several groups of equal Jobs, each a pod set."""

from collections.abc import Collection, Iterator, Mapping
from typing import ClassVar, Final

from typing_extensions import override

from extender.jobs import fields
from extender.jobs.fields import Object
from extender.jobs.job import Finished, OperatedJob, Slot

_AT_REST: Final = ("suspended", "succeeded", "failed")
_ENDLESS: Final = "RestartJobSetAndIgnoreMaxRestarts"


class JobSet(OperatedJob):
    """A JobSet; its own controller starts and stops its Jobs."""

    integration: ClassVar = "jobset.x-k8s.io/jobset"
    kind: ClassVar = "JobSet"
    group: ClassVar = "jobset.x-k8s.io"
    version: ClassVar = "v1alpha2"
    plural: ClassVar = "jobsets"

    @override
    def slots(self) -> list[Slot]:
        return [
            Slot(
                fields.text(each, "name"),
                fields.times(_replicas(each), _pods(each)),
                fields.ensure(each, "template", "spec", "template"),
            )
            for each in self._replicated_jobs()
        ]

    @override
    def finished(self) -> Finished | None:
        return self.ended_by(succeeded="Completed", failed="Failed")

    @override
    def pods_ready(self) -> bool:
        """Return whether each Job that may start is ready or has succeeded."""
        statuses = self._statuses()
        return all(
            self._succeeded(each)
            + fields.count(statuses.get(fields.text(each, "name"), {}), "ready")
            >= _replicas(each)
            for each in self._expected()
        )

    @override
    def is_active(self) -> bool:
        return any(fields.count(each, "active") for each in self._statuses().values())

    @override
    def notices_stop(self) -> bool:
        """Return whether all Jobs are suspended or done, or those that were active no longer are.

        The condition `Suspended` also stays True during a start in order.
        """
        if not self._is_in_order() and fields.condition(self.object, "Suspended") is not None:
            return True
        return self._rests()

    def _rests(self) -> bool:
        """Return whether its Jobs are suspended or done, as far as the status counts them."""
        statuses = self._statuses()
        if self.was_active() and not any(fields.count(s, "suspended") for s in statuses.values()):
            return True
        return all(
            sum(fields.count(statuses.get(fields.text(each, "name"), {}), n) for n in _AT_REST)
            >= _replicas(each)
            for each in self._replicated_jobs()
            if not fields.objects(each, "dependsOn")  # its Jobs may not be made yet
        )

    @override
    def child_jobs(self) -> Iterator[tuple[str, str]]:
        own = fields.text(self.object, "metadata", "name")
        for each in self._replicated_jobs():
            name = fields.text(each, "name")
            yield from ((name, f"{own}-{name}-{index}") for index in range(_replicas(each)))

    @override
    def reclaimable_pods(self) -> Mapping[str, int]:
        """Return the pods of the Jobs that have succeeded, unless a restart may make them again."""
        policy = fields.mapping(self._jobset(), "spec", "failurePolicy")
        restarts = fields.count(self._jobset(), "status", "restartsCountTowardsMax")
        actions = {fields.text(rule, "action") for rule in fields.objects(policy, "rules")}
        may_restart = fields.count(policy, "maxRestarts") > restarts or _ENDLESS in actions
        # The status may be of the run before a restart, and have the cause of it.
        has_failed = any(fields.count(each, "failed") for each in self._statuses().values())
        return {} if may_restart or has_failed else self.done_pods()

    @override
    def done_pods(self) -> Mapping[str, int]:
        """Return the pods of the Jobs that have succeeded: a start does not make them again."""
        statuses = self._statuses()
        done: dict[str, int] = {}
        for each in self._replicated_jobs():
            name = fields.text(each, "name")
            succeeded = fields.count(statuses.get(name, {}), "succeeded")
            done[name] = min(succeeded, _replicas(each)) * _pods(each)
        return {name: count for name, count in done.items() if count}

    @override
    def makes(self, kind: str, name: str) -> bool:
        """Return whether the name is that of one of its Jobs."""
        own = fields.text(self.object, "metadata", "name")
        replicated, _, index = name.removeprefix(f"{own}-").rpartition("-")
        found = (
            each for each in self._replicated_jobs() if fields.text(each, "name") == replicated
        )
        return (
            kind == "batch/job"
            and name.startswith(f"{own}-")
            and index == str(fields.whole(index))
            and any(fields.whole(index) < _replicas(each) for each in found)
        )

    @override
    def late_pod_sets(self) -> Collection[str]:
        """Return the replicated jobs that wait: all but the first, or those that say so."""
        jobs = self._replicated_jobs()
        late = jobs[1:] if self._is_in_order() else []
        late += [each for each in jobs if fields.objects(each, "dependsOn")]
        return {fields.text(each, "name") for each in late}

    def _expected(self) -> list[Object]:
        """Return the replicated jobs that do not wait for others to succeed first."""
        complete: set[str] = set()
        expected: dict[str, Object] = {}
        for each in self._replicated_jobs():  # they depend on earlier ones only
            depends = fields.objects(each, "dependsOn")
            if all(
                fields.text(on, "name")
                in (complete if fields.text(on, "status") == "Complete" else expected)
                for on in depends
            ):
                name = fields.text(each, "name")
                expected[name] = each
                if self._succeeded(each) >= _replicas(each):
                    complete.add(name)
        return list(expected.values())

    def _succeeded(self, replicated: Object) -> int:
        return fields.count(self._statuses().get(fields.text(replicated, "name"), {}), "succeeded")

    def _jobset(self) -> Object:
        """Return the JobSet that makes the pods."""
        return self.object

    def _is_in_order(self) -> bool:
        policy = fields.text(self._jobset(), "spec", "startupPolicy", "startupPolicyOrder")
        return policy == "InOrder"

    def _replicated_jobs(self) -> list[Object]:
        return fields.objects(self._jobset(), "spec", "replicatedJobs")

    def _statuses(self) -> dict[str, Object]:
        found = fields.objects(self._jobset(), "status", "replicatedJobsStatus")
        return {fields.text(each, "name"): each for each in found}


def _replicas(replicated: Mapping[str, object]) -> int:
    return fields.count(replicated, "replicas", default=1)


def _pods(replicated: Mapping[str, object]) -> int:
    """Return how many pods one of the Jobs begins with."""
    spec = fields.mapping(replicated, "template", "spec")
    parallelism = fields.count(spec, "parallelism", default=1)
    return min(parallelism, fields.count(spec, "completions", default=parallelism))
