"""The page ``/metrics`` in Prometheus's text format, with Connect's metrics and kafkeep's own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from prometheus_client import ProcessCollector

from kafkeep.connect.jobs.job import Progress
from kafkeep.connect.metrics import connect_metrics as connect
from kafkeep.connect.metrics import own_metrics
from kafkeep.connect.metrics.metric import Metric, MetricsPage
from kafkeep.connect.metrics.totals import Totals
from kafkeep.connect.model import ConnectorStatus
from kafkeep.spark.jvm import JvmFacts

JVM_MEMORY = Metric(
    "jvm_memory_used_bytes", "gauge", "Memory used by Spark's JVM, by area.", ("area",)
)
JVM_THREADS = Metric("jvm_threads_current", "gauge", "Threads of Spark's JVM.")
JVM_GC = Metric(
    "jvm_gc_collection_seconds", "summary", "Garbage collections of Spark's JVM.", ("gc",)
)
JVM = (JVM_MEMORY, JVM_THREADS, JVM_GC)
ALL = (*connect.CONNECT, *own_metrics.OWN, *JVM)
"""Every metric declared here; prometheus_client adds those of the process."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerFacts:
    """What the page shows beside the connectors.

    A service has one ``totals``, which holds the counters.
    """

    totals: Totals
    now_ms: int
    version: str
    leads: bool = True
    """A standby worker shows no connectors; the leader does."""
    leader: str = ""
    """The leader's worker id; empty when unknown."""
    rebalancing: bool = False
    classes: Mapping[str, str] = field(default_factory=dict)
    """Connector → its ``connector.class``."""
    verified_ms: Mapping[str, int] = field(default_factory=dict)
    """Connector → when its archive was last verified, where known."""
    jvm: JvmFacts | None = None
    """Spark's JVM; None while there is none."""


def render(
    statuses: Sequence[ConnectorStatus], progress: Mapping[str, Progress], facts: WorkerFacts
) -> str:
    """Return the page. Any thread may call it while jobs write ``progress``."""
    page = MetricsPage()
    run_here = statuses if facts.leads else ()
    _put_worker(page, run_here, facts)
    readings = facts.totals.read(run_here, progress, facts.now_ms)
    for status in run_here:
        name, reading, now = status.name, readings[status.name], progress.get(status.name)
        connect.put_connector(page, status, facts.classes.get(name, ""))
        connect.put_tasks(page, status, reading, now)
        own_metrics.put_counts(page, name, reading)
        own_metrics.put_no_progress(page, status, facts.now_ms)
        if now is not None:
            own_metrics.put_lag(page, name, now, facts.now_ms)
        if name in facts.verified_ms:
            page.put(own_metrics.LAST_VERIFY, facts.verified_ms[name] / 1000, name)
    own_metrics.put_requests(page, facts.totals.all_requests())
    _put_jvm(page, facts.jvm)
    return page.text(ProcessCollector(registry=None))


def _put_worker(page: MetricsPage, statuses: Sequence[ConnectorStatus], facts: WorkerFacts) -> None:
    page.put(own_metrics.BUILD, 1, facts.version)
    page.put(own_metrics.LEADER, int(facts.leads))
    tasks = sum(len(status.tasks) for status in statuses)
    for metric in (connect.CONNECTOR_COUNT, connect.ASSIGNED_CONNECTORS):
        page.put(metric, len(statuses))
    for metric in (connect.TASK_COUNT, connect.ASSIGNED_TASKS):
        page.put(metric, tasks)
    page.put(connect.REBALANCING, int(facts.rebalancing))
    if facts.leader:
        page.put(connect.LEADER_NAME, 1, facts.leader)


def _put_jvm(page: MetricsPage, jvm: JvmFacts | None) -> None:
    if jvm is None:
        return
    page.put(JVM_MEMORY, jvm.heap_bytes, "heap")
    page.put(JVM_MEMORY, jvm.other_bytes, "nonheap")
    page.put(JVM_THREADS, jvm.threads)
    for name, (count, seconds) in sorted(jvm.collections.items()):
        page.put_summary(JVM_GC, count, seconds, name)
