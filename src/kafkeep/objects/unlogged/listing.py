"""List the objects of a bucket that has no log. On the driver.

Names are those of Confluent's sink, or any names if the source runs in mode GENERIC. There a list
of regular expressions gives each object its topic; its name tells neither partition nor offset.
So the objects of a topic form one partition, in the order of their folders and names, and get
offsets once their records are counted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from kafkeep.archive.names import ROOT
from kafkeep.archive.object_store import ObjectStore
from kafkeep.objects.formats.open import format_of_extension
from kafkeep.objects.unlogged.names import NO_OFFSET, Names, UnloggedName
from kafkeep.options.unlogged import UnloggedOptions

if TYPE_CHECKING:
    from kafkeep.objects.unlogged.scan import Scanned


class GenericNames:
    """Takes names as ``topic.regex.list`` tells: the first expression that fits a whole key."""

    def __init__(self, options: UnloggedOptions) -> None:
        naming = options.naming
        self.prefix = naming.topics_dir + naming.directory_delim if naming.topics_dir else ""
        self._topics = options.generic or ()
        self._slash = naming.directory_delim
        self._extension = options.format.format_bytearray_extension
        self._kind = options.kind

    def parse(self, key: str) -> UnloggedName | str | None:
        """Return an object's topic and format, why it is left out, or None for kafkeep's own."""
        if key.startswith(ROOT):
            return None
        if not key.startswith(self.prefix):
            return f"is not under {self.prefix}"
        topic = next((name for name, pattern in self._topics if pattern.matches(key)), None)
        if topic is None:
            return "fits no expression of topic.regex.list"
        told = format_of_extension(key, bytes_extension=self._extension)
        if told is None or self._kind not in (None, told[0]):
            return f"does not end as {self._kind or 'any of the formats'} does"
        folder = key[: key.rfind(self._slash) + len(self._slash)] if self._slash in key else ""
        return UnloggedName(topic, 0, NO_OFFSET, folder, key, "value", *told, tombstones=False)


def names_of(options: UnloggedOptions) -> Names | GenericNames:
    """Return the parser of names that the options select."""
    return Names(options) if options.generic is None else GenericNames(options)


def numbered(scanned: Iterable[Scanned], after: Mapping[str, int]) -> Iterator[Scanned]:
    """Give objects without an offset one, in the order given; ``after`` is where topics continue.

    An object without records takes offsets, too, so that no two begin at the same one. It takes
    more than one, or all objects could seem to have one record each.
    """
    nexts = dict(after)
    for one in scanned:
        topic = one.name.topic
        if one.name.start != NO_OFFSET:
            yield one
            continue
        start = nexts.get(topic, 0)
        nexts[topic] = start + (one.records or 2)
        yield replace(one, name=replace(one.name, start=start))


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
    names = names_of(options)
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
