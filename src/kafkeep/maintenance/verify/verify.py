"""Verify that an archive is complete and unchanged. Reads every byte; findings are values.

The entries and gaps of each partition must cover its offsets without overlap.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import replace
from itertools import islice
from typing import NamedTuple

from kafkeep import clock
from kafkeep.archive.commit import Gap
from kafkeep.archive.entry import Entry, OffsetRange, PartitionId
from kafkeep.archive.expiry import Expiry
from kafkeep.archive.keys import is_schemas_key
from kafkeep.archive.object_store import ObjectStore, StrayFile
from kafkeep.archive.view import ArchiveView, check_log, iter_commits, list_logs, load_view
from kafkeep.errors import DamagedError
from kafkeep.maintenance.inspect.inventory import find_left_overs, find_strays, list_data
from kafkeep.maintenance.verify.finding import Finding, FindingKind, Severity, VerifyReport, damage
from kafkeep.maintenance.verify.last_verified import load_verified
from kafkeep.maintenance.verify.lost_commits import check_objects_beyond, check_verified
from kafkeep.maintenance.verify.objects import CheckedObject, check_object
from kafkeep.objects.choose_log import check_topics
from kafkeep.objects.sink.read_windows import SEGMENT, Window, entries_by_partition, iter_windows
from kafkeep.objects.sink.spec import NO_OPTIONS, ReadOptions, load_read_options

DEFAULT_WORKERS = 4
OnProgress = Callable[[int, int], None]


def verify(
    store: ObjectStore,
    names: Sequence[str],
    *,
    deep: bool = False,
    topics: Collection[str] | None = None,
    workers: int = DEFAULT_WORKERS,
    on_progress: OnProgress | None = None,
    now_ms: int | None = None,
) -> VerifyReport:
    """Check the named logs and every object that they name.

    Runs in threads of this process; each holds a few MiB. With ``topics`` only their objects are
    read. Orphans are reported only if all logs and topics are checked. ``now_ms`` decides which
    objects may have expired.
    """
    # Before the logs are read: a concurrent verify may record a newer commit meanwhile.
    seen = {name: load_verified(store, name) for name in names}
    findings = [found for name in names for found in _check_chain(store, name)]
    views = [view for name in names if (view := _load(store, name, findings)) is not None]
    if not any(found.kind is FindingKind.BROKEN_CHAIN for found in findings):
        check_topics(views, topics)  # the contents of a broken log are unknown
    work: list[tuple[str, Entry]] = []
    options: dict[str, ReadOptions] = {}
    for view in views:
        entries = _entries(view, topics)
        work.extend((view.name, entry) for entry in entries)
        if deep and any(entry.format != SEGMENT for entry in entries):
            options[view.name] = load_read_options(store, view)
        findings.extend(_iter_log_findings(view, entries, topics))
    retired = [entry for view in views for entry in view.retired()] if topics is None else []
    listed = list_data(store, [*(entry for _, entry in work), *retired])
    checked = _check_objects(
        store, work, listed, options, deep=deep, workers=workers, progress=on_progress
    )
    findings.extend(_iter_explained(store, views, work, checked, now_ms))
    broken = {found.log for found in findings if found.kind is FindingKind.BROKEN_CHAIN}
    whole = [view for view in views if view.name not in broken]
    for view in whole:
        findings.extend(check_verified(store, view.state, seen[view.name]))
    if topics is None and len(views) == len(names) and set(names) == set(list_logs(store)):
        named = {entry.key for entry in (*(entry for _, entry in work), *retired)}
        findings.extend(_iter_orphans(store, names, listed, named, broken))
        entries = [*(entry for _, entry in work), *retired]
        findings.extend(_stray(found) for found in find_strays(store, entries))
    return VerifyReport(
        archive=store.describe(),
        logs=tuple(names),
        deep=deep,
        commits=sum(view.commits for view in views),
        objects=len(work),
        records=sum(entry.own_records for _, entry in work),
        read_bytes=sum(result.read_bytes for result in checked),
        findings=in_order(findings),
        states=tuple(view.state for view in views),
    )


def in_order(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Sort the worst first; the sort is stable."""
    order = list(Severity)
    return tuple(sorted(findings, key=lambda found: order.index(found.severity)))


