"""Records of objects that no log names, in order.

Where an object ends is told by its rows and by where the next one begins, so objects are read once
to count and once to print: a few at first, then more, until no more records are wanted.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import groupby

from kafkeep.archive.store import ObjectStore
from kafkeep.care.cat import CatOptions, Planned, iter_pieces, limited, plan_windows
from kafkeep.care.foreign.topics import NamedPartition, sort_by_topic
from kafkeep.care.lines import ToLine
from kafkeep.config.foreign import ForeignOptions
from kafkeep.config.formats import FormatKind
from kafkeep.contents.foreign.find import list_objects
from kafkeep.contents.foreign.group import expects
from kafkeep.contents.foreign.index import Index
from kafkeep.contents.foreign.listing import Listed
from kafkeep.contents.foreign.scan import Scanned, scan
from kafkeep.contents.foreign.view import foreign_view
from kafkeep.contents.options import ReadOptions
from kafkeep.contents.windows import LAST
from kafkeep.errors import DamagedError, UsageError

FIRST_FILES = 4
GROWTH = 4


def iter_foreign_lines(
    store: ObjectStore, foreign: ForeignOptions, options: CatOptions, to_line: ToLine
) -> Iterator[bytes]:
    """Yield the wanted records as text, several at a time, by topic, partition and offset.

    A record whose offset is not known has the offset -1 and is wanted when offsets of its object
    are. Objects that cannot be used are left out; DamagedError names one at the end.
    """
    _refuse(options, foreign)
    yield from limited(_iter_all(store, foreign, options, to_line), options.count)


def _refuse(options: CatOptions, foreign: ForeignOptions) -> None:
    for flag, given in (
        ("--incarnation", options.incarnation is not None),
        ("--aborted", options.aborted),
    ):
        if given:
            raise UsageError(f"{flag} is about what a log says, and there is none")
    timed = options.from_ms is not None or options.until_ms is not None
    if timed and foreign.time_field is None:
        raise UsageError(
            "--from and --until go by record times, which these objects do not hold",
            hint="Where values have one, name it: --set timestamp.extractor=RecordField "
            "--set timestamp.field=…",
        )


def _iter_all(
    store: ObjectStore, foreign: ForeignOptions, options: CatOptions, to_line: ToLine
) -> Iterator[list[bytes]]:
    told = ReadOptions(foreign=foreign).looking()
    problems: list[tuple[str, str]] = []
    for topic in sort_by_topic(list_objects(store, foreign), options.topics):
        for partition in topic.partitions:
            if options.partitions and partition.partition not in options.partitions:
                continue
            for planned in _iter_planned(store, partition, foreign, options, problems):
                yield from iter_pieces(store, planned, told, options, to_line)
    for key, why in problems[:1]:
        more = f"; {len(problems) - 1:,} more cannot be read" if len(problems) > 1 else ""
        raise DamagedError(f"{key}: {why}{more}", hint="kafkeep verify names all of them.")


def _iter_planned(
    store: ObjectStore,
    partition: NamedPartition,
    foreign: ForeignOptions,
    options: CatOptions,
    problems: list[tuple[str, str]],
) -> Iterator[list[Planned]]:
    """Yield windows in order; of each stretch all but the last, whose end the next one tells."""
    needed = expects((one.name for one in partition.objects), foreign)
    beside = {f"store.kafka.{view}": str(there).lower() for view, there in needed.items()}
    pinned = replace(foreign, texts={**foreign.texts, **beside})
    carried: list[Scanned] = []
    for stretch, is_last in _iter_stretches(partition, options):
        scanned = [*carried, *scan(store, stretch, foreign)]
        found = foreign_view(store, Index(0, tuple(scanned)), pinned)
        problems.extend(found.grouped.problems)
        entries = found.grouped.entries
        open_from = LAST if is_last else max((e.range.start for e in entries), default=LAST)
        left = {entry.key for entry in entries if entry.range.start == open_from}
        carried = [one for one in scanned if one.name.key in left]
        planned = plan_windows(found.view, replace(options, topics=()))
        yield [(window, wanted) for window, wanted in planned if window.range.start != open_from]


def _iter_stretches(
    partition: NamedPartition, options: CatOptions
) -> Iterator[tuple[list[Listed], bool]]:
    """Cut the objects that are needed into more and more at a time; the last piece is told.

    All at once where the end must be known first, and bytes: how many records they hold is told
    by all of them.
    """
    start = options.start
    from_end = start.kind == "from-end"
    first = max(0, partition.last_start + 1 - start.value) if from_end else start.value
    files = [list(mine) for _, mine in groupby(_from(partition.objects, first), _start)]
    whole = from_end or any(one.name.format is FormatKind.BYTES for one in partition.objects)
    size, done = len(files) if whole else FIRST_FILES, 0
    while done < len(files):
        piece = files[done : done + size]
        done, size = done + size, size * GROWTH
        yield [one for file in piece for one in file], done >= len(files)


def _start(one: Listed) -> int:
    return one.name.start


def _from(objects: Sequence[Listed], first: int) -> list[Listed]:
    """Leave out objects whose folder has another one that begins at or before ``first``."""
    before: dict[str, int] = {}
    for one in objects:
        if one.name.start <= first:
            folder = one.name.folder
            before[folder] = max(before.get(folder, 0), one.name.start)
    return [one for one in objects if one.name.start >= before.get(one.name.folder, 0)]
