"""Find the objects that the store may have deleted under a lifecycle rule set by kafkeep.

The history of the rules of a log's topics is stored beside the log, so that an expired object can
be distinguished from a lost one: ``_kafkeep/<log>/retention/<10^20-1-revision>.json``. It is not
part of the log, so changing it does not disturb a writer.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

from kafkeep.archive.document import (
    FIRST_VERSION,
    as_dict,
    as_int,
    as_list,
    dump_with_checksum,
    parse_with_checksum,
    reading,
)
from kafkeep.archive.entry import Entry
from kafkeep.archive.names import ROOT, check_log_name, check_topic_name
from kafkeep.archive.object_store import ObjectInfo, ObjectStore
from kafkeep.archive.sequence import DocumentSequence, SequenceNaming
from kafkeep.archive.view import ArchiveView
from kafkeep.errors import KeyMissingError, TransientError

DAY_MS = 86_400_000
PAGE_OBJECTS = 1000
"""A listing of an object store returns this many objects for each request."""
_ATTEMPTS = 16


@dataclass(frozen=True, slots=True)
class RulePeriod:
    """A rule and the time in which it applied; ``until_ms`` is None while it applies."""

    days: int
    since_ms: int
    until_ms: int | None = None

    def expired_up_to(self, now_ms: int) -> int:
        """Return the newest time of an object that the rule may have deleted."""
        return min(now_ms, self.until_ms or now_ms) - self.days * DAY_MS


@dataclass(frozen=True, slots=True)
class Retention:
    """The rules of a log's topics, as of one revision; -1 when there never was one."""

    revision: int = -1
    topics: Mapping[str, tuple[RulePeriod, ...]] = field(default_factory=dict)

    def days(self, topic: str) -> int | None:
        """Return the days of the rule that applies now, or None."""
        periods = self.topics.get(topic, ())
        return periods[-1].days if periods and periods[-1].until_ms is None else None

    def active(self) -> dict[str, int]:
        """Return the topics that have a rule now, and its days."""
        found = {topic: self.days(topic) for topic in sorted(self.topics)}
        return {topic: days for topic, days in found.items() if days is not None}

    def changed(self, topics: Collection[str], days: int | None, now_ms: int) -> Retention:
        """Return the next revision, in which these topics have this rule, or none."""
        after = dict(self.topics)
        for topic in topics:
            if self.days(topic) == days:
                continue
            periods = [
                p if p.until_ms is not None else replace(p, until_ms=now_ms)
                for p in after.get(topic, ())
            ]
            after[topic] = (*periods, *([RulePeriod(days, now_ms)] if days is not None else ()))
        return Retention(self.revision + 1, after)


def load_retention(store: ObjectStore, log: str) -> Retention:
    """Return the current and past rules; costs one small listing when there is none."""
    revisions = _revisions(store, log)
    newest = revisions.newest()
    return Retention() if newest < 0 else _decode(revisions.read(newest), revisions.key(newest))


def record_retention(
    store: ObjectStore, log: str, topics: Collection[str], days: int | None, now_ms: int
) -> None:
    """Record that a rule is set, or removed when ``days`` is None. Idempotent."""
    for _ in range(_ATTEMPTS):
        before = load_retention(store, log)
        after = before.changed(topics, days, now_ms)
        if after.topics == before.topics:
            return
        if _revisions(store, log).try_create(after.revision, _encode(after)):
            return
    raise TransientError(f"{log}: other processes keep changing its retention")


def iter_stored(
    store: ObjectStore, keys: Collection[str], *, among: int | None = None
) -> Iterator[ObjectInfo]:
    """Yield those objects that exist, with as few requests as possible.

    ``among`` is the number of objects in their common folder; by default there are no others.
    Listing that folder takes a request for each page, however few of its objects are wanted.
    """
    if len(keys) <= -(-(among or len(keys)) // PAGE_OBJECTS):
        for key in sorted(keys):
            with suppress(KeyMissingError):
                yield store.head(key)
        return
    folder = os.path.commonpath({os.path.dirname(key) for key in keys})
    for info in store.list(folder + "/" if folder else ""):
        if info.key in keys:
            yield info


class Expiry:
    """Find the objects of a log that may have expired by now."""

    def __init__(self, store: ObjectStore, view: ArchiveView, now_ms: int) -> None:
        self._store, self._view, self._now_ms = store, view, now_ms
        self._rules: Retention | None = None
        self._old: dict[str, dict[int, frozenset[str]]] = {}

    def find(self, entries: Collection[Entry]) -> dict[str, str]:
        """Return the expired objects of one topic, with the reason."""
        if not any(self.rules.topics.get(entry.partition_id.topic) for entry in entries):
            return {}
        wanted = {entry.key for entry in entries}
        stored = {info.key for info in iter_stored(self._store, wanted)}
        reasons = {e.key: self.reason(e) for e in entries if e.key not in stored}
        return {key: reason for key, reason in reasons.items() if reason is not None}

    @property
    def rules(self) -> Retention:
        """The current and past rules."""
        if self._rules is None:
            self._rules = load_retention(self._store, self._view.name)
        return self._rules

    def reason(self, entry: Entry) -> str | None:
        """Return why the entry's object may be missing; None when no rule explains it."""
        topic = entry.partition_id.topic
        for period in self.rules.topics.get(topic, ()):
            cutoff = period.expired_up_to(self._now_ms)
            known = self._old.setdefault(topic, {})
            if cutoff not in known:
                known[cutoff] = frozenset(self._view.keys_committed_by(cutoff, topic))
            if entry.key in known[cutoff]:
                days = "1 day" if period.days == 1 else f"{period.days} days"
                return f"expired by the retention rule of {days}"
        return None


def _revisions(store: ObjectStore, log: str) -> DocumentSequence:
    folder = f"{ROOT}{check_log_name(log)}/retention/"
    return DocumentSequence(store=store, folder=folder, naming=SequenceNaming.NEWEST_FIRST)


def _encode(rules: Retention) -> bytes:
    def period(one: RulePeriod) -> dict[str, Any]:
        return {"days": one.days, "since_ms": one.since_ms, "until_ms": one.until_ms}

    topics = {topic: [period(p) for p in periods] for topic, periods in rules.topics.items()}
    return dump_with_checksum(
        {"version": FIRST_VERSION, "revision": rules.revision, "topics": topics}
    )


def _decode(body: bytes, key: str) -> Retention:
    def period(one: Any) -> RulePeriod:
        until = one["until_ms"]
        return RulePeriod(
            as_int(one["days"]), as_int(one["since_ms"]), None if until is None else as_int(until)
        )

    document = parse_with_checksum(body, key, ("version", "revision", "topics"))
    with reading(key):
        topics = {
            check_topic_name(topic): tuple(map(period, as_list(periods)))
            for topic, periods in as_dict(document["topics"]).items()
        }
        return Retention(as_int(document["revision"]), topics)
