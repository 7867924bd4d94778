"""Objects of any name, as Confluent's source reads them in mode GENERIC. Pure.

A list of regular expressions gives each object its topic; its name tells neither partition nor
offset. So the objects of a topic are one partition, in the order of their folders and names, and
get their places in it once they are counted.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from kafkeep.archive.names import ROOT
from kafkeep.config.foreign import ForeignOptions
from kafkeep.contents.foreign.names import NO_OFFSET, ForeignName, Names
from kafkeep.formats.open import format_of_extension

if TYPE_CHECKING:
    from kafkeep.contents.foreign.scan import Scanned


class GenericNames:
    """Takes names as ``topic.regex.list`` tells: the first expression that fits a whole key."""

    def __init__(self, options: ForeignOptions) -> None:
        naming = options.naming
        self.prefix = naming.topics_dir + naming.directory_delim if naming.topics_dir else ""
        self._topics = options.generic or ()
        self._slash = naming.directory_delim
        self._extension = options.format.format_bytearray_extension
        self._kind = options.kind

    def parse(self, key: str) -> ForeignName | str | None:
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
        return ForeignName(topic, 0, NO_OFFSET, folder, key, "value", *told, tombstones=False)


def names_of(options: ForeignOptions) -> Names | GenericNames:
    """Return what takes names apart as the options want it."""
    return Names(options) if options.generic is None else GenericNames(options)


def numbered(scanned: Iterable[Scanned], after: Mapping[str, int]) -> Iterator[Scanned]:
    """Give objects without an offset theirs, in the order given; ``after`` is where topics go on.

    An object without records takes up room as well, so that no two begin at one offset; it is more
    than one, for else all might seem to have one record each.
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