def _check_chain(store: ObjectStore, name: str) -> Iterator[Finding]:
    for found in check_log(store, name):
        kind = FindingKind.BROKEN_CHAIN if found.fatal else FindingKind.BAD_CHECKPOINT
        kind = FindingKind.LOST_COMMITS if found.shows_loss else kind
        yield Finding(
            severity=Severity.DAMAGE if found.fatal else Severity.WARNING,
            kind=FindingKind.BAD_SCHEMAS if is_schemas_key(found.key) else kind,
            log=name,
            key=found.key,
            message=found.problem,
        )


def _load(store: ObjectStore, name: str, findings: list[Finding]) -> ArchiveView | None:
    """Return the log at its newest commit, or at the last intact one."""
    try:
        return load_view(store, name)
    except DamagedError as error:
        if not any(
            found.kind is FindingKind.BROKEN_CHAIN and found.log == name for found in findings
        ):
            findings.append(_broken(name, error.message))
    intact = [step.number for step in iter_commits(store, name) if step.state is not None]
    try:
        return load_view(store, name, commit=intact[-1]) if intact else None
    except DamagedError as error:
        findings.append(_broken(name, error.message))
        return None


def _broken(name: str, message: str) -> Finding:
    key = f"_kafkeep/{name}/log/"
    return Finding(
        severity=Severity.DAMAGE, kind=FindingKind.BROKEN_CHAIN, log=name, key=key, message=message
    )


def _entries(view: ArchiveView, topics: Collection[str] | None) -> list[Entry]:
    if topics is None:
        return view.entries()
    return [entry for topic in sorted(set(topics)) for entry in view.entries(topic)]


def _iter_log_findings(
    view: ArchiveView, entries: Sequence[Entry], topics: Collection[str] | None
) -> Iterator[Finding]:
    gaps = [gap for gap in view.gaps if topics is None or gap.partition_id.topic in topics]
    yield from iter_coverage_findings(view.name, entries, gaps, view.positions)
    if view.intent is not None:
        yield Finding(
            severity=Severity.INFO,
            kind=FindingKind.OPEN_INTENT,
            log=view.name,
            key=f"_kafkeep/{view.name}/log/",
            message=f"{len(view.intent.ranges)} ranges are being backed up or were interrupted",
        )


def _check_objects(
    store: ObjectStore,
    work: Sequence[tuple[str, Entry]],
    listed: dict[str, int],
    options: Mapping[str, ReadOptions],
    *,
    deep: bool,
    workers: int,
    progress: OnProgress | None,
) -> list[CheckedObject]:
    """Check objects in threads; results in the order of ``work``."""

    def check(number: int) -> tuple[int, CheckedObject]:
        log, entry = work[number]
        size = listed.get(entry.key)
        read_options = options.get(log, NO_OPTIONS)
        return number, check_object(store, log, entry.stored, size, deep=deep, options=read_options)

    results: dict[int, CheckedObject] = {}
    waiting = iter(range(len(work)))
    with ThreadPoolExecutor(workers, thread_name_prefix="verify") as pool:
        running: set[Future[tuple[int, CheckedObject]]] = set()
        try:
            while True:
                # Submit only a few at a time, so that Ctrl-C does not wait for all.
                free = islice(waiting, workers - len(running))
                running |= {pool.submit(check, number) for number in free}
                if not running:
                    break
                done, running = wait(running, return_when=FIRST_COMPLETED)
                results.update(future.result() for future in done)
                if progress is not None:
                    progress(len(results), len(work))
        finally:
            pool.shutdown(wait=True, cancel_futures=True)
    return [results[number] for number in range(len(work))]


def _iter_explained(
    store: ObjectStore,
    views: Sequence[ArchiveView],
    work: Sequence[tuple[str, Entry]],
    checked: Sequence[CheckedObject],
    now_ms: int | None,
) -> Iterator[Finding]:
    """Yield the findings; a missing object that may have expired is not damage."""
    now = clock.now_ms() if now_ms is None else now_ms
    expiries = {view.name: Expiry(store, view, now) for view in views}
    for (log, entry), result in zip(work, checked, strict=True):
        for found in result.findings:
            reason = expiries[log].reason(entry) if found.kind is FindingKind.MISSING else None
            if reason is None:
                yield found
            else:
                text = f"{found.message}; {reason}"
                yield replace(
                    found, severity=Severity.WARNING, kind=FindingKind.EXPIRED, message=text
                )


