"""Parse the object names of Confluent's sink. Pure.

``<topics.dir>/<topic>/<directories>/<topic>+<partition>+<offset>[.keys|.headers]<extension>``, with
other delimiters if the sink was configured so. The offset is that of the object's first record.
Where it has more digits than names are padded to, names no longer sort like offsets.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from kafkeep.archive.names import ROOT
from kafkeep.objects.formats.open import format_of_extension
from kafkeep.options.sink.formats import Compression, FormatKind
from kafkeep.options.unlogged import UnloggedOptions

NO_OFFSET = -1
"""The start of an object whose name has no offset, until its records are counted."""
_VIEWS = ("keys", "headers")
_TOPIC = r"(?P<topic>[A-Za-z0-9._-]{1,249}?)"


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
    """Parses names as the options of one sink define them."""

    def __init__(self, options: UnloggedOptions) -> None:
        naming = options.naming
        slash = naming.directory_delim
        self.prefix = naming.topics_dir + slash if naming.topics_dir else ""
        """Where all of them begin."""
        self._pattern = _pattern(slash, naming.file_delim)
        self._slash = slash
        self._tombstones = options.tombstones
        self._extension = options.format.format_bytearray_extension
        self._kind = options.kind

    def parse(self, key: str) -> UnloggedName | str | None:
        """Return what a key tells, why it is no such name, or None for what is kafkeep's own."""
        if key.startswith(ROOT):
            return None
        if not key.startswith(self.prefix):
            return f"is not under {self.prefix}"
        found = self._pattern.fullmatch(key, len(self.prefix))
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


@lru_cache(maxsize=64)
def _pattern(slash: str, plus: str) -> re.Pattern[str]:
    s, p = re.escape(slash), re.escape(plus)
    numbers = rf"(?P<partition>\d{{1,10}}){p}(?P<start>\d{{1,19}})"
    file = rf"(?P<file>(?P=topic){p}{numbers}(?P<end>\D.*)?)"
    return re.compile(rf"{_TOPIC}{s}(?:(?P<dirs>.*){s})?{file}", re.DOTALL)
