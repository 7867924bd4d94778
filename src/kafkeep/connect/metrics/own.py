"""The metrics that are kafkeep's own: how far behind, how much was done, what was lost."""

from __future__ import annotations

from kafkeep.connect.metrics.page import Declared, Page
from kafkeep.connect.metrics.totals import Reading
from kafkeep.connect.model import Progress
from kafkeep.store.timing import RequestTimes

_CONNECTOR = ("connector",)
_PARTITION = ("connector", "topic", "partition")

BUILD = Declared("kafkeep_build_info", "gauge", "The version that runs; always 1.", ("version",))
LEADER = Declared(
    "kafkeep_leader",
    "gauge",
    "1 on the worker that runs the connectors, 0 on one that stands by.",
)
LAG_RECORDS = Declared(
    "kafkeep_lag_records",
    "gauge",
    "Offsets in Kafka that are not archived (or not yet brought back), at the last look.",
    _PARTITION,
)
LAG_SECONDS = Declared(
    "kafkeep_lag_seconds",
    "gauge",
    "For how long the oldest of those has waited; 0 when nothing waits.",
    _PARTITION,
)
RECORDS = Declared("kafkeep_records_total", "counter", "Records committed.", _CONNECTOR)
BYTES = Declared(
    "kafkeep_bytes_total", "counter", "Bytes of these records as Kafka holds them.", _CONNECTOR
)
OBJECTS = Declared(
    "kafkeep_objects_total", "counter", "Objects written by a sink, read by a source.", _CONNECTOR
)
COMMITS = Declared("kafkeep_commits_total", "counter", "Commits to the archive's log.", _CONNECTOR)
GAPS = Declared(
    "kafkeep_gaps_total",
    "counter",
    "Stretches that Kafka deleted before they were archived.",
    _CONNECTOR,
)
OFFSETS_SKIPPED = Declared(
    "kafkeep_offsets_skipped_total", "counter", "Offsets in these gaps.", _CONNECTOR
)
BAD_RECORDS = Declared(
    "kafkeep_bad_records_total",
    "counter",
    "Records left out because they could not be converted, as errors.tolerance allows.",
    _CONNECTOR,
)
FAILURES = Declared(
    "kafkeep_connector_failures_total",
    "counter",
    "Runs of a connector that ended in an error.",
    _CONNECTOR,
)
SPARK_JOBS = Declared(
    "kafkeep_spark_jobs_total",
    "counter",
    "Spark jobs run for the connector; none while there is nothing to do.",
    _CONNECTOR,
)
LAST_COMMIT = Declared(
    "kafkeep_last_commit_timestamp_seconds",
    "gauge",
    "When the connector last committed; absent before its first commit in this process.",
    _CONNECTOR,
)
LAST_VERIFY = Declared(
    "kafkeep_last_verify_timestamp_seconds",
    "gauge",
    "When the connector's archive was last verified; absent when that is not known.",
    _CONNECTOR,
)
S3_SECONDS = Declared(
    "kafkeep_s3_request_seconds",
    "histogram",
    "Time until S3's answer began, each attempt for itself, on the driver and in Spark's tasks; "
    "requests of a task's attempt that failed, and those for the service's own state, are missing.",
    ("operation",),
)
S3_ERRORS = Declared(
    "kafkeep_s3_request_errors_total",
    "counter",
    "Those of these requests that failed: by HTTP status, or 'connection' when no answer came. "
    "'Not there' and 'already there' are answers, not errors.",
    ("operation", "reason"),
)

OWN = (
    BUILD,
    LEADER,
    LAG_RECORDS,
    LAG_SECONDS,
    RECORDS,
    BYTES,
    OBJECTS,
    COMMITS,
    GAPS,
    OFFSETS_SKIPPED,
    BAD_RECORDS,
    FAILURES,
    SPARK_JOBS,
    LAST_COMMIT,
    LAST_VERIFY,
    S3_SECONDS,
    S3_ERRORS,
)


def put_counts(page: Page, name: str, reading: Reading) -> None:
    """Add what one connector did over all its runs."""
    counts = reading.counts
    page.put(RECORDS, counts.records, name)
    page.put(BYTES, counts.bytes, name)
    page.put(OBJECTS, counts.objects, name)
    page.put(COMMITS, counts.commits, name)
    page.put(GAPS, counts.gaps, name)
    page.put(OFFSETS_SKIPPED, counts.skipped_offsets, name)
    page.put(BAD_RECORDS, counts.bad_records, name)
    page.put(FAILURES, reading.failures, name)
    page.put(SPARK_JOBS, reading.spark_jobs, name)
    if reading.last_commit_ms is not None:
        page.put(LAST_COMMIT, reading.last_commit_ms / 1000, name)


def put_lag(page: Page, name: str, progress: Progress, now_ms: int) -> None:
    """Add how far behind one connector is, partition by partition."""
    # The job's thread goes on writing: a copy is one step for it, a loop is not.
    waiting, since = progress.lag_records.copy(), progress.lag_since_ms.copy()
    for topic, partition in sorted(waiting):
        labels = (name, topic, str(partition))
        began_ms = since.get((topic, partition), now_ms)
        page.put(LAG_RECORDS, waiting[topic, partition], *labels)
        page.put(LAG_SECONDS, max(0, now_ms - began_ms) / 1000, *labels)


def put_requests(page: Page, times: RequestTimes) -> None:
    """Add how S3 answered."""
    for operation, noted in sorted(times.snapshot().items()):
        page.put_times(S3_SECONDS, noted, operation)
        # An alert sees a first error only when the series was there before, at nought.
        for reason, count in sorted({"connection": 0, **noted.faults}.items()):
            page.put(S3_ERRORS, count, operation, reason)
