"""List the objects of an unlogged bucket, and parse their names. Runs on the driver.

By default names are those of Confluent's sink,
``<topics.dir>/<topic>/<directories>/<topic>+<partition>+<offset>[.keys|.headers]<extension>``, with
the configured delimiters. The offset is that of the object's first record. An offset with more
digits than the padding makes names sort differently from offsets.

In mode GENERIC names may be arbitrary. A list of regular expressions gives each object its topic,
but the name has neither partition nor offset. The objects of a topic therefore form one partition,
in the order of their folders and names. They get offsets after their records are counted.
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
"""The start offset of an object without an offset in its name, until records are counted."""
_VIEWS = ("keys", "headers")
_TOPIC = r"(?P<topic>[A-Za-z0-9._-]{1,249}?)"
MOST_ODD = 1000


@dataclass(frozen=True, slots=True)
class ListedFile:
    """An object and its size."""

    name: UnloggedName
    size_bytes: int


@dataclass(slots=True)
class Listing:
    """The objects of a bucket, by topic, partition and offset."""

    objects: list[ListedFile] = field(default_factory=list)
    odd: list[tuple[str, str]] = field(default_factory=list)
    """The first thousand keys that do not match, each with the reason."""
    odd_count: int = 0
    odd_bytes: int = 0
    others: set[str] = field(default_factory=set)
    """The topics of objects that ``wanted`` rejected."""

    @property
    def topics(self) -> set[str]:
        """The topics of the objects."""
        return {one.name.topic for one in self.objects}

    def add_odd(self, key: str, why: str, size_bytes: int = 0) -> None:
        """Count an object whose key does not match, and keep its key up to a limit."""
        self.odd_count += 1
        self.odd_bytes += size_bytes
        if len(self.odd) < MOST_ODD:
            self.odd.append((key, why))


def list_unlogged(
    store: ObjectStore,
    options: UnloggedOptions,
    wanted: Callable[[str], bool] = lambda _topic: True,
) -> Listing:
    """List the objects of the wanted topics under ``topics.dir``."""
    found = Listing()
    names = NameParser(options)
    for key, size in _iter_keys(store, names.prefix):
        name = names.parse(key)
        if isinstance(name, str):
            found.add_odd(key, name, size)
        elif name is not None and wanted(name.topic):
            found.objects.append(ListedFile(name, size))
        elif name is not None:
            found.others.add(name.topic)
    for stray in store.strays(names.prefix):
        found.add_odd(stray.path, stray.reason)
    found.objects.sort(key=lambda one: one.name)
    return found


def _iter_keys(store: ObjectStore, prefix: str) -> Iterator[tuple[str, int]]:
    for info in store.list(prefix):
        if not (info.key.endswith("/") and not info.size_bytes):  # folder markers of other tools
            yield info.key, info.size_bytes


@dataclass(frozen=True, slots=True, order=True)
class UnloggedName:
    """A parsed object name. Names sort by topic, partition and offset."""

    topic: str
    partition: int
    start: int
    folder: str
    """The part of the key before the file name, including the delimiter."""
    key: str
    view: str
    """``value``, ``keys`` or ``headers``. Keys of tombstones are ``keys``."""
    format: FormatKind
    compression: Compression
    tombstones: bool
    """Whether the object is in the folder of tombstones."""

    @property
    def stem(self) -> tuple[str, str, int, int]:
        """The identity of a file: equal for its values, keys and headers.

        Each object without an offset in its name is a separate file.
        """
        place = self.key if self.start == NO_OFFSET else self.folder
        return place, self.topic, self.partition, self.start


class NameParser:
    """Parses names by the options: names of a sink, or names for ``topic.regex.list``."""

    def __init__(self, options: UnloggedOptions) -> None:
        naming = options.naming
        self.prefix = naming.topics_dir + naming.directory_delim if naming.topics_dir else ""
        """The common prefix of all keys."""
        kind = _SinkNames if options.generic is None else _GenericNames
        self._names = kind(options, len(self.prefix))

    def parse(self, key: str) -> UnloggedName | str | None:
        """Return the parsed name, or a reason when the key does not match.

        Return None for kafkeep's own objects.
        """
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
        kind = format_of_extension(rest, bytes_extension=self._extension)
        if kind is None:
            return f"ends in {end!r}, which is none of the formats"
        if view == "value" and self._kind not in (None, kind[0]):
            return f"is {kind[0]}, and format.class is {self._kind}"
        directories = found["dirs"] or ""
        return UnloggedName(
            found["topic"],
            int(found["partition"]),
            int(found["start"]),
            key[: found.start("file")],
            key,
            view,
            *kind,
            directories.split(self._slash)[0] == self._tombstones,
        )


class _GenericNames:
    """Parses names by ``topic.regex.list``. The first expression that matches the key applies."""

    def __init__(self, options: UnloggedOptions, _start: int) -> None:
        self._topics = options.generic or ()
        self._slash = options.naming.directory_delim
        self._extension = options.format.format_bytearray_extension
        self._kind = options.kind

    def parse(self, key: str) -> UnloggedName | str:
        topic = next((name for name, pattern in self._topics if pattern.matches(key)), None)
        if topic is None:
            return "fits no expression of topic.regex.list"
        kind = format_of_extension(key, bytes_extension=self._extension)
        if kind is None or self._kind not in (None, kind[0]):
            return f"does not end as {self._kind or 'any of the formats'} does"
        folder = key[: key.rfind(self._slash) + len(self._slash)] if self._slash in key else ""
        return UnloggedName(topic, 0, NO_OFFSET, folder, key, "value", *kind, tombstones=False)


@lru_cache(maxsize=64)
def _pattern(slash: str, plus: str) -> re.Pattern[str]:
    s, p = re.escape(slash), re.escape(plus)
    numbers = rf"(?P<partition>\d{{1,10}}){p}(?P<start>\d{{1,19}})"
    file = rf"(?P<file>(?P=topic){p}{numbers}(?P<end>\D.*)?)"
    return re.compile(rf"{_TOPIC}{s}(?:(?P<dirs>.*){s})?{file}", re.DOTALL)
