"""The steps of the demo. Each prints what it does and the command that does the same.

The result has a line per claim for people, and one document for machines.
"""

from __future__ import annotations

import shlex
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from decimal import Decimal
from functools import cached_property
from typing import Any

from kafkeep import preload
from kafkeep.archive.commit import Commit
from kafkeep.archive.entry import Entry
from kafkeep.archive.view import load_view
from kafkeep.backup.run import run_backup
from kafkeep.backup.summary import BackupSummary
from kafkeep.demo.records import (
    EVENTS,
    ORDERS,
    PARTITIONS,
    Comparison,
    DemoStream,
    Dump,
    Ledger,
    compare_topics,
    dump_topics,
    more_records,
    produce,
    sample_records,
)
from kafkeep.dev import DevStatus
from kafkeep.kafka.admin.admin import Admin
from kafkeep.kafka.client.wire import Wire
from kafkeep.options.backup import BackupOptions
from kafkeep.options.kafka import KafkaOptions, Locations
from kafkeep.options.restore import RestoreOptions
from kafkeep.options.spark import SparkOptions
from kafkeep.options.storage import StorageOptions
from kafkeep.options.units import format_size
from kafkeep.restore.run import run_restore
from kafkeep.restore.summary import RestoreSummary
from kafkeep.spark.background_session import BackgroundSession
from kafkeep.spark.tasks import TaskRunner
from kafkeep.store.open import open_store


@dataclass(frozen=True, slots=True)
class SqlRow:
    """One row of the demo's query; ``amount`` is None where no record has one."""

    topic: str
    records: int
    amount: Decimal | None


@dataclass(frozen=True)
class DemoResult:
    """Everything the demo found out; ``same`` is its verdict."""

    topics: Sequence[Comparison]
    produced: Ledger
    sql: Sequence[SqlRow]
    objects: int
    backups: Sequence[BackupSummary]
    restore: RestoreSummary

    @property
    def counts_agree(self) -> bool:
        """Whether producer, Kafka, archive and Spark SQL count the same, and sum the same."""
        made = self.produced.records
        archived = {
            topic: sum(backup.topics.get(topic, 0) for backup in self.backups) for topic in made
        }
        queried = {row.topic: row.records for row in self.sql}
        held = {one.topic: one.records for one in self.topics}
        amounts = {row.topic: row.amount for row in self.sql}
        return made == held == archived == queried and amounts.get(ORDERS) == self.produced.amount

    @property
    def same(self) -> bool:
        """Whether every record came back as it was, and all counts agree."""
        return self.counts_agree and all(one.same for one in self.topics)

    @property
    def exit_code(self) -> int:
        """0 when everything is as it was, else 1."""
        return 0 if self.same else 1

    def lines(self) -> Iterator[str]:
        """Yield the verdict, a line per topic and one for the counts."""
        for one in self.topics:
            if one.same:
                yield f"✔ {one.topic}: {one.restored:,} of {one.records:,} records are the same"
            else:
                yield f"✘ {one.topic}: {one.difference}"
        if self.counts_agree:
            yield "✔ producer, archive and Spark SQL agree on counts and on the sum of all orders"
        else:
            yield "✘ producer, archive and Spark SQL do not agree"

    def to_json(self) -> dict[str, Any]:
        """Return the document of ``--output json``."""
        return {
            "message_type": "summary",
            "same": self.same,
            "counts_agree": self.counts_agree,
            "produced": self.produced.records,
            "amount": str(self.produced.amount),
            "topics": [
                {
                    "topic": one.topic,
                    "records": one.records,
                    "restored": one.restored,
                    "same": one.same,
                    "difference": one.difference,
                }
                for one in self.topics
            ],
            "sql": [
                {
                    "topic": row.topic,
                    "records": row.records,
                    "amount": None if row.amount is None else str(row.amount),
                }
                for row in self.sql
            ],
            "objects": self.objects,
            "backups": [backup.to_json() for backup in self.backups],
            "restore": self.restore.to_json(),
        }


