"""How the demo ended: for people a line per claim, for machines one document."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from kafkeep.backup.summary import BackupSummary
from kafkeep.demo.compare import Comparison
from kafkeep.demo.produce import Ledger
from kafkeep.demo.records import ORDERS
from kafkeep.restore.summary import RestoreSummary


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
