"""How long a job is expected to run, by what it says of itself."""

from collections.abc import Iterable, Mapping

from extender.api.values import seconds
from extender.api.wellknown import EXPECTED_RUN, MAX_EXEC_TIME_LABEL
from extender.jobs import fields


def expected(job: Mapping[str, object], templates: Iterable[Mapping[str, object]]) -> float | None:
    """Return for how many seconds a job runs; None where nothing says it.

    An annotation says what is expected. What only ends it, a deadline, is the longest it can run.
    """
    parts = [job, *templates]
    for part in parts:
        said = fields.annotation(part, EXPECTED_RUN)
        found = seconds(said) if said else None
        if found is not None:
            return float(found)
    deadlines = [fields.number(part, "spec", "activeDeadlineSeconds") for part in parts]
    label = fields.label(job, MAX_EXEC_TIME_LABEL)
    deadlines += [int(label)] if label.isdecimal() else []
    known = [float(each) for each in deadlines if each is not None and each > 0]
    return min(known, default=None)
