"""The names of a sink's objects, and the records whose object cannot have a name. Pure.

The length of a name is checked before its object exists, with the longest offsets and times. So no
record that has passed is refused later because of the name of its object.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

from kafkeep.archive.entry import PartitionId
from kafkeep.archive.names import KeyLimits, check_key
from kafkeep.errors import RecordError
from kafkeep.objects.range_writer import MAX_NAMES
from kafkeep.options.sink.files import NameFacts, NamingOptions, format_name

_LONGEST_OFFSET = 2**63 - 1
_LONGEST_TIME = -(2**63)
_REMEMBERED = 1 << 14
_SHOWN = 150
_NAMES = "No part of a name is empty, . or .., or has a backslash or a control character."


def object_key(naming: NamingOptions, facts: NameFacts, *, extra: int = 0) -> str:
    """Return the name of an object; ``extra`` zeros keep it apart from an object of others.

    No two objects of a partition have the same first or last offset, and every layout has one of
    these in the name, with topic and partition. The name is not checked: see ``NameCheck``.
    """
    if naming.name_template is None:
        return _confluent_key(naming, facts, extra)
    name = format_name(naming.name_template, facts, extra=extra)
    return f"{naming.topics_dir}/{name}" if naming.topics_dir else name


def _confluent_key(naming: NamingOptions, facts: NameFacts, extra: int) -> str:
    first, folder = facts.start_offset, facts.topic
    if facts.incarnation > 1:
        folder = f"{facts.topic}~{facts.incarnation}"
    digits = max(naming.pad_width, len(str(first))) + extra
    name = naming.file_delim.join([facts.topic, str(facts.partition), f"{first:0>{digits}d}"])
    delim = naming.directory_delim
    path = facts.path.replace("/", delim)
    parts = [naming.topics_dir, folder, path, name + facts.extension]
    return delim.join(part for part in parts if part)


class NameCheck:
    """Finds directories in which no object can have a valid name.

    Checks each directory once, not with every batch that has records for it.
    """

    def __init__(self, naming: NamingOptions, limits: KeyLimits, extension: str) -> None:
        """Check for a store's limits and the longest extension of the objects."""
        self._naming = naming
        self._limits = limits
        self._extension = extension
        self._known = lru_cache(maxsize=_REMEMBERED)(self._judge)

    def refusals(
        self, source: PartitionId, topic: str, paths: Iterable[str]
    ) -> list[RecordError | None]:
        """Return for each path why no record of ``source`` can be stored there, or None."""
        known = self._known
        return [known(source, topic, path) for path in paths]

    def _judge(self, source: PartitionId, topic: str, path: str) -> RecordError | None:
        facts = NameFacts(
            topic=topic,
            incarnation=source.incarnation,
            partition=source.partition,
            start_offset=_LONGEST_OFFSET,
            last_offset=_LONGEST_OFFSET,
            first_timestamp=_LONGEST_TIME,
            last_timestamp=_LONGEST_TIME,
            path=path,
            extension=self._extension,
        )
        where = f"{topic}/{path}"[:_SHOWN]
        try:
            key = object_key(self._naming, facts, extra=MAX_NAMES - 1)
            if self._is_long(key):
                return RecordError(
                    f"an object in {where!r} has a name of up to {len(key.encode())} bytes,"
                    f" but the store takes {self._limits}",
                    hint="Place by fewer or shorter fields.",
                )
            check_key(key)
        except ValueError:
            return RecordError(f"no object can lie in {where!r}", hint=_NAMES)
        return None

    def _is_long(self, key: str) -> bool:
        if len(key.encode()) > self._limits.key_bytes:
            return True
        most = self._limits.folder_bytes
        return most is not None and any(len(f.encode()) > most for f in key.split("/")[:-1])
