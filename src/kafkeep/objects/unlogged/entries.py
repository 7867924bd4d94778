"""Group scanned objects into files (values with keys and headers), and files into windows. Pure.

The name has an object's first offset, and the scan gives its row count. The end offset is unknown.
Objects of a partition are ordered by first offset. If the rows of an object fill all offsets up to
the next object, the object is one window and the offset of each row is known. If there are fewer
rows, some offsets are holes, and it is unknown which. The same holds for the last object. Objects
that must overlap, because several directories were written at once, form one window. The order of
rows is known inside each object of the window, but not between objects.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby, pairwise

from kafkeep.archive.entry import Entry, OffsetRange, PartitionId
from kafkeep.objects.sink.read_windows import LAST, UNKNOWN
from kafkeep.objects.unlogged.listing import UnloggedName
from kafkeep.objects.unlogged.scan import ScannedObject
from kafkeep.options.sink.formats import FormatKind
from kafkeep.options.unlogged import UnloggedOptions


@dataclass(frozen=True, slots=True)
class UnloggedFile:
    """The objects that hold parts of the same records."""

    main: ScannedObject
    """The object of values, or of the keys of tombstones."""
    keys: ScannedObject | None = None
    headers: ScannedObject | None = None

    @property
    def start(self) -> int:
        """The offset in the object's name."""
        return self.main.name.start

    @property
    def end(self) -> int:
        """The lowest possible end offset. It is higher if offsets are missing."""
        return self.start + self.main.records

    @property
    def objects(self) -> tuple[ScannedObject, ...]:
        """All objects of the file."""
        return tuple(one for one in (self.main, self.keys, self.headers) if one is not None)


@dataclass(slots=True)
class GroupedFiles:
    """The entries of the usable objects, and the objects with problems."""

    entries: list[Entry] = field(default_factory=list)
    problems: list[tuple[str, str]] = field(default_factory=list)
    """Unusable objects, each with the reason. The whole file of such an object is left out."""
    repeats: list[str] = field(default_factory=list)
    """Objects that begin before the end of the previous object in the same folder."""


def group(scanned: Iterable[ScannedObject], options: UnloggedOptions) -> GroupedFiles:
    """Group objects by topic and partition into windows, and return their entries."""
    found = GroupedFiles()
    ordered = sorted(scanned, key=lambda one: one.name)
    for _, members in groupby(ordered, key=lambda one: (one.name.topic, one.name.partition)):
        files = sorted(
            _join(list(members), options, found), key=lambda f: (f.start, f.main.name.key)
        )
        files = _corrected(list(_each_once(files, found)))
        files = list(_separable(files, options.rotate.flush_size, found))
        found.entries.extend(_entries(files, found))
    return found


def expects(names: Iterable[UnloggedName], options: UnloggedOptions) -> dict[str, bool]:
    """Return whether values need keys and headers, by the options or by the other objects."""
    views = {name.view for name in names if not name.tombstones}
    texts = options.texts
    return {
        "keys": options.naming.store_kafka_keys if "store.kafka.keys" in texts else "keys" in views,
        "headers": options.naming.store_kafka_headers
        if "store.kafka.headers" in texts
        else "headers" in views,
    }


def _join(
    objects: Sequence[ScannedObject], options: UnloggedOptions, found: GroupedFiles
) -> Iterator[UnloggedFile]:
    wanted = expects((one.name for one in objects), options)
    by_stem: dict[tuple[str, str, int, int], list[ScannedObject]] = {}
    for one in objects:
        by_stem.setdefault(one.name.stem, []).append(one)
    for members in by_stem.values():
        problem = _problem(members, wanted)
        if problem is not None:
            found.problems.append(problem)
            continue
        views = {one.name.view: one for one in members}
        main = views.pop("value", None) or views.pop("keys")
        yield UnloggedFile(main, views.get("keys"), views.get("headers"))


def _problem(members: Sequence[ScannedObject], wanted: dict[str, bool]) -> tuple[str, str] | None:
    """Return the object that makes a file unusable, and the reason; None for a usable file."""
    for one in members:
        if one.problem:
            return one.name.key, one.problem
    names = [one.name for one in members]
    views = [name.view for name in names]
    for view in views:
        if views.count(view) > 1:
            return names[0].key, f"{views.count(view)} objects of one name hold its {view}"
    first = names[0]
    if "value" in views:
        for view, needed in wanted.items():
            if needed and view not in views and not first.tombstones:
                return first.key, f"its {view} are not beside it, as they are with others"
    elif not first.tombstones or "keys" not in views:
        return first.key, "there are no values beside it"
    main = next((one for one in members if one.name.view == "value"), members[0])
    for one in members:
        if one.records != main.records and not _may_be_single(one, members):
            return one.name.key, f"it has {one.records} rows, {main.name.key} has {main.records}"
    return None