SQL = """\
SELECT topic,
       count(*) AS records,
       sum(CAST(get_json_object(CAST(value AS STRING), '$.amount') AS DECIMAL(18, 2))) AS amount
FROM archive GROUP BY topic ORDER BY topic"""
_PER_SECOND = 5000
_COMMITS = 2
_SHOWN_OBJECTS = 12

Show = Callable[[str], None]


@contextmanager
def open_spark() -> Iterator[BackgroundSession]:
    """Start one Spark session for the whole demo, in the background."""
    with BackgroundSession(SparkOptions.load(preload=preload.DEMO)) as session:
        yield session


@dataclass
class Story:
    """The steps after the services are up; ``show`` prints a line."""

    services: DevStatus
    spark: BackgroundSession
    show: Show
    stream_seconds: float = 5.0
    step: int = 1
    ledger: Ledger = field(default_factory=Ledger)

    def run(self) -> DemoResult:
        """Run all steps, also after a mismatch, and return how it ended."""
        with Wire(self.locations.kafka) as wire:
            self._create_and_produce(wire)
            backups = [self._follow(wire), self._catch_up(wire)]
            objects = self._list_bucket()
            rows = self._query(self.spark.session())
            before = self._lose_topics(wire)
            restored = self._restore()
            result = DemoResult(
                topics=self._compare(wire, before),
                produced=self.ledger,
                sql=rows,
                objects=len(objects),
                backups=backups,
                restore=restored,
            )
        for line in result.lines():
            self.show(f"  {line}")
        return result

    @property
    def archive(self) -> str:
        """Where the demo's archive lies."""
        return f"s3://{self.services.s3.bucket}/demo"

    @cached_property
    def locations(self) -> Locations:
        """Where Kafka and the archive are, credentials included."""
        s3 = self.services.s3
        storage = StorageOptions(
            endpoint=s3.endpoint,
            region=s3.region,
            access_key=s3.access_key,
            secret_key=s3.secret_key,
        )
        kafka = KafkaOptions(self.services.bootstrap_servers)
        return Locations(kafka=kafka, archive=self.archive, storage=storage)

    def _begin(self, what: str, *commands: str) -> None:
        self.step += 1
        self.show(heading(self.step, what))
        for command in commands:
            self.show(f"  $ {command}")

    def _create_and_produce(self, wire: Wire) -> None:
        what = ", ".join(f"{name} ({count} partitions)" for name, count in PARTITIONS.items())
        servers = self.services.bootstrap_servers
        self._begin(
            f"Create {what} and produce the first records",
            *(
                f"kafka-topics.sh --bootstrap-server {servers} --create --topic {name} "
                f"--partitions {count}"
                for name, count in PARTITIONS.items()
            ),
        )
        for name, count in PARTITIONS.items():
            Admin(wire).create_topic(name, count)
        records = sample_records()
        produce(wire, records, self.ledger)
        for topic in (ORDERS, EVENTS):
            first = next(record for record in records if record.topic == topic)
            self.show(f"  {topic}: {(first.value or b'').decode()} …")

    def _backup_command(self, *extra: str) -> str:
        return self._command("backup", "--topics", ",".join(PARTITIONS), *extra)

    def _command(self, verb: str, *extra: str) -> str:
        kafka = ("--bootstrap-servers", self.services.bootstrap_servers)
        words = ["kafkeep", verb, *kafka, "--archive", self.archive, *extra]
        return " ".join(shlex.quote(word) for word in words)

    def _follow(self, wire: Wire) -> BackupSummary:
        """Back up while records keep coming, long enough to see several commits."""
        self._begin(
            f"Back up while {_PER_SECOND:,} records a second keep coming",
            self._backup_command("--follow", "--interval", "500ms", "--segment-age", "1s"),
        )
        self.spark.session()
        stop = threading.Event()
        over = time.monotonic() + self.stream_seconds
        commits = 0

        def on_commit(commit: Commit, summary: BackupSummary) -> None:
            nonlocal commits
            if not commit.changes.entries:
                return
            commits += 1
            self.show(f"  commit {commit.number}: {summary.records:,} records so far")
            if commits >= _COMMITS and time.monotonic() > over:
                stop.set()

        options = BackupOptions(
            topics=tuple(PARTITIONS), follow=True, interval_ms=500, segment_age_ms=1000
        )
        stream = DemoStream(wire, self.ledger, per_second=_PER_SECOND, on_failure=stop.set)
        stream.start()
        try:
            return run_backup(
                options, self.locations, SparkOptions.load(), stop=stop, on_commit=on_commit
            )
        finally:
            stream.stop()

    def _catch_up(self, wire: Wire) -> BackupSummary:
        self._begin(
            "The stream has stopped and five more orders arrived: back up the rest",
            self._backup_command(),
        )
        produce(wire, more_records(), self.ledger)
        options = BackupOptions(topics=tuple(PARTITIONS))
        summary = run_backup(options, self.locations, SparkOptions.load())
        self.show(
            f"  {summary.records:,} records, {summary.objects} objects, "
            f"{format_size(summary.stored_bytes)} stored in {summary.seconds:.1f} s; "
            f"{self.ledger.total:,} records were produced in all"
        )
        return summary

    def _list_bucket(self) -> list[Entry]:
        self._begin("List the objects of the archive", f"kafkeep ls --archive {self.archive}")
        store = open_store(self.locations.archive, self.locations.storage)
        entries = load_view(store, "backup").entries()
        for entry in entries[:_SHOWN_OBJECTS]:
            self.show(f"  {format_size(entry.size_bytes):>10}  {entry.records:>7,}  {entry.key}")
        if len(entries) > _SHOWN_OBJECTS:
            self.show(f"  … and {len(entries) - _SHOWN_OBJECTS} more")
        logged = sum(1 for _ in store.list("_kafkeep/backup/log/"))
        self.show(f"  beside them {logged} commits in _kafkeep/backup/log/")
        return entries

    def _query(self, spark: TaskRunner) -> list[SqlRow]:
        self._begin("Query the archive with Spark SQL")
        load = f'spark.read.format("kafkeep").load("{self.archive}")'
        self.show(f'  >>> {load}.createOrReplaceTempView("archive")')
        for line in SQL.splitlines():
            self.show(f"  {line}")
        rows = [
            SqlRow(row["topic"], row["records"], row["amount"])
            for row in self._archive_frame(spark)
        ]
        self.show("")
        for row in rows:
            amount = "" if row.amount is None else f"{row.amount:>16,}"
            self.show(f"  {row.topic:<8} {row.records:>9,} {amount}")
        return rows

    def _archive_frame(self, spark: TaskRunner) -> Sequence[Any]:
        s3 = self.services.s3
        reader = spark.session.read.format("kafkeep").options(
            endpoint=s3.endpoint,
            region=s3.region,
            accessKey=s3.access_key,
            secretKey=s3.secret_key,
        )
        reader.load(self.archive).createOrReplaceTempView("archive")
        found: Sequence[Any] = spark.session.sql(SQL).collect()
        return found

    def _lose_topics(self, wire: Wire) -> dict[str, Dump]:
        self._begin(
            "Keep a copy in memory to compare with, then delete the topics",
            *(
                f"kafka-topics.sh --bootstrap-server {self.services.bootstrap_servers} --delete "
                f"--topic {name}"
                for name in PARTITIONS
            ),
        )
        before = dump_topics(wire, list(PARTITIONS))
        Admin(wire).delete_topics(list(PARTITIONS))
        left = [name for name in Admin(wire).topics() if name in PARTITIONS]
        self.show(f"  topics left in Kafka: {', '.join(left) or 'none'}")
        return before

    def _restore(self) -> RestoreSummary:
        self._begin("Restore the topics", self._command("restore"))
        locations = Locations(
            kafka=self.locations.kafka,
            archive=self.locations.archive,
            storage=self.locations.storage,
        )
        summary = run_restore(RestoreOptions(), locations, SparkOptions.load())
        self.show(f"  {summary.records:,} records written in {summary.seconds:.1f} s")
        return summary

    def _compare(self, wire: Wire, before: dict[str, Dump]) -> list[Comparison]:
        self._begin("Compare record by record: order, time, key, value, headers")
        return compare_topics(before, dump_topics(wire, list(PARTITIONS)))


def heading(step: int, what: str) -> str:
    """Return the title line of a step."""
    return f"\n{step}. {what}"
