"""Whether objects that no log names can be read, and whether their names and counts agree.

There is nothing to hold their bytes against: whether one is missing, or was replaced by another
that can be read, nobody can tell. That is said.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from kafkeep.archive.entry import Entry, OffsetRange, PartitionId
from kafkeep.archive.store import ObjectStore
from kafkeep.care.finding import Finding, Kind, Severity
from kafkeep.care.foreign.topics import sort_by_topic
from kafkeep.care.verify import DEFAULT_WORKERS, OnProgress, VerifyReport, in_order
from kafkeep.config.foreign import ForeignOptions
from kafkeep.config.formats import FormatKind
from kafkeep.contents.foreign.find import list_objects
from kafkeep.contents.foreign.group import Grouped, group
from kafkeep.contents.foreign.listing import Listing
from kafkeep.contents.foreign.scan import Scanned, scan
from kafkeep.contents.windows import entries_by_partition, iter_windows


def verify_foreign(
    store: ObjectStore,
    options: ForeignOptions,
    *,
    deep: bool = False,
    topics: Collection[str] | None = None,
    workers: int = DEFAULT_WORKERS,
    on_progress: OnProgress | None = None,
) -> VerifyReport:
    """Read every object and every row in it: what is no record of its format is damage.

    There are no digests, so only reading tells; ``deep`` has nothing to add and is reported alone.
    """
    listing = list_objects(store, options)
    objects = [one for topic in sort_by_topic(listing, topics) for one in topic.objects]
    scanned = []
    for one in scan(store, objects, options, checks_rows=True, threads=workers):
        scanned.append(one)
        if on_progress is not None:
            on_progress(len(scanned), len(objects))
    grouped = group(scanned, options)
    findings = [
        _no_log(store),
        *_iter_problems(scanned, grouped),
        *_iter_repeats(grouped),
        *_iter_holes(grouped.entries),
        *(_iter_odd(listing) if topics is None else ()),
    ]
    return VerifyReport(
        archive=store.describe(),
        logs=(),
        deep=deep,
        commits=0,
        objects=len(scanned),
        records=sum(entry.own_records for entry in grouped.entries),
        read_bytes=sum(one.size_bytes for one in scanned),
        findings=in_order(findings),
    )


def _no_log(store: ObjectStore) -> Finding:
    text = (
        "there is no log, and so no digests: that no object is missing, and none was replaced by "
        "another that can be read, is not shown"
    )
    return _finding(Severity.INFO, Kind.NO_LOG, store.describe(), text)


def _iter_problems(scanned: Sequence[Scanned], grouped: Grouped) -> Iterator[Finding]:
    by_key = {one.name.key: one for one in scanned}
    for key, why in grouped.problems:
        one = by_key[key]
        # Bytes that cannot be told apart were written so: nothing has happened to them.
        vague = one.name.format is FormatKind.BYTES and not one.problem
        severity = Severity.WARNING if vague else Severity.DAMAGE
        kind = Kind.UNDECODABLE if one.problem or vague else Kind.MISCOUNTED
        pid = PartitionId(one.name.topic, 1, one.name.partition)
        yield _finding(severity, kind, key, why, pid)


def _iter_repeats(grouped: Grouped) -> Iterator[Finding]:
    text = "it holds records that are in the object before it, too: a restore writes them twice"
    for key in grouped.repeats:
        yield _finding(Severity.WARNING, Kind.OVERLAP, key, text)


def _iter_holes(entries: Sequence[Entry]) -> Iterator[Finding]:
    """Yield stretches with fewer records than offsets; the last window's end is not known."""
    for pid, mine in entries_by_partition(entries).items():
        windows = list(iter_windows(mine))
        for window in windows[:-1]:
            lacking = len(window.range) - window.records
            if lacking:
                yield _hole(pid, window.entries[0].key, window.range, lacking)


def _hole(pid: PartitionId, key: str, offsets: OffsetRange, lacking: int) -> Finding:
    where = f"offsets {offsets.start} to {offsets.end - 1}"
    text = f"{lacking} of the {where} held no record, or an object that held them is missing"
    return _finding(Severity.INFO, Kind.NO_OBJECT, key, text, pid)


def _iter_odd(listing: Listing) -> Iterator[Finding]:
    for key, why in listing.odd:
        yield _finding(Severity.INFO, Kind.ORPHAN, key, f"it was not read: it {why}")


def _finding(
    severity: Severity, kind: Kind, key: str, message: str, pid: PartitionId | None = None
) -> Finding:
    return Finding(severity=severity, kind=kind, log="", key=key, message=message, partition_id=pid)