def _iter_orphans(
    store: ObjectStore,
    names: Sequence[str],
    listed: dict[str, int],
    named: set[str],
    broken: Collection[str],
) -> Iterator[Finding]:
    views: dict[str, ArchiveView] = {}

    def reload() -> Iterator[ArchiveView]:
        for name in names:
            if (view := _load(store, name, [])) is not None:
                views[name] = view
                yield view

    orphans = find_left_overs(store, listed, named, reload)
    states = {name: view.state for name, view in views.items() if name not in broken}
    beyond = check_objects_beyond(store, orphans, states)
    yield from beyond.findings
    if beyond.unasked:
        text = f"{beyond.unasked} objects that no log names were not compared with the logs"
        yield _orphan("", text)
    for key, size_bytes in orphans.items():
        if key not in beyond.keys:
            yield _orphan(key, f"{size_bytes} bytes that no log names")


def _orphan(key: str, message: str) -> Finding:
    return Finding(
        severity=Severity.INFO, kind=FindingKind.ORPHAN, log="", key=key, message=message
    )


def _stray(found: StrayFile) -> Finding:
    text = f"it {found.reason}; it was skipped"
    return Finding(
        severity=Severity.INFO, kind=FindingKind.STRAY, log="", key=found.path, message=text
    )


class _Tile(NamedTuple):
    range: OffsetRange
    entry: Entry | None


def iter_coverage_findings(
    log: str, entries: Iterable[Entry], gaps: Iterable[Gap], positions: Mapping[PartitionId, int]
) -> Iterator[Finding]:
    """Yield overlaps and objects past the position (damage), gaps, and ranges without an object."""
    tiles: dict[PartitionId, list[_Tile]] = defaultdict(list)
    for partition_id, mine in entries_by_partition(entries).items():
        for window in iter_windows(mine):
            tiles[partition_id].append(_Tile(window.range, window.entries[0]))
            yield from _iter_window(log, window)
    for gap in gaps:
        tiles[gap.partition_id].append(_Tile(gap.range, None))
        yield _note(
            Severity.WARNING,
            FindingKind.GAP,
            log,
            gap.partition_id,
            f"offsets {gap.range.start} to {gap.range.end - 1} were never archived: {gap.reason}",
        )
    for partition_id, laid in sorted(tiles.items()):
        yield from _iter_partition(log, partition_id, laid, positions.get(partition_id, 0))


def _iter_window(log: str, window: Window) -> Iterator[Finding]:
    """Yield damage unless all objects of a window are in the log and match each other."""
    first, count = window.entries[0], len(window.entries)
    if count != first.parts:
        text = f"{count} objects hold its offsets, the log counts {first.parts}"
        yield damage(FindingKind.MISCOUNTED, log, first, text, window.range)
    elif not window.is_segment:
        try:
            window.files()
        except DamagedError as error:
            yield damage(FindingKind.MISCOUNTED, log, first, error.message, window.range)
        if window.records > len(window.range):
            text = f"{window.records} records for {len(window.range)} offsets"
            yield damage(FindingKind.MISCOUNTED, log, first, text, window.range)


def _iter_partition(
    log: str, partition_id: PartitionId, tiles: list[_Tile], position: int
) -> Iterator[Finding]:
    tiles = sorted(tiles, key=lambda tile: tile.range)
    reached = tiles[0].range.start
    for tile in tiles:
        if tile.range.start < reached and tile.entry is not None:
            last = min(reached, tile.range.end) - 1
            text = f"offsets {tile.range.start} to {last} are in two objects"
            yield damage(FindingKind.OVERLAP, log, tile.entry, text)
        if tile.range.start > reached:
            yield _empty(log, partition_id, OffsetRange(reached, tile.range.start))
        reached = max(reached, tile.range.end)
        if tile.range.end > position and tile.entry is not None:
            text = f"ends at {tile.range.end}, past the position {position} of its partition"
            yield damage(FindingKind.BROKEN_CHAIN, log, tile.entry, text)
    if reached < position:
        yield _empty(log, partition_id, OffsetRange(reached, position))


def _empty(log: str, partition_id: PartitionId, offsets: OffsetRange) -> Finding:
    text = f"offsets {offsets.start} to {offsets.end - 1} held no records and have no object"
    return _note(Severity.INFO, FindingKind.NO_OBJECT, log, partition_id, text)


def _note(
    severity: Severity, kind: FindingKind, log: str, partition_id: PartitionId, message: str
) -> Finding:
    key = f"topics/{partition_id.folder}/partition={partition_id.partition}/"
    return Finding(
        severity=severity,
        kind=kind,
        log=log,
        key=key,
        message=message,
        partition_id=partition_id,
    )