def _may_be_single(one: ScannedObject, members: Sequence[ScannedObject]) -> bool:
    """Return whether keys or headers show that a bytes object holds one record.

    Its value may contain the separator, so its own row count may be wrong.
    """
    others = [o.records for o in members if o.name.format is not FormatKind.BYTES]
    return one.name.format is FormatKind.BYTES and others[:1] == [1]


def _each_once(files: Sequence[UnloggedFile], found: GroupedFiles) -> Iterator[UnloggedFile]:
    """Leave out files that begin at the same offset, because they contradict each other."""
    for _, members in groupby(files, key=lambda file: file.start):
        first, *others = members
        if others:
            for file in (first, *others):
                found.problems.append(
                    (file.main.name.key, "another object of the partition begins at its offset")
                )
            continue
        yield first


def _separable(
    files: Sequence[UnloggedFile], most: int | None, found: GroupedFiles
) -> Iterator[UnloggedFile]:
    """Leave out bytes objects with too many rows, whose values contain the separator."""
    ends: dict[str, int] = {}
    kept = []
    for file in reversed(files):
        folder = file.main.name.folder
        end = ends.get(folder, LAST)
        ends[folder] = file.start
        rows = file.main.records
        plain = any(one.name.format is FormatKind.BYTES for one in file.objects)
        if plain and (file.start + rows > end or rows > (most or rows)):
            found.problems.append(
                (
                    file.main.name.key,
                    f"its records cannot be separated: split at the separator they are {rows}, "
                    f"and it has at most {min(end - file.start, most or rows)}",
                )
            )
            continue
        kept.append(file)
    return reversed(kept)


def _corrected(files: list[UnloggedFile]) -> list[UnloggedFile]:
    """Correct the row count of bytes objects that are known to hold one record.

    Each object holds one record if the offsets in all names ascend by one. An object also holds one
    record if its keys or headers have one row. Empty objects are left out.
    """
    steps = {after.start - before.start for before, after in pairwise(files)}
    made = []
    for file in files:
        beside = [one for one in file.objects if one.name.format is not FormatKind.BYTES]
        single = (bool(beside) and beside[0].records == 1) or (steps == {1} and not beside)
        if single and any(one.records != 1 for one in file.objects):
            made.append(_single(file))
        elif file.main.records:
            made.append(file)
    return made


def _single(file: UnloggedFile) -> UnloggedFile:
    keys, headers = (one and replace(one, records=1) for one in (file.keys, file.headers))
    return UnloggedFile(replace(file.main, records=1), keys, headers)


@dataclass(slots=True)
class _Window:
    """Collects the files of one window, whose offsets may overlap."""

    start: int
    reach: int
    """The first offset that no file of the window needs."""
    files: list[UnloggedFile] = field(default_factory=list)
    covered: dict[str, int] = field(default_factory=dict)
    """Folder → end offset. The files of one folder follow each other."""

    @property
    def least_end(self) -> int:
        """The minimum end offset of the last window of a partition.

        It is one more than the rows need. Otherwise readers would take the offsets as known, but
        there may be holes that no next object reveals.
        """
        one = len(self.files) == 1 and self.files[0].main.records == 1
        return self.reach if one else self.reach + 1

    def add(self, file: UnloggedFile) -> bool:
        """Add a file. Return whether it overlaps the previous file of its folder."""
        folder = file.main.name.folder
        again = min(max(0, self.covered.get(folder, 0) - file.start), file.main.records)
        self.reach += file.main.records - again
        self.covered[folder] = max(self.covered.get(folder, 0), file.end)
        self.files.append(file)
        return again > 0


def _windows(files: Sequence[UnloggedFile], found: GroupedFiles) -> Iterator[_Window]:
    window: _Window | None = None
    for file in files:
        if window is None or file.start >= window.reach:
            if window is not None:
                yield window
            window = _Window(file.start, file.start)
        if window.add(file):
            found.repeats.append(file.main.name.key)
    if window is not None:
        yield window


def _entries(files: Sequence[UnloggedFile], found: GroupedFiles) -> Iterator[Entry]:
    windows = list(_windows(files, found))
    for window, following in zip(windows, [*windows[1:], None], strict=False):
        end = following.start if following else window.least_end
        covered = OffsetRange(window.start, end)
        parts = sum(len(file.objects) for file in window.files)
        for file in window.files:
            for one in file.objects:
                yield _entry(one, file, covered, parts)


def _entry(one: ScannedObject, file: UnloggedFile, range: OffsetRange, parts: int) -> Entry:
    name = one.name
    view = "tombstones" if one is file.main and name.view == "keys" else name.view
    return Entry(
        key=name.key,
        partition_id=PartitionId(name.topic, 1, name.partition),
        topic_id="",
        range=range,
        records=one.records,
        min_timestamp=UNKNOWN,
        max_timestamp=LAST,
        size_bytes=one.size_bytes,
        raw_bytes=one.size_bytes,
        format=name.format.value,
        codec=name.compression.value,
        sha256=one.sha256,
        view=view,
        parts=parts,
    )
