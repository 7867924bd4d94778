"""Retention of objects: forever, unless a rule lets the store delete them after some days.

The rule is the bucket's own (S3 lifecycle). The log's folder records it, so that a missing object
is either explained by a rule or damage.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from kafkeep.archive.expiry import Retention, load_retention, record_retention
from kafkeep.archive.keys import DATA_FOLDER
from kafkeep.errors import UsageError
from kafkeep.failpoint import failpoint
from kafkeep.options.storage import StorageOptions
from kafkeep.store.open import open_store
from kafkeep.store.s3.lifecycle import Lifecycle, Rule, rule_id


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicRetention:
    """The retention of one topic of one log; ``in_bucket`` is None without a rule there."""

    log: str
    topic: str
    days: int
    since_ms: int
    in_bucket: int | None


def apply_retention(
    archive: str,
    storage: StorageOptions,
    log: str,
    topics: Collection[str],
    days: int | None,
    *,
    folder: str = DATA_FOLDER,
    now_ms: int,
) -> None:
    """Let the store delete objects of these topics after ``days``; None removes kafkeep's rules.

    ``folder`` is the parent of the topics' folders. Safe to repeat. Raise UsageError if the store
    has no lifecycle rules; without days and earlier rules, no request is sent.
    """
    if days is None:
        remove_retention(archive, storage, log, topics, folder=folder, now_ms=now_ms)
        return
    if days < 1:
        raise UsageError(f"{days} is not a number of days above zero")
    lifecycle = Lifecycle(archive, storage)
    lifecycle.load()  # fails before anything is recorded if the store has no rules
    # Recorded first: objects that an unrecorded rule deletes would count as damage.
    record_retention(open_store(archive, storage), log, topics, days, now_ms)
    failpoint("retention.recorded")
    lifecycle.set([rule for topic in topics for rule in rules_of(log, topic, days, folder)])


def remove_retention(
    archive: str,
    storage: StorageOptions,
    log: str,
    topics: Collection[str],
    *,
    folder: str = DATA_FOLDER,
    now_ms: int,
) -> None:
    """Remove kafkeep's rules for these topics; topics without a rule need no request."""
    store = open_store(archive, storage)
    active = load_retention(store, log).active()
    ending = [topic for topic in topics if topic in active]
    if not ending:
        return
    ids = [rule.id for topic in ending for rule in rules_of(log, topic, 1, folder)]
    Lifecycle(archive, storage).remove(ids)
    failpoint("retention.removed")
    record_retention(store, log, ending, None, now_ms)


def show_retention(archive: str, storage: StorageOptions, log: str) -> list[TopicRetention]:
    """Return the rules of a log's topics, and whether the bucket has them."""
    known: Retention = load_retention(open_store(archive, storage), log)
    if not known.active():
        return []
    ours = Lifecycle(archive, storage).ours()
    return [
        TopicRetention(
            log=log,
            topic=topic,
            days=days,
            since_ms=known.topics[topic][-1].since_ms,
            in_bucket=found.days if (found := ours.get(rule_id(log, topic))) else None,
        )
        for topic, days in known.active().items()
    ]


def rules_of(log: str, topic: str, days: int, folder: str = DATA_FOLDER) -> tuple[Rule, Rule]:
    """Return a topic's rules: for its folder, and for those with a number (``orders~2``)."""
    above = f"{folder.strip('/')}/" if folder.strip("/") else ""
    return (
        Rule(rule_id(log, topic), f"{above}{topic}/", days),
        Rule(rule_id(log, f"{topic}~"), f"{above}{topic}~", days),
    )
