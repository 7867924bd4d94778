"""The result of a comparison, for output and reports. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from kafkeep.clock import tool_name
from kafkeep.compare.differences import Tally, Verdict
from kafkeep.compare.plan import TopicComparison
from kafkeep.compare.work import WorkResult
from kafkeep.errors import DamagedError
from kafkeep.options.maintenance import COMPARE_REPORT

VERSION = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicResult:
    """The results of one topic."""

    plan: TopicComparison
    compared: tuple[WorkResult, ...]

    @property
    def tally(self) -> Tally:
        """The verdicts of all partitions."""
        whole = Tally()
        for one in self.compared:
            whole.join(one.tally)
        return whole

    def sum(self, name: str) -> int:
        """Add up ``archived``, ``found`` or ``matched``."""
        return sum(getattr(one, name) for one in self.compared)

    def to_json(self) -> dict[str, Any]:
        """Return the form of ``--output json``."""
        plan = self.plan
        return {
            "source": plan.source.topic,
            "incarnation": plan.source.incarnation,
            "target": plan.target.name,
            "compared_by": "key" if plan.by_key else "order",
            "left_out": list(plan.left_out),
            "notes": list(plan.notes),
            "archived": self.sum("archived"),
            "found": self.sum("found"),
            "matched": self.sum("matched"),
            "counts": self.tally.to_json()["counts"],
            "partitions": [one.to_json() for one in self.compared],
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class CompareResult:
    """The whole comparison."""

    archive: str
    log: str
    commit: int
    commit_at_ms: int
    commit_sha256: str
    bootstrap: str
    cluster_id: str
    exact_offsets: bool
    began_ms: int
    seconds: float
    start_seconds: float
    topics: tuple[TopicResult, ...]
    notes: tuple[str, ...] = ()
    lost_commits: bool = False
    """True if the log has lost commits that an earlier verify saw; the notes name them."""

    @property
    def tally(self) -> Tally:
        """The verdicts of all topics."""
        whole = Tally()
        for topic in self.topics:
            whole.join(topic.tally)
        return whole

    def sum(self, name: str) -> int:
        """Add up ``archived``, ``found`` or ``matched``."""
        return sum(topic.sum(name) for topic in self.topics)

    @property
    def verdict(self) -> str:
        """One word: ``clean``, ``warnings`` or ``differs``."""
        if self.tally.faults:
            return "differs"
        return "warnings" if self.tally.warnings or self.lost_commits else "clean"

    @property
    def exit_code(self) -> int:
        """0 when clean, 3 with warnings, 13 when the target differs from the archive."""
        return {"clean": 0, "warnings": 3, "differs": DamagedError.exit_code}[self.verdict]

    def to_json(self) -> dict[str, Any]:
        """Return the form of ``--output json`` and of a report; scripts may rely on it."""
        return {
            "message_type": "summary",
            "report": COMPARE_REPORT,
            "version": VERSION,
            "tool": tool_name(),
            "verdict": self.verdict,
            "archive": self.archive,
            "log": self.log,
            "commit": self.commit,
            "commit_at_ms": self.commit_at_ms,
            "commit_sha256": self.commit_sha256,
            "bootstrap_servers": self.bootstrap,
            "cluster_id": self.cluster_id,
            "exact_offsets": self.exact_offsets,
            "archived": self.sum("archived"),
            "found": self.sum("found"),
            "matched": self.sum("matched"),
            "counts": self.tally.to_json()["counts"],
            "notes": list(self.notes),
            "topics": [topic.to_json() for topic in self.topics],
            "began_ms": self.began_ms,
            "seconds": round(self.seconds, 3),
            "start_seconds": round(self.start_seconds, 3),
        }

    def lines(self) -> list[str]:
        """Return a sentence for each difference, the worst first."""
        found = []
        for topic in self.topics:
            for one in topic.compared:
                where = one.target if one.partition is None else f"{one.target}-{one.partition}"
                for verdict in Verdict:
                    if count := one.tally.counts.get(verdict, 0):
                        found.append(f"{where}: {count:,} {verdict.value}{_places(one, verdict)}")
        return found


def _places(one: WorkResult, verdict: Verdict) -> str:
    texts = []
    for place in one.tally.places.get(verdict, ()):
        text = " → ".join(
            f"{name} {offset}"
            for name, offset in (("archive", place.archive), ("target", place.target))
            if offset is not None
        )
        texts.append(f"{text} ({place.what})" if place.what else text)
    return f", first at offset: {'; '.join(texts)}" if texts else ""
