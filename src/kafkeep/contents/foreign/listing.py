"""The objects of a bucket that fit the names of Confluent's sink. On the driver."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from kafkeep.archive.store import ObjectStore
from kafkeep.config.foreign import ForeignOptions
from kafkeep.contents.foreign.generic import names_of
from kafkeep.contents.foreign.names import ForeignName

MOST_ODD = 1000


@dataclass(frozen=True, slots=True)
class Listed:
    """An object and its size."""

    name: ForeignName
    size_bytes: int


@dataclass(slots=True)
class Listing:
    """What a listing found, by topic, partition and offset."""

    objects: list[Listed] = field(default_factory=list)
    odd: list[tuple[str, str]] = field(default_factory=list)
    """Keys that do not fit, and why; the first thousand."""
    odd_count: int = 0
    odd_bytes: int = 0
    others: set[str] = field(default_factory=set)
    """Topics there are objects of that were not wanted."""

    @property
    def topics(self) -> set[str]:
        """The topics there are objects of."""
        return {one.name.topic for one in self.objects}

    def add_odd(self, key: str, why: str, size_bytes: int = 0) -> None:
        """Count what does not fit, and remember its name while there is room."""
        self.odd_count += 1
        self.odd_bytes += size_bytes
        if len(self.odd) < MOST_ODD:
            self.odd.append((key, why))


def list_foreign(
    store: ObjectStore,
    options: ForeignOptions,
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
