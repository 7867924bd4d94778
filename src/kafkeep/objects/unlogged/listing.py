"""List the objects of a bucket that has no log, by their names. On the driver.

Names are those of Confluent's sink,
``<topics.dir>/<topic>/<directories>/<topic>+<partition>+<offset>[.keys|.headers]<extension>``, with
other delimiters if the sink was configured so. The offset is that of the object's first record.
Where it has more digits than names are padded to, names no longer sort like offsets.

Or names are any, if the source runs in mode GENERIC. There a list of regular expressions gives each
object its topic; its name tells neither partition nor offset. So the objects of a topic form one
partition, in the order of their folders and names, and get offsets once their records are counted.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache

from kafkeep.archive.names import ROOT
from kafkeep.archive.object_store import ObjectStore
from kafkeep.objects.formats.open import format_of_extension
from kafkeep.options.sink.formats import Compression, FormatKind
from kafkeep.options.unlogged import UnloggedOptions

NO_OFFSET = -1
"""The start of an object whose name has no offset, until its records are counted."""
_VIEWS = ("keys", "headers")
_TOPIC = r"(?P<topic>[A-Za-z0-9._-]{1,249}?)"
MOST_ODD = 1000


@dataclass(frozen=True, slots=True)
class Listed:
    """An object and its size."""

    name: UnloggedName
    size_bytes: int


@dataclass(slots=True)
class Listing:
    """The objects of a bucket, by topic, partition and offset."""

    objects: list[Listed] = field(default_factory=list)
    odd: list[tuple[str, str]] = field(default_factory=list)
    """Keys that do not fit, and why; the first thousand."""
    odd_count: int = 0
    odd_bytes: int = 0
    others: set[str] = field(default_factory=set)
    """Topics of objects that were not wanted."""

    @property
    def topics(self) -> set[str]:
        """The topics of the objects."""
        return {one.name.topic for one in self.objects}

    def add_odd(self, key: str, why: str, size_bytes: int = 0) -> None:
        """Count an object that does not fit, and keep its name while there is room."""
        self.odd_count += 1
        self.odd_bytes += size_bytes
        if len(self.odd) < MOST_ODD:
            self.odd.append((key, why))


def list_unlogged(
    store: ObjectStore,
    options: UnloggedOptions,
    wanted: Callable[[str], bool] = lambda _topic: True,
) -> Listing:
    """List what lies under ``topics.dir``, of the topics that are wanted."""
    found = Listing()
    names = Names(options)
    for key, size in _iter_keys(store, names.prefix):
        name = names.parse(key)
        if isinstance(name, str):
            found.add_odd(key, name, size)
        elif name is not None and wanted(name.topic):
            found.objects.append(Listed(name, size))
        elif name is not None:
            found.others.add(name.topic)
    for stray in store.strays(names.prefix):
        found.add_odd(stray.path, stray.reason)
    found.objects.sort(key=lambda one: one.name)
    return found


def _iter_keys(store: ObjectStore, prefix: str) -> Iterator[tuple[str, int]]:
    for info in store.list(prefix):
        if not (info.key.endswith("/") and not info.size_bytes):  # folders some tools make
            yield info.key, info.size_bytes


@dataclass(frozen=True, slots=True, order=True)
class UnloggedName:
    """A parsed object name; names sort by topic, partition and offset."""

    topic: str
    partition: int
    start: int
    folder: str
    """All of the key before the file's name, with the delimiter."""
    key: str
    view: str
    """``value``, ``keys`` or ``headers``; keys of tombstones are ``keys``."""
    format: FormatKind
    compression: Compression
    tombstones: bool
    """Whether it lies in the folder of tombstones."""

    @property
    def stem(self) -> tuple[str, str, int, int]:
        """The same for the objects of one file; without an offset each is a file of its own."""
        place = self.key if self.start == NO_OFFSET else self.folder
        return place, self.topic, self.partition, self.start


class Names:
    """Parses names as the options define them: of a sink, or by ``topic.regex.list``."""

    def __init__(self, options: UnloggedOptions) -> None:
        naming = options.naming
        self.prefix = naming.topics_dir + naming.directory_delim if naming.topics_dir else ""
        """Where all of them begin."""
        kind = _SinkNames if options.generic is None else _GenericNames
        self._names = kind(options, len(self.prefix))

    def parse(self, key: str) -> UnloggedName | str | None:
        """Return what a key tells, why it is no such name, or None for what is kafkeep's own."""
        if key.startswith(ROOT):
            return None
        if not key.startswith(self.prefix):
            return f"is not under {self.prefix}"
        return self._names.parse(key)


class _SinkNames:
    def __init__(self, options: UnloggedOptions, start: int) -> None:
        naming = options.naming
        self._start = start
        self._pattern = _pattern(naming.directory_delim, naming.file_delim)
        self._slash = naming.directory_delim
        self._tombstones = options.tombstones
        self._extension = options.format.format_bytearray_extension
        self._kind = options.kind

    def parse(self, key: str) -> UnloggedName | str:
        found = self._pattern.fullmatch(key, self._start)
        if found is None:
            return "is not named <topic>+<partition>+<offset>.<extension> in a folder of its topic"
        end = found["end"] or ""
        view = next((one for one in _VIEWS if end.startswith(f".{one}")), "value")
        rest = end.removeprefix(f".{view}")
        told = format_of_extension(rest, bytes_extension=self._extension)
        if told is None:
            return f"ends in {end!r}, which is none of the formats"
        if view == "value" and self._kind not in (None, told[0]):
            return f"is {told[0]}, and format.class is {self._kind}"
        directories = found["dirs"] or ""
        return UnloggedName(
            found["topic"],
            int(found["partition"]),
            int(found["start"]),
            key[: found.start("file")],
            key,
            view,
            told[0],
            told[1],
            directories.split(self._slash)[0] == self._tombstones,
        )


class _GenericNames:
    """Takes names as ``topic.regex.list`` tells: the first expression that fits a whole key."""

    def __init__(self, options: UnloggedOptions, _start: int) -> None:
        self._topics = options.generic or ()
        self._slash = options.naming.directory_delim
        self._extension = options.format.format_bytearray_extension
        self._kind = options.kind

    def parse(self, key: str) -> UnloggedName | str:
        topic = next((name for name, pattern in self._topics if pattern.matches(key)), None)
        if topic is None:
            return "fits no expression of topic.regex.list"
        told = format_of_extension(key, bytes_extension=self._extension)
        if told is None or self._kind not in (None, told[0]):
            return f"does not end as {self._kind or 'any of the formats'} does"
        folder = key[: key.rfind(self._slash) + len(self._slash)] if self._slash in key else ""
        return UnloggedName(topic, 0, NO_OFFSET, folder, key, "value", *told, tombstones=False)


@lru_cache(maxsize=64)
def _pattern(slash: str, plus: str) -> re.Pattern[str]:
    s, p = re.escape(slash), re.escape(plus)
    numbers = rf"(?P<partition>\d{{1,10}}){p}(?P<start>\d{{1,19}})"
    file = rf"(?P<file>(?P=topic){p}{numbers}(?P<end>\D.*)?)"
    return re.compile(rf"{_TOPIC}{s}(?:(?P<dirs>.*){s})?{file}", re.DOTALL)
