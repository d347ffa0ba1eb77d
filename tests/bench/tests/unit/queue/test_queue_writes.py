"""The API server's own count of requests."""

from collections import Counter

from tests.bench.queue import writes


def _line(verb: str, resource: str, value: int, **labels: str) -> str:
    fields = {
        "code": "200",
        "dry_run": "",
        "group": "",
        "resource": resource,
        "subresource": "",
        "verb": verb,
        **labels,
    }
    text = ",".join(f'{name}="{label}"' for name, label in fields.items())
    return f"apiserver_request_total{{{text}}} {value}"


PAGE = "\n".join(
    [
        "# TYPE apiserver_request_total counter",
        _line("APPLY", "workloads", 5, subresource="status"),
        _line("PATCH", "workloads", 2, subresource="status", code="409"),
        _line("POST", "events", 3, code="201"),
        _line("LIST", "pods", 9),
        _line("PUT", "pods", 9, dry_run="All"),
        _line("PUT", "leases", 9),
        'apiserver_request_duration_seconds_count{resource="pods",verb="POST"} 9',
    ]
)


def test_only_what_writes_is_counted_refused_or_not() -> None:
    assert writes.parse(PAGE) == {"PATCH workloads/status": 7, "POST events": 3}


def test_what_only_reads_is_counted_apart() -> None:
    page = "\n".join([PAGE, _line("GET", "jobs", 4, code="404"), _line("WATCH", "jobs", 9)])

    assert writes.parse(page, writes.READS) == {"LIST pods": 9, "GET jobs": 4}


def test_what_the_benchmark_wrote_itself_is_taken_off() -> None:
    before = Counter({"PATCH workloads/status": 7, "POST events": 3})
    after = Counter({"PATCH workloads/status": 30, "POST events": 3, "POST workloads": 10})

    got = writes.between(before, after, {"POST workloads": 10, "PATCH workloads/status": 11})

    assert got == {"PATCH workloads/status": 12}
